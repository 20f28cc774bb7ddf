//! What each node waits for, and which objects cross between the device and its host.
//!
//! Other simulators know no streams, only dependencies. So a node waits for the one before it in
//! its stream, for the ops that its op names, for those that wrote what it uses and, if it writes,
//! for those that used it. Of each stream the last of them is enough.
//! An object that one side wrote and the other needs is copied first: by a load to the device, by a
//! store from it. Copies of a direction follow one another, as on a copy engine. What persists is
//! at the beginning where it is at the end, as in every step but the first.
//! Invariant: a node waits for earlier ones only.

use std::collections::BTreeMap;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::workload::{Trace, Unit};

/// Where objects are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Device,
    Host,
}

impl Side {
    /// Where an op uses its objects.
    pub(super) fn of(unit: Unit) -> Side {
        if unit == Unit::Cpu { Side::Host } else { Side::Device }
    }

    fn other(self) -> Side {
        match self {
            Side::Device => Side::Host,
            Side::Host => Side::Device,
        }
    }
}

/// Nodes of one of these run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    Stream(u16),
    Load,
    Store,
}

/// By queue the last node of it that is waited for.
type Waits = BTreeMap<Queue, u64>;

fn add(waits: &mut Waits, (queue, node): (Queue, u64)) {
    let last = waits.entry(queue).or_insert(node);
    *last = node.max(*last);
}

/// Where an object is, and who must be waited for.
#[derive(Clone, Debug, Default)]
struct State {
    /// By side: whether its contents are there, and through which node if not from the beginning.
    there: [Option<Option<(Queue, u64)>>; 2],
    /// Who has read it since it was written.
    readers: Waits,
}

/// An object that is copied to the other side.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) node: u64,
    pub(super) object: ObjectId,
    pub(super) to: Side,
    /// What it waits for, rising.
    pub(super) after: Vec<u64>,
}

/// Where an op comes.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// Copies right before it.
    pub(super) moves: Vec<Move>,
    pub(super) node: u64,
    /// What it waits for, rising.
    pub(super) after: Vec<u64>,
}

/// Numbers nodes in the order of ops.
pub(super) struct Order<'a> {
    trace: &'a Trace,
    objects: Vec<State>,
    /// By queue its last node.
    last: Waits,
    /// By op.
    nodes: Vec<u64>,
    next: u64,
}

impl<'a> Order<'a> {
    /// The first node has the number `first`.
    pub(super) fn new(trace: &'a Trace, first: u64) -> Order<'a> {
        let state = |(object, there): (usize, [bool; 2])| State {
            there: there.map(|there| (there && trace.objects[object].persistent).then_some(None)),
            readers: Waits::new(),
        };
        let objects = at_the_end(trace).into_iter().enumerate().map(state).collect();
        let nodes = Vec::with_capacity(trace.ops.len());
        Order { trace, objects, last: Waits::new(), nodes, next: first }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Places the next op.
    pub(super) fn place(&mut self) -> Placed {
        let (trace, id) = (self.trace, OpId::at(self.nodes.len()));
        let op = &trace.ops[id.index()];
        let (side, stream) = (Side::of(op.unit), Queue::Stream(op.stream));
        let (mut waits, mut moves) = (Waits::new(), Vec::new());
        for one in trace.uses_of(id) {
            let object = one.object.index();
            if one.mode.reads() && self.objects[object].there[side as usize].is_none() {
                moves.extend(self.fetch(one.object, side));
            }
            let state = &self.objects[object];
            if one.mode.writes() {
                state.there.iter().flatten().flatten().for_each(|&node| add(&mut waits, node));
                state.readers.iter().for_each(|(&queue, &node)| add(&mut waits, (queue, node)));
            } else if let Some(Some(node)) = state.there[side as usize] {
                add(&mut waits, node);
            }
        }
        for &before in &op.after {
            let queue = Queue::Stream(trace.ops[before.index()].stream);
            add(&mut waits, (queue, self.nodes[before.index()]));
        }
        if let Some(&before) = self.last.get(&stream) {
            waits.insert(stream, before);
        }
        let node = self.number();
        for one in trace.uses_of(id) {
            let state = &mut self.objects[one.object.index()];
            if one.mode.writes() {
                *state = State::default();
                state.there[side as usize] = Some(Some((stream, node)));
            } else {
                add(&mut state.readers, (stream, node));
            }
        }
        self.last.insert(stream, node);
        self.nodes.push(node);
        Placed { moves, node, after: sorted(waits) }
    }

    /// Copies an object to where it is needed, if it is anywhere.
    fn fetch(&mut self, object: ObjectId, to: Side) -> Option<Move> {
        let from = self.objects[object.index()].there[to.other() as usize]?;
        let queue = if to == Side::Device { Queue::Load } else { Queue::Store };
        let mut waits = Waits::new();
        from.into_iter().for_each(|node| add(&mut waits, node));
        if let Some(&before) = self.last.get(&queue) {
            waits.insert(queue, before);
        }
        let node = self.number();
        let state = &mut self.objects[object.index()];
        state.there[to as usize] = Some(Some((queue, node)));
        add(&mut state.readers, (queue, node));
        self.last.insert(queue, node);
        Some(Move { node, object, to, after: sorted(waits) })
    }
}

/// By object and side whether its contents are there behind the last op; an object that nobody
/// wrote is wherever it is needed.
fn at_the_end(trace: &Trace) -> Vec<[bool; 2]> {
    let mut there = vec![[true; 2]; trace.objects.len()];
    for (id, op) in trace.ops.iter().enumerate() {
        let side = Side::of(op.unit);
        for one in trace.uses_of(OpId::at(id)) {
            let there = &mut there[one.object.index()];
            if one.mode.writes() {
                *there = [false; 2];
            }
            there[side as usize] = true;
        }
    }
    there
}

fn sorted(waits: Waits) -> Vec<u64> {
    let mut nodes: Vec<u64> = waits.into_values().collect();
    nodes.sort_unstable();
    nodes
}
