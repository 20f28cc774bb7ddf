//! Fragmentation over a run: how much of a tier's free memory is in pieces, and what is reserved.
//!
//! Above, external fragmentation by case; in the middle, internal fragmentation; below, the memory
//! that each allocator reserves (bold) and the memory in live blocks (fine). Cases differ by colour
//! and by the markers along their lines, so the chart reads without colour; the first case of a
//! policy has the policy's colour and marker of other charts, and no case has that of another
//! policy. The axis is the order of the plan, not time: allocators act when the plan is made. The
//! histogram of free pieces is a column of `allocators.csv`: its third dimension would need a chart
//! for each case.
//! Invariant: a chart belongs to one tier, and exact cases are not on it.

use crate::canvas::{Align, Canvas, Rect};
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::render::{Chart, Charts};
use crate::scale::Scale;
use crate::series::looks_of_cases;
use crate::sheet::{Made, Sheet};
use crate::style::{self, SMALL};
use crate::words::percent;
use tiersim_models::results::memory_use::{MemoryUse, Point};
use tiersim_models::results::{CaseRecord, RunRecord};
use tiersim_models::units::shown::of_sizes;

/// More cases would hide each other.
const MOST_CASES: usize = 8;
/// Points of a line: more would be noise at the width of the chart.
const POINTS: usize = 160;
/// Markers along a line.
const MARKERS: usize = 14;
/// Between two panels.
const GAP: f64 = 22.0;

/// One case on the chart.
struct Series<'a> {
    label: &'a str,
    /// Its colour and its marker.
    look: usize,
    memory: &'a MemoryUse,
    points: Vec<Point>,
}

/// Neighbours put together until a line can be told from noise.
fn thinned(series: &[Point]) -> Vec<Point> {
    let together = |points: &[Point]| Point {
        occurrence: points.last().map_or(0, |point| point.occurrence),
        allocated: points.iter().map(|point| point.allocated).max().unwrap_or_default(),
        reserved: points.iter().map(|point| point.reserved).max().unwrap_or_default(),
        mean: mean(points, |point| point.mean),
        highest: points.iter().map(|point| point.highest).fold(0.0, f64::max),
        internal_mean: mean(points, |point| point.internal_mean),
        ..points.last().cloned().unwrap_or_default()
    };
    series.chunks(series.len().div_ceil(POINTS).max(1)).map(together).collect()
}

fn mean(points: &[Point], read: impl Fn(&Point) -> f64) -> f64 {
    points.iter().map(read).sum::<f64>() / points.len() as f64
}

/// A line over the ops of the run: how to read it off a point.
type Read<'a> = &'a dyn Fn(&Point) -> f64;

/// One for each tier that has an allocator.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    let tiers = record.base().tiers.iter().enumerate();
    let of = |(tier, (name, _)): (usize, &(String, _))| {
        // The first tier is what the run is about; others say their name.
        let suffix = if tier == 0 { String::new() } else { format!("-{name}") };
        Some((format!("fragmentation{suffix}"), fragmentation(record, tier, made)?))
    };
    tiers.filter_map(of).collect()
}

/// The chart of a tier, or `None` if no case has an allocator there; `version` is tiersim's own.
pub(crate) fn fragmentation(record: &RunRecord, tier: usize, made: Made<'_>) -> Option<Chart> {
    let name = record.base().tier_name(tier);
    let has =
        |case: &CaseRecord| case.outcome.figures().is_some_and(|of| of.memory_of(tier).is_some());
    if !record.results.iter().any(has) {
        return None;
    }
    let cases = record.results.iter().zip(looks_of_cases(record));
    // Machines that are compared may have another tier in its place.
    let cases = cases.filter(|(c, _)| record.of(c).tiers.get(tier).is_some_and(|t| t.0 == name));
    let all: Vec<Series<'_>> = cases
        .filter_map(|(c, look)| {
            let memory = c.outcome.figures()?.memory_of(tier)?;
            Some(Series { label: &c.label, look, memory, points: thinned(&memory.series) })
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    let shown = &all[..all.len().min(MOST_CASES)];
    let mut about = record.about.clone();
    if shown.len() < all.len() {
        about = format!("{about} ({MOST_CASES} of {} cases; all are in allocators.csv)", all.len());
    }
    let mut canvas = Canvas::of(made.style);
    let sheet = canvas.sheet;
    let title = format!("{}: fragmentation of {name}", record.scenario);
    let top = frame::header(&mut canvas, &title, &about);
    let top = legend(&mut canvas, top, shown) + 14.0;
    let (left, right) = (sheet.margin + 78.0, sheet.width - sheet.margin);
    let [upper, between, lower] = panels(&sheet, left, right, top);
    let last = |s: &Series<'_>| s.points.last().map_or(0, |point| point.occurrence);
    let ops = shown.iter().map(last).max().unwrap_or(0).max(1) as f64;
    let x = Scale::linear(&[0.0, ops], 0.0, left, right);
    let external: Read<'_> = &|point| point.mean * 100.0;
    share_panel(&mut canvas, upper, &x, shown, ("external, %", external));
    let internal: Read<'_> = &|point| point.internal_mean * 100.0;
    share_panel(&mut canvas, between, &x, shown, ("internal, %", internal));
    bytes_panel(&mut canvas, lower, &x, shown);
    for (value, label) in x.ticks(8) {
        canvas.text(&label, (x.at(value), lower.bottom + 18.0), SMALL, style::INK, Align::Centre);
    }
    let centre = (left + right) / 2.0;
    frame::x_title(
        &mut canvas,
        "op of the run, in the order of the plan (free pieces by size: allocators.csv)",
        centre,
        sheet.floor() - 6.0,
    );
    frame::footer(&mut canvas, record, made.version);
    Some(Chart::new(title, canvas))
}

/// Room for the three panels, one below the other: internal fragmentation moves least.
fn panels(sheet: &Sheet, left: f64, right: f64, top: f64) -> [Rect; 3] {
    let bottom = sheet.floor() - 44.0;
    let share = (bottom - top - 2.0 * GAP) / 100.0;
    let (first, second) = (top + 38.0 * share, top + GAP + 62.0 * share);
    [(top, first), (first + GAP, second), (second + GAP, bottom)]
        .map(|(top, bottom)| Rect::new(left, top, right, bottom))
}

fn legend(canvas: &mut Canvas, top: f64, shown: &[Series<'_>]) -> f64 {
    let entry = |series: &Series<'_>| Entry {
        key: Box::new({
            let look = series.look;
            move |canvas: &mut Canvas, at: (f64, f64)| {
                let color = style::line_color(look);
                canvas.line((at.0 - 14.0, at.1), (at.0 + 14.0, at.1), color, 2.5);
                style::marker(canvas, look, at, 5.0, 1.0);
            }
        }),
        text: format!(
            "{}: mean {}, highest after any op {}",
            series.label,
            percent(series.memory.external.mean),
            percent(series.memory.external.highest)
        ),
    };
    let fine = Entry {
        key: Box::new(|canvas: &mut Canvas, at: (f64, f64)| {
            canvas.line((at.0 - 14.0, at.1), (at.0 + 14.0, at.1), style::INK, 0.8);
        }),
        text: "fine: in live blocks".to_owned(),
    };
    frame::legend(
        canvas,
        top,
        shown.iter().map(entry).collect(),
        vec![fine],
        " (see allocators.csv)",
    )
}

fn share_panel(
    canvas: &mut Canvas,
    area: Rect,
    x: &Scale,
    shown: &[Series<'_>],
    (title, read): (&str, Read<'_>),
) {
    let highest = shown.iter().flat_map(|s| &s.points).map(read).fold(1.0, f64::max);
    let panel = Panel::new(canvas, area, x, highest, title);
    for (index, series) in shown.iter().enumerate() {
        panel.line(canvas, series, read, 2.0);
        panel.markers(canvas, series, index, read);
    }
    canvas.frame(area, style::FRAME, 1.0);
}

fn bytes_panel(canvas: &mut Canvas, area: Rect, x: &Scale, shown: &[Series<'_>]) {
    let most = shown.iter().map(|s| s.memory.peak_reserved.get()).max().unwrap_or(0) as f64;
    let (unit, size) = of_sizes(most);
    let panel = Panel::new(canvas, area, x, most / size, &format!("reserved (bold), {unit}"));
    for series in shown {
        panel.line(canvas, series, &|point| point.allocated.get() as f64 / size, 0.8);
    }
    for (index, series) in shown.iter().enumerate() {
        let reserved: Read<'_> = &|point| point.reserved.get() as f64 / size;
        panel.line(canvas, series, reserved, 2.2);
        panel.markers(canvas, series, index, reserved);
    }
    canvas.frame(area, style::FRAME, 1.0);
}

/// The two axes of a panel.
struct Panel<'a> {
    x: &'a Scale,
    y: Scale,
}

impl Panel<'_> {
    /// A panel from 0 to `most`, with its grid and its title.
    fn new<'a>(canvas: &mut Canvas, area: Rect, x: &'a Scale, most: f64, title: &str) -> Panel<'a> {
        let y = Scale::linear(&[0.0, most], 0.06, area.bottom, area.top);
        let ticks = y.ticks(5);
        let widest = ticks.iter().map(|(_, l)| text_width(l, SMALL)).fold(0.0, f64::max);
        for (value, label) in ticks {
            let at = y.at(value);
            canvas.line((area.left, at), (area.right, at), style::GRID, 1.0);
            canvas.text(&label, (area.left - 8.0, at + 4.5), SMALL, style::INK, Align::Right);
        }
        let (left, middle) = (area.left - widest - 20.0, (area.top + area.bottom) / 2.0);
        frame::y_title(canvas, title, left, middle, area.height());
        Panel { x, y }
    }

    fn at(&self, point: &Point, read: Read<'_>) -> (f64, f64) {
        (self.x.at(point.occurrence as f64), self.y.at(read(point)))
    }

    fn line(&self, canvas: &mut Canvas, series: &Series<'_>, read: Read<'_>, width: f64) {
        let points: Vec<_> = series.points.iter().map(|point| self.at(point, read)).collect();
        if points.len() > 1 {
            canvas.path(points, style::line_color(series.look), width);
        }
    }

    /// Few markers along a line, each series at places of its own.
    fn markers(&self, canvas: &mut Canvas, series: &Series<'_>, index: usize, read: Read<'_>) {
        let points = &series.points;
        let every = points.len().div_ceil(MARKERS).max(1);
        let first = (index * every / MOST_CASES).min(points.len() - 1);
        for point in points.iter().skip(first).step_by(every) {
            style::marker(canvas, series.look, self.at(point, read), 4.5, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;
    use crate::measure::Measure;
    use crate::points::Points;
    use crate::style::Color;
    use crate::{against_memory, allocators_csv, artefacts, common, summary_json};
    use std::collections::BTreeSet;
    use tiersim_models::results::CaseRecord;
    use tiersim_models::results::memory_use::Share;
    use tiersim_models::units::Bytes;

    fn with_memory() -> RunRecord {
        let mut record = common::training();
        let point = |op: u64| Point {
            occurrence: op,
            allocated: Bytes::mib(op),
            reserved: Bytes::mib(2 * op),
            mean: op as f64 / 2000.0,
            highest: 0.9,
            ..Point::default()
        };
        let external = Share { mean: 0.25, highest: 0.9, end: 0.5 };
        let memory = MemoryUse {
            allocator: "pool".to_owned(),
            peak_reserved: Bytes::mib(1998),
            external,
            series: (0..1000).map(point).collect(),
            ..MemoryUse::default()
        };
        if let Some(figures) = record.results[1].outcome.figures_mut() {
            figures.memory = vec![(0, memory.clone()), (1, memory)];
        }
        record
    }

    #[test]
    fn tiers_that_are_exact_have_no_chart_no_table_and_no_key() {
        let record = common::training();
        assert!(fragmentation(&record, 0, "0".into()).is_none());
        assert!(allocators_csv(&record).expect("a table").is_none());
        let json = summary_json(&record, "0").expect("a summary");
        assert!(!json.contains("\"allocators\"") && !json.contains("largest_free_bytes"));
    }

    #[test]
    fn each_tier_with_an_allocator_has_a_chart_of_its_own() {
        let files = artefacts(&with_memory(), "0").expect("they are made");
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        for name in ["fragmentation.svg", "fragmentation.png", "fragmentation-dram.svg"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        let chart = fragmentation(&with_memory(), 0, "0".into()).expect("a chart");
        let svg = chart.svg().expect("it is text");
        assert!(svg.contains("LRU 64 GiB: mean 25.0 %, highest after any op 90.0 %"));
        let csv = allocators_csv(&with_memory()).expect("a table").expect("rows");
        assert_eq!(csv.split(|byte| *byte == b'\n').count(), 2 + 2 * 1000);
    }

    /// The colour of the last mark before a text of the legend.
    fn color_of(chart: &Chart, starts: &str) -> Color {
        let items = chart.items();
        let named =
            |item: &Item| item.text_place().is_some_and(|(_, text)| text.starts_with(starts));
        let at =
            items.iter().position(named).unwrap_or_else(|| panic!("{starts} is in the legend"));
        let filled = |item: &Item| match item {
            Item::Polygon { color, .. } | Item::Disc { color, .. } => Some(*color),
            Item::Mark(_) | Item::Path { .. } | Item::Text { .. } => None,
        };
        items[..at].iter().rev().find_map(filled).expect("a mark")
    }

    #[test]
    fn a_policy_has_one_colour_on_every_chart_and_no_other_policy_has_it() {
        let mut record = with_memory();
        // As many as the legend has room for.
        record.results.truncate(6);
        let memory = record.results[1].outcome.figures().expect("it ran").memory.clone();
        for case in &mut record.results {
            if let Some(figures) = case.outcome.figures_mut() {
                figures.memory = memory.clone();
            }
        }
        let points = Points::of(&record, Measure::Step);
        let here = fragmentation(&record, 0, "0".into()).expect("a chart");
        let memory = against_memory(&record, Measure::Step, "0");
        let cases: Vec<&CaseRecord> = record.results.iter().take(MOST_CASES).collect();
        let mut first = BTreeSet::new();
        for case in cases.into_iter().filter(|case| case.outcome.figures().is_some()) {
            let point = points.done.iter().find(|p| record.results[p.case].label == case.label);
            let series = point.expect("it ran").series;
            let own = color_of(&here, &format!("{}: ", case.label));
            let of_series = |name: &String| color_of(&memory, name);
            if first.insert(series) {
                assert_eq!(own, of_series(&points.series[series]), "{}", case.label);
            } else {
                let drawn = points.drawn();
                let mut names = drawn.iter().map(|&series| &points.series[series]);
                assert!(names.all(|name| of_series(name) != own));
            }
        }
        assert!(first.len() > 1);
    }

    #[test]
    fn a_line_keeps_its_extremes_when_it_is_thinned() {
        let record = with_memory();
        let memory = record.results[1].outcome.figures().and_then(|f| f.memory_of(0));
        let points = thinned(&memory.expect("it is there").series);
        assert!(points.len() <= POINTS);
        let last = points.last().expect("points");
        assert_eq!((last.occurrence, last.reserved), (999, Bytes::mib(1998)));
    }
}
