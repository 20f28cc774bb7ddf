//! What became of requests, for `summary.json`, `results.csv` and the table.
//!
//! Invariant: a figure that no request has (TPOT where every answer is one token) is `null`, empty
//! or a dash, never 0.

use crate::csv_columns::{Columns, float};
use crate::places::tiers;
use serde_json::{Value, json};
use tiersim_models::results::served::{ServingFigures, Spread};
use tiersim_models::results::{Conditions, RunRecord};

/// What became of requests.
pub(crate) fn summary(on: &Conditions, figures: &ServingFigures) -> Value {
    let spread =
        |of: Spread| json!({ "mean": of.mean, "p50": of.p50, "p95": of.p95, "p99": of.p99 });
    json!({
        "requests": figures.requests.len(),
        "prompt_tokens": figures.prompt_tokens,
        "output_tokens": figures.output_tokens(),
        "output_tokens_per_s": figures.tokens_per_s(),
        "end_ms": figures.end.as_ms(),
        "ttft_ms": spread(figures.first_token_ms()),
        "tpot_ms": spread(figures.per_token_ms()),
        "latency_ms": spread(figures.latency_ms()),
        "queued_ms": spread(figures.queued_ms()),
        "kv_blocks": figures.blocks,
        "kv_hits": figures.hits,
        "kv_hit_ratio": figures.hit_ratio(),
        "hit_tokens": figures.hit_tokens,
        "kv_hit_bytes": found(on, figures).collect::<Value>(),
        "kv_hit_bytes_in_the_op": figures.found.in_the_op,
    })
}

/// Bytes of blocks that requests found, by tier.
pub(crate) fn found<'r>(
    on: &'r Conditions,
    figures: &'r ServingFigures,
) -> impl Iterator<Item = (&'r str, u64)> {
    let bytes = |tier: usize| figures.found.tiers.get(tier).copied().unwrap_or(0);
    on.tiers.iter().enumerate().map(move |(tier, (name, _))| (name.as_str(), bytes(tier)))
}

/// Columns of `results.csv`; none where no case serves requests.
pub(crate) fn csv<'r>(columns: &mut Columns<'r>, record: &'r RunRecord) {
    if !serves(record) {
        return;
    }
    let mut add = |name: String, cell: Box<dyn Fn(&ServingFigures) -> String + 'r>| {
        columns.figure(name, move |f| f.serving.as_deref().map_or_else(String::new, &cell));
    };
    let mut spread = |what: &str, of: fn(&ServingFigures) -> Spread| {
        add(format!("{what}_ms_mean"), Box::new(move |f| float(of(f).mean)));
        add(format!("{what}_ms_p50"), Box::new(move |f| float(of(f).p50)));
        add(format!("{what}_ms_p95"), Box::new(move |f| float(of(f).p95)));
        add(format!("{what}_ms_p99"), Box::new(move |f| float(of(f).p99)));
    };
    spread("ttft", ServingFigures::first_token_ms);
    spread("tpot", ServingFigures::per_token_ms);
    spread("latency", ServingFigures::latency_ms);
    spread("queued", ServingFigures::queued_ms);
    add("kv_hit_ratio".to_owned(), Box::new(|f| float(f.hit_ratio())));
    columns.each("kv_hit_bytes", tiers(record), |f, tier| {
        let bytes = |f: &ServingFigures| f.found.tiers.get(tier).copied().unwrap_or(0).to_string();
        f.serving.as_deref().map_or_else(String::new, bytes)
    });
}

/// Columns of the table: two lines of header, and a figure per case; none where no requests are
/// served.
pub(crate) fn columns(record: &RunRecord, cases: &[usize]) -> Vec<([String; 2], Vec<Option<f64>>)> {
    if !serves(record) {
        return Vec::new();
    }
    let of = |figure: &dyn Fn(&ServingFigures) -> f64| -> Vec<Option<f64>> {
        let figures = cases.iter().map(|&case| record.results[case].outcome.figures());
        figures.map(|figures| Some(figure(figures?.serving.as_deref()?))).collect()
    };
    let columns = vec![
        (["latency", "mean ms"], of(&|f| f.latency_ms().mean)),
        (["TTFT", "mean ms"], of(&|f| f.first_token_ms().mean)),
        (["", "p95 ms"], of(&|f| f.first_token_ms().p95)),
        (["", "p99 ms"], of(&|f| f.first_token_ms().p99)),
        (["TPOT", "mean ms"], of(&|f| f.per_token_ms().mean)),
        (["", "p95 ms"], of(&|f| f.per_token_ms().p95)),
        (["queued", "mean ms"], of(&|f| f.queued_ms().mean)),
        (["KV hits", "% blocks"], of(&|f| f.hit_ratio() * 100.0)),
    ];
    let mut columns: Vec<([String; 2], Vec<Option<f64>>)> =
        columns.into_iter().map(|(header, values)| (header.map(str::to_owned), values)).collect();
    let places = tiers(record);
    for (index, name) in places.names.iter().enumerate() {
        let share = |&case: &usize| {
            let case = &record.results[case];
            let figures = case.outcome.figures()?.serving.as_deref()?;
            let found = &figures.found;
            let bytes = found.tiers.get(places.at(case, index)?).copied().unwrap_or(0);
            let all = found.tiers.iter().sum::<u64>() + found.in_the_op;
            Some(bytes as f64 / all as f64 * 100.0)
        };
        let shares: Vec<Option<f64>> = cases.iter().map(share).collect();
        // A tier in which nothing is found is not printed.
        if shares.iter().flatten().any(|share| *share > 0.0) {
            columns.push((["found, %".to_owned(), name.clone()], shares));
        }
    }
    columns
}

/// Whether requests are served.
pub(crate) fn serves(record: &RunRecord) -> bool {
    record.used().iter().any(|on| on.baseline.serving.is_some())
}
