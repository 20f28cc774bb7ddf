//! S3-FIFO: three static FIFO queues (Yang et al., SOSP 2023).
//!
//! A tenth of the cache is a small queue for what is new, the rest the main queue; a ghost queue
//! remembers nine tenths of a cache of what left the small one. Two uses in the small queue, or a
//! miss that the ghost queue remembers, lead to the main one, which is a clock with counts up to 3.
//! Two rules are libCacheSim's and not the paper's: the main queue gives up an object only when it
//! is over its share (the paper: whenever the small one is under its own), and until anything has
//! left, objects that find the small queue full enter the main one. And an object must be smaller
//! than the small queue to enter that.

use super::Replacement;
use super::lists::Lists;
use crate::state::{State, remember};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// Uses in the small queue that lead to the main one.
const PROMOTED: u8 = 2;
/// Most uses that the main queue counts.
const MOST: u8 = 3;

/// S3-FIFO; 18 bytes per object.
#[derive(Debug)]
pub struct S3Fifo {
    small: u64,
    main: u64,
    ghost: u64,
    lists: Lists<3>,
    /// By id: uses since it entered its queue.
    uses: Vec<u8>,
    /// Whether the ghost queue remembered the object that is missing now.
    remembered: bool,
    has_evicted: bool,
}

impl S3Fifo {
    /// Empty, for a cache of so many bytes.
    pub fn new(capacity: u64) -> S3Fifo {
        let small = capacity / 10;
        let ghost = (u128::from(capacity) * 9 / 10) as u64;
        S3Fifo {
            small,
            main: capacity - small,
            ghost,
            lists: Lists::new(),
            uses: Vec::new(),
            remembered: false,
            has_evicted: false,
        }
    }

    fn evict_small(&mut self, keep: &impl Fn(u32) -> bool) -> Option<u32> {
        let mut hand = self.lists.oldest(SMALL);
        while let Some(id) = hand {
            hand = self.lists.newer(id);
            if keep(id) {
                continue;
            }
            if self.uses[id as usize] < PROMOTED {
                self.lists.remove(id);
                self.remember(id);
                return Some(id);
            }
            self.lists.shift(id, MAIN);
            self.uses[id as usize] = 0;
        }
        None
    }

    fn evict_main(&mut self, keep: &impl Fn(u32) -> bool) -> Option<u32> {
        let mut hand = self.lists.oldest(MAIN);
        while let Some(id) = hand {
            if keep(id) {
                hand = self.lists.newer(id);
                continue;
            }
            let uses = self.uses[id as usize];
            if uses == 0 {
                self.lists.remove(id);
                return Some(id);
            }
            self.uses[id as usize] = uses - 1;
            // Asked before the move if there is one, after it if it was the newest.
            let next = self.lists.newer(id);
            self.lists.shift(id, MAIN);
            hand = next.or(Some(id));
        }
        None
    }

    fn remember(&mut self, id: u32) {
        let bytes = self.lists.bytes(id);
        if bytes > self.ghost {
            return;
        }
        while self.lists.total(GHOST) > self.ghost - bytes {
            let oldest = self.lists.oldest(GHOST).expect("bytes belong to somebody");
            self.lists.remove(oldest);
        }
        self.lists.push(GHOST, id, bytes);
    }
}

impl Replacement for S3Fifo {
    fn grow(&mut self, ids: usize) {
        self.lists.grow(ids);
        self.uses.resize(ids, 0);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        matches!(self.lists.list_of(id), Some(SMALL | MAIN))
    }

    /// What the ghost queue remembers enters the main queue, whatever its size.
    fn admits(&self, bytes: u64) -> bool {
        bytes < self.small || (self.remembered && bytes <= self.small)
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        let uses = &mut self.uses[id as usize];
        *uses = MOST.min(*uses + 1);
    }

    fn miss(&mut self, id: u32, _: u64) {
        self.remembered = self.lists.list_of(id).is_some();
        self.lists.remove(id);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        self.has_evicted = true;
        if self.lists.total(MAIN) <= self.main
            && let Some(id) = self.evict_small(&keep)
        {
            return Some(id);
        }
        // The small queue may have sent all that it had to the main one, and the other way round.
        let main = self.evict_main(&keep).or_else(|| self.evict_small(&keep));
        main.or_else(|| self.evict_main(&keep))
    }

    fn insert(&mut self, id: u32, bytes: u64) {
        let remembered = std::mem::take(&mut self.remembered);
        let full = !self.has_evicted && self.lists.total(SMALL) >= self.small;
        // Only demand paging brings what is larger than the small queue.
        let list = if remembered || full || bytes >= self.small { MAIN } else { SMALL };
        self.uses[id as usize] = 0;
        self.lists.remove(id);
        self.lists.push(list, id, bytes);
    }

    fn remove(&mut self, id: u32) {
        self.lists.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as S3Fifo { lists, uses, remembered, has_evicted }
            skip { small, main, ghost });
        true
    }
}
