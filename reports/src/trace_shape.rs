//! Charts of a trace and of a file of requests: what is alive and used, how far uses lie apart, what
//! copies reach, when requests come and how long they are.
//!
//! A chart is made only of what there is: a trace without copies has none of copies.
//! Invariant: no figure is worked out here but a change of unit and a mean over intervals.

use crate::cdf::stairs;
use crate::render::{Chart, Charts};
use crate::words::{clean, count, elide, number};
use crate::xy::{Axis, Marks, Reference, ReferenceKind, XyChart};
use crate::{Artefact, ChartError};
use tiersim_models::results::trace_shape::{
    Distribution, Reached, RequestsShape, RoadShape, TraceShape, Window,
};
use tiersim_models::units::shown::{of_sizes, of_times, time};

/// Points of a law; on logarithmic axes it is a curve.
const SAMPLES: u32 = 64;
/// An axis whose values differ by more is logarithmic.
const LOGARITHMIC: f64 = 20.0;
/// As long as a name may be in a title.
const LONGEST: usize = 48;

/// Charts of a trace as SVG and PNG.
///
/// # Errors
/// As the writers of charts do.
pub fn trace_charts(shape: &TraceShape, version: &str) -> Result<Vec<Artefact>, ChartError> {
    let all = [
        ("alive", alive(shape, version)),
        ("working-set", working_set(shape, version)),
        ("reuse-distances", reuse(shape, version)),
        ("copies", copies(shape, version)),
    ];
    files(all)
}

/// Charts of requests as SVG and PNG.
///
/// # Errors
/// As the writers of charts do.
pub fn requests_charts(shape: &RequestsShape, version: &str) -> Result<Vec<Artefact>, ChartError> {
    files([("arrivals", arrivals(shape, version)), ("lengths", lengths(shape, version))])
}

fn files<const N: usize>(
    all: [(&'static str, Option<Chart>); N],
) -> Result<Vec<Artefact>, ChartError> {
    let some = all.into_iter().filter_map(|(name, chart)| Some((name.to_owned(), chart?)));
    let mut files = Vec::new();
    for (name, chart) in some.collect::<Charts>() {
        files.extend(chart.artefacts(&name)?);
    }
    Ok(files)
}

fn chart(shape: &TraceShape, title: &str, about: String, version: &str, x: Axis) -> XyChart {
    let ops = count(shape.ops as usize, "op", "ops");
    let mut notes = vec![about, format!("tiersim {version} · trace info · {ops}")];
    // A line of its own: what durations are of mostly stands at the end.
    if !shape.recorded.is_empty() {
        notes.push(format!("recorded: {}", clean(&shape.recorded)));
    }
    XyChart {
        title: format!("{}: {title}", elide(&clean(&shape.name), LONGEST)),
        notes,
        x,
        ..XyChart::default()
    }
}

/// The unit of an axis by its largest value, or, where it is logarithmic, by its middle: else most of
/// its numbers are small.
fn unit_of(values: impl Iterator<Item = f64> + Clone) -> ((&'static str, f64), bool) {
    let above = values.filter(|value| *value > 0.0);
    let least = above.clone().fold(f64::INFINITY, f64::min);
    let most = above.fold(0.0, f64::max);
    match most / least > LOGARITHMIC {
        true => (of_sizes((least * most).sqrt()), true),
        false => (of_sizes(most), false),
    }
}

fn axis(label: &str, unit: &str, log: bool) -> Axis {
    Axis { log, ..Axis::linear(label, unit) }
}

/// Bytes that are alive along the ops.
fn alive(shape: &TraceShape, version: &str) -> Option<Chart> {
    let sum = |at: usize| shape.alive.iter().map(|(_, line)| line[at]).fold(0, u64::saturating_add);
    let all: Vec<u64> = (0..shape.at.len()).map(sum).collect();
    let most = all.iter().copied().max()?;
    // Where all is there from end to end a line says no more than the text.
    let flat = |line: &[u64]| line.iter().all(|bytes| *bytes == line[0]);
    if shape.alive.iter().all(|(_, line)| flat(line)) {
        return None;
    }
    let (unit, size) = of_sizes(most as f64);
    let about = match (shape.at.len() as u64) < shape.ops {
        true => "of each stretch of ops the one with the most bytes".to_owned(),
        false => "objects from first use to last, or to their recorded release".to_owned(),
    };
    let x = Axis::linear("op", "");
    let mut chart = chart(shape, "bytes alive", about, version, x);
    chart.y = Axis::linear("bytes of objects that are alive", unit);
    let points = |line: &[u64]| -> Vec<(f64, f64)> {
        let at = shape.at.iter().zip(line);
        at.map(|(&op, &bytes)| (f64::from(op), bytes as f64 / size)).collect()
    };
    if shape.alive.len() > 1 {
        chart.add("all", Marks::Line, points(&all));
    }
    for (kind, line) in &shape.alive {
        chart.add(kind, Marks::Line, points(line));
    }
    Some(chart.chart())
}

/// What ops in a row use, by how many they are.
fn working_set(shape: &TraceShape, version: &str) -> Option<Chart> {
    shape.windows.iter().find(|window| window.most > 0)?;
    let values = shape.windows.iter().flat_map(|window| [window.mean, window.most as f64]);
    let ((unit, size), tall) = unit_of(values);
    let about = "bytes of the objects that so many ops use, each counted once".to_owned();
    let log = shape.ops as f64 > LOGARITHMIC;
    let x = axis("ops in a row", "", log);
    let mut chart = chart(shape, "working set", about, version, x);
    chart.y = axis("bytes used", unit, tall);
    let points = |of: fn(&Window) -> f64| {
        shape.windows.iter().map(move |window| (window.ops as f64, of(window) / size))
    };
    chart.add("most, wherever they begin", Marks::LineAndPoints, points(|w| w.most as f64));
    chart.add("mean", Marks::LineAndPoints, points(|w| w.mean));
    Some(chart.chart())
}

/// How much is used between two uses of the same object.
fn reuse(shape: &TraceShape, version: &str) -> Option<Chart> {
    let values = || shape.reuse.iter().flatten().map(|point| point.0 as f64);
    if values().all(|bytes| bytes == 0.0) {
        return None;
    }
    let ((unit, size), log) = unit_of(values());
    let about = "of objects that are used again: what a memory that keeps what was used last must hold \
                 beside them";
    let x = axis("bytes of other objects used in between", unit, log);
    let mut chart = chart(shape, "reuse distances", about.to_owned(), version, x);
    chart.y = Axis::shares("share that has no more in between");
    let [uses, bytes] = &shape.reuse;
    // Objects of one size.
    let labels = match uses == bytes {
        true => &["uses, and bytes used again"][..],
        false => &["uses", "bytes used again"],
    };
    for (label, curve) in labels.iter().zip([uses, bytes]) {
        chart.add(label, Marks::Line, rising(curve, size, log));
    }
    Some(chart.chart())
}

/// The corners of a distribution. A logarithmic axis has no place for 0: there it begins at the next
/// value, as high as it is by then.
fn rising(curve: &Distribution, size: f64, log: bool) -> Vec<(f64, f64)> {
    let mut corners = stairs(curve, size);
    if log {
        corners.retain(|corner| corner.0 > 0.0);
    }
    corners
}

/// What copies reach by their size, with the laws that these show.
fn copies(shape: &TraceShape, version: &str) -> Option<Chart> {
    let roads: Vec<&RoadShape> = shape.roads.iter().filter(|road| !road.sizes.is_empty()).collect();
    let sizes = roads.iter().flat_map(|road| &road.sizes).map(|of| of.bytes as f64);
    if roads.is_empty() {
        return None;
    }
    let ((unit, size), log) = unit_of(sizes);
    let mut about = "points: the median of the copies of a size".to_owned();
    if roads.iter().any(|road| road.shown.law.is_ok()) {
        about += "; lines: bytes / (setup + bytes / rate), as far as copies tell it";
    }
    let x = axis("size of a copy", unit, log);
    let mut chart = chart(shape, "copies", about, version, x);
    let rates = roads.iter().flat_map(|road| &road.sizes).flat_map(|of| of.rate);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)));
    chart.y = axis("rate that it reaches", "GB/s", most / least > LOGARITHMIC);
    for RoadShape { shown, sizes } in roads {
        let label = shown.road.short();
        let at = |of: &Reached, rate: f64| (of.bytes as f64 / size, rate / 1e9);
        chart.add(label, Marks::Points, sizes.iter().map(|of| at(of, of.rate[1])));
        let several = sizes.iter().filter(|of| of.copies > 1 && of.rate[2] > of.rate[0]);
        let bars =
            several.map(|of| (label.to_owned(), [of.rate[0], of.rate[2]].map(|r| at(of, r))));
        chart.bars.extend(bars);
        let Ok(law) = &shown.law else { continue };
        let (least, most) = (law.sizes.0.get().max(1) as f64, law.sizes.1.get().max(1) as f64);
        let bytes = |step| least * (most / least).powf(f64::from(step) / f64::from(SAMPLES));
        let line =
            (0..=SAMPLES).map(bytes).map(|bytes| (bytes / size, bytes / law.time(bytes) / 1e9));
        if most > least {
            chart.add(label, Marks::Line, line);
        }
    }
    chart.bars_are = "5th to 95th percentile of a size".to_owned();
    Some(chart.chart())
}

fn of_requests(shape: &RequestsShape, title: &str, about: String, version: &str) -> XyChart {
    let requests = count(shape.requests as usize, "request", "requests");
    let span = time(shape.span as f64);
    XyChart {
        title: format!("{}: {title}", elide(&clean(&shape.name), LONGEST)),
        notes: vec![about, format!("tiersim {version} · trace info · {requests} within {span}")],
        ..XyChart::default()
    }
}

/// Requests per second along the time.
fn arrivals(shape: &RequestsShape, version: &str) -> Option<Chart> {
    if shape.arrivals.len() < 2 {
        return None;
    }
    let (unit, size) = of_times(shape.span as f64);
    let interval = shape.interval as f64;
    let about = format!("requests of every {}, per second", time(interval));
    let mut chart = of_requests(shape, "arrivals", about, version);
    chart.x = Axis::linear("time since the first arrival", unit);
    chart.y = Axis::linear("requests that arrive", "1/s");
    let mut corners = vec![(0.0, 0.0)];
    for (index, &arrived) in shape.arrivals.iter().enumerate() {
        let begin = index as f64 * interval;
        // The last interval ends with the last arrival, and may be short.
        let end = (begin + interval).min(shape.span as f64);
        let last = index + 1 == shape.arrivals.len();
        if last && end - begin < interval / 2.0 {
            continue;
        }
        let rate = arrived as f64 * 1e12 / (end - begin);
        corners.extend([begin, end].map(|at| (at / size, rate)));
    }
    corners.extend(corners.last().map(|last| (last.0, 0.0)));
    chart.add("arrivals", Marks::Line, corners);
    let mean = shape.requests as f64 * 1e12 / shape.span as f64;
    chart.references.push(Reference {
        label: format!("mean, {} a second", number(mean)),
        kind: ReferenceKind::Limit,
        points: vec![(0.0, mean)],
    });
    Some(chart.chart())
}

/// How long prompts and answers are.
fn lengths(shape: &RequestsShape, version: &str) -> Option<Chart> {
    let values = || shape.prompt.iter().chain(&shape.output).map(|point| point.0 as f64);
    let least = values().fold(f64::INFINITY, f64::min);
    let log = values().fold(0.0, f64::max) / least > LOGARITHMIC;
    values().next()?;
    let about = "of all requests the share that has no more tokens".to_owned();
    let mut chart = of_requests(shape, "lengths", about, version);
    chart.x = axis("tokens", "", log);
    chart.y = Axis::shares("share of requests");
    for (label, curve) in [("prompts", &shape.prompt), ("answers", &shape.output)] {
        chart.add(label, Marks::Line, rising(curve, 1.0, log));
    }
    Some(chart.chart())
}
