//! One pool over the whole tier: best fit, neighbours join, nothing else.
//!
//! The plainest allocator with addresses, to compare others with. Requests are rounded up to
//! [`ALIGN`]. Compaction slides live blocks down in order of address, so that one hole is left.
//! Invariant: live blocks and holes tile the capacity.

use crate::allocator::model::Allocator;
use crate::allocator::moves::Moves;
use crate::allocator::space::Space;
use crate::allocator::stats::{AllocatorBlock, Full, Stats};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// Every block is a multiple of this, as in CUDA libraries.
pub const ALIGN: u64 = 512;

/// One pool.
#[derive(Clone, Debug)]
pub struct Pool {
    capacity: u64,
    space: Space,
    /// (size, requested) by address.
    live: BTreeMap<u64, (u64, u64)>,
    requested: u64,
    allocated: u64,
}

impl Pool {
    /// Nothing in use.
    pub fn new(capacity: Bytes) -> Pool {
        let capacity = capacity.get();
        let space = Space::new(capacity);
        Pool { capacity, space, live: BTreeMap::new(), requested: 0, allocated: 0 }
    }
}

/// `bytes` rounded up to a multiple of `to`.
pub(crate) fn round_up(bytes: u64, to: u64) -> u64 {
    bytes.div_ceil(to) * to
}

impl Allocator for Pool {
    fn alloc(&mut self, bytes: Bytes, _: u16) -> Result<AllocatorBlock, Full> {
        let size =
            if bytes > Bytes::new(self.capacity) { u64::MAX } else { round_up(bytes.get(), ALIGN) };
        let Some(at) = self.space.take_best(size) else {
            return Err(self.full(bytes));
        };
        self.live.insert(at, (size, bytes.get()));
        self.requested += bytes.get();
        self.allocated += size;
        Ok(AllocatorBlock { at, bytes: Bytes::new(size) })
    }

    fn free(&mut self, block: AllocatorBlock) {
        let (size, requested) = self.live.remove(&block.at).expect("a live block is freed");
        self.requested -= requested;
        self.allocated -= size;
        self.space.give(block.at, size);
    }

    fn fits(&self, bytes: Bytes, _: u16) -> bool {
        bytes.get() <= self.space.largest() && round_up(bytes.get(), ALIGN) <= self.space.largest()
    }

    fn stats(&self) -> Stats {
        Stats {
            capacity: Bytes::new(self.capacity),
            requested: Bytes::new(self.requested),
            allocated: Bytes::new(self.allocated),
            active: Bytes::new(self.allocated),
            reserved: Bytes::new(self.space.used_end()),
            inactive_split: Bytes::new(self.space.used_end() - self.allocated),
            free: Bytes::new(self.space.free()),
            largest_free: Bytes::new(self.space.largest()),
            releases: 0,
        }
    }

    fn free_sizes(&self) -> Vec<Bytes> {
        self.space.sizes().map(Bytes::new).collect()
    }

    fn compact(&mut self, budget: Bytes) -> Moves {
        let mut moves = Moves::default();
        let Some(mut end) = self.space.lowest() else { return moves };
        let mut slid: Vec<u64> = Vec::new();
        for (&at, &(size, _)) in self.live.range(end..) {
            if moves.bytes >= budget {
                break;
            }
            let bytes = Bytes::new(size);
            moves.note(AllocatorBlock { at, bytes }, AllocatorBlock { at: end, bytes });
            slid.push(at);
            end += size;
        }
        for (at, (_, to)) in slid.iter().zip(moves.iter()) {
            let entry = self.live.remove(at).expect("a moved block is live");
            self.live.insert(to.at, entry);
        }
        let used = self.live.iter().map(|(&at, &(size, _))| (at, size));
        self.space = Space::around(self.capacity, used);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(blocks: u64) -> (Pool, Vec<AllocatorBlock>) {
        let mut pool = Pool::new(Bytes::new(blocks * ALIGN));
        let blocks = (0..blocks).map(|_| pool.alloc(Bytes::new(ALIGN), 0).expect("it fits"));
        let blocks = blocks.collect();
        (pool, blocks)
    }

    #[test]
    fn sizes_are_rounded_up() {
        let mut pool = Pool::new(Bytes::mib(1));
        let block = pool.alloc(Bytes::new(513), 0).expect("it fits");
        assert_eq!(block, AllocatorBlock { at: 0, bytes: Bytes::new(1024) });
        let stats = pool.stats();
        assert_eq!((stats.requested.get(), stats.allocated.get()), (513, 1024));
    }

    #[test]
    fn free_bytes_in_pieces_are_not_enough() {
        let (mut pool, blocks) = pool(4);
        pool.free(blocks[0]);
        pool.free(blocks[2]);
        let need = Bytes::new(ALIGN + 1);
        assert!(!pool.fits(need, 0));
        let full = Full { need, free: Bytes::new(2 * ALIGN), largest: Bytes::new(ALIGN) };
        assert_eq!(pool.alloc(need, 0), Err(full));
        assert_eq!(pool.stats().external(), 0.5);
        assert_eq!(pool.stats().reserved, Bytes::new(4 * ALIGN));
    }

    #[test]
    fn compaction_leaves_one_hole_and_moves_only_what_lies_behind_the_first() {
        let (mut pool, blocks) = pool(8);
        for index in [2, 4, 7] {
            pool.free(blocks[index]);
        }
        let moves = pool.compact(Bytes::MAX);
        let moved: Vec<_> = moves.iter().map(|(was, is)| (was.at / ALIGN, is.at / ALIGN)).collect();
        assert_eq!(moved, [(3, 2), (5, 3), (6, 4)]);
        assert_eq!(moves.bytes, Bytes::new(3 * ALIGN));
        let stats = pool.stats();
        assert_eq!((stats.external(), stats.free.get()), (0.0, 3 * ALIGN));
        assert!(pool.compact(Bytes::MAX).is_empty());
    }

    #[test]
    fn incremental_compaction_stops_at_its_budget() {
        let (mut pool, blocks) = pool(8);
        pool.free(blocks[0]);
        let mut steps = 0;
        while !pool.compact(Bytes::new(2 * ALIGN)).is_empty() {
            steps += 1;
        }
        assert_eq!((steps, pool.stats().reserved.get()), (4, 7 * ALIGN));
    }

    #[test]
    fn a_request_beyond_everything_is_refused() {
        let mut pool = Pool::new(Bytes::mib(1));
        assert!(!pool.fits(Bytes::MAX, 0));
        assert!(pool.alloc(Bytes::MAX, 0).is_err());
    }
}
