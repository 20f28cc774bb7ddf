//! A server, or several, with a queue before it, and exact accounts of who waited how long.
//!
//! It keeps no events of its own: the caller schedules the departures, and the station says when
//! a service has to start. Time in system is counted twice, as the area under the number in system
//! and as the sum of what each customer spent, both as integers. The auditor keeps one for every
//! channel.
//!
//! Invariant (Little's law): at every moment the area equals what those who left spent plus what
//! those present have spent so far, to the picosecond.

use std::collections::VecDeque;
use tiersim_models::units::{Bytes, Time};

/// One server that takes its customers in order of arrival, or any other if they leave by name.
#[derive(Debug, Default)]
pub struct Station {
    /// When each customer in the system arrived, what they carry and their name; with one server
    /// the first is in service.
    present: VecDeque<(Time, Bytes, u32)>,
    changed: Time,
    area: u128,
    sojourns: u128,
    /// Summed arrival times of those present.
    arrivals: u128,
    served: u64,
    bytes_in: u128,
    bytes_out: u128,
    bytes_present: u128,
}

impl Station {
    /// A station with nobody in it.
    pub fn new() -> Station {
        Station::default()
    }

    /// One whose books are wrong, which nothing that a caller does makes them.
    #[cfg(test)]
    pub(crate) fn forged(area: u128, bytes_in: u128) -> Station {
        Station { area, bytes_in, ..Station::default() }
    }

    /// A customer of that name arrives with `bytes`. `true` if their service starts at once.
    pub fn arrive(&mut self, name: u32, bytes: Bytes, now: Time) -> bool {
        self.account(now);
        self.present.push_back((now, bytes, name));
        self.arrivals += u128::from(now.ps());
        self.bytes_in += u128::from(bytes.get());
        self.bytes_present += u128::from(bytes.get());
        self.present.len() == 1
    }

    /// The names of those who are there and came before the customer of that name.
    pub fn before(&self, name: u32) -> impl Iterator<Item = u32> + '_ {
        self.present.iter().map(|present| present.2).take_while(move |&other| other != name)
    }

    /// The first customer of that name leaves, wherever they stood; gives what they had brought,
    /// `None` if they are not there.
    pub fn leave(&mut self, name: u32, now: Time) -> Option<Bytes> {
        self.account(now);
        let position = self.present.iter().position(|present| present.2 == name)?;
        let (arrived, bytes, _) = self.present.remove(position)?;
        self.arrivals -= u128::from(arrived.ps());
        self.sojourns += u128::from(now.since(arrived).ps());
        self.bytes_out += u128::from(bytes.get());
        self.bytes_present -= u128::from(bytes.get());
        self.served += 1;
        Some(bytes)
    }

    /// How many have left.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// How many are waiting or in service.
    pub fn in_system(&self) -> usize {
        self.present.len()
    }

    /// The integral over time of the number in system, up to the last arrival or departure, in
    /// customer picoseconds.
    pub fn area(&self) -> u128 {
        self.area
    }

    /// The sum of the times in system of those who have left, in picoseconds.
    pub fn sojourns(&self) -> u128 {
        self.sojourns
    }

    /// Whether Little's law holds at `now`.
    pub fn obeys_little(&self, now: Time) -> bool {
        let count = self.present.len() as u128;
        let area = self.area + count * u128::from(now.since(self.changed).ps());
        area + self.arrivals == self.sojourns + count * u128::from(now.ps())
    }

    /// Whether what came in went out or is present.
    pub fn conserves_bytes(&self) -> bool {
        self.bytes_in == self.bytes_out + self.bytes_present
    }

    fn account(&mut self, now: Time) {
        self.area += self.present.len() as u128 * u128::from(now.since(self.changed).ps());
        self.changed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_and_sojourns_agree_at_every_moment() {
        let mut station = Station::new();
        let at = Time::from_ps;
        assert!(station.arrive(0, Bytes::new(5), at(10)));
        assert!(!station.arrive(0, Bytes::new(6), at(13)), "the server is busy");
        assert!(station.obeys_little(at(19)));
        assert_eq!(station.leave(0, at(20)), Some(Bytes::new(5)));
        assert_eq!((station.area(), station.sojourns()), (3 + 2 * 7, 10));
        assert!(station.obeys_little(at(25)) && station.conserves_bytes());
        assert_eq!(station.leave(0, at(30)), Some(Bytes::new(6)));
        assert_eq!((station.area(), station.sojourns()), (27, 27));
        assert_eq!((station.served(), station.in_system()), (2, 0));
    }

    #[test]
    fn whoever_leaves_by_name_takes_their_own_bytes_and_time() {
        let mut station = Station::new();
        let at = Time::from_ps;
        station.arrive(7, Bytes::new(5), at(0));
        station.arrive(8, Bytes::new(6), at(10));
        assert_eq!(station.leave(9, at(11)), None);
        assert_eq!(station.leave(8, at(12)), Some(Bytes::new(6)));
        assert_eq!((station.sojourns(), station.in_system()), (2, 1));
        assert!(station.obeys_little(at(20)) && station.conserves_bytes());
        assert_eq!(station.leave(7, at(30)), Some(Bytes::new(5)));
        assert_eq!((station.area(), station.sojourns()), (32, 32));
    }

    #[test]
    fn nobody_leaves_an_empty_station() {
        assert_eq!(Station::new().leave(0, Time::ZERO), None);
    }
}
