//! Where the program looks at what is inside.
//!
//! Instant 0 is where the cycle begins, the last one where it ends; between them are starts of ops,
//! and ends where every op has both. A window lies between two instants that follow each other.
//! Invariant: ops of a window, and those at its first instant, run in it and in no other.

use super::cycle::{Cycle, Used};

/// Of so many instants one is where an op uses most at once.
const LARGE: usize = 6;

/// The instants of a cycle.
#[derive(Debug)]
pub(crate) struct Instants {
    /// Ops, and whether it is their end, in order.
    marks: Vec<(u32, bool)>,
    /// The last mark is where the cycle ends.
    whole: bool,
}

/// Where an op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// It begins at the first instant and ends behind the last: at `last`, if the two differ.
    At { first: u32, last: u32 },
    /// Within a window, numbered as the instant before it.
    In { window: u32 },
}

impl Instants {
    /// The start and the end of every op.
    pub(crate) fn all(cycle: &Cycle) -> Instants {
        let marks = (0..cycle.ops() as u32).flat_map(|op| [(op, false), (op, true)]).collect();
        Instants { marks, whole: true }
    }

    /// About `count` starts of ops: half of them spread evenly over time and number of ops, half of
    /// them where most is alive between these; and a few more, where ops use most at once.
    pub(crate) fn spread(cycle: &Cycle, count: usize) -> Instants {
        let ops = cycle.ops();
        let alive = alive(cycle);
        let parts = (count / 2).max(1).min(ops);
        let all = cycle.computed().max(1.0);
        let weight = |op: usize| 1.0 / ops as f64 + cycle.spans[op] / all;
        let (mut sum, mut begins) = (0.0, vec![0usize]);
        for op in 0..ops {
            if sum * parts as f64 >= 2.0 * begins.len() as f64 {
                begins.push(op);
            }
            sum += weight(op);
        }
        begins.push(ops);
        let mut chosen: Vec<u32> = Vec::new();
        for pair in begins.windows(2).filter(|pair| pair[0] < pair[1]) {
            let most = (pair[0]..pair[1]).rev().max_by_key(|&op| alive[op]);
            chosen.extend([pair[0] as u32, most.unwrap_or(pair[0]) as u32]);
        }
        let used = used(cycle);
        let mut order: Vec<u32> = (0..ops as u32).collect();
        order.sort_by_key(|&op| (std::cmp::Reverse(used[op as usize]), op));
        chosen.extend(order.iter().take(count.div_ceil(LARGE)));
        chosen.sort_unstable();
        chosen.dedup();
        Instants { marks: chosen.into_iter().map(|op| (op, false)).collect(), whole: false }
    }

    /// How many windows there are: as many as instants, the one in which the cycle ends counted as
    /// the one in which it begins.
    pub(crate) fn windows(&self) -> usize {
        self.marks.len() + usize::from(!self.whole)
    }

    /// By instant: the first op that begins there or behind it.
    pub(crate) fn ops(&self, cycle: &Cycle) -> Vec<u32> {
        let marks = self.marks.iter().map(|&(op, ends)| op + u32::from(ends));
        let end = (!self.whole).then(|| cycle.ops() as u32);
        [0].into_iter().chain(marks).chain(end).collect()
    }

    pub(crate) fn every_op(&self) -> bool {
        self.whole
    }

    /// A window in which one op runs and nothing else.
    pub(crate) fn runs(&self, window: usize) -> bool {
        let begins = window > 0 && self.marks.get(window - 1).is_some_and(|mark| !mark.1);
        begins && self.marks.get(window) == self.marks.get(window - 1).map(|m| (m.0, true)).as_ref()
    }

    pub(crate) fn place(&self, op: u32) -> Place {
        let before = self.marks.partition_point(|&mark| mark < (op, false));
        match self.marks.get(before) {
            Some(&(at, false)) if at == op => {
                let ends = self.marks.get(before + 1) == Some(&(op, true));
                let first = before as u32 + 1;
                Place::At { first, last: first + u32::from(ends) }
            }
            _ => Place::In { window: before as u32 },
        }
    }

    /// By window: picoseconds that its ops compute.
    pub(crate) fn computed(&self, cycle: &Cycle) -> Vec<f64> {
        let mut sums = vec![0.0; self.windows()];
        for (op, span) in cycle.spans.iter().enumerate() {
            let window = match self.place(op as u32) {
                Place::At { first, .. } => first,
                Place::In { window } => window,
            };
            sums[window as usize] += span;
        }
        sums
    }
}

/// By op: bytes of all objects that it uses.
fn used(cycle: &Cycle) -> Vec<u128> {
    let mut used = vec![0; cycle.ops()];
    for life in &cycle.lives {
        let mut before = None;
        for &Used { op, .. } in &life.uses {
            if before.replace(op) != Some(op) {
                used[op as usize] += u128::from(life.bytes);
            }
        }
    }
    used
}

/// By op: bytes that are alive.
fn alive(cycle: &Cycle) -> Vec<i128> {
    let mut changes = Vec::new();
    for life in cycle.lives.iter().filter(|life| !life.persistent) {
        let bytes = i128::from(life.bytes);
        changes.extend([(life.uses[0].op, bytes), (life.ends + 1, -bytes)]);
    }
    crate::visits::running(cycle.ops(), changes)
}
