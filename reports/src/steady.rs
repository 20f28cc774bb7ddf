//! Whether measured steps are those of the steady state, in words and in the summary.

use crate::words::{finite, lane_names};
use serde::Serialize;
use tiersim_models::results::{Figures, RunRecord, Settled};

/// How steady the measured steps of a case are.
#[derive(Clone, Debug, Serialize)]
pub struct SteadySummary {
    /// What ended the warm-up: `same`, `agree`, `drifts` or `once`.
    pub settled: String,
    /// Replays that do not count, those that were added included.
    pub warmup_replays: u64,
    /// How much longer the second half of the measured replays took than the first.
    pub drift: Option<f64>,
    /// Time that copies of measured steps take beyond the measured time, on the channel where that
    /// is most.
    pub unpaid: Option<f64>,
    /// The channel.
    pub unpaid_lane: Option<String>,
    /// Time behind the last op of a trace that runs once, until all copies have ended.
    pub left_over_ms: Option<f64>,
}

pub(crate) fn summary(record: &RunRecord, figures: &Figures) -> SteadySummary {
    let steady = &figures.steady;
    SteadySummary {
        settled: steady.settled.to_string(),
        warmup_replays: steady.warmup,
        drift: finite(steady.drift),
        unpaid: finite(steady.unpaid),
        unpaid_lane: steady.unpaid_lane.map(|lane| lane_names(record)[lane].clone()),
        left_over_ms: finite(steady.left_over.as_ms()),
    }
}

/// What a table says of a case whose steps drift; nothing of others.
pub(crate) fn words(record: &RunRecord, figures: &Figures) -> Option<String> {
    let steady = &figures.steady;
    if steady.settled != Settled::Drifts {
        return None;
    }
    let unpaid = steady.unpaid_lane.map_or_else(String::new, |lane| {
        let (name, share) = (&lane_names(record)[lane], 100.0 * steady.unpaid);
        format!(", copies over {name} are {share:+.1} % of the measured time beyond it")
    });
    let (warmup, drift) = (steady.warmup, 100.0 * steady.drift);
    Some(format!("steps still drift by {drift:+.2} % after {warmup} replays of warm-up{unpaid}"))
}

/// What a chart says where some of its cases drift.
pub(crate) fn note(record: &RunRecord) -> Option<String> {
    let drifts = |figures: &Figures| figures.steady.settled == Settled::Drifts;
    let cases = record.results.iter().filter_map(|case| case.outcome.figures());
    let (all, off) = cases.fold((0, 0), |(all, off), f| (all + 1, off + usize::from(drifts(f))));
    let drifting = record.conditions.iter().any(|on| drifts(&on.baseline));
    let baseline = if drifting { " and the baseline" } else { "" };
    match (off, baseline) {
        (0, "") => None,
        (0, _) => Some("not steady: the baseline".to_owned()),
        (off, also) => Some(format!("not steady: {off} of {all} cases{also}")),
    }
}
