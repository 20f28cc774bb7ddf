//! The workload in which some layers run forward again before their backward needs them.
//!
//! What only the layer's own ops use in forward is given up there, and comes back as another
//! object: its second life, written by the same ops once more, right before the first op of
//! backward that needs any of it. What the layer takes from others and what it hands on stays:
//! these are the checkpoints. Repeated are only ops without which something given up cannot come
//! back, in their order.
//! Invariant: an op is repeated only if all that it reads then holds what it held the first time,
//! and it changes nothing that others see; ops, objects and uses that are not concerned stay as
//! they are.

use super::layers::{Layers, Waiting};
use crate::recipe::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::trace_rules::MAX_NAME_BYTES;
use tiersim_models::workload::{AGAIN, Mode, Op, Phase, Trace, Use};

/// Bytes of a name that are kept for what is added to it.
const ADDED: usize = 24;

/// One layer of one forward pass that runs again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    /// Before this op.
    at: usize,
    /// These ops, rising.
    ops: BTreeSet<usize>,
    /// What has a second life in which backward uses it.
    dropped: BTreeSet<ObjectId>,
    /// What the repeated ops have among themselves, with the dropped.
    inner: BTreeSet<ObjectId>,
    /// What they write besides, into room that nobody reads.
    scratch: BTreeSet<ObjectId>,
}

/// What is asked of one layer in one pass.
struct Rerun<'a> {
    trace: &'a Trace,
    layers: &'a Layers,
    /// Its layer and pass.
    own: (Option<usize>, u32),
    /// The op before which it runs again.
    at: usize,
}

impl Rerun<'_> {
    /// Whether nothing but the layer's own forward uses an object before it is needed again.
    fn is_inner(&self, object: ObjectId) -> bool {
        let uses = &self.layers.uses[object.index()];
        let forward = |op: usize| self.trace.ops[op].phase == Phase::Forward;
        let own = |op: usize| self.layers.of[op] == self.own && forward(op);
        let early = || uses.iter().take_while(|&&(op, _)| op < self.at);
        let born_here = uses.first().is_some_and(|&(op, _)| own(op));
        !self.trace.objects[object.index()].persistent
            && born_here
            && early().all(|&(op, _)| own(op))
    }

    /// Adds what it takes to have an object again; `false` if that cannot be.
    fn add(&self, object: ObjectId, found: &mut Segment) -> bool {
        let mut wanted = vec![object];
        while let Some(object) = wanted.pop() {
            if !found.inner.insert(object) {
                continue;
            }
            for &(op, mode) in &self.layers.uses[object.index()] {
                if op >= self.at || !mode.writes() || !found.ops.insert(op) {
                    continue;
                }
                for &touched in self.trace.uses_of(OpId::at(op)) {
                    if self.is_inner(touched.object) {
                        wanted.push(touched.object);
                    } else if !self.is_harmless(touched, op) {
                        return false;
                    } else if touched.mode.writes() {
                        found.scratch.insert(touched.object);
                    }
                }
            }
        }
        true
    }

    /// Whether an op that runs again finds and leaves an object of others as it is to be.
    fn is_harmless(&self, touched: Use, op: usize) -> bool {
        let uses = &self.layers.uses[touched.object.index()];
        let mut later = uses.iter().filter(|&&(at, _)| op < at && at < self.at);
        match touched.mode {
            Mode::Read => later.all(|(_, mode)| !mode.writes()),
            Mode::Write => !self.trace.objects[touched.object.index()].persistent,
            Mode::ReadWrite => false,
        }
    }
}

/// What runs again for what of a layer waits in one pass; `None` if nothing can.
fn segment(trace: &Trace, layers: &Layers, waiting: &[Waiting]) -> Option<Segment> {
    let mut left: Vec<Waiting> = waiting.to_vec();
    loop {
        let first = left.iter().min_by_key(|waiting| waiting.first)?;
        let own = (Some(first.layer), first.pass);
        let asked = Rerun { trace, layers, own, at: first.first };
        let mut all = Segment { at: first.first, ..Segment::default() };
        let mut kept = Vec::new();
        for &one in &left {
            let mut found = Segment::default();
            if asked.is_inner(one.object) && asked.add(one.object, &mut found) {
                all.ops.append(&mut found.ops);
                all.inner.append(&mut found.inner);
                all.scratch.append(&mut found.scratch);
                all.dropped.insert(one.object);
                kept.push(one);
            }
        }
        // Where something stays, what is needed first may be another.
        if kept.len() == left.len() {
            return Some(all);
        }
        left = kept;
    }
}

/// The workload in which these layers, by number, run again; `None` if nothing can.
///
/// Errors in words if its sums leave what a trace may have.
pub(super) fn rewritten(
    workload: &Workload,
    layers: &Layers,
    recomputed: &[bool],
) -> Result<Option<Rewrite>, String> {
    let trace = &workload.trace;
    let mut groups: BTreeMap<(usize, u32), Vec<Waiting>> = BTreeMap::new();
    for waiting in layers.waiting.iter().filter(|waiting| recomputed[waiting.layer]) {
        groups.entry((waiting.layer, waiting.pass)).or_default().push(*waiting);
    }
    let mut segments: Vec<Segment> =
        groups.values().filter_map(|waiting| segment(trace, layers, waiting)).collect();
    if segments.is_empty() {
        return Ok(None);
    }
    segments.sort_by_key(|segment| segment.at);
    let (trace, source) = Writer::new(trace).write(&segments);
    if let Some(problem) = trace.problems().first() {
        return Err(format!("with ops that run again, the trace has {}", problem.found));
    }
    Ok(Some(Rewrite { workload: Workload::new(trace), source, policy: None }))
}

/// The new trace in the making.
struct Writer<'a> {
    old: &'a Trace,
    new: Trace,
    source: Vec<OpId>,
    /// By old op: its new number.
    moved: Vec<OpId>,
    names: BTreeSet<String>,
    /// By old object: what backward uses in its place.
    second: BTreeMap<ObjectId, ObjectId>,
    /// By old object: the last repeated op that reads it.
    read_again: BTreeMap<ObjectId, OpId>,
}

impl<'a> Writer<'a> {
    fn new(old: &'a Trace) -> Writer<'a> {
        let (ops, uses) = (Vec::with_capacity(old.ops.len()), Vec::with_capacity(old.uses.len()));
        let (meta, modules, objects) = (old.meta.clone(), old.modules.clone(), old.objects.clone());
        Writer {
            old,
            new: Trace { meta, modules, objects, ops, uses },
            source: Vec::with_capacity(old.ops.len()),
            moved: Vec::with_capacity(old.ops.len()),
            names: old.objects.iter().map(|object| object.name.to_string()).collect(),
            second: BTreeMap::new(),
            read_again: BTreeMap::new(),
        }
    }

    fn write(mut self, segments: &[Segment]) -> (Trace, Vec<OpId>) {
        let mut segments = segments.iter().peekable();
        for index in 0..self.old.ops.len() {
            while let Some(segment) = segments.next_if(|segment| segment.at == index) {
                self.repeat(segment);
            }
            self.moved.push(OpId::at(self.new.ops.len()));
            let mut op = self.old.ops[index].clone();
            op.after.iter_mut().for_each(|after| *after = self.moved[after.index()]);
            let start = self.new.uses.len() as u32;
            for touched in self.old.uses_of(OpId::at(index)) {
                let object = *self.second.get(&touched.object).unwrap_or(&touched.object);
                self.new.uses.push(Use { object, ..*touched });
            }
            op.uses = start..self.new.uses.len() as u32;
            self.push(op, OpId::at(index));
        }
        for (index, object) in self.old.objects.iter().enumerate() {
            let Some(freed) = object.freed_after else { continue };
            let id = ObjectId::at(index);
            let freed = self.moved[freed.index()];
            let first = match self.second.get(&id) {
                // The first life ends with its last use.
                Some(second) => {
                    self.new.objects[second.index()].freed_after = Some(freed);
                    None
                }
                None => self.read_again.get(&id).map_or(Some(freed), |&read| Some(freed.max(read))),
            };
            self.new.objects[index].freed_after = first;
        }
        (self.new, self.source)
    }

    fn push(&mut self, op: Op, source: OpId) {
        self.new.ops.push(op);
        self.source.push(source);
    }

    /// The ops of a segment, for the op that comes next.
    fn repeat(&mut self, segment: &Segment) {
        let mut lives: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
        for &object in segment.inner.union(&segment.scratch) {
            let mut row = self.old.objects[object.index()].clone();
            row.name = self.name(&row.name).into();
            row.freed_after = None;
            let id = ObjectId::at(self.new.objects.len());
            self.new.objects.push(row);
            lives.insert(object, id);
        }
        let user = &self.old.ops[segment.at];
        for &index in &segment.ops {
            let mut op = self.old.ops[index].clone();
            op.name = format!("{AGAIN} {}", short(&op.name)).into();
            (op.step, op.phase, op.stream, op.rank) =
                (user.step, user.phase, user.stream, user.rank);
            op.at = None;
            op.after.iter_mut().for_each(|after| *after = self.moved[after.index()]);
            let start = self.new.uses.len() as u32;
            for touched in self.old.uses_of(OpId::at(index)) {
                let mut object = touched.object;
                if touched.mode.writes() || segment.inner.contains(&object) {
                    object = lives[&object];
                } else {
                    self.read_again.insert(object, OpId::at(self.new.ops.len()));
                }
                self.new.uses.push(Use { object, ..*touched });
            }
            op.uses = start..self.new.uses.len() as u32;
            self.push(op, OpId::at(index));
        }
        let dropped = segment.dropped.iter().map(|object| (*object, lives[object]));
        self.second.extend(dropped);
    }

    /// A name that no object has yet.
    fn name(&mut self, old: &str) -> String {
        let mut name = format!("{} again", short(old));
        let mut number = 1;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{} again {number}", short(old));
        }
        name
    }
}

/// As much of a name as leaves room for what is added to it.
pub(super) fn short(name: &str) -> &str {
    let most = (MAX_NAME_BYTES - ADDED).min(name.len());
    let end = (0..=most).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    &name[..end]
}
