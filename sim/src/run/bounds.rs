//! What a run can come to at best.

use crate::durations::Durations;
use crate::run::Bench;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;

impl Bench<'_> {
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
