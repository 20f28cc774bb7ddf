//! Bytes that must cross a cut between tiers in a window of ops, whatever the policy.
//!
//! The cut is around some tiers, HBM among them, that hold `capacity` bytes together. Between
//! two uses an object stays inside, or it crosses the cut inwards again. What an op has written
//! stays inside until it is written again or dies, or it crosses the cut outwards once. What is
//! inside at the start of the window is free, and so is what leaves after its end. Each count is
//! the optimum of a linear program over intervals ([`super::keep`]), so no policy can do with less:
//! * *strict*: every op has its objects inside. Less by at most twice the bytes used in place, as
//!   such a use needs no copy and leaves its room to others.
//! * *loose*: ops need no room of their own. Less by at most the bytes used in place.
//!
//! What an op writes of a part of an object is all that has to leave of it: older contents may be
//! outside already. Bytes that two uses wrote leave for each of them once.
//!
//! An op that reads a part of an object in place pays for that part only, so no more than it
//! counts: what the op needs inside, and what has to be inside for it.
//!
//! Ops on the CPU use nothing inside: an object that one of them uses between two
//! uses by the device may stay inside all the same, as far as this count goes.
//! Invariant: holds for every order in time, as it counts the copies of a plan, in the plan's
//! order.

use super::future::{Future, Own};
use super::keep::Shelf;
use tiersim_models::lifetime::Workload;

/// Bytes that must cross, and the least that ops must use in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Inwards and outwards, as if nothing were used in place.
    pub strict: [u128; 2],
    /// Inwards and outwards, bytes used in place included, and twice for both ways.
    pub loose: [u128; 2],
    /// Used in place because the op's objects do not all fit inside.
    pub in_place: u128,
    /// Of what ops use and do not make, what they write without reading it: in place, it would not
    /// cross inwards.
    pub unread: u128,
}

/// What one pass found at a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// From the start of the pass.
    pub(crate) crossing: Crossing,
    /// Bytes that the strict count has inside, above what fits there.
    pub(crate) above: u128,
    /// Outwards in the strict sense, if every op made room for all that it uses.
    pub(crate) without_passing: u128,
}

/// Counts crossings of one cut.
#[derive(Debug)]
pub(crate) struct Traffic<'a> {
    future: &'a Future,
    objects: usize,
    capacity: u128,
    /// Inwards: strict and loose; outwards: the same; outwards, without what passes.
    shelves: [Shelf; 5],
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(future: &'a Future, objects: usize, capacity: u128) -> Traffic<'a> {
        let shelf = || Shelf::new(future.rows.len());
        Traffic { future, objects, capacity, shelves: [(); 5].map(|()| shelf()) }
    }

    /// What must cross from op `splits[0]` of the run up to each later split, in one pass.
    pub(crate) fn count(&mut self, splits: &[u64]) -> Vec<Counted> {
        let ops = self.future.ops.len() as u64;
        self.begin(splits[0]);
        let (mut in_place, mut unread) = (0u128, 0u128);
        let mut found = Vec::with_capacity(splits.len() - 1);
        let mut index = (splits[0] % ops) as usize;
        for pair in splits.windows(2) {
            for at in pair[0]..pair[1] {
                let own = self.future.ops[index];
                if own.on_device {
                    in_place += own.bytes.saturating_sub(self.capacity);
                    unread += own.unread;
                    self.device(own, at - splits[0]);
                } else {
                    // It needs nothing inside, and what it writes is written outside.
                    let [_, _, out @ ..] = &mut self.shelves;
                    for row in own.first as usize..own.last as usize {
                        out.iter_mut().for_each(|shelf| shelf.close(row));
                    }
                }
                index += 1;
                if index as u64 == ops {
                    index = 0;
                }
            }
            let [strict_in, loose_in, strict_out, loose_out, without] = &self.shelves;
            let crossing = Crossing {
                strict: [strict_in.lost(), strict_out.lost()],
                loose: [loose_in.lost(), loose_out.lost()],
                in_place,
                unread,
            };
            let above = strict_in.total().saturating_sub(self.capacity);
            found.push(Counted { crossing, above, without_passing: without.lost() });
        }
        found
    }

    /// Only what exists before op `at` of the run is inside, as much of it as fits.
    fn begin(&mut self, at: u64) {
        self.shelves.iter_mut().for_each(Shelf::clear);
        let next = self.future.ops[(at % self.future.ops.len() as u64) as usize].first as usize;
        let [strict_in, loose_in, ..] = &mut self.shelves;
        for alive in self.future.alive(self.objects, at) {
            strict_in.open(alive.row, alive.bytes);
            loose_in.open(alive.row, alive.bytes);
        }
        strict_in.fit(self.capacity, next);
        loose_in.fit(self.capacity, next);
    }

    /// An op of the device, so many ops from the start of the pass.
    #[inline]
    fn device(&mut self, own: Own, from_start: u64) {
        let [strict_in, loose_in, strict_out, loose_out, without] = &mut self.shelves;
        let capacity = self.capacity;
        let (first, next) = (own.first as usize, own.last as usize);
        let mut passing = 0u128;
        for (row, touched) in (first..next).zip(&self.future.rows[first..next]) {
            strict_in.close(row);
            loose_in.close(row);
            strict_out.close(row);
            loose_out.close(row);
            without.close(row);
            let counts = touched.passing.filter(|&(since, _)| since <= from_start);
            passing += counts.map_or(0, |(_, bytes)| u128::from(bytes));
        }
        strict_in.fit(capacity.saturating_sub(own.bytes), next);
        strict_out.fit(capacity.saturating_sub(own.bytes - passing), next);
        without.fit(capacity.saturating_sub(own.bytes), next);
        for touched in &self.future.rows[first..next] {
            if let Some(until) = touched.next {
                strict_in.open(until.row as usize, until.bytes);
                loose_in.open(until.row as usize, until.bytes);
            }
            if let Some(until) = touched.version {
                strict_out.open(until.row as usize, until.bytes);
                loose_out.open(until.row as usize, until.bytes);
                without.open(until.row as usize, until.bytes);
            }
        }
        loose_in.fit(capacity, next);
        loose_out.fit(capacity, next);
    }
}

/// What must cross a cut around `capacity` bytes in the ops `from..to` of a run.
pub fn crossing(workload: &Workload, capacity: u64, from: u64, to: u64) -> Crossing {
    let future = Future::new(workload, None);
    let objects = workload.trace.objects.len();
    Traffic::new(&future, objects, capacity.into()).count(&[from, to])[0].crossing
}
