//! What the charts of a record compare cases by: the mean step, or for served requests what their
//! users wait for.
//!
//! An iteration of a server is as long as its batch is large, so its mean step says nothing of a
//! request: charts of such a record show TTFT and TPOT, one chart for each.
//! Invariant: values are those of `summary.json`: `step_ms.mean`, `serving.ttft_ms.mean`,
//! `serving.tpot_ms.mean`.

use crate::render::{Chart, Charts};
use crate::served::serves;
use tiersim_models::results::uncertainty::DrawnCase;
use tiersim_models::results::{Conditions, Figures, RunRecord};
use tiersim_models::units::Span;

/// A figure of a case that is better if it is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Step,
    FirstToken,
    PerToken,
}

impl Measure {
    /// Those of the charts of a record.
    pub(crate) fn of(record: &RunRecord) -> &'static [Measure] {
        if serves(record) { &[Measure::FirstToken, Measure::PerToken] } else { &[Measure::Step] }
    }

    /// The first word of a chart's file. The first chart of a record always has the same name.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Measure::Step | Measure::FirstToken => "latency",
            Measure::PerToken => "tpot",
        }
    }

    /// In the title of an axis.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Measure::Step => "mean step time",
            Measure::FirstToken => "mean time to first token, TTFT",
            Measure::PerToken => "mean time per output token, TPOT",
        }
    }

    /// In the title of an axis of its ratio to the baseline's.
    pub(crate) fn ratio(self) -> &'static str {
        match self {
            Measure::Step => "slowdown",
            Measure::FirstToken => "TTFT",
            Measure::PerToken => "TPOT",
        }
    }

    /// Picoseconds; `None` where there are none, such as TPOT of answers of one token.
    pub(crate) fn ps(self, figures: &Figures) -> Option<u64> {
        let ms = |ms: f64| ms.is_finite().then(|| (ms * 1e9).round() as u64);
        let serving = figures.serving.as_deref();
        match self {
            Measure::Step => Some(figures.mean_step().ps()),
            Measure::FirstToken => ms(serving?.first_token_ms().mean),
            Measure::PerToken => ms(serving?.per_token_ms().mean),
        }
    }

    /// Picoseconds of a draw.
    pub(crate) fn drawn(self, of: &DrawnCase) -> Option<f64> {
        match self {
            Measure::Step => Some(of.step.ps() as f64),
            Measure::FirstToken => of.first_token_ms.map(|ms| ms * 1e9),
            Measure::PerToken => of.per_token_ms.map(|ms| ms * 1e9),
        }
    }

    /// That of the same workload with unlimited HBM.
    pub(crate) fn baseline(self, conditions: &Conditions) -> u64 {
        self.ps(&conditions.baseline).unwrap_or(0)
    }

    /// What no policy goes below, if that is known of it: the bound is one of steps.
    pub(crate) fn bound(self, bound: Span) -> Option<u64> {
        (self == Measure::Step && bound > Span::ZERO).then_some(bound.ps())
    }

    /// Over the baseline's: for steps the slowdown.
    pub(crate) fn over_baseline(self, figures: &Figures, conditions: &Conditions) -> Option<f64> {
        let baseline = self.baseline(conditions) as f64;
        self.ps(figures).map(|own| own as f64 / baseline)
    }
}

/// One chart for each measure of a record, named by it.
pub(crate) fn by_measure(
    record: &RunRecord,
    suffix: &str,
    chart: impl Fn(Measure) -> Option<Chart>,
) -> Charts {
    let name = |measure: Measure| format!("{}-{suffix}", measure.file());
    let all = Measure::of(record).iter();
    all.filter_map(|&measure| Some((name(measure), chart(measure)?))).collect()
}
