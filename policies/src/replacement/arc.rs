//! ARC: adaptive replacement (Megiddo and Modha, FAST 2003).
//!
//! T1 holds what was used once of late, T2 what was used more often; B1 and B2 remember what has
//! left them. A miss that B1 remembers makes the target of T1 larger, one that B2 remembers
//! smaller. The target and its steps are fractions, as the paper's pseudocode leaves open; lists
//! are measured in bytes, which on unit sizes is the paper.

use super::Replacement;
use super::lists::Lists;
use crate::state::{State, remember};

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// Adaptive replacement; 17 bytes per object.
#[derive(Debug)]
pub struct Arc {
    capacity: u64,
    lists: Lists<4>,
    /// Bytes that T1 should have.
    target: f64,
    /// The ghost list that remembered the object that is missing now.
    remembered: Option<usize>,
    /// Its bytes.
    incoming: u64,
}

impl Arc {
    /// Empty, for a cache of so many bytes.
    pub fn new(capacity: u64) -> Arc {
        Arc { capacity, lists: Lists::new(), target: 0.0, remembered: None, incoming: 0 }
    }

    /// Forgets the oldest of a ghost list.
    fn forget(&mut self, list: usize) {
        if let Some(id) = self.lists.oldest(list) {
            self.lists.remove(id);
        }
    }

    /// The paper's REPLACE: out of T1 or T2, remembered in B1 or B2. Where all of one has to be
    /// kept, out of the other.
    fn replace(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let recent = self.lists.total(T1) as f64;
        let over = recent > self.target || (recent == self.target && self.remembered == Some(B2));
        let first_t1 = (!self.lists.is_empty(T1) && over) || self.lists.is_empty(T2);
        let order = if first_t1 { [(T1, B1), (T2, B2)] } else { [(T2, B2), (T1, B1)] };
        for (list, ghosts) in order {
            if let Some(id) = self.lists.oldest_where(list, |id| !keep(id)) {
                self.lists.shift(id, ghosts);
                return Some(id);
            }
        }
        None
    }
}

impl Replacement for Arc {
    fn grow(&mut self, ids: usize) {
        self.lists.grow(ids);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        matches!(self.lists.list_of(id), Some(T1 | T2))
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        self.lists.shift(id, T2);
    }

    fn miss(&mut self, id: u32, bytes: u64) {
        self.incoming = bytes;
        self.remembered = self.lists.list_of(id);
        let (b1, b2) = (self.lists.total(B1) as f64, self.lists.total(B2) as f64);
        match self.remembered {
            Some(B1) => self.target = (self.target + (b2 / b1).max(1.0)).min(self.capacity as f64),
            Some(B2) => self.target = (self.target - (b1 / b2).max(1.0)).max(0.0),
            _ => {}
        }
        self.lists.remove(id);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if self.remembered.is_some() {
            return self.replace(keep);
        }
        let once = self.lists.total(T1).saturating_add(self.lists.total(B1));
        let often = self.lists.total(T2).saturating_add(self.lists.total(B2));
        if once.saturating_add(self.incoming) > self.capacity {
            if self.lists.is_empty(B1) {
                // All is T1: what leaves is not remembered.
                if let Some(id) = self.lists.oldest_where(T1, |id| !keep(id)) {
                    self.lists.remove(id);
                    return Some(id);
                }
                return self.replace(keep);
            }
            self.forget(B1);
        } else if once.saturating_add(often) >= self.capacity.saturating_mul(2) {
            self.forget(B2);
        }
        self.replace(keep)
    }

    fn insert(&mut self, id: u32, bytes: u64) {
        let list = if self.remembered.take().is_some() { T2 } else { T1 };
        self.lists.remove(id);
        self.lists.push(list, id, bytes);
    }

    fn remove(&mut self, id: u32) {
        self.lists.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Arc { lists, target, remembered, incoming } skip { capacity });
        true
    }
}
