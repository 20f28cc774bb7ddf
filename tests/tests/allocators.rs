//! Allocator models: what must hold of all of them, and independent implementations to agree with.

mod buddy_oracle;
mod caching_oracle;

use tiersim_models::allocator::caching::Caching;
use tiersim_models::allocator::{Allocator, AllocatorBlock, Model};
use tiersim_tests::prelude::*;

const CAPACITY: Bytes = Bytes::mib(192);

/// A request: mostly small, sometimes of many MiB, often of a size that was asked for before.
fn size(rng: &mut ChaCha12Rng) -> u64 {
    match rng.random_range(0..10) {
        0..4 => rng.random_range(1..8000),
        4..6 => rng.random_range(1..2 << 20),
        6 => 512 << rng.random_range(0..16),
        7 => rng.random_range(1..8) * (3 << 20),
        _ => rng.random_range(1..24 << 20),
    }
}

fn caching(rng: &mut ChaCha12Rng) -> CachingConfig {
    CachingConfig {
        expandable_segments: rng.random_bool(0.4),
        max_split: rng.random_bool(0.3).then_some(Bytes::mib(24)),
        roundup_power2_divisions: [0, 0, 4, 8][rng.random_range(0..4)],
        garbage_collection_threshold: [0.0, 0.0, 0.7][rng.random_range(0..3)],
        ..CachingConfig::default()
    }
}

fn models(rng: &mut ChaCha12Rng) -> Vec<AllocatorSpec> {
    let models = [
        Model::Exact,
        Model::Pool,
        Model::Caching(caching(rng)),
        Model::Buckets(BucketsConfig { adaptive: rng.random_bool(0.5) }),
        Model::Buddy(BuddyConfig { least: Bytes::new(1 << rng.random_range(0..12)) }),
    ];
    models.into_iter().map(|model| AllocatorSpec { model, compaction: None }).collect()
}

/// What must hold of an allocator with these live blocks: (block, requested).
fn check(allocator: &dyn Allocator, live: &[(AllocatorBlock, u64)], name: &str) {
    let stats = allocator.stats();
    let sum = |bytes: &mut dyn Iterator<Item = u64>| Bytes::new(bytes.sum());
    assert_eq!(stats.requested, sum(&mut live.iter().map(|(_, asked)| *asked)), "{name}");
    assert_eq!(stats.allocated, sum(&mut live.iter().map(|(b, _)| b.bytes.get())), "{name}");
    assert!(stats.requested <= stats.allocated && stats.allocated <= stats.reserved, "{name}");
    assert!(stats.reserved <= stats.capacity && stats.capacity <= CAPACITY, "{name}");
    assert_eq!(stats.active + stats.free, stats.capacity, "{name}");
    assert!(stats.inactive_split <= stats.reserved - stats.active, "{name}");
    let sizes = allocator.free_sizes();
    assert_eq!(sizes.iter().copied().sum::<Bytes>(), stats.free, "{name}");
    assert_eq!(sizes.into_iter().max().unwrap_or(Bytes::ZERO), stats.largest_free, "{name}");
    if name == "exact" {
        return; // it has no addresses
    }
    let mut blocks: Vec<AllocatorBlock> = live.iter().map(|(block, _)| *block).collect();
    blocks.sort_by_key(|block| block.at);
    assert!(blocks.windows(2).all(|pair| pair[0].end() <= pair[1].at), "{name}: blocks overlap");
    assert!(live.iter().all(|(block, asked)| block.bytes.get() >= *asked), "{name}");
    // Addresses of the caching allocator are virtual: its segments are bounded, not they.
    if let Some(last) = blocks.last().filter(|_| name != "caching") {
        assert!(last.end() <= CAPACITY.get(), "{name}: outside the capacity");
    }
}

#[test]
fn blocks_never_overlap_and_bytes_add_up() {
    for seed in 0..12 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        for spec in models(&mut rng) {
            let name = spec.model.name();
            let mut allocator = spec.build(CAPACITY);
            let mut live: Vec<(AllocatorBlock, u64)> = Vec::new();
            for _ in 0..600 {
                if live.is_empty() || rng.random_bool(0.55) {
                    let (bytes, stream) = (size(&mut rng), rng.random_range(0..3));
                    let fits = allocator.fits(Bytes::new(bytes), stream);
                    let got = allocator.alloc(Bytes::new(bytes), stream);
                    assert_eq!(fits, got.is_ok(), "{name}, seed {seed}: {bytes}");
                    live.extend(got.ok().map(|block| (block, bytes)));
                } else {
                    let (block, _) = live.swap_remove(rng.random_range(0..live.len()));
                    allocator.free(block);
                }
                check(&*allocator, &live, name);
            }
            live.drain(..).for_each(|(block, _)| allocator.free(block));
            let stats = allocator.stats();
            assert_eq!((stats.allocated, stats.free), (Bytes::ZERO, stats.capacity), "{name}");
        }
    }
}

#[test]
fn after_everything_is_freed_one_piece_is_left() {
    for seed in 0..12 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let config = caching(&mut rng);
        let mut caching = Caching::new(CAPACITY, config);
        let power = Bytes::mib(128);
        let mut others: Vec<Box<dyn Allocator>> = models(&mut rng)
            .into_iter()
            .filter(|spec| spec.model.name() != "caching")
            .map(|spec| spec.build(power))
            .collect();
        let mut all: Vec<&mut dyn Allocator> = vec![&mut caching];
        all.extend(others.iter_mut().map(|other| &mut **other as &mut dyn Allocator));
        for allocator in all {
            let asked = (0..300).map(|_| (Bytes::new(size(&mut rng)), rng.random_range(0..3)));
            let asked: Vec<(Bytes, u16)> = asked.collect();
            let blocks: Vec<AllocatorBlock> = asked
                .into_iter()
                .filter_map(|(bytes, stream)| allocator.alloc(bytes, stream).ok())
                .collect();
            blocks.into_iter().for_each(|block| allocator.free(block));
        }
        caching.empty_cache();
        assert_eq!(caching.free_sizes(), [CAPACITY], "{config:?}");
        assert!(others.iter().all(|other| other.free_sizes() == [power]));
    }
}

#[test]
fn compaction_keeps_every_block_and_makes_larger_pieces() {
    for seed in 0..20 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        for spec in models(&mut rng).into_iter().filter(|spec| spec.model.moves()) {
            let name = spec.model.name();
            let mut allocator = spec.build(CAPACITY);
            let mut live: Vec<(AllocatorBlock, u64)> = Vec::new();
            for round in 0..8 {
                for _ in 0..120 {
                    let bytes = size(&mut rng);
                    let got = allocator.alloc(Bytes::new(bytes), 0);
                    live.extend(got.ok().map(|block| (block, bytes)));
                }
                for _ in 0..live.len() / 2 {
                    let (block, _) = live.swap_remove(rng.random_range(0..live.len()));
                    allocator.free(block);
                }
                let before = allocator.stats();
                let budget = if round % 2 == 0 { Bytes::MAX } else { Bytes::mib(4) };
                let moves = allocator.compact(budget);
                let held: Vec<(usize, AllocatorBlock)> = moves
                    .iter()
                    .map(|(was, is)| {
                        let found = live.iter().position(|(block, _)| *block == was);
                        (found.expect("only live blocks move"), is)
                    })
                    .collect();
                held.into_iter().for_each(|(index, is)| live[index].0 = is);
                check(&*allocator, &live, name);
                let after = allocator.stats();
                assert_eq!(
                    (before.requested, before.allocated),
                    (after.requested, after.allocated)
                );
                if budget == Bytes::MAX {
                    assert!(after.largest_free >= before.largest_free, "{name}, seed {seed}");
                    assert!(
                        allocator.compact(budget).is_empty(),
                        "{name}: nothing is left to gain"
                    );
                }
                if budget == Bytes::MAX && name == "pool" {
                    assert_eq!(after.external(), 0.0);
                }
            }
        }
    }
}
