//! What each optimizer keeps beside the weights of a module.
//!
//! Moments are fp32 unless said otherwise. A master copy is kept where weights are not fp32 already.
//! Sources: Loshchilov and Hutter, "Decoupled Weight Decay", 2019; Dettmers et al., "8-bit Optimizers via
//! Block-wise Quantization", 2022 (blocks of 256 here); Zhang et al., "Adam-mini", 2024 (one second moment
//! per row of a matrix, one per vector); Shazeer and Stern, "Adafactor", 2018, section 3; Chen et al., "Symbolic
//! Discovery of Optimization Algorithms" (Lion), 2023.

use super::Optimizer;
use crate::transformer::format::Format;
use crate::transformer::modules::Tensor;
use crate::workload::ObjectKind;

/// One tensor of state of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) name: &'static str,
    pub(super) kind: ObjectKind,
    pub(super) bytes: u128,
    pub(super) format: Format,
}

/// Parameters that share a scale of 8-bit state.
const BLOCK: u128 = 256;

impl Optimizer {
    /// Whether it keeps an fp32 copy of weights of this format.
    pub(super) fn has_master(self, weights: Format) -> bool {
        self != Optimizer::AdamWithoutMaster && weights.bytes() < Format::Fp32.bytes()
    }

    /// What is kept beside these tensors, of one rank before ZeRO partitions it.
    pub(super) fn state(self, tensors: &[Tensor], weights: Format) -> Vec<State> {
        let count: u128 = tensors.iter().map(|tensor| tensor.parameters()).sum();
        let four = u128::from(Format::Fp32.bytes());
        let moment =
            |name, bytes, format| State { name, kind: ObjectKind::Optimizer, bytes, format };
        let full = |name| moment(name, count * four, Format::Fp32);
        let mut all = match self {
            Optimizer::AdamW => vec![full("exp_avg"), full("exp_avg_sq")],
            Optimizer::AdamWithoutMaster => ["exp_avg", "exp_avg_sq"]
                .map(|name| moment(name, count * u128::from(weights.bytes()), weights))
                .to_vec(),
            Optimizer::Adam8Bit => {
                let bytes = count + four * count.div_ceil(BLOCK);
                ["exp_avg", "exp_avg_sq"].map(|name| moment(name, bytes, Format::Int8)).to_vec()
            }
            Optimizer::AdamMini => {
                let blocks =
                    |tensor: &Tensor| u128::from(if tensor.columns > 1 { tensor.rows } else { 1 });
                let blocks: u128 = tensors.iter().map(blocks).sum();
                vec![full("exp_avg"), moment("exp_avg_sq", four * blocks, Format::Fp32)]
            }
            Optimizer::Adafactor => {
                let sums = |tensor: &Tensor| {
                    let (rows, columns) = (u128::from(tensor.rows), u128::from(tensor.columns));
                    if columns > 1 { rows + columns } else { rows }
                };
                let sums: u128 = tensors.iter().map(sums).sum();
                vec![moment("exp_avg_sq", four * sums, Format::Fp32)]
            }
            Optimizer::Lion => vec![full("exp_avg")],
            Optimizer::Sgd { momentum: true } => vec![full("momentum")],
            Optimizer::Sgd { momentum: false } => Vec::new(),
        };
        if self.has_master(weights) {
            all.push(State {
                name: "master",
                kind: ObjectKind::Master,
                bytes: count * four,
                format: Format::Fp32,
            });
        }
        all
    }

    /// The op's name.
    pub(super) const fn op(self) -> &'static str {
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
