//! Which points are measured, in which order and how often.
//!
//! Laws are fitted to powers of two; three times a power of two is measured as well and held out,
//! so that a law is graded at sizes that it has never seen. Points are visited in rounds, each in a
//! shuffled order of its own, because what disturbs a computer lasts for a while: it then hits a
//! few repeats of many points, which the median forgives, and not all repeats of one.
//! Invariant: every point has at least [`LEAST`] repeats.

use crate::calibrate::probe::{Kind, Limits, MeasuredMachine, Probe};
use crate::fault::Result;
use crate::options::draw;
use tiersim_models::results::calibration::Quantiles;
use tiersim_models::results::comparison::median;
use tiersim_models::results::op_grades::quantile;
use tiersim_models::units::{Bytes, Span};

/// Fewest repeats of a point.
pub const LEAST: usize = 9;
/// Rounds over all points; `quick` has one.
const ROUNDS: usize = 3;
/// Most repeats of a point in one round.
const MOST: usize = 33;
/// A point that takes less is repeated more often, until a round of it takes this long.
const ROUND_TIME: Span = Span::from_us(5_000);
/// `quick` leaves out larger sizes.
const QUICK_MOST: u64 = 4 << 20;
/// Seed of the order in which points are visited.
const SEED: u64 = 0x0CA1_1B8A;

/// A point with everything that was measured at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What was measured.
    pub kind: Kind,
    /// Bytes of payload, as in [`Probe::size`].
    pub size: Bytes,
    /// Measured to grade a law, never fitted.
    pub held_out: bool,
    /// Neither fitted nor held out: below [`Limits::fit_from`].
    pub shown_only: bool,
    /// Every repeat, in the order of the clock.
    pub spans: Vec<Span>,
    /// Times of single blocks of files.
    pub latencies: Vec<Span>,
    /// FLOP of one repeat.
    pub flops: u64,
}

/// Quantiles of these times, in seconds.
pub fn quantiles(spans: &[Span]) -> Quantiles {
    let mut sorted: Vec<f64> = spans.iter().map(|span| span.ps() as f64 / 1e12).collect();
    sorted.sort_by(f64::total_cmp);
    let [p5, median, p95, p99, p999] =
        [0.05, 0.5, 0.95, 0.99, 0.999].map(|share| quantile(&sorted, share));
    Quantiles { count: sorted.len(), p5, median, p95, p99, p999 }
}

impl Point {
    /// Quantiles of its repeats.
    pub fn quantiles(&self) -> Quantiles {
        quantiles(&self.spans)
    }

    /// What a law's rate counts: FLOP where there are any, bytes elsewhere.
    pub fn work(&self) -> f64 {
        if self.flops > 0 { self.flops as f64 } else { self.size.get() as f64 }
    }
}

/// Measures everything that a bench can. `tell` hears how many visits of how many are done.
pub fn measure(
    bench: &mut dyn MeasuredMachine,
    quick: bool,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Point>> {
    let mut points: Vec<Point> =
        bench.kinds().into_iter().flat_map(|(kind, limits)| sizes(kind, limits, quick)).collect();
    let rounds = if quick { 1 } else { ROUNDS };
    let visits = points.len() * rounds;
    for round in 0..rounds {
        for (done, index) in order(points.len(), round).into_iter().enumerate() {
            let point = &mut points[index];
            let repeats = repeats(&point.spans, quick);
            let probe = Probe { kind: point.kind, size: point.size, repeats };
            let sample = bench.run(&probe)?;
            point.spans.extend(sample.spans);
            point.latencies.extend(sample.latencies);
            point.flops = sample.flops;
            tell(round * points.len() + done + 1, visits);
        }
    }
    Ok(points)
}

/// The points of one kind of measurement.
fn sizes(kind: Kind, limits: Limits, quick: bool) -> Vec<Point> {
    let Limits { least, most, fit_from } = limits;
    let point = |size: u64, held_out| {
        let shown_only = size < fit_from.get();
        let (spans, latencies) = (Vec::new(), Vec::new());
        let (size, held_out) = (Bytes::new(size), held_out && !shown_only);
        Point { kind, size, held_out, shown_only, spans, latencies, flops: 0 }
    };
    if least == most {
        let wanted = match kind {
            Kind::File { block, depth, .. } => !quick || (is_quick_block(block) && depth <= 8),
            _ => true,
        };
        return wanted.then(|| point(least.get(), false)).into_iter().collect();
    }
    let most = if quick { most.get().min(QUICK_MOST) } else { most.get() };
    let powers = (0..63).map(|power| 1u64 << power);
    let within = |size: &u64| (least.get()..=most).contains(size);
    let every = if quick { 2 } else { 1 };
    let fitted = powers.clone().filter(within).step_by(every).map(|size| point(size, false));
    let held_out = powers.filter(within).map(|size| 3 * size).filter(within).step_by(2 * every - 1);
    let mut points: Vec<Point> = fitted.chain(held_out.map(|size| point(size, true))).collect();
    points.sort_by_key(|point| point.size);
    if points.iter().filter(|point| !point.shown_only && !point.held_out).count() < 2 {
        // Too few beyond the caches: better a law of what there is, which says what it was fitted
        // to.
        for point in &mut points {
            point.shown_only = false;
            point.held_out = !point.size.get().is_power_of_two();
        }
    }
    points
}

fn is_quick_block(block: u32) -> bool {
    matches!(block, 4096 | 262_144)
}

/// How often a point is repeated in its next round, from what is known of it.
fn repeats(spans: &[Span], quick: bool) -> usize {
    if quick {
        return LEAST;
    }
    let least = LEAST.div_ceil(ROUNDS);
    if spans.is_empty() {
        return least;
    }
    let median = median(spans).ps().max(1);
    usize::try_from(ROUND_TIME.ps() / median).unwrap_or(MOST).clamp(least, MOST)
}

/// A permutation of 0..`count`: Fisher and Yates, with draws that depend on the round only.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let index = (round * count + last) as u64;
        order.swap(last, (draw(SEED, index) % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::probe::{Access, Device, Precision, Sample};

    const LIMITS: Limits = Limits::new(Bytes::new(4096), Bytes::mib(64));

    fn split(points: &[Point]) -> (Vec<u64>, Vec<u64>) {
        let sizes = |held_out| {
            let of = points.iter().filter(move |point| point.held_out == held_out);
            of.map(|point| point.size.get()).collect()
        };
        (sizes(false), sizes(true))
    }

    #[test]
    fn powers_of_two_are_fitted_and_threefold_ones_held_out() {
        let (fitted, held_out) = split(&sizes(Kind::Gemm(Precision::Fp32), LIMITS, false));
        assert_eq!((fitted.len(), held_out.len()), (15, 13));
        assert!(fitted.iter().all(|size| size.is_power_of_two()));
        assert!(held_out.iter().all(|size| size % 3 == 0 && (size / 3).is_power_of_two()));
        let (fitted, held_out) = split(&sizes(Kind::Gemm(Precision::Fp32), LIMITS, true));
        assert_eq!((fitted.len(), held_out.len()), (6, 3));
    }

    #[test]
    fn sizes_below_the_caches_are_shown_and_neither_fitted_nor_held_out() {
        let limits = Limits { fit_from: Bytes::mib(8), ..LIMITS };
        let points = sizes(Kind::Stream(Access::Read), limits, false);
        assert!(points.iter().all(|p| p.shown_only == (p.size < Bytes::mib(8))));
        assert!(points.iter().all(|p| !(p.shown_only && p.held_out)));
        // Where too few are left, all count.
        let points = sizes(Kind::Stream(Access::Read), limits, true);
        assert!(points.iter().all(|p| !p.shown_only));
        assert!(!split(&points).1.is_empty());
    }

    /// Gives the n-th repeat of any point n microseconds.
    struct Counting(u64);

    impl MeasuredMachine for Counting {
        fn describe(&self) -> Device {
            unreachable!("nobody asks")
        }

        fn kinds(&self) -> Vec<(Kind, Limits)> {
            vec![
                (Kind::Gemm(Precision::Fp32), LIMITS),
                (Kind::Launch, Limits::new(Bytes::ZERO, Bytes::ZERO)),
            ]
        }

        fn run(&mut self, probe: &Probe) -> Result<Sample> {
            self.0 += 1;
            let spans = (0..probe.repeats as u64).map(Span::from_us).collect();
            Ok(Sample { probe: *probe, spans, latencies: Vec::new(), flops: 0 })
        }
    }

    #[test]
    fn every_point_is_visited_each_round_and_repeated_often_enough() {
        for quick in [false, true] {
            let mut bench = Counting(0);
            let mut heard = Vec::new();
            let points = measure(&mut bench, quick, &mut |done, all| heard.push((done, all)));
            let points = points.expect("no fault");
            let visits = points.len() * if quick { 1 } else { ROUNDS };
            assert_eq!(bench.0, visits as u64);
            assert_eq!((heard.len(), heard.last()), (visits, Some(&(visits, visits))));
            assert!(points.iter().all(|point| point.spans.len() >= LEAST));
        }
    }

    #[test]
    fn rounds_differ_in_order_only() {
        let (mut one, mut two) = (order(100, 0), order(100, 1));
        assert_ne!(one, two);
        assert_eq!(one, order(100, 0));
        one.sort_unstable();
        two.sort_unstable();
        assert_eq!(one, two);
    }

    #[test]
    fn quick_points_are_repeated_more_often_up_to_a_limit() {
        assert_eq!(repeats(&[], false), 3);
        assert_eq!(repeats(&[Span::from_us(1)], false), MOST);
        assert_eq!(repeats(&[Span::from_us(500)], false), 10);
        assert_eq!(repeats(&[Span::from_us(50_000)], false), 3);
        assert_eq!(repeats(&[], true), LEAST);
    }
}
