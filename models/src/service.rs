//! How the copies of one link are served, where `setup + bytes / rate` one at a time is not enough.
//!
//! A [`Service`] stands beside a link's two [`Law`]s and changes times only: routes, plans and
//! bytes follow from the laws alone, so a machine of real memory may ignore it.
//! Invariant: a link without a service is one that serves first come, first served, one copy at a
//! time in each direction; and no part of a service makes a channel faster than its law.

use crate::hardware::law::Law;
use crate::loaded::between;
use crate::units::{Bandwidth, Bytes, Span};
use serde::Deserialize;
use std::num::NonZeroU32;

/// Who is served when several copies want a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename = "Service", rename_all = "snake_case")]
pub enum Discipline {
    /// In order of arrival, each at the full rate of the law.
    #[default]
    Fifo,
    /// All at once, at max-min fair rates.
    ///
    /// Source: Bertsekas, Gallager, "Data Networks", 2nd ed., 1992, section 6.5.2.
    FairShare,
}

/// The service of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Who is served.
    pub discipline: Discipline,
    /// Copies of one direction that are under way at once; later ones wait in order. `None` for
    /// one under [`Discipline::Fifo`] and no limit under [`Discipline::FairShare`].
    pub max_in_flight: Option<NonZeroU32>,
    /// Bytes per second of both directions together; only under [`Discipline::FairShare`].
    pub total: Option<Bandwidth>,
    /// Bytes per second of both directions together by the share of fetches, in per cent, among the
    /// bytes under way; by rising share, none above `total`; empty for `total` at every share.
    pub mix: Vec<(u8, Bandwidth)>,
    /// What is peculiar to copies towards the device.
    pub read: Detail,
    /// What is peculiar to copies away from the device.
    pub write: Detail,
}

/// What is peculiar to one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Rate that a copy of so many bytes reaches, by rising size and time; empty for the law's.
    pub sizes: Vec<(Bytes, Bandwidth)>,
    /// Rate that so many copies at once reach together, by rising number from 1, never falling;
    /// empty for the law's. Only under [`Discipline::FairShare`].
    pub depths: Vec<(u32, Bandwidth)>,
    /// A random delay on top of the set-up of each copy or chunk.
    pub tail: Option<Tail>,
    /// A cache in front of something slower. Only under [`Discipline::Fifo`] with one copy in
    /// flight.
    pub cache: Option<Cache>,
}

/// A log-normal delay through two percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Half of all delays are shorter; above zero.
    pub p50: Span,
    /// 99 of 100 delays are shorter; at least `p50`.
    pub p99: Span,
}

/// A cache that takes what is written at the rate of the law, and is emptied at another all the
/// while. Once it is full, writing goes at that rate too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What it holds.
    pub size: Bytes,
    /// Bytes per second at which it is emptied; below the rate of the law.
    pub drain: Bandwidth,
}

impl Service {
    /// Copies of one direction that may be under way at once.
    pub fn at_once(&self) -> u32 {
        match (self.max_in_flight, self.discipline) {
            (Some(max_in_flight), _) => max_in_flight.get(),
            (None, Discipline::Fifo) => 1,
            (None, Discipline::FairShare) => u32::MAX,
        }
    }

    /// What fetches and evictions reach together that go so fast, if there is a limit: along
    /// straight lines between the shares, rounded down, and that of the nearest outside them.
    pub fn total_of(&self, fetches: u64, evictions: u64) -> Option<Bandwidth> {
        let all = u128::from(fetches + evictions).max(1);
        let share = 100 * u128::from(fetches);
        let next = self.mix.partition_point(|&(point, _)| u128::from(point) * all < share);
        let end = |index: usize| {
            let (point, rate) = self.mix[index];
            (u128::from(point) * all, rate.get())
        };
        match next {
            _ if self.mix.is_empty() => self.total,
            0 => Some(self.mix[0].1),
            next if next == self.mix.len() => Some(self.mix[next - 1].1),
            next => Bandwidth::new(between(share, end(next - 1), end(next))),
        }
    }

    /// The least that both directions together reach, if there is a limit.
    pub fn least_total(&self) -> Option<Bandwidth> {
        self.mix.iter().map(|point| point.1).chain(self.total).min()
    }

    /// What is peculiar to one direction.
    pub fn detail(&self, evicting: bool) -> &Detail {
        if evicting { &self.write } else { &self.read }
    }
}

impl Detail {
    /// Time of `bytes` by the size table, the set-up of the law not counted.
    ///
    /// At a point of the table exactly `ceil(size * 10^12 / rate)` ps; between two points along the
    /// straight line from one time to the other, rounded up; below the first as long as that one,
    /// beyond the last at its rate. `None` without a table.
    pub fn sized(&self, bytes: Bytes) -> Option<Span> {
        let time = |&(size, rate): &(Bytes, Bandwidth)| rate.span_of(size.get());
        let next = self.sizes.partition_point(|&(size, _)| size < bytes);
        let (Some(first), Some(last)) = (self.sizes.first(), self.sizes.last()) else {
            return None;
        };
        if next == 0 {
            return Some(time(first));
        }
        let Some(above) = self.sizes.get(next) else { return Some(last.1.span_of(bytes.get())) };
        let below = &self.sizes[next - 1];
        let (start, rise) = (time(below), time(above).ps() - time(below).ps());
        let (part, whole) = (bytes - below.0, above.0 - below.0);
        let along = u128::from(rise) * u128::from(part.get());
        let along = along.div_ceil(u128::from(whole.get()));
        Some(start + Span::from_ps(along as u64))
    }

    /// What a copy of `bytes` takes by the size table beyond `ceil(bytes * 10^12 / rate)` ps.
    pub fn excess(&self, bytes: Bytes, rate: Bandwidth) -> Span {
        let sized = self.sized(bytes).map_or(0, Span::ps);
        Span::from_ps(sized.saturating_sub(rate.span_of(bytes.get()).ps()))
    }

    /// Rate of `depth` copies at once together: along straight lines between the points, rounded
    /// down, and the last beyond it; `rate` without a ramp.
    pub fn rate_at(&self, depth: u64, rate: Bandwidth) -> Bandwidth {
        let next = self.depths.partition_point(|&(point, _)| u64::from(point) < depth);
        let Some(&(above, high)) = self.depths.get(next) else {
            return self.depths.last().map_or(rate, |last| last.1);
        };
        let Some(&(below, low)) = next.checked_sub(1).map(|below| &self.depths[below]) else {
            return high;
        };
        let rise = u128::from(high.get() - low.get()) * u128::from(depth - u64::from(below));
        let along = low.get() + (rise / u128::from(above - below)) as u64;
        Bandwidth::new(along).expect("no lower than a point of the ramp")
    }

    /// A law that is never faster than this direction with `law` is.
    pub fn slowest(&self, law: Law) -> Law {
        let first = self.sizes.first().map_or(Span::ZERO, |point| point.1.span_of(point.0.get()));
        let tail = self.tail.map_or(Span::ZERO, |tail| tail.most());
        // What a size takes beyond the law is paid on top of what a ramp or a full cache takes.
        let least =
            |rates: &mut dyn Iterator<Item = Bandwidth>| rates.fold(law.rate, Bandwidth::min);
        let sizes = least(&mut self.sizes.iter().map(|point| point.1));
        let depths = self.depths.iter().map(|point| point.1);
        let slowed = least(&mut depths.chain(self.cache.map(|cache| cache.drain)));
        let rate = match sizes < law.rate && slowed < law.rate {
            true => one_after_the_other(sizes, slowed),
            false => sizes.min(slowed),
        };
        Law { setup: law.setup + first + tail, rate }
    }
}

/// The rate of moving everything at the one rate and then at the other, rounded down.
fn one_after_the_other(one: Bandwidth, other: Bandwidth) -> Bandwidth {
    let (one, other) = (u128::from(one.get()), u128::from(other.get()));
    let rate = u64::try_from(one * other / (one + other)).unwrap_or(u64::MAX);
    Bandwidth::new(rate.max(1)).expect("at least 1")
}

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;
/// Draws further out are cut to this many standard deviations: one in 10^9 is.
const CUT: f64 = 6.0;

impl Tail {
    /// Mean and standard deviation of the delay's logarithm, in ln picoseconds:
    /// mu = ln p50, sigma = ln(p99 / p50) / z(0.99).
    pub fn parameters(&self) -> (f64, f64) {
        let (p50, p99) = (self.p50.ps() as f64, self.p99.ps() as f64);
        (p50.ln(), (p99 / p50).ln() / Z99)
    }

    /// No delay is longer.
    pub fn most(&self) -> Span {
        let (mu, sigma) = self.parameters();
        Span::from_ps((mu + CUT * sigma).exp().min(1e18).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_ns: u64) -> Bandwidth {
        Bandwidth::new(per_ns * 1_000_000_000).expect("above zero")
    }

    #[test]
    fn a_size_table_goes_through_its_points_and_straight_between() {
        // 100 bytes in 100 ns, 300 in 150.
        let sizes = vec![(Bytes::new(100), rate(1)), (Bytes::new(300), rate(2))];
        let detail = Detail { sizes, ..Detail::default() };
        let times = [1, 100, 200, 300, 600].map(|bytes| detail.sized(Bytes::new(bytes)));
        let expected = [100, 100, 125, 150, 300].map(|ns| Some(Span::from_ns(ns)));
        assert_eq!(times, expected);
        assert_eq!(detail.excess(Bytes::new(200), rate(4)), Span::from_ns(75));
        assert_eq!(Detail::default().excess(Bytes::new(200), rate(4)), Span::ZERO);
        assert_eq!(detail.sized(Bytes::new(101)), Some(Span::from_ps(100_250)));
    }

    #[test]
    fn a_ramp_rises_to_its_last_point() {
        let depths = vec![(1, rate(2)), (5, rate(10)), (9, rate(11))];
        let detail = Detail { depths, ..Detail::default() };
        let rates = [1, 2, 5, 7, 9, 1000].map(|depth| detail.rate_at(depth, rate(12)));
        assert_eq!(rates.map(|rate| rate.get() / 100_000_000), [20, 40, 100, 105, 110, 110]);
        assert_eq!(Detail::default().rate_at(3, rate(12)), rate(12));
    }

    #[test]
    fn a_mix_has_its_own_total_at_every_share_of_fetches() {
        let mix = vec![(0, rate(22)), (60, rate(42)), (100, rate(26))];
        let service = Service { total: Some(rate(42)), mix, ..Service::default() };
        let total = |fetches, evictions| service.total_of(fetches, evictions);
        assert_eq!([total(0, 3), total(3, 2), total(5, 0)], [22, 42, 26].map(|r| Some(rate(r))));
        assert_eq!([total(3, 7), total(4, 1)], [32, 34].map(|r| Some(rate(r))));
        assert_eq!(service.least_total(), Some(rate(22)));
        assert_eq!(Service::default().total_of(3, 2), None);
    }

    #[test]
    fn a_mix_that_leaves_shares_out_has_that_of_the_nearest() {
        let mix = vec![(20, rate(22)), (60, rate(42))];
        let service = Service { mix, ..Service::default() };
        let total = |fetches, evictions| service.total_of(fetches, evictions);
        assert_eq!([total(0, 5), total(1, 4)], [Some(rate(22)); 2]);
        assert_eq!([total(3, 2), total(4, 1), total(5, 0)], [Some(rate(42)); 3]);
    }

    #[test]
    fn as_many_copies_are_under_way_at_once_as_stated() {
        let at_once = |max_in_flight, discipline| {
            let max_in_flight = NonZeroU32::new(max_in_flight);
            Service { max_in_flight, discipline, ..Service::default() }.at_once()
        };
        assert_eq!([at_once(0, Discipline::Fifo), at_once(3, Discipline::Fifo)], [1, 3]);
        let fair = [0, 3].map(|max_in_flight| at_once(max_in_flight, Discipline::FairShare));
        assert_eq!(fair, [u32::MAX, 3]);
    }

    #[test]
    fn each_direction_has_details_of_its_own() {
        let depths = |rate: Bandwidth| Detail { depths: vec![(1, rate)], ..Detail::default() };
        let (read, write) = (depths(rate(1)), depths(rate(2)));
        let service = Service { read, write, ..Service::default() };
        let rates = [false, true].map(|evicting| service.detail(evicting).rate_at(1, rate(9)));
        assert_eq!(rates, [rate(1), rate(2)]);
    }

    #[test]
    fn the_slowest_law_is_no_slower_than_what_slows_it() {
        let law = Law { setup: Span::ZERO, rate: rate(4) };
        let sizes = |rate: Bandwidth| vec![(Bytes::ZERO, rate)];
        let cache = |drain| Some(Cache { size: Bytes::new(1), drain });
        let slowest = |sizes, cache| Detail { sizes, cache, ..Detail::default() }.slowest(law);
        assert_eq!(slowest(Vec::new(), None), law);
        assert_eq!(slowest(sizes(rate(3)), None).rate, rate(3));
        assert_eq!(slowest(Vec::new(), cache(rate(3))).rate, rate(3));
        // One after the other: a byte takes a third and a sixth of its time at 1 byte per ns.
        let law = Law { setup: Span::ZERO, rate: rate(9) };
        let detail = Detail { sizes: sizes(rate(3)), cache: cache(rate(6)), ..Detail::default() };
        assert_eq!(detail.slowest(law).rate, rate(2));
    }

    #[test]
    fn the_slowest_law_is_a_bound() {
        let sizes = vec![(Bytes::new(100), rate(1)), (Bytes::new(300), rate(2))];
        let detail = Detail { sizes, ..Detail::default() };
        let law = Law { setup: Span::from_ns(7), rate: rate(4) };
        let bound = detail.slowest(law);
        for bytes in (1..1000).map(Bytes::new) {
            assert!(law.span_of(bytes) + detail.excess(bytes, law.rate) <= bound.span_of(bytes));
        }
    }

    #[test]
    fn the_slowest_law_counts_a_size_table_and_a_cache_both() {
        let sizes = vec![(Bytes::new(100), rate(2))];
        let cache = Some(Cache { size: Bytes::new(1), drain: rate(2) });
        let detail = Detail { sizes, cache, ..Detail::default() };
        let law = Law { setup: Span::ZERO, rate: rate(4) };
        // 1000 bytes: 500 ns by the table, 250 of them beyond the law, and 500 through the cache.
        let excess = detail.excess(Bytes::new(1000), law.rate);
        let takes = excess + rate(2).span_of(1000);
        assert_eq!(takes, Span::from_ns(750));
        assert!(detail.slowest(law).span_of(Bytes::new(1000)) >= takes);
    }

    #[test]
    fn a_tail_is_cut_six_deviations_out() {
        let tail = Tail { p50: Span::from_us(68), p99: Span::from_us(82) };
        let (mu, sigma) = tail.parameters();
        assert!(((mu + Z99 * sigma).exp() / 82e6 - 1.0).abs() < 1e-12);
        assert!(tail.most() > tail.p99 && tail.most() < Span::from_us(120));
        let certain = Tail { p50: Span::from_us(3), p99: Span::from_us(3) };
        assert!(certain.most().ps().abs_diff(3_000_000) <= 1);
    }
}
