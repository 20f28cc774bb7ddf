//! Where a value is looked for, and the values that a file can have there.

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lower end, above 0 if `log`.
    pub from: f64,
    /// The upper end.
    pub to: f64,
    /// In equal ratios?
    pub log: bool,
    /// Whole numbers only?
    pub whole: bool,
    /// How far the answer may be from a value for which conditions do not hold: along one path a
    /// share of the answer, along several a share of each range.
    pub resolution: f64,
}

impl Range {
    /// So many values between two, without them.
    pub(super) fn between(&self, from: f64, to: f64, count: usize) -> Vec<f64> {
        let part = Range { from, to, ..*self };
        let at = |index: usize| part.at((index + 1) as f64 / (count + 1) as f64);
        let mut all: Vec<f64> = (0..count).map(at).filter(|v| *v > from && *v < to).collect();
        all.dedup();
        all
    }

    /// The value at a share of the range, as a file would have it.
    pub(super) fn at(&self, share: f64) -> f64 {
        let Range { from, to, .. } = *self;
        let value =
            if self.log { from * (to / from).powf(share) } else { from + share * (to - from) };
        self.written(value)
    }

    /// The share of the range at which a value is; none outside.
    pub(super) fn share(&self, value: f64) -> Option<f64> {
        let Range { from, to, .. } = *self;
        let share = match self.log {
            true => (value / from).ln() / (to / from).ln(),
            false => (value - from) / (to - from),
        };
        Some(share).filter(|share| (0.0..=1.0).contains(share))
    }

    /// A value as a file would have it: whole, or of eight digits.
    pub(super) fn written(&self, value: f64) -> f64 {
        if self.whole {
            return value.round();
        }
        format!("{value:.7e}").parse().unwrap_or(value)
    }
}
