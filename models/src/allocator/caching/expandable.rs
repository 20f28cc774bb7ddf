//! Expandable segments: one reservation of addresses that memory is mapped into piece by piece.
//!
//! A segment reserves addresses for 9/8 of the device and maps handles of 2 MiB (small pool) or 20
//! MiB (large pool, unless set otherwise) as it grows. Its last block is always the addresses that
//! are not mapped.
//! Invariant: an unmapped block starts and ends at a multiple of the segment's handle.

use crate::allocator::caching::blocks::{Id, Key, Node};
use crate::allocator::caching::{Caching, Request, SMALL_SEGMENT};
use crate::allocator::pool::round_up;

/// One reservation: `struct ExpandableSegment`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expandable {
    pub(super) at: u64,
    pub(super) size: u64,
    /// Bytes that are mapped and unmapped as one.
    pub(super) handle: u64,
}

impl Caching {
    /// Memory for a request at the lowest addresses that can have it:
    /// `try_allocate_expandable_block`.
    pub(super) fn grow(&mut self, request: &Request) -> Option<Id> {
        let mut id = self.find_expandable(request)?;
        if !self.blocks[id].mapped && !self.map(id, self.blocks[id].size.min(request.size)) {
            return None;
        }
        while self.blocks[id].size < request.size {
            let next = self.blocks[id].next.expect("there is address space behind");
            let missing = request.size - self.blocks[id].size;
            if !self.map(next, missing.min(self.blocks[next].size)) {
                return None;
            }
            id = next;
        }
        self.remove_free(id);
        Some(id)
    }

    /// The first block of free or unmapped ones in a row with enough addresses:
    /// `find_expandable_block`.
    fn find_expandable(&mut self, request: &Request) -> Option<Id> {
        let list = self.list(request.small);
        let unmapped = list.unmapped.range(Key::least(request.stream, 0)..);
        let of_stream = unmapped.take_while(|key| key.stream == request.stream);
        for key in of_stream {
            let before = self.blocks[key.id].prev.filter(|&prev| self.is_free(prev));
            let start = before.unwrap_or(key.id);
            let (mut bytes, mut next) = (0, Some(start));
            while let Some(id) = next.filter(|&id| bytes < request.size && self.is_free(id)) {
                bytes += self.blocks[id].size;
                next = self.blocks[id].next;
            }
            if bytes >= request.size {
                return Some(start);
            }
        }
        let handle = if request.small { SMALL_SEGMENT } else { self.large_segment };
        let size = self.reservation_size(handle);
        let at = self.place(size)?;
        let number = self.expandable.iter().position(Option::is_none);
        let number = number.unwrap_or(self.expandable.len());
        self.expandable.resize(self.expandable.len().max(number + 1), None);
        self.expandable[number] = Some(Expandable { at, size, handle });
        let mut node = Node::segment(at, size, request);
        node.mapped = false;
        node.segment = Some(number as u32);
        let id = self.blocks.add(node);
        self.list_unmapped(id);
        Some(id)
    }

    /// Addresses for 9/8 of the device, a whole number of handles.
    pub(super) fn reservation_size(&self, handle: u64) -> u64 {
        let usual = self.capacity + self.capacity / 8;
        round_up(self.reservation.unwrap_or(usual), handle)
    }

    fn is_free(&self, id: Id) -> bool {
        !self.blocks[id].mapped || !self.live.contains_key(&self.blocks[id].at)
    }

    /// Maps at least `size` bytes at the front of an unmapped block; `false` if memory is out.
    fn map(&mut self, id: Id, size: u64) -> bool {
        let segment = self.segment_of(id);
        let bytes = round_up(size, segment.handle);
        if bytes > self.capacity - self.reserved {
            return false;
        }
        self.unlist_unmapped(id);
        if bytes < self.blocks[id].size {
            let rest = self.blocks.split_back(id, bytes);
            self.list_unmapped(rest);
        }
        self.blocks[id].mapped = true;
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        self.try_merge(id, prev);
        self.try_merge(id, next);
        self.insert_free(id);
        self.reserved += bytes;
        self.calls.taken += 1;
        true
    }

    /// Unmaps every handle that lies wholly in a free block: `unmap_block`.
    pub(super) fn unmap(&mut self, id: Id) {
        let segment = self.segment_of(id);
        let (start, end) = (self.blocks[id].at, self.blocks[id].at + self.blocks[id].size);
        let first = segment.at + round_up(start - segment.at, segment.handle);
        let last = segment.at + (end - segment.at) / segment.handle * segment.handle;
        if first >= last {
            return;
        }
        self.remove_free(id);
        if first > start {
            let before = self.blocks.split_front(id, first - start);
            self.insert_free(before);
        }
        if end > last {
            let after = self.blocks.split_back(id, last - first);
            self.insert_free(after);
        }
        self.blocks[id].mapped = false;
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        self.try_merge(id, prev);
        self.try_merge(id, next);
        self.list_unmapped(id);
        self.reserved -= last - first;
        self.releases += 1;
        self.calls.given += 1;
    }

    /// Gives the addresses of a segment back in which nothing is mapped:
    /// `release_expandable_segment`.
    pub(super) fn release_addresses(&mut self, id: Id) {
        let number = self.blocks[id].segment.expect("it is expandable");
        let segment = self.expandable[number as usize].take().expect("a block has its segment");
        self.unlist_unmapped(id);
        self.blocks.forget(id);
        self.addresses.give(segment.at, segment.size);
    }

    fn segment_of(&self, id: Id) -> Expandable {
        let number = self.blocks[id].segment.expect("it is expandable");
        self.expandable[number as usize].expect("a block has its segment")
    }

    pub(super) fn list_unmapped(&mut self, id: Id) {
        let (key, small) = (Key::unmapped(&self.blocks[id], id), self.blocks[id].small);
        self.list_mut(small).unmapped.insert(key);
    }

    fn unlist_unmapped(&mut self, id: Id) {
        let (key, small) = (Key::unmapped(&self.blocks[id], id), self.blocks[id].small);
        assert!(self.list_mut(small).unmapped.remove(&key), "an unmapped block is listed");
    }
}
