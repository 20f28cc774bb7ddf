//! How the memory of a tier was used over a run: what allocators cost.
//!
//! Sampled after every op, in planning order. A run has any number of ops and a chart is so wide,
//! so neighbouring samples are put together; means and extremes are over all of them.
//! Invariant: figures depend on the plan only, never on when commands end.

use tiersim_models::allocator::Stats;
use tiersim_models::allocator::buckets::BucketStats;
use tiersim_models::units::Bytes;

/// Most points of a series.
pub const POINTS: u64 = 1000;

/// One stretch of ops.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The last op of the run in it.
    pub occurrence: u64,
    /// Most bytes of live blocks.
    pub allocated: Bytes,
    /// Most bytes that the allocator kept from others.
    pub reserved: Bytes,
    /// Mean external fragmentation.
    pub mean: f64,
    /// Highest external fragmentation.
    pub highest: f64,
}

/// A share over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Mean over ops.
    pub mean: f64,
    /// Highest after any op.
    pub highest: f64,
    /// After the last op.
    pub end: f64,
}

/// The use of one tier's memory over a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// The allocator in words, such as `buckets, compacted above 30 %`.
    pub allocator: String,
    /// Bytes after the last op.
    pub end: Stats,
    /// Most bytes of live blocks after any op.
    pub peak_allocated: Bytes,
    /// Most bytes that the allocator kept from others after any op.
    pub peak_reserved: Bytes,
    /// `1 - largest_free / free`.
    pub external: Share,
    /// `1 - requested / allocated`.
    pub internal: Share,
    /// How often objects were moved together.
    pub compactions: u64,
    /// Bytes that this copied inside the tier.
    pub compacted: Bytes,
    /// The highest external fragmentation that a compaction found; what the others measure is what
    /// it left.
    pub compacted_from: f64,
    /// Objects that left the tier because no free piece was large enough.
    pub forced: u64,
    /// Prefetches that were given up because no free piece was large enough.
    pub given_up: u64,
    /// Free pieces after the last op by size: of at least 2^i and less than 2^(i+1) bytes.
    pub free_pieces: Vec<u64>,
    /// Its buckets after the last op, if it has any.
    pub buckets: Vec<BucketStats>,
    /// Over the run, at most [`POINTS`].
    pub series: Vec<Point>,
}

/// Collects a [`MemoryUse`].
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Ops of the run.
    ops: u64,
    samples: u64,
    in_point: u64,
    external: Share,
    internal: Share,
    pub(crate) found: MemoryUse,
}

impl Meter {
    pub(crate) fn new(ops: u64) -> Meter {
        let (external, internal) = (Share::default(), Share::default());
        let found = MemoryUse::default();
        Meter { ops, samples: 0, in_point: 0, external, internal, found }
    }

    pub(crate) fn sample(&mut self, occurrence: u64, stats: &Stats) {
        let (external, internal) = (stats.external(), stats.internal());
        self.samples += 1;
        note(&mut self.external, external);
        note(&mut self.internal, internal);
        let found = &mut self.found;
        found.peak_allocated = found.peak_allocated.max(stats.allocated);
        found.peak_reserved = found.peak_reserved.max(stats.reserved);
        let points = self.ops.clamp(1, POINTS);
        let point_of = |occurrence: u64| {
            (u128::from(occurrence) * u128::from(points) / u128::from(self.ops.max(1))) as u64
        };
        let point = match found.series.last_mut() {
            Some(point) if point_of(point.occurrence) == point_of(occurrence) => point,
            _ => {
                self.in_point = 0;
                found.series.push(Point::default());
                found.series.last_mut().expect("just pushed")
            }
        };
        self.in_point += 1;
        point.occurrence = occurrence;
        point.allocated = point.allocated.max(stats.allocated);
        point.reserved = point.reserved.max(stats.reserved);
        point.mean += (external - point.mean) / self.in_point as f64;
        point.highest = point.highest.max(external);
    }

    /// Objects are moved together where this share of free memory was in pieces.
    pub(crate) fn compacted(&mut self, bytes: Bytes, external: f64) {
        self.found.compactions += 1;
        self.found.compacted += bytes;
        self.found.compacted_from = self.found.compacted_from.max(external);
    }

    /// Everything so far.
    pub(crate) fn found(&self) -> MemoryUse {
        let mean = |share: Share| Share { mean: share.mean / self.samples.max(1) as f64, ..share };
        let (external, internal) = (mean(self.external), mean(self.internal));
        MemoryUse { external, internal, ..self.found.clone() }
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

    #[test]
    fn means_and_extremes_are_over_all_ops() {
        let mut meter = Meter::new(3);
        for (op, (allocated, largest)) in [(10, 100), (40, 25), (20, 50)].into_iter().enumerate() {
            meter.sample(op as u64, &stats(allocated, largest));
        }
        let found = meter.found();
        let expected = Share { mean: (0.0 + 0.75 + 0.5) / 3.0, highest: 0.75, end: 0.5 };
        assert_eq!(found.external, expected);
        assert_eq!(found.internal, Share { mean: 0.5, highest: 0.5, end: 0.5 });
        assert_eq!((found.peak_allocated.get(), found.peak_reserved.get()), (40, 41));
        assert_eq!(found.series.len(), 3);
    }

    #[test]
    fn a_long_run_is_put_together_into_so_many_points() {
        let ops = POINTS * 10 + 5;
        let mut meter = Meter::new(ops);
        for op in 0..ops {
            meter.sample(op, &stats(op, 100 - op % 2 * 50));
        }
        let series = meter.found().series;
        assert_eq!(series.len() as u64, POINTS);
        assert_eq!(series.last().map(|point| point.occurrence), Some(ops - 1));
        let means = series.iter().map(|point| point.mean);
        assert!(means.clone().all(|mean| (0.2..0.3).contains(&mean)), "{means:?}");
        assert!(series.windows(2).all(|pair| pair[0].allocated < pair[1].allocated));
    }
}
