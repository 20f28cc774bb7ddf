//! A bound that sees time: the fluid relaxation of a step as a linear program.
//!
//! Bytes flow across the cuts between tiers; what is inside is looked at at a few *instants*, and
//! what crosses between two of them takes no more than the time between them carries. Why every
//! plan is a solution, whatever the instants, is proven in `docs/explanation/bounds.md`. More
//! instants only add rows that hold, so the bound is refined until it moves by less than
//! [`MOVES`]. What is reported is what the prices of the rows prove ([`super::linear`]), not what
//! the solver says.
//! Invariant: no less than the time that ops compute, and never above what any plan takes.

mod advice;
mod cycle;
mod instants;
mod patterns;
mod rows;

use crate::bound::branch::branched;
use crate::bound::cut::{Cut, cuts, rates};
use crate::bound::linear::Solution;
use crate::bound::{Bound, Cause, Direction, Question};
pub use advice::{Advice, Advised, advice, alike_steps};
use cycle::Cycle;
use instants::Instants;
use patterns::Pattern;
use rows::Rows;
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// A bound that moves by less than this share when instants are doubled so many times in a row is
/// fine enough: the new ones lie elsewhere, and need not do better at once.
const MOVES: f64 = 0.01;
const STILL: u32 = 2;
/// Up to so many ops, each has an instant at its start and one at its end.
const FEW_OPS: usize = 12;
/// The first and the most instants of more ops.
const INSTANTS: [usize; 2] = [12, 96];
/// So many copies of a program of few ops are solved at most, for what is whole in it.
const COPIES: usize = 31;
/// A program of more rows is not solved.
const MOST_ROWS: usize = 60_000;

/// Picoseconds that one object pays at most; more says no more and is hard to reckon with.
const LONGEST: f64 = 1e16;

/// What is known of the run around the ops that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Nothing: anything may be anywhere when a replay begins.
    Any,
    /// Every replay ends as it began, as in a run that has settled.
    Steady,
}

/// A cut with what one object pays for it.
pub(crate) struct Level<'a> {
    pub(crate) cut: &'a Cut,
    question: &'a Question<'a>,
}

impl Level<'_> {
    /// Picoseconds that the channels need at least to move so many bytes of one object inwards,
    /// outwards and, counted over both ways, either.
    fn moves(&self, bytes: u64) -> [f64; 3] {
        let rates = rates(self.question.hardware, &self.cut.inside, Bytes::new(bytes.max(1)));
        // Where nothing can cross, nothing is said.
        let span = |rate: u128| match rate {
            0 => 0.0,
            rate => (bytes as f64 * 1e12 / rate as f64).min(LONGEST),
        };
        let [inwards, outwards, both] = rates.map(span);
        // Independent ways say all that both together would.
        let shared = rates[2] < rates[0] + rates[1];
        [inwards, outwards, if shared { both } else { 0.0 }]
    }

    /// Picoseconds that use of so many bytes in place takes at least outside.
    fn in_place(&self, bytes: u64) -> f64 {
        let outside = |tier: &TierId| !self.cut.inside.contains(tier);
        let hardware = self.question.hardware;
        let spans = hardware.tier_ids().filter(outside).map(|tier| {
            let law = hardware.tiers[tier.index()].access;
            let span = law.rate.checked_span_of(bytes).map_or(f64::INFINITY, |s| s.ps() as f64);
            law.setup.ps() as f64 + span
        });
        spans.fold(LONGEST, f64::min)
    }
}

/// No policy takes less time; `None` where the program says nothing: several streams, or nothing
/// that has to move.
pub fn fluid(question: &Question<'_>, horizon: Horizon) -> Option<Bound> {
    let cycle = Cycle::new(question, horizon)?;
    let sizes: Vec<Bytes> =
        question.workload.trace.objects.iter().map(|object| object.bytes).collect();
    let cuts = cuts(question.hardware, question.memory, &sizes);
    let levels: Vec<Level<'_>> = cuts.iter().map(|cut| Level { cut, question }).collect();
    if levels.is_empty() {
        return None;
    }
    if cycle.ops() <= FEW_OPS {
        return Some(bound(&cycle, &levels, &Instants::all(&cycle))?.0);
    }
    let mut best: Option<(Bound, f64)> = None;
    let (mut count, mut still) = (INSTANTS[0], 0);
    while count <= INSTANTS[1] && still < STILL {
        let Some(found) = bound(&cycle, &levels, &Instants::spread(&cycle, count)) else { break };
        let moved = best.as_ref().map_or(1.0, |(_, before)| found.1 / before - 1.0);
        still = if moved < MOVES { still + 1 } else { 0 };
        if best.as_ref().is_none_or(|(_, before)| found.1 > *before) {
            best = Some(found);
        }
        count *= 2;
    }
    best.map(|(found, _)| found)
}

/// The bound with these instants; `None` if the program is too large.
fn bound(cycle: &Cycle, levels: &[Level<'_>], instants: &Instants) -> Option<(Bound, f64)> {
    let patterns = Pattern::of(cycle, levels, instants);
    let rows = Rows::new(cycle, levels, instants, &patterns);
    if rows.program.rows() > MOST_ROWS {
        return None;
    }
    let solution =
        branched(&rows.program, &rows.whole, if instants.every_op() { COPIES } else { 1 });
    let stalls = solution.proven.clamp(0.0, rows.most) * rows.unit;
    let ps = (cycle.computed() + stalls) * cycle.times;
    let cause = cause(cycle, &percent_of_rates(cycle, &rows, &solution), ps);
    Some((Bound { ps: ps.floor() as u128, cause }, ps))
}

/// By cut: how much of the bound a hundredth more of its rates inwards, outwards and both ways
/// saves, in picoseconds of the run, by the prices of rows.
fn percent_of_rates(cycle: &Cycle, rows: &Rows, solution: &Solution) -> Vec<[f64; 3]> {
    let price = |row: &usize| solution.prices[*row].max(0.0) * rows.unit;
    let by_way = |ways: &[Vec<usize>; 3]| {
        ways.each_ref().map(|channel| {
            let sum = |row: &usize| price(row) * rows.moved(*row, &solution.values);
            channel.iter().map(sum).sum::<f64>() * cycle.times / 100.0
        })
    };
    rows.channels.iter().map(by_way).collect()
}

/// What most of the bound is.
fn cause(cycle: &Cycle, percent: &[[f64; 3]], ps: f64) -> Cause {
    let ways = [Direction::In, Direction::Out, Direction::Both];
    let mut all = Vec::new();
    for (depth, shares) in percent.iter().enumerate() {
        let crossing = |way: usize| Cause::Crossing(depth as u8, ways[way]);
        all.extend((0..3).map(|way| (shares[way] * 100.0, crossing(way))));
    }
    let moves: f64 = all.iter().map(|(share, _)| share).sum();
    let computes = cycle.computed() * cycle.times;
    all.push((computes.min(ps), Cause::CriticalPath));
    all.push((ps - computes - moves, Cause::InPlace(0)));
    let largest = all.into_iter().filter(|(share, _)| *share > 0.0);
    largest.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Cause::CriticalPath, |(_, cause)| cause)
}
