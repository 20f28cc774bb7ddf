//! The smallest capacity in which an allocator serves a trace.
//!
//! Bisection finds a capacity that serves, one granule below which does not. With more memory an
//! allocator may place blocks otherwise, and then fail: best fit takes the rest at the end where
//! that is the smallest hole, caches are emptied when memory runs out. So capacities below are
//! tried too, all of them where that is not too much work, and some above; what they show is said.
//! Invariant: what is given back serves, by a replay of every request, and never more of it is
//! claimed than replays have shown.

use crate::trace_memory::replay::{least_blocks, serve};
use std::collections::BTreeMap;
use tiersim_models::allocator::{AllocatorSpec, LARGEST};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::trace_memory::{LeastPool, Proof};
use tiersim_models::units::Bytes;

/// Requests that all replays together may take, beside those of the bisection.
const MOST_REQUESTS: u64 = 2_000_000;
/// Replays of other capacities at least.
const LEAST_TRIES: u64 = 16;
/// Capacities above that are tried.
const ABOVE: u64 = 16;

/// Capacities in granules, and whether they serve.
struct Tries<'a> {
    workload: &'a Workload,
    spec: &'a AllocatorSpec,
    granule: u64,
    known: BTreeMap<u64, bool>,
}

impl Tries<'_> {
    fn serves(&mut self, granules: u64) -> bool {
        let bytes = Bytes::new(granules * self.granule);
        let (workload, spec) = (self.workload, self.spec);
        *self.known.entry(granules).or_insert_with(|| serve(workload, spec, bytes).is_ok())
    }

    /// The boundary between `fails` and `works`: the capacity above it.
    fn bisect(&mut self, mut fails: u64, mut works: u64) -> u64 {
        while works - fails > 1 {
            let middle = fails + (works - fails) / 2;
            if self.serves(middle) {
                works = middle;
            } else {
                fails = middle;
            }
        }
        works
    }
}

/// The least pool; `ample` is what the allocator keeps where memory is not short, in which it need
/// not do with so much.
///
/// Panics if the trace is not served in [`LARGEST`] either.
pub fn least_pool(workload: &Workload, spec: &AllocatorSpec, ample: Bytes) -> LeastPool {
    let granule = spec.model.granule();
    let mut tries = Tries { workload, spec, granule: granule.get(), known: BTreeMap::new() };
    let floor = least_blocks(workload, spec).get().div_ceil(granule.get());
    let largest = LARGEST.get() / granule.get();
    if tries.serves(floor) {
        return tries.found(floor, Proof::Floor, granule);
    }
    let mut works = ample.get().div_ceil(granule.get()).clamp(floor + 1, largest);
    while !tries.serves(works) {
        assert!(works < largest, "the largest capacity serves");
        works = (works + works / 8 + 1).min(largest);
    }
    let mut least = tries.bisect(floor, works);
    // A capacity below that serves after all is the new one to go below of.
    let requests: usize = workload.trace.objects.len().max(1);
    let tried = (MOST_REQUESTS / requests as u64).max(LEAST_TRIES);
    loop {
        let below = least - floor - 1;
        let step = below.div_ceil(tried).max(1);
        let serving = (1..=below.div_ceil(step)).map(|at| floor + at * step);
        let lower = serving.take_while(|&at| at < least).find(|&at| tries.serves(at));
        match lower {
            Some(lower) => least = tries.bisect(lower.saturating_sub(step).max(floor), lower),
            None => {
                let all = tries.known.range(floor..least).count() as u64;
                let of = least - floor;
                let proof = if all == of { Proof::All } else { Proof::Some { tried: all, of } };
                let above = works - least;
                for at in 1..ABOVE {
                    tries.serves(least + above * at / ABOVE);
                }
                return tries.found(least, proof, granule);
            }
        }
    }
}

impl Tries<'_> {
    fn found(&self, least: u64, proof: Proof, granule: Bytes) -> LeastPool {
        let above = self.known.range(least..).rev();
        let fails = above.filter(|(_, serves)| !**serves).map(|(at, _)| *at).next();
        LeastPool {
            bytes: Bytes::new(least * granule.get()),
            granule,
            proof,
            fails_above: fails.map(|at| Bytes::new(at * granule.get())),
            replays: self.known.len() as u64,
        }
    }
}
