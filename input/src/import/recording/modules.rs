//! Which module an op works for.
//!
//! Forward ops carry it. What the recorder says of backward ops is wrong (its hooks fire around
//! the autograd engine, not in it) and of optimizer ops empty, so both are worked out from the
//! objects. Autograd computes the gradient of a forward op from what that op touched, therefore a
//! backward op belongs to the forward op of its step
//!
//! 1. whose gradient it writes: the owner of the parameter;
//! 2. else the one that touched the same parameters and saved activations: first of all its
//!    namesake (`tanh_backward` of `tanh`), then the one sharing most objects, then the last one;
//! 3. else, where it touches no such object, the one of the backward op before it.
//!
//! The last one and not the producer, because an activation is saved by the op that consumes it;
//! with a tied embedding the same rule keeps the output layer's two products at the output layer.
//! Invariant: linear in the recording, since few candidates are kept per object.

use super::raw::{RawKind, RawOp, Recording};
use super::words::short_name;
use std::collections::BTreeMap;
use std::rc::Rc;
use tiersim_models::workload::Phase;

/// How many forward ops are remembered per object, the latest ones.
const MAX_CANDIDATES: usize = 32;

/// The module of each of the kept ops; `kept` holds positions in the recording.
pub(super) fn modules(recording: &Recording, kept: &[usize]) -> Vec<Option<Rc<str>>> {
    let mut known = Known {
        recording,
        modules: Vec::with_capacity(kept.len()),
        toucher: vec![Vec::new(); recording.objects.len()],
        writer: vec![None; recording.objects.len()],
    };
    for &position in kept {
        let op = &recording.ops[position];
        let module = match op.phase {
            phase if phase.is_forward() => forward(&op.module),
            Phase::Backward => known.backward(op),
            _ => known.optimizer(op),
        };
        known.add(op, module);
    }
    known.modules.into_iter().map(|(_, module)| module).collect()
}

/// The module's path without the model's class; nothing for the model itself.
fn forward(module: &str) -> Option<Rc<str>> {
    module.split_once('.').map(|(_, path)| path.into())
}

struct Known<'a> {
    recording: &'a Recording,
    /// Per kept op so far: its row in the recording, and its module.
    modules: Vec<(u64, Option<Rc<str>>)>,
    /// Per object: the latest forward ops that touched it, as indices into `modules`.
    toucher: Vec<Vec<usize>>,
    /// Per object: the last op that wrote it.
    writer: Vec<Option<usize>>,
}

impl Known<'_> {
    fn add(&mut self, op: &RawOp, module: Option<Rc<str>>) {
        let index = self.modules.len();
        self.modules.push((op.i, module));
        for &object in &op.w {
            self.writer[object as usize] = Some(index);
        }
        if op.phase == Phase::Forward {
            for &object in op.r.iter().chain(&op.w) {
                let list = &mut self.toucher[object as usize];
                if list.last() != Some(&index) {
                    if list.len() == MAX_CANDIDATES {
                        list.remove(0);
                    }
                    list.push(index);
                }
            }
        }
    }

    fn backward(&self, op: &RawOp) -> Option<Rc<str>> {
        if let Some(owner) = self.owner(&op.w) {
            return Some(owner);
        }
        if let Some(index) = self.forward_of(op) {
            return self.modules[index].1.clone();
        }
        self.owner(&op.r).or_else(|| self.before(Phase::Backward))
    }

    fn optimizer(&self, op: &RawOp) -> Option<Rc<str>> {
        let writer = || op.r.iter().find_map(|&object| self.writer[object as usize]);
        self.owner(&op.w)
            .or_else(|| self.owner(&op.r))
            .or_else(|| writer().and_then(|index| self.modules[index].1.clone()))
            .or_else(|| self.before(Phase::Optimizer))
    }

    /// The module of the last op, if that was in `phase`.
    fn before(&self, phase: Phase) -> Option<Rc<str>> {
        let (position, module) = self.modules.last()?;
        let op = self.recording.ops.get(*position as usize)?;
        if op.phase == phase { module.clone() } else { None }
    }

    /// The owner of the first parameter, gradient or optimizer state among `objects`.
    fn owner(&self, objects: &[u32]) -> Option<Rc<str>> {
        objects.iter().find_map(|&id| {
            let object = &self.recording.objects[id as usize];
            let kinds = [RawKind::Param, RawKind::Grad, RawKind::OptState];
            object.owner.clone().filter(|_| kinds.contains(&object.kind))
        })
    }

    /// The forward op whose gradient `op` helps to compute.
    fn forward_of(&self, op: &RawOp) -> Option<usize> {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        let mut objects = op.r.clone();
        objects.sort_unstable();
        objects.dedup();
        for object in objects {
            for &index in &self.toucher[object as usize] {
                if self.recording.ops[self.modules[index].0 as usize].step == op.step {
                    *shared.entry(index).or_default() += 1;
                }
            }
        }
        let namesake = |index: usize| {
            let forward = &self.recording.ops[self.modules[index].0 as usize].op;
            is_backward_of(short_name(&op.op), short_name(forward))
        };
        let best = shared.into_iter().max_by_key(|&(index, n)| (namesake(index), n, index));
        best.map(|(index, _)| index)
    }
}

/// `embedding_dense_backward` is of `embedding`, `nll_loss_backward` of `nll_loss_forward`.
fn is_backward_of(backward: &str, forward: &str) -> bool {
    let forward = forward.strip_suffix("_forward").unwrap_or(forward);
    backward.contains("_backward") && backward.starts_with(forward)
}

#[cfg(test)]
mod tests {
    use super::{forward, is_backward_of};

    #[test]
    fn the_model_itself_is_no_module() {
        assert_eq!(forward("GPT2LMHeadModel.transformer.h.0").as_deref(), Some("transformer.h.0"));
        assert_eq!(forward("GPT2LMHeadModel"), None);
        assert_eq!(forward(""), None);
    }

    #[test]
    fn backward_ops_know_their_namesake() {
        assert!(is_backward_of("embedding_dense_backward", "embedding"));
        assert!(is_backward_of("nll_loss_backward", "nll_loss_forward"));
        assert!(is_backward_of("_log_softmax_backward_data", "_log_softmax"));
        assert!(!is_backward_of("mul", "mul"));
    }
}
