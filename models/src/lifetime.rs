//! What follows from the order of a trace: births, releases, passes.
//!
//! A [`Workload`] is a trace with these facts worked out once, so that a run looks them up.
//! Invariant: built only from a trace without [`Trace::problems`].

use crate::ids::{ModuleId, ObjectId, OpId};
use crate::serving_plan::{Plan, Served};
use crate::units::Bytes;
use crate::workload::{Object, ObjectKind, Trace};

/// A trace and what follows from its order.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The trace itself.
    pub trace: Trace,
    births: Rows<ObjectId>,
    releases: Rows<ObjectId>,
    outputs: Rows<(ModuleId, Bytes)>,
    weights: Rows<(ModuleId, Bytes)>,
    step_ends: Vec<OpId>,
    /// Which ops serve which request, where that is what the trace does.
    pub serving: Option<Plan>,
}

impl Workload {
    /// Works out births, releases and passes.
    pub fn new(trace: Trace) -> Workload {
        let (births, releases) = lifetimes(&trace);
        let passes = passes(&trace);
        Workload {
            births: Rows::new(trace.ops.len(), births),
            releases: Rows::new(trace.ops.len(), releases),
            outputs: Rows::new(trace.ops.len(), module_outputs(&trace, &passes)),
            weights: Rows::new(trace.ops.len(), module_weights(&trace, &passes)),
            step_ends: step_ends(&trace),
            serving: None,
            trace,
        }
    }

    /// A trace that serves requests, and what it does for them.
    pub fn serving(served: Served) -> Workload {
        Workload { serving: Some(served.plan), ..Workload::new(served.trace) }
    }

    /// Objects whose memory is needed from this op on (none of them persistent).
    #[inline]
    pub fn births(&self, op: OpId) -> &[ObjectId] {
        self.births.of(op)
    }

    /// Objects whose memory is given back after this op (none of them persistent).
    #[inline]
    pub fn releases(&self, op: OpId) -> &[ObjectId] {
        self.releases.of(op)
    }

    /// The most bytes that wanted objects take at once, in the order of the trace; those that
    /// persist are there all the time.
    pub fn most_alive(&self, wanted: impl Fn(&Object) -> bool) -> u64 {
        let objects = &self.trace.objects;
        let bytes = |object: &Object| if wanted(object) { object.bytes.get() } else { 0 };
        let of =
            |ids: &[ObjectId]| -> u64 { ids.iter().map(|id| bytes(&objects[id.index()])).sum() };
        let mut alive: u64 = objects.iter().filter(|object| object.persistent).map(bytes).sum();
        let mut most = alive;
        for op in (0..self.trace.ops.len()).map(OpId::at) {
            alive += of(self.births(op));
            most = most.max(alive);
            alive -= of(self.releases(op));
        }
        most
    }

    /// Modules whose forward ends with this op, with the bytes of their output: the objects that
    /// their last op of the pass writes.
    #[inline]
    pub fn outputs(&self, op: OpId) -> &[(ModuleId, Bytes)] {
        self.outputs.of(op)
    }

    /// Modules whose weights this op is the first of its pass to use, with the bytes of all their
    /// weights.
    pub fn weights(&self, op: OpId) -> &[(ModuleId, Bytes)] {
        self.weights.of(op)
    }

    /// The last op of each step.
    pub fn step_ends(&self) -> &[OpId] {
        &self.step_ends
    }
}

/// A list of values for each op, in one allocation.
#[derive(Clone, Debug)]
struct Rows<T> {
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> Rows<T> {
    fn new(ops: usize, mut pairs: Vec<(OpId, T)>) -> Rows<T> {
        pairs.sort_by_key(|&(op, _)| op);
        let mut starts = vec![0; ops + 1];
        for &(op, _) in &pairs {
            starts[op.index() + 1] += 1;
        }
        for index in 0..ops {
            starts[index + 1] += starts[index];
        }
        Rows { starts, values: pairs.into_iter().map(|(_, value)| value).collect() }
    }

    fn of(&self, op: OpId) -> &[T] {
        &self.values[self.starts[op.index()] as usize..self.starts[op.index() + 1] as usize]
    }
}

type ByOp<T> = Vec<(OpId, T)>;

/// First use, and recorded release or else last use, of every object that does not persist.
fn lifetimes(trace: &Trace) -> (ByOp<ObjectId>, ByOp<ObjectId>) {
    let mut first = vec![None; trace.objects.len()];
    let mut last = vec![None; trace.objects.len()];
    for op in (0..trace.ops.len()).map(OpId::at) {
        for touched in trace.uses_of(op) {
            first[touched.object.index()].get_or_insert(op);
            last[touched.object.index()] = Some(op);
        }
    }
    let (mut births, mut releases) = (Vec::new(), Vec::new());
    for (index, object) in trace.objects.iter().enumerate().filter(|(_, o)| !o.persistent) {
        if let (Some(first), Some(last)) = (first[index], last[index]) {
            births.push((first, ObjectId::at(index)));
            releases.push((object.freed_after.unwrap_or(last), ObjectId::at(index)));
        }
    }
    (births, releases)
}

/// Maximal runs of ops of the same step and phase, as index ranges.
fn passes(trace: &Trace) -> Vec<std::ops::Range<usize>> {
    let mut passes = Vec::new();
    let mut start = 0;
    for index in 1..=trace.ops.len() {
        let same = trace.ops.get(index).is_some_and(|op| {
            (op.step, op.phase) == (trace.ops[start].step, trace.ops[start].phase)
        });
        if !same && start < trace.ops.len() {
            passes.push(start..index);
            start = index;
        }
    }
    passes
}

fn module_outputs(trace: &Trace, passes: &[std::ops::Range<usize>]) -> ByOp<(ModuleId, Bytes)> {
    let mut outputs = Vec::new();
    for pass in passes.iter().filter(|pass| trace.ops[pass.start].phase.is_forward()) {
        let mut last = vec![None; trace.modules.len()];
        for op in pass.clone().map(OpId::at) {
            let written: Bytes = trace
                .uses_of(op)
                .iter()
                .filter(|touched| touched.mode.writes())
                .map(|touched| trace.objects[touched.object.index()].bytes)
                .sum();
            if let (Some(module), true) = (trace.ops[op.index()].module, written > Bytes::ZERO) {
                last[module.index()] = Some((op, written));
            }
        }
        let ends = last.into_iter().enumerate();
        outputs.extend(ends.filter_map(|(module, end)| {
            end.map(|(op, written)| (op, (ModuleId::at(module), written)))
        }));
    }
    outputs
}

fn module_weights(trace: &Trace, passes: &[std::ops::Range<usize>]) -> ByOp<(ModuleId, Bytes)> {
    let mut owned = vec![Bytes::ZERO; trace.modules.len()];
    for object in trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight) {
        if let Some(module) = object.module {
            owned[module.index()] += object.bytes;
        }
    }
    let mut weights = Vec::new();
    for pass in passes {
        let mut seen = vec![false; trace.modules.len()];
        for op in pass.clone().map(OpId::at) {
            for touched in trace.uses_of(op) {
                let object = &trace.objects[touched.object.index()];
                let Some(module) = object.module else { continue };
                let first = object.kind == ObjectKind::Weight && !seen[module.index()];
                if first {
                    seen[module.index()] = true;
                    weights.push((op, (module, owned[module.index()])));
                }
            }
        }
    }
    weights
}

fn step_ends(trace: &Trace) -> Vec<OpId> {
    let ops = trace.ops.len();
    (0..ops)
        .filter(|&i| i + 1 == ops || trace.ops[i].step != trace.ops[i + 1].step)
        .map(OpId::at)
        .collect()
}
