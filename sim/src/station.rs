//! A server with a queue before it, and exact accounts of who waited how long.
//!
//! It keeps no events of its own: the caller schedules the departures, and the station says when
//! a service has to start. Time in system is counted twice, as the area under the number in system
//! and as the sum of what each customer spent, both as integers.
//!
//! Invariant (Little's law): whenever the station is empty the two are equal to the picosecond.

use std::collections::VecDeque;

use tiersim_models::units::Time;

/// One server that takes its customers in order of arrival.
#[derive(Debug, Default)]
pub struct Station {
    /// When each customer in the system arrived; the first is in service.
    arrivals: VecDeque<Time>,
    changed: Time,
    area: u128,
    sojourns: u128,
    served: u64,
}

impl Station {
    /// A station with nobody in it.
    pub fn new() -> Station {
        Station::default()
    }

    /// A customer arrives. `true` if their service starts at once.
    pub fn arrive(&mut self, now: Time) -> bool {
        self.account(now);
        self.arrivals.push_back(now);
        self.arrivals.len() == 1
    }

    /// The customer in service leaves. `true` if the service of another starts now.
    ///
    /// Panics if nobody is there.
    pub fn depart(&mut self, now: Time) -> bool {
        self.account(now);
        let arrived = self.arrivals.pop_front().expect("a departure from an empty station");
        self.sojourns += u128::from(now.since(arrived).ps());
        self.served += 1;
        !self.arrivals.is_empty()
    }

    /// How many have left.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// How many are waiting or in service.
    pub fn in_system(&self) -> usize {
        self.arrivals.len()
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

    fn account(&mut self, now: Time) {
        self.area += self.arrivals.len() as u128 * u128::from(now.since(self.changed).ps());
        self.changed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_and_sojourns_agree_when_the_station_is_empty() {
        let mut station = Station::new();
        let at = Time::from_ps;
        assert!(station.arrive(at(10)));
        assert!(!station.arrive(at(13)), "the server is busy");
        assert!(station.depart(at(20)), "another waits");
        assert_eq!((station.area(), station.sojourns()), (3 + 2 * 7, 10));
        assert!(!station.depart(at(30)));
        assert_eq!((station.area(), station.sojourns()), (27, 27));
        assert_eq!((station.served(), station.in_system()), (2, 0));
    }

    #[test]
    #[should_panic(expected = "a departure from an empty station")]
    fn nobody_leaves_an_empty_station() {
        Station::new().depart(Time::ZERO);
    }
}
