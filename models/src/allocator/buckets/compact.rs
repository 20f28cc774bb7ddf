//! Compaction of buckets: slots leave the emptiest slabs, then slabs and large blocks slide down.
//!
//! Invariant: the budget is spent on slots first, because an empty slab is a hole for anybody.

use crate::allocator::buckets::{Bucket, Buckets, SLAB, Slab};
use crate::allocator::moves::Moves;
use crate::allocator::space::Space;
use crate::allocator::stats::AllocatorBlock;
use crate::units::Bytes;
use std::collections::BTreeMap;

impl Buckets {
    /// Moves blocks until at least `budget` bytes are copied or nothing is left to gain.
    pub(super) fn gather(&mut self, budget: Bytes) -> Moves {
        let mut moves = Moves::default();
        let sizes: Vec<u64> = self.buckets.keys().copied().collect();
        for slot in sizes {
            while moves.bytes < budget && self.empty_one(slot, budget, &mut moves) {}
        }
        if moves.bytes < budget {
            self.slide(budget, &mut moves);
        }
        moves
    }

    /// Moves slots of the emptiest open slab into the others; `false` if they have no room for all.
    fn empty_one(&mut self, slot: u64, budget: Bytes, moves: &mut Moves) -> bool {
        let open: Vec<u64> = self.buckets[&slot].open.iter().copied().collect();
        let live = |at: &u64| self.slabs[at].live();
        // Of equally empty slabs the highest goes.
        let Some(&from) = open.iter().min_by_key(|at| (live(at), std::cmp::Reverse(**at))) else {
            return false;
        };
        let others = open.iter().filter(|at| **at != from);
        let room: usize = others.map(|at| self.slabs[at].free.len()).sum();
        if (room as u64) < live(&from) {
            return false;
        }
        let slots = (0..self.slabs[&from].slots()).map(|index| from + u64::from(index) * slot);
        let used: Vec<u64> = slots.filter(|at| self.small.contains_key(at)).collect();
        let mut targets = open.into_iter().filter(|at| *at != from).peekable();
        for at in used {
            if moves.bytes >= budget {
                return false;
            }
            let target = *targets.peek().expect("there is room in the other slabs");
            let to = self.move_slot(at, from, target);
            moves.note(AllocatorBlock { at, bytes: Bytes::new(slot) }, to);
            if self.slabs[&target].free.is_empty() {
                targets.next();
            }
        }
        self.close_slab(from);
        true
    }

    fn move_slot(&mut self, at: u64, from: u64, target: u64) -> AllocatorBlock {
        let requested = self.small.remove(&at).expect("a used slot");
        let slab = self.slabs.get_mut(&from).expect("the slab exists");
        let slot = slab.slot;
        slab.free.insert(((at - from) / slot) as u32);
        let slab = self.slabs.get_mut(&target).expect("the slab exists");
        let index = slab.free.pop_first().expect("an open slab has a free slot");
        if slab.free.is_empty() {
            let bucket = self.buckets.get_mut(&slot).expect("a slab has a bucket");
            bucket.open.remove(&target);
        }
        let to = target + u64::from(index) * slot;
        self.small.insert(to, requested);
        AllocatorBlock { at: to, bytes: Bytes::new(slot) }
    }

    /// Closes holes of the pool from below.
    fn slide(&mut self, budget: Bytes, moves: &mut Moves) {
        let Some(mut end) = self.space.lowest() else { return };
        let slabs = self.slabs.range(end..).map(|(&at, _)| (at, SLAB));
        let large = self.large.range(end..).map(|(&at, &(size, _))| (at, size));
        let behind: BTreeMap<u64, u64> = slabs.chain(large).collect();
        for (at, size) in behind {
            if moves.bytes >= budget {
                break;
            }
            match self.large.remove(&at) {
                Some(entry) => {
                    let bytes = Bytes::new(size);
                    self.large.insert(end, entry);
                    moves.note(AllocatorBlock { at, bytes }, AllocatorBlock { at: end, bytes });
                }
                None => self.move_slab(at, end, moves),
            }
            end += size;
        }
        let slabs = self.slabs.keys().map(|&at| (at, SLAB));
        let used: BTreeMap<u64, u64> =
            slabs.chain(self.large.iter().map(|(&at, &(size, _))| (at, size))).collect();
        self.space = Space::around(self.capacity, used.into_iter());
    }

    /// Moves a whole slab down; only its used slots are copied.
    fn move_slab(&mut self, at: u64, to: u64, moves: &mut Moves) {
        let slab = self.slabs.remove(&at).expect("the slab exists");
        let used: Vec<(u64, u64)> =
            self.small.range(at..at + SLAB).map(|(&at, &requested)| (at, requested)).collect();
        let bytes = Bytes::new(slab.slot);
        for (from, requested) in used {
            let target = from - at + to;
            self.small.remove(&from);
            self.small.insert(target, requested);
            moves.note(AllocatorBlock { at: from, bytes }, AllocatorBlock { at: target, bytes });
        }
        self.reopen(at, to, &slab);
        self.slabs.insert(to, slab);
    }

    fn reopen(&mut self, at: u64, to: u64, slab: &Slab) {
        let bucket: &mut Bucket = self.buckets.get_mut(&slab.slot).expect("a slab has a bucket");
        if bucket.open.remove(&at) {
            bucket.open.insert(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::allocator::buckets::BucketsConfig;

    const SLOT: u64 = 256 << 10;

    fn filled(slots: u64, capacity: Bytes) -> (Buckets, Vec<AllocatorBlock>) {
        let mut buckets = Buckets::new(capacity, BucketsConfig::default());
        let blocks = (0..slots).map(|_| buckets.alloc(Bytes::new(SLOT), 0).expect("it fits"));
        let blocks = blocks.collect();
        (buckets, blocks)
    }

    #[test]
    fn slots_of_the_emptiest_slab_move_and_the_slab_goes_back() {
        let (mut buckets, blocks) = filled(24, Bytes::mib(6));
        // Three slabs of eight: leave 6, 5 and 3 in use.
        for index in [0, 1, 8, 9, 10, 16, 17, 18, 19, 20] {
            buckets.free(blocks[index]);
        }
        let moves = buckets.compact(Bytes::MAX);
        let moved: Vec<_> = moves.iter().map(|(was, is)| (was.at / SLOT, is.at / SLOT)).collect();
        assert_eq!(moved, [(21, 0), (22, 1), (23, 8)]);
        assert_eq!((moves.bytes.get(), buckets.stats().largest_free), (3 * SLOT, Bytes::mib(2)));
    }

    #[test]
    fn holes_between_large_blocks_and_slabs_close() {
        let mut buckets = Buckets::new(Bytes::mib(16), BucketsConfig::default());
        let low = buckets.alloc(Bytes::mib(3), 0).expect("it fits");
        let slot = buckets.alloc(Bytes::new(1000), 0).expect("it fits");
        let middle = buckets.alloc(Bytes::mib(3), 0).expect("it fits");
        let high = buckets.alloc(Bytes::mib(3), 0).expect("it fits");
        buckets.free(low);
        buckets.free(middle);
        let moves = buckets.compact(Bytes::MAX);
        let moved: Vec<_> = moves.iter().map(|(was, is)| (was, is.at)).collect();
        assert_eq!(moved, [(slot, 0), (high, SLAB)]);
        assert_eq!(moves.bytes, Bytes::mib(3) + Bytes::new(1024), "only the used slot is copied");
        assert_eq!(buckets.stats().largest_free, Bytes::mib(11));
    }

    #[test]
    fn a_small_budget_gets_there_in_small_steps() {
        let (mut buckets, blocks) = filled(32, Bytes::mib(8));
        blocks.iter().step_by(2).for_each(|block| buckets.free(*block));
        let mut copied = Bytes::ZERO;
        loop {
            let moves = buckets.compact(Bytes::new(1));
            if moves.is_empty() {
                break;
            }
            assert_eq!(moves.bytes.get(), SLOT, "one block at once");
            copied += moves.bytes;
        }
        assert!(copied.get() >= 8 * SLOT);
        assert_eq!(buckets.stats().largest_free, Bytes::mib(4));
    }
}
