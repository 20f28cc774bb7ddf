//! Doubly linked lists over dense ids, in one array: every operation is O(1), 8 bytes per id.
//!
//! A list is a ring that closes in an anchor. Anchors come first in the array, so that ids can
//! become more at any time. Invariant: an id is in at most one list.

use crate::state::{Remembered, State};

/// Neighbours of an id, or of an anchor (whose newer neighbour is the oldest of its list).
#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// In no list.
const OUT: u32 = u32::MAX;

/// So many lists, named by number.
#[derive(Debug)]
pub(super) struct Links<const LISTS: usize> {
    links: Vec<Link>,
}

impl<const LISTS: usize> Default for Links<LISTS> {
    fn default() -> Self {
        let anchor = |list| Link { older: list as u32, newer: list as u32 };
        Links { links: (0..LISTS).map(anchor).collect() }
    }
}

impl<const LISTS: usize> Links<LISTS> {
    pub(super) fn grow(&mut self, ids: usize) {
        assert!(ids < OUT as usize - LISTS, "ids are numbered in u32");
        self.links.resize(ids + LISTS, Link { older: OUT, newer: OUT });
    }

    #[inline]
    pub(super) fn contains(&self, id: u32) -> bool {
        self.links[id as usize + LISTS].older != OUT
    }

    /// The oldest of a list.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        self.id(self.links[list].newer)
    }

    /// The one after it in its list, towards the newest.
    #[inline]
    pub(super) fn newer(&self, id: u32) -> Option<u32> {
        self.id(self.links[id as usize + LISTS].newer)
    }

    /// Puts an id that is in no list at the newest end of one.
    #[inline]
    pub(super) fn push(&mut self, list: usize, id: u32) {
        let (slot, newest) = (id + LISTS as u32, self.links[list].older);
        self.links[slot as usize] = Link { older: newest, newer: list as u32 };
        self.links[newest as usize].newer = slot;
        self.links[list].older = slot;
    }

    /// Takes an id out of its list, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let slot = id as usize + LISTS;
        let Link { older, newer } = self.links[slot];
        if older == OUT {
            return;
        }
        self.links[older as usize].newer = newer;
        self.links[newer as usize].older = older;
        self.links[slot] = Link { older: OUT, newer: OUT };
    }

    /// The oldest of a list for which this holds.
    #[inline]
    pub(super) fn oldest_where(&self, list: usize, open: impl Fn(u32) -> bool) -> Option<u32> {
        let mut found = self.oldest(list);
        while let Some(id) = found.filter(|&id| !open(id)) {
            found = self.newer(id);
        }
        found
    }

    #[inline]
    fn id(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(LISTS as u32)
    }
}

impl<const LISTS: usize> Remembered for Links<LISTS> {
    /// Who is in which list, in order.
    fn state(&self, out: &mut State) {
        for list in 0..LISTS {
            let members = std::iter::successors(self.oldest(list), |&id| self.newer(id));
            out.list(members, |out, id| out.word(id.into()));
        }
    }
}
