//! The points of a run or a sweep.
//!
//! Invariant: every scenario that is simulated is one of these.

use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::sweep::Sweep;

/// What a run simulates: the scenario on each of its machines.
pub(crate) fn scenarios(run: &Sweep) -> impl Iterator<Item = &Scenario> {
    let alone = run.points.is_empty().then_some(&run.base);
    run.points.iter().map(|point| &point.scenario).chain(alone)
}
