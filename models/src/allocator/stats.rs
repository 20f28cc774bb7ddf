//! Blocks of memory, and how much of it is used.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Memory that an allocator has handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorBlock {
    /// Address of its first byte.
    pub at: u64,
    /// Its size: what was asked for, rounded up as the model does.
    pub bytes: Bytes,
}

impl AllocatorBlock {
    /// Address behind its last byte.
    pub fn end(&self) -> u64 {
        self.at + self.bytes.get()
    }
}

/// A request that could not be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// What was asked for.
    pub need: Bytes,
    /// Bytes in no live block.
    pub free: Bytes,
    /// The largest piece of them.
    pub largest: Bytes,
}

crate::words! {
    /// Which fragmentation is held against a threshold.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Fragmentation {
        /// Of free memory, [`Stats::external`]: what moving blocks can bring to nothing.
        #[default]
        External = "external",
        /// [`Stats::total`]: half of it is within blocks, where moving them changes nothing.
        Total = "total",
    }
}

/// Bytes of an allocator at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// What the model looks after.
    pub capacity: Bytes,
    /// What the program asked for, over live blocks.
    pub requested: Bytes,
    /// Live blocks, as rounded.
    pub allocated: Bytes,
    /// Live blocks, and blocks given back that a stream may still use.
    pub active: Bytes,
    /// What the allocator keeps from others: its segments, or all up to its last live block.
    pub reserved: Bytes,
    /// Free parts of segments that are in use in part, and so cannot be given to others.
    pub inactive_split: Bytes,
    /// In no active block: `capacity - active`.
    pub free: Bytes,
    /// The largest piece of `free`.
    pub largest_free: Bytes,
    /// How often memory was given back to the device. Who gets it next has to wait for all
    /// that was under way then, as `cudaFree` does.
    pub releases: u64,
}

impl Stats {
    /// External fragmentation, 0 to 1: `1 - largest_free / free`; 0 when nothing is free.
    pub fn external(&self) -> f64 {
        wasted(self.largest_free, self.free)
    }

    /// Internal fragmentation, 0 to 1: `1 - requested / allocated`; 0 when nothing is allocated.
    pub fn internal(&self) -> f64 {
        wasted(self.requested, self.allocated)
    }

    /// Total fragmentation, 0 to 1: the mean of the two, `(external + internal) / 2`.
    pub fn total(&self) -> f64 {
        (self.external() + self.internal()) / 2.0
    }

    /// The one that is asked for.
    pub fn of(&self, which: Fragmentation) -> f64 {
        match which {
            Fragmentation::External => self.external(),
            Fragmentation::Total => self.total(),
        }
    }
}

fn wasted(used: Bytes, of: Bytes) -> f64 {
    if of == Bytes::ZERO { 0.0 } else { 1.0 - used.get() as f64 / of.get() as f64 }
}

/// What one bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketStats {
    /// Size of a slot.
    pub slot: Bytes,
    /// Slots in use.
    pub live: u64,
    /// Slots of all slabs.
    pub slots: u64,
    /// What the program asked for, over slots in use.
    pub requested: Bytes,
    /// Requests served so far.
    pub served: u64,
}
