//! Buckets: slabs of equal slots for small requests, one pool for large ones.
//!
//! A request of at most 1 MiB gets a slot of the smallest bucket that holds it. Slots are cut from
//! slabs of [`SLAB`] bytes, a slab from the pool; an empty slab goes back. Larger requests, and
//! small ones when no slab can be had, take a piece of the pool, rounded up to [`LARGE_ROUND`].
//! The lowest slot of the lowest slab is taken first, so that the highest slabs run empty.
//! Invariant: slabs, large blocks and holes tile the capacity.

mod adapt;
mod compact;
mod slots;

use crate::allocator::buckets::slots::Slots;
use crate::allocator::model::Allocator;
use crate::allocator::moves::Moves;
use crate::allocator::pool::round_up;
use crate::allocator::space::Space;
use crate::allocator::stats::{AllocatorBlock, BucketStats, Full, Stats};
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Sizes of the buckets: 64 B, 256 B, 1 KiB, 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB.
pub const SIZES: [u64; 8] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Size of a slab.
pub const SLAB: u64 = 2 << 20;
/// Blocks of the pool are multiples of this.
pub const LARGE_ROUND: u64 = 64 << 10;

/// Parameters of [`Buckets`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketsConfig {
    /// Whether buckets are added where requests fill their slots badly, see `adapt`.
    pub adaptive: bool,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    /// Slabs with a free slot, by address.
    open: BTreeSet<u64>,
    slabs: u64,
    live: u64,
    requested: u64,
    served: u64,
    window: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Slab {
    slot: u64,
    free: Slots,
}

impl Slab {
    fn new(slot: u64) -> Slab {
        Slab { slot, free: Slots::new((SLAB / slot) as u32) }
    }

    fn slots(&self) -> u32 {
        (SLAB / self.slot) as u32
    }

    fn is_empty(&self) -> bool {
        self.free.len() as u32 == self.slots()
    }

    fn live(&self) -> u64 {
        u64::from(self.slots()) - self.free.len() as u64
    }
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Buckets {
    capacity: u64,
    adaptive: bool,
    space: Space,
    /// By the size of their slots.
    buckets: BTreeMap<u64, Bucket>,
    slabs: BTreeMap<u64, Slab>,
    /// (size, requested) by address.
    large: BTreeMap<u64, (u64, u64)>,
    /// What was asked for, by address of the slot.
    small: BTreeMap<u64, u64>,
    requested: u64,
    allocated: u64,
}

impl Buckets {
    /// Nothing in use.
    pub fn new(capacity: Bytes, config: BucketsConfig) -> Buckets {
        let capacity = capacity.get();
        Buckets {
            capacity,
            adaptive: config.adaptive,
            space: Space::new(capacity),
            buckets: SIZES.into_iter().map(|size| (size, Bucket::default())).collect(),
            slabs: BTreeMap::new(),
            large: BTreeMap::new(),
            small: BTreeMap::new(),
            requested: 0,
            allocated: 0,
        }
    }

    /// The size of the slots that requests of `bytes` get, if small.
    fn slot_for(&self, bytes: u64) -> Option<u64> {
        self.buckets.range(bytes..).next().map(|(&slot, _)| slot)
    }

    fn alloc_small(&mut self, slot: u64, requested: u64) -> Option<AllocatorBlock> {
        let open = self.buckets[&slot].open.first().copied();
        let at = match open {
            Some(at) => at,
            None => self.open_slab(slot)?,
        };
        let slab = self.slabs.get_mut(&at).expect("an open slab exists");
        let index = slab.free.pop_first().expect("an open slab has a free slot");
        let bucket = self.buckets.get_mut(&slot).expect("a slot has a bucket");
        if slab.free.is_empty() {
            bucket.open.remove(&at);
        }
        bucket.live += 1;
        bucket.served += 1;
        bucket.requested += requested;
        self.requested += requested;
        self.allocated += slot;
        let at = at + u64::from(index) * slot;
        self.small.insert(at, requested);
        Some(AllocatorBlock { at, bytes: Bytes::new(slot) })
    }

    fn open_slab(&mut self, slot: u64) -> Option<u64> {
        let at = self.space.take_best(SLAB)?;
        self.slabs.insert(at, Slab::new(slot));
        let bucket = self.buckets.get_mut(&slot).expect("a slot has a bucket");
        bucket.slabs += 1;
        bucket.open.insert(at);
        Some(at)
    }

    fn alloc_large(&mut self, requested: u64) -> Option<AllocatorBlock> {
        let size = round_up(requested, LARGE_ROUND);
        let at = self.space.take_best(size)?;
        self.large.insert(at, (size, requested));
        self.requested += requested;
        self.allocated += size;
        Some(AllocatorBlock { at, bytes: Bytes::new(size) })
    }

    fn free_small(&mut self, at: u64, requested: u64) {
        let slab_at = self.slab_of(at);
        let slab = self.slabs.get_mut(&slab_at).expect("a slot lies in a slab");
        let slot = slab.slot;
        slab.free.insert(((at - slab_at) / slot) as u32);
        let empty = slab.is_empty();
        let bucket = self.buckets.get_mut(&slot).expect("a slot has a bucket");
        bucket.live -= 1;
        bucket.requested -= requested;
        bucket.open.insert(slab_at);
        self.requested -= requested;
        self.allocated -= slot;
        if empty {
            self.close_slab(slab_at);
        }
    }

    fn close_slab(&mut self, at: u64) {
        let slab = self.slabs.remove(&at).expect("the slab exists");
        let bucket = self.buckets.get_mut(&slab.slot).expect("a slab has a bucket");
        bucket.open.remove(&at);
        bucket.slabs -= 1;
        self.space.give(at, SLAB);
    }

    fn slab_of(&self, at: u64) -> u64 {
        let (&slab, _) = self.slabs.range(..=at).next_back().expect("a slot lies in a slab");
        slab
    }
}

impl Allocator for Buckets {
    fn alloc(&mut self, bytes: Bytes, stream: u16) -> Result<AllocatorBlock, Full> {
        if !self.fits(bytes, stream) {
            return Err(self.full(bytes));
        }
        let requested = bytes.get();
        let slot = self.slot_for(requested);
        if let Some(slot) = slot.filter(|_| self.adaptive) {
            self.adapt(slot, requested);
        }
        let small = slot.and_then(|slot| self.alloc_small(slot, requested));
        Ok(small.or_else(|| self.alloc_large(requested)).expect("it was found to fit"))
    }

    fn free(&mut self, block: AllocatorBlock) {
        if let Some(requested) = self.small.remove(&block.at) {
            self.free_small(block.at, requested);
        } else {
            let (size, requested) = self.large.remove(&block.at).expect("a live block is freed");
            self.requested -= requested;
            self.allocated -= size;
            self.space.give(block.at, size);
        }
    }

    fn fits(&self, bytes: Bytes, _: u16) -> bool {
        let (bytes, largest) = (bytes.get(), self.space.largest());
        let slot = self.slot_for(bytes);
        slot.is_some_and(|slot| !self.buckets[&slot].open.is_empty() || SLAB <= largest)
            || (bytes <= largest && round_up(bytes, LARGE_ROUND) <= largest)
    }

    fn stats(&self) -> Stats {
        let widest = self.buckets.iter().rfind(|(_, bucket)| !bucket.open.is_empty());
        let slot = widest.map_or(0, |(&slot, _)| slot);
        Stats {
            capacity: Bytes::new(self.capacity),
            requested: Bytes::new(self.requested),
            allocated: Bytes::new(self.allocated),
            active: Bytes::new(self.allocated),
            reserved: Bytes::new(self.space.used_end()),
            inactive_split: Bytes::new(self.space.used_end() - self.allocated),
            free: Bytes::new(self.capacity - self.allocated),
            largest_free: Bytes::new(self.space.largest().max(slot)),
            releases: 0,
        }
    }

    fn free_sizes(&self) -> Vec<Bytes> {
        let mut sizes: Vec<Bytes> = self.space.sizes().map(Bytes::new).collect();
        for slab in self.slabs.values() {
            sizes.extend(vec![Bytes::new(slab.slot); slab.free.len()]);
            let tail = SLAB % slab.slot;
            sizes.extend((tail > 0).then_some(Bytes::new(tail)));
        }
        sizes
    }

    /// By rising size of their slots.
    fn buckets(&self) -> Vec<BucketStats> {
        let stats = |(&slot, bucket): (&u64, &Bucket)| BucketStats {
            slot: Bytes::new(slot),
            live: bucket.live,
            slots: bucket.slabs * (SLAB / slot),
            requested: Bytes::new(bucket.requested),
            served: bucket.served,
        };
        self.buckets.iter().map(stats).collect()
    }

    fn compact(&mut self, budget: Bytes) -> Moves {
        self.gather(budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(capacity: Bytes) -> Buckets {
        Buckets::new(capacity, BucketsConfig::default())
    }

    fn kib(n: u64) -> Bytes {
        Bytes::new(n << 10)
    }

    #[test]
    fn requests_get_the_smallest_slot_that_holds_them() {
        let mut buckets = buckets(Bytes::mib(64));
        for (bytes, slot) in SIZES.iter().flat_map(|&size| [(size, size), (size / 4 + 1, size)]) {
            let block = buckets.alloc(Bytes::new(bytes), 0).expect("it fits");
            assert_eq!(block.bytes.get(), slot, "{bytes}");
        }
        let block = buckets.alloc(kib(1024 + 1), 0).expect("it fits");
        assert_eq!((block.bytes, buckets.large.len()), (kib(1024 + 64), 1));
    }

    #[test]
    fn a_slab_is_shared_and_given_back_when_it_is_empty() {
        let mut buckets = buckets(Bytes::mib(8));
        let blocks: Vec<_> = (0..9).map(|_| buckets.alloc(kib(200), 0).expect("it fits")).collect();
        assert_eq!(blocks[7].end(), SLAB);
        assert_eq!(blocks[8].at, SLAB, "the ninth opens a second slab");
        let of = |buckets: &Buckets| {
            let stats = buckets.buckets();
            let bucket = stats.iter().find(|bucket| bucket.slot == kib(256)).expect("it exists");
            (bucket.live, bucket.slots, bucket.requested)
        };
        assert_eq!(of(&buckets), (9, 16, kib(1800)));
        buckets.free(blocks[3]);
        assert_eq!(buckets.alloc(kib(256), 0).expect("it fits").at, blocks[3].at);
        blocks.into_iter().for_each(|block| buckets.free(block));
        assert_eq!((of(&buckets), buckets.free_sizes()), ((0, 0, kib(0)), vec![Bytes::mib(8)]));
    }

    #[test]
    fn without_room_for_a_slab_small_requests_take_from_the_pool() {
        let mut buckets = buckets(Bytes::mib(3));
        buckets.alloc(Bytes::mib(2), 0).expect("it fits");
        let block = buckets.alloc(kib(10), 0).expect("it fits");
        assert_eq!((block.bytes, buckets.large.len()), (kib(64), 2));
    }
}
