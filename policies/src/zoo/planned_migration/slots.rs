//! A timeline of slots, one per op: how much memory is needed in each, and how much of it a channel
//! of a link is still idle.
//!
//! Both answer in logarithmic time for what plans ask: bytes over a range are raised and lowered
//! at once, the memory above the line is summed without looking at every slot, and the end of a
//! copy is found from sums. Ranges are half-open and do not wrap; callers cut those that do.
//! Invariant: idle time is never negative.

use std::ops::Range;

/// Slots of a leaf. A scan of so few is as quick as a step down the tree, and the tree of a long
/// trace stays in the cache.
const LEAF: usize = 16;

/// Bytes above a line, by slot, weighed with the slots' durations.
#[derive(Clone, Debug)]
pub(super) struct Heights {
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
    pub(super) fn new(heights: &[i64], times: &[u64]) -> Heights {
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

    /// Slots of the range that these leaves have.
    fn common(&self, own: Part, range: Part) -> Range<usize> {
        let until = (own.1 * LEAF).min(range.1).min(self.heights.len());
        (own.0 * LEAF).max(range.0)..until
    }

    /// Adds `bytes` in every slot of the range.
    pub(super) fn raise(&mut self, from: usize, until: usize, bytes: i64) {
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
    pub(super) fn removable(&self, from: usize, until: usize, bytes: i64) -> i128 {
        self.removable_below(1, (0, self.leaves), (from, until), bytes, 0)
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
    pub(super) fn last_above(&self, from: usize, until: usize, line: i64) -> Option<usize> {
        self.last_below(1, (0, self.leaves), (from, until), line, 0)
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

/// Idle time of one channel, by slot, in ps.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    left: Vec<u64>,
    /// Of all slots.
    total: u64,
    /// A Fenwick tree of `left`. Source: Fenwick, "A New Data Structure for Cumulative Frequency
    /// Tables", Software: Practice and Experience 24(3), 1994.
    sums: Vec<u64>,
    /// The next slot with idle time, or one on the way to it.
    next: Vec<usize>,
}

impl Idle {
    /// All of it idle.
    pub(super) fn new(times: &[u64]) -> Idle {
        let mut sums = vec![0; times.len() + 1];
        for (slot, &time) in times.iter().enumerate() {
            sums[slot + 1] += time;
            let parent = (slot + 1) + ((slot + 1) & (slot + 1).wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[slot + 1];
            }
        }
        let mut idle =
            Idle { left: times.to_vec(), total: 0, sums, next: (0..=times.len()).collect() };
        idle.total = idle.before(times.len());
        idle
    }

    /// Idle time of all slots.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Idle time before this slot.
    pub(super) fn before(&self, slot: usize) -> u64 {
        let (mut at, mut sum) = (slot, 0);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    /// The last slot that has no more than `time` of idle time before it.
    pub(super) fn slot_of(&self, time: u64) -> usize {
        let (mut at, mut left) = (0, time);
        let mut step = self.left.len().next_power_of_two();
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= left {
                at += step;
                left -= self.sums[at];
            }
            step /= 2;
        }
        at
    }

    /// Takes `time` out of the range, the earliest first, but `keep` of what comes first.
    pub(super) fn take(&mut self, from: usize, mut keep: u64, mut time: u64) {
        let mut slot = self.find(from);
        while time > 0 && slot < self.left.len() {
            let kept = keep.min(self.left[slot]);
            keep -= kept;
            let taken = time.min(self.left[slot] - kept);
            time -= taken;
            self.left[slot] -= taken;
            self.total -= taken;
            let mut at = slot + 1;
            while at < self.sums.len() {
                self.sums[at] -= taken;
                at += at & at.wrapping_neg();
            }
            if self.left[slot] == 0 {
                self.next[slot] = slot + 1;
            }
            slot = self.find(slot + 1);
        }
    }

    fn find(&mut self, slot: usize) -> usize {
        let mut end = slot;
        while self.next[end] != end {
            end = self.next[end];
        }
        let mut at = slot;
        while self.next[at] != end {
            at = std::mem::replace(&mut self.next[at], end);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::{Heights, Idle};

    /// Small numbers from a seed (Knuth's MMIX constants).
    fn draw(seed: &mut u64, below: u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    #[test]
    fn heights_are_what_a_plain_list_says() {
        for seed in 0..200 {
            let mut seed = seed;
            let slots = 1 + draw(&mut seed, 90) as usize;
            let mut plain: Vec<i64> = (0..slots).map(|_| draw(&mut seed, 40) as i64 - 20).collect();
            let times: Vec<u64> = (0..slots).map(|_| 1 + draw(&mut seed, 9)).collect();
            let mut tree = Heights::new(&plain, &times);
            for _ in 0..30 {
                let from = draw(&mut seed, slots as u64) as usize;
                let until = from + draw(&mut seed, (slots - from) as u64 + 1) as usize;
                let bytes = draw(&mut seed, 15) as i64;
                let (change, line) =
                    (draw(&mut seed, 11) as i64 - 5, draw(&mut seed, 30) as i64 - 15);
                let removable: i64 = (from..until)
                    .map(|slot| plain[slot].clamp(0, bytes) * times[slot] as i64)
                    .sum();
                assert_eq!(tree.removable(from, until, bytes), i128::from(removable));
                let last = (from..until).rev().find(|&slot| plain[slot] > line);
                assert_eq!(tree.last_above(from, until, line), last);
                tree.raise(from, until, change);
                plain[from..until].iter_mut().for_each(|height| *height += change);
            }
        }
    }

    #[test]
    fn idle_time_is_found_and_taken_once() {
        for seed in 0..200 {
            let mut seed = seed;
            let slots = 1 + draw(&mut seed, 150) as usize;
            let mut plain: Vec<u64> = (0..slots).map(|_| draw(&mut seed, 9)).collect();
            let mut idle = Idle::new(&plain);
            for _ in 0..20 {
                let from = draw(&mut seed, slots as u64) as usize;
                let there: u64 = plain[from..].iter().sum();
                let keep = draw(&mut seed, 4).min(there);
                let time = draw(&mut seed, 60).min(there - keep);
                let (mut skip, mut left) = (keep, time);
                for value in &mut plain[from..] {
                    let kept = skip.min(*value);
                    let taken = left.min(*value - kept);
                    skip -= kept;
                    left -= taken;
                    *value -= taken;
                }
                idle.take(from, keep, time);
                for slot in 0..=slots {
                    assert_eq!(idle.before(slot), plain[..slot].iter().sum::<u64>());
                }
                assert_eq!(idle.total(), plain.iter().sum::<u64>());
                let asked = draw(&mut seed, 700);
                let last = (0..=slots).rev().find(|&s| plain[..s].iter().sum::<u64>() <= asked);
                assert_eq!(Some(idle.slot_of(asked)), last);
            }
        }
    }
}
