//! LRU: the object that was used longest ago leaves first.
//!
//! A stack algorithm (Mattson et al., 1970): a larger cache holds all that a smaller one holds, so
//! more capacity never misses more. With sizes that differ this is so from the largest object on; a
//! cache that is too small for an object refuses it, and so keeps what a larger one must give up.

use super::Replacement;
use super::links::Links;
use crate::state::{State, remember};

/// Least recently used; 8 bytes per object.
#[derive(Debug, Default)]
pub struct Lru {
    order: Links<1>,
}

impl Replacement for Lru {
    fn grow(&mut self, ids: usize) {
        self.order.grow(ids);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.order.contains(id)
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        self.order.remove(id);
        self.order.push(0, id);
    }

    #[inline]
    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let gone = self.order.oldest_where(0, |id| !keep(id))?;
        self.order.remove(gone);
        Some(gone)
    }

    #[inline]
    fn insert(&mut self, id: u32, _: u64) {
        self.order.push(0, id);
    }

    fn remove(&mut self, id: u32) {
        self.order.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Lru { order });
        true
    }
}
