//! A structured operator in the place of a dense N x N matrix: H = T + U V^T.
//!
//! Level 1: T is tridiagonal, 3N - 2 numbers in fp32; U and V are N x r_1 in fp16 with r_1 = ceil(log2 N).
//! Hierarchy: the r_k columns of level k meet in a core of r_k x r_k, H = T + U C V^T. A flat operator
//! has the identity there, which is not stored. A hierarchical one stores the core as an operator of the same
//! kind: a tridiagonal part of 3 r_k - 2 numbers in fp32, and U and V of r_k x r_{k+1} in fp16, with
//! r_{k+1} = ceil(log2 r_k). It ends at the level whose rank is 1: its core is one number, which is
//! taken into U. N = 1 has no rank: T alone is all of it.
//! Ranks split the columns of U and V of every level (ZeRO along the rank dimension), so the busiest has
//! ceil(r_k / n) of them; tridiagonal parts are on all ranks and never leave the GPU.
//! Invariant: exact integers; a level's rank is less than its size, except for sizes 1 and 2 (rank 0 and 1).

use super::{Overflow, product, share, total};
use crate::memory::zero::Place;

/// Bytes of a number of a tridiagonal part.
pub const TRIDIAGONAL: u128 = 4;
/// Bytes of a number of U and V, and of a dense matrix.
pub const FACTOR: u128 = 2;

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

/// The levels of an operator of `size`; one if it is flat.
pub fn levels(size: u64, flat: bool) -> Vec<Level> {
    let mut all = vec![Level { size, rank: rank(size) }];
    while let Some(&Level { rank: size, .. }) = all.last() {
        if flat || size <= 1 {
            break;
        }
        all.push(Level { size, rank: rank(size) });
    }
    all
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
    /// A dense matrix of the same size in fp16.
    pub dense: u128,
    /// The busiest rank's part of that, split by columns.
    pub dense_of_rank: u128,
}

/// What an operator of `size` takes over `ranks` ranks.
///
/// # Panics
/// If there are no ranks.
pub fn operator(size: u64, flat: bool, ranks: u64) -> Result<Operator, Overflow> {
    let mut all = Operator::default();
    for Level { size, rank } in levels(size, flat) {
        let [size, rank] = [size, rank].map(u128::from);
        let numbers = product(&[3, size])?.saturating_sub(2);
        all.tridiagonal = total([all.tridiagonal, product(&[numbers, TRIDIAGONAL])?])?;
        let columns = |count: u128| product(&[2, size, count, FACTOR]);
        all.factors = total([all.factors, columns(rank)?])?;
        all.of_rank = total([all.of_rank, columns(share(rank, ranks.into()))?])?;
    }
    let column = product(&[size.into(), FACTOR])?;
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

    /// Builds every number of the structure and counts: (fp32 numbers, columns of U and V by level and rank).
    fn built(size: usize, flat: bool, ranks: usize) -> (u128, Vec<u128>) {
        let mut fp32 = 0;
        let mut fp16 = vec![0; ranks];
        let mut size = size;
        loop {
            for row in 0..size {
                for column in 0..size {
                    fp32 += u128::from(row.abs_diff(column) <= 1);
                }
            }
            let mut rank = 0;
            while (1usize << rank) < size {
                rank += 1;
            }
            for _ in ["U", "V"] {
                for column in 0..rank {
                    for _ in 0..size {
                        fp16[column % ranks] += 1;
                    }
                }
            }
            if flat || rank <= 1 {
                return (fp32, fp16);
            }
            size = rank;
        }
    }

    #[test]
    fn counts_are_those_of_the_built_structure() {
        for size in 1..200 {
            for (flat, ranks) in [(true, 1), (false, 1), (true, 3), (false, 3), (false, 16)] {
                let (fp32, fp16) = built(size as usize, flat, ranks as usize);
                let found = operator(size, flat, ranks).unwrap();
                assert_eq!(found.tridiagonal, fp32 * 4, "{size} {flat} {ranks}");
                assert_eq!(found.factors, fp16.iter().sum::<u128>() * 2);
                assert_eq!(found.of_rank, fp16.iter().max().unwrap() * 2);
                assert_eq!(found.dense, u128::from(size) * u128::from(size) * 2);
            }
        }
    }

    #[test]
    fn ranks_fall_to_one() {
        let ranks = |size| levels(size, false).iter().map(|level| level.rank).collect::<Vec<_>>();
        assert_eq!(ranks(1), [0]);
        assert_eq!(ranks(2), [1]);
        assert_eq!(ranks(1 << 20), [20, 5, 3, 2, 1]);
        assert_eq!(ranks(u64::MAX)[0], 64);
    }

    #[test]
    fn a_million_wide_operator_against_dense() {
        let flat = operator(1 << 20, true, 8).unwrap();
        assert_eq!(flat.tridiagonal, (3 * (1 << 20) - 2) * 4);
        assert_eq!(flat.factors, 2 * (1 << 20) * 20 * 2);
        // 20 columns over 8 ranks: 3 on the busiest.
        assert_eq!(flat.of_rank, 2 * (1 << 20) * 3 * 2);
        assert_eq!(flat.dense, 1 << 41);
        assert_eq!(flat.on_gpu(Place::Cpu), Ok(flat.tridiagonal));
        assert!(operator(1 << 62, false, 1).is_ok());
        assert_eq!(operator(u64::MAX, false, 1), Err(Overflow));
    }
}
