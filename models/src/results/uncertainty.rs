//! What a run's figures are where its machine's numbers are not known exactly: the same cases at
//! many draws of those numbers.
//!
//! A draw is judged by itself: within one all cases have the same machine, so two of them can be
//! compared, and how often one beats the other is a count and no estimate. What decides between
//! them is the number whose rank goes most with the rank of their difference (C. Spearman, "The
//! Proof and Measurement of Association between Two Things", 1904); a case that runs out of memory
//! is behind one that does not.
//! Invariant: `cases` has a list for each result of the record, in its order, and each list an
//! entry for each draw.

use super::Figures;
use super::economics::CaseEconomics;
use super::steps::interpolated;
use crate::hardware::{HBM, Source};
use crate::units::{Bytes, Span};
use std::cmp::Ordering;

/// Where a number is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The machine.
    pub machine: String,
    /// The number's path there, such as `links.cxl.read`.
    pub path: String,
}

/// A number that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnNumber {
    /// Its path; with its machine where another number has the same path.
    pub name: String,
    /// Every machine that has it.
    pub seen: Vec<Seen>,
    /// What is written, such as `gb_per_s(30)`.
    pub written: String,
    /// Its law in words.
    pub law: String,
    /// The unit of its values.
    pub unit: String,
    /// Where what is written comes from.
    pub source: Source,
    /// Its value at each draw.
    pub values: Vec<f64>,
}

/// What came of a case at one draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnCase {
    /// Mean step.
    pub step: Span,
    /// Mean time from a request's arrival to its last token in milliseconds, where requests are
    /// served.
    pub latency_ms: Option<f64>,
    /// Mean time to the first token in milliseconds, where requests are served.
    pub first_token_ms: Option<f64>,
    /// Mean time per further token in milliseconds, where requests are served.
    pub per_token_ms: Option<f64>,
    /// Most bytes ever held in the first tier.
    pub peak: Bytes,
    /// Energy of a step in joules, if the machine states it.
    pub joules: Option<f64>,
    /// Price of what the case uses in dollars, if the machine states it.
    pub dollars: Option<f64>,
}

impl DrawnCase {
    /// That of a case's figures.
    pub fn of(figures: &Figures, economics: &CaseEconomics) -> DrawnCase {
        let serving = figures.serving.as_deref();
        let finite = |ms: f64| ms.is_finite().then_some(ms);
        DrawnCase {
            step: figures.mean_step(),
            latency_ms: serving.and_then(|of| finite(of.latency_ms().mean)),
            first_token_ms: serving.and_then(|of| finite(of.first_token_ms().mean)),
            per_token_ms: serving.and_then(|of| finite(of.per_token_ms().mean)),
            peak: figures.peak.get(HBM.index()).copied().unwrap_or(Bytes::ZERO),
            joules: economics.joules(),
            dollars: economics.dollars_used(),
        }
    }
}

/// The 5th, 50th and 95th percentile over draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl Band {
    /// That of some values; `None` without any.
    pub fn of(mut values: Vec<f64>) -> Option<Band> {
        values.sort_by(f64::total_cmp);
        let at = |percent| interpolated(values.len(), percent, |index| values[index]);
        (!values.is_empty()).then(|| Band { p5: at(5), p50: at(50), p95: at(95) })
    }
}

/// How often one beats another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Duel {
    /// Draws in which the first is quicker, or alone fits.
    pub wins: usize,
    /// Draws in which the second is.
    pub losses: usize,
    /// Draws in which neither is.
    pub ties: usize,
    /// The number that the difference hangs on most, by index, and its rank correlation with how
    /// much longer the first takes; `None` where the difference hangs on none.
    pub decides: Option<(usize, f64)>,
}

/// All draws of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct UncertaintyRecord {
    /// How many draws.
    pub draws: usize,
    /// The seed that they follow from.
    pub seed: u64,
    /// The numbers, in the order of the machines.
    pub numbers: Vec<DrawnNumber>,
    /// Assumed numbers that have neither spread nor range, and so stay as they are.
    pub blind: Vec<String>,
    /// By case and draw; `None` where the case ran out of memory.
    pub cases: Vec<Vec<Option<DrawnCase>>>,
}

impl UncertaintyRecord {
    /// In how many draws a case fits.
    pub fn fits(&self, case: usize) -> usize {
        self.cases[case].iter().flatten().count()
    }

    /// The band of a figure of a case over the draws in which it fits and has one.
    pub fn band(&self, case: usize, figure: impl Fn(&DrawnCase) -> Option<f64>) -> Option<Band> {
        Band::of(self.cases[case].iter().flatten().filter_map(figure).collect())
    }

    /// The least of a figure of some cases at each draw, each by its index; `None` where none of them
    /// fits and has one.
    pub fn least(
        &self,
        cases: &[usize],
        figure: impl Fn(usize, &DrawnCase) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let of = |case: usize, draw: usize| figure(case, self.cases[case][draw].as_ref()?);
        let at = |draw| cases.iter().filter_map(|&case| of(case, draw)).reduce(f64::min);
        (0..self.draws).map(at).collect()
    }

    /// How often times `one` are shorter than times `other`, by draw.
    pub fn duel(&self, one: &[Option<f64>], other: &[Option<f64>]) -> Duel {
        let differences = differences(one, other);
        let of = |order| differences.iter().filter(|own| own.total_cmp(&0.0) == order).count();
        let [wins, losses, ties] = [Ordering::Less, Ordering::Greater, Ordering::Equal].map(of);
        Duel { wins, losses, ties, decides: self.decides(&differences) }
    }

    /// The rank correlation of a number with how much longer times `one` are than times `other`.
    pub fn of_difference(
        &self,
        number: &DrawnNumber,
        one: &[Option<f64>],
        other: &[Option<f64>],
    ) -> Option<f64> {
        rank_correlation(&number.values, &differences(one, other))
    }

    /// The number whose rank goes most with that of `figures`, by draw, and the correlation.
    pub fn decides(&self, figures: &[f64]) -> Option<(usize, f64)> {
        let all = self.numbers.iter().map(|number| rank_correlation(&number.values, figures));
        let known = all.enumerate().filter_map(|(index, of)| Some((index, of?)));
        // Of equals the first, whatever the order of draws.
        known.reduce(|most, next| if next.1.abs() > most.1.abs() { next } else { most })
    }

    /// The rank correlation of each number with the mean step of a case, over the draws in which
    /// it fits.
    pub fn correlations(&self, case: usize) -> Vec<Option<f64>> {
        let ran = || self.cases[case].iter().enumerate().filter_map(|(i, of)| Some((i, (*of)?)));
        let steps: Vec<f64> = ran().map(|(_, of)| of.step.ps() as f64).collect();
        let of = |values: &[f64]| {
            let values: Vec<f64> = ran().map(|(draw, _)| values[draw]).collect();
            rank_correlation(&values, &steps)
        };
        self.numbers.iter().map(|number| of(&number.values)).collect()
    }
}

/// How much longer one is than the other, by draw; one that does not fit is behind one that does.
fn differences(one: &[Option<f64>], other: &[Option<f64>]) -> Vec<f64> {
    let difference = |(one, other): (&Option<f64>, &Option<f64>)| match (one, other) {
        (Some(one), Some(other)) => one - other,
        (Some(_), None) => f64::NEG_INFINITY,
        (None, Some(_)) => f64::INFINITY,
        (None, None) => 0.0,
    };
    one.iter().zip(other).map(difference).collect()
}

/// Spearman's rank correlation: that of Pearson between ranks, where equals share the mean of
/// theirs. `None` where one of the two does not vary.
pub fn rank_correlation(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let (xs, ys) = (ranks(xs), ranks(ys));
    let mean = (xs.len() as f64 + 1.0) / 2.0;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        xs.iter().zip(&ys).map(|(x, y)| of(x - mean, y - mean)).sum()
    };
    let [xx, yy, xy] = [sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y)];
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Ranks from 1; equals share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let equal = order[from..].iter().take_while(|&&i| values[i] == values[order[from]]).count();
        let to = from + equal.max(1);
        for &index in &order[from..to] {
            ranks[index] = (from + 1 + to) as f64 / 2.0;
        }
        from = to;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(numbers: &[&[f64]], steps: &[&[Option<u64>]]) -> UncertaintyRecord {
        let number = |(index, values): (usize, &&[f64])| DrawnNumber {
            name: format!("n{index}"),
            seen: Vec::new(),
            written: String::new(),
            law: String::new(),
            unit: String::new(),
            source: Source::Assumed(String::new()),
            values: values.to_vec(),
        };
        let case = |ps: &Option<u64>| {
            ps.map(|ps| DrawnCase {
                step: Span::from_ps(ps),
                latency_ms: None,
                first_token_ms: None,
                per_token_ms: None,
                peak: Bytes::ZERO,
                joules: None,
                dollars: None,
            })
        };
        UncertaintyRecord {
            draws: steps[0].len(),
            seed: 1,
            numbers: numbers.iter().enumerate().map(number).collect(),
            blind: Vec::new(),
            cases: steps.iter().map(|steps| steps.iter().map(case).collect()).collect(),
        }
    }

    #[test]
    fn ranks_and_correlations_are_the_textbooks() {
        assert_eq!(ranks(&[10.0, 30.0, 20.0, 30.0]), [1.0, 3.5, 2.0, 3.5]);
        // M. G. Kendall's example: 1 - 6 * sum of squares of differences / (n^3 - n).
        let (xs, ys) = ([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 4.0, 3.0, 5.0]);
        assert!((rank_correlation(&xs, &ys).unwrap() - (1.0 - 6.0 * 4.0 / 120.0)).abs() < 1e-12);
        assert_eq!(rank_correlation(&xs, &[7.0; 5]), None);
        assert!((rank_correlation(&xs, &[9.0, 8.0, 3.0, 2.0, -1e9]).unwrap() + 1.0).abs() < 1e-12);
    }

    #[test]
    fn who_fits_beats_who_does_not_and_the_number_behind_it_is_found() {
        let memory = [1.0, 2.0, 3.0, 4.0];
        let noise = [2.0, 1.0, 4.0, 3.0];
        let one = [None, Some(9), Some(5), Some(5)];
        let other = [Some(8), Some(8), Some(5), None];
        let of = record(&[&noise, &memory], &[&one, &other]);
        let steps = |cases: &[usize]| of.least(cases, |_, own| Some(own.step.ps() as f64));
        let duel = of.duel(&steps(&[0]), &steps(&[1]));
        assert_eq!((duel.wins, duel.losses, duel.ties), (1, 2, 1));
        let (number, correlation) = duel.decides.unwrap();
        assert_eq!(of.numbers[number].name, "n1");
        assert!((correlation + 1.0).abs() < 1e-12);
        assert_eq!((of.fits(0), of.fits(1)), (3, 3));
        assert_eq!(steps(&[0, 1]), [Some(8.0), Some(8.0), Some(5.0), Some(5.0)]);
    }

    #[test]
    fn a_band_is_of_the_draws_that_fit() {
        let steps: Vec<Option<u64>> = (0..=100).map(|i| (i != 50).then_some(i * 1000)).collect();
        let of = record(&[], &[&steps]);
        let band = of.band(0, |of| Some(of.step.ps() as f64)).unwrap();
        let mut ps: Vec<f64> = (0..=100).filter(|i| *i != 50).map(|i| f64::from(i) * 1e3).collect();
        ps.sort_by(f64::total_cmp);
        // Type 8: position n p + (p + 1) / 3 among n values counted from 1.
        let at = |p: f64| {
            let place = 100.0 * p + (p + 1.0) / 3.0 - 1.0;
            let below = place.floor() as usize;
            ps[below] + (ps[below + 1] - ps[below]) * place.fract()
        };
        assert!((band.p5 - at(0.05)).abs() < 1e-6 && (band.p95 - at(0.95)).abs() < 1e-6);
        assert_eq!(Band::of(Vec::new()), None);
    }
}
