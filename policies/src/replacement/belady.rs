//! Belady's MIN: the object that is wanted again last leaves first (Belady, 1966).
//!
//! On unit sizes nothing misses less, of all that caches every request. It sees the future: a
//! bound. With sizes that differ it is a good rule and no more: the best choice is NP-hard there.

use super::Replacement;
use crate::state::State;
use std::collections::BinaryHeap;

/// Not wanted again.
pub const NEVER: u64 = u64::MAX;

/// Farthest next use; about 41 bytes per object.
///
/// Of several that are not wanted again the one with the highest number leaves first.
#[derive(Debug)]
pub struct Belady {
    /// When the object of the coming request is wanted again.
    coming: u64,
    /// By id: the same, as of its last request.
    next: Vec<u64>,
    held: Vec<bool>,
    /// Entries whose object has left or has been used since are dead.
    heap: BinaryHeap<(u64, u32)>,
    alive: usize,
    /// Live entries that had to be kept.
    aside: Vec<(u64, u32)>,
}

impl Default for Belady {
    fn default() -> Belady {
        let (next, held, aside) = (Vec::new(), Vec::new(), Vec::new());
        Belady { coming: NEVER, next, held, heap: BinaryHeap::new(), alive: 0, aside }
    }
}

impl Belady {
    fn push(&mut self, id: u32) {
        let next = std::mem::replace(&mut self.coming, NEVER);
        self.next[id as usize] = next;
        self.heap.push((next, id));
        // Dead entries are about as many as live ones at most, so memory stays bounded.
        if self.heap.len() > 2 * self.alive + 64 {
            let mut entries = std::mem::take(&mut self.heap).into_vec();
            entries.retain(|&entry| self.is_live(entry));
            entries.sort_unstable();
            entries.dedup();
            self.heap = entries.into();
        }
    }

    fn is_live(&self, (at, id): (u64, u32)) -> bool {
        self.held[id as usize] && self.next[id as usize] == at
    }

    fn leave(&mut self, id: u32) {
        self.held[id as usize] = false;
        self.alive -= 1;
    }
}

impl Replacement for Belady {
    const ORACLE: bool = true;

    fn grow(&mut self, ids: usize) {
        self.next.resize(ids, NEVER);
        self.held.resize(ids, false);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.held[id as usize]
    }

    #[inline]
    fn foresee(&mut self, next: u64) {
        self.coming = next;
    }

    #[inline]
    fn hit(&mut self, id: u32) {
        self.push(id);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let mut gone = None;
        while let Some(entry) = self.heap.pop() {
            if !self.is_live(entry) {
                continue;
            }
            if keep(entry.1) {
                self.aside.push(entry);
                continue;
            }
            gone = Some(entry.1);
            self.leave(entry.1);
            break;
        }
        self.heap.extend(self.aside.drain(..));
        gone
    }

    fn insert(&mut self, id: u32, _: u64) {
        self.held[id as usize] = true;
        self.alive += 1;
        self.push(id);
    }

    fn remove(&mut self, id: u32) {
        if self.held[id as usize] {
            self.leave(id);
        }
    }

    fn state(&self, out: &mut State) -> bool {
        let Belady { coming: _, next, held, heap: _, alive: _, aside: _ } = self;
        // The heap follows from these, but for entries that are dead.
        let wanted = (0u32..).zip(next).zip(held).filter(|(_, held)| **held);
        out.list(wanted, |out, ((id, &next), _)| {
            out.word(id.into());
            out.flag(next == NEVER);
            out.coming_op(if next == NEVER { 0 } else { next });
        });
        true
    }
}
