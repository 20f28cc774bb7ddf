//! Each rule of the published source, by sequences worked out by hand.

use super::*;
use crate::allocator::caching::sizes::next_division;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn caching(capacity: u64) -> Caching {
    Caching::new(Bytes::new(capacity), CachingConfig::default())
}

fn expandable(capacity: u64) -> Caching {
    let config = CachingConfig { expandable_segments: true, ..CachingConfig::default() };
    Caching::new(Bytes::new(capacity), config)
}

fn take(caching: &mut Caching, bytes: u64) -> AllocatorBlock {
    caching.alloc(Bytes::new(bytes), 0).expect("it fits")
}

/// (allocated, reserved, inactive split) in bytes.
fn bytes(caching: &Caching) -> (u64, u64, u64) {
    let stats = caching.stats();
    (stats.allocated.get(), stats.reserved.get(), stats.inactive_split.get())
}

#[test]
fn sizes_are_rounded_to_512_bytes() {
    assert_eq!(
        [1, 511, 512, 513, 1024, 1025].map(|n| round_size(n, 0)),
        [512, 512, 512, 1024, 1024, 1536]
    );
}

#[test]
fn divisions_round_to_steps_between_powers_of_two() {
    // The example in the source's comment: 1200 in 4 divisions is 1280.
    assert_eq!(next_division(1200, 4), 1280);
    assert_eq!(
        [1024, 1025, 1281, 1537, 1793].map(|n| next_division(n, 4)),
        [1024, 1280, 1536, 1792, 2048]
    );
    // Up to 512 bytes per division the usual rule holds.
    assert_eq!([2048, 2049].map(|n| round_size(n, 4)), [2048, 2560]);
    assert_eq!(round_size(1200, 4), 1536);
}

#[test]
fn segments_follow_the_size_of_the_request() {
    let sizes = [512, MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 10 * MIB + 512, 21 * MIB];
    let segments = [2, 2, 20, 20, 10, 12, 22].map(|mib| mib * MIB);
    assert_eq!(sizes.map(|size| segment_size(size, LARGE_SEGMENT)), segments);
}

#[test]
fn small_requests_share_a_segment_of_2_mib() {
    let mut caching = caching(64 * MIB);
    let blocks: Vec<AllocatorBlock> = (0..4).map(|_| take(&mut caching, 512 * KIB)).collect();
    assert_eq!(bytes(&caching), (2 * MIB, 2 * MIB, 0));
    assert_eq!(blocks.iter().map(|block| block.at / KIB).collect::<Vec<_>>(), [0, 512, 1024, 1536]);
    take(&mut caching, 1);
    assert_eq!(bytes(&caching), (2 * MIB + 512, 4 * MIB, 2 * MIB - 512));
}

#[test]
fn a_small_block_is_split_down_to_512_bytes() {
    let mut caching = caching(64 * MIB);
    take(&mut caching, MIB);
    take(&mut caching, MIB - 512);
    assert_eq!(bytes(&caching), (2 * MIB - 512, 2 * MIB, 512));
    take(&mut caching, 1);
    assert_eq!(bytes(&caching), (2 * MIB, 2 * MIB, 0));
}

#[test]
fn a_large_block_is_split_only_if_more_than_1_mib_remains() {
    let mut whole = caching(64 * MIB);
    // 11 MiB get a segment of 12: 1 MiB is left over, and stays with the block.
    let block = take(&mut whole, 11 * MIB);
    assert_eq!((block.bytes.get(), bytes(&whole)), (12 * MIB, (12 * MIB, 12 * MIB, 0)));
    let mut split = caching(64 * MIB);
    let block = take(&mut split, 10 * MIB + 1);
    assert_eq!(block.bytes.get(), 10 * MIB + 512, "2 MiB less 512 bytes are cut off");
    assert_eq!(bytes(&split), (10 * MIB + 512, 12 * MIB, 2 * MIB - 512));
}

#[test]
fn the_smallest_free_block_that_fits_is_taken_and_the_lowest_of_equals() {
    let mut caching = caching(256 * MIB);
    let blocks = [30, 12, 20, 12].map(|mib| take(&mut caching, mib * MIB));
    blocks.iter().for_each(|block| caching.free(*block));
    assert_eq!(take(&mut caching, 12 * MIB).at, blocks[1].at);
    assert_eq!(take(&mut caching, 12 * MIB).at, blocks[3].at);
    assert_eq!(take(&mut caching, 12 * MIB).at, blocks[2].at);
    assert_eq!(bytes(&caching), (36 * MIB, 74 * MIB, 8 * MIB));
}

#[test]
fn streams_and_pools_do_not_share() {
    let mut caching = caching(64 * MIB);
    let block = take(&mut caching, 2 * MIB);
    caching.free(block);
    assert_eq!(bytes(&caching), (0, 20 * MIB, 0));
    caching.alloc(Bytes::new(2 * MIB), 1).expect("it fits");
    assert_eq!(bytes(&caching).1, 40 * MIB, "another stream gets its own segment");
    take(&mut caching, 1);
    assert_eq!(bytes(&caching).1, 42 * MIB, "so does the small pool");
}

#[test]
fn free_neighbours_join() {
    let mut caching = caching(64 * MIB);
    let blocks = [4, 4, 4].map(|mib| take(&mut caching, mib * MIB));
    caching.free(blocks[0]);
    assert_eq!(bytes(&caching).2, 12 * MIB);
    caching.free(blocks[2]);
    assert_eq!(bytes(&caching).2, 16 * MIB, "it joins the rest of the segment");
    assert_eq!(caching.stats().largest_free.get(), 44 * MIB, "which is not reserved");
    caching.free(blocks[1]);
    assert_eq!((bytes(&caching), caching.large.free.len()), ((0, 20 * MIB, 0), 1));
}

#[test]
fn a_full_device_is_cleaned_of_cached_segments_and_tried_again() {
    let mut caching = caching(40 * MIB);
    let cached = take(&mut caching, 30 * MIB);
    caching.free(cached);
    assert!(caching.fits(Bytes::new(32 * MIB), 0));
    take(&mut caching, 32 * MIB);
    assert_eq!((bytes(&caching), caching.stats().releases), ((32 * MIB, 32 * MIB, 0), 1));
}

#[test]
fn a_segment_that_is_split_cannot_be_released() {
    let mut caching = caching(42 * MIB);
    let blocks = [8, 8].map(|mib| take(&mut caching, mib * MIB));
    take(&mut caching, 20 * MIB);
    caching.free(blocks[0]);
    let need = Bytes::new(12 * MIB);
    assert!(!caching.fits(need, 0));
    // 8 MiB free in front, 4 behind, 2 not reserved: 14 in all, none of them 12 in a row.
    let full = Full { need, free: Bytes::mib(14), largest: Bytes::mib(8) };
    assert_eq!(caching.alloc(need, 0), Err(full));
    assert!(caching.stats().external() > 0.4);
}

#[test]
fn blocks_of_max_split_are_neither_split_nor_given_to_small_requests() {
    let config = CachingConfig { max_split: Some(Bytes::mib(32)), ..CachingConfig::default() };
    let mut caching = Caching::new(Bytes::mib(200), config);
    let oversize = take(&mut caching, 64 * MIB);
    caching.free(oversize);
    assert_ne!(take(&mut caching, 12 * MIB).at, oversize.at);
    assert_eq!(bytes(&caching), (12 * MIB, 76 * MIB, 0));
    // Oversize requests may be up to 20 MiB smaller than the block, which stays whole.
    assert_ne!(take(&mut caching, 44 * MIB).at, oversize.at);
    let block = take(&mut caching, 45 * MIB);
    assert_eq!((block.at, block.bytes), (oversize.at, oversize.bytes));
}

#[test]
fn oversize_blocks_are_released_first() {
    let config = CachingConfig { max_split: Some(Bytes::mib(32)), ..CachingConfig::default() };
    let mut caching = Caching::new(Bytes::mib(150), config);
    let blocks = [20, 40, 50].map(|mib| take(&mut caching, mib * MIB));
    blocks.iter().for_each(|block| caching.free(*block));
    take(&mut caching, 75 * MIB);
    // 50 is not enough, so 40 goes too; the cached segment of 20 may stay.
    assert_eq!((bytes(&caching).1, caching.stats().releases), (96 * MIB, 2));
}

#[test]
fn old_segments_are_collected_above_the_threshold() {
    let config = CachingConfig { garbage_collection_threshold: 0.5, ..CachingConfig::default() };
    let mut caching = Caching::new(Bytes::mib(100), config);
    let old = take(&mut caching, 30 * MIB);
    caching.free(old);
    let used = take(&mut caching, 32 * MIB);
    // 62 MiB are above half: before the next segment the old one goes.
    take(&mut caching, 40 * MIB);
    assert_eq!(bytes(&caching), (72 * MIB, 72 * MIB, 0));
    caching.free(used);
}

#[test]
fn emptying_the_cache_keeps_what_is_in_use() {
    let mut caching = caching(200 * MIB);
    let blocks = [1, 12, 30].map(|mib| take(&mut caching, mib * MIB));
    caching.free(blocks[1]);
    caching.empty_cache();
    assert_eq!(bytes(&caching), (31 * MIB, 32 * MIB, MIB));
    caching.free(blocks[0]);
    caching.free(blocks[2]);
    caching.empty_cache();
    assert_eq!(caching.free_sizes(), [Bytes::mib(200)]);
}

#[test]
fn a_block_that_a_stream_still_uses_is_active_and_not_allocated() {
    let mut caching = caching(64 * MIB);
    let block = take(&mut caching, 4 * MIB);
    caching.free_requested(block);
    let stats = caching.stats();
    assert_eq!((stats.allocated, stats.active), (Bytes::ZERO, Bytes::mib(4)));
    assert_ne!(take(&mut caching, 4 * MIB).at, block.at);
    caching.free_completed(block);
    assert_eq!(take(&mut caching, 4 * MIB).at, block.at);
}

#[test]
fn an_expandable_segment_grows_by_handles_and_leaves_no_slivers() {
    let mut caching = expandable(200 * MIB);
    let blocks = [11, 11, 11].map(|mib| take(&mut caching, mib * MIB));
    assert_eq!(blocks.map(|block| block.at / MIB), [0, 11, 22]);
    assert_eq!(bytes(&caching), (33 * MIB, 40 * MIB, 0));
    take(&mut caching, 1);
    assert_eq!(bytes(&caching).1, 42 * MIB, "the small pool has its own, of 2 MiB handles");
}

#[test]
fn an_expandable_block_is_split_down_to_512_bytes() {
    let mut caching = expandable(200 * MIB);
    let first = take(&mut caching, 20 * MIB - 512);
    let second = take(&mut caching, 2 * MIB);
    assert_eq!((first.bytes.get(), second.at), (20 * MIB - 512, 20 * MIB - 512));
    assert_eq!(bytes(&caching), (22 * MIB - 512, 40 * MIB, 0));
}

#[test]
fn handles_that_are_all_free_are_unmapped_when_memory_is_out() {
    let mut caching = expandable(80 * MIB);
    let blocks = [30, 10, 40].map(|mib| take(&mut caching, mib * MIB));
    assert_eq!(bytes(&caching).1, 80 * MIB);
    caching.free(blocks[0]);
    // Of the first 30 MiB one handle of 20 MiB is free as a whole; 10 MiB stay mapped.
    caching.empty_cache();
    assert_eq!(bytes(&caching), (50 * MIB, 60 * MIB, 0));
    // Addresses 0 to 30 MiB are free: one handle is mapped again and joins the rest.
    assert_eq!(take(&mut caching, 30 * MIB).at, 0);
    assert_eq!(bytes(&caching).1, 80 * MIB);
    caching.free(blocks[1]);
    caching.free(blocks[2]);
    caching.free(AllocatorBlock { at: 0, bytes: Bytes::mib(30) });
    caching.empty_cache();
    assert_eq!((caching.free_sizes(), caching.expandable.len()), (vec![Bytes::mib(80)], 1));
    assert!(caching.expandable[0].is_none());
}

#[test]
fn best_fit_prefers_a_block_that_cannot_grow() {
    let mut caching = expandable(400 * MIB);
    let blocks = [20, 4, 20, 4, 12].map(|mib| take(&mut caching, mib * MIB));
    caching.free(blocks[2]);
    caching.free(blocks[4]);
    // The last block is free with 12 MiB and can grow; the hole of 20 MiB cannot, and is taken.
    assert_eq!(take(&mut caching, 10 * MIB).at, blocks[2].at);
}

#[test]
fn large_segments_and_handles_are_as_large_as_set() {
    let mut plain = caching(400 * MIB);
    plain.set_large_segment(Bytes::mib(12));
    let block = take(&mut plain, 2 * MIB);
    assert_eq!(bytes(&plain), (2 * MIB, 12 * MIB, 10 * MIB));
    plain.free(block);
    take(&mut plain, 11 * MIB);
    assert_eq!(bytes(&plain).1, 12 * MIB, "a cached segment is as good");
    let mut growing = expandable(400 * MIB);
    growing.set_large_segment(Bytes::mib(12));
    take(&mut growing, 13 * MIB);
    assert_eq!(bytes(&growing).1, 24 * MIB);
}

#[test]
fn expandable_blocks_are_not_handed_out_once_switched_off() {
    let mut caching = expandable(400 * MIB);
    let old = take(&mut caching, 30 * MIB);
    caching.free(old);
    caching.set_expandable(false);
    let plain = take(&mut caching, 30 * MIB);
    assert_ne!(plain.at, old.at);
    assert_eq!(bytes(&caching), (30 * MIB, 70 * MIB, 0));
    caching.free(plain);
    assert_eq!(take(&mut caching, 30 * MIB).at, plain.at, "a plain segment is");
}

#[test]
fn streams_that_are_kept_keep_their_segments() {
    let mut caching = caching(400 * MIB);
    let private = caching.alloc(Bytes::mib(30), 1).expect("it fits");
    let shared = take(&mut caching, 30 * MIB);
    caching.keep(1, true);
    caching.free(private);
    caching.free(shared);
    caching.empty_cache();
    assert_eq!(bytes(&caching).1, 30 * MIB);
    assert_eq!(caching.segments(), [(private.at, 30 * MIB)]);
    caching.keep(1, false);
    caching.empty_cache();
    assert_eq!(bytes(&caching).1, 0);
}

#[test]
fn only_named_segments_that_are_free_as_a_whole_are_released() {
    let mut caching = caching(400 * MIB);
    let blocks = [30, 32, 34].map(|mib| take(&mut caching, mib * MIB));
    caching.free(blocks[0]);
    caching.free(blocks[1]);
    caching.release_at(&BTreeSet::from([blocks[1].at, blocks[2].at]));
    assert_eq!(bytes(&caching), (34 * MIB, 64 * MIB, 0));
}

#[test]
fn a_request_that_looked_too_early_gets_new_memory() {
    let mut caching = caching(100 * MIB);
    let block = take(&mut caching, 30 * MIB);
    caching.free(block);
    let new = caching.alloc_new(Bytes::mib(30), 0, None).expect("it fits");
    assert_ne!(new.at, block.at);
    assert_eq!(bytes(&caching), (30 * MIB, 60 * MIB, 0));
    let last = caching.alloc_new(Bytes::mib(50), 0, None).expect("after a release");
    assert_eq!((last.bytes, bytes(&caching).1), (Bytes::mib(50), 80 * MIB));
}
