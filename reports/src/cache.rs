//! What a replay of a block trace looks like: a text table, JSON, CSV and the miss-ratio curve.
//!
//! All four are made of one [`CacheRecord`] and share [`CacheRow`], so that they cannot disagree.
//! Keys of the JSON are only ever added; a change of meaning raises [`CACHE_SCHEMA`].
//! Invariant: no NaN and no infinity is ever written.

use crate::render::Chart;
use crate::text_table::{Side, cells, text_table};
use crate::words::{clean, elide};
use crate::xy::{Axis, Marks, Series, XyChart};
use crate::{Artefact, ChartError};
use serde::Serialize;
use tiersim_models::results::cache::{CacheRecord, Misses};
use tiersim_models::units::Bytes;
use tiersim_models::units::shown::of_sizes;

/// Version of the meaning of the keys.
pub const CACHE_SCHEMA: u32 = 1;
/// A chart whose capacities differ by more has a logarithmic axis.
const LOGARITHMIC: f64 = 20.0;

/// The whole JSON file.
#[derive(Clone, Debug, Serialize)]
pub struct CacheSummary {
    /// [`CACHE_SCHEMA`].
    pub schema: u32,
    /// Version of tiersim.
    pub tiersim: String,
    /// Name of the trace's file.
    pub trace: String,
    /// The policy's name.
    pub policy: String,
    /// Does the policy see requests to come?
    pub oracle: bool,
    /// Did every object count 1? Capacities are then objects, else bytes.
    pub unit: bool,
    /// Requests of the trace.
    pub requests: u64,
    /// Different objects requested.
    pub objects: u64,
    /// Bytes requested.
    pub bytes_requested: u64,
    /// At the capacities asked for, rising.
    pub results: Vec<CacheRow>,
    /// At other capacities that the same pass gave, rising.
    pub curve: Vec<CacheRow>,
}

/// A capacity.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CacheRow {
    /// In objects or bytes.
    pub capacity: u64,
    /// Requests.
    pub requests: u64,
    /// Requests for what was not in the cache.
    pub misses: u64,
    /// Misses per request.
    pub miss_ratio: f64,
    /// Bytes requested.
    pub bytes_requested: u64,
    /// Bytes of the requests that missed.
    pub bytes_missed: u64,
    /// Bytes missed per byte requested.
    pub byte_miss_ratio: f64,
}

fn row(record: &CacheRecord, misses: &Misses) -> CacheRow {
    // A trace without requests is refused by the reader.
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    CacheRow {
        capacity: misses.capacity,
        requests: record.requests,
        misses: misses.misses,
        miss_ratio: share(misses.misses, record.requests),
        bytes_requested: record.bytes,
        bytes_missed: misses.bytes,
        byte_miss_ratio: share(misses.bytes, record.bytes),
    }
}

fn rows(record: &CacheRecord, of: &[Misses]) -> Vec<CacheRow> {
    of.iter().map(|misses| row(record, misses)).collect()
}

/// The record for programs.
pub fn cache_json(record: &CacheRecord, version: &str) -> Result<String, ChartError> {
    let summary = CacheSummary {
        schema: CACHE_SCHEMA,
        tiersim: version.to_owned(),
        trace: record.trace.clone(),
        policy: record.policy.clone(),
        oracle: record.oracle,
        unit: record.unit,
        requests: record.requests,
        objects: record.objects,
        bytes_requested: record.bytes,
        results: rows(record, &record.results),
        curve: rows(record, &record.curve),
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}

/// Every capacity for spreadsheets; `asked` tells those asked for from the rest of the curve.
pub fn cache_csv(record: &CacheRecord) -> Result<Vec<u8>, ChartError> {
    #[derive(Serialize)]
    struct Line {
        capacity: u64,
        asked: bool,
        requests: u64,
        misses: u64,
        miss_ratio: f64,
        bytes_requested: u64,
        bytes_missed: u64,
        byte_miss_ratio: f64,
    }
    let asked = record.results.iter().map(|misses| (misses, true));
    let mut all: Vec<_> = asked.chain(record.curve.iter().map(|m| (m, false))).collect();
    // A capacity that was asked for stands before the same one of the curve, which goes.
    all.sort_by_key(|(misses, asked)| (misses.capacity, !asked));
    all.dedup_by_key(|(misses, _)| misses.capacity);
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for (misses, asked) in all {
        let CacheRow {
            capacity,
            requests,
            misses,
            miss_ratio,
            bytes_requested,
            bytes_missed,
            byte_miss_ratio,
        } = row(record, misses);
        writer.serialize(Line {
            capacity,
            asked,
            requests,
            misses,
            miss_ratio,
            bytes_requested,
            bytes_missed,
            byte_miss_ratio,
        })?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

/// The record for people.
pub fn cache_text(record: &CacheRecord) -> String {
    let mut text = format!("{}: {}\n{}\n", clean(&record.trace), named(record), told(record));
    let unit = if record.unit { "objects" } else { "bytes" };
    let capacity = format!("capacity ({unit})");
    let bytes = ["bytes requested", "bytes missed", "byte miss ratio"];
    let header = [&capacity, "requests", "misses", "miss ratio", bytes[0], bytes[1], bytes[2]];
    let rows = record.results.iter().map(|misses| {
        let row = row(record, misses);
        vec![
            row.capacity.to_string(),
            row.requests.to_string(),
            row.misses.to_string(),
            format!("{:.6}", row.miss_ratio),
            row.bytes_requested.to_string(),
            row.bytes_missed.to_string(),
            format!("{:.6}", row.byte_miss_ratio),
        ]
    });
    let lines: Vec<Vec<String>> = std::iter::once(cells(header)).chain(rows).collect();
    text += &text_table(0, &[Side::Right; 7], &lines);
    text
}

/// The policy, with a mark where it is none that could be built.
fn named(record: &CacheRecord) -> String {
    let oracle = if record.oracle { " (oracle: sees the requests to come)" } else { "" };
    format!("{}{oracle}", clean(&record.policy))
}

fn told(record: &CacheRecord) -> String {
    let counts = if record.unit { "every object counts 1" } else { "objects count their bytes" };
    let (requests, objects) = (record.requests, record.objects);
    let bytes = Bytes::new(record.bytes);
    format!("{requests} requests for {objects} objects, {bytes} requested; {counts}")
}

/// Misses per request by capacity, and where sizes count, bytes missed per byte requested.
pub fn miss_ratio_curve(record: &CacheRecord, version: &str) -> Chart {
    let capacities = || record.results.iter().chain(&record.curve).map(|m| m.capacity as f64);
    let (least, most) =
        (capacities().fold(f64::INFINITY, f64::min), capacities().fold(0.0, f64::max));
    let (unit, scale) = if record.unit { ("objects", 1.0) } else { of_sizes(most) };
    let points = |of: &[Misses], bytes: bool| -> Vec<(f64, f64)> {
        let y = |row: CacheRow| if bytes { row.byte_miss_ratio } else { row.miss_ratio };
        of.iter().map(|m| (m.capacity as f64 / scale, y(row(record, m)))).collect()
    };
    let mut series = Vec::new();
    let what: &[(&str, bool)] = if record.unit {
        &[("misses per request", false)]
    } else {
        &[("misses per request", false), ("bytes missed per byte requested", true)]
    };
    for &(label, bytes) in what {
        let mut add = |of: &[Misses], marks: Marks| {
            series.push(Series { label: label.to_owned(), marks, points: points(of, bytes) });
        };
        if record.curve.is_empty() {
            add(&record.results, Marks::LineAndPoints);
        } else {
            add(&record.curve, Marks::Line);
            add(&record.results, Marks::Points);
        }
    }
    let log = most / least > LOGARITHMIC;
    XyChart {
        title: format!("Miss ratio by capacity: {}", named(record)),
        notes: vec![
            format!("{}: {}", elide(&record.trace, 60), told(record)),
            format!("tiersim {version} · cache · markers: the capacities asked for"),
        ],
        x: Axis { label: "capacity".to_owned(), unit: unit.to_owned(), log },
        y: Axis { label: "miss ratio".to_owned(), unit: String::new(), log: false },
        series,
        ..XyChart::default()
    }
    .chart()
}

/// The files of a replay: JSON, CSV and the curve as SVG and PNG, with the policy in their names.
pub fn cache_artefacts(record: &CacheRecord, version: &str) -> Result<Vec<Artefact>, ChartError> {
    let chart = miss_ratio_curve(record, version);
    let name = |ending: &str| format!("miss-ratio-{}.{ending}", record.policy.to_lowercase());
    Ok(vec![
        Artefact { name: name("json"), bytes: cache_json(record, version)?.into_bytes() },
        Artefact { name: name("csv"), bytes: cache_csv(record)? },
        Artefact { name: name("svg"), bytes: chart.svg()?.into_bytes() },
        Artefact { name: name("png"), bytes: chart.png()? },
    ])
}
