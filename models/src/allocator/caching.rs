//! PyTorch's caching allocator for CUDA, rule by rule.
//!
//! Follows `DeviceCachingAllocator` of `c10/cuda/CUDACachingAllocator.cpp` (pytorch/pytorch at
//! 001074d, and what later versions changed); each function names the one that it follows. Events
//! are left to who frees: [`Caching::free_requested`] says that a stream may still use a block. A
//! private pool is a stream of its own that [`Caching::keep`] keeps from being released. Left out:
//! callbacks, pools that never split, and pools that others may use when memory is out. Assumed:
//! `cudaMalloc` returns the lowest free address, which decides between free blocks of equal size
//! only, and fails only when the capacity is used up.
//! Invariant: the blocks of each segment tile it, and `reserved` is the sum of mapped segments.

mod blocks;
mod expandable;
mod release;
mod replay;
mod sizes;
#[cfg(test)]
mod tests;

use crate::allocator::caching::blocks::{Blocks, FreeList, Id, Key};
use crate::allocator::caching::expandable::Expandable;
use crate::allocator::caching::sizes::{interval, round_size, segment_size};
use crate::allocator::costs::{Calls, Costs};
use crate::allocator::model::Allocator;
use crate::allocator::pool::round_up;
use crate::allocator::space::Space;
use crate::allocator::stats::{AllocatorBlock, Full, Stats};
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

pub use crate::allocator::caching::replay::{SegmentState, UsedBlock};
pub use crate::allocator::caching::sizes::INTERVALS;

/// `kMinBlockSize`: all sizes are rounded up to a multiple of this.
pub const MIN_BLOCK: u64 = 512;
/// `kSmallSize`: the largest request for the small pool.
pub const SMALL: u64 = 1 << 20;
/// `kSmallBuffer`: segments of the small pool.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// `kLargeBuffer`: segments of the large pool for requests below [`MIN_LARGE`].
pub const LARGE_SEGMENT: u64 = 20 << 20;
/// `kMinLargeAlloc`: requests from here on get a segment of their own size.
pub const MIN_LARGE: u64 = 10 << 20;
/// `kRoundLarge`: those segments are multiples of this.
pub const ROUND_LARGE: u64 = 2 << 20;

/// Parameters of [`Caching`], as in `PYTORCH_CUDA_ALLOC_CONF`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CachingConfig {
    /// `expandable_segments`: one segment per stream and pool that grows.
    pub expandable_segments: bool,
    /// `max_split_size_mb`, in bytes: larger blocks are not split; above [`LARGE_SEGMENT`].
    pub max_split: Option<Bytes>,
    /// `roundup_power2_divisions`, one number for all sizes: a power of two; 0 and 1 round to 512
    /// B.
    pub roundup_power2_divisions: u32,
    /// `garbage_collection_threshold`: share of the capacity above which old segments are released
    /// before new ones are made; 0 for never.
    pub garbage_collection_threshold: f64,
    /// What its work takes of the program's time.
    pub costs: Costs,
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Caching {
    config: CachingConfig,
    /// `roundup_power2_divisions` by size.
    divisions: [u32; INTERVALS],
    /// `max_non_split_rounding_mb`, in bytes.
    rounding_limit: u64,
    /// `large_segment_size_mb`, in bytes: segments of the large pool, and what it is mapped by.
    large_segment: u64,
    /// Streams whose segments are never given back: those of private pools in use.
    kept: BTreeSet<u16>,
    /// Addresses that an expandable segment reserves, if not 9/8 of the capacity.
    reservation: Option<u64>,
    /// Where the next segment is to lie.
    hint: Option<u64>,
    capacity: u64,
    /// Addresses that `cudaMalloc` and `cuMemAddressReserve` have left.
    addresses: Space,
    blocks: Blocks,
    small: FreeList,
    large: FreeList,
    expandable: Vec<Option<Expandable>>,
    /// Blocks in use, by address.
    live: BTreeMap<u64, Id>,
    requested: u64,
    allocated: u64,
    active: u64,
    reserved: u64,
    inactive_split: u64,
    releases: u64,
    calls: Calls,
}

/// What is asked for: `AllocParams`.
#[derive(Clone, Copy, Debug)]
struct Request {
    stream: u16,
    size: u64,
    /// Size of a segment made for it.
    segment: u64,
    small: bool,
}

impl Caching {
    /// Nothing in use.
    pub fn new(capacity: Bytes, config: CachingConfig) -> Caching {
        Caching {
            config,
            divisions: [config.roundup_power2_divisions; INTERVALS],
            rounding_limit: LARGE_SEGMENT,
            large_segment: LARGE_SEGMENT,
            kept: BTreeSet::new(),
            reservation: None,
            hint: None,
            capacity: capacity.get(),
            addresses: Space::new(u64::MAX),
            blocks: Blocks::default(),
            small: FreeList::default(),
            large: FreeList::default(),
            expandable: Vec::new(),
            live: BTreeMap::new(),
            requested: 0,
            allocated: 0,
            active: 0,
            reserved: 0,
            inactive_split: 0,
            releases: 0,
            calls: Calls::default(),
        }
    }

    /// `torch.cuda.empty_cache()`: gives every segment back in which nothing is in use.
    pub fn empty_cache(&mut self) {
        self.release_cached_blocks();
    }

    /// First half of a free, as of a block that other streams have used: it is no longer allocated
    /// and still active. [`Caching::free_completed`] must follow.
    pub fn free_requested(&mut self, block: AllocatorBlock) {
        let id = *self.live.get(&block.at).expect("a live block is freed");
        let block = &mut self.blocks[id];
        assert!(block.allocated, "freed twice");
        block.allocated = false;
        self.allocated -= block.size;
    }

    /// Second half of a free: `free_block`. It joins free neighbours and goes to its pool.
    pub fn free_completed(&mut self, block: AllocatorBlock) {
        let id = self.live.remove(&block.at).expect("a live block is freed");
        let block = &self.blocks[id];
        assert!(!block.allocated, "the free was not requested");
        self.active -= block.size;
        self.requested -= block.requested;
        let (prev, next) = (block.prev, block.next);
        self.try_merge(id, prev);
        self.try_merge(id, next);
        self.insert_free(id);
    }

    fn request(&self, bytes: u64, stream: u16) -> Request {
        let size = round_size(bytes, u64::from(self.divisions[interval(bytes)]));
        Request {
            stream,
            size,
            segment: segment_size(size, self.large_segment),
            small: size <= SMALL,
        }
    }

    /// The function `malloc`, without its error message.
    fn find_block(&mut self, request: &Request) -> Option<Id> {
        if let Some(id) = self.get_free_block(request) {
            return Some(id);
        }
        if self.config.garbage_collection_threshold > 0.0 {
            self.garbage_collect();
        }
        if let Some(id) = self.alloc_block(request) {
            return Some(id);
        }
        if self.release_available(request)
            && let Some(id) = self.alloc_block(request)
        {
            return Some(id);
        }
        self.release_cached_blocks();
        self.alloc_block(request)
    }

    /// Best fit among the free blocks of the stream and pool: `get_free_block`.
    fn get_free_block(&mut self, request: &Request) -> Option<Id> {
        if self.config.garbage_collection_threshold > 0.0 {
            self.list_mut(request.small).calls += 1;
        }
        let id = self.best_fit(request)?;
        self.remove_free(id);
        Some(id)
    }

    fn best_fit(&self, request: &Request) -> Option<Id> {
        let mut candidates = self.list(request.small).from(request.stream, request.size);
        let mut id = candidates.next()?;
        // A block that can grow counts as large as it can become.
        let reach = |id: Id| {
            let block = &self.blocks[id];
            let next = block.next.map(|next| &self.blocks[next]);
            block.size + next.filter(|next| !next.mapped).map_or(0, |next| next.size)
        };
        if self.blocks[id].segment.is_some() && !self.config.expandable_segments {
            // They were switched off: blocks of before are not handed out.
            id = candidates.find(|&id| self.blocks[id].segment.is_none())?;
        }
        for next in candidates {
            if self.blocks[id].segment.is_none() || reach(next) >= reach(id) {
                break;
            }
            id = next;
        }
        let (found, limit) = (self.blocks[id].size, self.max_split());
        if request.size < limit {
            return (found < limit).then_some(id);
        }
        // An oversize block may be larger than asked for, within a limit.
        (found < request.size + self.rounding_limit).then_some(id)
    }

    /// A new segment, or more of an expandable one: `alloc_block`.
    fn alloc_block(&mut self, request: &Request) -> Option<Id> {
        // A threshold goes with a fraction of the device, which is all of the capacity here.
        let bounded = self.config.garbage_collection_threshold > 0.0;
        let room = self.capacity - self.reserved;
        if request.segment > room && (bounded || !self.config.expandable_segments) {
            return None;
        }
        if self.config.expandable_segments {
            return self.grow(request);
        }
        let at = self.place(request.segment)?;
        self.reserved += request.segment;
        self.calls.taken += 1;
        Some(self.blocks.add(blocks::Node::segment(at, request.segment, request)))
    }

    /// `should_split`.
    fn should_split(&self, id: Id, request: &Request) -> bool {
        let remaining = self.blocks[id].size - request.size;
        if request.small || self.config.expandable_segments {
            remaining >= MIN_BLOCK
        } else {
            request.size < self.max_split() && remaining > SMALL
        }
    }

    /// `alloc_found_block`.
    fn use_block(&mut self, found: Id, request: &Request, requested: u64) -> AllocatorBlock {
        self.calls.hits += 1;
        let id = if self.should_split(found, request) {
            self.calls.splits += 1;
            let id = self.blocks.split_front(found, request.size);
            self.insert_free(found);
            id
        } else {
            found
        };
        let block = &mut self.blocks[id];
        block.allocated = true;
        block.requested = requested;
        let (at, size) = (block.at, block.size);
        self.live.insert(at, id);
        self.requested += requested;
        self.allocated += size;
        self.active += size;
        AllocatorBlock { at, bytes: Bytes::new(size) }
    }

    /// `try_merge_blocks`: `id` takes in a neighbour that is free and as mapped as itself.
    fn try_merge(&mut self, id: Id, neighbour: Option<Id>) {
        let Some(other) = neighbour else { return };
        let (block, near) = (&self.blocks[id], &self.blocks[other]);
        if self.live.contains_key(&near.at) && near.mapped || block.mapped != near.mapped {
            return;
        }
        if near.mapped {
            self.remove_free(other);
        } else {
            let key = Key::unmapped(near, other);
            let small = near.small;
            self.list_mut(small).unmapped.remove(&key);
        }
        self.blocks.join(id, other);
    }

    fn insert_free(&mut self, id: Id) {
        let block = &self.blocks[id];
        if block.segment.is_none() && block.is_split() {
            self.inactive_split += block.size;
        }
        let (key, small) = (Key::free(block, id), block.small);
        let list = self.list_mut(small);
        let calls = list.calls;
        list.free.insert(key);
        self.blocks[id].born = calls;
    }

    fn remove_free(&mut self, id: Id) {
        let block = &self.blocks[id];
        if block.segment.is_none() && block.is_split() {
            self.inactive_split -= block.size;
        }
        let (key, small) = (Key::free(block, id), block.small);
        let was = self.list_mut(small).free.remove(&key);
        assert!(was, "a free block is listed");
    }

    fn list(&self, small: bool) -> &FreeList {
        if small { &self.small } else { &self.large }
    }

    fn list_mut(&mut self, small: bool) -> &mut FreeList {
        if small { &mut self.small } else { &mut self.large }
    }

    fn max_split(&self) -> u64 {
        self.config.max_split.map_or(u64::MAX, Bytes::get)
    }
}

impl Allocator for Caching {
    fn alloc(&mut self, bytes: Bytes, stream: u16) -> Result<AllocatorBlock, Full> {
        if bytes.get() <= self.capacity {
            let request = self.request(bytes.get(), stream);
            if let Some(found) = self.find_block(&request) {
                return Ok(self.use_block(found, &request, bytes.get()));
            }
        }
        Err(self.full(bytes))
    }

    fn free(&mut self, block: AllocatorBlock) {
        self.free_requested(block);
        self.free_completed(block);
    }

    fn fits(&self, bytes: Bytes, stream: u16) -> bool {
        if bytes.get() > self.capacity {
            return false;
        }
        let request = self.request(bytes.get(), stream);
        let segment = match (self.config.expandable_segments, request.small) {
            (false, _) => request.segment,
            (true, true) => SMALL_SEGMENT,
            (true, false) => round_up(request.size, self.large_segment),
        };
        // The short ways first: trying it out on a copy takes time.
        self.best_fit(&request).is_some()
            || segment <= self.capacity - self.reserved
            || self.clone().find_block(&request).is_some()
    }

    fn stats(&self) -> Stats {
        let unreserved = self.capacity - self.reserved;
        let largest = self.small.largest().max(self.large.largest()).max(unreserved);
        Stats {
            capacity: Bytes::new(self.capacity),
            requested: Bytes::new(self.requested),
            allocated: Bytes::new(self.allocated),
            active: Bytes::new(self.active),
            reserved: Bytes::new(self.reserved),
            inactive_split: Bytes::new(self.inactive_split),
            free: Bytes::new(self.capacity - self.active),
            largest_free: Bytes::new(largest),
            releases: self.releases,
        }
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn clean(&mut self) {
        self.empty_cache();
    }

    fn free_sizes(&self) -> Vec<Bytes> {
        let free = self.small.free.iter().chain(&self.large.free);
        let unreserved = self.capacity - self.reserved;
        let sizes = free.map(|key| key.size).chain((unreserved > 0).then_some(unreserved));
        sizes.map(Bytes::new).collect()
    }
}
