//! How the memory of a tier was used over a run: what allocators cost.

use crate::allocator::BucketStats;
use crate::allocator::Stats;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Most points of a series, beside one for the end of each step up to this.
pub const POINTS: u64 = 1000;

/// One stretch of ops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The last op of the run in it.
    pub occurrence: u64,
    /// The step of the run that this op belongs to, from 0.
    pub step: u64,
    /// Most bytes of live blocks.
    pub allocated: Bytes,
    /// Most bytes that the allocator kept from others.
    pub reserved: Bytes,
    /// Mean external fragmentation.
    pub mean: f64,
    /// Highest external fragmentation.
    pub highest: f64,
    /// Mean internal fragmentation.
    pub internal_mean: f64,
    /// Highest internal fragmentation.
    pub internal_highest: f64,
    /// Mean total fragmentation.
    pub total_mean: f64,
    /// Highest total fragmentation.
    pub total_highest: f64,
    /// Free pieces after its last op: how many of at least 2^i and less than 2^(i+1) bytes, by i.
    pub free_pieces: Vec<(u8, u64)>,
}

/// A share over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Mean over ops.
    pub mean: f64,
    /// Highest after any op.
    pub highest: f64,
    /// After the last op.
    pub end: f64,
}

/// The use of one tier's memory over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The allocator in words, such as `buckets, compacted above 30 %`.
    pub allocator: String,
    /// Bytes after the last op.
    pub end: Stats,
    /// Most bytes of live blocks after any op.
    pub peak_allocated: Bytes,
    /// Most bytes that the allocator kept from others after any op.
    pub peak_reserved: Bytes,
    /// `1 - largest_free / free`.
    pub external: Share,
    /// `1 - requested / allocated`.
    pub internal: Share,
    /// `(external + internal) / 2`.
    pub total: Share,
    /// How often objects were moved together.
    pub compactions: u64,
    /// Bytes that this copied inside the tier.
    pub compacted: Bytes,
    /// The highest fragmentation that a compaction found, of the kind that it goes by; what the
    /// others measure is what it left.
    pub compacted_from: f64,
    /// Objects that left the tier because no free piece was large enough.
    pub forced: u64,
    /// Prefetches that were given up because no free piece was large enough.
    pub given_up: u64,
    /// Free pieces after the last op by size: of at least 2^i and less than 2^(i+1) bytes.
    pub free_pieces: Vec<u64>,
    /// Its buckets after the last op, if it has any.
    pub buckets: Vec<BucketStats>,
    /// Over the run: at most [`POINTS`], and one for the end of each of as many steps.
    pub series: Vec<Point>,
}
