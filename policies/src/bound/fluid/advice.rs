//! What a solution of the program does, told of whole objects.
//!
//! The program keeps shares of patterns. Each object of a pattern has a place between 0 and 1 on
//! its bytes, and is inside whenever the share is larger than that: so what is inside at an instant
//! is what the program says, but for one object of each pattern, and an object that is outside
//! once stays there rather than taking turns with its like. Where that object lies may be turned,
//! for each pattern by another part of the golden section: a pattern of one object is then inside
//! in as many turns as its share says.
//! Invariant: a hint and no plan; whoever follows it must see that memory suffices.

use super::Horizon;
use super::cycle::{Cycle, Steps, same_steps};
use super::instants::Instants;
use super::level::levels;
use super::patterns::Pattern;
use super::rows::{Rows, Shares};
use crate::bound::Question;
use crate::bound::linear::solve;
use std::collections::BTreeMap;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;

/// Instants that are looked at for a plan: few enough that objects are many between two of them.
const INSTANTS: usize = 48;

/// Of a full turn, how much further the places of each pattern are turned than those of the one
/// before: the golden section, whose multiples lie evenly however many they are.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

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
    /// Ops of the cycle behind which it is not copied out before it is used again.
    pub kept: Vec<u32>,
}

/// The program's own plans for a run that has settled, with `share` of HBM for it: one by turn,
/// of which 0 leaves places as they are; `None` where the program says nothing.
pub fn advice(question: &Question<'_>, share: f64, turns: &[f64]) -> Option<Vec<Advice>> {
    let cycle = Cycle::new(question, Horizon::Steady)?;
    let levels = levels(question, share);
    if levels.is_empty() {
        return None;
    }
    let instants = Instants::spread(&cycle, INSTANTS);
    let patterns = Pattern::of(&cycle, &levels, &instants);
    let mut rows = Rows::new(&cycle, &levels, &instants, &patterns);
    if rows.program.rows() > super::MOST_ROWS {
        return None;
    }
    tidies(&mut rows, &patterns);
    let values = solve(&rows.program).values;
    let solved = Solved { cycle: &cycle, instants: &instants, values: &values };
    let round = |&turn: &f64| {
        let (mut objects, mut begins) = (BTreeMap::new(), turn);
        for (pattern, shares) in patterns.iter().zip(&rows.shares) {
            begins += if turn > 0.0 { GOLDEN } else { 0.0 };
            solved.rounds(pattern, shares, begins, &mut objects);
        }
        let cuts = levels.iter().map(|level| level.cut.inside.clone()).collect();
        Advice { ops: cycle.ops(), instants: instants.ops(&cycle), cuts, objects }
    };
    Some(turns.iter().map(round).collect())
}

/// A solution of the program.
struct Solved<'a> {
    cycle: &'a Cycle,
    instants: &'a Instants,
    values: &'a [f64],
}

impl Solved<'_> {
    fn value(&self, share: u32) -> f64 {
        self.values[share as usize]
    }

    /// What it does with each object of a pattern, whose places begin at `begins`.
    fn rounds(
        &self,
        pattern: &Pattern,
        shares: &[Shares],
        begins: f64,
        objects: &mut BTreeMap<u32, Advised>,
    ) {
        let mut before = 0.0;
        let lives = pattern.objects.iter().map(|row| {
            let at = self.cycle.lives.binary_search_by_key(row, |life| life.object);
            &self.cycle.lives[at.expect("patterns are of lives")]
        });
        for life in lives {
            let place = ((before + life.bytes as f64 / 2.0) / pattern.bytes + begins).fract();
            before += life.bytes as f64;
            let above = |share: &Option<u32>| share.is_none_or(|at| self.value(at) > place);
            let inside = shares.iter().map(|level| level.inside.iter().map(above).collect());
            let visit = |op: u32| {
                let at = self.instants.place(op);
                pattern.visits.iter().position(|visit| visit.place == at)
            };
            let in_place = |op: u32| {
                let uses = visit(op).map(|visit| shares[0].in_place[visit]).unwrap_or_default();
                let most = uses.into_iter().flatten().map(|at| self.value(at));
                most.fold(0.0, f64::max) > 1.0 - place
            };
            let kept = |op: u32| {
                visit(op).is_some_and(|visit| self.crosses(pattern, &shares[0], visit) <= place)
            };
            let uses = || life.uses.iter().filter(|used| !used.host).map(|used| used.op);
            let advised = Advised {
                inside: inside.collect(),
                in_place: uses().filter(|&op| in_place(op)).collect(),
                kept: uses().filter(|&op| kept(op)).collect(),
            };
            objects.insert(life.object, advised);
        }
    }

    /// The share that crosses outwards from a visit until the next one.
    fn crosses(&self, pattern: &Pattern, shares: &Shares, visit: usize) -> f64 {
        let windows = self.instants.windows();
        let from = pattern.visits[visit].window();
        let until = match pattern.visits.get(visit + 1) {
            Some(next) => next.window(),
            None if pattern.persistent => windows + pattern.visits[0].window(),
            None => windows,
        };
        let crosses = (from..until.max(from + 1)).map(|window| shares.outwards[window % windows]);
        crosses.flatten().map(|at| self.value(at)).sum()
    }
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
