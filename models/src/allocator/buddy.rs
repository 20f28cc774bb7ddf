//! Buddies: blocks of powers of two that split in halves and join again (Knowlton, 1965).
//!
//! A request gets the smallest power of two that holds it, at least `least`. Of equal free blocks
//! the lowest is taken, and the lower half of a split. A capacity that is no power of two is cut
//! into its binary digits, largest first, so the largest free piece of an empty tier may be less
//! than all of it. Invariant: no two free buddies lie side by side.

use crate::allocator::model::Allocator;
use crate::allocator::moves::Moves;
use crate::allocator::stats::{AllocatorBlock, Full, Stats};
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of [`Buddy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuddyConfig {
    /// The smallest block, a power of two.
    pub least: Bytes,
}

impl Default for BuddyConfig {
    fn default() -> BuddyConfig {
        BuddyConfig { least: Bytes::new(512) }
    }
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Buddy {
    least: u64,
    capacity: u64,
    /// Addresses of free blocks, by the exponent of their size.
    free: Vec<BTreeSet<u64>>,
    /// (exponent, requested) by address.
    live: BTreeMap<u64, (u32, u64)>,
    requested: u64,
    allocated: u64,
}

impl Buddy {
    /// Nothing in use. Panics unless `least` is a power of two.
    pub fn new(capacity: Bytes, config: BuddyConfig) -> Buddy {
        let least = config.least.get();
        assert!(least.is_power_of_two(), "the smallest block is a power of two");
        let capacity = capacity.get() / least * least;
        let mut free = vec![BTreeSet::new(); 64];
        let mut at = 0;
        for exponent in (0..64).rev().filter(|exponent| capacity >> exponent & 1 == 1) {
            free[exponent].insert(at);
            at += 1 << exponent;
        }
        Buddy { least, capacity, free, live: BTreeMap::new(), requested: 0, allocated: 0 }
    }

    fn exponent(&self, bytes: u64) -> Option<usize> {
        let size = bytes.max(self.least).checked_next_power_of_two()?;
        Some(size.trailing_zeros() as usize)
    }

    /// The free block to cut for a size: smallest first, then lowest.
    fn choose(&self, exponent: usize) -> Option<(usize, u64)> {
        let sizes = exponent..self.free.len();
        sizes.into_iter().find_map(|size| Some((size, *self.free[size].first()?)))
    }

    fn take(&mut self, exponent: usize, (mut size, at): (usize, u64)) {
        self.free[size].remove(&at);
        while size > exponent {
            size -= 1;
            self.free[size].insert(at + (1 << size));
        }
    }

    fn give(&mut self, exponent: usize, at: u64) {
        let (mut size, mut at) = (exponent, at);
        while self.free[size].remove(&(at ^ 1 << size)) {
            at &= !(1 << size);
            size += 1;
        }
        self.free[size].insert(at);
    }

    fn largest(&self) -> u64 {
        self.free.iter().rposition(|blocks| !blocks.is_empty()).map_or(0, |size| 1 << size)
    }
}

/// A live block, its exponent, and the free block (exponent, address) that it goes to.
type Step = (u64, usize, (usize, u64));

impl Buddy {
    /// Makes one larger free block than there is, the largest possible; `false` if there is no way.
    fn widen(&mut self, budget: Bytes, moves: &mut Moves) -> bool {
        let least = self.free.iter().rposition(|blocks| !blocks.is_empty()).map_or(0, |e| e + 1);
        let most = self.capacity.checked_ilog2().map_or(0, |exponent| exponent as usize);
        let plan = (least..=most).rev().find_map(|exponent| self.evacuation(exponent));
        let Some(plan) = plan.filter(|plan| !plan.is_empty()) else { return false };
        for (at, exponent, target) in plan {
            if moves.bytes >= budget {
                break;
            }
            let entry = self.live.remove(&at).expect("a live block moves");
            self.take(exponent, target);
            self.live.insert(target.1, entry);
            self.give(exponent, at);
            let bytes = Bytes::new(1 << exponent);
            moves.note(AllocatorBlock { at, bytes }, AllocatorBlock { at: target.1, bytes });
        }
        true
    }

    /// How the emptiest region of a size can be emptied, the highest of equals; `None` if what is
    /// free elsewhere does not hold its blocks.
    fn evacuation(&self, exponent: usize) -> Option<Vec<Step>> {
        let size = 1 << exponent;
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        for (&at, &(block, _)) in &self.live {
            *used.entry(at / size * size).or_default() += 1 << block;
        }
        // Regions are the multiples of the size that lie within one digit of the capacity.
        let whole = self.capacity / size * size;
        let regions = used.iter().filter(|(at, bytes)| **at + size <= whole && **bytes < size);
        let (&start, _) = regions.min_by_key(|&(at, bytes)| (*bytes, std::cmp::Reverse(*at)))?;
        let region = start..start + size;
        let mut rest = self.clone();
        for blocks in &mut rest.free {
            blocks.retain(|at| !region.contains(at));
        }
        let inside = self.live.range(region).map(|(&at, &(block, _))| (at, block as usize));
        let mut inside: Vec<(u64, usize)> = inside.collect();
        inside.sort_by_key(|&(at, block)| (std::cmp::Reverse(block), at));
        let step = |(at, block)| {
            let target = rest.choose(block)?;
            rest.take(block, target);
            Some((at, block, target))
        };
        inside.into_iter().map(step).collect()
    }
}

impl Allocator for Buddy {
    fn alloc(&mut self, bytes: Bytes, _: u16) -> Result<AllocatorBlock, Full> {
        let exponent = self.exponent(bytes.get());
        let chosen = exponent.and_then(|exponent| Some((exponent, self.choose(exponent)?)));
        let Some((exponent, chosen)) = chosen else {
            return Err(self.full(bytes));
        };
        self.take(exponent, chosen);
        let at = chosen.1;
        self.live.insert(at, (exponent as u32, bytes.get()));
        self.requested += bytes.get();
        self.allocated += 1 << exponent;
        Ok(AllocatorBlock { at, bytes: Bytes::new(1 << exponent) })
    }

    fn free(&mut self, block: AllocatorBlock) {
        let (exponent, requested) = self.live.remove(&block.at).expect("a live block is freed");
        self.requested -= requested;
        self.allocated -= 1 << exponent;
        self.give(exponent as usize, block.at);
    }

    fn fits(&self, bytes: Bytes, _: u16) -> bool {
        self.exponent(bytes.get()).is_some_and(|exponent| self.choose(exponent).is_some())
    }

    fn stats(&self) -> Stats {
        let last = self.live.last_key_value();
        let reserved = last.map_or(0, |(&at, &(exponent, _))| at + (1 << exponent));
        Stats {
            capacity: Bytes::new(self.capacity),
            requested: Bytes::new(self.requested),
            allocated: Bytes::new(self.allocated),
            active: Bytes::new(self.allocated),
            reserved: Bytes::new(reserved),
            inactive_split: Bytes::new(reserved - self.allocated),
            free: Bytes::new(self.capacity - self.allocated),
            largest_free: Bytes::new(self.largest()),
            releases: 0,
        }
    }

    fn free_sizes(&self) -> Vec<Bytes> {
        let sizes = self.free.iter().enumerate();
        sizes.flat_map(|(size, blocks)| vec![Bytes::new(1 << size); blocks.len()]).collect()
    }

    /// Empties regions as long as that makes the largest free block larger.
    fn compact(&mut self, budget: Bytes) -> Moves {
        let mut moves = Moves::default();
        while moves.bytes < budget && self.widen(budget, &mut moves) {}
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buddy(capacity: u64) -> Buddy {
        Buddy::new(Bytes::new(capacity), BuddyConfig { least: Bytes::new(1) })
    }

    #[test]
    fn blocks_are_powers_of_two_and_lie_at_multiples_of_their_size() {
        let mut buddy = buddy(64);
        let blocks = [5, 16, 3, 9].map(|n| buddy.alloc(Bytes::new(n), 0).expect("it fits"));
        assert_eq!(
            blocks.map(|block| (block.at, block.bytes.get())),
            [(0, 8), (16, 16), (8, 4), (32, 16)]
        );
        let stats = buddy.stats();
        assert_eq!(
            (stats.requested.get(), stats.allocated.get(), stats.reserved.get()),
            (33, 44, 48)
        );
    }

    #[test]
    fn a_split_is_joined_again() {
        let mut buddy = buddy(64);
        let blocks: Vec<_> =
            (0..64).map(|_| buddy.alloc(Bytes::new(1), 0).expect("room")).collect();
        assert!(!buddy.fits(Bytes::new(1), 0));
        for block in blocks.into_iter().rev() {
            buddy.free(block);
        }
        assert_eq!(buddy.free_sizes(), [Bytes::new(64)]);
    }

    #[test]
    fn a_capacity_that_is_no_power_of_two_is_cut_into_its_digits() {
        let mut buddy = buddy(11);
        let mut sizes = buddy.free_sizes();
        sizes.sort();
        assert_eq!(sizes, [1, 2, 8].map(Bytes::new));
        assert_eq!(buddy.alloc(Bytes::new(9), 0).map_err(|full| full.largest), Err(Bytes::new(8)));
        let all: Vec<_> = (0..11).map(|_| buddy.alloc(Bytes::new(1), 0).expect("room")).collect();
        all.into_iter().for_each(|block| buddy.free(block));
        assert_eq!(buddy.free_sizes().len(), 3);
    }

    #[test]
    fn neighbours_that_are_no_buddies_do_not_join() {
        let mut buddy = buddy(4);
        let blocks = [0; 4].map(|_| buddy.alloc(Bytes::new(1), 0).expect("room"));
        buddy.free(blocks[1]);
        buddy.free(blocks[2]);
        assert!(!buddy.fits(Bytes::new(2), 0), "two bytes are free, side by side, and no buddies");
        assert_eq!(buddy.stats().external(), 0.5);
    }

    #[test]
    fn compaction_empties_the_emptiest_region() {
        let mut buddy = buddy(8);
        let blocks = [0; 8].map(|_| buddy.alloc(Bytes::new(1), 0).expect("room"));
        for index in [0, 2, 4, 6] {
            buddy.free(blocks[index]);
        }
        let moves = buddy.compact(Bytes::MAX);
        let moved: Vec<_> = moves.iter().map(|(was, is)| (was.at, is.at)).collect();
        assert_eq!(moved, [(5, 0), (7, 2)]);
        assert_eq!(buddy.free_sizes(), [Bytes::new(4)]);
    }

    #[test]
    fn compaction_leaves_large_blocks_alone() {
        // The first requests go to the digit 4, so that the digit 8 stays whole.
        let mut buddy = buddy(12);
        let blocks = [0; 4].map(|_| buddy.alloc(Bytes::new(1), 0).expect("room"));
        assert_eq!(blocks.map(|block| block.at), [8, 9, 10, 11]);
        buddy.free(blocks[1]);
        buddy.free(blocks[2]);
        assert!(buddy.compact(Bytes::MAX).is_empty(), "8 bytes are free in one piece already");
    }

    #[test]
    fn a_region_is_emptied_only_if_all_of_it_fits_elsewhere() {
        let mut buddy = buddy(8);
        let blocks = [2, 1, 1, 2, 2].map(|n| buddy.alloc(Bytes::new(n), 0).expect("room"));
        buddy.free(blocks[1]);
        buddy.free(blocks[4]);
        // 4 to 6 could be emptied into nothing but 6 to 8, which is part of the same four.
        assert!(buddy.compact(Bytes::MAX).is_empty());
        buddy.free(blocks[0]);
        let moved: Vec<_> =
            buddy.compact(Bytes::MAX).iter().map(|(was, is)| (was.at, is.at)).collect();
        assert_eq!(moved, [(3, 6)], "the emptier half is emptied");
        assert_eq!(buddy.stats().largest_free.get(), 4);
    }

    #[test]
    fn a_request_beyond_everything_is_refused() {
        assert!(buddy(64).alloc(Bytes::MAX, 0).is_err());
    }
}
