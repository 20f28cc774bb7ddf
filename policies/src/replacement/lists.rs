//! Lists that know their bytes and who is in which: what algorithms with parts are built of.

use super::links::Links;
use crate::state::{Remembered, State, remember};

/// In no list.
const NOWHERE: u8 = u8::MAX;

/// So many lists, named by number; 17 bytes per id.
#[derive(Debug)]
pub(super) struct Lists<const LISTS: usize> {
    links: Links<LISTS>,
    /// By id.
    list: Vec<u8>,
    /// By id, as of the last time that it entered.
    bytes: Vec<u64>,
    /// By list.
    total: [u64; LISTS],
}

impl<const LISTS: usize> Lists<LISTS> {
    pub(super) fn new() -> Self {
        let (list, bytes) = (Vec::new(), Vec::new());
        Lists { links: Links::default(), list, bytes, total: [0; LISTS] }
    }

    pub(super) fn grow(&mut self, ids: usize) {
        self.links.grow(ids);
        self.list.resize(ids, NOWHERE);
        self.bytes.resize(ids, 0);
    }

    /// The list that it is in.
    #[inline]
    pub(super) fn list_of(&self, id: u32) -> Option<usize> {
        let list = self.list[id as usize];
        (list != NOWHERE).then_some(usize::from(list))
    }

    /// Bytes of all that is in a list.
    #[inline]
    pub(super) fn total(&self, list: usize) -> u64 {
        self.total[list]
    }

    /// Bytes of one id.
    #[inline]
    pub(super) fn bytes(&self, id: u32) -> u64 {
        self.bytes[id as usize]
    }

    /// Whether nothing is in a list.
    #[inline]
    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.links.oldest(list).is_none()
    }

    /// The oldest of a list.
    #[inline]
    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        self.links.oldest(list)
    }

    /// The one after it in its list, towards the newest.
    #[inline]
    pub(super) fn newer(&self, id: u32) -> Option<u32> {
        self.links.newer(id)
    }

    /// The oldest of a list for which this holds.
    #[inline]
    pub(super) fn oldest_where(&self, list: usize, open: impl Fn(u32) -> bool) -> Option<u32> {
        self.links.oldest_where(list, open)
    }

    /// Puts an id that is in no list at the newest end of one.
    #[inline]
    pub(super) fn push(&mut self, list: usize, id: u32, bytes: u64) {
        self.links.push(list, id);
        self.list[id as usize] = list as u8;
        self.bytes[id as usize] = bytes;
        self.total[list] += bytes;
    }

    /// Takes an id out of its list, if it is in one.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(list) = self.list_of(id) {
            self.links.remove(id);
            self.list[id as usize] = NOWHERE;
            self.total[list] -= self.bytes[id as usize];
        }
    }

    /// Puts an id at the newest end of a list, wherever it is now.
    #[inline]
    pub(super) fn shift(&mut self, id: u32, list: usize) {
        self.remove(id);
        self.push(list, id, self.bytes[id as usize]);
    }
}

impl<const LISTS: usize> Remembered for Lists<LISTS> {
    /// Who is in which list, in order. An object always has the same bytes.
    fn state(&self, out: &mut State) {
        remember!(out, self as Lists { links } skip { list, bytes, total });
    }
}
