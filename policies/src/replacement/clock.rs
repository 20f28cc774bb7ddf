//! CLOCK: FIFO with a second chance (Corbató, 1968).
//!
//! A use sets one bit. Whoever would leave with the bit set goes to the newest end without it
//! instead. An object enters without the bit.

use super::Replacement;
use super::links::Links;
use crate::state::{State, remember};

/// Second chance with one bit; 9 bytes per object.
#[derive(Debug, Default)]
pub struct Clock {
    order: Links<1>,
    used: Vec<bool>,
}

impl Replacement for Clock {
    fn grow(&mut self, ids: usize) {
        self.order.grow(ids);
        self.used.resize(ids, false);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.order.contains(id)
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        self.used[id as usize] = true;
    }

    /// What is kept stays where it is, with its bit. Who has had the second chance is met again at
    /// the newest end, so one walk is enough.
    #[inline]
    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let mut hand = self.order.oldest(0);
        while let Some(id) = hand {
            if keep(id) {
                hand = self.order.newer(id);
                continue;
            }
            if !std::mem::take(&mut self.used[id as usize]) {
                self.order.remove(id);
                return Some(id);
            }
            // Asked before the move if there is one, after it if it was the newest.
            let next = self.order.newer(id);
            self.order.remove(id);
            self.order.push(0, id);
            hand = next.or(Some(id));
        }
        None
    }

    #[inline]
    fn insert(&mut self, id: u32, _: u64) {
        self.order.push(0, id);
        self.used[id as usize] = false;
    }

    fn remove(&mut self, id: u32) {
        self.order.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Clock { order, used });
        true
    }
}
