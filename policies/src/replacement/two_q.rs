//! 2Q: a FIFO queue for what is new before an LRU queue (Johnson and Shasha, VLDB 1994; full
//! version).
//!
//! A quarter of the cache is A1in; A1out remembers half a cache of what left it. A use in A1in
//! changes nothing; a miss that A1out remembers enters Am, the LRU queue. A1in gives up objects
//! while it is over its share, otherwise Am does.

use super::Replacement;
use super::lists::Lists;
use crate::state::{State, remember};

const IN: usize = 0;
const MANY: usize = 1;
const OUT: usize = 2;

/// 2Q; 17 bytes per object.
#[derive(Debug)]
pub struct TwoQ {
    inn: u64,
    many: u64,
    out: u64,
    lists: Lists<3>,
    /// Whether A1out remembered the object that is missing now.
    remembered: bool,
}

impl TwoQ {
    /// Empty, for a cache of so many bytes.
    pub fn new(capacity: u64) -> TwoQ {
        let (inn, out) = (capacity / 4, capacity / 2);
        TwoQ { inn, many: capacity - inn, out, lists: Lists::new(), remembered: false }
    }

    fn evict_in(&mut self, keep: &impl Fn(u32) -> bool) -> Option<u32> {
        let gone = self.lists.oldest_where(IN, |id| !keep(id))?;
        let bytes = self.lists.bytes(gone);
        self.lists.remove(gone);
        if bytes <= self.out {
            while self.lists.total(OUT) > self.out - bytes {
                let oldest = self.lists.oldest(OUT).expect("bytes belong to somebody");
                self.lists.remove(oldest);
            }
            self.lists.push(OUT, gone, bytes);
        }
        Some(gone)
    }

    fn evict_many(&mut self, keep: &impl Fn(u32) -> bool) -> Option<u32> {
        let gone = self.lists.oldest_where(MANY, |id| !keep(id))?;
        self.lists.remove(gone);
        Some(gone)
    }
}

impl Replacement for TwoQ {
    fn grow(&mut self, ids: usize) {
        self.lists.grow(ids);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        matches!(self.lists.list_of(id), Some(IN | MANY))
    }

    fn admits(&self, bytes: u64) -> bool {
        bytes <= self.inn
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        if self.lists.list_of(id) == Some(MANY) {
            self.lists.shift(id, MANY);
        }
    }

    fn miss(&mut self, id: u32, _: u64) {
        self.remembered = self.lists.list_of(id).is_some();
        self.lists.remove(id);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if self.lists.total(IN) > self.inn {
            self.evict_in(&keep).or_else(|| self.evict_many(&keep))
        } else {
            self.evict_many(&keep).or_else(|| self.evict_in(&keep))
        }
    }

    fn insert(&mut self, id: u32, bytes: u64) {
        let list = if std::mem::take(&mut self.remembered) { MANY } else { IN };
        self.lists.remove(id);
        self.lists.push(list, id, bytes);
    }

    /// Am has a share of its own, which only objects of different sizes can exceed.
    fn shed(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if self.lists.total(MANY) <= self.many { None } else { self.evict_many(&keep) }
    }

    fn remove(&mut self, id: u32) {
        self.lists.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as TwoQ { lists, remembered } skip { inn, many, out });
        true
    }
}
