//! What each moment on a thread of the host lies in: ops within ops, nodes of the backward graph,
//! ranges that a program named, modules.
//!
//! Ranges of a thread nest. A sweep over all of them in the order of time keeps those that are
//! open, and hands down to each what it lies in, so that no question walks up a chain of any
//! length.
//! Invariant: takes time n log n for n ranges and questions, however deep they nest.

use super::tables::{Kind, NONE, Range, Tables};

/// No range.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What a range lies in, itself among it; numbers of ranges, or [`NOWHERE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    pub(super) parent: u32,
    /// The innermost node of the backward graph.
    pub(super) node: u32,
    /// The innermost op.
    pub(super) op: u32,
    pub(super) optimizer: u32,
    pub(super) zero_grad: u32,
    pub(super) module: u32,
    /// The innermost range that a program called forward or backward.
    pub(super) pass: u32,
    /// The innermost range that a program named otherwise.
    pub(super) label: u32,
}

impl Within {
    const NOTHING: Within = Within {
        parent: NOWHERE,
        node: NOWHERE,
        op: NOWHERE,
        optimizer: NOWHERE,
        zero_grad: NOWHERE,
        module: NOWHERE,
        pass: NOWHERE,
        label: NOWHERE,
    };
}

/// All threads.
#[derive(Debug)]
pub(super) struct Host {
    /// By range.
    pub(super) within: Vec<Within>,
    /// Ranges by thread and start, the outer one first.
    pub(super) order: Vec<u32>,
}

impl Host {
    pub(super) fn new(tables: &Tables) -> Host {
        let ranges = &tables.ranges;
        let mut order: Vec<u32> = (0..ranges.len() as u32).collect();
        order.sort_by_key(|&id| key(&ranges[id as usize], id));
        let mut host = Host { within: vec![Within::NOTHING; ranges.len()], order };
        let order = std::mem::take(&mut host.order);
        let mut open = Open::default();
        for &id in &order {
            let range = &ranges[id as usize];
            let above = open.at(ranges, range.thread, range.start, false);
            let within = above.map_or(Within::NOTHING, |above| host.within[above as usize]);
            let parent = above.unwrap_or(NOWHERE);
            host.within[id as usize] = inherited(Within { parent, ..within }, id, range.kind);
            open.stack.push(id);
        }
        Host { order, ..host }
    }

    /// The innermost range of each moment on a thread, or [`NOWHERE`].
    pub(super) fn innermost(&self, tables: &Tables, moments: &[(u32, i64)]) -> Vec<u32> {
        let ranges = &tables.ranges;
        let mut asked: Vec<u32> = (0..moments.len() as u32).collect();
        asked.sort_by_key(|&index| moments[index as usize]);
        let (mut next, mut open) = (0, Open::default());
        let mut found = vec![NOWHERE; moments.len()];
        for index in asked {
            let (thread, time) = moments[index as usize];
            while let Some(&id) = self.order.get(next) {
                let range = &ranges[id as usize];
                if (range.thread, range.start) > (thread, time) {
                    break;
                }
                open.at(ranges, range.thread, range.start, false);
                open.stack.push(id);
                next += 1;
            }
            found[index as usize] = open.at(ranges, thread, time, true).unwrap_or(NOWHERE);
        }
        found
    }

    /// What a range lies in; nothing for [`NOWHERE`].
    pub(super) fn of(&self, range: u32) -> Within {
        self.within.get(range as usize).copied().unwrap_or(Within::NOTHING)
    }
}

/// The place of a range in the order of the sweep.
fn key(range: &Range, id: u32) -> (u32, i64, std::cmp::Reverse<i64>, u32) {
    (range.thread, range.start, std::cmp::Reverse(range.end), id)
}

fn inherited(within: Within, id: u32, kind: Kind) -> Within {
    let mut within = within;
    match kind {
        Kind::Op => within.op = id,
        Kind::Node | Kind::Accumulate => within.node = id,
        Kind::Optimizer => within.optimizer = id,
        Kind::ZeroGrad => within.zero_grad = id,
        Kind::Module => within.module = id,
        Kind::Forward | Kind::Backward => within.pass = id,
        Kind::Label => within.label = id,
        Kind::Step(_) => {}
    }
    within
}

/// The ranges that are open, of one thread.
#[derive(Default)]
struct Open {
    stack: Vec<u32>,
}

impl Open {
    /// Closes what has ended by `time`, or before it where it is `inclusive`; the innermost of the
    /// others.
    fn at(&mut self, ranges: &[Range], thread: u32, time: i64, inclusive: bool) -> Option<u32> {
        while let Some(&top) = self.stack.last() {
            let range = &ranges[top as usize];
            let open = range.thread == thread
                && (range.end > time || (inclusive && range.end == time) || range.start == time);
            if open {
                return Some(top);
            }
            self.stack.pop();
        }
        None
    }
}

/// What ran forward, by the number that pairs it with what ran backward for it.
#[derive(Debug)]
pub(super) struct Sequences {
    /// Number, start and range.
    forward: Vec<(i64, i64, u32)>,
}

impl Sequences {
    pub(super) fn new(tables: &Tables, host: &Host) -> Sequences {
        let mut forward = Vec::new();
        for (id, range) in tables.ranges.iter().enumerate() {
            let of = host.within[id];
            if range.kind == Kind::Op && range.sequence != NONE && of.node == NOWHERE {
                forward.push((range.sequence, range.start, id as u32));
            }
        }
        forward.sort_unstable();
        Sequences { forward }
    }

    /// The op that ran forward for a node: the last with its number before it. Ops that make no
    /// node have the number of the next that does.
    pub(super) fn forward(&self, node: &Range) -> Option<u32> {
        let number = node.sequence;
        let behind = self.forward.partition_point(|&(of, at, _)| (of, at) < (number, node.start));
        let &(of, _, op) = self.forward[..behind].last()?;
        (of == number && number != NONE).then_some(op)
    }
}
