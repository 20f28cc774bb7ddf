//! Replications of a run whose ops or copies have jitter, as sentences, a column, JSON and CSV.
//!
//! Invariant: every interval is one of [`Replications::interval`] over all replications there are.

use crate::column::Column;
use crate::csv_columns::{Columns, optional};
use crate::units::{three_digits, time};
use crate::words::{count, shortened};
use serde_json::{Value, json};
use tiersim_models::results::RunRecord;
use tiersim_models::results::replications::{Interval, Replications};

/// Most cases that are named.
const MOST_NAMED: usize = 3;
/// Most characters of a case's name in a sentence.
const MOST_NAME: usize = 60;

fn interval(of: &Replications, case: usize) -> Option<Interval> {
    of.interval(case, of.count)
}

fn percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// Lines of the verdict, with the word that each opens with.
pub(crate) fn verdict(record: &RunRecord) -> Vec<(&'static str, String)> {
    let Some(of) = &record.replications else { return Vec::new() };
    if of.is_exact() {
        let text = "neither ops nor copies have jitter: one run is exact, and has no interval";
        return vec![("seeds", text.to_owned())];
    }
    let wide: Vec<usize> =
        (0..record.results.len()).filter(|&case| !of.reached(case, of.count)).collect();
    let runs = count(of.count, "replication", "replications");
    let seeds = format!("{runs} with seeds from {}", record.base().seed);
    let asked = percent(of.share);
    if wide.is_empty() {
        let text = format!(
            "{seeds}: the 95 % confidence interval of every mean step is within {asked} of it"
        );
        return vec![("seeds", text)];
    }
    let named = wide.iter().take(MOST_NAMED).filter_map(|&case| {
        let Interval { mean, .. } = interval(of, case)?;
        let share = percent(interval(of, case)?.share());
        let name = shortened(&record.results[case].label, MOST_NAME);
        Some(format!("{name} {} within {share}", time(mean)))
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let cases = count(wide.len(), "case", "cases");
    vec![("seeds", format!("{seeds}: {asked} was not reached for {cases}: {named}"))]
}

/// Half-widths in per cent of the mean over replications.
pub(crate) fn column(record: &RunRecord, cases: &[usize]) -> Option<Column> {
    let of = record.replications.as_ref().filter(|of| !of.is_exact())?;
    let half = |&case: &usize| interval(of, case).map(|own| own.share() * 100.0);
    let cells: Vec<Option<f64>> = cases.iter().map(half).collect();
    Some(Column::of(["seeds", "95 % within %"], &cells, 3))
}

/// The section of `summary.json`.
pub(crate) fn summary(record: &RunRecord) -> Option<Value> {
    let of = record.replications.as_ref()?;
    let mean = |(case, result): (usize, &tiersim_models::results::CaseRecord)| {
        let own = interval(of, case);
        json!({
            "label": result.label,
            "mean_step_ms": own.map(|own| own.mean / 1e9),
            "half_width_ms": own.map(|own| own.half_width / 1e9),
            "half_width_share": own.map(Interval::share),
            "reached": of.reached(case, of.count),
        })
    };
    Some(json!({
        "count": of.count,
        "exact": of.is_exact(),
        "half_width_asked": of.share,
        "most": of.most,
        "reached": (0..record.results.len()).all(|case| of.reached(case, of.count)),
        "means": record.results.iter().enumerate().map(mean).collect::<Vec<_>>(),
    }))
}

/// Adds the columns of `results.csv`.
pub(crate) fn columns<'r>(all: &mut Columns<'r>, record: &'r RunRecord) {
    let Some(of) = &record.replications else { return };
    all.all.push(("replications".to_owned(), Box::new(|_| of.count.to_string())));
    let cell = |figure: fn(Interval) -> f64| {
        move |case: usize| optional(interval(of, case).map(|own| figure(own) / 1e9))
    };
    let mean = cell(|own| own.mean);
    all.all.push(("replications_step_ms_mean".to_owned(), Box::new(mean)));
    let half = cell(|own| own.half_width);
    all.all.push(("replications_step_ms_half_width".to_owned(), Box::new(half)));
}
