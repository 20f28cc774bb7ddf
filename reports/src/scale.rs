//! From a value to a pixel, and where to put ticks.
//!
//! Plotters drops points that a logarithmic axis cannot show, without a word; here values are
//! clamped to the range, so that a point is always inside the plot.
//! Invariant: `lo < hi`, both finite; a logarithmic scale has `lo > 0`.

use crate::font::text_width;
use crate::style::AXIS;
use crate::words::number;

/// Of an axis that shows so many per cent of its largest value distances mislead little.
const HALF: f64 = 50.0;

/// One axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) log: bool,
    /// Pixel of `lo`.
    from: f64,
    /// Pixel of `hi`.
    to: f64,
}

impl Scale {
    /// A linear axis over `values` with some air; starts at 0 if the least value is below a tenth
    /// of the greatest.
    pub(crate) fn linear(values: &[f64], air: f64, from: f64, to: f64) -> Scale {
        let (lo, hi) = extent(values).unwrap_or((0.0, 1.0));
        let (lo, hi) = match hi - lo {
            range if range > hi.abs() * 1e-9 => (lo, hi),
            // All equal: a band around the value.
            _ if hi == 0.0 => (0.0, 1.0),
            _ => (lo - lo.abs() * 0.1, hi + hi.abs() * 0.1),
        };
        let room = (hi - lo) * air;
        let floor = if lo >= 0.0 && lo <= hi * 0.1 { 0.0 } else { lo - room };
        Scale { lo: floor, hi: hi + room, log: false, from, to }
    }

    /// A logarithmic axis over those of `values` above 0.
    pub(crate) fn logarithmic(values: &[f64], air: f64, from: f64, to: f64) -> Scale {
        let above: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
        let (lo, hi) = extent(&above).unwrap_or((1.0, 10.0));
        let room = (hi / lo).max(1.1).powf(air);
        Scale { lo: lo / room, hi: hi * room, log: true, from, to }
    }

    /// Logarithmic if the values above 0 span more than `ratio`.
    pub(crate) fn fitting(values: &[f64], ratio: f64, air: f64, from: f64, to: f64) -> Scale {
        let above: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
        match extent(&above) {
            Some((lo, hi)) if hi / lo > ratio => Scale::logarithmic(values, air, from, to),
            _ => Scale::linear(values, air, from, to),
        }
    }

    /// From the least to the greatest value exactly, for colours; logarithmic beyond `ratio`.
    pub(crate) fn tight(values: &[f64], ratio: f64) -> Scale {
        let (lo, hi) = extent(values).unwrap_or((1.0, 2.0));
        // All equal, to within a rounding: any range will do.
        let hi = if hi - lo > hi.abs() * 1e-9 { hi } else { lo + lo.abs().max(1e-3) * 0.1 };
        Scale { lo, hi, log: lo > 0.0 && hi / lo > ratio, from: 0.0, to: 1.0 }
    }

    /// This axis between other pixels.
    pub(crate) fn along(&self, from: f64, to: f64) -> Scale {
        Scale { from, to, ..*self }
    }

    /// This axis in other units: 1 unit of the new one is `unit` of the old.
    pub(crate) fn in_units_of(&self, unit: f64) -> Scale {
        Scale { lo: self.lo / unit, hi: self.hi / unit, ..*self }
    }

    /// Where `value` is between the ends, 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        self.share_beyond(value.clamp(self.lo, self.hi))
    }

    /// The same of a value that may be beyond the ends, below 0 or above 1 then.
    fn share_beyond(&self, value: f64) -> f64 {
        if self.log {
            (value / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (value - self.lo) / (self.hi - self.lo)
        }
    }

    /// What a title says of an axis on which distances are not those from 0: a small difference
    /// looks like a large one.
    pub(crate) fn said(&self) -> &'static str {
        match (self.log, self.lo > 0.0) {
            (true, _) => ", logarithmic",
            (false, true) => ", not from 0",
            (false, false) => "",
        }
    }

    /// Whether it is a linear axis that does not begin at 0.
    pub(crate) fn is_zoomed(&self) -> bool {
        !self.log && self.lo > 0.0
    }

    /// The title of the axis, with as much of what its distances are not as there is room for:
    /// of one that does not begin at 0, how much of its largest value is seen, where that is less
    /// than half.
    pub(crate) fn titled(&self, room: f64, title: impl Fn(&str) -> String) -> String {
        let share = (self.hi - self.lo) / self.hi * 100.0;
        if !self.is_zoomed() || share >= HALF {
            return title(self.said());
        }
        let (share, all) = (number(share), number(self.hi));
        let full = title(&format!("{}: spans {share} % of {all}", self.said()));
        if text_width(&full, AXIS) <= room { full } else { title(self.said()) }
    }

    /// The pixel of `value`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * self.share(value)
    }

    /// Where the pixel of `value` would be, also outside the axis: for lines that are cut at the frame.
    pub(crate) fn beyond(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * self.share_beyond(value)
    }

    /// About `wanted` round values with their labels.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        if self.log {
            let decades = (self.hi / self.lo).log10();
            let finest = if decades > 3.0 {
                0
            } else if decades > 1.2 {
                1
            } else {
                2
            };
            // Fewer than four leave the reader guessing; on a short stretch round values say more.
            let ticks = STEPS[finest..].iter().map(|steps| self.powers(steps, wanted));
            if let Some(ticks) = ticks.into_iter().find(|ticks| ticks.len() >= 4) {
                return ticks;
            }
        }
        self.round_ticks(wanted)
    }

    /// Powers of ten times `steps`; of powers alone about `wanted`.
    fn powers(&self, steps: &[f64], wanted: usize) -> Vec<(f64, String)> {
        let (first, last) = (self.lo.log10().floor() as i32, self.hi.log10().ceil() as i32);
        // At most one more than asked for; of several per decade all.
        let every =
            if steps.len() == 1 { ((last - first) as usize).div_ceil(wanted + 2) } else { 1 };
        (first..=last)
            .filter(|power| ((power - first) as usize).is_multiple_of(every))
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|v| (self.lo..=self.hi).contains(v))
            .map(|v| (v, tick(v)))
            .collect()
    }

    fn round_ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let raw = (self.hi - self.lo) / wanted.max(1) as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|m| m * power)
            .into_iter()
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(power * 10.0);
        // A step of 2.5 needs one digit more than its power of ten.
        let digit = if (step / power - 2.5).abs() < 0.01 { 1.0 } else { 0.0 };
        let decimals = (digit - step.log10().floor()).max(0.0) as usize;
        let first = (self.lo / step - 1e-9).ceil() as i64;
        let last = (self.hi / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).map(|v| (v, format!("{v:.decimals$}"))).collect()
    }
}

/// What ticks of a logarithmic axis are, times a power of ten, from coarse to fine.
const STEPS: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]];

/// A tick's label: the value, without the zeros of a power of ten.
fn tick(value: f64) -> String {
    let text = number(value);
    match text.split_once('e') {
        Some((head, power)) if head.contains('.') => {
            format!("{}e{power}", head.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Is it a power of ten, to within a rounding?
pub(crate) fn decade(value: f64) -> bool {
    let power = value.log10();
    (power - power.round()).abs() < 1e-9
}

/// Least and greatest of the finite values.
pub(crate) fn extent(values: &[f64]) -> Option<(f64, f64)> {
    values.iter().copied().filter(|v| v.is_finite()).fold(None, |so_far, v| match so_far {
        None => Some((v, v)),
        Some((lo, hi)) => Some((lo.min(v), hi.max(v))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_the_range_are_clamped_not_dropped() {
        for scale in [
            Scale::linear(&[1.0, 2.0], 0.05, 0.0, 100.0),
            Scale::logarithmic(&[1.0, 1000.0], 0.05, 100.0, 0.0),
        ] {
            for v in [-5.0, 0.0, 1e-300, 1.0, 1e9] {
                assert!((0.0..=100.0).contains(&scale.at(v)), "{v} on {scale:?}");
            }
        }
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_cover_all_of_it() {
        for (lo, hi) in [(4.0, 4096.0), (1.0, 2000.0), (0.3, 90.0), (1e-3, 1e6), (3.0, 20.0)] {
            let scale = Scale::logarithmic(&[lo, hi], 0.06, 0.0, 500.0);
            let mut at: Vec<f64> = scale.ticks(8).iter().map(|(v, _)| scale.at(*v)).collect();
            at.extend([0.0, 500.0]);
            at.sort_by(f64::total_cmp);
            let gap = at.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            assert!(gap < 500.0 / 3.0, "{lo} to {hi}: {:?}", scale.ticks(8));
        }
    }

    #[test]
    fn every_range_has_ticks_that_differ() {
        let ranges: [&[f64]; 8] = [
            &[],
            &[0.0],
            &[5.0],
            &[5.0, 5.0],
            &[1.0, 1.000001],
            &[1e-6, 3e-6],
            &[0.1, 90000.0],
            &[100.0, 101.0],
        ];
        for values in ranges {
            let scale = Scale::fitting(values, 20.0, 0.06, 0.0, 500.0);
            let ticks = scale.ticks(6);
            assert!((2..=20).contains(&ticks.len()), "{values:?}: {ticks:?}");
            let mut labels: Vec<&str> = ticks.iter().map(|t| t.1.as_str()).collect();
            labels.dedup();
            assert_eq!(labels.len(), ticks.len(), "{values:?}: {ticks:?}");
        }
    }

    #[test]
    fn a_title_says_how_much_of_an_axis_is_seen_if_there_is_room() {
        let title = |said: &str| format!("memory (GiB{said})");
        let zoomed = Scale::linear(&[39.96, 40.0], 0.0, 0.0, 100.0);
        assert_eq!(zoomed.titled(900.0, title), "memory (GiB, not from 0: spans 0.1 % of 40)");
        assert_eq!(zoomed.titled(250.0, title), "memory (GiB, not from 0)");
        let most = Scale::linear(&[16.0, 40.0], 0.0, 0.0, 100.0);
        assert_eq!(most.titled(900.0, title), "memory (GiB, not from 0)");
        let whole = Scale::linear(&[0.0, 40.0], 0.0, 0.0, 100.0);
        assert_eq!(whole.titled(900.0, title), "memory (GiB)");
        let log = Scale::logarithmic(&[1.0, 4000.0], 0.0, 0.0, 100.0);
        assert_eq!(log.titled(900.0, title), "memory (GiB, logarithmic)");
    }
}
