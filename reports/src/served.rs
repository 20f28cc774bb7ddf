//! What became of requests, for `summary.json`, `results.csv` and the table.
//!
//! Invariant: a figure that no request has (TPOT where every answer is one token) is `null`, empty
//! or a dash, never 0.

use crate::words::finite;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tiersim_models::results::RunRecord;
use tiersim_models::results::served::{ServingFigures, Spread};

/// What became of requests.
#[derive(Clone, Debug, Serialize)]
pub struct ServingSummary {
    /// Requests, all of which were answered.
    pub requests: usize,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// Tokens of answers per second of the run.
    pub output_tokens_per_s: Option<f64>,
    /// From the start of the run to the last token.
    pub end_ms: Option<f64>,
    /// From arrival to the first token.
    pub ttft_ms: SpreadSummary,
    /// Per token behind the first, over requests with two or more.
    pub tpot_ms: SpreadSummary,
    /// From arrival to the last token.
    pub latency_ms: SpreadSummary,
    /// From arrival to the first iteration that could work for the request.
    pub queued_ms: SpreadSummary,
    /// Blocks of all prompts.
    pub kv_blocks: u64,
    /// Of these, blocks that had been computed before.
    pub kv_hits: u64,
    /// Their share.
    pub kv_hit_ratio: Option<f64>,
    /// Tokens of prompts that were not computed again.
    pub hit_tokens: u64,
    /// Bytes of blocks that were found, by tier.
    pub kv_hit_bytes: Map<String, Value>,
    /// Bytes of blocks that were found in the making: the op that reads them computes them too.
    pub kv_hit_bytes_in_the_op: u64,
}

/// Mean and percentiles over requests.
#[derive(Clone, Debug, Serialize)]
pub struct SpreadSummary {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

impl From<Spread> for SpreadSummary {
    fn from(spread: Spread) -> SpreadSummary {
        let [mean, p50, p95, p99] = [spread.mean, spread.p50, spread.p95, spread.p99].map(finite);
        SpreadSummary { mean, p50, p95, p99 }
    }
}

pub(crate) fn summary(record: &RunRecord, figures: &ServingFigures) -> ServingSummary {
    ServingSummary {
        requests: figures.requests.len(),
        prompt_tokens: figures.prompt_tokens,
        output_tokens: figures.output_tokens(),
        output_tokens_per_s: finite(figures.tokens_per_s()),
        end_ms: finite(figures.end.as_ms()),
        ttft_ms: figures.first_token_ms().into(),
        tpot_ms: figures.per_token_ms().into(),
        latency_ms: figures.latency_ms().into(),
        queued_ms: figures.queued_ms().into(),
        kv_blocks: figures.blocks,
        kv_hits: figures.hits,
        kv_hit_ratio: finite(figures.hit_ratio()),
        hit_tokens: figures.hit_tokens,
        kv_hit_bytes: found(record, figures)
            .map(|(tier, bytes)| (tier.to_owned(), json!(bytes)))
            .collect(),
        kv_hit_bytes_in_the_op: figures.found.in_the_op,
    }
}

/// Bytes of blocks that requests found, by tier.
pub(crate) fn found<'r>(
    record: &'r RunRecord,
    figures: &'r ServingFigures,
) -> impl Iterator<Item = (&'r str, u64)> {
    let bytes = |tier: usize| figures.found.tiers.get(tier).copied().unwrap_or(0);
    record.tiers.iter().enumerate().map(move |(tier, (name, _))| (name.as_str(), bytes(tier)))
}

/// Columns of `results.csv`; none where no case serves requests.
pub(crate) fn header(record: &RunRecord) -> Vec<String> {
    if !serves(record) {
        return Vec::new();
    }
    let spread = |what: &str| ["mean", "p50", "p95", "p99"].map(|of| format!("{what}_ms_{of}"));
    let mut header: Vec<String> =
        ["ttft", "tpot", "latency", "queued"].iter().flat_map(|what| spread(what)).collect();
    header.push("kv_hit_ratio".to_owned());
    header.extend(record.tiers.iter().map(|(tier, _)| format!("kv_hit_bytes.{tier}")));
    header
}

/// The cells of a case, empty where it has none.
pub(crate) fn row(record: &RunRecord, figures: Option<&ServingFigures>) -> Vec<String> {
    if !serves(record) {
        return Vec::new();
    }
    let Some(figures) = figures else { return vec![String::new(); header(record).len()] };
    let all = [
        figures.first_token_ms(),
        figures.per_token_ms(),
        figures.latency_ms(),
        figures.queued_ms(),
    ];
    let float = |value: f64| finite(value).map_or_else(String::new, |value| value.to_string());
    let of = |spread: &Spread| [spread.mean, spread.p50, spread.p95, spread.p99].map(float);
    let mut row: Vec<String> = all.iter().flat_map(of).collect();
    row.push(float(figures.hit_ratio()));
    row.extend(found(record, figures).map(|(_, bytes)| bytes.to_string()));
    row
}

/// Columns of the table: two lines of header, and a figure per case; none where no requests are
/// served.
pub(crate) fn columns<'r>(
    record: &'r RunRecord,
    cases: &[usize],
) -> Vec<([&'r str; 2], Vec<Option<f64>>)> {
    if !serves(record) {
        return Vec::new();
    }
    let of = |figure: &dyn Fn(&ServingFigures) -> f64| -> Vec<Option<f64>> {
        let figures = cases.iter().map(|&case| record.results[case].outcome.figures());
        figures.map(|figures| Some(figure(figures?.serving.as_deref()?))).collect()
    };
    let mut columns = vec![
        (["TTFT", "mean ms"], of(&|f| f.first_token_ms().mean)),
        (["", "p95 ms"], of(&|f| f.first_token_ms().p95)),
        (["", "p99 ms"], of(&|f| f.first_token_ms().p99)),
        (["TPOT", "mean ms"], of(&|f| f.per_token_ms().mean)),
        (["", "p95 ms"], of(&|f| f.per_token_ms().p95)),
        (["queued", "mean ms"], of(&|f| f.queued_ms().mean)),
        (["KV hits", "% blocks"], of(&|f| f.hit_ratio() * 100.0)),
    ];
    for (tier, (name, _)) in record.tiers.iter().enumerate() {
        let bytes = |f: &ServingFigures| f.found.tiers.get(tier).copied().unwrap_or(0);
        let all = |f: &ServingFigures| f.found.tiers.iter().sum::<u64>() + f.found.in_the_op;
        let share = of(&|f| bytes(f) as f64 / all(f) as f64 * 100.0);
        // A tier in which nothing is found is not printed.
        if share.iter().flatten().any(|share| *share > 0.0) {
            columns.push((["found, %", name.as_str()], share));
        }
    }
    columns
}

/// Whether requests are served.
pub(crate) fn serves(record: &RunRecord) -> bool {
    record.used().iter().any(|on| on.baseline.serving.is_some())
}
