//! Whether measured steps are those of the steady state, in words and in the summary.

use serde_json::{Value, json};
use tiersim_models::results::{Conditions, Figures, RunRecord, Settled};

/// How steady the measured steps of a case are.
pub(crate) fn summary(on: &Conditions, figures: &Figures) -> Value {
    let steady = &figures.steady;
    json!({
        "settled": steady.settled.to_string(),
        "warmup_replays": steady.warmup,
        "drift": steady.drift,
        "unpaid": steady.unpaid,
        "unpaid_lane": steady.unpaid_lane.map(|channel| on.channel_names()[channel].clone()),
        "left_over_ms": steady.left_over.as_ms(),
    })
}

/// What a table says of a case whose steps drift; nothing of others.
pub(crate) fn words(on: &Conditions, figures: &Figures) -> Option<String> {
    let steady = &figures.steady;
    if steady.settled != Settled::Drifts {
        return None;
    }
    let unpaid = steady.unpaid_lane.map_or_else(String::new, |channel| {
        let (name, share) = (&on.channel_names()[channel], 100.0 * steady.unpaid);
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
