//! Puts a trace together row by row.

use super::parts::Module;
use super::{Layered, Mode as Does, Precision};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, Phase, Recorded, Statistics, Trace, TraceMeta, Use,
};

/// Bytes of fp32: optimizer state, masters, logits and attention's statistics.
pub(super) const FP32: u64 = Precision::Fp32.bytes();

/// What an op does to an object, and how many bytes that touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectAccess {
    object: ObjectId,
    mode: Mode,
    /// Without it, the whole object, twice for a use that reads and writes.
    bytes: Option<u64>,
}

pub(super) fn read(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::Read, bytes: None }
}

pub(super) fn write(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::Write, bytes: None }
}

pub(super) fn change(object: ObjectId) -> ObjectAccess {
    ObjectAccess { object, mode: Mode::ReadWrite, bytes: None }
}

impl ObjectAccess {
    /// Only so many bytes of the object are touched.
    pub(super) fn part(self, bytes: u64) -> ObjectAccess {
        ObjectAccess { bytes: Some(bytes), ..self }
    }
}

/// A module's parameters, and in training their gradient.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) module: ModuleId,
    pub(super) matrix: u64,
    pub(super) weight: ObjectId,
    pub(super) gradient: Option<ObjectId>,
    /// Adam's moments, and the master copy if the weights are not fp32.
    pub(super) state: Vec<ObjectId>,
}

/// A trace being made.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) trace: Trace,
    pub(super) precision: Precision,
    pub(super) training: bool,
    /// Step and phase of the ops that come next.
    pub(super) now: (u32, Phase),
}

/// A trace in the making, and the shape that it is made from.
pub(super) struct GraphBuilder<'a> {
    pub(super) shape: &'a Layered,
    pub(super) build: Builder,
}

impl Builder {
    pub(super) fn new(shape: &Layered) -> Builder {
        let (does, sequence, about) = match shape.mode {
            Does::Train { sequence } => ("train", sequence, format!("sequences of {sequence}")),
            Does::Decode { context, tokens } => {
                ("decode", 1, format!("the last {tokens} of {context} positions"))
            }
        };
        let Layered { family, layers, hidden, batch, precision, .. } = shape;
        let (family, precision_word) = (family.word(), precision.word());
        let meta = TraceMeta {
            name: format!("{family}-{layers}x{hidden}-{does}"),
            about: format!(
                "generated from the shape of a transformer with {} parameters, batch {batch}, \
                 {about}; no durations were recorded, and Adam's statistics are made up",
                shape.parameters()
            ),
            precision: precision_word.to_owned(),
            batch: *batch,
            sequence,
            recorded: Recorded::default(),
        };
        let (modules, objects, ops, uses) = Default::default();
        Builder {
            trace: Trace { meta, modules, objects, ops, uses },
            precision: *precision,
            training: does == "train",
            now: (0, Phase::Forward),
        }
    }

    pub(super) fn module(&mut self, name: &str) -> ModuleId {
        self.trace.modules.push(name.to_owned());
        ModuleId::at(self.trace.modules.len() - 1)
    }

    /// A module that owns parameters, with everything that training keeps beside them.
    ///
    /// The statistics are made up: the module of rank d, counted from 0, has
    /// adam_m = 0.001 / (1 + d) and adam_v = 0.01 / (1 + d). Ranks are the forward order, but for
    /// embedding, positions and head, which come last: most of their rows change rarely. Division
    /// is exact to the last bit on every machine.
    pub(super) fn owned(&mut self, part: &Module, rank: usize) -> Owned {
        use ObjectKind::{Gradient, Master, Optimizer, Weight};
        let module = self.module(&part.name);
        let (count, width) = (part.parameters(), self.precision.bytes());
        let state = |builder: &mut Builder, name: &str, kind, width, persistent| {
            let name = format!("{}.{name}", part.name);
            let id = builder.object(name, kind, count * width, Some(module));
            let row = &mut builder.trace.objects[id.index()];
            row.persistent = persistent;
            if width == FP32 {
                row.dtype = Precision::Fp32.dtype().to_owned();
            }
            id
        };
        let weight = state(self, "weight", Weight, width, true);
        let scale = 1.0 / (1.0 + rank as f64);
        self.trace.objects[weight.index()].statistics =
            Statistics { adam_m: Some(0.001 * scale), adam_v: Some(0.01 * scale), grad_norm: None };
        let mut owned =
            Owned { module, matrix: part.matrix, weight, gradient: None, state: Vec::new() };
        if self.training {
            // Given back after the optimizer, as `zero_grad(set_to_none=True)` does.
            owned.gradient = Some(state(self, "weight.grad", Gradient, width, false));
            owned.state.push(state(self, "weight.exp_avg", Optimizer, FP32, true));
            owned.state.push(state(self, "weight.exp_avg_sq", Optimizer, FP32, true));
            if self.precision != Precision::Fp32 {
                owned.state.push(state(self, "weight.master", Master, FP32, true));
            }
        }
        owned
    }

    /// An object that is not persistent, in the run's precision.
    pub(super) fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        bytes: u64,
        module: Option<ModuleId>,
    ) -> ObjectId {
        self.trace.objects.push(Object {
            dtype: self.precision.dtype().to_owned(),
            module,
            ..Object::new(name, kind, Bytes::new(bytes))
        });
        ObjectId::at(self.trace.objects.len() - 1)
    }

    pub(super) fn op(
        &mut self,
        name: &str,
        module: ModuleId,
        flops: u64,
        touches: &[ObjectAccess],
    ) {
        let start = self.trace.uses.len() as u32;
        let mut bytes = 0;
        for &ObjectAccess { object, mode, bytes: part } in touches {
            self.trace.uses.push(Use::whole(object, mode));
            let whole = self.trace.objects[object.index()].bytes.get();
            let ways = if mode == Mode::ReadWrite { 2 } else { 1 };
            bytes += part.unwrap_or(whole * ways);
        }
        let (step, phase) = self.now;
        self.trace.ops.push(Op {
            module: Some(module),
            flops,
            bytes: Bytes::new(bytes),
            ..Op::new(step, phase, name, start..self.trace.uses.len() as u32)
        });
    }
}
