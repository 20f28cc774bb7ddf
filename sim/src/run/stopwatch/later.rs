//! A run whose only measured replay does not agree with the one before it goes on, in the place of
//! a longer one from its start.
//!
//! A run of one stream stands still when all that was planned has ended: nothing depends on how far
//! ahead is planned, so what is planned then is what a longer run has planned before.
//! Invariant: all figures are those of a run that was this long from its start, to the last bit.

use super::Stopwatch;
use crate::machine::meters::Meters;
use crate::machine::watched::Watched;
use crate::run::settle::compare;
use std::mem::take;
use tiersim_models::hardware::Hardware;
use tiersim_models::results::{Settled, Steadiness};
use tiersim_models::units::Span;
use tiersim_policies::planner::Planner;

/// Replays of a run that goes on at most: in so few none is left out.
const MOST: u64 = 5;

/// How a run may go on.
pub(super) struct Later<'a> {
    hardware: &'a Hardware,
    /// Replays that were added to the warm-up.
    added: u64,
    /// The mean step of the replay that was measured before.
    last: Option<Span>,
}

impl<'a> Stopwatch<'a> {
    /// Lets the run go on if its measured replay does not agree with the one before.
    ///
    /// Panics if other than one replay is measured.
    pub(crate) fn may_go_on(&mut self, hardware: &'a Hardware) {
        assert_eq!(self.all, self.warmup_steps + self.sizes.len() as u64, "one is measured");
        self.later = Some(Later { hardware, added: 0, last: None });
    }

    /// All that was planned has ended: measures a later replay if this one does not agree.
    pub(crate) fn goes_on(&mut self, planner: &mut Planner<'_>, machine: &impl Watched) {
        let Some(later) = &self.later else { return };
        let Some((_, end)) = &self.at_end else { return };
        let more = later.added + 1;
        let replays = planner.planned() / planner.ops_per_replay() + more;
        let steady = self.steadiness(end, later.hardware);
        if steady.settled != Settled::Drifts || replays > MOST {
            return;
        }
        let warmup = replays - 1;
        self.later = Some(Later {
            hardware: later.hardware,
            added: later.added + more,
            last: Some(self.steps.mean()),
        });
        let each = self.sizes.len() as u64;
        let at_end = self.at_end.take().map(|(_, end)| end);
        (self.all, self.warmup_steps) = (replays * each, warmup * each);
        self.first_measured_op = warmup * planner.ops_per_replay();
        let measured = take(&mut self.steps);
        // The next one is measured, or a later one.
        self.at_warmup = at_end.filter(|_| more == 1);
        if self.at_warmup.is_some() {
            let took = measured.total().try_into().expect("a run is no longer than the clock");
            (self.before, self.planned) = (Span::from_ps(took), machine.meters().planned.clone());
        }
        planner.stop_after(replays);
        planner.count_anew(self.first_measured_op);
    }

    /// Whether the measured replays agree.
    pub(super) fn steadiness(&self, end: &Meters, hardware: &Hardware) -> Steadiness {
        let mut steady = self.evidence(end).judge(hardware, &self.steps);
        if let Some(last) = self.later.as_ref().and_then(|later| later.last) {
            compare(&mut steady, self.steps.mean(), last);
        }
        steady
    }
}
