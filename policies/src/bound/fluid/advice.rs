//! What a solution of the program does, told of whole objects.
//!
//! The program keeps shares of patterns. Each object of a pattern has a place between 0 and 1 on
//! its bytes, and is inside whenever the share is larger than that: so what is inside at an instant
//! is what the program says, but for one object of each pattern, and an object that is outside
//! once stays there rather than taking turns with its like.
//! Invariant: a hint and no plan; whoever follows it must see that memory suffices.

use super::cycle::{Cycle, Steps, same_steps};
use super::instants::Instants;
use super::patterns::Pattern;
use super::rows::Rows;
use super::{Horizon, Level};
use crate::bound::Question;
use crate::bound::cut::cuts;
use crate::bound::linear::solve;
use std::collections::BTreeMap;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;

/// Instants that are looked at for a plan: few enough that objects are many between two of them.
const INSTANTS: usize = 48;

/// How much less a plan counts how long all copies take than how long the step does.
const TIDY: f64 = 0.02;

/// What the best solution does with every object of a cycle.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Ops of a cycle: one replay, or one step where all steps of the trace are the same.
    pub ops: usize,
    /// By instant: the first op behind it, in order; from 0 to `ops`.
    pub instants: Vec<u32>,
    /// Tiers inside of each cut, from HBM outwards.
    pub cuts: Vec<Vec<TierId>>,
    /// By row of the first cycle. What is not here stays in HBM.
    pub objects: BTreeMap<u32, Advised>,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    /// By cut and instant: whether it is inside, or not alive.
    pub inside: Vec<Vec<bool>>,
    /// Ops of the cycle that use it where it is.
    pub in_place: Vec<u32>,
}

/// The program's own plan for a run that has settled, with `share` of HBM for it; `None` where the
/// program says nothing.
pub fn advice(question: &Question<'_>, share: f64) -> Option<Advice> {
    let cycle = Cycle::new(question, Horizon::Steady)?;
    let sizes: Vec<Bytes> =
        question.workload.trace.objects.iter().map(|object| object.bytes).collect();
    let mut cuts = cuts(question.hardware, question.memory, &sizes);
    let first = cuts.first_mut()?;
    first.capacity = (first.capacity as f64 * share) as u128;
    let levels: Vec<Level<'_>> = cuts.iter().map(|cut| Level { cut, question }).collect();
    let instants = Instants::spread(&cycle, INSTANTS);
    let patterns = Pattern::of(&cycle, &levels, &instants);
    let mut rows = Rows::new(&cycle, &levels, &instants, &patterns);
    if rows.program.rows() > super::MOST_ROWS {
        return None;
    }
    tidies(&mut rows, &patterns);
    let values = solve(&rows.program).values;
    let lives: BTreeMap<u32, _> = cycle.lives.iter().map(|life| (life.object, life)).collect();
    let mut objects = BTreeMap::new();
    for (pattern, shares) in patterns.iter().zip(&rows.shares) {
        let mut before = 0.0;
        for row in &pattern.objects {
            let life = lives[row];
            let place = (before + life.bytes as f64 / 2.0) / pattern.bytes;
            before += life.bytes as f64;
            let above = |share: &Option<u32>| share.is_none_or(|at| values[at as usize] > place);
            let inside = shares.iter().map(|level| level.inside.iter().map(above).collect());
            let in_place = |op: u32| {
                let at = instants.place(op);
                let visit = pattern.visits.iter().position(|visit| visit.place == at);
                let shares = visit.map(|visit| shares[0].in_place[visit]).unwrap_or_default();
                let most = shares.into_iter().flatten().map(|at| values[at as usize]);
                most.fold(0.0, f64::max) > 1.0 - place
            };
            let uses = life.uses.iter().filter(|used| !used.host && in_place(used.op));
            let in_place = uses.map(|used| used.op).collect();
            objects.insert(*row, Advised { inside: inside.collect(), in_place });
        }
    }
    let (ops, instants) = (cycle.ops(), instants.ops(&cycle));
    let cuts = cuts.into_iter().map(|cut| cut.inside).collect();
    Some(Advice { ops, instants, cuts, objects })
}

/// Of solutions that take equally long, the one that moves least.
fn tidies(rows: &mut Rows, patterns: &[Pattern]) {
    let (program, unit) = (&mut rows.program, rows.unit);
    for (pattern, levels) in patterns.iter().zip(&rows.shares) {
        for (shares, moves) in levels.iter().zip(&pattern.moves) {
            for (column, span) in [(&shares.inwards, moves[0]), (&shares.outwards, moves[1])] {
                let cost = TIDY * span / unit;
                column.iter().flatten().for_each(|&at| program.costs_more(at, cost));
            }
        }
    }
}

/// Ops of a step where all steps of a trace are the same, and of all steps else; and by row of the
/// trace the object of the first of these that does the same.
pub fn alike_steps(workload: &Workload) -> (u32, Vec<u32>) {
    let Steps { count, like } = same_steps(workload);
    ((workload.trace.ops.len() as u64 / count) as u32, like)
}
