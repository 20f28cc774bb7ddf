//! Draws by integers only: a seed means the same world on every computer.

use crate::prelude::*;
use std::ops::RangeInclusive;
use tiersim_models::units::Rate;

/// The draws of one part of a world.
pub(super) struct Dice(pub(super) ChaCha12Rng);

impl Dice {
    /// Every part of a world has a number of its own, so that one part can change without the
    /// others.
    pub(super) fn new(seed: u64, part: u64) -> Dice {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        rng.set_stream(part);
        Dice(rng)
    }

    /// True `per_cent` times in a hundred.
    pub(super) fn chance(&mut self, per_cent: u32) -> bool {
        self.0.random_range(0..100) < per_cent
    }

    pub(super) fn seed(&mut self) -> u64 {
        self.0.random()
    }

    /// A position in a list of so many.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    pub(super) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// Every power of two is as likely as every other.
    pub(super) fn log(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (least, most) = (*range.start(), *range.end());
        let power = self.within(u64::from(least.max(1).ilog2())..=u64::from(most.max(1).ilog2()));
        let (low, high) = (1u64 << power, (1u64 << power) - 1 + (1 << power));
        self.within(low.max(least)..=high.min(most))
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }

    /// Nothing in one of three draws.
    pub(super) fn span(&mut self, most: u64) -> Span {
        Span::from_ps(if self.chance(33) { 0 } else { self.log(1..=most) })
    }

    pub(super) fn rate<Work: Copy>(&mut self, range: RangeInclusive<u64>) -> Rate<Work> {
        Rate::new(self.log(range)).expect("a range above zero")
    }

    pub(super) fn bytes(&mut self, range: RangeInclusive<u64>) -> Bytes {
        Bytes::new(self.log(range))
    }
}
