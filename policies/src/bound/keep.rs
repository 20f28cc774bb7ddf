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
//!
//! An interval has the number of the row of uses that ends it. No interval is longer than a replay,
//! so those that are open have different rows, and in the order of time they are the rows from the
//! present one on and then, one replay later, those before it.
//! Invariant: `total` is the sum of what is kept, and what is marked keeps something.

use super::marks::Marks;

/// Intervals that are open now.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// By the row that ends it.
    open: Vec<Open>,
    /// Those of which something is kept.
    kept: Marks,
    total: u128,
    lost: u128,
}

/// Bytes of an interval; all zero where none is open.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    kept: u64,
    given_up: u64,
}

impl Shelf {
    /// Nothing is open.
    pub(crate) fn new(rows: usize) -> Shelf {
        Shelf { open: vec![Open::default(); rows], kept: Marks::new(rows), total: 0, lost: 0 }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.open.fill(Open::default());
        self.kept.clear();
        (self.total, self.lost) = (0, 0);
    }

    /// An interval begins that ends with `row`.
    #[inline]
    pub(crate) fn open(&mut self, row: usize, bytes: u64) {
        let place = &mut self.open[row];
        debug_assert_eq!(place.kept + place.given_up, 0, "one interval at a time");
        place.kept = bytes;
        if bytes > 0 {
            self.kept.add(row);
            self.total += u128::from(bytes);
        }
    }

    /// The row comes and ends its interval, if one is open: what was not kept is lost.
    #[inline]
    pub(crate) fn close(&mut self, row: usize) {
        let Open { kept, given_up } = std::mem::take(&mut self.open[row]);
        if kept > 0 {
            self.kept.remove(row);
            self.total -= u128::from(kept);
        }
        self.lost += u128::from(given_up);
    }

    /// Keeps no more than `limit` bytes; the rows before `next` come again one replay later.
    #[inline]
    pub(crate) fn fit(&mut self, limit: u128, next: usize) {
        while self.total > limit {
            let last = self.kept.last_before(next).expect("what is kept is marked");
            let place = &mut self.open[last];
            let part = u64::try_from(self.total - limit).unwrap_or(u64::MAX).min(place.kept);
            place.kept -= part;
            place.given_up += part;
            self.total -= u128::from(part);
            if place.kept == 0 {
                self.kept.remove(last);
            }
        }
    }

    /// Bytes kept.
    pub(crate) fn total(&self) -> u128 {
        self.total
    }

    /// Bytes lost by all intervals that were closed.
    pub(crate) fn lost(&self) -> u128 {
        self.lost
    }
}
