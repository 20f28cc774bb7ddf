//! What happened under memory pressure, with the moments at which it took effect.

use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::pressure::{PressureEvent, PressureLog};

/// The pressure of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureRecord {
    /// The tier that is watched, by index.
    pub tier: usize,
    /// Its capacity.
    pub capacity: Bytes,
    /// What happened, in the order of the plan.
    pub log: PressureLog,
    /// When: of each event of the log the moment from which it has effect, the end of the op before
    /// it on its stream. Empty if nobody asked for a timeline; shorter than the log if the run ended
    /// early.
    pub at: Vec<Time>,
    /// Start and length of the first steps of the run, as many as events are kept. Empty if nobody
    /// asked for a timeline.
    pub steps: Vec<(Time, Span)>,
}

impl PressureRecord {
    /// The smallest micro-batch of any step, if the run has micro-batches.
    pub fn smallest_micro_batch(&self) -> Option<u32> {
        self.log.micro_batches.iter().copied().min()
    }

    /// The largest.
    pub fn largest_micro_batch(&self) -> Option<u32> {
        self.log.micro_batches.iter().copied().max()
    }

    /// Events whose moment is known.
    pub fn timed(&self) -> impl Iterator<Item = (&PressureEvent, Time)> {
        self.log.events.iter().zip(self.at.iter().copied())
    }
}
