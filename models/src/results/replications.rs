//! How sure a mean step is where ops or copies have jitter: the same run with other seeds, until
//! the mean is known well enough.
//!
//! Replications are independent, so their means are as Student's t says ("The Probable Error of a
//! Mean", 1908): of n of them with standard deviation s, the 95 % confidence interval reaches
//! t(n - 1, 0.975) s / sqrt(n) to either side. They end at the first n at which that is at most the
//! stated share of the mean for every case that fits, and after a stated number in any case.
//! Invariant: `steps` has a list for each result of the record, in its order, and each list `count`
//! entries.

use crate::units::Span;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewest replications of which an interval is taken: two may be close by chance.
pub const LEAST: usize = 3;

/// Replications of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Replications {
    /// The half-width that was asked for, as a share of the mean.
    pub share: f64,
    /// Most replications.
    pub most: usize,
    /// How many there are; 1 where nothing is drawn, so that one run is exact.
    pub count: usize,
    /// Mean step of each case by replication; `None` where it ran out of memory.
    pub steps: Vec<Vec<Option<Span>>>,
}

/// A mean with its confidence interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Picoseconds.
    pub mean: f64,
    /// Picoseconds to either side.
    pub half_width: f64,
}

impl Interval {
    /// That of some values; `None` of fewer than two.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let count = values.len() as f64;
        if count < 2.0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let t = StudentsT::new(0.0, 1.0, count - 1.0).expect("there is a degree of freedom");
        Some(Interval { mean, half_width: t.inverse_cdf(0.975) * deviation / count.sqrt() })
    }

    /// The half-width as a share of the mean; 0 where both are 0.
    pub fn share(self) -> f64 {
        if self.half_width == 0.0 { 0.0 } else { self.half_width / self.mean }
    }
}

impl Replications {
    /// Whether nothing is drawn, so that one run is all there is to know.
    pub fn is_exact(&self) -> bool {
        self.count == 1
    }

    /// The interval of a case over its first `count` replications; `None` where it ran out of
    /// memory in one of them.
    pub fn interval(&self, case: usize, count: usize) -> Option<Interval> {
        let steps = self.steps[case].iter().take(count);
        let steps: Option<Vec<f64>> = steps.map(|step| step.map(|step| step.ps() as f64)).collect();
        Interval::of(&steps?)
    }

    /// Whether `count` of them are enough for a case; one that does not fit needs none.
    pub fn reached(&self, case: usize, count: usize) -> bool {
        let interval = self.interval(case, count);
        self.is_exact() || interval.is_none_or(|of| of.share() <= self.share)
    }

    /// The first number of replications that is enough for every case.
    pub fn enough(&self) -> Option<usize> {
        let cases = 0..self.steps.len();
        (LEAST..=self.count).find(|&count| cases.clone().all(|case| self.reached(case, count)))
    }

    /// Only the first `count` of them.
    pub fn cut(&mut self, count: usize) {
        self.count = count;
        self.steps.iter_mut().for_each(|steps| steps.truncate(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // t(4, 0.975) = 2.776445 of any table; the deviation of 1..5 is sqrt(2.5).
        let of = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(of.mean, 3.0);
        assert!((of.half_width - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5);
        assert_eq!(Interval::of(&[1.0]), None);
        assert_eq!(Interval::of(&[0.0, 0.0]).unwrap().share(), 0.0);
    }

    #[test]
    fn they_end_at_the_first_number_that_is_enough_for_every_case() {
        let steps = |ps: &[u64]| ps.iter().map(|&ps| Some(Span::from_ps(ps))).collect();
        let steady = steps(&[100, 100, 100, 100, 100]);
        let noisy = steps(&[100, 110, 100, 105, 103]);
        let share = |count: usize| {
            let values: [f64; 5] = [100.0, 110.0, 100.0, 105.0, 103.0];
            Interval::of(&values[..count]).unwrap().share()
        };
        let mut of =
            Replications { share: share(4), most: 9, count: 5, steps: vec![steady, noisy] };
        assert!(share(3) > share(4));
        assert_eq!(of.enough(), Some(4));
        of.cut(4);
        assert_eq!((of.count, of.steps[1].len(), of.reached(1, 4)), (4, 4, true));
        of.share = share(4) * 0.99;
        assert_eq!(of.enough(), None);
    }
}
