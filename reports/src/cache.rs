//! What a replay of a block trace looks like: a text table, JSON, CSV and the miss-ratio curve.
//!
//! All four are made of one [`CacheRecord`] and share [`CacheRow`], so that they cannot disagree.
//! Keys of the JSON are only ever added; a change of meaning raises [`CACHE_SCHEMA`].
//! Invariant: no NaN and no infinity is ever written.

use crate::render::Chart;
use crate::text_table::{Side, cells, text_table};
use crate::words::{clean, elide};
use crate::xy::{Axis, Marks, XyChart};
use crate::{Artefact, ChartError, pretty};
use serde::Serialize;
use serde_json::json;
use tiersim_models::results::cache::{CacheRecord, Misses};
use tiersim_models::units::Bytes;
use tiersim_models::units::shown::of_sizes;

/// Version of the meaning of the keys.
pub const CACHE_SCHEMA: u32 = 1;
/// A chart whose capacities differ by more has a logarithmic axis.
const LOGARITHMIC: f64 = 20.0;

/// A capacity, in objects or bytes, and what was missed there: per request and per byte requested.
#[derive(Clone, Copy, Debug, Serialize)]
struct CacheRow {
    capacity: u64,
    /// Whether it was asked for; in the CSV, where rows of the curve stand between the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<bool>,
    requests: u64,
    misses: u64,
    miss_ratio: f64,
    bytes_requested: u64,
    bytes_missed: u64,
    byte_miss_ratio: f64,
}

fn row(record: &CacheRecord, misses: &Misses) -> CacheRow {
    // A trace without requests is refused by the reader.
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    CacheRow {
        capacity: misses.capacity,
        asked: None,
        requests: record.requests,
        misses: misses.misses,
        miss_ratio: share(misses.misses, record.requests),
        bytes_requested: record.bytes,
        bytes_missed: misses.bytes,
        byte_miss_ratio: share(misses.bytes, record.bytes),
    }
}

/// The record for programs; docs/howto/cache.md says what each key means.
pub fn cache_json(record: &CacheRecord, version: &str) -> Result<String, ChartError> {
    let rows =
        |of: &[Misses]| of.iter().map(|misses| row(record, misses)).collect::<Vec<CacheRow>>();
    pretty(&json!({
        "schema": CACHE_SCHEMA,
        "tiersim": version,
        "trace": record.trace,
        "policy": record.policy,
        "oracle": record.oracle,
        "unit": record.unit,
        "requests": record.requests,
        "objects": record.objects,
        "bytes_requested": record.bytes,
        "results": rows(&record.results),
        "curve": rows(&record.curve),
    }))
}

/// Every capacity for spreadsheets; `asked` tells those asked for from the rest of the curve.
fn cache_csv(record: &CacheRecord) -> Result<Vec<u8>, ChartError> {
    let asked = record.results.iter().map(|misses| (misses, true));
    let mut all: Vec<_> = asked.chain(record.curve.iter().map(|m| (m, false))).collect();
    // A capacity that was asked for stands before the same one of the curve, which goes.
    all.sort_by_key(|(misses, asked)| (misses.capacity, !asked));
    all.dedup_by_key(|(misses, _)| misses.capacity);
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for (misses, asked) in all {
        writer.serialize(CacheRow { asked: Some(asked), ..row(record, misses) })?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

/// The record for people.
pub fn cache_text(record: &CacheRecord) -> String {
    let mut text = format!("{}: {}\n{}\n", clean(&record.trace), named(record), told(record));
    let unit = if record.unit { "objects" } else { "bytes" };
    let capacity = format!("capacity ({unit})");
    // Where every object counts 1, its bytes count for nothing.
    let columns = if record.unit { 4 } else { 7 };
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
    let mut lines: Vec<Vec<String>> = std::iter::once(cells(header)).chain(rows).collect();
    lines.iter_mut().for_each(|line| line.truncate(columns));
    text += &text_table(0, &[Side::Right; 7], &lines);
    text
}

/// The policy, with a mark where it is none that could be built.
fn named(record: &CacheRecord) -> String {
    let oracle = if record.oracle { " (oracle: sees the requests to come)" } else { "" };
    format!("{}{oracle}", clean(&record.policy))
}

fn told(record: &CacheRecord) -> String {
    let (requests, objects) = (record.requests, record.objects);
    let of = format!("{requests} requests for {objects} objects");
    if record.unit {
        return format!("{of}; every object counts 1");
    }
    let bytes = Bytes::new(record.bytes);
    format!("{of}, {bytes} requested; objects count their bytes")
}

/// Misses per request by capacity, and where sizes count, bytes missed per byte requested.
fn miss_ratio_curve(record: &CacheRecord, version: &str) -> Chart {
    let capacities = || record.results.iter().chain(&record.curve).map(|m| m.capacity as f64);
    let (least, most) =
        (capacities().fold(f64::INFINITY, f64::min), capacities().fold(0.0, f64::max));
    let (unit, scale) = if record.unit { ("objects", 1.0) } else { of_sizes(most) };
    let points = |of: &[Misses], bytes: bool| -> Vec<(f64, f64)> {
        let y = |row: CacheRow| if bytes { row.byte_miss_ratio } else { row.miss_ratio };
        of.iter().map(|m| (m.capacity as f64 / scale, y(row(record, m)))).collect()
    };
    let mut chart = XyChart {
        title: format!("Miss ratio by capacity: {}", named(record)),
        notes: vec![
            format!("{}: {}", elide(&record.trace, 60), told(record)),
            format!("tiersim {version} · cache · markers: the capacities asked for"),
        ],
        x: Axis { log: most / least > LOGARITHMIC, ..Axis::linear("capacity", unit) },
        y: Axis::linear("miss ratio", ""),
        ..XyChart::default()
    };
    let what = [("misses per request", false), ("bytes missed per byte requested", true)];
    for (label, bytes) in what.into_iter().take(if record.unit { 1 } else { 2 }) {
        if record.curve.is_empty() {
            chart.add(label, Marks::LineAndPoints, points(&record.results, bytes));
        } else {
            chart.add(label, Marks::Line, points(&record.curve, bytes));
            chart.add(label, Marks::Points, points(&record.results, bytes));
        }
    }
    chart.chart()
}

/// The files of a replay: JSON, CSV and the curve as SVG and PNG, with the policy in their names.
pub fn cache_artefacts(record: &CacheRecord, version: &str) -> Result<Vec<Artefact>, ChartError> {
    let name = format!("miss-ratio-{}", record.policy.to_lowercase());
    let mut files = vec![
        Artefact::new(format!("{name}.json"), cache_json(record, version)?),
        Artefact::new(format!("{name}.csv"), cache_csv(record)?),
    ];
    files.extend(miss_ratio_curve(record, version).artefacts(&name)?);
    Ok(files)
}
