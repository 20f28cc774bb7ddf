//! Numbers that look drawn and follow from a seed alone, the same on every computer.
//!
//! Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014
//! (SplitMix64).

/// How far the state goes on with every number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator of such numbers.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts at `seed`.
    pub const fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Number `index`, counted from 0, of the generator that starts at `seed`.
pub const fn split_mix(seed: u64, index: u64) -> u64 {
    SplitMix::new(seed.wrapping_add(index.wrapping_mul(STEP))).draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_the_published_ones() {
        let mut generator = SplitMix::new(0);
        for (index, published) in (0..).zip([0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]) {
            assert_eq!([generator.draw(), split_mix(0, index)], [published; 2]);
        }
    }
}
