//! What a device's limit of power leaves of the rate of products.
//!
//! Kernels that stream draw less power than products. A device that does both in turn keeps its
//! clock as long as products are a small part of its time; beyond that the clock falls the further
//! the more of them there are. On an H100 that multiplied for a second, element-wise kernels in
//! between, products took as long as single ones up to 35 % of the time, 1 to 3 % longer at 50 %, 8
//! and 10 % at 75 %, 13 and 16 % at 100 %
//! (`validation/results/2026-11-27-nvidia-h100-80gb-hbm3-kernels/mixed.csv`: 12 rows of two shapes; its
//! clock fell from 1,980 to about 1,200 MHz).
//! Invariant: what is left is between `sustained` and all of it.

/// From which share of a device's time on products lose something, and from which on as much as in a
/// long run. The share is that of products at the full rate of their formula, which even a run of
/// nothing else does not reach: there it is 0.92 to 0.95. By the rows above, 0.1 to 0.2 of the loss
/// are felt at a share of 0.46 and 0.55 to 0.78 of it at 0.69, so that anything from 0.75 to 0.85 does
/// for the second; sums of the kernels of blocks on an A100 are nearer with the first of these.
const FREE: f64 = 0.4;
const LONG: f64 = 0.75;

/// How far the limit of power holds products back: from 0, not at all, to 1, as in a long run of
/// nothing but products.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Throttle(f64);

impl Throttle {
    /// The full clock.
    pub const NONE: Throttle = Throttle(0.0);
    /// A long run of products.
    pub const FULL: Throttle = Throttle(1.0);

    /// Of a device that computes products at their full rate for so much of its time; seconds.
    pub fn of(products: f64, all: f64) -> Throttle {
        let share = if all > 0.0 { products / all } else { 0.0 };
        Throttle(((share - FREE) / (LONG - FREE)).clamp(0.0, 1.0))
    }

    /// The share of a rate that is left of it, of which a long run leaves `sustained`.
    pub fn left(self, sustained: f64) -> f64 {
        1.0 - (1.0 - sustained) * self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_held_back_from_two_fifths_of_products_on() {
        let left = |products: f64| Throttle::of(products, 1.0).left(0.8);
        assert_eq!([left(0.0), left(0.4), left(0.75), left(1.5)], [1.0, 1.0, 0.8, 0.8]);
        assert!((left(0.575) - 0.9).abs() < 1e-12);
        assert_eq!(Throttle::of(0.0, 0.0), Throttle::NONE);
        assert_eq!(Throttle::FULL.left(0.8), 0.8);
        assert_eq!(Throttle::FULL.left(1.0), 1.0, "a device that says nothing loses nothing");
    }
}
