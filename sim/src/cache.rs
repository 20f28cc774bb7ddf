//! Replay of a block or page trace through one replacement policy, at one or many capacities.
//!
//! LRU over objects that count 1 each is answered for every capacity at once (`stack`); every
//! other policy runs in one cache per capacity, side by side, so that the file is read once.
//! Invariant: what a capacity gives does not depend on the others that were asked for.

mod curve;
mod next_use;
mod sized;
mod stack;
mod table;

use curve::Distances;
use next_use::{Ahead, Promises};
use sized::SizedCaches;
use stack::Stack;
use std::path::Path;
use tiersim_models::block_trace::{BATCH, Request, Requests};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::results::cache::{CacheRecord, Misses};
use tiersim_policies::replacement::Algorithm;

/// What to replay a trace through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The policy.
    pub algorithm: Algorithm,
    /// Does every object count 1? Else each counts its bytes.
    pub unit: bool,
    /// Capacities of the cache in objects or bytes, in any order, each 1 or more.
    pub capacities: Vec<u64>,
}

/// The most different objects: numbers and positions are of 32 bits.
const MOST_OBJECTS: usize = 1 << 29;

/// Progress is told after so many requests.
const PROGRESS: u64 = 1 << 20;

/// Requests and bytes so far.
struct Totals<'a, F> {
    path: &'a Path,
    requests: u64,
    bytes: u64,
    progress: F,
}

impl<F: FnMut(u64)> Totals<'_, F> {
    fn add(&mut self, batch: &[Request], objects: usize) -> Result<(), Diagnostics> {
        // A batch has fewer than 2^20 requests of at most 2^44 bytes.
        let bytes = batch.iter().map(|request| request.bytes).sum();
        let Some(bytes) = self.bytes.checked_add(bytes) else {
            let rule = "all requests together ask for less than 2^64 bytes";
            return Err(Diagnostics::one(self.path, None, rule, "more", "split the trace"));
        };
        if objects > MOST_OBJECTS {
            let rule = format!("at most {MOST_OBJECTS} different objects");
            let remedy = "split the trace, or keep a sample of its objects";
            return Err(Diagnostics::one(self.path, None, rule, "more", remedy));
        }
        self.requests += batch.len() as u64;
        self.bytes = bytes;
        if self.requests / PROGRESS > (self.requests - batch.len() as u64) / PROGRESS {
            (self.progress)(self.requests);
        }
        Ok(())
    }
}

/// Replays the requests of a file, which `open` gives from their beginning, with sizes if it is
/// told so; `progress` is called now and then with the number of requests so far.
///
/// # Errors
/// What is wrong with the file; for an oracle also records that are wrong about the requests to
/// come.
pub fn replay<R: Requests>(
    path: &Path,
    setup: &Setup,
    open: impl Fn(bool) -> Result<R, Diagnostics>,
    progress: impl FnMut(u64),
) -> Result<CacheRecord, Diagnostics> {
    let mut totals = Totals { path, requests: 0, bytes: 0, progress };
    let (objects, results, curve) = if setup.unit && setup.algorithm == Algorithm::Lru {
        stack_distances(&mut totals, setup, open(false)?)?
    } else {
        side_by_side(&mut totals, setup, open)?
    };
    if totals.requests == 0 {
        let remedy = "name a trace that holds some";
        return Err(Diagnostics::one(path, None, "a trace has one request or more", "0", remedy));
    }
    Ok(CacheRecord {
        trace: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        policy: setup.algorithm.name().to_owned(),
        oracle: setup.algorithm.is_oracle(),
        unit: setup.unit,
        requests: totals.requests,
        objects: objects as u64,
        bytes: totals.bytes,
        results,
        curve,
    })
}

/// Objects, misses at the capacities asked for, and at others.
type Counts = (usize, Vec<Misses>, Vec<Misses>);

fn stack_distances(
    totals: &mut Totals<'_, impl FnMut(u64)>,
    setup: &Setup,
    mut requests: impl Requests,
) -> Result<Counts, Diagnostics> {
    let (mut stack, mut distances) = (Stack::new(), Distances::new(&setup.capacities));
    let (mut batch, mut hashes) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    loop {
        requests.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok((stack.objects(), distances.results(), distances.curve()));
        }
        totals.add(&batch, stack.objects())?;
        hashes.clear();
        hashes.extend(batch.iter().map(|request: &Request| stack.hash(request.object)));
        // Searches wait for memory. Those of a batch wait together, and then find all near.
        std::hint::black_box(hashes.iter().fold(0, |all, hash| all ^ stack.touch(*hash)));
        for (request, hash) in batch.iter().zip(&hashes) {
            let distance = stack.request(request.object, *hash);
            distances.count(distance, request.bytes);
        }
    }
}

fn side_by_side<R: Requests>(
    totals: &mut Totals<'_, impl FnMut(u64)>,
    setup: &Setup,
    open: impl Fn(bool) -> Result<R, Diagnostics>,
) -> Result<Counts, Diagnostics> {
    let path = totals.path;
    let mut requests = open(!setup.unit)?;
    let oracle = setup.algorithm.is_oracle();
    let ahead = match oracle && !requests.knows_next() {
        true => Some(Ahead::read(path, open(!setup.unit)?)?),
        false => None,
    };
    let mut promises = (oracle && ahead.is_none()).then(Promises::new);
    let mut caches = SizedCaches::new(setup);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        requests.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok((caches.objects(), caches.results(), Vec::new()));
        }
        let first = totals.requests;
        totals.add(&batch, caches.objects())?;
        if let Some(ahead) = &ahead {
            ahead.tell(first, &mut batch);
        }
        if let Some(promises) = &mut promises {
            promises.check(path, first, &batch)?;
        }
        caches.feed(&batch);
    }
}
