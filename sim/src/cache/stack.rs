//! LRU at every capacity at once: the stack distance of each request.
//!
//! An object is in an LRU cache of `C` objects exactly if at most `C` different objects, itself
//! among them, were requested since its last request (Mattson, Gecsei, Slutz and Traiger,
//! "Evaluation techniques for storage hierarchies", 1970). So one pass answers for all capacities.
//! Each object has one bit, at the position of its last request; the distance is the number of
//! bits from there on, counted with a tree of sums over blocks of bits (Fenwick, "A new data
//! structure for cumulative frequency tables", 1994). When positions run out, the bits are pushed
//! together.
//! Invariant: as many bits are set as there are objects, all below `now`.

use super::table::{FREE, Table};

/// Words of a block of bits.
const WORDS: usize = 4;
/// Bits of a block.
const BLOCK: usize = WORDS * 64;
/// Positions of an empty stack.
const FIRST: usize = 16 * BLOCK;
/// Positions run out after so many times as many requests as there are objects, or more.
const SPARE: usize = 4;

/// All objects, by their last request.
pub(crate) struct Stack {
    last: Table,
    bits: Vec<[u64; WORDS]>,
    /// Sums over complete blocks as a Fenwick tree; entry 0 stays 0.
    sums: Vec<u32>,
    /// The next position.
    now: usize,
}

impl Stack {
    pub(crate) fn new() -> Stack {
        let blocks = FIRST / BLOCK;
        Stack {
            last: Table::new(),
            bits: vec![[0; WORDS]; blocks],
            sums: vec![0; blocks + 1],
            now: 0,
        }
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> usize {
        self.last.len()
    }

    /// See [`Table::hash`].
    pub(crate) fn hash(&self, object: u64) -> u64 {
        self.last.hash(object)
    }

    /// See [`Table::touch`].
    pub(crate) fn touch(&self, hash: u64) -> u32 {
        self.last.touch(hash)
    }

    /// Requests an object: how many different ones were requested since its last request, itself
    /// among them; 0 for a first request.
    pub(crate) fn request(&mut self, object: u64, hash: u64) -> u32 {
        if self.now == self.bits.len() * BLOCK {
            self.push_together();
        }
        let now = self.now;
        let last = self.last.number(object, hash);
        let before = std::mem::replace(last, now as u32);
        let distance = if before == FREE {
            0
        } else {
            let distance = self.last.len() as u32 - self.rank(before as usize);
            self.clear(before as usize);
            distance
        };
        let word = &mut self.bits[now / BLOCK][now % BLOCK / 64];
        *word |= 1 << (now % 64);
        self.now = now + 1;
        if self.now.is_multiple_of(BLOCK) {
            self.complete(now / BLOCK);
        }
        distance
    }

    /// How many bits are set below a position.
    fn rank(&self, position: usize) -> u32 {
        let block = position / BLOCK;
        let mut sum = below(&self.bits[block], position % BLOCK);
        let mut at = block;
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    fn clear(&mut self, position: usize) {
        let block = position / BLOCK;
        self.bits[block][position % BLOCK / 64] &= !(1 << (position % 64));
        // The block under way is in no sum yet.
        if block < self.now / BLOCK {
            let mut at = block + 1;
            while at < self.sums.len() {
                self.sums[at] -= 1;
                at += at & at.wrapping_neg();
            }
        }
    }

    /// Takes a block that is full of positions into the sums.
    fn complete(&mut self, block: usize) {
        let set: u32 = self.bits[block].iter().map(|word| word.count_ones()).sum();
        let mut at = block + 1;
        while at < self.sums.len() {
            self.sums[at] += set;
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the objects the first positions, in the same order, and makes room for more.
    fn push_together(&mut self) {
        let objects = self.last.len();
        let mut before = Vec::with_capacity(self.bits.len());
        let mut sum = 0;
        for block in &self.bits {
            before.push(sum);
            sum += block.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        assert_eq!(sum as usize, objects, "one bit per object");
        for last in self.last.numbers() {
            let position = *last as usize;
            let block = position / BLOCK;
            *last = before[block] + below(&self.bits[block], position % BLOCK);
        }
        let mut blocks = self.bits.len();
        while blocks * BLOCK < objects * SPARE {
            blocks *= 2;
        }
        self.bits.clear();
        self.bits.resize(blocks, [0; WORDS]);
        self.sums.clear();
        self.sums.resize(blocks + 1, 0);
        self.now = objects;
        for (index, word) in self.bits.as_flattened_mut().iter_mut().enumerate() {
            let set = objects.saturating_sub(index * 64).min(64) as u32;
            *word = u64::MAX.checked_shr(64 - set).unwrap_or(0);
        }
        for block in 0..objects / BLOCK {
            self.complete(block);
        }
    }
}

/// How many bits of a block are set below a position in it.
fn below(block: &[u64; WORDS], position: usize) -> u32 {
    let mut sum = 0;
    for (index, word) in block.iter().enumerate() {
        // 0 to 64 low bits of this word.
        let low = position.saturating_sub(index * 64).min(64) as u32;
        sum += (word & u64::MAX.checked_shr(64 - low).unwrap_or(0)).count_ones();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look drawn, the same every time.
    fn drawn(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        *state >> 33
    }

    #[test]
    fn distances_are_those_of_a_list_that_is_searched() {
        let mut seed = 1;
        // Few objects push together often, many grow the positions.
        for (objects, requests) in [(1u64, 9000), (7, 20_000), (300, 30_000), (3000, 30_000)] {
            let (mut stack, mut list) = (Stack::new(), Vec::new());
            for _ in 0..requests {
                // Half of the requests go to a tenth of the objects.
                let among =
                    if drawn(&mut seed).is_multiple_of(2) { objects } else { objects.div_ceil(10) };
                let object = (drawn(&mut seed) % among) << 37;
                let expected = list.iter().rev().position(|other| *other == object);
                let hash = stack.hash(object);
                let found = stack.request(object, hash);
                assert_eq!(found, expected.map_or(0, |place| place as u32 + 1));
                list.retain(|other| *other != object);
                list.push(object);
            }
            assert_eq!(stack.objects(), list.len());
        }
    }
}
