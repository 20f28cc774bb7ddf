//! Latency against memory: what a smaller HBM costs, and which policy makes it cheapest.
//!
//! Right is more HBM, up is slower; the lower left is better. Cases that ran out of memory have no
//! step time: they stand in a band above the plot, at the HBM that they were given. Small sets are
//! labelled directly; a sweep is a crowd of faint markers with its Pareto front in front.
//! Invariant: every case is on the chart, inside the plot's frame.

use crate::against::{Against, HeldAgainst};
use crate::against_marks;
use crate::annotations::{crosses, line_labels, point_labels};
use crate::canvas::{Align, Canvas, Rect, Tag};
use crate::frame;
use crate::labels::Obstacles;
use crate::latency_legend::{self, front_is_drawn, front_line, has_bars, machine_line};
use crate::measure::{Measure, by_measure};
use crate::names::{Direct, direct};
use crate::plot::Plot;
use crate::points::{Front, Point, Points};
use crate::render::{Chart, Charts};
use crate::sheet::Made;
use crate::style::{self, LABEL, MOST_JOINED, MOST_LABELS, SMALL};
use tiersim_models::results::RunRecord;

/// Pixels of memory between neighbours on a curve, at the least.
const LEAST_STEP: f64 = 8.0;

/// One for each measure of a record.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    by_measure(record, "vs-memory", |measure| Some(against_memory(record, measure, made)))
}

/// The chart of a record by one measure.
pub(crate) fn against_memory<'a>(
    record: &RunRecord,
    measure: Measure,
    made: impl Into<Made<'a>>,
) -> Chart {
    let made = made.into();
    let points = Points::of(record, measure);
    let mut canvas = Canvas::of(made.style);
    let top = frame::header(&mut canvas, &record.scenario, &record.about);
    let against = Against::of(record, measure);
    let shown: Vec<usize> = points.shown();
    // A column of a paper has no room for what the legend says as well.
    let said = points.factors.is_some() && !canvas.sheet.is_titled();
    let labelled = shown.len() <= MOST_LABELS && !said;
    let labels = if labelled { direct(record, &shown) } else { Direct::default() };
    let top = latency_legend::draw(&mut canvas, top, &points, &against, &labels);
    let plot = Plot::new(&canvas.sheet, record, points, (measure, against), top + 10.0);
    let points = &plot.points;
    axes(&mut canvas, &plot);
    let mut obstacles = lines(&mut canvas, &plot);
    obstacles.lines.extend(against_marks::curve(&mut canvas, &plot));
    obstacles.lines.extend(against_marks::own_marks(&mut canvas, &plot));
    obstacles.lines.extend(bars(&mut canvas, &plot));
    markers(&mut canvas, &plot);
    obstacles.solid.extend(points.done.iter().map(|p| Rect::around(plot.at(p), 8.0)));
    if labelled {
        let taken = point_labels(&mut canvas, &plot, &obstacles, &(&shown, &labels));
        obstacles.solid.extend(taken);
    }
    crosses(&mut canvas, &plot, &(&shown, &labels));
    line_labels(&mut canvas, &plot, obstacles);
    if points.done.is_empty() {
        let area = plot.data();
        let middle = ((area.left + area.right) / 2.0, area.top + area.height() * 0.45);
        let text = if points.oom.is_empty() { "no cases" } else { "no case fits" };
        canvas.text(text, middle, style::TITLE, style::FRAME, Align::Centre);
    }
    frame::footer(&mut canvas, record, made.version);
    let title = format!("{}: {} against memory", record.scenario, measure.title());
    Chart::new(title, canvas)
}

fn axes(canvas: &mut Canvas, plot: &Plot) {
    let area = plot.area;
    if let Some(band) = plot.band {
        canvas.rect(band, style::OOM_BAND);
        // A column of a paper has no room beside it; the legend says what the band is.
        let words = [("out of", -3.0), ("memory", 13.0)];
        let room = if canvas.sheet.is_titled() { words.len() } else { 0 };
        for (line, dy) in words.into_iter().take(room) {
            let y = (band.top + band.bottom) / 2.0 + dy;
            canvas.text(line, (area.left - 10.0, y), SMALL, style::OOM, Align::Right);
        }
    }
    for (value, label) in plot.x.ticks(canvas.sheet.ticks(9, area.width())) {
        let x = plot.x.at(value);
        canvas.line((x, area.top), (x, area.bottom), style::GRID, 1.0);
        canvas.line((x, area.bottom), (x, area.bottom + 5.0), style::FRAME, 1.0);
        canvas.text(&label, (x, area.bottom + 20.0), LABEL, style::INK, Align::Centre);
    }
    for (value, label) in plot.y.ticks(canvas.sheet.ticks(8, area.height() * 1.5)) {
        let y = plot.y.at(value);
        // The band has words of its own there, and a tick without a number says nothing.
        if plot.band.is_some_and(|band| y <= band.bottom + LABEL / 2.0) {
            continue;
        }
        canvas.line((area.left, y), (area.right, y), style::GRID, 1.0);
        canvas.line((area.left - 5.0, y), (area.left, y), style::FRAME, 1.0);
        canvas.text(&label, (area.left - 10.0, y + 5.0), LABEL, style::INK, Align::Right);
    }
    // A ratio to one baseline is an axis only where there is one.
    let unit = match plot.against.baseline {
        HeldAgainst::Same(ps) if canvas.sheet.is_titled() => Some(ps as f64 / plot.time.1),
        HeldAgainst::Same(_) | HeldAgainst::Nowhere | HeldAgainst::Own => None,
    };
    if let Some(unit) = unit {
        let slowdown = plot.y.in_units_of(unit);
        for (value, label) in slowdown.ticks(canvas.sheet.ticks(7, area.height() * 1.5)) {
            let y = slowdown.at(value);
            canvas.line((area.right, y), (area.right + 5.0, y), style::FRAME, 1.0);
            let at = (area.right + 9.0, y + 5.0);
            canvas.text(&format!("{label}×"), at, LABEL, style::INK, Align::Left);
        }
    }
    canvas.frame(area, style::FRAME, 1.0);
    let (middle, room) = ((area.top + area.bottom) / 2.0, area.height());
    let centre = (area.left + area.right) / 2.0;
    let title = |said: &str| format!("peak HBM ({}{said})", plot.memory.0);
    let title = plot.x.titled(area.width(), title);
    frame::x_title(canvas, &title, centre, area.bottom + 42.0);
    let title = |said: &str| format!("{} ({}{said})", plot.measure.words(), plot.time.0);
    let title = plot.y.titled(room, title);
    frame::y_title(canvas, &title, canvas.sheet.margin + 10.0, middle, room);
    if unit.is_some() {
        let x = canvas.sheet.width - 18.0;
        let title = format!("{} against unlimited HBM (×)", plot.measure.ratio());
        frame::y_title(canvas, &title, x, middle, room);
    }
}

/// Front, baseline, bound and series lines; gives what labels had better not cover.
fn lines(canvas: &mut Canvas, plot: &Plot) -> Obstacles {
    let mut obstacles = Obstacles::default();
    let (area, points) = (plot.data(), &plot.points);
    for front in Front::ALL {
        if front_is_drawn(points, front) {
            let stairs = frame::stairs(points.front(front).iter().map(|p| plot.at(p)), area);
            obstacles.lines.extend(stairs.windows(2).map(|ends| (ends[0], ends[1])));
            front_line(canvas, stairs, front);
        }
    }
    for machine in 0..points.machines.len() {
        let front = points.machine_front(machine);
        let stairs = frame::stairs(front.iter().map(|p| plot.at(p)), area);
        obstacles.lines.extend(stairs.windows(2).map(|ends| (ends[0], ends[1])));
        machine_line(canvas, stairs, machine);
    }
    let against = &plot.against;
    for (held, dashes) in [(against.baseline, (9.0, 6.0)), (against.bound, against_marks::DASHES)] {
        let Some(y) = plot.level(held) else { continue };
        let ends = ((area.left, y), (area.right, y));
        canvas.dashed(&[ends.0, ends.1], style::SOFT_INK, 1.8, dashes);
        obstacles.lines.push(ends);
    }
    if points.done.len() <= MOST_JOINED {
        for series in 0..points.series.len() {
            let mut own: Vec<Point> =
                points.done.iter().filter(|p| p.series == series).copied().collect();
            own.sort_by_key(|p| (p.memory, p.step, p.case));
            let path: Vec<(f64, f64)> = own.iter().map(|p| plot.at(p)).collect();
            // Cases of the same memory differ in something else: a line would say they are a curve.
            let is_curve = path.windows(2).all(|ends| ends[1].0 - ends[0].0 >= LEAST_STEP);
            if path.len() >= 2 && is_curve {
                obstacles.lines.extend(path.windows(2).map(|ends| (ends[0], ends[1])));
                let tag = Tag { series: Some(series), ..Tag::default() };
                let color = style::line_color(series).tint(0.6);
                canvas.tagged(tag, |canvas| canvas.path(path, color, 2.0));
            }
        }
    }
    obstacles
}

/// Where points are in draws of the machine's numbers; gives what labels had better not cover.
fn bars(canvas: &mut Canvas, plot: &Plot) -> Vec<((f64, f64), (f64, f64))> {
    if !has_bars(&plot.points) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for point in &plot.points.done {
        let color = style::series_color(point.series).shade();
        for ends in plot.bars(point) {
            canvas.tagged(point.tag(), |canvas| style::bar(canvas, ends, color));
            lines.push((ends[0], ends[1]));
        }
    }
    lines
}

fn markers(canvas: &mut Canvas, plot: &Plot) {
    let points = &plot.points;
    let crowd = points.done.len() > MOST_JOINED;
    let (radius, opacity) = style::marker_size(points.done.len());
    let mut draw = |point: &Point, radius, opacity| {
        let at = plot.at(point);
        style::marker_of(canvas, (point.series, Some(point.case)), at, radius, opacity);
    };
    points.done.iter().filter(|p| !(crowd && p.front)).for_each(|p| draw(p, radius, opacity));
    let radius = if points.done.len() > 1500 { 4.0 } else { 5.0 };
    points.done.iter().filter(|p| crowd && p.front).for_each(|p| draw(p, radius, 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;
    use crate::common;
    use crate::sheet::{Sheet, Style};
    use std::collections::BTreeSet;

    #[test]
    fn every_point_has_a_marker_of_its_look_in_its_place() {
        let mut merged = 0;
        for record in common::all() {
            let points = Points::of(&record, Measure::Step);
            let against = Against::of(&record, Measure::Step);
            let plot =
                Plot::new(&Sheet::default(), &record, points, (Measure::Step, against), 120.0);
            let mut canvas = Canvas::default();
            markers(&mut canvas, &plot);
            merged += plot.points.done.len() - canvas.items.len();
            // In tenths of pixels, as they are written.
            let place = |at: (f64, f64)| [at.0, at.1].map(|to| (to * 10.0).round() as i64);
            let marks = canvas.items.iter().map(|item| match item {
                Item::Mark(mark) => (usize::from(mark.look), place(mark.at)),
                _ => panic!("a marker"),
            });
            let marks: BTreeSet<_> = marks.collect();
            for point in &plot.points.done {
                let own = (point.series, place(plot.at(point)));
                assert!(marks.contains(&own), "{}: {}", record.scenario, point.case);
            }
        }
        assert!(merged > 0, "none of so many points share a marker");
    }

    #[test]
    fn every_point_is_inside_the_plot() {
        for record in common::all() {
            let points = Points::of(&record, Measure::Step);
            let against = Against::of(&record, Measure::Step);
            let plot =
                Plot::new(&Sheet::default(), &record, points, (Measure::Step, against), 120.0);
            for point in &plot.points.done {
                let (x, y) = plot.at(point);
                let at = Rect::around((x, y), 2.0);
                assert!(plot.data().holds(&at), "{}: {point:?} at {x}, {y}", record.scenario);
            }
        }
    }

    #[test]
    fn every_chart_of_every_style_is_legible_and_nothing_leaves_the_page() {
        for record in common::all() {
            for style in [Style::Screen, Style::Slide, Style::Paper] {
                let made = Made { version: "0.1.0", style };
                against_memory(&record, Measure::Step, made).assert_legible(0.0);
                for (name, chart) in crate::charts::of(&record, made) {
                    // Numbers of a fine grid may stand close.
                    let most = if name.contains("heat") { f64::INFINITY } else { 0.0 };
                    chart.assert_legible(most);
                }
            }
            // Numbers of a fine grid may stand close.
            let map = crate::threshold_heat_map(&record, "0.1.0");
            map.iter().for_each(|map| map.assert_legible(f64::INFINITY));
        }
    }

    #[test]
    fn an_axis_of_a_small_stretch_says_so_and_titles_say_tpot() {
        let mut record = common::training();
        record.results.truncate(3);
        for (at, case) in record.results.iter_mut().enumerate() {
            case.outcome = common::done(400.0 + at as f64, 39.96 + 0.02 * at as f64);
        }
        let chart = against_memory(&record, Measure::Step, "0");
        let texts: Vec<&str> =
            chart.items().iter().filter_map(|item| Some(item.text_place()?.1)).collect();
        let said = |text: &&str| text.starts_with("peak HBM (GiB, not from 0: spans 0.1");
        assert!(texts.iter().any(said), "{texts:?}");
        let svg = against_memory(&record, Measure::PerToken, "0").svg().expect("an SVG");
        assert!(svg.contains(": TPOT against memory</title>"));
    }
}
