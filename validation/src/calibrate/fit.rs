//! The law of service that lies nearest to measured points: `t = setup + work / rate`.
//!
//! Least squares on *relative* error, since points lie decades apart and each matters alike: every
//! residual is divided by the measured time. That is linear in setup and 1/rate, so the minimum has
//! a closed form; a setup that would come out below 0 is 0. Points are medians of their repeats, so
//! that single outliers have no say, and a point that was disturbed most of the time weighs less
//! ([`weight`]).
//! Invariant: no I/O and no clock; same points, same law.

use tiersim_models::results::op_grades::quantile;
/// A law with how well it is known. Times in seconds, work in bytes or FLOP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Seconds of one piece of work, whatever its size; not below 0.
    pub setup: f64,
    /// Work per second after that; above 0.
    pub rate: f64,
    /// One standard error of `setup`, in seconds, by how far the points lie from the law.
    pub setup_error: f64,
    /// One standard error of `rate`, in work per second.
    pub rate_error: f64,
}

/// Why points give no law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Two unknowns need two sizes.
    #[error(
        "the points have fewer than two different sizes, so setup and rate cannot be told apart"
    )]
    OneSize,
    /// A relative error needs something to relate to.
    #[error("a point's time or size is zero, negative or not finite")]
    NotPositive,
    /// The clock is too coarse, or the points are not what they claim to be.
    #[error("the times do not grow with size, so there is no rate")]
    NoGrowth,
}

impl Fit {
    /// Seconds for a piece of work.
    pub fn time(&self, work: f64) -> f64 {
        self.setup + work / self.rate
    }

    /// (fitted - measured) / measured.
    pub fn error(&self, (work, time): (f64, f64)) -> f64 {
        (self.time(work) - time) / time
    }
}

/// Sums of the normal equations, in units of the largest size: `a` counts 1/t, `b` counts work/t.
#[derive(Clone, Copy, Default)]
struct Sums {
    aa: f64,
    ab: f64,
    bb: f64,
    a: f64,
    b: f64,
}

/// Fits a law to points of (work, seconds), all of the same weight.
pub fn fit(points: &[(f64, f64)]) -> Result<Fit, Refusal> {
    fit_weighted(points, &vec![1.0; points.len()])
}

/// Fits a law to points of (work, seconds) with a weight above 0 for each.
///
/// Minimises the sum of weight * ((setup + work/rate - t) / t)^2 over setup >= 0 and rate > 0:
/// linear least squares with weights weight/t^2 (for instance Björck, "Numerical Methods for Least
/// Squares Problems", 1996, section 2.8), with the active-set step that two unknowns need.
pub fn fit_weighted(points: &[(f64, f64)], weights: &[f64]) -> Result<Fit, Refusal> {
    assert_eq!(points.len(), weights.len(), "every point has a weight");
    let positive = |v: f64| v.is_finite() && v > 0.0;
    let usable = |&(work, time): &(f64, f64)| positive(work) && positive(time);
    if !points.iter().all(usable) || !weights.iter().copied().all(positive) {
        return Err(Refusal::NotPositive);
    }
    let scale = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let least = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    if points.len() < 2 || least == scale {
        return Err(Refusal::OneSize);
    }
    let mut sums = Sums::default();
    for (&(work, time), weight) in points.iter().zip(weights) {
        let (a, b) = (1.0 / time, work / scale / time);
        sums.aa += weight * a * a;
        sums.ab += weight * a * b;
        sums.bb += weight * b * b;
        sums.a += weight * a;
        sums.b += weight * b;
    }
    // Positive by Cauchy and Schwarz, since two sizes differ.
    let det = sums.aa * sums.bb - sums.ab * sums.ab;
    let setup = (sums.a * sums.bb - sums.b * sums.ab) / det;
    let slope = (sums.b * sums.aa - sums.a * sums.ab) / det;
    let (setup, slope) = if setup >= 0.0 { (setup, slope) } else { (0.0, sums.b / sums.bb) };
    // Times that grow by less than rounding over all sizes have no rate either.
    if !positive(slope) || slope < setup * 1e-12 {
        return Err(Refusal::NoGrowth);
    }
    let mut law = Fit { setup, rate: scale / slope, setup_error: 0.0, rate_error: 0.0 };
    let square = |(&point, weight): (&(f64, f64), &f64)| weight * law.error(point).powi(2);
    let squares: f64 = points.iter().zip(weights).map(square).sum();
    let variance = squares / (points.len() as f64 - 2.0).max(1.0);
    law.setup_error = (variance * sums.bb / det).sqrt();
    // d(rate) = scale / slope^2 d(slope).
    law.rate_error = (variance * sums.aa / det).sqrt() * scale / (slope * slope);
    Ok(law)
}

/// The same where single points may be far off: an error above a tenth counts by its size, not its
/// square.
///
/// The loss is Huber's ("Robust Estimation of a Location Parameter", Annals of Mathematical
/// Statistics 35(1), 1964), by least squares that are weighted anew until the law stays.
pub fn fit_robust(points: &[(f64, f64)], weights: &[f64]) -> Result<Fit, Refusal> {
    let mut law = fit_weighted(points, weights)?;
    for _ in 0..ROUNDS {
        let less = |point| (FAR / law.error(point).abs()).min(1.0);
        let weighted = points.iter().zip(weights).map(|(&point, weight)| weight * less(point));
        let next = fit_weighted(points, &weighted.collect::<Vec<_>>())?;
        let stays = (next.rate / law.rate - 1.0).abs() < 1e-9;
        law = next;
        if stays {
            break;
        }
    }
    Ok(law)
}

/// An error that is no longer that of a law.
const FAR: f64 = 0.1;
/// Most rounds of a robust fit.
const ROUNDS: usize = 50;

/// How much a point counts by how disturbed it was: 1 for one whose median is its 5th percentile.
///
/// What disturbs a computer only makes it slower, so a median far above the quickest repeats is one
/// of disturbed repeats. With d = (median - p5) / p5 the weight is (0.1 / (0.1 + d))^2, as if the
/// point's standard error were a tenth of its time plus d.
pub fn weight(median: f64, p5: f64) -> f64 {
    let disturbed = if p5 > 0.0 { ((median - p5) / p5).max(0.0) } else { 0.0 };
    (0.1 / (0.1 + disturbed)).powi(2)
}

/// Sizes of relative errors of points: median, 95th percentile (nearest rank) and largest; zero
/// without points.
pub fn errors(law: &Fit, points: &[(f64, f64)]) -> (f64, f64, f64) {
    let mut sizes: Vec<f64> = points.iter().map(|&point| law.error(point).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    (quantile(&sizes, 0.5), quantile(&sizes, 0.95), quantile(&sizes, 1.0))
}

/// The value rounded to `digits` significant decimal digits.
pub fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // By a whole power of ten, which a float holds exactly: 908.6 must not become 908.599999.
    let power = digits - 1 - value.abs().log10().floor() as i32;
    let step = 10f64.powi(power.abs());
    if power >= 0 { (value * step).round() / step } else { (value / step).round() * step }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::draw;

    fn sizes() -> impl Iterator<Item = f64> {
        (12..=26).map(|power| (1u64 << power) as f64)
    }

    fn exact(setup: f64, rate: f64) -> Vec<(f64, f64)> {
        sizes().map(|size| (size, setup + size / rate)).collect()
    }

    fn near(found: f64, truth: f64) -> bool {
        (found - truth).abs() <= 1e-9 * truth
    }

    #[test]
    fn an_exact_law_is_recovered() {
        for setup in [1e-7, 3.4e-6, 1e-3, 0.5] {
            for rate in [1e6, 4e9, 26e9, 5e12] {
                // Beyond this one of the two has no part in any of the times.
                let ratio = setup * rate;
                if !(1e2..=1e10).contains(&ratio) {
                    continue;
                }
                let law = fit(&exact(setup, rate)).expect("a law");
                assert!(near(law.setup, setup) && near(law.rate, rate), "{setup} {rate}: {law:?}");
                assert!(errors(&law, &exact(setup, rate)).2 < 1e-12);
            }
        }
    }

    #[test]
    fn without_a_setup_there_is_none() {
        let law = fit(&exact(0.0, 26e9)).expect("a law");
        assert!(law.setup.abs() < 1e-15 && near(law.rate, 26e9), "{law:?}");
        // Throughput that falls with size would need a setup below 0.
        let caches: Vec<_> = sizes().map(|size| (size, size / 26e9 * size.powf(0.05))).collect();
        assert_eq!(fit(&caches).expect("a law").setup, 0.0);
    }

    #[test]
    fn no_law_nearby_is_better() {
        let noisy = noisy(7, 0.2);
        let sum = |law: &Fit| -> f64 { noisy.iter().map(|&p| law.error(p).powi(2)).sum() };
        let law = fit(&noisy).expect("a law");
        for (setup, rate) in [(1.001, 1.0), (0.999, 1.0), (1.0, 1.001), (1.0, 0.999), (1.01, 1.01)]
        {
            let other = Fit { setup: law.setup * setup, rate: law.rate * rate, ..law };
            assert!(sum(&other) > sum(&law), "{setup} {rate}");
        }
    }

    /// Points of setup 5 us and 10 GB/s, each off by a uniform draw of standard deviation `sigma`.
    fn noisy(seed: u64, sigma: f64) -> Vec<(f64, f64)> {
        let uniform = |index| draw(seed, index) as f64 / u64::MAX as f64 * 2.0 - 1.0;
        let off = |(index, (size, time)): (usize, (f64, f64))| {
            (size, time * (1.0 + uniform(index as u64) * sigma * 3f64.sqrt()))
        };
        exact(5e-6, 10e9).into_iter().enumerate().map(off).collect()
    }

    #[test]
    fn noise_moves_the_law_by_no_more_than_theory_allows() {
        let (mut setups, mut rates, runs) = (0.0, 0.0, 400);
        // The covariance of the estimate is sigma^2 (A^T A)^-1 with rows (1, work) / t.
        let sigma = 0.02;
        let rows = exact(5e-6, 10e9);
        let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 { rows.iter().map(|&(w, t)| f(w, t)).sum() };
        let (aa, bb) = (sum(&|_, t| 1.0 / t / t), sum(&|w, t| w * w / t / t));
        let det = aa * bb - sum(&|w, t| w / t / t).powi(2);
        let (setup_sd, slope_sd) = (sigma * (bb / det).sqrt(), sigma * (aa / det).sqrt());
        for seed in 0..runs {
            let law = fit(&noisy(seed, sigma)).expect("a law");
            let (setup, slope) = (law.setup - 5e-6, 1.0 / law.rate - 1.0 / 10e9);
            // Five standard deviations: one in two million draws lies further.
            assert!(
                setup.abs() < 5.0 * setup_sd && slope.abs() < 5.0 * slope_sd,
                "{seed}: {law:?}"
            );
            setups += setup * setup;
            rates += slope * slope;
        }
        // And on average by as much as it says: 400 squares scatter by 7 % around their mean.
        let ratio = |squares: f64, sd: f64| (squares / runs as f64).sqrt() / sd;
        let (setup, rate) = (ratio(setups, setup_sd), ratio(rates, slope_sd));
        assert!((0.85..1.15).contains(&setup) && (0.85..1.15).contains(&rate), "{setup} {rate}");
    }

    #[test]
    fn disturbed_points_lose_their_say() {
        let (clean, mut points) = (exact(5e-6, 10e9), exact(5e-6, 10e9));
        let mut weights = vec![weight(1.0, 1.0); points.len()];
        assert_eq!(weights[0], 1.0);
        // A third of the points ten times too slow, with quick repeats that tell of it.
        for index in (0..points.len()).step_by(3) {
            points[index].1 *= 10.0;
            weights[index] = weight(points[index].1, clean[index].1);
        }
        let off = |law: Fit| (law.setup / 5e-6 - 1.0).abs().max((law.rate / 10e9 - 1.0).abs());
        let trusting = off(fit(&points).expect("a law"));
        let weighted = off(fit_weighted(&points, &weights).expect("a law"));
        assert!(weighted < 0.001 && trusting > 0.05, "{weighted} {trusting}");
    }

    #[test]
    fn single_points_that_are_far_off_have_little_say_in_a_robust_fit() {
        let mut points = exact(5e-6, 10e9);
        for index in [2, 9] {
            points[index].1 *= 3.0;
        }
        let weights = vec![1.0; points.len()];
        let off = |law: Fit| (law.setup / 5e-6 - 1.0).abs().max((law.rate / 10e9 - 1.0).abs());
        let plain = off(fit(&points).expect("a law"));
        let robust = off(fit_robust(&points, &weights).expect("a law"));
        assert!(robust < 0.02 && plain > 0.05, "{robust} {plain}");
        // Where none is, it is the same law.
        let clean = noisy(3, 0.01);
        let (one, other) = (fit(&clean), fit_robust(&clean, &weights));
        assert_eq!(one, other);
    }

    #[test]
    fn what_has_no_law_is_refused() {
        assert_eq!(fit(&[]), Err(Refusal::OneSize));
        assert_eq!(fit(&[(4096.0, 1e-6)]), Err(Refusal::OneSize));
        assert_eq!(fit(&[(4096.0, 1e-6), (4096.0, 2e-6)]), Err(Refusal::OneSize));
        assert_eq!(fit(&[(4096.0, 0.0), (8192.0, 0.0)]), Err(Refusal::NotPositive));
        assert_eq!(fit(&[(0.0, 1e-6), (8192.0, 1e-6)]), Err(Refusal::NotPositive));
        assert_eq!(fit(&[(4096.0, f64::NAN), (8192.0, 1e-6)]), Err(Refusal::NotPositive));
        assert_eq!(fit(&[(4096.0, 2e-6), (8192.0, 1e-6)]), Err(Refusal::NoGrowth));
        assert_eq!(fit(&[(4096.0, 1e-6), (8192.0, 1e-6)]), Err(Refusal::NoGrowth));
    }

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(
            [0.05, 0.5, 0.95, 1.0].map(|share| quantile(&values, share)),
            [1.0, 10.0, 19.0, 20.0]
        );
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[3.0], 0.01), 3.0);
    }

    #[test]
    fn rounding_keeps_significant_digits() {
        assert_eq!(rounded(123_456.0, 3), 123_000.0);
        assert_eq!(rounded(0.001_234_56, 4), 0.001_235);
        assert_eq!(rounded(9.996, 3), 10.0);
        assert_eq!(rounded(908_612_345.0, 4), 908_600_000.0);
        assert_eq!(rounded(0.0, 3), 0.0);
    }
}
