//! Bytes are counted and nothing else, as if every object could be cut to fit.
//!
//! Invariant: a request fails only if fewer bytes are free than it asks for.

use crate::allocator::model::Allocator;
use crate::allocator::stats::{AllocatorBlock, Full, Stats};
use crate::units::Bytes;

/// A counter. Its addresses only tell blocks apart.
#[derive(Clone, Debug)]
pub struct Exact {
    capacity: Bytes,
    used: Bytes,
    next: u64,
}

impl Exact {
    /// Nothing in use.
    pub fn new(capacity: Bytes) -> Exact {
        Exact { capacity, used: Bytes::ZERO, next: 0 }
    }
}

impl Allocator for Exact {
    fn alloc(&mut self, bytes: Bytes, stream: u16) -> Result<AllocatorBlock, Full> {
        if !self.fits(bytes, stream) {
            return Err(self.full(bytes));
        }
        self.used += bytes;
        let at = self.next;
        self.next = at.wrapping_add(bytes.get());
        Ok(AllocatorBlock { at, bytes })
    }

    fn free(&mut self, block: AllocatorBlock) {
        self.used -= block.bytes;
    }

    fn fits(&self, bytes: Bytes, _: u16) -> bool {
        bytes <= self.capacity - self.used
    }

    fn stats(&self) -> Stats {
        let free = self.capacity - self.used;
        Stats {
            capacity: self.capacity,
            requested: self.used,
            allocated: self.used,
            active: self.used,
            reserved: self.used,
            inactive_split: Bytes::ZERO,
            free,
            largest_free: free,
            releases: 0,
        }
    }

    fn free_sizes(&self) -> Vec<Bytes> {
        let free = self.capacity - self.used;
        if free > Bytes::ZERO { vec![free] } else { Vec::new() }
    }
}
