//! What each optimizer keeps beside the weights of a module, as objects.
//!
//! Bytes are those of [`crate::memory::optimizer`], tensor by tensor. Scales of 8-bit moments are
//! part of the moment that they scale. Invariant: the objects of a module sum to what the formulas
//! say of its tensors.

use super::Optimizer;
use crate::memory::optimizer::{self as formulas, has_master};
use crate::transformer::format::Format;
use crate::transformer::modules::Tensor;
use tiersim_models::workload::ObjectKind;

/// One object of state of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) name: &'static str,
    pub(crate) kind: ObjectKind,
    pub(crate) bytes: u128,
    pub(crate) format: Format,
}

impl Optimizer {
    /// Whether it keeps an fp32 copy of weights of this format.
    pub(crate) fn has_master(self, weights: Format) -> bool {
        has_master(self, weights)
    }

    /// What is kept beside these tensors, of one rank before ZeRO partitions it.
    pub(crate) fn state(self, tensors: &[Tensor], weights: Format) -> Vec<State> {
        let tensors: Vec<formulas::Tensor> = tensors.iter().map(|tensor| tensor.kept()).collect();
        let kept = formulas::of_tensors(self, weights, &tensors);
        let kept = kept.expect("a shape without problems has sums below 2^128");
        let (first, format) = match self {
            Optimizer::Sgd { .. } => ("momentum", Format::Fp32),
            Optimizer::Adam8Bit => ("exp_avg", Format::Int8),
            Optimizer::AdamWithoutMaster => ("exp_avg", weights),
            _ => ("exp_avg", Format::Fp32),
        };
        let moment = |name, bytes| State { name, kind: ObjectKind::Optimizer, bytes, format };
        let [bytes, squares, master] = kept.states();
        let master =
            State { name: "master", kind: ObjectKind::Master, bytes: master, format: Format::Fp32 };
        let all = [moment(first, bytes), moment("exp_avg_sq", squares), master];
        all.into_iter().filter(|state| state.bytes > 0).collect()
    }

    /// The op's name.
    pub(crate) const fn op(self) -> &'static str {
        match self {
            Optimizer::AdamW | Optimizer::AdamWithoutMaster => "adam",
            Optimizer::Adam8Bit => "adam_8bit",
            Optimizer::AdamMini => "adam_mini",
            Optimizer::Adafactor => "adafactor",
            Optimizer::Lion => "lion",
            Optimizer::Sgd { .. } => "sgd",
        }
    }
}
