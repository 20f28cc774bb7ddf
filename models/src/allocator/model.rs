//! What every model of an allocator answers.

use crate::allocator::costs::Calls;
use crate::allocator::moves::Moves;
use crate::allocator::stats::{AllocatorBlock, BucketStats, Full, Stats};
use crate::units::Bytes;
use std::fmt;

/// A model of an allocator.
pub trait Allocator: fmt::Debug + Send {
    /// Takes memory for `bytes` (above 0) that ops of `stream` will use.
    fn alloc(&mut self, bytes: Bytes, stream: u16) -> Result<AllocatorBlock, Full>;

    /// Gives a live block back. Panics on a block that is not live.
    fn free(&mut self, block: AllocatorBlock);

    /// Whether [`Allocator::alloc`] would succeed.
    fn fits(&self, bytes: Bytes, stream: u16) -> bool;

    /// Bytes by use. Cheap: asked after every op.
    fn stats(&self) -> Stats;

    /// That a request cannot be met.
    fn full(&self, need: Bytes) -> Full {
        let Stats { free, largest_free: largest, .. } = self.stats();
        Full { need, free, largest }
    }

    /// What it has done since it was made, of models that take time for it.
    fn calls(&self) -> Calls {
        Calls::default()
    }

    /// Size of every piece of free memory, in no particular order. They sum up to `stats().free`.
    fn free_sizes(&self) -> Vec<Bytes>;

    /// What each bucket holds, of models that have buckets.
    fn buckets(&self) -> Vec<BucketStats> {
        Vec::new()
    }

    /// Gives memory back to the device that is kept for later and in which nothing is live. Models
    /// that keep none do nothing.
    fn clean(&mut self) {}

    /// Moves live blocks together, until it has copied at least `budget` bytes or nothing is left
    /// to gain. Models whose blocks cannot move do nothing.
    fn compact(&mut self, _budget: Bytes) -> Moves {
        Moves::default()
    }
}
