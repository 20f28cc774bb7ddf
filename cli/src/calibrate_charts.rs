//! Charts of `calibrate`: measured points against the laws fitted to them.

use crate::calibrate_report::{Report, bytes_per_s};
use tiersim_reports::{Axis, Chart, Marks, Series, XyChart};
use tiersim_validation::calibrate::measure::Point;
use tiersim_validation::calibrate::{FileAccess, Kind, Start};

/// Points of a drawn law; on logarithmic axes it is a curve.
const SAMPLES: u32 = 64;

/// Every chart with the name of its files.
pub(crate) fn charts(report: &Report<'_>) -> Vec<(&'static str, Chart)> {
    let starts = [
        (Start::Busy, "calibration", "Copies back to back"),
        (Start::Idle, "calibration-alone", "Copies alone, between two ops"),
    ];
    let mut charts = Vec::new();
    for (start, file, title) in starts {
        let series = lanes(report, start);
        if !series.is_empty() {
            charts.push((file, lane_chart(report, title, series)));
        }
    }
    let files = [
        (FileAccess::Read, "calibration-files-read", "Reading a file"),
        (FileAccess::Write, "calibration-files-write", "Writing a file"),
    ];
    for (access, file, title) in files {
        let series = depths(report, access);
        if !series.is_empty() {
            charts.push((file, file_chart(report, title, series)));
        }
    }
    charts
}

fn lane_chart(report: &Report<'_>, title: &str, series: Vec<Series>) -> Chart {
    let about = "points: median of the repeats at a size; lines: setup + size / rate, fitted to \
                 powers of two; sizes of 3 times a power of two are held out"
        .to_owned();
    let x = Axis { label: "size of a copy".to_owned(), unit: "KiB".to_owned(), log: true };
    let y = Axis { label: "time".to_owned(), unit: "us".to_owned(), log: true };
    let notes = vec![about, foot(report)];
    XyChart { title: title.to_owned(), notes, x, y, series, ..XyChart::default() }.chart()
}

/// Points and law of every lane, both under the lane's name.
fn lanes(report: &Report<'_>, wanted: Start) -> Vec<Series> {
    let mut series = Vec::new();
    for (kind, law) in &report.made.laws {
        let &Kind::Lane { lane, start } = kind else { continue };
        if start != wanted {
            continue;
        }
        let label = report.device.skeleton.lane_name(lane);
        let of: Vec<&Point> = report.points.iter().filter(|point| point.kind == *kind).collect();
        let point = |point: &&Point| (kib(point.work()), point.quantiles().median * 1e6);
        let points = of.iter().map(point).collect();
        series.push(Series { label: label.clone(), marks: Marks::Points, points });
        let Ok(law) = law else { continue };
        let sizes = || of.iter().map(|point| point.work());
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let size = |step| least * (most / least).powf(f64::from(step) / f64::from(SAMPLES));
        let line = (0..=SAMPLES).map(size).map(|size| (kib(size), law.fit.time(size) * 1e6));
        series.push(Series { label, marks: Marks::Line, points: line.collect() });
    }
    series
}

fn file_chart(report: &Report<'_>, title: &str, series: Vec<Series>) -> Chart {
    let about = "median of the repeats, each a transfer of many blocks".to_owned();
    let x = Axis { label: "block".to_owned(), unit: "KiB".to_owned(), log: true };
    let y = Axis { label: "throughput".to_owned(), unit: "MB/s".to_owned(), log: true };
    let notes = vec![about, foot(report)];
    XyChart { title: title.to_owned(), notes, x, y, series, ..XyChart::default() }.chart()
}

/// Throughput by size of block, a line for each number of blocks in flight.
fn depths(report: &Report<'_>, wanted: FileAccess) -> Vec<Series> {
    let mut depths: Vec<u16> = Vec::new();
    let of = |point: &&Point| matches!(point.kind, Kind::File { access, .. } if access == wanted);
    let points: Vec<(u32, u16, f64)> = report
        .points
        .iter()
        .filter(of)
        .filter_map(|point| point.kind.queue().map(|(b, d)| (b, d, bytes_per_s(point) / 1e6)))
        .collect();
    points.iter().for_each(|&(_, depth, _)| {
        if !depths.contains(&depth) {
            depths.push(depth);
        }
    });
    depths.sort_unstable();
    let line = |wanted: u16| {
        let mut line: Vec<(f64, f64)> = points
            .iter()
            .filter(|(_, depth, _)| *depth == wanted)
            .map(|&(block, _, rate)| (kib(f64::from(block)), rate))
            .collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { label: format!("{wanted} in flight"), marks: Marks::LineAndPoints, points: line }
    };
    depths.into_iter().map(line).collect()
}

/// Where the numbers come from.
fn foot(report: &Report<'_>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let name = tiersim_reports::words::clean(&report.device.name);
    format!("tiersim {version} · calibrate --machine {} · {name} · {}", report.machine, report.date)
}

fn kib(bytes: f64) -> f64 {
    bytes / 1024.0
}
