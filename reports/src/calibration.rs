//! What a calibration came to: a table for people, JSON and CSV for programs, and charts.
//!
//! Every number of the spec stands in here with the points that it was made of.

mod charts;

use crate::text_table::{Side, cells, text_table};
use crate::words::{clean, percent};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use tiersim_models::results::calibration::{
    CalibrationRecord, Figure, HostDevice, HostNode, Law, Point, Probe, ProbeKind, Quantiles,
};
use tiersim_models::runtime::Runtime;
use tiersim_models::units::Bytes;

/// The files beside the spec, in a fixed order; `version` is tiersim's own.
pub fn calibration_artefacts(
    record: &CalibrationRecord,
    version: &str,
) -> Result<Vec<Artefact>, ChartError> {
    let mut files = vec![
        Artefact::new("calibration.csv", csv(record)),
        Artefact::new("calibration.json", json(record, version)?),
    ];
    for (name, chart) in charts::charts(record, version) {
        files.extend(chart.artefacts(name)?);
    }
    Ok(files)
}

/// What stands at the head of the spec; `quick` says whether fewer sizes were measured.
pub fn calibration_comment(record: &CalibrationRecord, version: &str, quick: bool) -> String {
    let CalibrationRecord { command, device, driver, clocks, notes, date, .. } = record;
    let quick = if quick { " --quick" } else { "" };
    let mut lines = vec![
        format!("Measured by `tiersim {version} {command}{quick}`"),
        format!("on {date}: {device}, {driver}."),
    ];
    lines.extend(clocks.iter().map(|(what, value)| format!("{what}: {value}")));
    lines.extend(notes.iter().cloned());
    // Names come from the system and may hold anything.
    lines.iter().map(|line| clean(line) + "\n").collect()
}

/// The law's rate with its unit.
fn rate(kind: &ProbeKind, law: &Law) -> String {
    let unit = if *kind == ProbeKind::Product { "GFLOP/s" } else { "GB/s" };
    format!("{:.3} {unit}", law.rate.0 / 1e9)
}

/// For people.
pub fn calibration_text(record: &CalibrationRecord) -> String {
    let CalibrationRecord { name, date, device, driver, clocks, notes, .. } = record;
    let clocks: Vec<String> =
        clocks.iter().map(|(what, value)| format!("{what} {value}")).collect();
    let mut text = format!("{name}: {device}, {driver}, {date}\n");
    if !clocks.is_empty() {
        let _ = writeln!(text, "{}", clocks.join(", "));
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    nodes_text(&mut text, &record.nodes);
    let law = "law: time = setup + size / rate";
    let (error, held_out) = ("error p50/p95/max", "held out p50/p95/max");
    let mut rows = vec![cells([law, "setup", "rate", error, held_out, "spread", "points"])];
    let mut refused = String::new();
    for (Probe { name, kind }, law) in &record.laws {
        match law {
            Ok(law) => rows.push(law_row(name, kind, law)),
            Err(refusal) => {
                let _ = writeln!(refused, "{name}: no law: {refusal}");
            }
        }
    }
    let (left, right) = (Side::Left, Side::Right);
    let sides = [left, right, right, left, left, right];
    if !record.laws.is_empty() {
        let _ = write!(text, "\n{}{refused}", text_table(0, &sides, &rows));
    }
    if let Some(Runtime { per_op, per_object, .. }) = &record.runtime {
        let _ = writeln!(
            text,
            "waiting: {per_op} between two ops, {per_object} before a copy that an op waits for; \
             as a scenario's `runtime` in runtime.ron"
        );
    }
    if let Some(launch) = record.launch {
        let (median, spread) = (launch.median * 1e6, percent(launch.spread()));
        let _ = writeln!(text, "op without objects: {median:.2} us, spread {spread}");
    }
    files_text(&mut text, record);
    for Figure { name, unit, values, median, wanted } in &record.figures {
        let wanted = match wanted {
            Some(wanted) if median >= wanted => format!(", {wanted} or more as it should be"),
            Some(wanted) => format!(", below the {wanted} that it should be"),
            None => String::new(),
        };
        let count = values.len();
        let _ = writeln!(text, "{name}: {median:.3} {unit} (median of {count}){wanted}");
    }
    text
}

/// The host's nodes; nothing where the system says nothing of them.
fn nodes_text(text: &mut String, nodes: &[HostNode]) {
    if nodes.is_empty() {
        return;
    }
    let mut rows = vec![cells(["node", "cores", "memory", "devices", "distances"])];
    let distances = |node: &HostNode| {
        let all = nodes.iter().zip(&node.distances);
        all.map(|(to, distance)| format!("{}: {distance}", to.id)).collect::<Vec<_>>().join(", ")
    };
    rows.extend(nodes.iter().map(|node| {
        let devices = node.devices.iter().map(|at| clean(&format!("{} {}", at.what, at.address)));
        let devices = devices.collect::<Vec<_>>().join(", ");
        let (memory, cores) = (node.memory.to_string(), node.cores.to_string());
        let devices = if devices.is_empty() { "-".to_owned() } else { devices };
        vec![node.id.to_string(), cores, memory, devices, distances(node)]
    }));
    let (left, right) = (Side::Left, Side::Right);
    let sides = [right, right, right, left, left];
    let _ = write!(text, "\n{}", text_table(0, &sides, &rows));
}

fn node_json(node: &HostNode) -> Value {
    let HostNode { id, cores, memory, distances, devices } = node;
    let device = |of: &HostDevice| json!({ "address": of.address, "id": of.what });
    json!({
        "node": id, "cores": cores, "bytes": memory.get(), "distances": distances,
        "devices": devices.iter().map(device).collect::<Vec<_>>(),
    })
}

fn law_row(name: &str, kind: &ProbeKind, law: &Law) -> Vec<String> {
    let Law { setup, error, held_out, spread, points, .. } = law;
    let three = |of: &(f64, f64, f64)| {
        format!("{:.1} / {:.1} / {:.1} %", of.0 * 100.0, of.1 * 100.0, of.2 * 100.0)
    };
    let unseen = if points.1 == 0 { "-".to_owned() } else { three(held_out) };
    // A set-up that fits none has an error; one of which nothing is known has none.
    let is_told = *setup != (0.0, 0.0);
    vec![
        name.to_owned(),
        if is_told { format!("{:.2} us", setup.0 * 1e6) } else { "-".to_owned() },
        rate(kind, law),
        three(error),
        unseen,
        percent(*spread),
        format!("{} + {}", points.0, points.1),
    ]
}

fn files_text(text: &mut String, record: &CalibrationRecord) {
    for access in [ProbeKind::Reads, ProbeKind::Writes] {
        let points = record.points.iter().filter(|point| point.probe.kind == access);
        let best = points.max_by(|a, b| a.bytes_per_s().total_cmp(&b.bytes_per_s()));
        let Some(best) = best else { continue };
        let (block, depth) = best.queue.unwrap_or_default();
        let _ = writeln!(
            text,
            "{}: at most {:.3} GB/s, in blocks of {} with {depth} in flight",
            best.probe.name,
            best.bytes_per_s() / 1e9,
            Bytes::new(u64::from(block)),
        );
    }
}

/// For programs.
fn json(record: &CalibrationRecord, version: &str) -> Result<String, ChartError> {
    let CalibrationRecord { device, driver, clocks, notes, .. } = record;
    let clocks = clocks.iter().map(|(what, value)| (what.clone(), json!(value)));
    let laws = record.laws.iter().map(|(probe, law)| match law {
        Ok(law) => law_json(probe, law),
        Err(refusal) => json!({ "probe": probe.name, "refused": refusal }),
    });
    let files = record.points.iter().filter_map(file_json);
    pretty(&json!({
        "schema": 1,
        "tiersim": version,
        "machine": record.machine,
        "name": record.name,
        "date": record.date,
        "device": {
            "name": device,
            "driver": driver,
            "clocks": clocks.collect::<Map<_, _>>(),
            "notes": notes,
        },
        "nodes": record.nodes.iter().map(node_json).collect::<Vec<_>>(),
        "laws": laws.collect::<Vec<_>>(),
        "launch_us": record.launch.as_ref().map(quantiles_us),
        "runtime": record.runtime.as_ref().map(crate::json::runtime),
        "files": files.collect::<Vec<_>>(),
        "figures": record.figures.iter().map(figure_json).collect::<Vec<_>>(),
    }))
}

fn law_json(probe: &Probe, law: &Law) -> Value {
    let Law { setup, rate, error, held_out, spread, points, repeats, sizes } = law;
    let errors = |of: &(f64, f64, f64)| json!({ "median": of.0, "p95": of.1, "max": of.2 });
    json!({
        "probe": probe.name,
        "setup_us": setup.0 * 1e6, "setup_error_us": setup.1 * 1e6,
        "rate": rate.0, "rate_error": rate.1,
        "rate_unit": if probe.kind == ProbeKind::Product { "FLOP/s" } else { "B/s" },
        "error": errors(error),
        "held_out_error": if points.1 == 0 { Value::Null } else { errors(held_out) },
        "spread": spread,
        "points": points.0, "held_out_points": points.1, "repeats": repeats,
        "least_bytes": sizes.0.get(), "most_bytes": sizes.1.get(),
    })
}

/// A point of a file; nothing for others.
fn file_json(point: &Point) -> Option<Value> {
    let (block, depth) = point.queue?;
    Some(json!({
        "probe": point.probe.name, "block_bytes": block, "depth": depth,
        "bytes_per_s": point.bytes_per_s(), "spread": point.times.spread(),
        "latency_us": quantiles_us(&point.latencies),
    }))
}

fn figure_json(figure: &Figure) -> Value {
    let Figure { name, unit, values, median, wanted } = figure;
    json!({
        "figure": name, "unit": unit, "median": median, "values": values,
        "wanted": wanted, "reached": wanted.map(|wanted| *median >= wanted),
    })
}

fn quantiles_us(of: &Quantiles) -> Value {
    let Quantiles { count, p5, median, p95, p99, p999 } = *of;
    json!({
        "count": count, "p5": p5 * 1e6, "p50": median * 1e6, "p95": p95 * 1e6, "p99": p99 * 1e6,
        "p99_9": p999 * 1e6,
    })
}

/// One row per point.
fn csv(record: &CalibrationRecord) -> String {
    let mut text = "probe,size_bytes,block_bytes,depth,n,median_us,p5_us,p95_us,p99_us,fitted_us,\
                    error,used\n"
        .to_owned();
    for point in &record.points {
        let Point { probe, size, work, queue, held_out, shown_only, times, .. } = point;
        let Quantiles { count, p5, median, p95, p99, .. } = *times;
        let law = record.laws.iter().find(|(of, _)| of == probe);
        let fitted = law.and_then(|(_, law)| law.as_ref().ok()).map(|law| law.time(*work));
        let error = fitted.map(|fitted| format!("{:.6}", (fitted - median) / median));
        let used = match (fitted, held_out, shown_only) {
            (None, ..) => "no law",
            (_, true, _) => "held out",
            (.., true) => "shown",
            _ => "fitted",
        };
        let fitted = fitted.map(|fitted| format!("{:.3}", fitted * 1e6));
        let (block, depth) = match queue {
            Some((block, depth)) => (block.to_string(), depth.to_string()),
            None => Default::default(),
        };
        let [median, p5, p95, p99] =
            [median, p5, p95, p99].map(|seconds| format!("{:.3}", seconds * 1e6));
        let [fitted, error] = [fitted, error].map(Option::unwrap_or_default);
        let (name, size) = (&probe.name, size.get());
        let _ = writeln!(
            text,
            "{name},{size},{block},{depth},{count},{median},{p5},{p95},{p99},{fitted},{error},{used}"
        );
    }
    text
}
