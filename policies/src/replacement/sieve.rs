//! SIEVE: lazy promotion, quick demotion (Zhang et al., NSDI 2024).
//!
//! A use sets one bit and moves nothing. A hand goes from the oldest to the newest and round again,
//! clears bits and takes the first object without one; survivors stay where they are.

use super::Replacement;
use super::links::Links;
use crate::state::{State, remember};

/// SIEVE; 9 bytes per object.
#[derive(Debug, Default)]
pub struct Sieve {
    order: Links<1>,
    used: Vec<bool>,
    /// Where the search goes on; at the oldest if there is none.
    hand: Option<u32>,
}

impl Replacement for Sieve {
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

    #[inline]
    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        // The rest of the round, a round that clears bits, and one that finds what it cleared.
        let mut rounds = 0;
        loop {
            let id = self.hand.or_else(|| self.order.oldest(0))?;
            self.hand = Some(id);
            if !keep(id) && !std::mem::take(&mut self.used[id as usize]) {
                self.remove(id);
                return Some(id);
            }
            self.hand = self.order.newer(id);
            if self.hand.is_none() {
                rounds += 1;
                if rounds == 3 {
                    return None;
                }
            }
        }
    }

    #[inline]
    fn insert(&mut self, id: u32, _: u64) {
        self.order.push(0, id);
        self.used[id as usize] = false;
    }

    fn remove(&mut self, id: u32) {
        if self.hand == Some(id) {
            self.hand = self.order.newer(id);
        }
        self.order.remove(id);
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Sieve { order, used, hand });
        true
    }
}
