//! What it looks like: a [`RunRecord`] as a text table, JSON, CSV, charts, a timeline and hints.
//!
//! Everything here is a function from a record to bytes: no file is opened, no clock is read, so
//! the same record gives the same bytes on every run and at every thread count. Figures come from
//! the methods of the record, so that the table, the files and the charts cannot disagree.
//! Invariant: names out of a scenario or a trace are data; they are cleaned ([`words::clean`])
//! before they reach a terminal or a chart, and escaped by the writer of each format.

mod against;
mod against_marks;
mod allocator_replay;
mod annotations;
mod cache;
mod calibration;
mod canvas;
mod cdf;
mod cells;
mod channel_use;
mod charts;
mod column;
mod contest;
mod csv;
mod csv_columns;
mod draft;
mod drawing;
mod economics_summary;
mod explain;
mod fitted;
mod font;
mod fragmentation;
mod frame;
mod hardware;
mod heat_map;
mod hidden;
mod hints;
mod html;
mod json;
mod labels;
mod latency_cost;
mod latency_legend;
mod latency_memory;
mod live;
mod long_run;
mod measure;
mod memory_fit;
mod memory_summary;
mod memory_switches;
mod memory_table;
mod multiples;
mod names;
mod occupancy;
mod op_fit;
mod op_grades;
mod operators;
mod packed;
mod panels;
mod places;
mod plot;
mod points;
mod pressure;
mod recorded;
mod render;
mod replications;
mod report;
mod scale;
mod series;
mod served;
mod sheet;
mod solved;
mod sources;
mod split;
mod steady;
mod step_log;
mod style;
mod table;
pub mod text_table;
mod timeline;
mod trace_events;
mod trace_memory;
mod trace_shape;
mod uncertainty;
mod units;
mod validation;
mod verdict;
mod wide;
pub mod words;
mod workers;
mod xy;

pub use allocator_replay::{AllocatorReplay, allocator_artefacts, allocator_json, allocator_text};
pub use cache::{CACHE_SCHEMA, cache_artefacts, cache_json, cache_text};
pub use calibration::{calibration_artefacts, calibration_comment, calibration_text};
pub use csv::results_csv;
pub use draft::{Draft, Pictures};
pub use explain::{
    EXPLAIN_SCHEMA, explain_artefacts, explain_json, explain_text, sentences, switches_artefacts,
    switches_json, switches_text,
};
pub use hardware::{drawing, hardware_json, hardware_list, hardware_list_json, hardware_text};
pub use hints::hints_json;
pub use json::{SCHEMA, summary_json};
pub use live::{
    CaseMeasures, Fragmented, Index, Overview, ServedPage, SweepShown, index_page, overview,
    refused_page, result_page, what_if_page,
};
pub use memory_fit::{FitTarget, memory_fit_json, memory_fit_text};
pub use memory_switches::{memory_switches_json, memory_switches_text};
pub use memory_table::{MEMORY_SCHEMA, memory_json, memory_text};
pub use op_fit::{fit_ron, fit_text};
pub use op_grades::{ops_artefacts, ops_json, ops_text};
pub use operators::{operators_artefacts, operators_json, operators_text};
pub use recorded::{copies_text, with_copies_json};
pub use render::{CHART_SIZE, Chart};
pub use report::{
    REPORT, ReportError, ResultFolder, SUMMARY, WHAT_IF_FILES, WHAT_IF_MODULE, is_chart,
    report_artefact, report_page,
};
pub use sheet::{Made, Style};
pub use solved::{SOLVE_SCHEMA, SolvedRecord, solved_artefacts, solved_json, solved_text};
pub use step_log::step_log_text;
pub use table::text;
pub use text_table::Detail;
pub use timeline::timeline_json;
pub use trace_memory::{leak_words, trace_memory_json, trace_memory_text};
pub use trace_shape::{requests_charts, trace_charts};
pub use validation::{Validation, validation_artefacts, validation_text};
pub use wide::boxes;
pub use workers::Workers;
pub use xy::{Axis, Band, Marks, Series, XyChart};

use hints::tier_hints;
use memory_summary::allocators_csv;
use serde::Serialize;
use tiersim_models::results::RunRecord;

#[cfg(test)]
use {heat_map::threshold_heat_map, latency_memory::against_memory};

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

impl Artefact {
    /// A file of that name and contents.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Artefact {
        Artefact { name: name.into(), bytes: bytes.into() }
    }
}

/// JSON for people's eyes and programs', with a line break at its end.
pub fn pretty(value: &impl Serialize) -> Result<String, ChartError> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Whether a file of that name is one of those that [`artefacts`] and [`report_artefact`] make, of
/// any record.
pub fn is_artefact(name: &str) -> bool {
    const FILES: [&str; 15] = [
        SUMMARY,
        WHAT_IF_MODULE,
        WHAT_IF_FILES,
        "results.csv",
        "timeline.json",
        "tier_hints.json",
        "allocators.csv",
        "draws.csv",
        REPORT,
        "explain.json",
        "critical-path.csv",
        "solve.json",
        "solve.csv",
        "switches.json",
        "switches.csv",
    ];
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    FILES.contains(&name) || (["svg", "png"].contains(&ending) && charts::named(stem))
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
    /// What a file is written to refused.
    #[error("writing failed: {0}")]
    Write(#[from] std::io::Error),
}

/// Every file of an output folder, in a fixed order.
///
/// # Errors
/// As [`drafts_of`] and [`Draft::artefact`].
pub fn artefacts<'a>(
    record: &'a RunRecord,
    made: impl Into<Made<'a>>,
) -> Result<Vec<Artefact>, ChartError> {
    let made = made.into();
    let mut files = Vec::new();
    for set in 0..SETS {
        for draft in drafts_of(set, record, made, Pictures::Both)? {
            files.push(draft.artefact()?);
        }
    }
    Ok(files)
}

/// How many sets the files of an output folder are made in.
pub const SETS: usize = 3 + charts::KINDS;

/// One set of the files of an output folder, yet to be made; sets and files are in a fixed order.
///
/// A chart that is laid out holds all its points, so whoever has many of them writes a set before
/// the next is laid out; whoever has threads takes several sets at a time. The first takes longest
/// where there are many cases.
///
/// `made` is tiersim's own version, such as `0.1.0`, or that and the style of charts. The heat map
/// is there for sweeps over two numeric axes, charts of price and energy for machines that state
/// them, distributions where steps or requests differ, charts and a table of allocators for tiers
/// that are not exact, the hints for policies that place modules. A sweep has neither timeline nor
/// hints: they would be those of one arbitrary point.
///
/// # Errors
/// As the writers of tables do; nothing that depends on the record.
pub fn drafts_of<'a>(
    set: usize,
    record: &'a RunRecord,
    made: impl Into<Made<'a>>,
    pictures: Pictures,
) -> Result<Vec<Draft<'a>>, ChartError> {
    let made = made.into();
    match set {
        0 => Ok(vec![Draft::summary(SUMMARY, record, made.version)]),
        1 => Ok(vec![Draft::table("results.csv", record)]),
        set if set < SETS - 1 => {
            let charts = charts::of_kind(set - 2, record, made).into_iter();
            Ok(charts.flat_map(|(name, chart)| Draft::of_chart(&name, chart, pictures)).collect())
        }
        _ => others(record, made.version),
    }
}

/// What is neither the summary, nor the table, nor a chart.
fn others<'a>(record: &RunRecord, version: &str) -> Result<Vec<Draft<'a>>, ChartError> {
    let mut files = Vec::new();
    let mut add = |name: &str, contents: Option<Vec<u8>>| {
        files.extend(contents.map(|contents| Draft::from(Artefact::new(name, contents))));
    };
    add("draws.csv", uncertainty::draws_csv(record)?);
    add("allocators.csv", allocators_csv(record)?);
    if record.axes.is_empty() {
        add("timeline.json", Some(timeline_json(record, version)?.into_bytes()));
        add("tier_hints.json", tier_hints(record)?.map(String::into_bytes));
    }
    Ok(files)
}
