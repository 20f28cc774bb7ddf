//! The rules of `after`: an op may wait only for ops that are listed before it.
//!
//! Ops are issued in row order and every stream runs in order, so an edge that points backward can
//! never deadlock and needs no search. Only where an edge points forward is a graph built, to tell
//! a true cycle, which is printed, from ops that are merely listed in the wrong order.
//! Invariant: all searches are iterative; a long chain of ops cannot exhaust the call stack.

use super::Problems;
use crate::workload::{Table, Trace};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeMap;
use std::collections::VecDeque;

/// A cycle longer than this is cut in the middle when printed.
const MAX_SHOWN: usize = 12;

pub(super) fn order_rules(trace: &Trace, found: &mut Problems) {
    let count = trace.ops.len();
    let mut forward = Vec::new();
    for (op, row) in trace.ops.iter().enumerate() {
        for awaited in &row.after {
            if awaited.index() >= count {
                let text = format!("after {} of {count} ops", awaited.0);
                found.add(Table::Ops, op, text, "name an op of this trace");
            } else if awaited.index() >= op {
                forward.push((op, awaited.index()));
            }
        }
    }
    if forward.is_empty() {
        return;
    }
    let waits = Waits::new(trace);
    let component = waits.components();
    let mut printed = vec![false; count];
    for (op, awaited) in forward {
        if component[op] != component[awaited] {
            let text = format!("op {op} waits for op {awaited}, which is listed later");
            found.add(Table::Ops, op, text, "list the op before the op that waits for it");
        } else if !std::mem::replace(&mut printed[component[op]], true) {
            let cycle = waits.cycle(op, awaited, &component);
            let remedy = "break the cycle ('->' reads 'waits for'; a stream runs in row order)";
            found.add(Table::Ops, op, format!("a dependency cycle: {cycle}"), remedy);
        }
    }
}

/// Who waits for whom: `after` edges, and the op before it in the same stream.
struct Waits<'a> {
    trace: &'a Trace,
    previous: Vec<Option<usize>>,
}

impl<'a> Waits<'a> {
    fn new(trace: &'a Trace) -> Waits<'a> {
        let mut last: BTreeMap<u16, usize> = BTreeMap::new();
        let previous = trace.ops.iter().enumerate().map(|(i, op)| last.insert(op.stream, i));
        let previous = previous.collect();
        Waits { trace, previous }
    }

    /// The ops that `op` waits for, and whether the stream's order is the only reason.
    fn of(&self, op: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let count = self.trace.ops.len();
        let edges = self.trace.ops[op].after.iter().map(|awaited| (awaited.index(), false));
        edges.filter(move |&(to, _)| to < count).chain(self.previous[op].map(|to| (to, true)))
    }

    /// A number per op, equal for ops that wait for each other.
    fn components(&self) -> Vec<usize> {
        let count = self.trace.ops.len();
        let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count, count);
        for _ in 0..count {
            graph.add_node(());
        }
        for op in 0..count {
            for (to, _) in self.of(op) {
                // Past 2^32 edges the rest is left out: forward edges are refused in any case.
                let _ = graph.try_add_edge(NodeIndex::new(op), NodeIndex::new(to), ());
            }
        }
        let mut component = vec![0; count];
        for (number, members) in kosaraju_scc(&graph).iter().enumerate() {
            for member in members {
                component[member.index()] = number;
            }
        }
        component
    }

    /// The shortest way from `awaited` back to `op`, as text.
    fn cycle(&self, op: usize, awaited: usize, component: &[usize]) -> String {
        let mut came_from: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
        let mut queue = VecDeque::from([awaited]);
        while let Some(at) = queue.pop_front() {
            if at == op {
                break;
            }
            for (to, in_stream) in self.of(at) {
                if component[to] == component[op] && to != awaited && !came_from.contains_key(&to) {
                    came_from.insert(to, (at, in_stream));
                    queue.push_back(to);
                }
            }
        }
        // Walked from the end: `op`, then whoever waits for it, up to `awaited`.
        let mut path = vec![(op, false)];
        let mut at = op;
        while at != awaited {
            let Some(&(from, in_stream)) = came_from.get(&at) else { break };
            if let Some(last) = path.last_mut() {
                last.1 = in_stream;
            }
            path.push((from, false));
            at = from;
        }
        path.push((op, false));
        path.reverse();
        show(&path)
    }
}

/// Prints `op 3 -> op 9 -> op 3`. The flag says that an op is reached by stream order alone.
fn show(path: &[(usize, bool)]) -> String {
    let inner = |i: usize| path[i].1 && path.get(i + 1).is_some_and(|next| next.1);
    // A run of one stream is shown by its two ends: in between, nothing can be mended.
    let mut names: Vec<String> =
        (0..path.len()).filter(|&i| !inner(i)).map(|i| format!("op {}", path[i].0)).collect();
    if names.len() > MAX_SHOWN {
        let hidden = names.len() - MAX_SHOWN;
        names.splice(MAX_SHOWN / 2..MAX_SHOWN / 2 + hidden, [format!("({hidden} more)")]);
    }
    names.join(" -> ")
}
