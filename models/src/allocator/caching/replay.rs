//! What a replay of somebody's recorded requests needs beside them: a state to begin with, the
//! addresses that the driver gave out, settings by size, and pools that keep their segments.
//!
//! Nothing here decides where a block goes. Addresses matter only between free blocks of equal
//! size, of which the lowest is taken. A private pool is modelled as streams of its own.
//! Invariant: as in the parent; a state that does not fit is refused before anything is changed.

use crate::allocator::caching::blocks::{Id, Node};
use crate::allocator::caching::expandable::Expandable;
use crate::allocator::caching::{Caching, INTERVALS, ROUND_LARGE, Request, SMALL_SEGMENT};
use crate::allocator::model::Allocator;
use crate::allocator::pool::round_up;
use crate::allocator::stats::{AllocatorBlock, Full};
use crate::units::Bytes;
use std::collections::BTreeSet;

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedBlock {
    /// Its first byte.
    pub at: u64,
    /// Its size in bytes, as rounded.
    pub bytes: u64,
    /// What was asked for, in bytes.
    pub requested: u64,
    /// Whether the program still holds it; if not, only a stream may still use it.
    pub allocated: bool,
}

/// A segment, or of an expandable one a range that is mapped in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Its first byte.
    pub at: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The stream that its blocks belong to.
    pub stream: u16,
    /// Whether it is of the small pool.
    pub small: bool,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// Blocks in use, by rising address. All between them is free.
    pub used: Vec<UsedBlock>,
}

impl SegmentState {
    fn end(&self) -> u64 {
        self.at + self.bytes
    }

    fn problem(&self) -> Option<String> {
        let mut end = self.at;
        for block in &self.used {
            if block.at < end || block.bytes == 0 {
                return Some(format!("the block at {:#x} overlaps the one before it", block.at));
            }
            end = block.at.checked_add(block.bytes)?;
        }
        (end > self.end()).then(|| format!("a block ends at {end:#x}, behind its segment"))
    }
}

impl Caching {
    /// `roundup_power2_divisions` by size, as in [`INTERVALS`]; 0 and 1 round to 512 B.
    pub fn set_divisions(&mut self, divisions: [u32; INTERVALS]) {
        self.divisions = divisions;
    }

    /// `max_non_split_rounding_mb`, in bytes: how much larger a block that is not split may be.
    pub fn set_rounding_limit(&mut self, bytes: Bytes) {
        self.rounding_limit = bytes.get();
    }

    /// `large_segment_size_mb`, in bytes; a multiple of [`ROUND_LARGE`].
    pub fn set_large_segment(&mut self, bytes: Bytes) {
        self.large_segment = round_up(bytes.get().max(1), ROUND_LARGE);
    }

    /// Switches `expandable_segments` on or off from now on, as a running program can.
    pub fn set_expandable(&mut self, expandable: bool) {
        self.config.expandable_segments = expandable;
    }

    /// Looks after so many bytes from now on, at least those that are reserved.
    pub fn set_capacity(&mut self, capacity: Bytes) {
        self.capacity = capacity.get().max(self.reserved);
    }

    /// Addresses that an expandable segment reserves, where the capacity is not the device's own.
    pub fn set_reservation(&mut self, bytes: Bytes) {
        self.reservation = Some(bytes.get());
    }

    /// Whether segments of a stream are kept when the cache is emptied, as those of a private pool
    /// in use are.
    pub fn keep(&mut self, stream: u16, kept: bool) {
        if kept {
            self.kept.insert(stream);
        } else {
            self.kept.remove(&stream);
        }
    }

    /// Gives back those of the segments that begin at `starts` in which nothing is in use.
    pub fn release_at(&mut self, starts: &BTreeSet<u64>) {
        for small in [false, true] {
            let keys = self.list(small).free.iter().filter(|key| starts.contains(&key.at));
            let whole = |&id: &Id| {
                let block = &self.blocks[id];
                block.segment.is_none() && !block.is_split()
            };
            let ids: Vec<Id> = keys.map(|key| key.id).filter(whole).collect();
            ids.into_iter().for_each(|id| self.release_segment(id));
        }
    }

    /// [`Caching::alloc_at`] from new memory, though a free block might do: one that became free
    /// only after the request had looked for it.
    pub fn alloc_new(
        &mut self,
        bytes: Bytes,
        stream: u16,
        hint: Option<u64>,
    ) -> Result<AllocatorBlock, Full> {
        let request = self.request(bytes.get(), stream);
        self.hint = hint;
        let found = self.alloc_block(&request);
        self.hint = None;
        match found {
            Some(found) => Ok(self.use_block(found, &request, bytes.get())),
            None => self.alloc_at(bytes, stream, hint),
        }
    }

    /// [`Allocator::alloc`], where a new segment lies at `hint` if that is free.
    pub fn alloc_at(
        &mut self,
        bytes: Bytes,
        stream: u16,
        hint: Option<u64>,
    ) -> Result<AllocatorBlock, Full> {
        self.hint = hint;
        let block = self.alloc(bytes, stream);
        self.hint = None;
        block
    }

    /// Addresses for a segment.
    pub(super) fn place(&mut self, bytes: u64) -> Option<u64> {
        let hinted = self.hint.take().and_then(|at| self.addresses.take_at(at, bytes));
        hinted.or_else(|| self.addresses.take_lowest(bytes))
    }

    /// The size that a request is rounded up to.
    pub fn rounded(&self, bytes: u64) -> u64 {
        self.request(bytes, 0).size
    }

    /// Every segment as (address, bytes), by rising address; of an expandable one each range that
    /// is mapped in one piece, as `torch.cuda.memory_snapshot` lists them.
    pub fn segments(&self) -> Vec<(u64, u64)> {
        let free = self.small.free.iter().chain(&self.large.free).map(|key| key.id);
        let mut pieces: Vec<(u64, u64, bool)> = free
            .chain(self.live.values().copied())
            .map(|id| {
                let node = &self.blocks[id];
                let before = node.prev.is_some_and(|prev| self.blocks[prev].mapped);
                (node.at, node.size, before)
            })
            .collect();
        pieces.sort_unstable();
        let mut segments: Vec<(u64, u64)> = Vec::new();
        for (at, size, joined) in pieces {
            match segments.last_mut() {
                Some(last) if joined => last.1 += size,
                _ => segments.push((at, size)),
            }
        }
        segments
    }

    /// Begins with these segments instead of none, or says which of them cannot be.
    pub fn restore(&mut self, segments: &[SegmentState]) -> Result<(), String> {
        let mut sorted: Vec<&SegmentState> = segments.iter().collect();
        sorted.sort_by_key(|segment| segment.at);
        for segment in &sorted {
            let ends = segment.at.checked_add(segment.bytes).is_some();
            let bad = if ends { segment.problem() } else { Some("it has no end".to_owned()) };
            if let Some(problem) = bad {
                return Err(format!("segment at {:#x}: {problem}", segment.at));
            }
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[1].at < pair[0].end()) {
            return Err(format!("segment at {:#x} overlaps the one before it", pair[1].at));
        }
        let reserved: u128 = sorted.iter().map(|segment| u128::from(segment.bytes)).sum();
        if self.reserved != 0 || reserved > u128::from(self.capacity) {
            return Err(format!("segments of {reserved} B do not fit {} B", self.capacity));
        }
        let mut done = vec![false; sorted.len()];
        for first in 0..sorted.len() {
            if done[first] {
                continue;
            }
            if sorted[first].expandable {
                self.restore_expandable(&sorted, first, &mut done);
            } else {
                let segment = sorted[first];
                self.addresses.take_at(segment.at, segment.bytes);
                self.chain(&[segment], segment.end(), None);
            }
        }
        Ok(())
    }

    /// The reservation that begins with `first` and every range of its stream and pool in it.
    fn restore_expandable(&mut self, sorted: &[&SegmentState], first: usize, done: &mut [bool]) {
        let head = sorted[first];
        let handle = if head.small { SMALL_SEGMENT } else { self.large_segment };
        let mut end = head.at + self.reservation_size(handle);
        let mut ranges = Vec::new();
        for (index, &segment) in sorted.iter().enumerate().skip(first) {
            let same =
                segment.expandable && (segment.stream, segment.small) == (head.stream, head.small);
            let aligned = (segment.at - head.at).is_multiple_of(handle);
            if segment.at >= end || !same || !aligned || segment.end() > end {
                end = end.min(segment.at);
                break;
            }
            done[index] = true;
            ranges.push(segment);
        }
        let last = ranges.last().map_or(head.end(), |range| range.end());
        end = (head.at + (end - head.at) / handle * handle).max(last);
        let size = end - head.at;
        self.addresses.take_at(head.at, size);
        let number = self.expandable.len();
        self.expandable.push(Some(Expandable { at: head.at, size, handle }));
        self.chain(&ranges, end, Some(number as u32));
    }

    /// Lists the blocks from the first range to `end` as one row of neighbours.
    fn chain(&mut self, ranges: &[&SegmentState], end: u64, number: Option<u32>) {
        let mut row = Vec::new();
        let mut at = ranges[0].at;
        for range in ranges {
            push_gap(&mut row, &mut at, range.at, false);
            for used in &range.used {
                push_gap(&mut row, &mut at, used.at, true);
                row.push((at, used.bytes, true, Some(*used)));
                at += used.bytes;
            }
            push_gap(&mut row, &mut at, range.end(), true);
            self.reserved += range.bytes;
        }
        push_gap(&mut row, &mut at, end, false);
        let (stream, small) = (ranges[0].stream, ranges[0].small);
        let like = Request { stream, size: 0, segment: 0, small };
        let mut ids = Vec::new();
        for (at, size, mapped, used) in row {
            let mut node = Node::segment(at, size, &like);
            node.mapped = mapped;
            node.segment = number;
            node.prev = ids.last().map(|&(id, _)| id);
            node.requested = used.map_or(0, |used| used.requested);
            node.allocated = used.is_some_and(|used| used.allocated);
            let prev = node.prev;
            let id = self.blocks.add(node);
            if let Some(prev) = prev {
                self.blocks[prev].next = Some(id);
            }
            ids.push((id, used));
        }
        for (id, used) in ids {
            match used {
                Some(used) => {
                    self.live.insert(used.at, id);
                    self.active += used.bytes;
                    self.requested += used.requested;
                    self.allocated += if used.allocated { used.bytes } else { 0 };
                }
                None if self.blocks[id].mapped => self.insert_free(id),
                None => self.list_unmapped(id),
            }
        }
    }
}

/// A piece of a row: address, bytes, whether it is mapped, and the block that it is.
type Piece = (u64, u64, bool, Option<UsedBlock>);

fn push_gap(row: &mut Vec<Piece>, at: &mut u64, to: u64, mapped: bool) {
    if to > *at {
        row.push((*at, to - *at, mapped, None));
        *at = to;
    }
}
