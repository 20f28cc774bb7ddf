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
//! Of what is packed on its way, or inside, only the packed bytes count, everywhere: so neither the
//! copies nor the room inside are more than they may be.
//!
//! Ops on the CPU use nothing inside: an object that one of them uses between two
//! uses by the device may stay inside all the same, as far as this count goes.
//! Invariant: holds for every order in time, as it counts the copies of a plan, in the plan's
//! order.

use super::future::{Future, on_device};
use super::keep::Shelf;
use tiersim_models::ids::OpId;
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
}

/// Counts crossings of one cut.
#[derive(Debug)]
pub(crate) struct Traffic<'a> {
    workload: &'a Workload,
    future: &'a Future,
    capacity: u128,
    /// Inwards: strict and loose; outwards: the same.
    shelves: [Shelf; 4],
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(workload: &'a Workload, future: &'a Future, capacity: u128) -> Traffic<'a> {
        let shelf = || Shelf::new(workload.trace.objects.len());
        Traffic { workload, future, capacity, shelves: [(); 4].map(|()| shelf()) }
    }

    /// What must cross from op `splits[0]` of the run up to each later split, in one pass.
    pub(crate) fn count(&mut self, splits: &[u64], found: &mut Vec<Crossing>) {
        let trace = &self.workload.trace;
        let (capacity, ops) = (self.capacity, trace.ops.len() as u64);
        self.shelves.iter_mut().for_each(Shelf::clear);
        let [strict_in, loose_in, strict_out, loose_out] = &mut self.shelves;
        self.future.alive(self.workload, splits[0], |object, (next, bytes)| {
            strict_in.open(object, next, bytes);
            loose_in.open(object, next, bytes);
        });
        strict_in.fit(capacity);
        loose_in.fit(capacity);
        let mut in_place = 0;
        for pair in splits.windows(2) {
            for at in pair[0]..pair[1] {
                let op = OpId((at % ops) as u32);
                let rows = trace.ops[op.index()].uses.clone();
                if !on_device(self.workload, at % ops) {
                    // It needs nothing inside, and what it writes is written outside.
                    for touched in trace.uses_of(op) {
                        strict_out.close(touched.object.index(), at);
                        loose_out.close(touched.object.index(), at);
                    }
                    continue;
                }
                let (mut own, mut passing) = (0u128, 0u128);
                for (row, touched) in (rows.start as usize..).zip(trace.uses_of(op)) {
                    let object = touched.object.index();
                    let bytes = u128::from(self.future.bytes(row));
                    own += bytes;
                    strict_in.close(object, at);
                    loose_in.close(object, at);
                    strict_out.close(object, at);
                    loose_out.close(object, at);
                    passing += strict_out.spanning(object, at).min(bytes);
                }
                in_place += own.saturating_sub(capacity);
                strict_in.fit(capacity.saturating_sub(own));
                strict_out.fit(capacity.saturating_sub(own - passing));
                for row in rows.start as usize..rows.end as usize {
                    let touched = trace.uses[row];
                    let (object, writes) = (touched.object.index(), touched.mode.writes());
                    if let Some((next, bytes)) = self.future.next(row, at) {
                        strict_in.open(object, next, bytes);
                        loose_in.open(object, next, bytes);
                    }
                    if let Some(end) = self.future.version(row, at).filter(|_| writes) {
                        let bytes = touched.written(trace.objects[object].bytes).get();
                        let bytes = self.future.counted(object, bytes);
                        strict_out.open(object, end, bytes);
                        loose_out.open(object, end, bytes);
                    }
                }
                loose_in.fit(capacity);
                loose_out.fit(capacity);
            }
            found.push(Crossing {
                strict: [strict_in.lost(), strict_out.lost()],
                loose: [loose_in.lost(), loose_out.lost()],
                in_place,
            });
        }
    }
}

/// What must cross a cut around `capacity` bytes in the ops `from..to` of a run.
pub fn crossing(workload: &Workload, capacity: u64, from: u64, to: u64) -> Crossing {
    let future = Future::new(workload, None);
    let mut found = Vec::new();
    Traffic::new(workload, &future, capacity.into()).count(&[from, to], &mut found);
    found[0]
}
