//! Every schedule of a tiny trace: the judge of bounds and policies.
//!
//! Before each op of a trace of one stream, any sequence of fetches, write-backs, evictions and
//! drops may come; births go to any tier, and what is not in HBM is used in place. Ops on the
//! host's processors use what is outside, and what they create or overwrite whole is made there.
//! `State` says what each action costs, as planner and machine together have it, written down a
//! second time. The search keeps, for every residency, the states that no other beats in every
//! moment that the future can see: all of these are maxima of sums, so an earlier moment never
//! makes a later one later. Machines are stars: tiers without limit, each behind a link of its own
//! to HBM, first come, first served. Copies between two tiers outside HBM are left out.
//! Invariant: the best schedule is one that the planner allows; tests replay it.

mod state;
mod tiny;

pub use state::{Act, Machine};
pub use tiny::{Tiny, policies};

use crate::prelude::*;
use state::{HBM_SLOTS, State};

/// The best schedule of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// When the last op ends, in picoseconds.
    pub ps: u32,
    /// What is where at the start, and what is done before each op. `None` if no schedule is better
    /// than the one that the search was told of.
    pub schedule: Option<Scripted>,
    /// States that were looked at.
    pub states: usize,
}

struct Node {
    state: State,
    from: Option<usize>,
    act: Option<Act>,
    /// The op that ran last begins a new turn.
    turn: u32,
}

/// The earliest end of all schedules, if it is before `known`. `both` lets objects start in HBM and
/// outside it at the same time, as they may be after a warm-up.
pub fn search(machine: &Machine, workload: &Workload, known: u32, both: bool) -> Best {
    let ops = workload.trace.ops.len();
    let mut left = vec![0u32; ops + 1];
    for op in (0..ops).rev() {
        left[op] = left[op + 1] + machine.durations[op];
    }
    let mut search = Search { machine, workload, nodes: Vec::new(), known, left };
    let mut frontier = Frontier::new();
    for state in State::starts(machine, workload, both) {
        search.add(&mut frontier, Node { state, from: None, act: None, turn: 0 });
    }
    for op in (0..ops).map(OpId::at) {
        frontier = search.turn(op, frontier);
    }
    let ends = frontier.values().flatten().map(|&index| (search.nodes[index].state.now(), index));
    let best = ends.min();
    let states = search.nodes.len();
    match best {
        Some((ps, index)) => Best { ps, schedule: Some(search.schedule(index)), states },
        None => Best { ps: known, schedule: None, states },
    }
}

/// The states that none beats, by residency.
type Frontier = BTreeMap<u32, Vec<usize>>;

struct Search<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    nodes: Vec<Node>,
    known: u32,
    /// What ops compute from each on.
    left: Vec<u32>,
}

impl Search<'_> {
    /// Keeps a state unless another is as good; says whether it did.
    fn add(&mut self, frontier: &mut Frontier, node: Node) -> bool {
        if node.state.now() + self.left[node.turn as usize] >= self.known {
            return false;
        }
        let kept = frontier.entry(node.state.residency()).or_default();
        if kept.iter().any(|&other| self.nodes[other].state.is_no_later(&node.state)) {
            return false;
        }
        kept.retain(|&other| !node.state.is_no_later(&self.nodes[other].state));
        kept.push(self.nodes.len());
        self.nodes.push(node);
        true
    }

    /// All that can come before one op, and the op.
    fn turn(&mut self, op: OpId, mut frontier: Frontier) -> Frontier {
        let turn = op.0;
        let mut open: Vec<usize> = frontier.values().flatten().copied().collect();
        while let Some(from) = open.pop() {
            let state = self.nodes[from].state;
            if !frontier.get(&state.residency()).is_some_and(|kept| kept.contains(&from)) {
                continue;
            }
            for act in state.acts(self.machine, self.workload, op) {
                let state = state.after(self.machine, act);
                let node = Node { state, from: Some(from), act: Some(act), turn };
                if self.add(&mut frontier, node) {
                    open.push(self.nodes.len() - 1);
                }
            }
        }
        let mut next = Frontier::new();
        let mut ends = Vec::new();
        for from in frontier.into_values().flatten() {
            self.nodes[from].state.run(self.machine, self.workload, op, &mut ends);
            for (state, births) in ends.drain(..) {
                let act = Some(Act::Run { births });
                self.add(&mut next, Node { state, from: Some(from), act, turn: turn + 1 });
            }
        }
        next
    }

    fn schedule(&self, mut index: usize) -> Scripted {
        let objects = self.workload.trace.objects.len();
        let mut op = self.workload.trace.ops.len();
        let mut replay = Scripted {
            script: vec![Vec::new(); op],
            births: vec![Vec::new(); op],
            host: (1..=self.machine.tiers.len()).map(TierId::at).collect(),
            ..Scripted::default()
        };
        while let (Some(from), Some(act)) = (self.nodes[index].from, self.nodes[index].act) {
            let before = &self.nodes[from].state;
            if let Act::Run { births } = act {
                op -= 1;
                let born = before.born(self.workload, OpId::at(op));
                let born = born.into_iter().zip(births);
                replay.births[op] = born.map(|(object, tier)| (object, TierId(tier))).collect();
            }
            before.actions(self.machine, self.workload, OpId::at(op), act, &mut replay.script[op]);
            index = from;
        }
        replay.script.iter_mut().for_each(|actions| actions.reverse());
        let first = &self.nodes[index].state;
        replay.start =
            (0..objects).map(|object| first.nearest(object).unwrap_or(TierId(0))).collect();
        replay
    }
}

const _: () =
    assert!(HBM_SLOTS <= 8 && state::OBJECTS * state::TIERS <= 15, "a residency fits its number");
