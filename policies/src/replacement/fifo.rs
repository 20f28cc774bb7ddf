//! FIFO: the object that entered first leaves first, used or not.
//!
//! Not a stack algorithm: more capacity can miss more (Belady, Nelson and Shedler, 1969).

use super::Replacement;
use super::links::Links;
use crate::state::{State, remember};

/// First in, first out; 8 bytes per object.
#[derive(Debug, Default)]
pub struct Fifo {
    order: Links<1>,
}

impl Replacement for Fifo {
    fn grow(&mut self, ids: usize) {
        self.order.grow(ids);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.order.contains(id)
    }

    #[inline]
    fn hit(&mut self, _: u32) {}

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
        remember!(out, self as Fifo { order });
        true
    }
}
