//! LFU: the object that was used least often since it entered leaves first.
//!
//! Counts begin at one with every entry: an object that has left is forgotten ("in-cache LFU"). Of
//! equal counts the one used longest ago leaves first. O(1): objects of one count are a list, the
//! counts that occur are a list too.

use super::Replacement;

/// Not in the cache, or no neighbour.
const NONE: u32 = u32::MAX;

/// Least frequently used; 12 bytes per object, 32 per count that occurs.
#[derive(Debug)]
pub struct Lfu {
    /// By id.
    nodes: Vec<Node>,
    /// Counts that occur, and unused entries.
    counts: Vec<Count>,
    unused: Vec<u32>,
    /// The least count that occurs.
    least: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    uses: u64,
    oldest: u32,
    newest: u32,
    fewer: u32,
    more: u32,
}

impl Default for Lfu {
    fn default() -> Lfu {
        Lfu { nodes: Vec::new(), counts: Vec::new(), unused: Vec::new(), least: NONE }
    }
}

impl Lfu {
    /// The entry for a number of uses, right above the entry `below` (`NONE`: the least).
    fn count_above(&mut self, below: u32, uses: u64) -> u32 {
        let more = if below == NONE { self.least } else { self.counts[below as usize].more };
        if more != NONE && self.counts[more as usize].uses == uses {
            return more;
        }
        let fresh = Count { uses, oldest: NONE, newest: NONE, fewer: below, more };
        let at = match self.unused.pop() {
            Some(at) => {
                self.counts[at as usize] = fresh;
                at
            }
            None => {
                self.counts.push(fresh);
                (self.counts.len() - 1) as u32
            }
        };
        self.neighbours(below, at);
        self.neighbours(at, more);
        at
    }

    fn neighbours(&mut self, fewer: u32, more: u32) {
        match fewer {
            NONE => self.least = more,
            fewer => self.counts[fewer as usize].more = more,
        }
        if more != NONE {
            self.counts[more as usize].fewer = fewer;
        }
    }

    fn append(&mut self, id: u32, count: u32) {
        let newest = std::mem::replace(&mut self.counts[count as usize].newest, id);
        self.nodes[id as usize] = Node { older: newest, newer: NONE, count };
        match newest {
            NONE => self.counts[count as usize].oldest = id,
            newest => self.nodes[newest as usize].newer = id,
        }
    }

    /// Takes an id out of its list; the count stays even if nothing has it any more.
    fn unlink(&mut self, id: u32) -> u32 {
        let Node { older, newer, count } = self.nodes[id as usize];
        match older {
            NONE => self.counts[count as usize].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.counts[count as usize].newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        self.nodes[id as usize].count = NONE;
        count
    }

    fn tidy(&mut self, count: u32) {
        let Count { oldest, fewer, more, .. } = self.counts[count as usize];
        if oldest == NONE {
            self.neighbours(fewer, more);
            self.unused.push(count);
        }
    }
}

impl Replacement for Lfu {
    fn grow(&mut self, ids: usize) {
        self.nodes.resize(ids, Node { older: NONE, newer: NONE, count: NONE });
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        self.nodes[id as usize].count != NONE
    }

    fn hit(&mut self, id: u32) {
        let count = self.unlink(id);
        let above = self.count_above(count, self.counts[count as usize].uses + 1);
        self.append(id, above);
        self.tidy(count);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let mut count = self.least;
        while count != NONE {
            let mut id = self.counts[count as usize].oldest;
            while id != NONE {
                if !keep(id) {
                    self.remove(id);
                    return Some(id);
                }
                id = self.nodes[id as usize].newer;
            }
            count = self.counts[count as usize].more;
        }
        None
    }

    fn insert(&mut self, id: u32, _: u64) {
        let one = self.count_above(NONE, 1);
        self.append(id, one);
    }

    fn remove(&mut self, id: u32) {
        if self.holds(id) {
            let count = self.unlink(id);
            self.tidy(count);
        }
    }
}
