//! The lengths of the measured steps of a run, in their order.
//!
//! Equal steps in a row are kept once, and so is a row of steps that comes again and again: a run
//! of a billion steps that has found its rhythm is as small as one of ten.
//! Invariant: two lists are equal if they have the same lengths in the same order, however kept.

use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Lengths of steps.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Steps {
    parts: Vec<RunOfSteps>,
}

/// Some steps, so many times over.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunOfSteps {
    /// A length, and how often in a row.
    runs: Vec<(Span, u64)>,
    times: u64,
}

impl RunOfSteps {
    fn len(&self) -> u64 {
        self.runs.iter().map(|&(_, count)| count).sum::<u64>() * self.times
    }
}

impl Steps {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(RunOfSteps::len).sum::<u64>() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other: as many as there are, which may be a billion.
    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        let once = |part: &'_ RunOfSteps| {
            let runs = part.runs.clone();
            runs.into_iter().flat_map(|(span, count)| (0..count).map(move |_| span))
        };
        self.parts.iter().flat_map(move |part| (0..part.times).flat_map(move |_| once(part)))
    }

    /// The mean, rounded to a picosecond; 0 of none.
    pub fn mean(&self) -> Span {
        let count = self.len().max(1) as u128;
        let mean = (self.total() + count / 2) / count;
        Span::from_ps(u64::try_from(mean).expect("mean of u64 values"))
    }

    /// Picoseconds of all together.
    pub fn total(&self) -> u128 {
        let each = self.counted().map(|(span, count)| u128::from(span.ps()) * u128::from(count));
        each.sum()
    }

    /// Picoseconds of the first `count` of them together.
    pub fn first(&self, count: u64) -> u128 {
        let (mut left, mut sum) = (count, 0);
        for part in &self.parts {
            let round: u64 = part.runs.iter().map(|&(_, count)| count).sum();
            let all = |(span, count): &(Span, u64)| u128::from(span.ps()) * u128::from(*count);
            let times = (left / round.max(1)).min(part.times);
            sum += part.runs.iter().map(all).sum::<u128>() * u128::from(times);
            left -= times * round;
            if times == part.times {
                continue;
            }
            for &(span, count) in &part.runs {
                let taken = count.min(left);
                sum += u128::from(span.ps()) * u128::from(taken);
                left -= taken;
            }
            break;
        }
        sum
    }

    /// The last one took so much longer.
    pub fn lengthen_last(&mut self, more: Span) {
        if more == Span::ZERO {
            return;
        }
        let runs = self.parts.last_mut().filter(|part| part.times == 1).map(|part| &mut part.runs);
        let runs = runs.expect("steps were added");
        let (last, count) = runs.pop().expect("steps were added");
        if count > 1 {
            runs.push((last, count - 1));
        }
        self.push(last + more);
    }

    /// Adds one.
    pub fn push(&mut self, step: Span) {
        if self.parts.last().is_none_or(|part| part.times > 1) {
            self.parts.push(RunOfSteps { runs: Vec::new(), times: 1 });
        }
        let runs = &mut self.parts.last_mut().expect("there is a part").runs;
        match runs.last_mut() {
            Some((span, count)) if *span == step => *count += 1,
            _ => runs.push((step, 1)),
        }
    }

    /// The last `count` steps come again, `times` over. Panics if fewer were added since they last
    /// did.
    pub fn repeat(&mut self, count: u64, times: u64) {
        if count == 0 || times == 0 {
            return;
        }
        let last = self.parts.last_mut().filter(|part| part.times == 1);
        let from = &mut last.expect("steps were added").runs;
        let (mut runs, mut left) = (Vec::new(), count);
        while left > 0 {
            let (span, had) = from.pop().expect("as many steps were added");
            let taken = had.min(left);
            runs.push((span, taken));
            left -= taken;
            if had > taken {
                from.push((span, had - taken));
            }
        }
        runs.reverse();
        self.parts.push(RunOfSteps { runs, times: times + 1 });
    }

    /// The `percent`-th percentile in milliseconds, interpolated between steps as type 8 of Hyndman
    /// and Fan (1996), kept within the shortest and longest step; not a number without steps.
    pub fn ms_percentile(&self, percent: usize) -> f64 {
        let mut counted: Vec<(Span, u64)> = self.counted().collect();
        counted.sort_unstable();
        let len = self.len();
        let nth = |index: usize| {
            let mut before = 0;
            let found = counted.iter().find(|&&(_, count)| {
                before += count;
                before > index as u64
            });
            found.map_or(f64::NAN, |(span, _)| span.as_ms())
        };
        interpolated(len, percent, nth)
    }

    /// Every length with how often it occurs, in no particular order.
    pub fn counted(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        let of = |part: &'_ RunOfSteps| {
            let times = part.times;
            part.runs.clone().into_iter().map(move |(span, count)| (span, count * times))
        };
        self.parts.iter().flat_map(of)
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Steps) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl FromIterator<Span> for Steps {
    fn from_iter<I: IntoIterator<Item = Span>>(steps: I) -> Steps {
        let mut all = Steps::default();
        steps.into_iter().for_each(|step| all.push(step));
        all
    }
}

/// Every step, or how many there are where nobody would read them.
impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len() {
            0..10_000 => f.debug_list().entries(self.iter()).finish(),
            _ => f.debug_struct("Steps").field("parts", &self.parts).finish(),
        }
    }
}

/// The `percent`-th percentile of `len` values, of which `nth` gives the one that is preceded by so
/// many smaller ones: interpolated as type 8 of Hyndman and Fan (1996), kept within the least and
/// the greatest.
pub(super) fn interpolated(len: usize, percent: usize, nth: impl Fn(usize) -> f64) -> f64 {
    let share = percent as f64 / 100.0;
    let place = (len as f64 + 1.0 / 3.0) * share + 1.0 / 3.0;
    let whole = place as usize;
    if whole == 0 || percent == 0 {
        return nth(0);
    }
    if whole >= len || percent == 100 {
        return nth(len.saturating_sub(1));
    }
    let (low, high) = (nth(whole - 1), nth(whole));
    low + (place - whole as f64) * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::statistics::{Data, OrderStatistics};

    fn spans(ps: &[u64]) -> Steps {
        ps.iter().map(|&ps| Span::from_ps(ps)).collect()
    }

    #[test]
    fn steps_that_come_again_are_as_if_written_out() {
        let mut steps = spans(&[9, 5, 5, 7, 5, 5]);
        steps.repeat(4, 3);
        steps.push(Span::from_ps(2));
        let out = spans(&[9, 5, 5, 7, 5, 5, 5, 7, 5, 5, 5, 7, 5, 5, 5, 7, 5, 5, 2]);
        assert_eq!(steps, out);
        assert_eq!(
            (steps.len(), steps.total()),
            (19, out.iter().map(|s| u128::from(s.ps())).sum())
        );
        assert_eq!(format!("{steps:?}"), format!("{out:?}"));
        let mut other = steps.clone();
        other.push(Span::from_ps(2));
        assert_ne!(steps, other);
    }

    #[test]
    fn the_first_steps_sum_up_as_if_written_out() {
        let mut steps = spans(&[9, 5, 5, 7, 5, 5]);
        steps.repeat(4, 3);
        steps.push(Span::from_ps(2));
        let all: Vec<u128> = steps.iter().map(|step| step.ps().into()).collect();
        for count in 0..=all.len() {
            assert_eq!(steps.first(count as u64), all[..count].iter().sum::<u128>(), "{count}");
        }
        steps.lengthen_last(Span::from_ps(3));
        assert_eq!((steps.len(), steps.total()), (all.len(), all.iter().sum::<u128>() + 3));
    }

    #[test]
    fn part_of_equal_steps_comes_again() {
        let mut steps = spans(&[5; 6]);
        steps.repeat(2, 10);
        assert_eq!(steps, spans(&[5; 26]));
        steps.push(Span::from_ps(1));
        steps.push(Span::from_ps(1));
        steps.repeat(1, 1);
        assert_eq!(steps.len(), 29);
    }

    #[test]
    fn percentiles_are_those_of_another_implementation() {
        let mut state = 1u64;
        for len in 0..40 {
            let mut steps = Steps::default();
            for _ in 0..len {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                steps.push(Span::from_ps(state >> 60));
            }
            steps.repeat(len / 2, len % 3);
            let ms: Vec<f64> = steps.iter().map(|step| step.as_ms()).collect();
            for percent in [0, 1, 5, 25, 50, 75, 95, 99, 100] {
                let theirs = Data::new(ms.clone()).percentile(percent);
                let ours = steps.ms_percentile(percent);
                assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{len} {percent}");
            }
        }
    }
}
