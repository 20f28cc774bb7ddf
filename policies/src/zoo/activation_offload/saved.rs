//! The workload in which each op of the backward pass has what it reads of the forward pass to
//! itself.
//!
//! PyTorch's `save_on_cpu` packs tensors where ops save them and knows none of them again: one that
//! two ops have saved goes out twice and comes back twice, and weights go as well. What an op of the
//! backward pass reads of the forward pass, its op of the forward pass has saved, and autograd goes
//! through these the other way round: the last use in forward is the first in backward. So each
//! further use of an activation in backward, and each one of a weight, becomes a copy of its own,
//! made in HBM by the use in forward that stands across from it. Real ones are made outside at
//! once; here HBM has them until they have left.
//! Source: PyTorch 2.11, `torch/autograd/graph.py`, `save_on_cpu`.
//! Invariant: ops, their bytes and FLOPs stay as they are; no byte is copied that no op saves.

use super::layers::Layers;
use super::rewrite::short;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::workload::{Mode, Object, ObjectKind, Phase, Trace, Use};

/// What an op of the backward pass reads, and the op of the forward pass that saves it.
struct Save {
    object: ObjectId,
    saved_by: usize,
    read_by: usize,
}

/// Saves that need a copy of their own: all of weights, and of activations all but the one that is
/// read first, which is the activation itself.
fn saves(trace: &Trace, layers: &Layers) -> Vec<Save> {
    let mut found = Vec::new();
    for (index, object) in trace.objects.iter().enumerate() {
        let own = match object.kind {
            ObjectKind::Activation if !object.persistent => 1,
            ObjectKind::Weight if object.persistent => 0,
            _ => continue,
        };
        let uses = &layers.uses[index];
        let born = uses.first().map(|&(op, _)| trace.ops[op].phase);
        if own == 1 && born != Some(Phase::Forward) {
            continue;
        }
        // Uses of the forward pass that no use of the backward pass has answered yet; an op may
        // read in several ops what one has saved.
        let (mut forward, mut last, mut answered) = (Vec::new(), None, 0);
        for &(op, mode) in uses {
            match trace.ops[op].phase {
                Phase::Forward => forward.push(op),
                Phase::Backward if mode == Mode::Read => {
                    last = forward.pop().or(last);
                    answered += 1;
                    if let Some(saved_by) = last.filter(|_| answered > own) {
                        let object = ObjectId::at(index);
                        found.push(Save { object, saved_by, read_by: op });
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The trace with a copy for each save that needs one; ops keep their numbers.
///
/// Errors in words if its sums leave what a trace may have.
pub(super) fn apart(trace: &Trace) -> Result<Trace, String> {
    let layers = Layers::of(trace, false);
    let mut names: BTreeSet<String> =
        trace.objects.iter().map(|one| one.name.to_string()).collect();
    let mut made: BTreeMap<usize, Vec<ObjectId>> = BTreeMap::new();
    let mut instead: BTreeMap<(usize, ObjectId), ObjectId> = BTreeMap::new();
    let mut objects = trace.objects.clone();
    for Save { object, saved_by, read_by } in saves(trace, &layers) {
        let row = &trace.objects[object.index()];
        let numbered = |number| format!("{} saved {number}", short(&row.name));
        let name = (1..).map(numbered).find(|name| !names.contains(name));
        let name = name.expect("some number is free");
        names.insert(name.clone());
        let own = ObjectId::at(objects.len());
        let copy = Object::new(name, ObjectKind::Activation, row.bytes);
        objects.push(Object { dtype: row.dtype.clone(), module: row.module, ..copy });
        made.entry(saved_by).or_default().push(own);
        instead.insert((read_by, object), own);
    }
    let mut uses = Vec::with_capacity(trace.uses.len() + instead.len() * 2);
    let mut ops = trace.ops.clone();
    for (index, op) in ops.iter_mut().enumerate() {
        let start = uses.len() as u32;
        for &touched in trace.uses_of(OpId::at(index)) {
            let object = *instead.get(&(index, touched.object)).unwrap_or(&touched.object);
            uses.push(Use { object, ..touched });
        }
        let own = made.get(&index).into_iter().flatten();
        uses.extend(own.map(|&object| Use::whole(object, Mode::Write)));
        op.uses = start..uses.len() as u32;
    }
    let (meta, modules) = (trace.meta.clone(), trace.modules.clone());
    let apart = Trace { meta, modules, objects, ops, uses };
    match apart.problems().first() {
        Some(problem) => Err(format!("with all that ops save, the trace has {}", problem.found)),
        None => Ok(apart),
    }
}
