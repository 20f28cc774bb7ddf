//! What is a theorem, by random traces; what looks like one and is not, as golden counterexamples.

use crate::replacement::random::{Replay, trace};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_policies::replacement::{Algorithm, Cache, Lru, Outcome};

fn misses(algorithm: Algorithm, trace: &[u32], capacity: u64) -> usize {
    let missed = algorithm.with(capacity, Replay { trace, capacity });
    missed.into_iter().filter(|&missed| missed).count()
}

/// The fewest misses that any choice of victims allows: all of them are tried.
fn fewest(trace: &[u32], held: u32, capacity: u32) -> usize {
    let Some((&id, rest)) = trace.split_first() else { return 0 };
    let bit = 1 << id;
    if held & bit != 0 {
        return fewest(rest, held, capacity);
    }
    if held.count_ones() < capacity {
        return 1 + fewest(rest, held | bit, capacity);
    }
    let victims = (0..32).filter(|&victim| held & (1 << victim) != 0);
    let best = victims.map(|victim| fewest(rest, held & !(1 << victim) | bit, capacity)).min();
    1 + best.expect("a full cache has a victim")
}

#[test]
fn belady_is_the_best_of_all_choices_on_tiny_traces() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    for round in 0..10_000 {
        let capacity = rng.random_range(1..=3);
        let length = rng.random_range(1..=10);
        let trace = trace(&mut rng, 5, length);
        let best = fewest(&trace, 0, capacity);
        let ours = misses(Algorithm::Belady, &trace, u64::from(capacity));
        assert_eq!(ours, best, "round {round}: {trace:?} with {capacity}");
        for algorithm in Algorithm::ALL {
            let theirs = misses(algorithm, &trace, u64::from(capacity));
            // The other simulator's LIRS counts hits on what has left.
            assert!(algorithm == Algorithm::Lirs || theirs >= best, "{algorithm:?}: {trace:?}");
        }
    }
}

#[test]
fn a_larger_lru_holds_all_that_a_smaller_one_holds() {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    for _ in 0..1000 {
        let trace = trace(&mut rng, 12, 100);
        let missed = |capacity| Algorithm::Lru.with(capacity, Replay { trace: &trace, capacity });
        let all: Vec<Vec<bool>> = (1..=13).map(missed).collect();
        for pair in all.windows(2) {
            assert!(pair[0].iter().zip(&pair[1]).all(|(small, large)| small >= large));
        }
    }
}

#[test]
fn belady_with_more_capacity_never_misses_more() {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    for _ in 0..1000 {
        let trace = trace(&mut rng, 12, 100);
        let all: Vec<usize> = (1..=13).map(|c| misses(Algorithm::Belady, &trace, c)).collect();
        assert!(all.is_sorted_by(|small, large| small >= large), "{trace:?}: {all:?}");
    }
}

/// The trace of Belady, Nelson and Shedler (1969).
#[test]
fn golden_fifo_misses_more_with_four_frames_than_with_three() {
    let trace = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    assert_eq!(misses(Algorithm::Fifo, &trace, 3), 9);
    assert_eq!(misses(Algorithm::Fifo, &trace, 4), 10);
}

fn lru_with_sizes(trace: &[(u32, u64)], capacity: u64) -> usize {
    let mut cache = Cache::new(Lru::default(), capacity);
    let missed = |&&(id, bytes): &&(u32, u64)| cache.access(id, bytes) == Outcome::Miss;
    trace.iter().filter(missed).count()
}

/// A cache of two refuses the large object and keeps the others; one of three lets it in, and it
/// drives them out.
#[test]
fn golden_lru_with_mixed_sizes_misses_more_with_more_capacity() {
    let trace = [(0, 1), (1, 1), (2, 3), (0, 1), (1, 1)];
    assert_eq!(lru_with_sizes(&trace, 2), 3);
    assert_eq!(lru_with_sizes(&trace, 3), 5);
    assert_eq!(lru_with_sizes(&trace, 4), 5);
    assert_eq!(lru_with_sizes(&trace, 5), 3);
}

/// What LRU holds is always the start of one list by recency, so inclusion needs no unit sizes: it
/// needs that no object is too large.
#[test]
fn lru_with_mixed_sizes_is_monotone_exactly_from_the_largest_object_on() {
    let mut rng = ChaCha12Rng::seed_from_u64(4);
    let mut found = 0;
    for _ in 0..2000 {
        let sizes: Vec<u64> = (0..6).map(|_| rng.random_range(1..=4)).collect();
        let trace: Vec<(u32, u64)> =
            trace(&mut rng, 6, 30).into_iter().map(|id| (id, sizes[id as usize])).collect();
        let all: Vec<usize> = (1..=24).map(|c| lru_with_sizes(&trace, c)).collect();
        assert!(all[3..].is_sorted_by(|small, large| small >= large), "{trace:?}: {all:?}");
        found += usize::from(!all.is_sorted_by(|small, large| small >= large));
    }
    assert!(found > 100, "{found} counterexamples in 2000 traces");
}
