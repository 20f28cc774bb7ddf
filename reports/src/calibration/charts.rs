//! Charts of a calibration: measured points against the laws fitted to them.

use crate::render::Chart;
use crate::words::clean;
use crate::xy::{Axis, Marks, XyChart};
use std::collections::BTreeSet;
use tiersim_models::results::calibration::{CalibrationRecord, Point, ProbeKind};

/// Points of a drawn law; on logarithmic axes it is a curve.
const SAMPLES: u32 = 64;

/// Every chart with the name of its files.
pub(super) fn charts(record: &CalibrationRecord, version: &str) -> Vec<(&'static str, Chart)> {
    let CalibrationRecord { machine, command, device, date, .. } = record;
    let foot = clean(&format!("tiersim {version} · {command} · {device} · {date}"));
    let chart = |title: &str, about: &str, x: &str, y: Axis| XyChart {
        title: title.to_owned(),
        notes: vec![about.to_owned(), foot.clone()],
        x: Axis::log(x, "KiB"),
        y,
        ..XyChart::default()
    };
    let about = "points: median of the repeats at a size; lines: setup + size / rate, fitted to \
                 powers of two; sizes of 3 times a power of two are held out";
    let of_trace =
        "points: median of the copies of a size; lines: setup + size / rate, fitted to them";
    let (about, busy) = match *machine {
        "trace" => (of_trace, "Copies of a recording"),
        _ => (about, "Copies back to back"),
    };
    let copies = |title| chart(title, about, "size of a copy", Axis::log("time", "us"));
    let about = "median of the repeats, each a transfer of many blocks";
    let files = |title| chart(title, about, "block", Axis::log("throughput", "MB/s"));
    let mut charts = [
        ("calibration", copies(busy)),
        ("calibration-alone", copies("Copies alone, between two ops")),
        ("calibration-files-read", files("Reading a file")),
        ("calibration-files-write", files("Writing a file")),
    ];
    let [busy, alone, read, write] = charts.each_mut().map(|(_, chart)| chart);
    for (probe, law) in &record.laws {
        let (chart, channel) = match &probe.kind {
            ProbeKind::Busy(channel) => (&mut *busy, channel),
            ProbeKind::Alone(channel) => (&mut *alone, channel),
            _ => continue,
        };
        let points = record.points.iter().filter(|point| point.probe == *probe);
        let point = |point: &Point| (kib(point.work), point.times.median * 1e6);
        chart.add(channel, Marks::Points, points.clone().map(point));
        let Ok(law) = law else { continue };
        let sizes = || points.clone().map(|point| point.work);
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let size = |step| least * (most / least).powf(f64::from(step) / f64::from(SAMPLES));
        let line = (0..=SAMPLES).map(size).map(|size| (kib(size), law.time(size) * 1e6));
        chart.add(channel, Marks::Line, line);
    }
    for (chart, access) in [(read, ProbeKind::Reads), (write, ProbeKind::Writes)] {
        add_depths(chart, record.points.iter().filter(|point| point.probe.kind == access));
    }
    let some = charts.into_iter().filter(|(_, chart)| !chart.series.is_empty());
    some.map(|(name, chart)| (name, chart.chart())).collect()
}

/// Throughput by size of block, a line for each number of blocks in flight.
fn add_depths<'r>(chart: &mut XyChart, points: impl Iterator<Item = &'r Point> + Clone) {
    let queued = points.filter_map(|point| Some((point.queue?, point.bytes_per_s() / 1e6)));
    let depths: BTreeSet<u16> = queued.clone().map(|((_, depth), _)| depth).collect();
    for wanted in depths {
        let own = queued.clone().filter(|((_, depth), _)| *depth == wanted);
        let mut line: Vec<(f64, f64)> =
            own.map(|((block, _), rate)| (kib(f64::from(block)), rate)).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.add(&format!("{wanted} in flight"), Marks::LineAndPoints, line);
    }
}

fn kib(bytes: f64) -> f64 {
    bytes / 1024.0
}
