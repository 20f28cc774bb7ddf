//! What `calibrate` says: a table for people, JSON and CSV for programs.
//!
//! Every number of the spec stands in here with the points that it was made of.

use crate::output::{Failure, pretty};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use tiersim_models::units::Bytes;
use tiersim_reports::text_table::{Side, cells, text_table};
use tiersim_validation::calibrate::figures::Figure;
use tiersim_validation::calibrate::fit::Fit;
use tiersim_validation::calibrate::measure::{Point, Quantiles};
use tiersim_validation::calibrate::spec::{Calibration, Fitted};
use tiersim_validation::calibrate::{Device, FileAccess, Kind};

/// A calibration that is done.
pub(crate) struct Report<'a> {
    pub(crate) machine: &'static str,
    pub(crate) device: &'a Device,
    pub(crate) points: &'a [Point],
    pub(crate) figures: &'a [Figure],
    pub(crate) made: &'a Calibration,
    pub(crate) date: String,
}

impl Report<'_> {
    pub(crate) fn name(&self, kind: Kind) -> String {
        kind.name(&self.device.skeleton)
    }

    /// The law of a kind of measurement, if it has one.
    pub(crate) fn law(&self, kind: Kind) -> Option<&Fitted> {
        let mut laws = self.made.laws.iter();
        laws.find(|(of, _)| *of == kind).and_then(|(_, law)| law.as_ref().ok())
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The law's rate with its unit.
fn rate(kind: Kind, fit: &Fit) -> String {
    let unit = if matches!(kind, Kind::Gemm(_)) { "GFLOP/s" } else { "GB/s" };
    format!("{:.3} {unit}", fit.rate / 1e9)
}

/// For people.
pub(crate) fn table(report: &Report<'_>) -> String {
    let Device { name, driver, clocks, notes, .. } = report.device;
    let clocks: Vec<String> =
        clocks.iter().map(|(what, value)| format!("{what} {value}")).collect();
    let mut text = format!("{}: {name}, {driver}, {}\n", report.made.hardware.name, report.date);
    let _ = writeln!(text, "{}", clocks.join(", "));
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    let law = "law: time = setup + size / rate";
    let (error, held_out) = ("error p50/p95/max", "held out p50/p95/max");
    let mut rows = vec![cells([law, "setup", "rate", error, held_out, "spread", "points"])];
    let mut refused = String::new();
    for (kind, law) in &report.made.laws {
        let name = report.name(*kind);
        match law {
            Ok(law) => rows.push(law_row(name, *kind, law)),
            Err(refusal) => {
                let _ = writeln!(refused, "{name}: no law: {refusal}");
            }
        }
    }
    let (left, right) = (Side::Left, Side::Right);
    let sides = [left, right, right, left, left, right];
    let _ = write!(text, "\n{}{refused}", text_table(0, &sides, &rows));
    if let Some(launch) = report.made.launch {
        let (median, spread) = (launch.median * 1e6, percent(launch.spread()));
        let _ = writeln!(text, "op without objects: {median:.2} us, spread {spread}");
    }
    files_text(&mut text, report);
    for figure in report.figures {
        let Figure { name, unit, values, wanted } = figure;
        let wanted = match (wanted, figure.reached()) {
            (Some(wanted), Some(true)) => format!(", {wanted} or more as it should be"),
            (Some(wanted), _) => format!(", below the {wanted} that it should be"),
            (None, _) => String::new(),
        };
        let (median, count) = (figure.median(), values.len());
        let _ = writeln!(text, "{name}: {median:.3} {unit} (median of {count}){wanted}");
    }
    text
}

fn law_row(name: String, kind: Kind, law: &Fitted) -> Vec<String> {
    let Fitted { fit, error, held_out, spread, points, .. } = law;
    let three = |of: &(f64, f64, f64)| {
        format!("{:.1} / {:.1} / {:.1} %", of.0 * 100.0, of.1 * 100.0, of.2 * 100.0)
    };
    let unseen = if points.1 == 0 { "-".to_owned() } else { three(held_out) };
    vec![
        name,
        format!("{:.2} us", fit.setup * 1e6),
        rate(kind, fit),
        three(error),
        unseen,
        percent(*spread),
        format!("{} + {}", points.0, points.1),
    ]
}

fn files_text(text: &mut String, report: &Report<'_>) {
    for access in [FileAccess::Read, FileAccess::Write] {
        let of = |point: &&Point| matches!(point.kind, Kind::File { access: a, .. } if a == access);
        let points: Vec<&Point> = report.points.iter().filter(of).collect();
        let Some(best) = points.iter().max_by(|a, b| bytes_per_s(a).total_cmp(&bytes_per_s(b)))
        else {
            continue;
        };
        let (block, depth) = best.kind.queue().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}: at most {:.3} GB/s, in blocks of {} with {depth} in flight",
            report.name(best.kind),
            bytes_per_s(best) / 1e9,
            Bytes::new(u64::from(block)),
        );
    }
}

/// Bytes per second of the median repeat.
pub(crate) fn bytes_per_s(point: &Point) -> f64 {
    let median = point.quantiles().median;
    if median > 0.0 { point.size.get() as f64 / median } else { 0.0 }
}

/// For programs.
pub(crate) fn json(report: &Report<'_>) -> Result<String, Failure> {
    let Device { name, driver, clocks, notes, .. } = report.device;
    let clocks: Map<String, Value> =
        clocks.iter().map(|(what, value)| (what.clone(), json!(value))).collect();
    let laws: Vec<Value> = report
        .made
        .laws
        .iter()
        .map(|(kind, law)| match law {
            Ok(law) => law_json(report, *kind, law),
            Err(refusal) => json!({ "probe": report.name(*kind), "refused": refusal.to_string() }),
        })
        .collect();
    let files = report.points.iter().filter(|point| point.kind.queue().is_some());
    let files: Vec<Value> = files.map(|point| file_json(report, point)).collect();
    let whole = json!({
        "schema": 1,
        "tiersim": env!("CARGO_PKG_VERSION"),
        "machine": report.machine,
        "name": report.made.hardware.name,
        "date": report.date,
        "device": { "name": name, "driver": driver, "clocks": clocks, "notes": notes },
        "laws": laws,
        "launch_us": report.made.launch.as_ref().map(quantiles_us),
        "files": files,
        "figures": report.figures.iter().map(figure_json).collect::<Vec<_>>(),
    });
    pretty(&whole)
}

fn law_json(report: &Report<'_>, kind: Kind, law: &Fitted) -> Value {
    let Fitted { fit, error, held_out, spread, points, repeats, sizes, .. } = law;
    let errors = |of: &(f64, f64, f64)| json!({ "median": of.0, "p95": of.1, "max": of.2 });
    json!({
        "probe": report.name(kind),
        "setup_us": fit.setup * 1e6, "setup_error_us": fit.setup_error * 1e6,
        "rate": fit.rate, "rate_error": fit.rate_error,
        "rate_unit": if matches!(kind, Kind::Gemm(_)) { "FLOP/s" } else { "B/s" },
        "error": errors(error),
        "held_out_error": if points.1 == 0 { Value::Null } else { errors(held_out) },
        "spread": spread,
        "points": points.0, "held_out_points": points.1, "repeats": repeats,
        "least_bytes": sizes.0.get(), "most_bytes": sizes.1.get(),
    })
}

fn file_json(report: &Report<'_>, point: &Point) -> Value {
    let (block, depth) = point.kind.queue().unwrap_or_default();
    json!({
        "probe": report.name(point.kind), "block_bytes": block, "depth": depth,
        "bytes_per_s": bytes_per_s(point), "spread": point.quantiles().spread(),
        "latency_us": quantiles_us(&Quantiles::of(&point.latencies)),
    })
}

fn figure_json(figure: &Figure) -> Value {
    let Figure { name, unit, values, wanted } = figure;
    json!({
        "figure": name, "unit": unit, "median": figure.median(), "values": values,
        "wanted": wanted, "reached": figure.reached(),
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
pub(crate) fn csv(report: &Report<'_>) -> String {
    let mut text = "probe,size_bytes,block_bytes,depth,n,median_us,p5_us,p95_us,p99_us,fitted_us,\
                    error,used\n"
        .to_owned();
    for point in report.points {
        let Quantiles { count, p5, median, p95, p99, .. } = point.quantiles();
        let fit = report.law(point.kind).map(|law| law.fit);
        let fitted =
            fit.map_or(String::new(), |fit| format!("{:.3}", fit.time(point.work()) * 1e6));
        let pair = (point.work(), median);
        let error = fit.map_or(String::new(), |fit| format!("{:.6}", fit.error(pair)));
        let (block, depth) = match point.kind.queue() {
            Some((block, depth)) => (block.to_string(), depth.to_string()),
            None => Default::default(),
        };
        let used = match (fit, point.held_out, point.shown_only) {
            (None, ..) => "no law",
            (_, true, _) => "held out",
            (.., true) => "shown",
            _ => "fitted",
        };
        let (name, size) = (report.name(point.kind), point.size.get());
        let [median, p5, p95, p99] =
            [median, p5, p95, p99].map(|seconds| format!("{:.3}", seconds * 1e6));
        let _ = writeln!(
            text,
            "{name},{size},{block},{depth},{count},{median},{p5},{p95},{p99},{fitted},{error},{used}"
        );
    }
    text
}
