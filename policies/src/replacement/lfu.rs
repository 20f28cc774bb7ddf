//! LFU: the object that was used least often since it entered leaves first.
//!
//! Counts begin at one with every entry: an object that has left is forgotten ("in-cache LFU"). Of
//! equal counts the one used longest ago leaves first. Objects of one count are a list, so a use
//! takes the logarithm of the number of counts that occur.

use super::Replacement;
use std::collections::BTreeMap;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// Least frequently used; 16 bytes per object.
#[derive(Debug, Default)]
pub struct Lfu {
    /// By id.
    nodes: Vec<Node>,
    /// By uses: the oldest and the newest object of so many.
    ends: BTreeMap<u64, [u32; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    /// 0 if it is not in the cache.
    uses: u64,
}

impl Lfu {
    /// Puts an id at the newest end of those that were used as often.
    fn append(&mut self, id: u32, uses: u64) {
        let [_, newest] = self.ends.entry(uses).or_insert([id, NONE]);
        let older = std::mem::replace(newest, id);
        self.nodes[id as usize] = Node { older, newer: NONE, uses };
        if older != NONE {
            self.nodes[older as usize].newer = id;
        }
    }

    /// Takes an id out of its list; how often it was used.
    fn unlink(&mut self, id: u32) -> u64 {
        let Node { older, newer, uses } = self.nodes[id as usize];
        let [oldest, newest] = self.ends.get_mut(&uses).expect("it is held");
        match older {
            NONE => *oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => *newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        if *oldest == NONE {
            self.ends.remove(&uses);
        }
        self.nodes[id as usize].uses = 0;
        uses
    }
}

impl Replacement for Lfu {
    fn grow(&mut self, ids: usize) {
        self.nodes.resize(ids, Node { older: NONE, newer: NONE, uses: 0 });
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.nodes[id as usize].uses > 0
    }

    fn hit(&mut self, id: u32) {
        let uses = self.unlink(id);
        self.append(id, uses + 1);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let newer = |id: &u32| Some(self.nodes[*id as usize].newer).filter(|&newer| newer != NONE);
        let mut lists = self.ends.values();
        let first = |&[oldest, _]: &[u32; 2]| {
            std::iter::successors(Some(oldest), newer).find(|&id| !keep(id))
        };
        let gone = lists.find_map(first)?;
        self.unlink(gone);
        Some(gone)
    }

    fn insert(&mut self, id: u32, _: u64) {
        self.append(id, 1);
    }

    fn remove(&mut self, id: u32) {
        if self.holds(id) {
            self.unlink(id);
        }
    }
}
