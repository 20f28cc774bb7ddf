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
mod channels;
mod cycle;
mod instants;
mod level;
mod patterns;
mod rows;
mod worth;

use crate::bound::branch::branched;
use crate::bound::{Bound, Cause, Question};
pub use advice::{Advice, Advised, advice, alike_steps};
use cycle::Cycle;
use instants::Instants;
use level::{Level, levels};
use patterns::Pattern;
use rows::Rows;
use worth::worths;
pub use worth::{Resource, Worth};

/// A bound that moves by less than this share when instants are doubled so many times in a row is
/// fine enough: the new ones lie elsewhere, and need not do better at once.
const MOVES: f64 = 0.01;
const STILL: u32 = 2;
/// Up to so many ops, each has an instant at its start and one at its end.
const FEW_OPS: usize = 12;
/// The first and the most instants of more ops.
const INSTANTS: [usize; 2] = [12, 96];
/// So many copies of a program of few ops that run once are solved at most, for what is whole.
const COPIES: usize = 31;
/// A program of more rows is not solved.
const MOST_ROWS: usize = 60_000;

/// What is known of the run around the ops that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Nothing: anything may be anywhere when a replay begins.
    Any,
    /// Every replay ends as it began, as in a run that has settled.
    Steady,
}

/// A bound, and what more of the machine would take off it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fluid {
    /// No policy takes less time.
    pub bound: Bound,
    /// In the order of cuts.
    pub worths: Vec<Worth>,
}

/// No policy takes less time; `None` where the program says nothing: several streams, or nothing
/// that has to move.
pub fn fluid(question: &Question<'_>, horizon: Horizon) -> Option<Fluid> {
    let cycle = Cycle::new(question, horizon)?;
    let levels = levels(question, 1.0);
    if levels.is_empty() {
        return None;
    }
    if cycle.ops() <= FEW_OPS {
        return bound(&cycle, &levels, &Instants::all(&cycle));
    }
    let mut best: Option<Fluid> = None;
    let (mut count, mut still) = (INSTANTS[0], 0);
    while count <= INSTANTS[1] && still < STILL {
        let Some(found) = bound(&cycle, &levels, &Instants::spread(&cycle, count)) else { break };
        let least = best.as_ref().map_or(0, |before| before.bound.ps);
        let moved = found.bound.ps as f64 / (least as f64).max(1.0) - 1.0;
        still = if best.is_some() && moved < MOVES { still + 1 } else { 0 };
        if best.is_none() || found.bound.ps > least {
            best = Some(found);
        }
        count *= 2;
    }
    best
}

/// The bound with these instants; `None` if the program is too large.
fn bound(cycle: &Cycle, levels: &[Level<'_>], instants: &Instants) -> Option<Fluid> {
    let patterns = Pattern::of(cycle, levels, instants);
    let rows = Rows::new(cycle, levels, instants, &patterns);
    if rows.program.rows() > MOST_ROWS {
        return None;
    }
    // In the mean of several runs of a cycle nothing is whole: what one keeps the next may not.
    let copies = if instants.every_op() && cycle.times == 1.0 { COPIES } else { 1 };
    let solution = branched(&rows.program, &rows.whole, copies);
    // No run stalls so long: the solver has not found a solution.
    if solution.proven >= rows.most {
        return None;
    }
    let stalls = solution.proven.max(0.0) * rows.unit;
    let ps = (cycle.computed() + stalls) * cycle.times;
    let worths = worths(cycle, &rows, &solution, ps);
    let bound = Bound { ps: ps.floor() as u128, cause: cause(cycle, &worths, ps) };
    Some(Fluid { bound, worths })
}

/// What most of the bound is.
fn cause(cycle: &Cycle, worths: &[Worth], ps: f64) -> Cause {
    let crossing = |worth: &Worth| match worth.resource {
        Resource::Rate(cut, way) => Some((-worth.elasticity * ps, Cause::Crossing(cut, way))),
        _ => None,
    };
    let mut all: Vec<(f64, Cause)> = worths.iter().filter_map(crossing).collect();
    let moves: f64 = all.iter().map(|(share, _)| share).sum();
    let computes = cycle.computed() * cycle.times;
    all.push((computes.min(ps), Cause::CriticalPath));
    all.push((ps - computes - moves, Cause::InPlace(0)));
    let largest = all.into_iter().filter(|(share, _)| *share > 0.0);
    largest.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Cause::CriticalPath, |(_, cause)| cause)
}
