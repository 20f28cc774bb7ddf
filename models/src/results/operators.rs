//! Ways to let every token meet every other: what each holds and how long it takes, by size.

use crate::op_times::PricedBy;

/// One way at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct WayTaken {
    /// Bytes of what stands for the matrix.
    pub bytes: u128,
    /// Multiplications and additions.
    pub flops: u128,
    /// Kernels, one after the other.
    pub kernels: u64,
    /// Seconds of all of them; `None` without a peak of their precision.
    pub seconds: Option<f64>,
    /// How the longest of them is known.
    pub by: Option<PricedBy>,
}

/// All ways at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTaken {
    /// Tokens: rows and columns of the matrix.
    pub size: u64,
    /// Rank of the structured operator's factors.
    pub rank: u64,
    /// In the order of [`OperatorTimes::ways`].
    pub taken: Vec<WayTaken>,
}

/// All ways at all sizes on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorTimes {
    /// The machine.
    pub machine: String,
    /// Its device.
    pub device: String,
    /// Vectors that go through at once.
    pub vectors: u64,
    /// Operators of the same size, or heads, at once.
    pub heads: u32,
    /// The precision of products.
    pub precision: &'static str,
    /// What the ways are called.
    pub ways: Vec<&'static str>,
    /// By rising size.
    pub sizes: Vec<SizeTaken>,
}

impl OperatorTimes {
    /// The least size from which on one way is quicker than another; `None` if it is not at the
    /// largest.
    pub fn wins_from(&self, way: &str, other: &str) -> Option<u64> {
        let at = |name: &str| self.ways.iter().position(|known| *known == name);
        let (way, other) = (at(way)?, at(other)?);
        let quicker = |size: &&SizeTaken| {
            let seconds = |index: usize| size.taken[index].seconds;
            seconds(way).zip(seconds(other)).is_some_and(|(one, two)| one < two)
        };
        self.sizes.iter().rev().take_while(quicker).last().map(|size| size.size)
    }
}
