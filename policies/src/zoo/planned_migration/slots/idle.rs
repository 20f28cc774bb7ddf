//! Idle time of a channel: sums up to a slot, and back from a sum to its slot.
//!
//! Invariant: what a block and the tree of blocks know is the sum of their slots.

/// Slots of a block, few enough to be looked at one by one.
const BLOCK: usize = 16;

/// Idle time of one channel, by slot, in ps.
#[derive(Clone, Debug)]
pub(in crate::zoo) struct Idle {
    left: Vec<u64>,
    /// Of all slots.
    total: u64,
    /// Of each block of [`BLOCK`] slots.
    blocks: Vec<u64>,
    /// A Fenwick tree of the blocks. Source: Fenwick, "A New Data Structure for Cumulative
    /// Frequency Tables", Software: Practice and Experience 24(3), 1994.
    sums: Vec<u64>,
    /// The next block with idle time, or one on the way to it.
    next: Vec<usize>,
}

impl Idle {
    /// All of it idle.
    pub(in crate::zoo) fn new(times: &[u64]) -> Idle {
        let blocks: Vec<u64> = times.chunks(BLOCK).map(|block| block.iter().sum()).collect();
        let mut sums = vec![0; blocks.len() + 1];
        for (block, &time) in blocks.iter().enumerate() {
            sums[block + 1] += time;
            let parent = (block + 1) + ((block + 1) & (block + 1).wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[block + 1];
            }
        }
        let next = (0..=blocks.len()).collect();
        Idle { left: times.to_vec(), total: blocks.iter().sum(), blocks, sums, next }
    }

    /// Idle time of all slots.
    pub(in crate::zoo) fn total(&self) -> u64 {
        self.total
    }

    /// Idle time before this slot.
    pub(in crate::zoo) fn before(&self, slot: usize) -> u64 {
        let block = slot / BLOCK;
        let (mut at, mut sum) = (block, self.left[block * BLOCK..slot].iter().sum());
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    /// The last slot that has no more than `time` of idle time before it.
    pub(in crate::zoo) fn slot_of(&self, time: u64) -> usize {
        let (mut block, mut left) = (0, time);
        let mut step = self.blocks.len().next_power_of_two();
        while step > 0 {
            if block + step < self.sums.len() && self.sums[block + step] <= left {
                block += step;
                left -= self.sums[block];
            }
            step /= 2;
        }
        let mut slot = (block * BLOCK).min(self.left.len());
        while let Some(rest) = self.left.get(slot).and_then(|&time| left.checked_sub(time)) {
            (slot, left) = (slot + 1, rest);
        }
        slot
    }

    /// Takes `time` out of the range, the earliest first, but `keep` of what comes first.
    pub(in crate::zoo) fn take(&mut self, from: usize, mut keep: u64, mut time: u64) {
        let (mut slot, blocks) = (from, self.blocks.len());
        while time > 0 {
            let block = self.find(slot / BLOCK);
            if block == blocks {
                return;
            }
            let until = (block + 1) * BLOCK;
            let slots = slot.max(block * BLOCK)..until.min(self.left.len());
            let before = time;
            for left in &mut self.left[slots] {
                let kept = keep.min(*left);
                keep -= kept;
                let taken = time.min(*left - kept);
                time -= taken;
                *left -= taken;
            }
            self.take_of(block, before - time);
            slot = until;
        }
    }

    /// So much less in a block.
    fn take_of(&mut self, block: usize, time: u64) {
        self.total -= time;
        self.blocks[block] -= time;
        let mut at = block + 1;
        while at < self.sums.len() {
            self.sums[at] -= time;
            at += at & at.wrapping_neg();
        }
        if self.blocks[block] == 0 {
            self.next[block] = block + 1;
        }
    }

    /// The first block from this one on that has idle time.
    fn find(&mut self, block: usize) -> usize {
        let mut end = block;
        while self.next[end] != end {
            end = self.next[end];
        }
        let mut at = block;
        while self.next[at] != end {
            at = std::mem::replace(&mut self.next[at], end);
        }
        end
    }
}
