//! Every algorithm against the naive one, request by request, on random traces of unit sizes.

use crate::replacement::naive;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_policies::replacement::{Algorithm, Cache, NEVER, Outcome, Replacement, Visit};

/// Which requests miss.
pub(crate) struct Replay<'a> {
    pub(crate) trace: &'a [u32],
    pub(crate) capacity: u64,
}

impl Visit for Replay<'_> {
    type Out = Vec<bool>;

    fn visit<R: Replacement + 'static>(self, rule: R) -> Vec<bool> {
        let mut cache = Cache::unit(rule, self.capacity);
        let nexts = next_uses(self.trace);
        let one = |(&id, next)| cache.access_knowing(id, 1, next) == Outcome::Miss;
        self.trace.iter().zip(nexts).map(one).collect()
    }
}

pub(crate) fn next_uses(trace: &[u32]) -> Vec<u64> {
    let mut seen = std::collections::BTreeMap::new();
    let mut next: Vec<u64> = trace
        .iter()
        .enumerate()
        .rev()
        .map(|(at, &id)| seen.insert(id, at as u64).unwrap_or(NEVER))
        .collect();
    next.reverse();
    next
}

/// Uniform, skewed, loops and walks, one after the other.
pub(crate) fn trace(rng: &mut ChaCha12Rng, ids: u32, length: usize) -> Vec<u32> {
    let mut trace = Vec::with_capacity(length);
    while trace.len() < length {
        let from = rng.random_range(0..ids);
        let span = rng.random_range(1..=ids);
        let kind = rng.random_range(0..4);
        for step in 0..rng.random_range(1..40) {
            trace.push(match kind {
                0 => rng.random_range(0..ids),
                1 => rng.random_range(0..ids).min(rng.random_range(0..ids)) / 2,
                2 => (from + step % span) % ids,
                _ => (from + rng.random_range(0..3)) % ids,
            });
        }
    }
    trace.truncate(length);
    trace
}

/// Ten thousand traces for each; the largest cache is stated.
#[test]
fn every_algorithm_equals_the_naive_one_or_the_papers_rules() {
    type ByHand = fn(&[u32], usize) -> Vec<bool>;
    let all: [(Algorithm, usize, ByHand); 11] = [
        (Algorithm::Lru, 24, naive::lru),
        (Algorithm::Fifo, 24, naive::fifo),
        (Algorithm::Lfu, 24, naive::lfu),
        (Algorithm::Clock, 24, naive::clock),
        (Algorithm::Sieve, 24, naive::sieve),
        (Algorithm::Belady, 24, naive::belady),
        (Algorithm::Arc, 24, naive::arc),
        (Algorithm::S3Fifo, 80, naive::s3_fifo),
        (Algorithm::Slru, 40, naive::slru),
        (Algorithm::TwoQ, 40, naive::two_q),
        (Algorithm::LirsPaper, 24, naive::lirs),
    ];
    for (algorithm, most, by_hand) in all {
        let mut rng = ChaCha12Rng::seed_from_u64(algorithm as u64);
        let mut evictions = 0;
        for round in 0..10_000 {
            let capacity = rng.random_range(1..=most);
            let ids = rng.random_range(1..=(capacity as u32 + 2) * 2);
            let length = rng.random_range(1..=150 + capacity);
            let trace = trace(&mut rng, ids, length);
            let replay = Replay { trace: &trace, capacity: capacity as u64 };
            let ours = algorithm.with(capacity as u64, replay);
            let expected = by_hand(&trace, capacity);
            assert_eq!(ours, expected, "{algorithm:?}, {round}: {trace:?} with {capacity}");
            evictions += ours.iter().filter(|&&missed| missed).count().saturating_sub(capacity);
        }
        assert!(evictions > 50_000, "{algorithm:?}: the traces are too easy: {evictions}");
    }
}
