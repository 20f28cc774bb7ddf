//! Offsets assigned ahead: one step is observed, and the next ones are expected to ask the same.
//!
//! Objects of the observed step that end with it get offsets, largest first, each at the lowest
//! that no object has which lives at the same time: greedy by size, as in Pisarchyk and Lee,
//! "Efficient Memory Management for Deep Neural Net Inference" (2020). A later request takes its
//! offset if the observed step made one at the same place of the program that was no smaller, and
//! if nobody is there any more. All others ask the allocator.
//! Invariant: no two objects that live at once overlap, in the plan and in the steps that use it.

use crate::trace_memory::leaks::{Site, made};
use crate::trace_memory::replay::Held;
use std::collections::BTreeMap;
use std::ops::Range;
use tiersim_models::allocator::pool::ALIGN;
use tiersim_models::allocator::{AllocatorSpec, LARGEST};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::trace_memory::Ahead;
use tiersim_models::units::Bytes;

/// Most objects that get an offset, the largest: the work grows with their square.
const MOST: usize = 1 << 14;

/// Where an object of the observed step lies: from where to where.
type Offset = Range<u64>;

/// One object of the observed step.
struct Observed<'a> {
    site: Site<'a>,
    /// Rounded.
    bytes: u64,
    /// From its first op to the one after which it goes.
    life: (OpId, OpId),
}

/// What offsets ahead would come to, beside an allocator for all without.
pub fn ahead(workload: &Workload, spec: &AllocatorSpec) -> Ahead {
    let mut found = Ahead::default();
    let Some(&end) = workload.step_ends().first() else { return found };
    let observed = observe(workload, end, &mut found);
    let offsets = plan(&observed);
    found.planned = offsets.len();
    found.plan = Bytes::new(offsets.values().map(|offset| offset.end).max().unwrap_or(0));
    found.plan_floor = most_at_once(&observed);
    let objects = &workload.trace.objects;
    let persistent = objects.iter().filter(|object| object.persistent);
    let rounded = persistent.clone().map(|object| object.bytes.get().next_multiple_of(ALIGN));
    found.persistent = Bytes::new(rounded.sum());
    found.floor = persistent.map(|object| object.bytes).sum();
    found.same_step = workload.step_ends().len() == 1;
    let mut steps = Steps { workload, offsets, found, held: Held::new(spec, LARGEST) };
    steps.follow(end);
    let mut found = steps.found;
    found.alone = alone(workload, spec, end);
    found
}

/// What the first step makes, up to its last op; what outlives it is counted only.
fn observe<'a>(workload: &'a Workload, end: OpId, found: &mut Ahead) -> Vec<Observed<'a>> {
    let mut gone = vec![None; workload.trace.objects.len()];
    for op in (0..=end.index()).map(OpId::at) {
        workload.releases(op).iter().for_each(|object| gone[object.index()] = Some(op));
    }
    let mut observed = Vec::new();
    made(workload, |step, op, site, object| {
        if step > 0 {
            return;
        }
        let Some(last) = gone[object.index()] else {
            found.outliving += 1;
            return;
        };
        let bytes = workload.trace.objects[object.index()].bytes.get().next_multiple_of(ALIGN);
        observed.push(Observed { site, bytes, life: (op, last) });
    });
    observed
}

/// Offsets by place of the program.
fn plan<'a>(observed: &[Observed<'a>]) -> BTreeMap<Site<'a>, Offset> {
    let mut order: Vec<&Observed<'_>> = observed.iter().collect();
    order.sort_by_key(|one| (std::cmp::Reverse(one.bytes), one.life));
    order.truncate(MOST);
    // By offset.
    let mut placed: Vec<(Offset, (OpId, OpId))> = Vec::new();
    let mut offsets = BTreeMap::new();
    for one in order {
        let mut at = 0;
        for (other, life) in &placed {
            if life.1 < one.life.0 || one.life.1 < life.0 {
                continue;
            }
            if other.start >= at + one.bytes {
                break;
            }
            at = at.max(other.end);
        }
        let offset = at..at + one.bytes;
        let index = placed.partition_point(|(other, _)| other.start <= at);
        placed.insert(index, (offset.clone(), one.life));
        offsets.insert(one.site, offset);
    }
    offsets
}

/// Most bytes of observed objects at once.
fn most_at_once(observed: &[Observed<'_>]) -> Bytes {
    let mut changes: Vec<(OpId, bool, u64)> = Vec::new();
    for one in observed {
        changes.push((one.life.0, false, one.bytes));
        changes.push((one.life.1, true, one.bytes));
    }
    changes.sort_unstable();
    let (mut live, mut most) = (0, 0);
    for (_, gone, bytes) in changes {
        live = if gone { live - bytes } else { live + bytes };
        most = most.max(live);
    }
    Bytes::new(most)
}

/// The steps behind the observed one.
struct Steps<'a> {
    workload: &'a Workload,
    offsets: BTreeMap<Site<'a>, Offset>,
    found: Ahead,
    /// What has no offset.
    held: Held<'a>,
}

impl Steps<'_> {
    /// Every request behind op `end`; of a trace of one step, those of that step again.
    fn follow(&mut self, end: OpId) {
        let workload = self.workload;
        let objects = &workload.trace.objects;
        let mut sites: Vec<Option<Site<'_>>> = vec![None; objects.len()];
        made(workload, |_, _, site, object| sites[object.index()] = Some(site));
        // What lies in the plan: where each ends, and by object where it starts.
        let (mut used, mut at) = (BTreeMap::new(), BTreeMap::new());
        let mut live = self.found.floor.get();
        if !self.found.same_step {
            live += self.carry(end);
        }
        self.found.floor = Bytes::new(live);
        let from = if self.found.same_step { 0 } else { end.index() + 1 };
        for op in (from..workload.trace.ops.len()).map(OpId::at) {
            let stream = workload.trace.ops[op.index()].stream;
            for &object in workload.births(op) {
                let bytes = objects[object.index()].bytes;
                live += bytes.get();
                let site = sites[object.index()].expect("an op makes it");
                match self.offset(site, bytes, &used) {
                    Some(offset) => {
                        at.insert(object, offset.start);
                        used.insert(offset.start, offset.end);
                    }
                    None => self.beside(object, bytes, stream),
                }
            }
            self.found.floor = self.found.floor.max(Bytes::new(live));
            for &object in workload.releases(op) {
                live -= objects[object.index()].bytes.get();
                match at.remove(&object) {
                    Some(start) => drop(used.remove(&start)),
                    None => self.held.give(object),
                }
            }
            self.found.beside = self.found.beside.max(self.held.reserved());
        }
    }

    /// What the observed step left behind asks the allocator; its bytes.
    fn carry(&mut self, end: OpId) -> u64 {
        let workload = self.workload;
        let mut left = BTreeMap::new();
        for op in (0..=end.index()).map(OpId::at) {
            let stream = workload.trace.ops[op.index()].stream;
            left.extend(workload.births(op).iter().map(|&object| (object, stream)));
            for object in workload.releases(op) {
                left.remove(object);
            }
        }
        let bytes = |object: &ObjectId| workload.trace.objects[object.index()].bytes;
        for (&object, &stream) in &left {
            self.beside(object, bytes(&object), stream);
        }
        left.keys().map(|object| bytes(object).get()).sum()
    }

    /// The offset that a request takes, if it has one and that is free.
    fn offset(
        &mut self,
        site: Site<'_>,
        bytes: Bytes,
        used: &BTreeMap<u64, u64>,
    ) -> Option<Offset> {
        let Some(offset) = self.offsets.get(&site) else {
            self.found.unknown += 1;
            return None;
        };
        if bytes.get() > offset.end - offset.start {
            self.found.larger += 1;
            return None;
        }
        let before = used.range(..offset.end).next_back();
        if before.is_some_and(|(_, end)| *end > offset.start) {
            self.found.in_use += 1;
            return None;
        }
        self.found.hits += 1;
        Some(offset.clone())
    }

    fn beside(&mut self, object: ObjectId, bytes: Bytes, stream: u16) {
        self.held.take(object, bytes, stream).expect("64 TiB hold what the whole trace asks for");
        self.found.beside = self.found.beside.max(self.held.reserved());
    }
}

/// The most that the allocator keeps in the steps behind op `end`, if it serves all of the trace.
fn alone(workload: &Workload, spec: &AllocatorSpec, end: OpId) -> Bytes {
    let mut held = Held::new(spec, LARGEST);
    let mut most = Bytes::ZERO;
    let objects = &workload.trace.objects;
    let expect = "64 TiB hold what the whole trace asks for";
    let first = workload.trace.ops.first().map_or(0, |op| op.stream);
    for (index, object) in objects.iter().enumerate().filter(|(_, object)| object.persistent) {
        held.take(ObjectId::at(index), object.bytes, first).expect(expect);
    }
    let one = workload.step_ends().len() == 1;
    for op in (0..workload.trace.ops.len()).map(OpId::at) {
        let stream = workload.trace.ops[op.index()].stream;
        for &object in workload.births(op) {
            held.take(object, objects[object.index()].bytes, stream).expect(expect);
        }
        if one || op > end {
            most = most.max(held.reserved());
        }
        workload.releases(op).iter().for_each(|&object| held.give(object));
        held.op_ends();
    }
    most
}
