//! What cases of a record are compared by: the mean step, its time per token where steps differ in
//! their work, or for served requests what their users wait for.
//!
//! An iteration of a server is as long as its batch is large, so its mean step says nothing of a
//! request: such cases are ranked by the mean latency of requests, and charts show TTFT and TPOT, one
//! chart for each. So it is with a sweep over batches: the smallest has the shortest step, and does
//! the least.
//! Invariant: values are those of `summary.json`: `step_ms.mean`, one over `throughput.value`,
//! `serving.latency_ms.mean`, `serving.ttft_ms.mean`, `serving.tpot_ms.mean`.

use crate::render::{Chart, Charts};
use crate::served::serves;
use tiersim_models::results::uncertainty::DrawnCase;
use tiersim_models::results::{Conditions, Figures, RunRecord};
use tiersim_models::units::Span;

/// A figure of a case that is better if it is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Step,
    /// A step over the tokens of it.
    Token,
    /// Of a request, from its arrival to its last token.
    Latency,
    FirstToken,
    PerToken,
}

impl Measure {
    /// Those of the charts of a record.
    pub(crate) fn of(record: &RunRecord) -> &'static [Measure] {
        match () {
            () if serves(record) => &[Measure::FirstToken, Measure::PerToken],
            () if works_differ(record) => &[Measure::Token],
            () => &[Measure::Step],
        }
    }

    /// What the cases of a record are ranked by.
    pub(crate) fn ranking(record: &RunRecord) -> Measure {
        if serves(record) { Measure::Latency } else { Measure::of(record)[0] }
    }

    /// The first word of a chart's file. The first chart of a record always has the same name.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Measure::Step | Measure::Token | Measure::Latency | Measure::FirstToken => "latency",
            Measure::PerToken => "tpot",
        }
    }

    /// In the title of a chart.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Step | Measure::Token | Measure::Latency | Measure::FirstToken => "latency",
            Measure::PerToken => "TPOT",
        }
    }

    /// In the title of an axis.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Measure::Step => "mean step time",
            Measure::Token => "mean time per token",
            Measure::Latency => "mean latency of requests",
            Measure::FirstToken => "mean time to first token, TTFT",
            Measure::PerToken => "mean time per output token, TPOT",
        }
    }

    /// In the title of an axis of its ratio to the baseline's.
    pub(crate) fn ratio(self) -> &'static str {
        match self {
            Measure::Step | Measure::Token => "slowdown",
            Measure::Latency => "latency",
            Measure::FirstToken => "TTFT",
            Measure::PerToken => "TPOT",
        }
    }

    /// Picoseconds; `None` where there are none, such as TPOT of answers of one token.
    pub(crate) fn ps(self, figures: &Figures, on: &Conditions) -> Option<u64> {
        let ms = |ms: f64| ms.is_finite().then(|| (ms * 1e9).round() as u64);
        let serving = figures.serving.as_deref();
        match self {
            Measure::Step | Measure::Token => Some(self.of_step(figures.mean_step(), on)),
            Measure::Latency => serving.map(|_| figures.judged().ps()),
            Measure::FirstToken => ms(serving?.first_token_ms().mean),
            Measure::PerToken => ms(serving?.per_token_ms().mean),
        }
    }

    /// What a step under these conditions is by a measure of steps, in picoseconds.
    fn of_step(self, step: Span, on: &Conditions) -> u64 {
        let parts = self.parts(on);
        step.ps().saturating_add(parts / 2) / parts
    }

    /// Into how many parts a step is divided.
    pub(crate) fn parts(self, on: &Conditions) -> u64 {
        if self == Measure::Token { on.tokens_per_step.max(1) } else { 1 }
    }

    /// What such a part is called.
    pub(crate) fn part(self) -> &'static str {
        if self == Measure::Token { "token" } else { "step" }
    }

    /// Picoseconds of a draw.
    pub(crate) fn drawn(self, of: &DrawnCase, on: &Conditions) -> Option<f64> {
        match self {
            Measure::Step | Measure::Token => Some(self.of_step(of.step, on) as f64),
            Measure::Latency => of.latency_ms.map(|ms| ms * 1e9),
            Measure::FirstToken => of.first_token_ms.map(|ms| ms * 1e9),
            Measure::PerToken => of.per_token_ms.map(|ms| ms * 1e9),
        }
    }

    /// That of the same workload with unlimited HBM.
    pub(crate) fn baseline(self, conditions: &Conditions) -> u64 {
        self.ps(&conditions.baseline, conditions).unwrap_or(0)
    }

    /// What no policy goes below, if that is known of it: the bound is one of steps.
    pub(crate) fn bound(self, bound: Span, on: &Conditions) -> Option<u64> {
        let is_of_steps = matches!(self, Measure::Step | Measure::Token);
        (is_of_steps && bound > Span::ZERO).then(|| self.of_step(bound, on))
    }

    /// Over the baseline's: for steps the slowdown.
    pub(crate) fn over_baseline(self, figures: &Figures, conditions: &Conditions) -> Option<f64> {
        let baseline = self.baseline(conditions) as f64;
        self.ps(figures, conditions).map(|own| own as f64 / baseline)
    }
}

/// Whether steps of different cases have different numbers of tokens, all of which are known.
fn works_differ(record: &RunRecord) -> bool {
    let all = record.used();
    all.iter().all(|on| !on.counts_steps)
        && all.windows(2).any(|two| two[0].tokens_per_step != two[1].tokens_per_step)
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
