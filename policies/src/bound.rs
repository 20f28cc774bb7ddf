//! The best that any policy could do: a time that no legal plan goes below.
//!
//! A run takes at least its critical path, and at least as long as the bytes that must cross a
//! cut between tiers need at the most that its links carry. A policy may use objects in place
//! instead of copying them; it then pays in the ops' own time, and the split that is best for it
//! counts. With one stream the run is cut into windows of ops: they are disjoint in time, so their
//! bounds add up, and the best splits out of a few are taken.
//! Invariant: holds for every policy that pays for each use outside HBM, whatever was where when
//! the window began, under every law of service; allocators, others and hidden memory only add to
//! it.

mod critical;
mod cut;
mod future;
mod keep;
mod traffic;
mod window;

use cut::ratios;
pub use cut::{Cut, cuts};
pub use traffic::{Crossing, crossing};
pub use window::{Cause, Direction};

use crate::bound::critical::critical_path;
use crate::bound::future::Future;
use crate::bound::traffic::Traffic;
use crate::bound::window::{Window, WindowBound};
use crate::visits::streams;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Channel, Hardware, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::PathPart;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Phase;

/// Most places at which the run may be cut.
const MOST_SPLITS: u64 = 24;
/// About so many uses are looked at for one bound; a longer run has fewer splits.
const MOST_VISITS: u64 = 1 << 21;

/// What is asked: a workload on a machine, from one op of the run to another.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// What runs.
    pub workload: &'a Workload,
    /// Where; its capacities do not count.
    pub hardware: &'a Hardware,
    /// Its memory, as the case may use it.
    pub memory: &'a Memory,
    /// The first op of the run that counts: the first of a replay.
    pub from: u64,
    /// The first op behind those that count: the first of a replay.
    pub to: u64,
    /// How long each op of the run takes.
    pub duration: &'a dyn Fn(u64) -> Span,
}

/// A lower bound on the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Picoseconds from the end of the op before the first that counts to the end of the last.
    pub ps: u128,
    /// What most of it is.
    pub cause: Cause,
}

/// No policy takes less time.
pub fn least_time(question: &Question<'_>) -> Bound {
    let Question { workload, hardware, memory, from, to, duration } = *question;
    let path = critical_path(workload, duration, (from, to));
    let plain = Bound { ps: path, cause: Cause::CriticalPath };
    let streams = streams(&workload.trace);
    // What other streams did before the end of the warm-up is anybody's guess.
    if from >= to || (streams > 1 && from > 0) {
        return plain;
    }
    let sizes: Vec<Bytes> = workload.trace.objects.iter().map(|object| object.bytes).collect();
    let cuts = cuts(hardware, memory, &sizes);
    if cuts.is_empty() {
        return plain;
    }
    let splits = if streams > 1 { vec![from, to] } else { splits(workload, (from, to)) };
    let mut computed = vec![0u128];
    for pair in splits.windows(2) {
        let own: u128 = (pair[0]..pair[1]).map(|at| u128::from(duration(at).ps())).sum();
        computed.push(computed[computed.len() - 1] + own);
    }
    let found = best((workload, memory), &cuts, &splits, &computed, streams);
    if found.ps > path { found } else { plain }
}

/// The splits whose windows add up to the most.
fn best(
    (workload, memory): (&Workload, &Memory),
    cuts: &[Cut],
    splits: &[u64],
    computed: &[u128],
    streams: usize,
) -> Bound {
    let objects = workload.trace.objects.len();
    let own = |cut: &Cut| Some(Future::new(workload, Some(ratios(memory, &cut.inside, objects)?)));
    let own: Vec<Option<Future>> = cuts.iter().map(own).collect();
    let plain = Future::new(workload, None);
    let pairs = cuts.iter().zip(&own);
    let counters = pairs
        .map(|(cut, own)| Traffic::new(workload, own.as_ref().unwrap_or(&plain), cut.capacity));
    let mut counters: Vec<Traffic<'_>> = counters.collect();
    // By split: the most up to there, the split before, and what the window between is held up by.
    let none = (0u128, 0usize, WindowBound { ps: 0, cause: Cause::CriticalPath });
    let mut up_to = vec![none; splits.len()];
    let mut crossings = Vec::new();
    for first in 0..splits.len() - 1 {
        let windows = (first + 1..splits.len())
            .map(|last| Window { compute: computed[last] - computed[first], streams });
        let mut found: Vec<WindowBound> = windows.map(|window| window.computes()).collect();
        for (cut, counter) in cuts.iter().zip(&mut counters) {
            crossings.clear();
            counter.count(&splits[first..], &mut crossings);
            for (offset, crossing) in crossings.iter().enumerate() {
                let compute = computed[first + 1 + offset] - computed[first];
                let window = Window { compute, streams };
                found[offset] = found[offset].max(window.crosses(cut, crossing));
            }
        }
        for (offset, found) in found.into_iter().enumerate() {
            let last = first + 1 + offset;
            let sum = up_to[first].0 + found.ps;
            if sum > up_to[last].0 || (first == 0 && up_to[last].0 == 0) {
                up_to[last] = (sum, first, found);
            }
        }
    }
    let mut shares: BTreeMap<Cause, u128> = BTreeMap::new();
    let mut at = splits.len() - 1;
    while at > 0 {
        let (_, before, found) = up_to[at];
        *shares.entry(found.cause).or_default() += found.ps;
        at = before;
    }
    let largest = shares.into_iter().max_by_key(|&(_, ps)| ps);
    let cause = largest.map_or(Cause::CriticalPath, |(cause, _)| cause);
    Bound { ps: up_to[splits.len() - 1].0, cause }
}

/// Where the run may be split: where phases change, and evenly between; both ends always.
fn splits(workload: &Workload, (from, to): (u64, u64)) -> Vec<u64> {
    let trace = &workload.trace;
    let ops = trace.ops.len() as u64;
    let visits = (trace.uses.len() as u64 + ops) * ((to - from) / ops);
    let most = (2 * MOST_VISITS / visits.max(1)).clamp(1, MOST_SPLITS);
    let phase = |at: u64| {
        let op = &trace.ops[(at % ops) as usize];
        (at / ops, op.step, op.phase)
    };
    let changes: Vec<u64> = (from + 1..to).filter(|&at| phase(at - 1) != phase(at)).collect();
    let every = changes.len().div_ceil(most as usize).max(1);
    let mut splits: Vec<u64> = changes.into_iter().step_by(every).collect();
    let more = most.saturating_sub(splits.len() as u64).min(to - from);
    splits.extend((1..more).map(|part| from + (to - from) * part / more));
    splits.extend([from, to]);
    splits.sort_unstable();
    splits.dedup();
    splits
}

impl Cause {
    /// The parts of a critical path that pay what the bound says: those that compute, that use
    /// tiers outside the cut in place, or that cross it in this direction.
    pub fn paid_by(self, hardware: &Hardware) -> Vec<PathPart> {
        let inside = |cut: u8, node| {
            let order = cut::order(hardware);
            let tier = hardware.tier_of(node);
            tier.is_some_and(|tier| order[..=usize::from(cut)].contains(&tier))
        };
        match self {
            Cause::CriticalPath => {
                let rest = [PathPart::Recompute, PathPart::Cpu, PathPart::Launch];
                let all = Phase::ALL.iter().map(|&phase| PathPart::Compute(phase)).chain(rest);
                all.chain([PathPart::Collective, PathPart::Bubble, PathPart::Arrival]).collect()
            }
            Cause::InPlace(cut) => {
                let outside = hardware.tier_ids().filter(|&tier| !inside(cut, tier.into()));
                outside.map(|tier| PathPart::InPlace(tier.index())).collect()
            }
            Cause::Crossing(cut, direction) => {
                let crosses = |channel: &Channel| {
                    let (from, to) = hardware.channel_ends(*channel);
                    match (inside(cut, from), inside(cut, to)) {
                        (false, true) => direction != Direction::Out,
                        (true, false) => direction != Direction::In,
                        _ => false,
                    }
                };
                let channels = hardware.channels().filter(crosses);
                channels.map(|channel| PathPart::Copy(channel.index())).collect()
            }
        }
    }

    /// In words, such as `bytes into hbm`.
    pub fn words(self, hardware: &Hardware) -> String {
        let inside = |cut: u8| {
            let order = cut::order(hardware);
            let names = order.iter().take(usize::from(cut) + 1);
            let names = names.map(|tier| hardware.tiers[tier.index()].name.as_str());
            names.collect::<Vec<_>>().join(" and ")
        };
        match self {
            Cause::CriticalPath => "critical path".to_owned(),
            Cause::InPlace(cut) => format!("use outside {}", inside(cut)),
            Cause::Crossing(cut, Direction::In) => format!("bytes into {}", inside(cut)),
            Cause::Crossing(cut, Direction::Out) => format!("bytes out of {}", inside(cut)),
            Cause::Crossing(cut, Direction::Both) => {
                format!("bytes into and out of {}", inside(cut))
            }
        }
    }
}
