//! How fast the allocator models are: nanoseconds per request, and against the plain pool.
//!
//! `cargo bench -p tiersim --bench allocators`: all models replay the same two sequences in one
//! process, taking turns, so that a noisy machine disturbs all alike; medians and ratios are
//! printed. *Steps* asks and gives back as a training loop does, last in first out with other sizes
//! in each step; *churn* gives back at random. These are the costs of simulating an allocator, not
//! those of allocating memory.

mod timing;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use tiersim_models::allocator::{
    Allocator, AllocatorBlock, AllocatorSpec, BucketsConfig, BuddyConfig, CachingConfig, Model,
};
use tiersim_models::units::Bytes;
use timing::{median, ratio, seconds};

const ROUNDS: usize = 15;
const CAPACITY: Bytes = Bytes::gib(80);
/// Live blocks at most.
const SLOTS: usize = 1000;

/// A request for a slot of the program, or its end.
enum Request {
    Alloc(usize, Bytes),
    Free(usize),
}

fn size(rng: &mut ChaCha12Rng) -> Bytes {
    let power = rng.random_range(6.0..25.0f64);
    Bytes::new(power.exp2() as u64)
}

/// Forward and backward passes over 500 layers' outputs each.
fn steps() -> Vec<Request> {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut requests = Vec::new();
    for _ in 0..200 {
        let slots = SLOTS / 2;
        requests.extend((0..slots).map(|slot| Request::Alloc(slot, size(&mut rng))));
        requests.extend((0..slots).rev().map(Request::Free));
    }
    requests
}

fn churn() -> Vec<Request> {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    let mut live = [false; SLOTS];
    let requests = (0..200_000).map(|_| {
        let slot = rng.random_range(0..SLOTS);
        live[slot] = !live[slot];
        if live[slot] { Request::Alloc(slot, size(&mut rng)) } else { Request::Free(slot) }
    });
    requests.collect()
}

/// Nanoseconds per request.
fn replay(allocator: &mut dyn Allocator, requests: &[Request]) -> f64 {
    let mut blocks: Vec<Option<AllocatorBlock>> = vec![None; SLOTS];
    let span = seconds(|| {
        for request in requests {
            match *request {
                Request::Alloc(slot, bytes) => blocks[slot] = allocator.alloc(bytes, 0).ok(),
                Request::Free(slot) => {
                    if let Some(block) = blocks[slot].take() {
                        allocator.free(block);
                    }
                }
            }
        }
    });
    black_box(allocator.stats());
    span * 1e9 / requests.len() as f64
}

fn main() {
    // `cargo test --benches` passes flags of the test harness; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let expandable = CachingConfig { expandable_segments: true, ..CachingConfig::default() };
    let models = [
        ("pool", Model::Pool),
        ("exact", Model::Exact),
        ("caching", Model::Caching(CachingConfig::default())),
        ("caching, expandable", Model::Caching(expandable)),
        ("buckets", Model::Buckets(BucketsConfig::default())),
        ("buckets, adaptive", Model::Buckets(BucketsConfig { adaptive: true })),
        ("buddy", Model::Buddy(BuddyConfig::default())),
    ];
    for (name, requests) in [("steps", steps()), ("churn", churn())] {
        println!("{name}: {} requests, median of {ROUNDS} rounds", requests.len());
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); models.len()];
        for _ in 0..ROUNDS {
            for ((_, model), times) in models.iter().zip(&mut times) {
                let spec = AllocatorSpec { model: model.clone(), compaction: None };
                times.push(replay(&mut *spec.build(CAPACITY), &requests));
            }
        }
        for ((name, _), rounds) in models.iter().zip(&times) {
            let (time, ratio) = (median(rounds.clone()), ratio(rounds, &times[0]));
            println!("  {name:20} {time:7.1} ns  {ratio:6.3} x the pool");
        }
    }
}
