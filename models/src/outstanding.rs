//! How many requests a device has under way in a tier that it uses in place, and how fast that is.
//!
//! By Little's law so many requests of `granule` bytes, each of which takes the latency under load,
//! reach `depth * granule / latency`. The latency rises with what is sent, so rate and latency have
//! to find each other: [`Tier::pace`] is where they meet. A copy engine has as many bytes under way
//! as its rate needs at the latency that it alone causes, one request at least, and no more beside
//! others.
//! Source: J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research
//! 9(3), 1961; use with measured curves as in Esmaili-Dokht et al., "A Mess of memory system
//! benchmarking, simulation and application profiling", MICRO 2024.
//! Invariant: no pace is above the law's rate, and more load never makes one faster.

use crate::hardware::{Tier, TierKind};
use crate::units::{Bandwidth, Bytes, PS_PER_S, Span};

/// Bytes per second that are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Traffic {
    /// So many parts of `whole` in all: `rate` bytes per second of which that share is read and
    /// that written.
    fn beside(self, rate: u64, read: u128, written: u128, whole: u128) -> Traffic {
        let part = |of: u128| u64::try_from(u128::from(rate) * of / whole.max(1));
        let sum = |one: u64, of| one.saturating_add(part(of).unwrap_or(u64::MAX));
        Traffic { read: sum(self.read, read), written: sum(self.written, written) }
    }
}

impl Tier {
    /// Bytes of a request: stated, or those of a line of an accelerator's cache, or of a page.
    pub fn granule(&self) -> Bytes {
        let usual = match self.kind {
            TierKind::Hbm | TierKind::Cxl | TierKind::Dram => 128,
            TierKind::Nvme | TierKind::Remote => 4096,
        };
        self.requests.granule.unwrap_or(Bytes::new(usual))
    }

    /// Latency of a request to an idle tier: the set-up, or that of its curves where there is none.
    fn idle(&self) -> Span {
        match (self.access.setup, &self.loaded) {
            (Span::ZERO, Some(loaded)) => loaded.latency(0, 0),
            (setup, _) => setup,
        }
    }

    /// Requests under way at once: stated, or as many as the tier's bandwidth needs while it is
    /// idle.
    pub fn depth(&self) -> u64 {
        let stated = self.requests.depth.map(|depth| u64::from(depth.get()));
        stated.unwrap_or_else(|| {
            if self.depth_is_free() {
                return u64::from(u32::MAX);
            }
            let bytes = u128::from(self.access.rate.get()) * u128::from(self.idle().ps());
            let granule = u128::from(self.granule().get()) * u128::from(PS_PER_S);
            u64::try_from(bytes.div_ceil(granule)).unwrap_or(u64::MAX).max(1)
        })
    }

    /// Whether nothing says how many are under way at once, since a request to an idle tier takes
    /// no time.
    pub fn depth_is_free(&self) -> bool {
        self.requests.depth.is_none() && self.idle() == Span::ZERO
    }

    /// Latency of a request while so much is sent.
    pub fn latency(&self, traffic: Traffic) -> Span {
        let Traffic { read, written } = traffic;
        let rise = self.loaded.as_ref().map_or(Span::ZERO, |loaded| loaded.rise(read, written));
        self.idle() + rise
    }

    /// How many times as long as in an idle tier a request takes at most.
    pub fn worst(&self) -> f64 {
        let rise = self.loaded.as_ref().map_or(Span::ZERO, |loaded| loaded.most());
        if self.idle() == Span::ZERO {
            1.0
        } else {
            1.0 + rise.ps() as f64 / self.idle().ps() as f64
        }
    }

    /// Bytes per second that one device reaches in place beside `background`, where of `whole`
    /// bytes it reads and writes so many.
    pub fn pace(&self, others: Traffic, [read, written]: [u128; 2], whole: u128) -> Bandwidth {
        let most = u128::from(self.depth()) * u128::from(self.granule().get());
        let latency = |rate| self.latency(others.beside(rate, read, written, whole));
        settled(self.access.rate, most * u128::from(PS_PER_S), latency)
    }

    /// Bytes per second that a copy engine of `rate` reaches beside `background`, `reading` the
    /// tier or writing it.
    pub fn copied(&self, rate: Bandwidth, others: Traffic, reading: bool) -> Bandwidth {
        if self.idle() == Span::ZERO || others == Traffic::default() {
            return rate;
        }
        let share = if reading { [1, 0] } else { [0, 1] };
        let latency =
            |beside: Traffic, rate| self.latency(beside.beside(rate, share[0], share[1], 1));
        let alone = latency(Traffic::default(), rate.get());
        let request = u128::from(self.granule().get()) * u128::from(PS_PER_S);
        let under_way = request.max(u128::from(rate.get()) * u128::from(alone.ps()));
        settled(rate, under_way, |rate| latency(others, rate))
    }

    /// No pace is below this.
    pub fn least_pace(&self) -> Bandwidth {
        let most = u128::from(self.depth()) * u128::from(self.granule().get());
        let rise = self.loaded.as_ref().map_or(Span::ZERO, |loaded| loaded.most());
        let latency = self.idle() + rise;
        settled(self.access.rate, most * u128::from(PS_PER_S), |_| latency)
    }
}

/// The largest rate up to `most` at which no more than `under_way` byte picoseconds per second
/// wait, at least 1. `latency` never falls with the rate.
fn settled(most: Bandwidth, under_way: u128, latency: impl Fn(u64) -> Span) -> Bandwidth {
    let fits = |rate: u64| u128::from(rate) * u128::from(latency(rate).ps()) <= under_way;
    if fits(most.get()) {
        return most;
    }
    let (mut low, mut high) = (1, most.get());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Bandwidth::new(low).expect("at least 1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Capacity, DeviceRequests, Law};
    use crate::loaded::{Curve, Loaded};
    use std::num::NonZeroU32;

    const GB: u64 = 1_000_000_000;

    fn rate(per_s: u64) -> Bandwidth {
        Bandwidth::new(per_s).expect("above zero")
    }

    fn tier(setup: u64, per_s: u64, requests: DeviceRequests) -> Tier {
        Tier {
            name: "far".to_owned(),
            kind: TierKind::Cxl,
            capacity: Capacity::Unlimited,
            access: Law { setup: Span::from_ns(setup), rate: rate(per_s) },
            loaded: None,
            requests,
        }
    }

    fn requests(granule: u64, depth: u32) -> DeviceRequests {
        DeviceRequests { granule: Some(Bytes::new(granule)), depth: NonZeroU32::new(depth) }
    }

    const READS: [u128; 2] = [1, 0];

    #[test]
    fn littles_law_holds_back_where_bandwidth_does_not() {
        let idle = Traffic::default();
        // One line of 64 bytes in 400 ns; then 8 of them, then more than 16 GB/s need.
        for (depth, expected) in
            [(1, 160_000_000), (8, 1_280_000_000), (100, 16 * GB), (101, 16 * GB)]
        {
            let tier = tier(400, 16 * GB, requests(64, depth));
            assert_eq!(tier.pace(idle, READS, 1), rate(expected), "{depth} under way");
        }
        // Unstated: as many as 16 GB/s need.
        let usual = tier(400, 16 * GB, DeviceRequests::default());
        assert_eq!((usual.granule(), usual.depth()), (Bytes::new(128), 50));
        assert_eq!(usual.pace(idle, READS, 1), rate(16 * GB));
    }

    #[test]
    fn rate_and_latency_find_each_other() {
        // Idle 100 ns up to 10 GB/s, 200 at 30: 2000 bytes under way are 20 GB/s at 100 ns; at x
        // GB/s latency is 100 + 5 (x - 10), and x (50 + 5 x) = 2000 has its root at 15.6155.
        let mut tier = tier(100, 40 * GB, requests(100, 20));
        let points = [(10, 50), (30, 150)].map(|(gb, ns)| (rate(gb * GB), Span::from_ns(ns)));
        let curves = vec![Curve { reads: 100, points: points.to_vec() }];
        tier.loaded = Some(Loaded { curves });
        let pace = |others| tier.pace(Traffic { read: others, written: 0 }, READS, 1).get();
        assert!(pace(0).abs_diff(15_615_528_128) < 200_000, "{}", pace(0));
        // Others beyond the last point: 200 ns, whatever is added.
        assert_eq!(pace(100 * GB), 10 * GB);
        let paces: Vec<u64> = (0..60).map(|gb| pace(gb * GB)).collect();
        assert!(paces.is_sorted_by(|one, next| one >= next));
        assert_eq!(tier.least_pace(), rate(10 * GB));
        // A copy engine of 20 GB/s has 20 x 150 ns under way when alone.
        let copied =
            |others| tier.copied(rate(20 * GB), Traffic { read: 0, written: others }, true);
        assert_eq!((copied(0).get(), copied(100 * GB).get()), (20 * GB, 15 * GB));
        assert!(copied(5 * GB) < rate(20 * GB) && copied(5 * GB) > rate(15 * GB));
        // One that needs less than a request has one under way: 100 bytes in 200 ns.
        let busy = Traffic { read: 0, written: 100 * GB };
        assert_eq!(tier.copied(rate(GB), busy, true), rate(GB / 2));
        assert_eq!(tier.copied(rate(GB / 4), busy, true), rate(GB / 4));
        assert_eq!(tier.worst(), 2.0);
    }
}
