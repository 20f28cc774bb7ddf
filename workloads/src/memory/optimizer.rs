//! Bytes that each optimizer keeps: per tensor of known shape, and per parameter where shapes are
//! not known.
//!
//! | optimizer | source of what it keeps |
//! |---|---|
//! | AdamW, mixed precision | ZeRO (arXiv 1910.02054), section 3.1: K = 12 |
//! | Adam of 8 bits | Dettmers et al. 2022 (arXiv 2110.02861); bitsandbytes: blocks of 256, fp32 state below 4,096 numbers |
//! | Adam-mini | Zhang et al. 2024 (arXiv 2406.16793): one second moment per head of queries and keys and per row of other matrices |
//! | Adafactor | Shazeer and Stern 2018 (arXiv 1804.04235): row and column sums for matrices, no first moment |
//! | Lion | Chen et al. 2023 (arXiv 2302.06675): one moment |
//!
//! The master copy is fp32 and is there unless weights are fp32 themselves.
//! Invariant: parts add up to the whole; nothing is rounded but blocks, which are whole.

use super::{Overflow, product, total};
use crate::transformer::format::Format;
use crate::transformer::training::Optimizer;

/// Numbers that share a scale in 8-bit state.
pub const BLOCK: u128 = 256;
/// Tensors of fewer numbers keep fp32 state under 8-bit Adam (`min_8bit_size` of bitsandbytes).
pub const SMALLEST_8BIT: u128 = 4096;

/// A tensor of weights, as optimizers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Outputs: the first dimension.
    pub rows: u64,
    /// Inputs: the second dimension; `None` for a vector.
    pub columns: Option<u64>,
    /// Parts with a second moment each under Adam-mini, if these are not its rows: heads of queries
    /// and keys.
    pub blocks: Option<u64>,
}

impl Tensor {
    /// Its numbers.
    pub fn numbers(&self) -> u128 {
        u128::from(self.rows) * u128::from(self.columns.unwrap_or(1))
    }
}

/// What is kept for a tensor or a model, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptimizerState {
    /// The fp32 copy of the weights.
    pub master: u128,
    /// First moments or momentum.
    pub first: u128,
    /// Second moments.
    pub second: u128,
    /// Scales of blocks of 8-bit numbers.
    pub scales: u128,
}

impl OptimizerState {
    /// All of it.
    pub fn sum(&self) -> Result<u128, Overflow> {
        total([self.master, self.first, self.second, self.scales])
    }

    /// Its pieces, each an object of its own: first and second moments with their scales, master
    /// copy.
    pub const fn states(&self) -> [u128; 3] {
        let scales = self.scales / 2;
        [self.first + scales, self.second + scales, self.master]
    }
}

/// Whether an fp32 copy of the weights is kept.
pub const fn has_master(optimizer: Optimizer, weights: Format) -> bool {
    weights.bytes() < 4 && !matches!(optimizer, Optimizer::AdamWithoutMaster)
}

/// What `optimizer` keeps for one tensor whose weights are in `weights`.
pub fn of_tensor(
    optimizer: Optimizer,
    weights: Format,
    tensor: &Tensor,
) -> Result<OptimizerState, Overflow> {
    let numbers = tensor.numbers();
    let mut kept = of_numbers(optimizer, weights, numbers)?;
    let rows = u128::from(tensor.rows);
    match (optimizer, tensor.columns) {
        (Optimizer::Adam8Bit, _) if numbers < SMALLEST_8BIT => {
            (kept.first, kept.second, kept.scales) = (numbers * 4, numbers * 4, 0);
        }
        (Optimizer::AdamMini, columns) => {
            let blocks = tensor.blocks.map_or(rows, u128::from);
            kept.second = product(&[if columns.is_some() { blocks } else { 1 }, 4])?;
        }
        (Optimizer::Adafactor, Some(columns)) => {
            kept.second = product(&[rows + u128::from(columns), 4])?;
        }
        (Optimizer::Adafactor, None) => kept.second = product(&[rows, 4])?,
        _ => {}
    }
    Ok(kept)
}

/// What `optimizer` keeps for all `tensors`.
pub fn of_tensors(
    optimizer: Optimizer,
    weights: Format,
    tensors: &[Tensor],
) -> Result<OptimizerState, Overflow> {
    tensors.iter().try_fold(OptimizerState::default(), |all, tensor| {
        let one = of_tensor(optimizer, weights, tensor)?;
        Ok(OptimizerState {
            master: total([all.master, one.master])?,
            first: total([all.first, one.first])?,
            second: total([all.second, one.second])?,
            scales: total([all.scales, one.scales])?,
        })
    })
}

/// What `optimizer` keeps for so many parameters whose shapes are not known. Second moments that
/// are kept per row, column or head are left out then ([`needs_shapes`]), and all state of 8-bit
/// Adam is of 8 bits.
pub fn of_numbers(
    optimizer: Optimizer,
    weights: Format,
    numbers: u128,
) -> Result<OptimizerState, Overflow> {
    let each = |bytes: u128| product(&[numbers, bytes]);
    let master = if has_master(optimizer, weights) { each(4)? } else { 0 };
    let none = OptimizerState { master, ..OptimizerState::default() };
    Ok(match optimizer {
        Optimizer::AdamW => OptimizerState { first: each(4)?, second: each(4)?, ..none },
        Optimizer::AdamWithoutMaster => {
            let moment = each(weights.bytes().into())?;
            OptimizerState { first: moment, second: moment, ..none }
        }
        // A scale per block for either moment.
        Optimizer::Adam8Bit => OptimizerState {
            first: numbers,
            second: numbers,
            scales: product(&[numbers.div_ceil(BLOCK), 4, 2])?,
            ..none
        },
        Optimizer::AdamMini | Optimizer::Lion | Optimizer::Sgd { momentum: true } => {
            OptimizerState { first: each(4)?, ..none }
        }
        Optimizer::Adafactor | Optimizer::Sgd { momentum: false } => none,
    })
}

/// Whether [`of_numbers`] leaves something out that only shapes tell.
pub const fn needs_shapes(optimizer: Optimizer) -> bool {
    matches!(optimizer, Optimizer::AdamMini | Optimizer::Adafactor)
}

/// Names on the command line, with what they mean.
pub const NAMES: [(&str, Optimizer); 8] = [
    ("adamw", Optimizer::AdamW),
    ("adam-without-master", Optimizer::AdamWithoutMaster),
    ("adam-8bit", Optimizer::Adam8Bit),
    ("adam-mini", Optimizer::AdamMini),
    ("adafactor", Optimizer::Adafactor),
    ("lion", Optimizer::Lion),
    ("sgd", Optimizer::Sgd { momentum: false }),
    ("sgd-momentum", Optimizer::Sgd { momentum: true }),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn k(optimizer: Optimizer, weights: Format) -> f64 {
        let numbers = 1 << 20;
        of_numbers(optimizer, weights, numbers).unwrap().sum().unwrap() as f64 / numbers as f64
    }

    #[test]
    fn bytes_per_parameter() {
        for (optimizer, mixed, full) in [
            (Optimizer::AdamW, 12.0, 8.0),
            (Optimizer::AdamWithoutMaster, 4.0, 8.0),
            (Optimizer::Adam8Bit, 6.031_25, 2.031_25),
            (Optimizer::AdamMini, 8.0, 4.0),
            (Optimizer::Adafactor, 4.0, 0.0),
            (Optimizer::Lion, 8.0, 4.0),
            (Optimizer::Sgd { momentum: false }, 4.0, 0.0),
            (Optimizer::Sgd { momentum: true }, 8.0, 4.0),
        ] {
            assert_eq!(k(optimizer, Format::Bf16), mixed, "{optimizer:?}");
            assert_eq!(k(optimizer, Format::Fp32), full, "{optimizer:?}");
        }
    }

    #[test]
    fn shapes_say_more_than_counts() {
        let matrix = Tensor { rows: 1024, columns: Some(4096), blocks: None };
        let queries = Tensor { rows: 1024, columns: Some(1024), blocks: Some(16) };
        let bias = Tensor { rows: 1024, columns: None, blocks: None };
        let second =
            |optimizer, tensor: &Tensor| of_tensor(optimizer, Format::Bf16, tensor).unwrap().second;
        assert_eq!(second(Optimizer::Adafactor, &matrix), (1024 + 4096) * 4);
        assert_eq!(second(Optimizer::Adafactor, &bias), 1024 * 4);
        assert_eq!(second(Optimizer::AdamMini, &queries), 16 * 4);
        assert_eq!(second(Optimizer::AdamMini, &matrix), 1024 * 4);
        assert_eq!(second(Optimizer::AdamMini, &bias), 4);
        // Below 4,096 numbers there is nothing to compress.
        assert_eq!(second(Optimizer::Adam8Bit, &bias), 1024 * 4);
        assert_eq!(second(Optimizer::Adam8Bit, &matrix), 1024 * 4096);
        let odd = Tensor { rows: 4097, columns: None, blocks: None };
        let kept = of_tensor(Optimizer::Adam8Bit, Format::Bf16, &odd).unwrap();
        assert_eq!((kept.first, kept.scales), (4097, 17 * 4 * 2));
    }

    #[test]
    fn a_list_is_the_sum_of_its_tensors() {
        let tensors: Vec<Tensor> = (1..50)
            .map(|n| Tensor { rows: n * 7, columns: (n % 3 != 0).then_some(n * 11), blocks: None })
            .collect();
        for (_, optimizer) in NAMES {
            let all = of_tensors(optimizer, Format::Fp16, &tensors).unwrap();
            let each = tensors.iter().map(|tensor| of_tensor(optimizer, Format::Fp16, tensor));
            let sum: u128 = each.map(|kept| kept.unwrap().sum().unwrap()).sum();
            assert_eq!(all.sum(), Ok(sum));
        }
    }
}
