//! Little's law on one first-come-first-served station, exactly.
//!
//! At every moment the integral of the number present equals the summed sojourn of all who have
//! left plus the time spent so far by all who are present. With integer picoseconds both sides are
//! integers, and they are equal, not close.

use std::collections::VecDeque;
use tiersim_models::units::{Bytes, Time};

/// The account of one station.
#[derive(Debug, Default)]
pub struct Little {
    present: VecDeque<(Time, Bytes)>,
    changed: Time,
    /// Integral of the number present up to `changed`, in picosecond-customers.
    area: u128,
    /// Summed sojourn of those who have left.
    sojourn: u128,
    /// Summed arrival times of those present.
    arrivals: u128,
    bytes_in: u128,
    bytes_out: u128,
    bytes_present: u128,
}

impl Little {
    /// Somebody comes.
    pub fn arrive(&mut self, bytes: Bytes, now: Time) {
        self.advance(now);
        self.present.push_back((now, bytes));
        self.arrivals += u128::from(now.ps());
        self.bytes_in += u128::from(bytes.get());
        self.bytes_present += u128::from(bytes.get());
    }

    /// The one who came first leaves; `false` if that is somebody else than stated.
    pub fn leave(&mut self, bytes: Bytes, now: Time) -> bool {
        self.advance(now);
        let Some((came, brought)) = self.present.pop_front() else { return false };
        self.arrivals -= u128::from(came.ps());
        self.sojourn += u128::from(now.since(came).ps());
        self.bytes_out += u128::from(bytes.get());
        self.bytes_present -= u128::from(brought.get());
        brought == bytes
    }

    /// Whether the law holds at `now`.
    pub fn holds(&self, now: Time) -> bool {
        let count = self.present.len() as u128;
        let area = self.area + count * u128::from(now.since(self.changed).ps());
        area + self.arrivals == self.sojourn + count * u128::from(now.ps())
    }

    /// Whether what came in went out or is present.
    pub fn conserves_bytes(&self) -> bool {
        self.bytes_in == self.bytes_out + self.bytes_present
    }

    /// Whether nobody is present.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    fn advance(&mut self, now: Time) {
        self.area += self.present.len() as u128 * u128::from(now.since(self.changed).ps());
        self.changed = now;
    }
}
