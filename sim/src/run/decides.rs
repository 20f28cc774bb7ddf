//! What the decisions of a run depend on, in words: runs of which the same is said have one plan.
//!
//! Invariant: whatever may change a decision is said, or nothing is.

use super::{CaseInputs, Options};
use tiersim_models::hardware::Hardware;
use tiersim_models::lifetime::Workload;

/// Replays of a run that shares its plan at most: in so few none is left out, so nothing asks for
/// the state of the plan.
pub(super) const MOST_REPLAYS: u32 = 5;

/// In words, all that the decisions of a run with so many replays for its policy depend on; `None`
/// if they may depend on times, or on more than is said here.
pub(super) fn decides_by(
    asked: &CaseInputs<'_>,
    hardware: &Hardware,
    (replays, told): (u32, u32),
    options: Options,
) -> Option<String> {
    let CaseInputs { workload, durations: _, policy, numa, memory, watched, runtime: _ } = asked;
    let exact = hardware.tier_ids().all(|tier| memory.allocator(tier).is_none());
    let plain = exact && watched.is_none() && workload.serving.is_none() && numa.is_none();
    // A timeline has a line for each command that gives room back, and these may be others.
    let shown = options.timeline || options.walk;
    if !options.share || shown || !plain || replays > MOST_REPLAYS || policy.knows_times() {
        return None;
    }
    let workload = std::ptr::from_ref::<Workload>(workload).addr();
    let machine = shape(hardware);
    Some(format!("{workload} {} {policy:?} {memory:?} {told} {machine}", policy.name()))
}

/// In words, what a policy may know of a machine that knows no times: what is where.
fn shape(hardware: &Hardware) -> String {
    let Hardware { name: _, about: _, tiers, nodes, links, routes, compute: _, chunk, .. } =
        hardware;
    let Hardware { hidden, facts: _, economics: _, server, cpu: _, pressure, .. } = hardware;
    let tiers: Vec<_> = tiers.iter().map(|tier| (&tier.name, tier.kind, tier.capacity)).collect();
    let links: Vec<_> = links.iter().map(|link| (&link.name, link.near, link.far)).collect();
    format!("{tiers:?} {nodes:?} {links:?} {routes:?} {chunk:?} {hidden:?} {server:?} {pressure:?}")
}
