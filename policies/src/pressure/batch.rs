//! A micro-batch that follows the memory of the steps before.
//!
//! Sizes are notches: the most, and halves of it (rounded up) down to the least. A change goes to
//! the next notch, or, where changes are not smooth, to the one that is meant. Memory at another
//! size is projected: what stays after a step stays, what came and went is proportional to the
//! micro-batch.
//! Invariant: a batch never grows into what makes it shrink, so where steps are alike it does not
//! swing.

use super::{Gauge, Level, MILLION, PressureConfig};
use std::num::NonZeroU32;
use tiersim_models::units::Bytes;

/// Bounds of a micro-batch, and how it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroBatch {
    /// Fewest samples.
    pub min: u32,
    /// Most samples; the first step has so many.
    pub max: u32,
    /// The share of the capacity, in millionths, that steps are to use: above it the batch shrinks,
    /// and it grows up to it. `None`: it shrinks where a response says so, and grows while it stays
    /// below where the target is left.
    pub target: Option<u32>,
    /// It may change after every so many steps.
    pub every: NonZeroU32,
    /// One notch at a time.
    pub smooth: bool,
}

impl MicroBatch {
    /// Changes after any step, one notch at a time, and shrinks only where a response says so.
    pub const fn between(min: u32, max: u32) -> MicroBatch {
        MicroBatch { min, max, target: None, every: NonZeroU32::MIN, smooth: true }
    }

    /// Whether it may change after the step of this number, counted from 0.
    pub fn is_due(&self, step: usize) -> bool {
        (step as u64 + 1).is_multiple_of(u64::from(self.every.get()))
    }

    /// The next smaller size; the same at the least.
    fn smaller(&self, now: u32) -> u32 {
        now.div_ceil(2).max(self.min).min(now)
    }

    /// The next larger size; the same at the most.
    fn larger(&self, now: u32) -> u32 {
        now.saturating_mul(2).min(self.max).max(now)
    }
}

/// Memory of a tier over one step, or over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepPressure {
    /// Whether a response was to shrink the micro-batch.
    pub shrink: bool,
    /// The highest level.
    pub highest: Level,
    /// Most bytes allocated.
    pub peak: Bytes,
    /// Bytes allocated after its last op.
    pub rest: Bytes,
}

impl StepPressure {
    /// This one and the one that came next.
    #[must_use]
    pub fn and(self, next: StepPressure) -> StepPressure {
        StepPressure {
            shrink: self.shrink || next.shrink,
            highest: self.highest.max(next.highest),
            peak: self.peak.max(next.peak),
            rest: next.rest,
        }
    }

    /// Most bytes if steps like these had `then` samples instead of `now`.
    fn projected(&self, now: u32, then: u32) -> u128 {
        let comes = u128::from(self.peak.get().saturating_sub(self.rest.get()));
        u128::from(self.rest.get()) + (comes * u128::from(then)).div_ceil(u128::from(now.max(1)))
    }
}

impl PressureConfig {
    /// The micro-batch of the steps to come, after steps that had `now` samples. It becomes smaller
    /// if a response asked for it or more than the target utilisation was used. It becomes larger
    /// if that would stay within the target utilisation (or below the target level by the
    /// hysteresis), and only if the steps stayed below critical. `None` bounds leave it as it is.
    pub fn next_micro_batch(&self, now: u32, steps: &StepPressure, capacity: Bytes) -> u32 {
        let Some(batch) = self.micro_batch else { return now };
        let room = match batch.target {
            Some(target) => u128::from(capacity.get()) * u128::from(target) / u128::from(MILLION),
            None => u128::from(Gauge::new(self, capacity).leave[0]).saturating_sub(1),
        };
        let fits = |then: u32| steps.projected(now, then) <= room;
        let above = batch.target.is_some() && u128::from(steps.peak.get()) > room;
        if steps.shrink || above {
            let mut next = batch.smaller(now);
            while !batch.smooth && !fits(next) && next > batch.smaller(next) {
                next = batch.smaller(next);
            }
            return next;
        }
        let mut next = now;
        loop {
            let larger = batch.larger(next);
            if larger == next || steps.highest >= Level::Critical || !fits(larger) {
                return next;
            }
            next = larger;
            if batch.smooth {
                return next;
            }
        }
    }
}
