//! What `allocator` says of a replay: text, JSON and a chart.
//!
//! Invariant: all three are made of the same [`Replay`], and nothing is worked out twice.

use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use tiersim_input::import::snapshot::deviation::{Deviation, Elsewhere, Replay, Sample};
use tiersim_input::import::snapshot::settings::Settings;
use tiersim_models::units::Bytes;
use tiersim_models::units::shown::of_sizes;
use tiersim_reports::words::{clean, count, number};
use tiersim_reports::{Axis, Chart, Marks, Series, XyChart};

/// For people.
pub(crate) fn text(settings: &Settings, limit: f64, replays: &[Replay]) -> String {
    let mut text = count(replays.len(), "device with a history", "devices with a history");
    let _ = write!(text, "\nsettings: {}", honoured(settings).join(", "));
    if !settings.ignored.is_empty() {
        let _ = write!(text, "\nnot modelled: {}", clean(&settings.ignored.join(", ")));
    }
    for found in replays {
        let _ = write!(text, "\n\n{}", device(found, limit));
    }
    text
}

fn device(found: &Replay, limit: f64) -> String {
    let mut text = format!(
        "device {}: {} ({} allocations, {} frees), {} at the end, {} reserved before the first entry\n",
        found.device,
        count(found.entries, "entry", "entries"),
        found.allocations,
        found.frees,
        count(found.segments, "segment", "segments"),
        Bytes::new(found.began_with),
    );
    let rows = [
        ("reserved", found.end.reserved, found.end.model_reserved, &found.reserved),
        ("active", found.end.active, found.end.model_active, &found.active),
    ];
    for (name, snapshot, model, deviation) in rows {
        let _ = writeln!(
            text,
            "  {name:<9} peak: snapshot {}, model {}",
            Bytes::new(deviation.peak),
            Bytes::new(deviation.model_peak),
        );
        let _ = writeln!(
            text,
            "  {:<9} at the end: snapshot {}, model {}; deviation at most {} % (entry {}), mean {} %",
            "",
            Bytes::new(snapshot),
            Bytes::new(model),
            number(deviation.max * 100.0),
            deviation.at,
            number(deviation.mean * 100.0),
        );
    }
    let _ = writeln!(
        text,
        "  placed    {} of {} allocations at the snapshot's address, {} refused; {} of {} segments \
         the same, {} in the model",
        found.same_address,
        found.allocations,
        found.refused,
        found.same_segments,
        found.segments,
        found.model_segments,
    );
    if let Some(first) = found.first_elsewhere {
        let _ = writeln!(
            text,
            "  elsewhere first entry {}, of {}: {:#x} in the snapshot, {:#x} in the model",
            first.entry,
            Bytes::new(first.bytes),
            first.at,
            first.model_at,
        );
    }
    if found.unexplained > 0 {
        let _ = writeln!(
            text,
            "  warning   {} contradict others of the snapshot, or say too little",
            count(found.unexplained as usize, "entry or block", "entries or blocks"),
        );
    }
    let holds = if found.worst() <= limit { "holds" } else { "FAILS" };
    let (worst, limit) = (number(found.worst() * 100.0), number(limit * 100.0));
    let _ = writeln!(text, "  {holds}     at most {limit} %: {worst} %");
    text
}

/// Settings that the model follows, in PyTorch's words; those that are not the default.
fn honoured(settings: &Settings) -> Vec<String> {
    let mut all = Vec::new();
    if settings.expandable_segments {
        all.push("expandable_segments".to_owned());
    }
    if let Some(bytes) = settings.max_split {
        all.push(format!("max_split_size {}", Bytes::new(bytes)));
    }
    if let Some(bytes) = settings.rounding_limit {
        all.push(format!("max_non_split_rounding {}", Bytes::new(bytes)));
    }
    if settings.garbage_collection_threshold > 0.0 {
        let share = number(settings.garbage_collection_threshold);
        all.push(format!("garbage_collection_threshold {share}"));
    }
    if settings.divisions.iter().any(|&divisions| divisions > 1) {
        all.push(format!("roundup_power2_divisions {:?}", settings.divisions));
    }
    if all.is_empty() {
        all.push("PyTorch's defaults".to_owned());
    }
    all
}

/// For programs.
pub(crate) fn json(file: &Path, settings: &Settings, limit: f64, replays: &[Replay]) -> Value {
    let device = |found: &Replay| {
        json!({
            "device": found.device,
            "entries": found.entries,
            "allocations": found.allocations,
            "frees": found.frees,
            "same_address": found.same_address,
            "first_elsewhere": found.first_elsewhere.map(elsewhere),
            "refused": found.refused,
            "releases": found.releases,
            "unexplained": found.unexplained,
            "began_with_bytes": found.began_with,
            "segments": found.segments,
            "same_segments": found.same_segments,
            "model_segments": found.model_segments,
            "reserved": bytes(found.end.reserved, found.end.model_reserved, &found.reserved),
            "active": bytes(found.end.active, found.end.model_active, &found.active),
            "deviation": found.worst(),
            "holds": found.worst() <= limit,
        })
    };
    json!({
        "schema": 1,
        "tiersim": env!("CARGO_PKG_VERSION"),
        "snapshot": file.display().to_string(),
        "at_most": limit,
        "holds": replays.iter().all(|found| found.worst() <= limit),
        "settings": honoured(settings),
        "not_modelled": settings.ignored,
        "devices": replays.iter().map(device).collect::<Vec<_>>(),
    })
}

fn elsewhere(first: Elsewhere) -> Value {
    let Elsewhere { entry, bytes, at, model_at } = first;
    json!({ "entry": entry, "bytes": bytes, "address": at, "model_address": model_at })
}

fn bytes(snapshot: u64, model: u64, deviation: &Deviation) -> Value {
    json!({
        "snapshot_bytes": snapshot,
        "model_bytes": model,
        "max": deviation.max,
        "max_at_entry": deviation.at,
        "mean": deviation.mean,
        "first_above": deviation.first_above,
        "peak_bytes": deviation.peak,
        "model_peak_bytes": deviation.model_peak,
    })
}

/// Reserved and active bytes over the entries; the model's lines lie over the snapshot's.
pub(crate) fn chart(name: &str, found: &Replay) -> Chart {
    let most = found.samples.iter().map(|sample| sample.reserved.max(sample.model_reserved)).max();
    let (unit, scale) = of_sizes(most.unwrap_or(0) as f64);
    let series = |label: &str, of: fn(&Sample) -> u64| {
        let point = |sample: &Sample| (sample.entry as f64, of(sample) as f64 / scale);
        let points = found.samples.iter().map(point).collect();
        Series { label: label.to_owned(), marks: Marks::Line, points }
    };
    let about = format!(
        "deviation at most {} % of reserved and {} % of active bytes over {}",
        number(found.reserved.max * 100.0),
        number(found.active.max * 100.0),
        count(found.entries, "entry", "entries"),
    );
    let foot = format!(
        "tiersim {} · allocator {name} · device {}",
        env!("CARGO_PKG_VERSION"),
        found.device
    );
    XyChart {
        title: "Caching allocator: snapshot against model".to_owned(),
        notes: vec![about, foot],
        x: Axis { label: "entry of the snapshot".to_owned(), unit: String::new(), log: false },
        y: Axis { label: "memory".to_owned(), unit: unit.to_owned(), log: false },
        series: vec![
            series("reserved, snapshot", |sample| sample.reserved),
            series("reserved, model", |sample| sample.model_reserved),
            series("active, snapshot", |sample| sample.active),
            series("active, model", |sample| sample.model_active),
        ],
        ..XyChart::default()
    }
    .chart()
}
