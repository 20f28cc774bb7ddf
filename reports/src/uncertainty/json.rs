//! The section `uncertainty` of `summary.json`.

use super::{Contest, FIGURES, contests};
use crate::economics_summary::number;
use serde_json::{Map, Value, json};
use tiersim_models::hardware::Fact;
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::{Band, DrawnNumber, UncertaintyRecord};

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

fn case(record: &RunRecord, of: &UncertaintyRecord, case: usize) -> Value {
    let bands = FIGURES.iter().filter_map(|(name, figure)| {
        let Band { p5, p50, p95 } = of.band(case, figure)?;
        Some(((*name).to_owned(), json!({ "p5": p5, "p50": p50, "p95": p95 })))
    });
    json!({
        "label": record.results[case].label,
        "fits": of.fits(case),
        "out_of_memory": of.draws - of.fits(case),
        "bands": bands.collect::<Map<String, Value>>(),
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
