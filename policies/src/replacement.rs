//! Replacement algorithms: which object leaves when another needs its room.
//!
//! One algorithm serves two masters: replay of block traces ([`Cache`], millions of requests a
//! second, static dispatch) and demand paging by object, which must not evict what the op uses and
//! therefore says what to keep. Ids are dense: arrays are indexed by them and nothing is hashed.
//! Invariant: an algorithm only orders; the bytes that are occupied are counted by its owner, and
//! it tells its owner of everything that leaves.

mod arc;
mod belady;
mod clock;
mod fifo;
mod lfu;
mod links;
mod lirs;
mod lists;
mod lru;
mod named;
mod s3_fifo;
mod sieve;
mod slru;
mod two_q;

use crate::state::State;

pub use arc::Arc;
pub use belady::{Belady, NEVER};
pub use clock::Clock;
pub use fifo::Fifo;
pub use lfu::Lfu;
pub use lirs::Lirs;
pub use lru::Lru;
pub use named::{Algorithm, Visit};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use slru::Slru;
pub use two_q::TwoQ;

/// An order in which objects leave. The steps of one request for an object that is not held are
/// `miss`, `evict` until it fits, `insert`; of one that is, `hit`. After either, `shed` until it
/// has nothing to give.
pub trait Replacement: Send {
    /// Whether it has to be told of the future ([`Replacement::foresee`]).
    const ORACLE: bool = false;

    /// Ids below `ids` may be named from now on. Owners call it before they name one.
    fn grow(&mut self, ids: usize);

    /// Whether the object is held: in the cache, not just remembered.
    fn holds(&self, id: u32) -> bool;

    /// Whether an object counts as held though it has left: a fault of libCacheSim that
    /// [`Lirs::of_libcachesim`] repeats. A hit counts its bytes again.
    fn is_uncounted(&self, _id: u32) -> bool {
        false
    }

    /// Whether an object of so many bytes may enter. Algorithms with parts of fixed sizes refuse
    /// what is larger than the part where it would enter; demand paging asks nobody and inserts.
    fn admits(&self, _bytes: u64) -> bool {
        true
    }

    /// The object of the request that comes next is wanted again at request `next` ([`NEVER`] if it
    /// is not).
    fn foresee(&mut self, _next: u64) {}

    /// The requests that follow, until this is called again, come together: they are those of op
    /// `occurrence` of the run. Replay of block traces has no ops and calls it never.
    fn begin(&mut self, _occurrence: u64) {}

    /// The request before this changed its object.
    fn change(&mut self, _id: u32) {}

    /// A request for an object that is held.
    fn hit(&mut self, id: u32);

    /// A request for an object that is not held, before room is made for it: what is remembered of
    /// objects that have left is looked up here.
    fn miss(&mut self, _id: u32, _bytes: u64) {}

    /// Takes the object out that leaves first, of those that need not be kept. `None` if there is
    /// none.
    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32>;

    /// An object enters, after its `miss`.
    fn insert(&mut self, id: u32, bytes: u64);

    /// Takes an object out that the algorithm lets go although there is room, because one of its
    /// parts is too full.
    fn shed(&mut self, _keep: impl Fn(u32) -> bool) -> Option<u32> {
        None
    }

    /// An object is gone for reasons of its owner; it is forgotten.
    fn remove(&mut self, id: u32);

    /// Writes what the next evictions depend on; `false` if it cannot, or if that is never the same
    /// again, as where uses are counted.
    fn state(&self, _out: &mut State) -> bool {
        false
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object was in the cache.
    Hit,
    /// It was not.
    Miss,
}

/// One level of cache over a replacement algorithm.
///
/// An object has the size with which it entered, whatever later requests say. What is larger than
/// the cache is not cached and evicts nothing.
#[derive(Debug)]
pub struct Cache<R> {
    rule: R,
    capacity: u64,
    occupied: u64,
    ids: usize,
    sizes: Sizes,
}

#[derive(Debug)]
enum Sizes {
    /// Everything has one byte.
    Unit,
    /// By id; kept when an object leaves.
    Each(Vec<u64>),
}

impl<R: Replacement> Cache<R> {
    /// An empty cache of so many bytes. The algorithm must have been made for the same number.
    pub fn new(rule: R, capacity: u64) -> Cache<R> {
        Cache { rule, capacity, occupied: 0, ids: 0, sizes: Sizes::Each(Vec::new()) }
    }

    /// An empty cache of so many objects of one byte each; saves 8 bytes per object.
    pub fn unit(rule: R, capacity: u64) -> Cache<R> {
        Cache { rule, capacity, occupied: 0, ids: 0, sizes: Sizes::Unit }
    }

    /// One request. In a cache of unit sizes `bytes` does not matter.
    #[inline]
    pub fn access(&mut self, id: u32, bytes: u64) -> Outcome {
        self.know(id);
        if self.rule.holds(id) {
            if self.rule.is_uncounted(id) {
                self.occupied += self.size(id);
            }
            self.rule.hit(id);
            self.shed();
            return Outcome::Hit;
        }
        let bytes = if matches!(self.sizes, Sizes::Unit) { 1 } else { bytes };
        self.rule.miss(id, bytes);
        if bytes <= self.capacity && self.rule.admits(bytes) {
            self.enter(id, bytes);
        }
        Outcome::Miss
    }

    /// One request for an object that is wanted again at request `next` ([`NEVER`] if it is not),
    /// for algorithms that know the future.
    #[inline]
    pub fn access_knowing(&mut self, id: u32, bytes: u64, next: u64) -> Outcome {
        self.rule.foresee(next);
        self.access(id, bytes)
    }

    /// Bytes that are in use.
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// The algorithm.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    #[inline]
    fn know(&mut self, id: u32) {
        if id as usize >= self.ids {
            self.ids = id as usize + 1;
            self.rule.grow(self.ids);
            if let Sizes::Each(sizes) = &mut self.sizes {
                sizes.resize(self.ids, 0);
            }
        }
    }

    #[inline]
    fn enter(&mut self, id: u32, bytes: u64) {
        while self.occupied > self.capacity - bytes {
            let gone = self.rule.evict(|_| false).expect("what is occupied can leave");
            self.occupied -= self.size(gone);
        }
        self.rule.insert(id, bytes);
        self.occupied += bytes;
        if let Sizes::Each(sizes) = &mut self.sizes {
            sizes[id as usize] = bytes;
        }
        self.shed();
    }

    #[inline]
    fn shed(&mut self) {
        while let Some(gone) = self.rule.shed(|_| false) {
            self.occupied -= self.size(gone);
        }
    }

    #[inline]
    fn size(&self, id: u32) -> u64 {
        match &self.sizes {
            Sizes::Unit => 1,
            Sizes::Each(sizes) => sizes[id as usize],
        }
    }
}
