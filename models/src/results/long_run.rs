//! A long run by its beginning: the mean of all its steps with an error, or why nothing is said.
//!
//! Where allocations, ops or copies differ from replay to replay no state comes twice, so no replay
//! can be left out; but replays of a run that does not drift are a sample of all that are to come.
//! Their mean is predicted by batch means: replays next to each other are summed up until the sums
//! no longer depend on each other, and what is left of that dependence widens the interval.
//!
//! Sources: Schmeiser, "Batch size effects in the analysis of simulation output", Operations
//! Research 30(3), 1982 (10 to 30 batches); von Neumann, "Distribution of the ratio of the mean
//! square successive difference to the variance", Ann. Math. Statist. 12, 1941 (are batches
//! independent?); Tafazzoli et al., "Skart", INFORMS J. Computing 23(1), 2011 (the factor for what
//! correlation is left); Cochran, "Sampling Techniques", 1977, 2.6 (a sample that is part of what
//! is predicted).
//!
//! Invariant: memory is never extended. What was held at most is what was seen, and a run whose
//! memory grows is refused.

use super::Word;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Fewest replays of a sample, and fewest batches.
pub const LEAST: usize = 40;
const FEWEST: usize = 10;
/// A trend that comes by chance so rarely, or more rarely, is a drift. Two tests of a series come
/// to about one steady one in a hundred that is refused.
const BY_CHANCE: f64 = 0.005;
/// Neighbouring batches that look dependent by chance so often do not count as independent.
const DEPENDENT: f64 = 0.2;
/// Tenths of the sample that are not told from dependent ones are batches all the same up to this
/// correlation, for which the interval is widened.
const MOST_CORRELATED: f64 = 0.3;
/// Confidence of the interval.
pub const CONFIDENCE: f64 = 0.95;

/// What is said of a long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongRun {
    /// Steps of the long run, without its warm-up.
    pub steps: u64,
    /// Those of them that were simulated.
    pub simulated: u64,
    /// The mean step, or why none is stated.
    pub answer: Result<Extended, Refusal>,
    /// What was watched beside the time, as it was seen; not extended.
    pub seen: Vec<Seen>,
}

/// A stated mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extended {
    /// Mean step of the long run in picoseconds.
    pub mean: f64,
    /// Picoseconds to either side, within which it lies with a confidence of [`CONFIDENCE`].
    pub half_width: f64,
    /// Batches whose means were taken, and replays of each.
    pub batches: (usize, usize),
    /// Correlation of neighbouring batches that the interval was widened for, 0 to 1.
    pub correlation: f64,
}

impl Extended {
    /// The half-width as a share of the mean; 0 where both are 0.
    pub fn share(&self) -> f64 {
        if self.half_width == 0.0 { 0.0 } else { self.half_width / self.mean }
    }
}

/// Why no mean is stated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Refusal {
    /// The run without draws does not come to a steady state.
    NotSteady,
    /// Too few replays.
    TooFew(usize),
    /// Something has a trend.
    Drifts {
        /// What.
        what: Word,
        /// How much it changes over the sample, as a share of its mean.
        share: f64,
        /// How often chance alone does that.
        chance: f64,
    },
    /// Batches of a tenth of the sample still depend on each other.
    Depends {
        /// Correlation of neighbours.
        correlation: f64,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NotSteady => f.write_str("steps still drift where nothing is drawn"),
            Refusal::TooFew(replays) => {
                write!(f, "{replays} replays are measured, and it takes {LEAST}; raise `repeat`")
            }
            Refusal::Drifts { what, share, chance } => write!(
                f,
                "{what} drift by {:+.2} % over the sample, which comes by chance in {:.2} % of runs",
                100.0 * share,
                100.0 * chance
            ),
            Refusal::Depends { correlation } => write!(
                f,
                "tenths of the sample depend on each other (correlation {correlation:.2}); raise \
                 `repeat`"
            ),
        }
    }
}

/// Something beside the time that was watched, replay by replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// What.
    pub what: Word,
    /// The most.
    pub most: f64,
    /// Its trend over the whole sample, in its own unit.
    pub growth: f64,
    /// How often chance alone makes such a trend.
    pub chance: f64,
}

impl Seen {
    /// Of one value per replay, or per so many of them.
    pub fn of(what: &'static str, values: &[f64]) -> Seen {
        let most = values.iter().copied().fold(0.0, f64::max);
        let (share, chance) = drift(values).unwrap_or((0.0, 1.0));
        let mean = values.iter().sum::<f64>() / (values.len() as f64).max(1.0);
        Seen { what: what.into(), most, growth: share * mean, chance }
    }

    /// Whether it has a trend.
    pub fn drifts(&self) -> bool {
        self.chance < BY_CHANCE
    }
}

impl LongRun {
    /// Of the lengths of replays in picoseconds, with `each` steps in a replay, out of `replays` of
    /// the long run; `seen` beside it. `steady` says whether the run without draws came to a
    /// steady state.
    pub fn of(
        lengths: &[f64],
        (each, replays): (u64, u64),
        seen: Vec<Seen>,
        steady: bool,
    ) -> LongRun {
        let answer = match seen.iter().find(|seen| seen.drifts()) {
            _ if !steady => Err(Refusal::NotSteady),
            Some(Seen { what, most, growth, chance }) => {
                let share = growth / most.max(f64::MIN_POSITIVE);
                Err(Refusal::Drifts { what: what.clone(), share, chance: *chance })
            }
            None => extended(lengths, replays).map(|of| Extended {
                mean: of.mean / each as f64,
                half_width: of.half_width / each as f64,
                ..of
            }),
        };
        let simulated = (lengths.len() as u64 * each).min(replays * each);
        LongRun { steps: replays * each, simulated, answer, seen }
    }

    /// Steps that were not simulated, if a mean is stated for them.
    pub fn extended(&self) -> u64 {
        if self.answer.is_ok() { self.steps - self.simulated } else { 0 }
    }
}

/// The mean of `all` values of which the first are known.
fn extended(values: &[f64], all: u64) -> Result<Extended, Refusal> {
    if values.len() < LEAST {
        return Err(Refusal::TooFew(values.len()));
    }
    if let Some((share, chance)) = drift(values)
        && chance < BY_CHANCE
    {
        return Err(Refusal::Drifts { what: "steps".into(), share, chance });
    }
    let mut size = 1;
    let (means, size) = loop {
        let means = batches(values, size);
        if means.len() < FEWEST {
            let size = values.len() / FEWEST;
            let last = batches(values, size);
            let correlation = neighbours(&last);
            if correlation >= MOST_CORRELATED {
                return Err(Refusal::Depends { correlation });
            }
            break (last, size);
        }
        // More batches than 30 say little more of the scatter, and hide more dependence.
        if means.len() <= 30 && independent(&means) {
            break (means, size);
        }
        size = (size + 1).max(size * 5 / 4);
    };
    let count = means.len() as f64;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let centre = means.iter().sum::<f64>() / count;
    let squares: f64 = means.iter().map(|value| (value - centre).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    // What few values say of their neighbours is too little by about one part in as many.
    let correlation = (neighbours(&means) + 1.0 / count).clamp(0.0, 0.99);
    let wider = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
    let t = StudentsT::new(0.0, 1.0, count - 1.0).expect("there are degrees of freedom");
    // What was simulated is part of the long run, and known.
    let unknown = (1.0 - values.len() as f64 / all.max(values.len() as u64) as f64).sqrt();
    let half_width = t.inverse_cdf(0.5 + CONFIDENCE / 2.0) * error * wider * unknown;
    Ok(Extended { mean, half_width, batches: (means.len(), size), correlation })
}

/// Means of so many values each; those left over at the start are in none.
fn batches(values: &[f64], size: usize) -> Vec<f64> {
    let left = values.len() % size.max(1);
    values[left..].chunks(size.max(1)).map(|of| of.iter().sum::<f64>() / of.len() as f64).collect()
}

/// Correlation of neighbours.
fn neighbours(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let pairs: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (pairs / squares).clamp(-0.99, 0.99)
}

/// Whether neighbours look independent by von Neumann's ratio, which is normal for many values:
/// 1 - (sum of squared differences of neighbours) / (2 sum of squares) has mean 0 and variance
/// (n - 2) / (n^2 - 1). Only what makes an interval too narrow counts.
fn independent(values: &[f64]) -> bool {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if squares == 0.0 {
        return true;
    }
    let steps: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let ratio = 1.0 - steps / (2.0 * squares);
    let scaled = ratio * ((count * count - 1.0) / (count - 2.0)).sqrt();
    let normal = Normal::new(0.0, 1.0).expect("it has a deviation");
    1.0 - normal.cdf(scaled) > DEPENDENT
}

/// How much values change from the first to the last, as a share of their mean, and how often
/// chance alone does that; `None` of too few. Of about 20 means of neighbours: by a line through
/// them, and by the first fifth against the last half; the less likely counts.
fn drift(values: &[f64]) -> Option<(f64, f64)> {
    let means = batches(values, (values.len() / 20).max(1));
    if means.len() < FEWEST {
        return None;
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let share = |change: f64| if mean == 0.0 { 0.0 } else { change / mean };
    let (line, by_line) = slope(&means);
    let (halves, by_parts) = parts(&means);
    let least = if by_line < by_parts { (line, by_line) } else { (halves, by_parts) };
    Some((share(least.0), least.1.min(1.0)))
}

/// The change along the line of least squares, and its probability by Student's t.
fn slope(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let (centre, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut across, mut along) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let x = index as f64 - centre;
        across += x * x;
        along += x * (value - mean);
    }
    let slope = along / across;
    let off =
        |(index, value): (usize, &f64)| (value - mean - slope * (index as f64 - centre)).powi(2);
    let rest: f64 = values.iter().enumerate().map(off).sum();
    let error = (rest / (count - 2.0) / across).sqrt();
    (slope * (count - 1.0), chance(slope, error, mean, count - 2.0))
}

/// The last half against the first fifth. Scatter is that of neighbours' differences, which a jump
/// hardly touches; they know it like two thirds as many values do (von Neumann et al., 1941).
fn parts(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let (first, last) = (&values[..values.len() / 5], &values[values.len() / 2..]);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let differences: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let scatter = differences / (2.0 * (count - 1.0));
    let error = (scatter * (1.0 / first.len() as f64 + 1.0 / last.len() as f64)).sqrt();
    let change = mean(last) - mean(first);
    (change, chance(change, error, mean(values), (count - 1.0) * 2.0 / 3.0))
}

/// The probability of a change of at least this by chance alone. Where nothing scatters any change
/// is one, but for what sums of floats lose.
fn chance(change: f64, error: f64, mean: f64, freedom: f64) -> f64 {
    if change.abs() <= 1e-12 * mean.abs() {
        return 1.0;
    }
    if error <= 1e-14 * mean.abs() {
        return 0.0;
    }
    let t = StudentsT::new(0.0, 1.0, freedom).expect("there is a degree of freedom");
    2.0 * (1.0 - t.cdf((change / error).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::split_mix;

    /// A normal draw: the sum of twelve even ones.
    fn normal(seed: u64, index: u64) -> f64 {
        let even = |nth: u64| split_mix(seed << 32, 12 * index + nth) as f64 / u64::MAX as f64;
        (0..12).map(even).sum::<f64>() - 6.0
    }

    /// A mean of 1000 with a scatter of 10, each value with a share of the one before.
    fn series(seed: u64, count: usize, share: f64) -> Vec<f64> {
        let mut last = normal(seed, 1 << 40);
        let mut next = |index: usize| {
            last = share * last + (1.0 - share * share).sqrt() * normal(seed, index as u64);
            1000.0 + 10.0 * last
        };
        (0..count).map(&mut next).collect()
    }

    #[test]
    fn the_mean_of_the_long_run_lies_within_the_interval_as_often_as_is_said() {
        for (share, sample) in [(0.0, 200), (0.5, 400), (0.8, 1000)] {
            let (mut within, mut stated, all) = (0, 0, 5000);
            for seed in 0..300 {
                let run = series(seed, all, share);
                let truth = run.iter().sum::<f64>() / all as f64;
                if let Ok(of) = extended(&run[..sample], all as u64) {
                    stated += 1;
                    within += usize::from((of.mean - truth).abs() <= of.half_width);
                }
            }
            let coverage = f64::from(within as u32) / f64::from(stated);
            assert!(stated >= 285, "correlation {share}: {stated} of 300 stated");
            assert!(coverage >= 0.93, "correlation {share}: {within} of {stated}");
        }
    }

    #[test]
    fn drifts_are_refused_and_steady_runs_hardly_ever() {
        let (mut drifts, mut jumps, mut cold, mut steady) = (0, 0, 0, 0);
        let refused = |values: &[f64]| {
            usize::from(matches!(extended(values, 100_000), Err(Refusal::Drifts { .. })))
        };
        for seed in 0..200 {
            let plain = series(seed, 400, 0.0);
            steady += refused(&plain);
            let with = |more: &dyn Fn(usize) -> f64| -> Vec<f64> {
                plain.iter().enumerate().map(|(index, value)| value + more(index)).collect()
            };
            // 1.5 % of the mean over the sample, where one step scatters by 1 %.
            drifts += refused(&with(&|index| index as f64 / 400.0 * 15.0));
            jumps += refused(&with(&|index| if index >= 200 { 10.0 } else { 0.0 }));
            cold += refused(&with(&|index| if index < 60 { 15.0 } else { 0.0 }));
        }
        assert!([drifts, jumps, cold].iter().all(|all| *all >= 198), "{drifts} {jumps} {cold}");
        assert!(steady <= 6, "{steady} of 200 steady runs were refused");
    }

    #[test]
    fn walks_that_never_return_are_refused_but_where_the_sample_looks_steady() {
        let stated = (0..100)
            .filter(|&seed| {
                let mut at = 1000.0;
                let mut next = |index| {
                    at += normal(seed, index);
                    at
                };
                let walk: Vec<f64> = (0..400).map(&mut next).collect();
                extended(&walk, 100_000).is_ok()
            })
            .count();
        assert!(stated <= 20, "{stated} of 100 walks were extended");
    }

    #[test]
    fn equal_steps_are_exact_and_memory_that_grows_is_refused() {
        let run = LongRun::of(&[500.0; 50], (2, 1000), Vec::new(), true);
        let of = run.answer.as_ref().expect("nothing drifts");
        assert_eq!((of.mean, of.half_width), (250.0, 0.0));
        assert_eq!((run.steps, run.simulated, run.extended()), (2000, 100, 1900));
        let grows: Vec<f64> = (0..50).map(|index| 1e9 + f64::from(index) * 512.0).collect();
        let seen = vec![Seen::of("peaks of memory", &grows)];
        let run = LongRun::of(&[500.0; 50], (2, 1000), seen, true);
        let Err(refusal) = &run.answer else { panic!("it leaks") };
        assert!(refusal.to_string().contains("peaks of memory drift by +0.00 %"), "{refusal}");
        assert_eq!((run.extended(), run.seen[0].most), (0, 1e9 + 49.0 * 512.0));
        let few = LongRun::of(&[500.0; 39], (1, 1000), Vec::new(), true);
        assert_eq!(few.answer, Err(Refusal::TooFew(39)));
        let not = LongRun::of(&[500.0; 50], (1, 1000), Vec::new(), false);
        assert_eq!(not.answer, Err(Refusal::NotSteady));
    }

    #[test]
    fn a_sample_that_is_the_whole_run_has_no_error() {
        let values = series(3, 100, 0.0);
        let of = extended(&values, 100).expect("steady");
        assert_eq!(of.half_width, 0.0);
        // And one of a far longer run is Student's interval of the batches' means.
        let wide = extended(&values, u64::MAX).expect("steady");
        let means = batches(&values, wide.batches.1);
        let plain = crate::results::replications::Interval::of(&means).expect("several");
        let wider = ((1.0 + wide.correlation) / (1.0 - wide.correlation)).sqrt();
        assert!((wide.half_width - plain.half_width * wider).abs() < 1e-9 * wide.half_width);
    }
}
