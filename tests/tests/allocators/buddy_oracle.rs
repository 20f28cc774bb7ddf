//! Buddies by definition: one cell per byte, and free blocks found by halving the address space.

use tiersim_models::allocator::buddy::Buddy;
use tiersim_models::allocator::{Allocator, AllocatorBlock, BuddyConfig};
use tiersim_tests::prelude::*;

/// Whether each byte is in use.
struct Cells(Vec<bool>);

impl Cells {
    /// Free blocks as (size, address): halves of halves of the binary digits of the capacity.
    fn free(&self) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        for digit in (0..usize::BITS).rev().map(|bit| 1usize << bit) {
            if self.0.len() & digit != 0 {
                self.halve(at, digit, &mut found);
                at += digit;
            }
        }
        found
    }

    fn halve(&self, at: usize, size: usize, found: &mut Vec<(usize, usize)>) {
        if self.0[at..at + size].iter().all(|used| !used) {
            found.push((size, at));
        } else if size > 1 {
            self.halve(at, size / 2, found);
            self.halve(at + size / 2, size / 2, found);
        }
    }

    fn alloc(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let size = bytes.next_power_of_two();
        let fitting = self.free().into_iter().filter(|&(free, _)| free >= size);
        let (_, at) = fitting.min()?;
        self.0[at..at + size].fill(true);
        Some((at, size))
    }
}

#[test]
fn buddies_agree_with_their_definition() {
    for seed in 0..40 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let capacity = rng.random_range(1..400);
        let mut cells = Cells(vec![false; capacity]);
        let config = BuddyConfig { least: Bytes::new(1) };
        let mut buddy = Buddy::new(Bytes::new(capacity as u64), config);
        let mut live: Vec<AllocatorBlock> = Vec::new();
        for _ in 0..400 {
            if live.is_empty() || rng.random_bool(0.55) {
                let bytes = 1 + rng.random_range(0..40) * rng.random_range(0..2);
                let got = buddy.alloc(Bytes::new(bytes as u64), 0).ok();
                let expected = cells.alloc(bytes);
                let found = got.map(|block| (block.at as usize, block.bytes.get() as usize));
                assert_eq!(found, expected, "seed {seed}: {bytes} bytes");
                live.extend(got);
            } else {
                let block = live.swap_remove(rng.random_range(0..live.len()));
                buddy.free(block);
                cells.0[block.at as usize..block.end() as usize].fill(false);
            }
            let mut sizes: Vec<u64> = buddy.free_sizes().into_iter().map(Bytes::get).collect();
            let mut expected: Vec<u64> =
                cells.free().into_iter().map(|(size, _)| size as u64).collect();
            sizes.sort_unstable();
            expected.sort_unstable();
            assert_eq!(sizes, expected, "seed {seed}");
        }
    }
}
