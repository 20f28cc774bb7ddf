//! A trace of a shape in the making: its header, its objects, and the modules that own parameters.

use super::parts::Module;
use super::{Layered, Mode, Precision};
use crate::build::Builder;
use crate::transformer::format::Format;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{ObjectKind, Recorded, Statistics, TraceMeta};

/// Bytes of fp32: optimizer state, masters, logits and attention's statistics.
pub(super) const FP32: u128 = Format::Fp32.bytes() as u128;

/// A module's parameters, and in training their gradient.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) module: ModuleId,
    pub(super) matrix: u128,
    pub(super) weight: ObjectId,
    pub(super) gradient: Option<ObjectId>,
    /// Adam's moments, and the master copy if the weights are not fp32.
    pub(super) state: Vec<ObjectId>,
}

/// A trace in the making, and the shape that it is made from.
pub(super) struct GraphBuilder<'a> {
    pub(super) shape: &'a Layered,
    pub(super) build: Builder,
}

impl<'a> GraphBuilder<'a> {
    pub(super) fn new(shape: &'a Layered) -> GraphBuilder<'a> {
        let (does, sequence, about) = match shape.mode {
            Mode::Train { sequence } => ("train", sequence, format!("sequences of {sequence}")),
            Mode::Decode { context, tokens } => {
                ("decode", 1, format!("the last {tokens} of {context} positions"))
            }
        };
        let Layered { family, layers, hidden, batch, precision, .. } = shape;
        let meta = TraceMeta {
            name: format!("{}-{layers}x{hidden}-{does}", family.word()),
            about: format!(
                "generated from the shape of a transformer with {} parameters, batch {batch}, \
                 {about}; no durations were recorded, and Adam's statistics are made up",
                shape.parameters()
            ),
            precision: precision.word().to_owned(),
            batch: *batch,
            sequence,
            recorded: Recorded::default(),
        };
        GraphBuilder { shape, build: Builder::new(meta) }
    }

    /// A module that owns parameters, with everything that training keeps beside them.
    ///
    /// The statistics are made up: the module of rank d, counted from 0, has
    /// adam_m = 0.001 / (1 + d) and adam_v = 0.01 / (1 + d). Ranks are the forward order, but for
    /// embedding, positions and head, which come last: most of their rows change rarely. Division
    /// is exact to the last bit on every machine.
    pub(super) fn owned(&mut self, part: &Module, rank: usize) -> Owned {
        use ObjectKind::{Gradient, Master, Optimizer, Weight};
        let (module, precision) = (self.build.module(&part.name), self.shape.precision);
        let mut state = |name: &str, kind, format: Format| {
            let size = (u128::from(part.parameters()) * u128::from(format.bytes()), format);
            self.build.object(format!("{}.{name}", part.name), kind, size, Some(module))
        };
        let weight = state("weight", Weight, precision.format());
        let mut owned =
            Owned { module, matrix: part.matrix.into(), weight, gradient: None, state: Vec::new() };
        if matches!(self.shape.mode, Mode::Train { .. }) {
            // Given back after the optimizer, as `zero_grad(set_to_none=True)` does.
            owned.gradient = Some(state("weight.grad", Gradient, precision.format()));
            owned.state.push(state("weight.exp_avg", Optimizer, Format::Fp32));
            owned.state.push(state("weight.exp_avg_sq", Optimizer, Format::Fp32));
            if precision != Precision::Fp32 {
                owned.state.push(state("weight.master", Master, Format::Fp32));
            }
        }
        for &kept in owned.state.iter().chain([&weight]) {
            self.build.persist(kept);
        }
        let scale = 1.0 / (1.0 + rank as f64);
        self.build.trace.objects[weight.index()].statistics =
            Statistics { adam_m: Some(0.001 * scale), adam_v: Some(0.01 * scale), grad_norm: None };
        owned
    }

    /// An object that is not persistent, in the run's precision.
    pub(super) fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        bytes: u128,
        module: Option<ModuleId>,
    ) -> ObjectId {
        self.build.object(name, kind, (bytes, self.shape.precision.format()), module)
    }
}
