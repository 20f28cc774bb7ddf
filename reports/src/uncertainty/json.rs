//! The section `uncertainty` of `summary.json`.

use super::{Contest, contests, step};
use crate::economics_summary::number;
use serde_json::{Map, Value, json};
use tiersim_models::hardware::Fact;
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::{Band, DrawnCase, DrawnNumber, UncertaintyRecord};

/// The section; none where nothing was drawn.
pub(crate) fn summary(record: &RunRecord) -> Option<Value> {
    let of = record.uncertainty.as_ref()?;
    let contest = |contest: &Contest| contested(of, contest);
    Some(json!({
        "draws": of.draws,
        "seed": of.seed,
        "numbers": of.numbers.iter().map(drawn).collect::<Vec<_>>(),
        "assumed_without_range": of.blind,
        "cases": (0..record.results.len()).map(|at| case(record, of, at)).collect::<Vec<_>>(),
        "contests": contests(record, of).iter().map(contest).collect::<Vec<_>>(),
    }))
}

fn drawn(of: &DrawnNumber) -> Value {
    let (path, value, source) = (of.name.clone(), of.written.clone(), of.source.clone());
    let mut all = number(&Fact::new(path, value, source));
    let ends = |pick: fn(f64, f64) -> f64| of.values.iter().copied().reduce(pick);
    all["law"] = json!(of.law);
    all["unit"] = json!(of.unit);
    all["least"] = json!(ends(f64::min));
    all["greatest"] = json!(ends(f64::max));
    let seen = of.seen.iter().map(|seen| json!({ "machine": seen.machine, "path": seen.path }));
    all["seen"] = seen.collect::<Vec<_>>().into();
    all
}

fn band(of: Option<Band>, size: f64) -> Value {
    let ends = |Band { p5, p50, p95 }: Band| json!({ "p5": p5 / size, "p50": p50 / size, "p95": p95 / size });
    of.map_or(Value::Null, ends)
}

fn case(record: &RunRecord, of: &UncertaintyRecord, case: usize) -> Value {
    let own = |figure: fn(&DrawnCase) -> Option<f64>, size| band(of.band(case, figure), size);
    json!({
        "label": record.results[case].label,
        "fits": of.fits(case),
        "out_of_memory": of.draws - of.fits(case),
        "step_ms": own(step, 1e9),
        "ttft_ms": own(|of| of.first_token_ms, 1.0),
        "tpot_ms": own(|of| of.per_token_ms, 1.0),
        "peak_bytes": own(|of| Some(of.peak.get() as f64), 1.0),
        "energy_j": own(|of| of.joules, 1.0),
        "cost_used_usd": own(|of| of.dollars, 1.0),
        "rank_correlations": correlations(of, of.correlations(case)),
    })
}

/// By the number's name; null where one of the two does not vary.
fn correlations(of: &UncertaintyRecord, all: Vec<Option<f64>>) -> Map<String, Value> {
    let names = of.numbers.iter().map(|number| number.name.clone());
    names.zip(all.into_iter().map(|own| json!(own))).collect()
}

fn contested(of: &UncertaintyRecord, contest: &Contest) -> Value {
    let Contest { between, winner, other, duel, .. } = contest;
    json!({
        "between": between,
        "winner": winner,
        "other": other,
        "wins": duel.wins,
        "losses": duel.losses,
        "ties": duel.ties,
        "flips": contest.flips(of.draws),
        "decides": duel.decides.map(|(number, _)| &of.numbers[number].name),
        "rank_correlation": duel.decides.map(|(_, by)| by),
        "rank_correlations": correlations(of, contest.correlations(of)),
    })
}
