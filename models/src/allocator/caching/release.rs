//! How the caching allocator gives memory back to the device.
//!
//! Never on a free: only when a new segment does not fit, when the garbage collector is due, or
//! when asked to empty the cache. Invariant: only segments in which nothing is in use are given
//! back.

use crate::allocator::caching::blocks::{Id, Key};
use crate::allocator::caching::{Caching, Request};

impl Caching {
    /// Oversize blocks of the stream, enough for the request: `release_available_cached_blocks`.
    /// Only with `max_split`; `false` if that is not enough.
    pub(super) fn release_available(&mut self, request: &Request) -> bool {
        // Parts of an expandable segment cannot be released as a segment.
        if self.config.max_split.is_none() || self.config.expandable_segments {
            return false;
        }
        let limit = self.max_split();
        let target = request.size.max(limit);
        let large_enough = self.list(request.small).from(request.stream, target).next();
        if let Some(id) = large_enough {
            self.release_segment(id);
            return true;
        }
        // No one block is large enough: several, the largest first.
        let list = self.list(request.small);
        let below = list.free.range(..Key::least(request.stream, target)).rev();
        let oversize = below.take_while(|key| key.stream == request.stream && key.size >= limit);
        let mut released = 0;
        let mut chosen: Vec<Id> = Vec::new();
        for key in oversize {
            if released >= target {
                break;
            }
            released += key.size;
            chosen.push(key.id);
        }
        chosen.into_iter().for_each(|id| self.release_segment(id));
        released >= target
    }

    /// Every segment in which nothing is in use: `release_cached_blocks`.
    pub(super) fn release_cached_blocks(&mut self) {
        for small in [false, true] {
            let keys = self.list(small).free.iter();
            let free: Vec<Id> =
                keys.filter(|key| !self.kept.contains(&key.stream)).map(|key| key.id).collect();
            let (expandable, whole): (Vec<Id>, Vec<Id>) =
                free.into_iter().partition(|&id| self.blocks[id].segment.is_some());
            for id in whole {
                if !self.blocks[id].is_split() {
                    self.release_segment(id);
                }
            }
            for id in expandable {
                self.unmap(id);
                if !self.blocks[id].mapped && !self.blocks[id].is_split() {
                    self.release_addresses(id);
                }
            }
        }
    }

    /// Segments of the large pool that were not used for long: `garbage_collect_cached_blocks`.
    pub(super) fn garbage_collect(&mut self) {
        let threshold = self.config.garbage_collection_threshold * self.capacity as f64;
        let threshold = threshold as u64;
        if self.reserved <= threshold {
            return;
        }
        let target = self.reserved - threshold;
        let calls = self.large.calls;
        // Of the pools that all share: private ones are not collected.
        let whole =
            |key: &&Key| !self.blocks[key.id].is_split() && !self.kept.contains(&key.stream);
        let age = |id: Id| calls - self.blocks[id].born;
        let mut free: Vec<(Id, u64, u64)> = self
            .large
            .free
            .iter()
            .filter(whole)
            .map(|key| (key.id, age(key.id), key.size))
            .collect();
        let mut reclaimed = 0;
        while reclaimed < target && !free.is_empty() {
            // Those of at least the mean age go, even beyond the target, so that this is rare.
            let mut total: u64 = free.iter().map(|&(_, age, _)| age).sum();
            let mean = total as f64 / free.len() as f64;
            let before = free.len();
            free.retain(|&(id, age, size)| {
                let old = age as f64 >= mean;
                if old {
                    reclaimed += size;
                    total -= age;
                    self.release_segment(id);
                }
                !old
            });
            if free.len() == before {
                break;
            }
        }
    }

    /// `cudaFree` of a block that is a whole segment: `release_block`.
    pub(super) fn release_segment(&mut self, id: Id) {
        assert!(!self.blocks[id].is_split(), "a segment is released whole");
        self.remove_free(id);
        let (at, size) = (self.blocks[id].at, self.blocks[id].size);
        self.addresses.give(at, size);
        self.blocks.forget(id);
        self.reserved -= size;
        self.releases += 1;
        self.calls.given += 1;
    }
}
