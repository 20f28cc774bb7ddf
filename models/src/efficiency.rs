//! What small work reaches of a device's rates.
//!
//! A product of few FLOPs leaves parts of the device idle, and a short transfer ends before memory
//! is busy. A table says which share of the rate work of each size reaches; the rate is what the
//! largest work reaches with a share of 1, a datasheet's peak or a measured best alike, so nothing
//! is counted twice as long as rate and table come from the same place.
//! Invariant: sizes rise, shares are above 0 and at most 1, and the arithmetic is that of integers,
//! so a share is the same on every computer.

use crate::units::Rate;
use serde::Deserialize;

/// All of the rate, in the unit of shares: parts per million.
pub const WHOLE: u32 = 1_000_000;

/// What small work reaches of a device's rates. Empty: all of them at any size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Efficiency {
    /// By FLOPs of an op, for every precision.
    pub products: Shares,
    /// By bytes of an op.
    pub memory: Shares,
}

/// Shares of a rate by size of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shares {
    /// Size and share in parts per million, by rising size. Below the first size its share holds,
    /// above the last size its share.
    pub points: Vec<(u64, u32)>,
    /// What holds between two sizes.
    pub interpolation: Interpolation,
}

/// What holds between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The share moves in proportion to the logarithm of the size; sizes are above 0.
    #[default]
    Interpolated,
    /// The share of the smaller size: each point holds from its size to the next.
    Steps,
}

impl Shares {
    /// The share that work of `size` reaches, in parts per million.
    pub fn of(&self, size: u64) -> u32 {
        let points = &self.points;
        let above = points.partition_point(|&(from, _)| from <= size);
        let Some(&(low, share)) = points.get(above.saturating_sub(1)) else { return WHOLE };
        match points.get(above) {
            Some(&(high, next))
                if above > 0 && self.interpolation == Interpolation::Interpolated =>
            {
                let part = |to: u64| i128::from(log2(to) - log2(low.max(1)));
                let rise = i128::from(next) - i128::from(share);
                let share = i128::from(share) + rise * part(size) / part(high).max(1);
                u32::try_from(share).expect("it lies between two shares")
            }
            _ => share,
        }
    }

    /// What work of `size` reaches of `rate`, rounded down and at least one per second.
    pub fn reached<W: Copy>(&self, rate: Rate<W>, size: u64) -> Rate<W> {
        if self.points.is_empty() {
            return rate;
        }
        let reached = u128::from(rate.get()) * u128::from(self.of(size)) / u128::from(WHOLE);
        let reached = u64::try_from(reached).expect("no more than the rate");
        Rate::new(reached.max(1)).expect("above zero")
    }
}

/// The binary logarithm of a number above 0, rounded down to a multiple of 2^-32, in that unit.
/// Each squaring of what is left of the number gives one more digit.
fn log2(of: u64) -> u64 {
    let whole = of.ilog2();
    let mut left = u128::from(of) << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..32 {
        left = (left * left) >> 63;
        log *= 2;
        if left >= 1 << 64 {
            left >>= 1;
            log += 1;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bandwidth;

    fn shares(points: &[(u64, u32)], interpolation: Interpolation) -> Shares {
        Shares { points: points.to_vec(), interpolation }
    }

    #[test]
    fn logarithms_are_those_of_floats_to_nine_digits() {
        for of in [1, 2, 3, 7, 1000, 1_000_000_007, 1 << 40, u64::MAX] {
            let found = log2(of) as f64 / 4_294_967_296.0;
            assert!(((of as f64).log2() - found).abs() < 1e-9, "{of}: {found}");
        }
    }

    #[test]
    fn steps_hold_from_their_size_on() {
        let table = shares(&[(0, 100_000), (10, 600_000), (100, 900_000)], Interpolation::Steps);
        let found = [0, 9, 10, 99, 100, u64::MAX].map(|size| table.of(size));
        assert_eq!(found, [100_000, 100_000, 600_000, 600_000, 900_000, 900_000]);
    }

    #[test]
    fn between_points_the_share_moves_with_the_logarithm_of_the_size() {
        let table =
            shares(&[(4, 200_000), (64, 600_000), (128, 500_000)], Interpolation::Interpolated);
        // From 2^2 to 2^6: a quarter of the way per doubling. The ends hold beyond.
        let found = [0, 1, 4, 8, 16, 32, 64, 128, 129].map(|size| table.of(size));
        let expected = [200, 200, 200, 300, 400, 500, 600, 500, 500].map(|share| share * 1000);
        assert_eq!(found, expected);
        assert!((64..128).map(|size| table.of(size)).is_sorted_by(|one, next| one >= next));
    }

    #[test]
    fn an_empty_table_changes_nothing() {
        let table = Shares::default();
        assert_eq!((table.of(0), table.of(7)), (WHOLE, WHOLE));
        let rate = Bandwidth::gb_per_s(7);
        assert_eq!(table.reached(rate, 3), rate);
    }

    #[test]
    fn the_rate_that_is_reached_is_the_share_of_the_rate_rounded_down() {
        let table = shares(&[(0, 333_333)], Interpolation::Steps);
        assert_eq!(table.reached(Bandwidth::new(10).expect("above zero"), 1).get(), 3);
        assert_eq!(table.reached(Bandwidth::new(1).expect("above zero"), 1).get(), 1);
        assert_eq!(table.reached(Bandwidth::gb_per_s(1000), 1).get(), 333_333_000_000);
    }
}
