//! The free slots of a slab, lowest first: one bit each.
//!
//! A slab of 64-byte slots has 32,768 of them, so opening one must not touch each.
//! Invariant: no bit below the word `low` is set, and `count` is the number of bits set.

/// Free slots.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    bits: Vec<u64>,
    low: usize,
    count: u32,
}

impl Slots {
    /// `count` slots, all free.
    pub(super) fn new(count: u32) -> Slots {
        let mut bits = vec![u64::MAX; count.div_ceil(64) as usize];
        let rest = count % 64;
        if let Some(last) = bits.last_mut().filter(|_| rest > 0) {
            *last = (1 << rest) - 1;
        }
        Slots { bits, low: 0, count }
    }

    /// Takes the lowest.
    pub(super) fn pop_first(&mut self) -> Option<u32> {
        let found = self.bits[self.low..].iter().position(|word| *word != 0)?;
        self.low += found;
        let word = &mut self.bits[self.low];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        self.count -= 1;
        Some(self.low as u32 * 64 + bit)
    }

    /// Makes a slot free. Panics if it is.
    pub(super) fn insert(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        assert!(self.bits[word] & bit == 0, "a slot is freed once");
        self.bits[word] |= bit;
        self.low = self.low.min(word);
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_lowest_first() {
        for count in [1, 63, 64, 65, 130] {
            let mut slots = Slots::new(count);
            let taken: Vec<u32> = std::iter::from_fn(|| slots.pop_first()).collect();
            assert_eq!(taken, (0..count).collect::<Vec<_>>());
            assert!(slots.is_empty() && slots.pop_first().is_none());
            taken.iter().rev().for_each(|&slot| slots.insert(slot));
            assert_eq!((slots.len() as u32, slots.pop_first()), (count, Some(0)));
        }
    }
}
