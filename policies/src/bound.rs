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

#[cfg(feature = "lp")]
mod branch;
mod critical;
mod cut;
#[cfg(feature = "lp")]
mod fluid;
mod future;
mod keep;
#[cfg(feature = "lp")]
mod linear;
mod marks;
mod slack;
mod traffic;
mod window;
mod windows;

use cut::ratios;
pub use cut::{Cut, cuts};
#[cfg(feature = "lp")]
pub use fluid::{Advice, Advised, Fluid, Horizon, Resource, Worth, advice, alike_steps, fluid};
pub use traffic::{Crossing, crossing};
pub use window::{Bound, Cause, Direction};

use crate::bound::critical::critical_path;
use crate::bound::windows::{Pieces, Windows};
use crate::visits::streams;
use std::sync::OnceLock;
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

/// No policy takes less time.
pub fn least_time(question: &Question<'_>) -> Bound {
    let Question { workload, hardware, memory, from, to, duration } = *question;
    Prepared::new(workload, (from, to), duration).least_time(workload, hardware, memory)
}

/// What of a question depends on neither machine nor memory, worked out once for any number of
/// them.
#[derive(Debug)]
pub struct Prepared {
    /// Picoseconds.
    critical_path: u128,
    /// Where windows of the run begin and end, and what its ops compute up to there, if what
    /// crosses cuts can say more than the critical path.
    pieces: Option<Pieces>,
    /// Those windows; seldom asked for where all that is used fits.
    windows: OnceLock<Windows>,
}

impl Prepared {
    /// For the ops of the run in a range, the first of one replay to the first of another, that
    /// take so long each.
    pub fn new(
        workload: &Workload,
        (from, to): (u64, u64),
        duration: &dyn Fn(u64) -> Span,
    ) -> Prepared {
        let streams = streams(&workload.trace);
        // What other streams did before the end of the warm-up is anybody's guess.
        let pieces = (from < to && (streams <= 1 || from == 0)).then(|| {
            let splits = if streams > 1 { vec![from, to] } else { splits(workload, (from, to)) };
            let mut computed = vec![0u128];
            for pair in splits.windows(2) {
                let own: u128 = (pair[0]..pair[1]).map(|at| u128::from(duration(at).ps())).sum();
                computed.push(computed[computed.len() - 1] + own);
            }
            Pieces { splits, computed, streams }
        });
        let critical_path = critical_path(workload, duration, (from, to));
        Prepared { critical_path, pieces, windows: OnceLock::new() }
    }

    /// No policy takes less time on this machine with this memory; the workload is the one that it
    /// was made for.
    pub fn least_time(&self, workload: &Workload, hardware: &Hardware, memory: &Memory) -> Bound {
        let plain = Bound { ps: self.critical_path, cause: Cause::CriticalPath };
        let Some(pieces) = &self.pieces else { return plain };
        let sizes: Vec<Bytes> = workload.trace.objects.iter().map(|object| object.bytes).collect();
        let cuts = cuts(hardware, memory, &sizes, false);
        if cuts.is_empty() {
            return plain;
        }
        let ratios = |cut: &Cut| ratios(memory, &cut.inside, sizes.len());
        let found = match cuts.iter().map(ratios).collect::<Option<Vec<_>>>() {
            Some(ratios) => Windows::packed(workload, pieces.clone(), &ratios).best(&cuts),
            None => {
                let windows = || Windows::new(workload, pieces.clone());
                self.windows.get_or_init(windows).best(&cuts)
            }
        };
        if found.ps > plain.ps { found } else { plain }
    }
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
        let inside = |cut: u8| cut::words(hardware, cut);
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
