//! Which activations wait from forward to backward, and for which layer.
//!
//! A layer is the part of a module's path up to its first number (`h.3` of `h.3.mlp.c_fc`), or the
//! whole path where there is none. What an op creates belongs to the layer of that op. An
//! activation waits if it is used in forward, then by no op for a while, and then in backward of
//! the same step.
//! Invariant: between `last` and `first` of what waits, at least one op runs and none uses it; where
//! each op copies what it saves, none needs to.

use crate::visits::block;
use std::collections::BTreeMap;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::workload::{Mode, ObjectKind, Phase, Trace};

/// An activation that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) object: ObjectId,
    pub(super) layer: usize,
    /// The forward pass that creates it: passes are counted over the trace.
    pub(super) pass: u32,
    /// The op that uses it last in forward.
    pub(super) last: usize,
    /// The op that uses it first in backward.
    pub(super) first: usize,
    /// The first op of that backward pass.
    pub(super) turn: usize,
}

/// The layers of a trace.
#[derive(Debug)]
pub(super) struct Layers {
    /// In the order of their first op.
    pub(super) names: Vec<String>,
    /// By op: its layer, and the number of the run of ops of the same step and phase that it is in.
    pub(super) of: Vec<(Option<usize>, u32)>,
    /// In the order of objects.
    pub(super) waiting: Vec<Waiting>,
    /// By object: the ops that use it, and how.
    pub(super) uses: Vec<Vec<(usize, Mode)>>,
}

impl Layers {
    /// `adjacent`: what the very next op needs in backward waits too.
    pub(super) fn of(trace: &Trace, adjacent: bool) -> Layers {
        let mut uses = vec![Vec::new(); trace.objects.len()];
        for op in 0..trace.ops.len() {
            for touched in trace.uses_of(OpId::at(op)) {
                uses[touched.object.index()].push((op, touched.mode));
            }
        }
        let mut names: Vec<String> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut number = |module: ModuleId| {
            let name = block(&trace.modules[module.index()]);
            *known.entry(name).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        };
        let mut pass = 0;
        let mut of = Vec::with_capacity(trace.ops.len());
        for (index, op) in trace.ops.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| &trace.ops[before]);
            if before.is_some_and(|before| (before.step, before.phase) != (op.step, op.phase)) {
                pass += 1;
            }
            of.push((op.module.map(&mut number), pass));
        }
        let mut layers = Layers { names, of, waiting: Vec::new(), uses };
        let all = (0..trace.objects.len()).map(ObjectId::at);
        layers.waiting = all.filter_map(|object| layers.waits(trace, object, adjacent)).collect();
        layers
    }

    fn waits(&self, trace: &Trace, object: ObjectId, adjacent: bool) -> Option<Waiting> {
        let row = &trace.objects[object.index()];
        let uses = &self.uses[object.index()];
        if row.persistent || row.kind != ObjectKind::Activation {
            return None;
        }
        let &(born, _) = uses.first()?;
        let at = uses.iter().position(|&(op, _)| trace.ops[op].phase == Phase::Backward)?;
        let (&(last, _), &(first, _)) = (uses.get(at.checked_sub(1)?)?, uses.get(at)?);
        let waits = trace.ops[born].phase == Phase::Forward
            && trace.ops[born].step == trace.ops[first].step
            && (adjacent || first > last + 1);
        let (layer, pass) = self.of[born];
        let turn = self.of.partition_point(|&(_, pass)| pass < self.of[first].1);
        waits.then_some(Waiting { object, layer: layer?, pass, last, first, turn })
    }

    /// Layers that have something to choose for, in order.
    pub(super) fn choosers(&self) -> Vec<usize> {
        let mut with: Vec<usize> = self.waiting.iter().map(|waiting| waiting.layer).collect();
        with.sort_unstable();
        with.dedup();
        with
    }
}
