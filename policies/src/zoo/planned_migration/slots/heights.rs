//! Memory above a line: a tree of sums and extremes over ranges of slots.
//!
//! Invariant: a node knows its own range, but for what is raised at nodes above it.

use std::ops::Range;

/// Slots of a leaf. A scan of so few is as quick as a step down the tree, and the tree of a long
/// trace stays in the cache.
const LEAF: usize = 16;

/// Bytes above a line, by slot, weighed with the slots' durations.
#[derive(Clone, Debug)]
pub(in crate::zoo) struct Heights {
    /// Leaves of the tree, those after the last slot among them.
    leaves: usize,
    /// By slot, without what was raised at nodes.
    heights: Vec<i64>,
    times: Vec<u64>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    least: i64,
    most: i64,
    /// Sum of height x duration.
    area: i128,
    /// Sum of durations.
    time: u64,
    /// Raised below this node, and not handed down.
    raised: i64,
}

/// Of no slots.
const EMPTY: Node = Node { least: i64::MAX, most: i64::MIN, area: 0, time: 0, raised: 0 };

impl Node {
    fn add(&mut self, height: i64, time: u64) {
        self.least = self.least.min(height);
        self.most = self.most.max(height);
        self.area += weighed(height, time);
        self.time += time;
    }

    fn raise(&mut self, bytes: i64) {
        self.least = self.least.saturating_add(bytes);
        self.most = self.most.saturating_add(bytes);
        self.area += weighed(bytes, self.time);
        self.raised = self.raised.saturating_add(bytes);
    }
}

fn weighed(bytes: i64, time: u64) -> i128 {
    i128::from(bytes) * i128::from(time)
}

/// Leaves, or slots, from one to another.
type Part = (usize, usize);

fn halves((from, until): Part) -> [Part; 2] {
    let middle = from.midpoint(until);
    [(from, middle), (middle, until)]
}

impl Heights {
    /// From heights in bytes and durations in ps.
    pub(in crate::zoo) fn new(heights: &[i64], times: &[u64]) -> Heights {
        let leaves = heights.len().div_ceil(LEAF).next_power_of_two();
        let nodes = vec![EMPTY; 2 * leaves];
        let mut all = Heights { leaves, heights: heights.to_vec(), times: times.to_vec(), nodes };
        (0..heights.len().div_ceil(LEAF)).for_each(|leaf| all.sum_up_leaf(leaf));
        (1..leaves).rev().for_each(|node| all.sum_up(node));
        all
    }

    fn sum_up_leaf(&mut self, leaf: usize) {
        let mut sum = EMPTY;
        for slot in self.common((leaf, leaf + 1), (0, self.heights.len())) {
            sum.add(self.heights[slot], self.times[slot]);
        }
        sum.raise(self.nodes[self.leaves + leaf].raised);
        self.nodes[self.leaves + leaf] = sum;
    }

    fn sum_up(&mut self, node: usize) {
        let (a, b) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let (least, most) = (a.least.min(b.least), a.most.max(b.most));
        let mut sum = Node { least, most, area: a.area + b.area, time: a.time + b.time, raised: 0 };
        sum.raise(self.nodes[node].raised);
        self.nodes[node] = sum;
    }

    /// The lowest node that has all of a range that is not empty, its leaves, and what is raised at
    /// nodes above it. Most ranges are short: most of the tree is then left alone.
    fn around(&self, (from, until): Part) -> (usize, Part, i64) {
        let (first, last) = (from / LEAF, until.div_ceil(LEAF) - 1);
        let levels = usize::BITS - (first ^ last).leading_zeros();
        let node = (self.leaves + first) >> levels;
        let start = (first >> levels) << levels;
        let (mut above, mut raised) = (node / 2, 0i64);
        while above > 0 {
            raised = raised.saturating_add(self.nodes[above].raised);
            above /= 2;
        }
        (node, (start, start + (1 << levels)), raised)
    }

    /// Slots of the range that these leaves have.
    fn common(&self, own: Part, range: Part) -> Range<usize> {
        let until = (own.1 * LEAF).min(range.1).min(self.heights.len());
        (own.0 * LEAF).max(range.0)..until
    }

    /// Adds `bytes` in every slot of the range.
    pub(in crate::zoo) fn raise(&mut self, from: usize, until: usize, bytes: i64) {
        self.raise_below(1, (0, self.leaves), (from, until), bytes);
    }

    fn raise_below(&mut self, node: usize, own: Part, range: Part, bytes: i64) {
        if range.1 <= own.0 * LEAF || own.1 * LEAF <= range.0 || self.nodes[node].time == 0 {
            return;
        }
        if range.0 <= own.0 * LEAF && own.1 * LEAF <= range.1 {
            self.nodes[node].raise(bytes);
            return;
        }
        if own.1 - own.0 == 1 {
            for slot in self.common(own, range) {
                self.heights[slot] = self.heights[slot].saturating_add(bytes);
            }
            self.sum_up_leaf(own.0);
            return;
        }
        let [left, right] = halves(own);
        self.raise_below(2 * node, left, range, bytes);
        self.raise_below(2 * node + 1, right, range, bytes);
        self.sum_up(node);
    }

    /// Sum over the range of `min(bytes, height above 0) x duration`: what taking `bytes` away
    /// would remove of the memory above the line.
    pub(in crate::zoo) fn removable(&self, from: usize, until: usize, bytes: i64) -> i128 {
        if from >= until {
            return 0;
        }
        let (node, own, raised) = self.around((from, until));
        self.removable_below(node, own, (from, until), bytes, raised)
    }

    fn removable_below(
        &self,
        node: usize,
        own: Part,
        range: Part,
        bytes: i64,
        raised: i64,
    ) -> i128 {
        let Node { least, most, area, time, raised: here } = self.nodes[node];
        let (least, most) = (least.saturating_add(raised), most.saturating_add(raised));
        if range.1 <= own.0 * LEAF || own.1 * LEAF <= range.0 || time == 0 || most <= 0 {
            return 0;
        }
        let within = range.0 <= own.0 * LEAF && own.1 * LEAF <= range.1;
        if within && least >= bytes {
            return weighed(bytes, time);
        }
        if within && least >= 0 && most <= bytes {
            return area + weighed(raised, time);
        }
        let raised = raised.saturating_add(here);
        if own.1 - own.0 == 1 {
            let slots = self.common(own, range);
            let slots = self.heights[slots.clone()].iter().zip(&self.times[slots]);
            return slots
                .map(|(&height, &time)| {
                    weighed(height.saturating_add(raised).clamp(0, bytes), time)
                })
                .sum();
        }
        let [left, right] = halves(own);
        self.removable_below(2 * node, left, range, bytes, raised)
            + self.removable_below(2 * node + 1, right, range, bytes, raised)
    }

    /// The last slot of the range that is higher than `line`.
    pub(in crate::zoo) fn last_above(&self, from: usize, until: usize, line: i64) -> Option<usize> {
        if from >= until {
            return None;
        }
        let (node, own, raised) = self.around((from, until));
        self.last_below(node, own, (from, until), line, raised)
    }

    fn last_below(
        &self,
        node: usize,
        own: Part,
        range: Part,
        line: i64,
        raised: i64,
    ) -> Option<usize> {
        let Node { most, time, raised: here, .. } = self.nodes[node];
        let low = most.saturating_add(raised) <= line;
        if range.1 <= own.0 * LEAF || own.1 * LEAF <= range.0 || time == 0 || low {
            return None;
        }
        let raised = raised.saturating_add(here);
        if own.1 - own.0 == 1 {
            let mut slots = self.common(own, range).rev();
            return slots.find(|&slot| self.heights[slot].saturating_add(raised) > line);
        }
        let [left, right] = halves(own);
        let found = self.last_below(2 * node + 1, right, range, line, raised);
        found.or_else(|| self.last_below(2 * node, left, range, line, raised))
    }
}
