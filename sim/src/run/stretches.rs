//! The measured replays of a run, cut so that a bound of a long one is quick.
//!
//! A bound holds whatever was before, so those of stretches of equal replays add up.
//! Invariant: what is said of a run is no more than what holds of it replay by replay.

use crate::durations::Durations;
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_policies::bound::{Bound, Prepared};

/// More uses than this are not looked at one by one for a bound, if replays are the same.
const MOST_VISITS: u64 = 1 << 22;
/// Fewer replays than this always are.
const FEW: u64 = 256;

/// The measured replays of a run, ready for any memory: one stretch of them, or, of a long run, one
/// that comes so many times, and a rest.
#[derive(Debug)]
pub(super) struct Stretches {
    one: Prepared,
    times: u64,
    rest: Option<Prepared>,
    /// Measured steps.
    pub(super) steps: u128,
}

impl Stretches {
    /// Of a run of so many replays, of which the first so many are not measured.
    pub(super) fn of(
        (repeat, warmup): (u32, u32),
        workload: &Workload,
        durations: &Durations,
    ) -> Stretches {
        let ops = workload.trace.ops.len() as u64;
        // Replays may be added to the warm-up: what is measured may not begin with the run, and a
        // bound that holds whatever was before holds in both cases.
        let added = u64::from(warmup == 0 && repeat > 1);
        let duration = |occurrence| durations.least(occurrence - added * ops);
        let least = |from: u64, replays: u64| {
            Prepared::new(workload, (ops * from, ops * (from + replays)), &duration)
        };
        let all = u64::from(repeat - warmup);
        let steps = workload.step_ends().len() as u128 * u128::from(all);
        let visits = workload.trace.uses.len() as u64 + ops;
        let same = durations.are_the_same_in_every_replay_of(&workload.trace);
        if same && all > FEW && all.saturating_mul(visits) > MOST_VISITS {
            // A bound holds whatever was before, so those of stretches add up. Which stretch it is
            // makes no difference behind the first replay.
            let stretch = (MOST_VISITS / 64 / visits).clamp(1, all);
            let (times, rest) = (all / stretch, all % stretch);
            let rest = (rest > 0).then(|| least(1, rest));
            Stretches { one: least(1, stretch), times, rest, steps }
        } else {
            let from = u64::from(warmup) + added;
            Stretches { one: least(from, all), times: 1, rest: None, steps }
        }
    }

    /// No policy takes less time for all of it.
    pub(super) fn least_time(
        &self,
        workload: &Workload,
        hardware: &Hardware,
        memory: &Memory,
    ) -> Bound {
        let of = |part: &Prepared| part.least_time(workload, hardware, memory);
        let Bound { ps, cause } = of(&self.one);
        let rest = self.rest.as_ref().map_or(0, |rest| of(rest).ps);
        Bound { ps: ps * u128::from(self.times) + rest, cause }
    }
}
