//! The lines of `--log steps`: what a machine counted from one step's end to the next.
//!
//! Invariant: nothing is changed by being logged; steps that were left out have no line.

use crate::machine::meters::Meters;
use crate::machine::watched::Watched;
use tiersim_models::hardware::HBM;
use tiersim_models::results::step_log::{MOST_LINES, StepLine};
use tiersim_models::units::{Bytes, Span};

/// Lines so far.
#[derive(Debug, Default)]
pub(crate) struct StepLog {
    pub(crate) lines: Vec<StepLine>,
    /// Bytes copied and time stood still up to the last step's end.
    before: (Bytes, Span),
}

impl StepLog {
    /// A step has ended that was so long.
    pub(crate) fn step_ended(
        &mut self,
        (step, measured): (u64, bool),
        span: Span,
        machine: &mut impl Watched,
    ) {
        if self.lines.len() >= MOST_LINES {
            return;
        }
        let Meters { moved, stall, used, .. } = machine.so_far();
        let now: (Bytes, Span) =
            (moved.into_iter().sum(), stall.iter().fold(Span::ZERO, |sum, &one| sum + one));
        let (live, peak) = (used[HBM.index()], machine.peak_since());
        let (moved, stall) =
            (now.0 - self.before.0, Span::from_ps(now.1.ps() - self.before.1.ps()));
        self.before = now;
        self.lines.push(StepLine { step, measured, span, live, peak, moved, stall });
    }
}
