//! What can be kept at best: byte-fractional Belady.
//!
//! Every stretch of time between two uses of an object is an interval that may be kept, whole or in
//! part; at every op the bytes kept have a limit. With one price per byte, the rows of this linear
//! program have consecutive ones, and giving up first what is needed last is an optimum: an
//! exchange of a byte that ends earlier for one that ends later never breaks a limit that comes
//! after.
//! Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
//! Systems Journal 5(2), 1966, for unit sizes; Bar-Noy, Bar-Yehuda, Freund, Naor, Schieber, "A
//! unified approach to approximating resource allocation and scheduling", JACM 48(5), 2001, for the
//! intervals.
//! Invariant: an object has at most one open interval, and `total` is the sum of what is kept.

use std::collections::BinaryHeap;

/// Intervals that are open now.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// By object: where its open interval ends, and bytes kept of it.
    open: Vec<Option<Open>>,
    /// Ends and objects, the last end first; entries of intervals that are closed may remain.
    order: BinaryHeap<(u64, u32)>,
    live: usize,
    total: u128,
    lost: u128,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    end: u64,
    bytes: u64,
    kept: u64,
}

impl Shelf {
    /// Nothing is open.
    pub(crate) fn new(objects: usize) -> Shelf {
        Shelf { open: vec![None; objects], order: BinaryHeap::new(), live: 0, total: 0, lost: 0 }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.open.fill(None);
        self.order.clear();
        (self.live, self.total, self.lost) = (0, 0, 0);
    }

    /// An object's interval begins, which ends at op `end`.
    pub(crate) fn open(&mut self, object: usize, end: u64, bytes: u64) {
        debug_assert!(self.open[object].is_none(), "one interval at a time");
        self.open[object] = Some(Open { end, bytes, kept: bytes });
        self.order.push((end, object as u32));
        self.total += u128::from(bytes);
        self.live += 1;
        // Entries of closed intervals are near the bottom and would never come up.
        if self.order.len() > 2 * self.live + 64 {
            let open = &self.open;
            let is_open = |&(end, object): &(u64, u32)| {
                open[object as usize].is_some_and(|interval| interval.end == end)
            };
            self.order.retain(is_open);
        }
    }

    /// Bytes of the object's open interval, if it has one that goes on beyond op `at`; else none.
    pub(crate) fn spanning(&self, object: usize, at: u64) -> u128 {
        let interval = self.open[object].filter(|interval| interval.end > at);
        interval.map_or(0, |interval| interval.bytes.into())
    }

    /// The op `at` ends the object's interval, if that ends there: what was not kept is lost.
    pub(crate) fn close(&mut self, object: usize, at: u64) {
        let Some(interval) = self.open[object].filter(|interval| interval.end <= at) else {
            return;
        };
        self.open[object] = None;
        self.total -= u128::from(interval.kept);
        self.lost += u128::from(interval.bytes - interval.kept);
        self.live -= 1;
    }

    /// Keeps no more than `limit` bytes.
    pub(crate) fn fit(&mut self, limit: u128) {
        while self.total > limit {
            let &(end, object) = self.order.peek().expect("what is kept is in the order");
            let interval = self.open[object as usize].as_mut();
            let Some(interval) = interval.filter(|i| i.end == end && i.kept > 0) else {
                self.order.pop();
                continue;
            };
            let most = u64::try_from(self.total - limit).unwrap_or(u64::MAX);
            let part = most.min(interval.kept);
            interval.kept -= part;
            self.total -= u128::from(part);
        }
    }

    /// Bytes lost by all intervals that were closed.
    pub(crate) fn lost(&self) -> u128 {
        self.lost
    }
}
