//! Caches side by side: one per capacity, fed with the same requests.
//!
//! A batch goes through one cache after the other, so that the inner loop is of one algorithm and
//! one capacity, without a call through a table for each request.
//! Invariant: a cache sees dense ids, given in the order of first requests.

use super::table::{FREE, Table};
use super::{Misses, Setup};
use tiersim_models::block_trace::Request;
use tiersim_policies::replacement::{Cache, Outcome, Replacement, Visit};

/// All caches of a replay.
pub(crate) struct SizedCaches {
    ids: Table,
    hashes: Vec<u64>,
    batch: Vec<Known>,
    caches: Vec<SizedCache>,
}

/// What a cache has missed, and what feeds it with requests, whatever its algorithm.
type SizedCache = (Misses, Box<dyn FnMut(&[Known], &mut Misses)>);

/// A request for an object by its id.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: u32,
    bytes: u64,
    next: u64,
}

impl SizedCaches {
    /// Empty caches, one for each capacity of the setup, rising.
    pub(crate) fn new(setup: &Setup) -> SizedCaches {
        let mut capacities = setup.capacities.clone();
        capacities.sort_unstable();
        capacities.dedup();
        let cache = |capacity| setup.algorithm.with(capacity, Make { capacity, unit: setup.unit });
        SizedCaches {
            ids: Table::new(),
            hashes: Vec::new(),
            batch: Vec::new(),
            caches: capacities.into_iter().map(cache).collect(),
        }
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> usize {
        self.ids.len()
    }

    /// Feeds requests to every cache.
    pub(crate) fn feed(&mut self, requests: &[Request]) {
        self.hashes.clear();
        self.hashes.extend(requests.iter().map(|request| self.ids.hash(request.object)));
        // As in the stack: searches wait for memory together.
        std::hint::black_box(self.hashes.iter().fold(0, |all, hash| all ^ self.ids.touch(*hash)));
        self.batch.clear();
        for (request, hash) in requests.iter().zip(&self.hashes) {
            let next = self.ids.len() as u32;
            let id = self.ids.number(request.object, *hash);
            if *id == FREE {
                *id = next;
            }
            self.batch.push(Known { id: *id, bytes: request.bytes, next: request.next });
        }
        for (missed, feed) in &mut self.caches {
            feed(&self.batch, missed);
        }
    }

    /// What each cache missed.
    pub(crate) fn results(&self) -> Vec<Misses> {
        self.caches.iter().map(|&(missed, _)| missed).collect()
    }
}

/// Makes the cache of a capacity.
struct Make {
    capacity: u64,
    unit: bool,
}

impl Visit for Make {
    type Out = SizedCache;

    fn visit<R: Replacement + 'static>(self, rule: R) -> SizedCache {
        let Make { capacity, unit } = self;
        let mut cache = if unit { Cache::unit(rule, capacity) } else { Cache::new(rule, capacity) };
        let feed = move |batch: &[Known], missed: &mut Misses| {
            for &Known { id, bytes, next } in batch {
                let outcome = match R::ORACLE {
                    true => cache.access_knowing(id, bytes, next),
                    false => cache.access(id, bytes),
                };
                if outcome == Outcome::Miss {
                    missed.misses += 1;
                    missed.bytes += bytes;
                }
            }
        };
        (Misses { capacity, misses: 0, bytes: 0 }, Box::new(feed))
    }
}
