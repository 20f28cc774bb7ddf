//! What it looks like: a [`RunRecord`] as a text table, JSON, CSV, charts, a timeline and hints.
//!
//! Everything here is a function from a record to bytes: no file is opened, no clock is read, so
//! the same record gives the same bytes on every run and at every thread count. Figures come from
//! the methods of the record, so that the table, the files and the charts cannot disagree.
//! Invariant: names out of a scenario or a trace are data; they are cleaned ([`words::clean`])
//! before they reach a terminal or a chart, and escaped by the writer of each format.

mod against;
mod annotations;
mod cache;
mod canvas;
mod cells;
mod contest;
mod csv;
mod economics_summary;
mod fragmentation;
mod frame;
mod hardware;
mod heat_map;
mod hidden;
mod hints;
pub mod html;
mod json;
mod labels;
mod latency_cost;
mod latency_memory;
mod measure;
mod memory_fit;
mod memory_summary;
mod memory_table;
mod names;
mod points;
mod pressure;
mod render;
mod scale;
mod served;
mod split;
mod steady;
mod style;
mod table;
pub mod text_table;
mod timeline;
mod units;
pub mod words;
mod xy;

pub use cache::{
    CACHE_SCHEMA, CacheRow, CacheSummary, cache_artefacts, cache_csv, cache_json, cache_text,
    miss_ratio_curve,
};
pub use csv::results_csv;
pub use economics_summary::{CostSummary, EnergySummary, NumberSummary};
pub use fragmentation::fragmentation;
pub use hardware::{drawing, hardware_json, hardware_list, hardware_text};
pub use heat_map::threshold_heat_map;
pub use hints::{hints_json, tier_hints};
pub use json::{
    CaseSummary, OomSummary, SCHEMA, SkippedSummary, StepMs, Summary, Throughput, summary,
    summary_json,
};
pub use latency_memory::latency_vs_memory;
pub use memory_fit::{FitTarget, memory_fit_json, memory_fit_text};
pub use memory_summary::{AllocatorSummary, BucketSummary, allocators_csv};
pub use memory_table::{MEMORY_SCHEMA, memory_json, memory_text};
pub use points::pareto_front;
pub use render::{CHART_SIZE, Chart};
pub use served::{ServingSummary, SpreadSummary};
pub use table::{Detail, text};
pub use timeline::timeline_json;
pub use xy::{Axis, Band, Marks, Series, XyChart};

use latency_cost::{against_cost, against_energy};
use latency_memory::against_memory;
use measure::Measure;
use tiersim_models::results::RunRecord;

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

/// One file of an output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    /// Its name, such as `summary.json`.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Whether a file of that name is one of those that [`artefacts`] makes, of any record.
pub fn is_artefact(name: &str) -> bool {
    const FILES: [&str; 5] =
        ["summary.json", "results.csv", "timeline.json", "tier_hints.json", "allocators.csv"];
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let is_chart = || {
        let measured = ["-vs-memory", "-vs-cost", "-vs-energy"].iter().any(|of| stem.ends_with(of));
        measured || stem == "threshold-heat-map" || stem.starts_with("fragmentation")
    };
    FILES.contains(&name) || (["svg", "png"].contains(&ending) && is_chart())
}

/// Why a chart or a file could not be made. None of these depend on the record's values.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The font that ships with the crate did not load.
    #[error("the built-in font DejaVuSans.ttf cannot be read")]
    Font,
    /// The drawing backend refused.
    #[error("drawing a chart failed: {0}")]
    Draw(String),
    /// The PNG encoder refused.
    #[error("writing a PNG failed: {0}")]
    Png(#[from] png::EncodingError),
    /// The JSON encoder refused.
    #[error("writing JSON failed: {0}")]
    Json(#[from] serde_json::Error),
    /// The CSV encoder refused.
    #[error("writing CSV failed: {0}")]
    Csv(#[from] ::csv::Error),
}

/// Every file of an output folder, in a fixed order.
///
/// `version` is tiersim's own, such as `0.1.0`. The heat map is there for sweeps over two numeric
/// axes, charts of price and energy for machines that state them, charts and a table of allocators
/// for tiers that are not exact, the hints for policies that place modules. A sweep has neither
/// timeline nor hints: they would be those of one arbitrary point.
pub fn artefacts(record: &RunRecord, version: &str) -> Result<Vec<Artefact>, ChartError> {
    let mut files = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>| {
        files.push(Artefact { name: name.to_owned(), bytes });
    };
    add("summary.json", summary_json(record, version)?.into_bytes());
    add("results.csv", results_csv(record)?);
    for &measure in Measure::of(record) {
        let (chart, name) = (against_memory(record, measure, version)?, measure.file());
        add(&format!("{name}-vs-memory.svg"), chart.svg()?.into_bytes());
        add(&format!("{name}-vs-memory.png"), chart.png()?);
    }
    if let Some(chart) = threshold_heat_map(record, version)? {
        add("threshold-heat-map.svg", chart.svg()?.into_bytes());
        add("threshold-heat-map.png", chart.png()?);
    }
    for &measure in Measure::of(record) {
        for (what, chart) in [
            ("cost", against_cost(record, measure, version)),
            ("energy", against_energy(record, measure, version)),
        ] {
            let Some(chart) = chart else { continue };
            let name = format!("{}-vs-{what}", measure.file());
            add(&format!("{name}.svg"), chart.svg()?.into_bytes());
            add(&format!("{name}.png"), chart.png()?);
        }
    }
    if let Some(table) = allocators_csv(record)? {
        add("allocators.csv", table);
    }
    for (tier, (name, _)) in record.tiers.iter().enumerate() {
        if let Some(chart) = fragmentation(record, tier, version)? {
            // The first tier is what the run is about; others say their name.
            let suffix = if tier == 0 { String::new() } else { format!("-{name}") };
            add(&format!("fragmentation{suffix}.svg"), chart.svg()?.into_bytes());
            add(&format!("fragmentation{suffix}.png"), chart.png()?);
        }
    }
    if record.axes.is_empty() {
        add("timeline.json", timeline_json(record, version)?.into_bytes());
        if let Some(hints) = tier_hints(record)? {
            add("tier_hints.json", hints.into_bytes());
        }
    }
    Ok(files)
}
