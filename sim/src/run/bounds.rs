//! What a run can come to at best, and how it ends at worst.

use crate::durations::Durations;
use crate::record::{OutOfMemory, Outcome};
use crate::run::Bench;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_models::workload::Trace;
use tiersim_policies::planner::PlanError;

impl Bench<'_> {
    /// A full tier is a result; anything else is a mistake, said in words.
    pub(super) fn out_of_memory(&self, error: PlanError, trace: &Trace) -> Result<Outcome, String> {
        let PlanError::OutOfMemory { tier, capacity, need, free, largest, object, occurrence } =
            error
        else {
            return Err(error.to_string());
        };
        let at = match occurrence {
            None => "before the first op".to_owned(),
            Some(occurrence) => {
                let index = (occurrence % trace.ops.len() as u64) as usize;
                let op = &trace.ops[index];
                format!("step {}, op {index} {}", op.step, op.name)
            }
        };
        Ok(Outcome::OutOfMemory(OutOfMemory {
            tier: self.hardware.tiers[tier.index()].name.clone(),
            capacity,
            need,
            free,
            largest,
            object: trace.objects[object.index()].name.clone(),
            at,
        }))
    }

    /// The busiest stream's ops, back to back, per step.
    pub(super) fn compute_bound(&self, workload: &Workload, durations: &Durations) -> Span {
        let ops = &workload.trace.ops;
        let streams = ops.iter().map(|op| usize::from(op.stream) + 1).max().unwrap_or(0);
        let mut totals = vec![0u128; streams];
        let first = ops.len() as u64 * u64::from(self.warmup);
        let replays = (self.repeat - self.warmup) as usize;
        for (occurrence, op) in (first..).zip(ops.iter().cycle().take(ops.len() * replays)) {
            totals[usize::from(op.stream)] += u128::from(durations.of(occurrence).ps());
        }
        let steps = workload.step_ends().len() as u128 * u128::from(self.repeat - self.warmup);
        let longest = totals.into_iter().max().unwrap_or(0) / steps.max(1);
        Span::from_ps(u64::try_from(longest).expect("a mean step fits the clock"))
    }
}
