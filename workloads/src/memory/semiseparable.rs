//! A structured operator in the place of a dense N x N matrix: H = T + U V^T.
//!
//! T is tridiagonal, 3N - 2 numbers; U and V are N x r with r = ceil(log2 N). With levels
//! ([`Shape::Sum`]) H = T + the sum of U_k V_k^T, each of N x r_k, with r_k = ceil(log2 r_(k-1));
//! it ends where the rank is 1. Nested ([`Shape::Nested`]) the r_k columns of level k meet in a
//! core of r_k x r_k that is an operator of the same kind, H = T + U C V^T: a tridiagonal part of 3
//! r_k - 2 numbers and U and V of r_k x r_(k+1), and so on until the rank is 1, whose core is one
//! number, which is taken into U. N = 1 has no rank: T alone is all of it. Ranks split the columns
//! of U and V of every level (ZeRO along the rank dimension), so the busiest has ceil(r_k / n) of
//! them; tridiagonal parts are on all ranks and never leave the GPU. In mixed precision T is fp32
//! and U and V are fp16.
//! Invariant: exact integers; a level's rank is less than its size, except for sizes 1 and 2 (rank
//! 0 and 1).

use super::{Overflow, product, share, total};
use crate::transformer::format::Format;
use tiersim_models::results::memory_account::Place;

/// How ranks follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// So many products U_k V_k^T of the whole size, or as many as there are until the rank is 1.
    Sum(u32),
    /// The core of each level is an operator again.
    Nested,
}

/// Formats of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Formats {
    /// Of T.
    pub tridiagonal: Format,
    /// Of U and V.
    pub factors: Format,
    /// Of the dense matrix beside it.
    pub dense: Format,
}

impl Formats {
    /// T in fp32, U and V in fp16; against a matrix in fp32, as published.
    pub const MIXED: Formats =
        Formats { tridiagonal: Format::Fp32, factors: Format::Fp16, dense: Format::Fp32 };
}

/// The smallest r with 2^r at least `size`; 0 for 1.
pub const fn rank(size: u64) -> u64 {
    if size <= 1 { 0 } else { (u64::BITS - (size - 1).leading_zeros()) as u64 }
}

/// One level of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Rows of U and V: N, then the rank of the level before.
    pub size: u64,
    /// Their columns.
    pub rank: u64,
}

/// The levels of an operator of `size`.
pub fn levels(size: u64, shape: Shape) -> Vec<Level> {
    let mut all = vec![Level { size, rank: rank(size) }];
    while let Some(&Level { rank: last, .. }) = all.last() {
        let is_end = match shape {
            Shape::Sum(most) => all.len() >= most as usize,
            Shape::Nested => false,
        };
        if is_end || last <= 1 {
            break;
        }
        let rows = if shape == Shape::Nested { last } else { size };
        all.push(Level { size: rows, rank: rank(last) });
    }
    all
}

/// How many tridiagonal parts the first of `levels` have: one for all, or one for each.
pub fn has_tridiagonal(shape: Shape, level: usize) -> bool {
    level == 0 || shape == Shape::Nested
}

/// What the operator takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// Tridiagonal parts: on every rank, on the GPU.
    pub tridiagonal: u128,
    /// U and V of all ranks.
    pub factors: u128,
    /// U and V of the busiest rank.
    pub of_rank: u128,
    /// A dense matrix of the same size.
    pub dense: u128,
    /// The busiest rank's part of that, split by columns.
    pub dense_of_rank: u128,
}

/// What an operator of `size` takes over `ranks` ranks.
///
/// # Panics
/// If there are no ranks.
pub fn operator(
    size: u64,
    shape: Shape,
    formats: Formats,
    ranks: u64,
) -> Result<Operator, Overflow> {
    let mut all = Operator::default();
    let [tridiagonal, factor, dense] =
        [formats.tridiagonal, formats.factors, formats.dense].map(|f| u128::from(f.bytes()));
    for (index, Level { size, rank }) in levels(size, shape).into_iter().enumerate() {
        let [size, rank] = [size, rank].map(u128::from);
        if has_tridiagonal(shape, index) {
            let numbers = product(&[3, size])?.saturating_sub(2);
            all.tridiagonal = total([all.tridiagonal, product(&[numbers, tridiagonal])?])?;
        }
        let columns = |count: u128| product(&[2, size, count, factor]);
        all.factors = total([all.factors, columns(rank)?])?;
        all.of_rank = total([all.of_rank, columns(share(rank, ranks.into()))?])?;
    }
    let column = product(&[size.into(), dense])?;
    all.dense = product(&[column, size.into()])?;
    all.dense_of_rank = product(&[column, share(size.into(), ranks.into())])?;
    Ok(all)
}

impl Operator {
    /// Bytes of one rank on the GPU where U and V live in `place`.
    pub fn on_gpu(&self, place: Place) -> Result<u128, Overflow> {
        let factors = if place == Place::Gpu { self.of_rank } else { 0 };
        total([self.tridiagonal, factors])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Shape = Shape::Sum(1);

    /// Builds every number of the structure and counts: (numbers of T, columns of U and V by level
    /// and rank).
    fn built(size: usize, shape: Shape, ranks: usize) -> (u128, Vec<u128>) {
        let (mut diagonal, mut factors) = (0, vec![0; ranks]);
        let (mut rows, mut of) = (size, size);
        for level in 0.. {
            if has_tridiagonal(shape, level) {
                for row in 0..rows {
                    for column in 0..rows {
                        diagonal += u128::from(row.abs_diff(column) <= 1);
                    }
                }
            }
            let mut rank = 0;
            while (1usize << rank) < of {
                rank += 1;
            }
            for _ in ["U", "V"] {
                for column in 0..rank {
                    for _ in 0..rows {
                        factors[column % ranks] += 1;
                    }
                }
            }
            let last = matches!(shape, Shape::Sum(most) if level + 1 == most as usize);
            if last || rank <= 1 {
                break;
            }
            of = rank;
            rows = if shape == Shape::Nested { rank } else { size };
        }
        (diagonal, factors)
    }

    #[test]
    fn counts_are_those_of_the_built_structure() {
        for size in 1..200 {
            for shape in [FLAT, Shape::Sum(2), Shape::Sum(9), Shape::Nested] {
                for ranks in [1, 3, 16] {
                    let (diagonal, factors) = built(size as usize, shape, ranks as usize);
                    let found = operator(size, shape, Formats::MIXED, ranks).unwrap();
                    assert_eq!(found.tridiagonal, diagonal * 4, "{size} {shape:?} {ranks}");
                    assert_eq!(found.factors, factors.iter().sum::<u128>() * 2);
                    assert_eq!(found.of_rank, factors.iter().max().unwrap() * 2);
                    assert_eq!(found.dense, u128::from(size) * u128::from(size) * 4);
                }
            }
        }
    }

    #[test]
    fn ranks_fall_to_one() {
        let ranks = |size, shape| levels(size, shape).iter().map(|l| l.rank).collect::<Vec<_>>();
        assert_eq!(ranks(1, Shape::Nested), [0]);
        assert_eq!(ranks(2, Shape::Nested), [1]);
        assert_eq!(ranks(1 << 20, Shape::Nested), [20, 5, 3, 2, 1]);
        assert_eq!(ranks(1 << 20, Shape::Sum(99)), [20, 5, 3, 2, 1]);
        assert_eq!(ranks(2048, Shape::Sum(3)), [11, 4, 2]);
        assert_eq!(ranks(u64::MAX, FLAT)[0], 64);
    }

    /// The published table at N = 2048, bytes and reductions against a dense matrix in fp32.
    #[test]
    fn the_published_table() {
        let full = Formats { factors: Format::Fp32, ..Formats::MIXED };
        for (shape, formats, bytes, reduction) in [
            (FLAT, full, 204_792, 98.78),
            (FLAT, Formats::MIXED, 114_680, 99.32),
            (Shape::Sum(3), full, 303_096, 98.19),
        ] {
            let found = operator(2048, shape, formats, 1).unwrap();
            assert_eq!(found.on_gpu(Place::Gpu), Ok(bytes));
            let reduced = 100.0 * (1.0 - bytes as f64 / found.dense as f64);
            assert!((reduced - reduction).abs() < 0.005, "{reduced} {reduction}");
        }
        assert!((100.0 * (1.0 - 114_680.0 / 204_792.0) - 44.0_f64).abs() < 0.05);
        // Two GPUs: T on both, the busier has the larger half of the columns.
        let gain = |size, formats| {
            let of = |ranks| operator(size, FLAT, formats, ranks).unwrap().on_gpu(Place::Gpu);
            of(1).unwrap() as f64 / of(2).unwrap() as f64
        };
        assert!((gain(16_384, Formats::MIXED) - 1.70).abs() < 0.005);
        let most = (1..60).map(|power| gain(1 << power, full)).fold(0.0, f64::max);
        assert!(most < 2.0, "{most}");
    }

    #[test]
    fn a_million_wide_operator_against_dense() {
        let flat = operator(1 << 20, FLAT, Formats::MIXED, 8).unwrap();
        assert_eq!(flat.tridiagonal, (3 * (1 << 20) - 2) * 4);
        assert_eq!(flat.factors, 2 * (1 << 20) * 20 * 2);
        // 20 columns over 8 ranks: 3 on the busiest.
        assert_eq!(flat.of_rank, 2 * (1 << 20) * 3 * 2);
        assert_eq!(flat.dense, 1 << 42);
        assert_eq!(flat.on_gpu(Place::Cpu), Ok(flat.tridiagonal));
        assert!(operator(1 << 62, Shape::Nested, Formats::MIXED, 1).is_ok());
        let all = operator(u64::MAX, Shape::Nested, Formats::MIXED, 1);
        assert_eq!(all, Err(Overflow));
    }
}
