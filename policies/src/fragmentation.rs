//! How the memory of a tier was used over a run: what allocators cost.
//!
//! Sampled after every op, in planning order; the most that is held also with every allocation, as
//! much of it lives within one op. A run has any number of ops and a chart is so wide,
//! so neighbouring samples are put together; means and extremes are over all of them.
//! Invariant: figures depend on the plan only, never on when commands end.

use tiersim_models::allocator::{Stats, histogram};
pub use tiersim_models::results::memory_use::{MemoryUse, POINTS, Point, Share};
use tiersim_models::units::Bytes;

/// The op after which memory is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Which op of the run.
    pub(crate) occurrence: u64,
    /// Its step of the run.
    pub(crate) step: u64,
    /// Whether it is the last of its step.
    pub(crate) ends_step: bool,
}

/// Collects a [`MemoryUse`].
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Ops of the run.
    ops: u64,
    samples: u64,
    in_point: u64,
    /// The most that was allocated and reserved since the last sample.
    most: [Bytes; 2],
    external: Share,
    internal: Share,
    total: Share,
    pub(crate) found: MemoryUse,
}

impl Meter {
    pub(crate) fn new(ops: u64) -> Meter {
        let [external, internal, total] = [Share::default(); 3];
        let found = MemoryUse::default();
        let most = [Bytes::ZERO; 2];
        Meter { ops, samples: 0, in_point: 0, most, external, internal, total, found }
    }

    /// An object has got memory.
    pub(crate) fn allocated(&mut self, stats: &Stats) {
        let [allocated, reserved] = self.most;
        self.most = [allocated.max(stats.allocated), reserved.max(stats.reserved)];
    }

    /// `pieces` are the sizes of all free pieces, asked for once per point.
    pub(crate) fn sample(
        &mut self,
        moment: Moment,
        stats: &Stats,
        pieces: impl FnOnce() -> Vec<Bytes>,
    ) {
        let (external, internal, total) = (stats.external(), stats.internal(), stats.total());
        self.samples += 1;
        note(&mut self.external, external);
        note(&mut self.internal, internal);
        note(&mut self.total, total);
        let closes = self.closes(moment);
        self.allocated(stats);
        let [allocated, reserved] = std::mem::take(&mut self.most);
        let found = &mut self.found;
        found.peak_allocated = found.peak_allocated.max(allocated);
        found.peak_reserved = found.peak_reserved.max(reserved);
        if self.in_point == 0 {
            found.series.push(Point::default());
        }
        self.in_point += 1;
        let count = self.in_point as f64;
        let point = found.series.last_mut().expect("there is a point");
        point.occurrence = moment.occurrence;
        point.step = moment.step;
        point.allocated = point.allocated.max(allocated);
        point.reserved = point.reserved.max(reserved);
        point.mean += (external - point.mean) / count;
        point.highest = point.highest.max(external);
        point.internal_mean += (internal - point.internal_mean) / count;
        point.internal_highest = point.internal_highest.max(internal);
        point.total_mean += (total - point.total_mean) / count;
        point.total_highest = point.total_highest.max(total);
        if closes {
            let counts = histogram(&pieces()).into_iter().enumerate();
            let some = counts.filter(|&(_, count)| count > 0);
            point.free_pieces = some.map(|(power, count)| (power as u8, count)).collect();
            self.in_point = 0;
        }
    }

    /// Whether an op is the last of its point: of its stretch of the run, or of its step, unless
    /// there are more steps than points.
    fn closes(&self, Moment { occurrence, step, ends_step }: Moment) -> bool {
        let points = self.ops.clamp(1, POINTS);
        let stretch = |occurrence: u64| {
            u128::from(occurrence) * u128::from(points) / u128::from(self.ops.max(1))
        };
        let last = stretch(occurrence) != stretch(occurrence + 1);
        last || (ends_step && step < POINTS)
    }

    /// Objects are moved together where this much was fragmented.
    pub(crate) fn compacted(&mut self, bytes: Bytes, fragmented: f64) {
        self.found.compactions += 1;
        self.found.compacted += bytes;
        self.found.compacted_from = self.found.compacted_from.max(fragmented);
    }

    /// Everything so far.
    pub(crate) fn found(&self) -> MemoryUse {
        let mean = |share: Share| Share { mean: share.mean / self.samples.max(1) as f64, ..share };
        let [external, internal, total] = [self.external, self.internal, self.total].map(mean);
        MemoryUse { external, internal, total, ..self.found.clone() }
    }
}

/// Until the end, `mean` holds the sum.
fn note(share: &mut Share, value: f64) {
    share.mean += value;
    share.highest = share.highest.max(value);
    share.end = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(allocated: u64, largest: u64) -> Stats {
        Stats {
            allocated: Bytes::new(allocated),
            requested: Bytes::new(allocated / 2),
            reserved: Bytes::new(allocated + 1),
            free: Bytes::new(100),
            largest_free: Bytes::new(largest),
            ..Stats::default()
        }
    }

    fn moment(occurrence: u64, step: u64, ends_step: bool) -> Moment {
        Moment { occurrence, step, ends_step }
    }

    #[test]
    fn means_and_extremes_are_over_all_ops() {
        let mut meter = Meter::new(3);
        for (op, (allocated, largest)) in [(10, 100), (40, 25), (20, 50)].into_iter().enumerate() {
            meter.sample(moment(op as u64, 0, false), &stats(allocated, largest), Vec::new);
        }
        let found = meter.found();
        let expected = Share { mean: (0.0 + 0.75 + 0.5) / 3.0, highest: 0.75, end: 0.5 };
        assert_eq!(found.external, expected);
        assert_eq!(found.internal, Share { mean: 0.5, highest: 0.5, end: 0.5 });
        let total = Share { mean: (0.25 + 0.625 + 0.5) / 3.0, highest: 0.625, end: 0.5 };
        assert_eq!(found.total, total, "half of the sum of both, at every op");
        assert_eq!((found.peak_allocated.get(), found.peak_reserved.get()), (40, 41));
        assert_eq!(found.series.len(), 3);
    }

    #[test]
    fn what_lives_within_an_op_counts_among_the_most_that_is_held() {
        let mut meter = Meter::new(2);
        meter.allocated(&stats(70, 100));
        meter.allocated(&stats(30, 100));
        meter.sample(moment(0, 0, false), &stats(10, 100), Vec::new);
        meter.sample(moment(1, 0, true), &stats(20, 100), Vec::new);
        let found = meter.found();
        assert_eq!((found.peak_allocated.get(), found.peak_reserved.get()), (70, 71));
        let series: Vec<u64> = found.series.iter().map(|point| point.allocated.get()).collect();
        assert_eq!(series, [70, 20], "of its own op alone");
    }

    #[test]
    fn a_long_run_is_put_together_into_so_many_points() {
        let ops = POINTS * 10 + 5;
        let mut meter = Meter::new(ops);
        for op in 0..ops {
            meter.sample(moment(op, 0, false), &stats(op, 100 - op % 2 * 50), Vec::new);
        }
        let series = meter.found().series;
        assert_eq!(series.len() as u64, POINTS);
        assert_eq!(series.last().map(|point| point.occurrence), Some(ops - 1));
        let means = series.iter().map(|point| point.mean);
        assert!(means.clone().all(|mean| (0.2..0.3).contains(&mean)), "{means:?}");
        assert!(series.windows(2).all(|pair| pair[0].allocated < pair[1].allocated));
    }
    #[test]
    fn a_point_ends_with_its_step_and_counts_the_pieces_that_are_free_then() {
        let ops = POINTS * 10;
        let mut meter = Meter::new(ops);
        for op in 0..ops {
            // Steps of 25 ops: a point ends with every tenth op, and between two of these.
            let pieces = move || vec![Bytes::new(op + 1), Bytes::new(1), Bytes::new(1)];
            meter.sample(moment(op, op / 25, op % 25 == 24), &stats(op, 50), pieces);
        }
        let series = meter.found().series;
        let ends: Vec<(u64, u64)> = series.iter().take(6).map(|p| (p.occurrence, p.step)).collect();
        assert_eq!(ends, [(9, 0), (19, 0), (24, 0), (29, 1), (39, 1), (49, 1)]);
        assert_eq!(series[2].free_pieces, [(0, 2), (4, 1)], "24 + 1 bytes lie in 16 to 31");
        let internal = series[1..].iter().map(|point| point.internal_highest);
        assert!(internal.clone().all(|share| (0.5..0.55).contains(&share)), "half and a rounding");
        let last = series.last().expect("points");
        assert_eq!((last.occurrence, last.step), (ops - 1, ops / 25 - 1));
    }
}
