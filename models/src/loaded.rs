//! Latency of a memory under load: the more of its bandwidth is in use, the longer a request takes.
//!
//! Measured as curves of latency over bandwidth, one for each share of reads in the traffic.
//! Invariant: latency never falls with bandwidth, and at every point of a curve it is that point's.

use crate::units::{Bandwidth, Span};

/// One measured curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Reads in 100 bytes of traffic, 0 to 100.
    pub reads: u8,
    /// Latency at so many bytes per second, by rising bandwidth; at least one point, the first of
    /// which stands for an idle memory.
    pub points: Vec<(Bandwidth, Span)>,
}

/// The curves of one memory, by rising share of reads; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The curves.
    pub curves: Vec<Curve>,
}

/// The value at `at` on the straight line from `from` to `to`, rounded down.
pub(crate) fn between(at: u128, from: (u128, u64), to: (u128, u64)) -> u64 {
    let (part, whole) = (at - from.0, to.0 - from.0);
    let step = |high: u64, low: u64| (u128::from(high - low) * part / whole) as u64;
    if to.1 >= from.1 { from.1 + step(to.1, from.1) } else { from.1 - step(from.1, to.1) }
}

impl Curve {
    /// Latency at `used` bytes per second: along straight lines between the points, that of the
    /// first below it and of the last beyond it.
    pub fn latency(&self, used: u64) -> Span {
        let next = self.points.partition_point(|point| point.0.get() < used);
        let end = |index: usize| {
            let (rate, span) = self.points[index];
            (u128::from(rate.get()), span.ps())
        };
        match next {
            0 => self.points[0].1,
            next if next == self.points.len() => self.points[next - 1].1,
            next => Span::from_ps(between(u128::from(used), end(next - 1), end(next))),
        }
    }
}

impl Loaded {
    /// Latency while so many bytes per second are read and written: on the curves of the two
    /// nearest shares of reads, and along the straight line between them.
    pub fn latency(&self, read: u64, written: u64) -> Span {
        self.at(read, written, |curve| curve.latency(read.saturating_add(written)))
    }

    /// How much longer than in an idle memory that is.
    pub fn rise(&self, read: u64, written: u64) -> Span {
        let used = read.saturating_add(written);
        self.at(read, written, |curve| {
            Span::from_ps(curve.latency(used).ps() - curve.latency(0).ps())
        })
    }

    /// No latency rises by more.
    pub fn most(&self) -> Span {
        let rise = |curve: &Curve| curve.latency(u64::MAX).ps() - curve.latency(0).ps();
        Span::from_ps(self.curves.iter().map(rise).max().unwrap_or(0))
    }

    fn at(&self, read: u64, written: u64, of: impl Fn(&Curve) -> Span) -> Span {
        let used = u128::from(read) + u128::from(written);
        // In the unit of `used`, so that nothing is rounded: 100 x the bytes read.
        let share = if used == 0 { 100 } else { 100 * u128::from(read) };
        let used = used.max(1);
        let next = self.curves.partition_point(|curve| u128::from(curve.reads) * used < share);
        let end = |index: usize| {
            let curve = &self.curves[index];
            (u128::from(curve.reads) * used, of(curve).ps())
        };
        match next {
            0 => of(&self.curves[0]),
            next if next == self.curves.len() => of(&self.curves[next - 1]),
            next => Span::from_ps(between(share, end(next - 1), end(next))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(reads: u8, points: &[(u64, u64)]) -> Curve {
        let point = |&(rate, ps)| (Bandwidth::new(rate).expect("above zero"), Span::from_ps(ps));
        Curve { reads, points: points.iter().map(point).collect() }
    }

    #[test]
    fn a_curve_goes_through_its_points_and_straight_between() {
        let curve = curve(100, &[(10, 100), (30, 200), (40, 800)]);
        let read = [0, 10, 20, 30, 35, 40, 99].map(|used| curve.latency(used).ps());
        assert_eq!(read, [100, 100, 150, 200, 500, 800, 800]);
    }

    #[test]
    fn between_two_shares_of_reads_latency_lies_between() {
        let curves =
            vec![curve(50, &[(10, 100), (100, 1000)]), curve(100, &[(10, 50), (100, 350)])];
        let loaded = Loaded { curves };
        assert_eq!(loaded.latency(100, 0).ps(), 350);
        assert_eq!(loaded.latency(50, 50).ps(), 1000);
        assert_eq!(loaded.latency(75, 25).ps(), 675);
        // More writes than were ever measured: the nearest curve.
        assert_eq!(loaded.latency(0, 100).ps(), 1000);
        assert_eq!((loaded.rise(75, 25).ps(), loaded.most().ps()), (600, 900));
        assert_eq!((loaded.rise(0, 0).ps(), loaded.rise(5, 0).ps()), (0, 0));
    }
}
