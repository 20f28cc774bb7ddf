//! A memory snapshot against the model of the caching allocator: text, JSON and a chart by device.
//!
//! Invariant: all three are made of the same [`Replay`], and nothing is worked out twice.

use crate::render::Chart;
use crate::words::{clean, count, number};
use crate::xy::{Axis, Marks, XyChart};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Value, json};
use std::fmt::Write;
use tiersim_models::results::snapshot::{Deviation, Elsewhere, Replay, Sample, Settings};
use tiersim_models::units::Bytes;
use tiersim_models::units::shown::of_sizes;

/// The replays of a snapshot's devices.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorReplay<'a> {
    /// The snapshot's file.
    pub snapshot: &'a str,
    /// How its allocator was set.
    pub settings: &'a Settings,
    /// The largest deviation that is no failure.
    pub limit: f64,
    /// One per device.
    pub replays: &'a [Replay],
    /// Version of tiersim.
    pub version: &'a str,
}

/// For people.
pub fn allocator_text(of: AllocatorReplay) -> String {
    let AllocatorReplay { settings, limit, replays, .. } = of;
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
pub fn allocator_json(of: AllocatorReplay) -> Result<String, ChartError> {
    let AllocatorReplay { snapshot, settings, limit, replays, version } = of;
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
    pretty(&json!({
        "schema": 1,
        "tiersim": version,
        "snapshot": snapshot,
        "at_most": limit,
        "holds": replays.iter().all(|found| found.worst() <= limit),
        "settings": honoured(settings),
        "not_modelled": settings.ignored,
        "devices": replays.iter().map(device).collect::<Vec<_>>(),
    }))
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

/// JSON, and a chart of each device; `name` says on it which snapshot it is of.
pub fn allocator_artefacts(of: AllocatorReplay, name: &str) -> Result<Vec<Artefact>, ChartError> {
    let mut files = vec![Artefact::new("allocator.json", allocator_json(of)?)];
    for found in of.replays {
        let chart = chart(found, name, of.version);
        files.extend(chart.artefacts(&format!("device-{}", found.device))?);
    }
    Ok(files)
}

/// Reserved and active bytes over the entries; the model's lines lie over the snapshot's.
fn chart(found: &Replay, name: &str, version: &str) -> Chart {
    let most = found.samples.iter().map(|sample| sample.reserved.max(sample.model_reserved)).max();
    let (unit, scale) = of_sizes(most.unwrap_or(0) as f64);
    let about = format!(
        "deviation at most {} % of reserved and {} % of active bytes over {}",
        number(found.reserved.max * 100.0),
        number(found.active.max * 100.0),
        count(found.entries, "entry", "entries"),
    );
    let foot = format!("tiersim {version} · allocator {name} · device {}", found.device);
    let mut chart = XyChart {
        title: "Caching allocator: snapshot against model".to_owned(),
        notes: vec![about, foot],
        x: Axis::linear("entry of the snapshot", ""),
        y: Axis::linear("memory", unit),
        ..XyChart::default()
    };
    let mut add = |label, of: fn(&Sample) -> u64| {
        let point = |sample: &Sample| (sample.entry as f64, of(sample) as f64 / scale);
        chart.add(label, Marks::Line, found.samples.iter().map(point));
    };
    add("reserved, snapshot", |sample| sample.reserved);
    add("reserved, model", |sample| sample.model_reserved);
    add("active, snapshot", |sample| sample.active);
    add("active, model", |sample| sample.model_active);
    chart.chart()
}
