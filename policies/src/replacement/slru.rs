//! SLRU: LRU in segments (Karedla, Love and Wherry, 1994), here four of equal size.
//!
//! An object enters the lowest segment with room. A use moves it to the next higher one; what that
//! pushes out of a segment goes to the newest end of the one below, and out of the lowest it
//! leaves. Objects leave from the lowest segment that has any. The rule for entering is
//! libCacheSim's: the paper's objects enter the lowest segment always.

use super::Replacement;
use super::lists::Lists;
use crate::state::{State, remember};

const SEGMENTS: usize = 4;

/// Segmented LRU; 17 bytes per object.
#[derive(Debug)]
pub struct Slru {
    /// Bytes of one segment.
    share: u64,
    lists: Lists<SEGMENTS>,
    /// Whether something went down into the lowest segment, which then gives up what it has too
    /// much.
    cooled: bool,
}

impl Slru {
    /// Empty, for a cache of so many bytes.
    pub fn new(capacity: u64) -> Slru {
        Slru { share: capacity / SEGMENTS as u64, lists: Lists::new(), cooled: false }
    }

    /// What a segment has too much goes down, segment by segment; the lowest is left too full.
    fn cool(&mut self, highest: usize) {
        for segment in (1..=highest).rev() {
            while self.lists.total(segment) > self.share {
                let oldest = self.lists.oldest(segment).expect("bytes belong to somebody");
                self.lists.shift(oldest, segment - 1);
                self.cooled |= segment == 1;
            }
        }
    }
}

impl Replacement for Slru {
    fn grow(&mut self, ids: usize) {
        self.lists.grow(ids);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.lists.list_of(id).is_some()
    }

    fn admits(&self, bytes: u64) -> bool {
        bytes <= self.share
    }

    fn hit(&mut self, id: u32) {
        let segment = self.lists.list_of(id).expect("a hit is held");
        let higher = (segment + 1).min(SEGMENTS - 1);
        self.lists.shift(id, higher);
        if higher > segment {
            self.cool(higher);
        }
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let mut segments = 0..SEGMENTS;
        let gone = segments.find_map(|s| self.lists.oldest_where(s, |id| !keep(id)))?;
        self.lists.remove(gone);
        Some(gone)
    }

    fn insert(&mut self, id: u32, bytes: u64) {
        let roomy =
            |&segment: &usize| bytes <= self.share.saturating_sub(self.lists.total(segment));
        let segment = (0..SEGMENTS).find(roomy).unwrap_or(0);
        self.lists.push(segment, id, bytes);
    }

    /// The lowest segment may be over its share after an entry, if segments do not divide the
    /// cache; not after something has gone down into it.
    fn shed(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        self.cooled &= self.lists.total(0) > self.share;
        if !self.cooled {
            return None;
        }
        let gone = self.lists.oldest_where(0, |id| !keep(id))?;
        self.lists.remove(gone);
        Some(gone)
    }

    fn remove(&mut self, id: u32) {
        self.lists.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Slru { lists, cooled } skip { share });
        true
    }
}
