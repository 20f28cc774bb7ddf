//! The bound of a case by linear program, where the run asks for it.
//!
//! Invariant: no earlier than the quick bound, and never above what a run of this kind takes: only
//! one whose replays are all the same is held against replays that end as they began.

use crate::run::{CaseInputs, CaseRunner, StepBound};
use tiersim_models::results::{Outcome, Settled};
use tiersim_models::units::Span;
use tiersim_policies::bound::{Bound, Fluid, Horizon, Question, Worth, fluid};

impl CaseRunner<'_> {
    /// The bound of the linear program, if that is later than the quick one.
    pub(super) fn seeing_time(
        &self,
        asked: &CaseInputs<'_>,
        outcome: &Outcome,
        quick: StepBound,
    ) -> StepBound {
        let CaseInputs { workload, durations, memory, .. } = asked;
        // What is packed moves other bytes than objects have.
        if memory.stores().is_some() {
            return quick;
        }
        let steady = outcome.figures().map(|figures| &figures.steady);
        let same = steady.is_some_and(|s| s.settled == Settled::Same && s.unpaid == 0.0);
        let horizon = if same { Horizon::Steady } else { Horizon::Any };
        let shared = std::ptr::eq(*workload, self.workload);
        let known = || self.fluid_bounds.lock().expect("nobody panics with it");
        let key = (memory.all_usable().to_vec(), same);
        if let Some(bound) = known().get(&key).filter(|_| shared) {
            return bound.clone();
        }
        let ops = workload.trace.ops.len() as u64;
        // As for the quick bound: replays may be added to the warm-up.
        let added = u64::from(self.warmup == 0 && self.repeat > 1);
        let alike = durations.are_the_same_in_every_replay_of(&workload.trace);
        let from = u64::from(self.warmup) + added;
        let replays = if alike { 1 } else { u64::from(self.repeat - self.warmup) };
        let question = Question {
            workload,
            hardware: self.hardware,
            memory,
            from: ops * from,
            to: ops * (from + replays),
            duration: &|occurrence| durations.least(occurrence - added * ops),
        };
        let found = fluid(&question, horizon).and_then(|Fluid { bound, worths }| {
            let Bound { ps, cause } = bound;
            let steps = workload.step_ends().len() as u128 * u128::from(replays);
            let step = u64::try_from(ps / steps.max(1)).map(Span::from_ps).ok()?;
            let by = format!("{}, by linear program", cause.words(self.hardware));
            let worth = |worth: Worth| (worth.resource.words(self.hardware), worth.elasticity);
            let worths = worths.into_iter().map(worth).collect();
            Some(StepBound { step, by, cause, worths }).filter(|bound| bound.step > quick.step)
        });
        let bound = found.unwrap_or(quick);
        if shared {
            known().insert(key, bound.clone());
        }
        bound
    }
}
