//! Any figure against any other: points, lines, and how far a point is from `y = x`.
//!
//! Measured against predicted, a fitted law against what it was fitted to: charts of two numbers
//! that have no memory and no policy in them. Series differ by colour and by shape, lines by their
//! dashes; series of one label share both and one entry of the legend, so that a fit is seen to
//! belong to its points. The legend stands above the plot, never over it.
//! Invariant: every finite point is drawn inside the frame, where the axes say; what cannot be is
//! counted in a note.

use crate::against_marks;
use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::fit_titled;
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::render::Chart;
use crate::scale::{Scale, decade};
use crate::sheet::{Sheet, Style};
use crate::style::{self, LABEL};
use crate::words::count;
use std::collections::BTreeMap;

/// A chart of pairs of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XyChart {
    /// What it shows.
    pub title: String,
    /// The first stands under the title, on up to two lines; the next two at the foot, on one line
    /// each: where the numbers come from.
    pub notes: Vec<String>,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What is drawn, later ones in front.
    pub series: Vec<Series>,
    /// What points are held against, behind them.
    pub references: Vec<Reference>,
    /// Names whose place is their colour and their marker, so that a series looks the same on every
    /// chart of a run; others come after them.
    pub looks: Vec<String>,
    /// Strips around `y = x`, drawn widest first. With one, both axes have the same range.
    pub bands: Vec<Band>,
    /// Bars from end to end behind the points, each of the series of this label.
    pub bars: Vec<(String, [(f64, f64); 2])>,
    /// What the legend calls these.
    pub bars_are: String,
    /// Is the line `y = x` drawn? If so, both axes have the same range.
    pub diagonal: bool,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What is counted, such as `measured step`.
    pub label: String,
    /// The unit, such as `ms`; empty for a pure number.
    pub unit: String,
    /// Logarithmic? Values of 0 and below then stand at its lower end.
    pub log: bool,
    /// It begins at 0, whatever the values.
    pub from_0: bool,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// A marker at each point.
    Points,
    /// A line through the points in their order.
    Line,
    /// Both.
    LineAndPoints,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of the same label look the same.
    pub label: String,
    /// How it is drawn.
    pub marks: Marks,
    /// The points, in the axes' units. Those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A line or marks that are no series.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its name in the legend.
    pub label: String,
    /// How it is drawn.
    pub kind: ReferenceKind,
    /// The points, in the axes' units.
    pub points: Vec<(f64, f64)>,
}

/// How a reference is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// What a front beats: stairs through its points, from the top edge to the right edge.
    Front,
    /// Nothing goes below: a broken line from edge to edge at the height of the first point.
    Limit,
    /// Nothing goes below, of each point: a bar at each.
    Limits,
}

/// The strip in which `y` differs from `x` by at most `share` of `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Its name in the legend, such as `within 5 %`.
    pub label: String,
    /// Half its width, as a share of `x`: 0.05 is 5 %.
    pub share: f64,
}

/// Greys of the bands, the widest first.
const BANDS: [style::Color; 3] = [
    style::Color(240, 240, 240, 1.0),
    style::Color(222, 222, 222, 1.0),
    style::Color(205, 205, 205, 1.0),
];
/// Width of the stairs of a front.
const FRONT: f64 = 5.0;
/// Points of a curve that is not straight on its axes.
const SAMPLES: usize = 256;

impl XyChart {
    /// Adds points to the series of this label and marks.
    pub fn add(&mut self, label: &str, marks: Marks, points: impl IntoIterator<Item = (f64, f64)>) {
        let own = |series: &&mut Series| series.label == label && series.marks == marks;
        match self.series.iter_mut().find(own) {
            Some(series) => series.points.extend(points),
            None => {
                let points = points.into_iter().collect();
                self.series.push(Series { label: label.to_owned(), marks, points });
            }
        }
    }

    /// The chart, laid out for a screen.
    pub fn chart(&self) -> Chart {
        self.styled(Style::Screen)
    }

    /// The chart, laid out for a style.
    pub fn styled(&self, style: Style) -> Chart {
        let mut canvas = Canvas::of(style);
        let about = self.notes.first().map_or("", String::as_str);
        let top = frame::header(&mut canvas, &self.title, about);
        let top = self.legend(&mut canvas, top);
        let plot = Plot::new(self, &canvas.sheet, top + 10.0);
        for (band, color) in self.bands() {
            plot.strip(&mut canvas, band.share, color);
        }
        plot.axes(&mut canvas, self);
        if self.diagonal {
            canvas.path(plot.along_diagonal(|v| v), style::SOFT_INK, 1.5);
        }
        self.references.iter().for_each(|reference| reference.draw(&mut canvas, &plot));
        for (label, ends) in &self.bars {
            let color = style::series_color(self.look(label)).shade();
            style::bar(&mut canvas, ends.map(|end| plot.at(end)), color);
        }
        self.marks(&mut canvas, &plot);
        frame::foot(&mut canvas, &self.foot());
        Chart::new(self.title.clone(), canvas)
    }

    /// What stands at the foot: the later notes, and what is not where it should be.
    fn foot(&self) -> Vec<String> {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let missing = all().filter(|point| !finite(point)).count();
        let below = |&&(x, y): &&(f64, f64)| {
            finite(&(x, y)) && ((self.x.log && x <= 0.0) || (self.y.log && y <= 0.0))
        };
        let at_edge = all().filter(below).count();
        let mut lines: Vec<String> = self.notes.iter().skip(1).take(2).cloned().collect();
        for (n, what) in [
            (missing, "left out: not finite"),
            (at_edge, "at the edge: not above 0 on a logarithmic axis"),
        ] {
            if n > 0 {
                let said = format!("{} {what}", count(n, "point", "points"));
                match lines.first_mut() {
                    Some(first) => *first = format!("{said} · {first}"),
                    None => lines.push(said),
                }
            }
        }
        lines
    }

    /// Bands with their colours, the widest first: a narrow one lies on top.
    fn bands(&self) -> Vec<(&Band, style::Color)> {
        let mut bands: Vec<&Band> = self.bands.iter().filter(|b| b.share.is_finite()).collect();
        bands.sort_by(|a, b| b.share.total_cmp(&a.share));
        let color = |(index, band)| (band, BANDS[usize::min(index, BANDS.len() - 1)]);
        bands.into_iter().enumerate().map(color).collect()
    }

    /// The look of a series: the place of its label among the looks, and then among the other
    /// labels.
    fn look(&self, label: &str) -> usize {
        let (looks, next) = self.all_looks();
        looks.get(label).copied().unwrap_or(next)
    }

    /// The look of every series by label, and that of any other label.
    fn all_looks(&self) -> (BTreeMap<&str, usize>, usize) {
        let mut looks = BTreeMap::new();
        for (place, label) in self.looks.iter().enumerate() {
            looks.entry(label.as_str()).or_insert(place);
        }
        let mut next = self.looks.len();
        for series in &self.series {
            looks.entry(series.label.as_str()).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
        (looks, next)
    }

    fn legend(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let mut first = Vec::new();
        let (looks, _) = self.all_looks();
        let mut by_label: BTreeMap<&str, Vec<Marks>> = BTreeMap::new();
        for series in &self.series {
            by_label.entry(&series.label).or_default().push(series.marks);
        }
        for series in &self.series {
            let Some(marks) = by_label.remove(series.label.as_str()) else { continue };
            let look = looks[series.label.as_str()];
            let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
                if marks.iter().any(|marks| marks.has_line()) {
                    style::line(canvas, look, &[(x - 15.0, y), (x + 15.0, y)]);
                }
                if marks.iter().any(|marks| marks.has_points()) {
                    style::marker(canvas, look, (x, y), 5.5, 1.0);
                }
            };
            let entry = Entry { key: Box::new(key), text: series.label.clone() };
            first.push((self.on_front(&series.label), entry));
        }
        let mut last = Vec::new();
        for reference in &self.references {
            let key = |canvas: &mut Canvas, at: (f64, f64)| reference.key(canvas, at);
            last.push(Entry { key: Box::new(key), text: reference.label.clone() });
        }
        if !self.bars.is_empty() {
            let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
                style::bar(canvas, [(x, y + 9.0), (x, y - 9.0)], style::SOFT_INK);
            };
            last.push(Entry { key: Box::new(key), text: self.bars_are.clone() });
        }
        if self.diagonal {
            let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
                canvas.line((x - 15.0, y + 7.0), (x + 15.0, y - 7.0), style::SOFT_INK, 1.5);
            };
            last.push(Entry { key: Box::new(key), text: "equal".to_owned() });
        }
        for (band, color) in self.bands().into_iter().rev() {
            let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
                let strip = Rect::new(x - 15.0, y - 8.0, x + 15.0, y + 8.0);
                canvas.rect(strip, color);
                canvas.frame(strip, style::FRAME, 1.0);
            };
            last.push(Entry { key: Box::new(key), text: band.label.clone() });
        }
        let first = frame::fronts_first(&canvas.sheet, first, &last);
        frame::legend(canvas, top, first, last, "")
    }

    /// Whether a front goes through a point of this label.
    fn on_front(&self, label: &str) -> bool {
        let fronts = self.references.iter().filter(|of| of.kind == ReferenceKind::Front);
        let mut points = fronts.flat_map(|front| &front.points);
        points.any(|point| {
            let mut own = self.series.iter().filter(|series| series.label == label);
            own.any(|series| series.points.contains(point))
        })
    }

    fn marks(&self, canvas: &mut Canvas, plot: &Plot) {
        let places = |series: &Series| -> Vec<(f64, f64)> {
            series.points.iter().filter(|p| finite(p)).map(|&point| plot.at(point)).collect()
        };
        let (looks, _) = self.all_looks();
        for series in self.series.iter().filter(|series| series.marks.has_line()) {
            style::line(canvas, looks[series.label.as_str()], &places(series));
        }
        let marked = || self.series.iter().filter(|series| series.marks.has_points());
        let (radius, opacity) =
            style::marker_size(marked().map(|series| series.points.len()).sum());
        for series in marked() {
            let look = looks[series.label.as_str()];
            for place in places(series) {
                style::marker(canvas, look, place, radius, opacity);
            }
        }
    }
}

impl Marks {
    fn has_line(self) -> bool {
        self != Marks::Points
    }

    fn has_points(self) -> bool {
        self != Marks::Line
    }
}

impl Reference {
    fn key(&self, canvas: &mut Canvas, (x, y): (f64, f64)) {
        match self.kind {
            ReferenceKind::Front => {
                let steps = [(x - 15.0, y - 6.0), (x, y - 6.0), (x, y + 6.0), (x + 15.0, y + 6.0)];
                canvas.path(steps.to_vec(), style::FRONT, FRONT);
            }
            ReferenceKind::Limit => limit(canvas, (x - 15.0, x + 15.0), y),
            ReferenceKind::Limits => {
                against_marks::bound_mark(canvas, (x, y), 9.0, style::SOFT_INK)
            }
        }
    }

    fn draw(&self, canvas: &mut Canvas, plot: &Plot) {
        let area = plot.area;
        let places = self.points.iter().filter(|point| finite(point)).map(|&point| plot.at(point));
        let places: Vec<(f64, f64)> = places.collect();
        match self.kind {
            ReferenceKind::Front => {
                canvas.path(frame::stairs(places, area), style::FRONT, FRONT);
            }
            ReferenceKind::Limit => {
                let first = places.first();
                first.into_iter().for_each(|at| limit(canvas, (area.left, area.right), at.1));
            }
            ReferenceKind::Limits => {
                let reach = against_marks::reach(places.len());
                places
                    .into_iter()
                    .for_each(|at| against_marks::bound_mark(canvas, at, reach, style::SOFT_INK));
            }
        }
    }
}

fn limit(canvas: &mut Canvas, (from, to): (f64, f64), y: f64) {
    canvas.dashed(
        &[(from, y), (to, y)],
        style::SOFT_INK,
        against_marks::WIDTH,
        against_marks::DASHES,
    );
}

impl Band {
    /// A band of this name.
    pub fn new(label: &str, share: f64) -> Band {
        Band { label: label.to_owned(), share }
    }
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub fn linear(label: &str, unit: &str) -> Axis {
        Axis { label: label.to_owned(), unit: unit.to_owned(), log: false, from_0: false }
    }

    /// An axis of the shares of a distribution, in per cent: all of it is seen.
    pub fn shares(label: &str) -> Axis {
        Axis { from_0: true, ..Axis::linear(label, "%") }
    }

    /// An axis on which equal distances are equal ratios.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { log: true, ..Axis::linear(label, unit) }
    }

    fn title(&self, scale: &Scale, room: f64) -> String {
        scale.titled(room, |said| {
            let parts = [self.unit.as_str(), said.trim_start_matches(", ")];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            match parts.is_empty() {
                true => self.label.clone(),
                false => format!("{} ({})", self.label, parts.join(", ")),
            }
        })
    }

    fn scale(&self, values: &[f64], from: f64, to: f64) -> Scale {
        if self.log {
            Scale::logarithmic(values, 0.06, from, to)
        } else if self.from_0 {
            let values: Vec<f64> = values.iter().copied().chain([0.0]).collect();
            Scale::linear(&values, 0.06, from, to)
        } else {
            Scale::linear(values, 0.06, from, to)
        }
    }
}

fn finite((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

/// Where data goes.
struct Plot {
    area: Rect,
    x: Scale,
    y: Scale,
}

impl Plot {
    fn new(chart: &XyChart, sheet: &Sheet, top: f64) -> Plot {
        let held = chart.references.iter().flat_map(|reference| &reference.points);
        let bars = chart.bars.iter().flat_map(|(_, ends)| ends);
        let points = chart.series.iter().flat_map(|s| &s.points).chain(held).chain(bars);
        let points = points.filter(|point| finite(point));
        let (mut xs, mut ys): (Vec<f64>, Vec<f64>) = points.copied().unzip();
        if chart.diagonal || !chart.bands.is_empty() {
            xs.extend(ys);
            ys = xs.clone();
        }
        let (floor, right) = (sheet.floor() - 42.0, sheet.width - right_of(sheet));
        let y = chart.y.scale(&ys, floor, top);
        let labels = y.ticks(8).into_iter().map(|(_, label)| text_width(&label, LABEL));
        let area = Rect::new(sheet.margin + 32.0 + labels.fold(0.0, f64::max), top, right, floor);
        Plot { area, x: chart.x.scale(&xs, area.left, area.right), y }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    /// The curve `y = f(x)` where both axes have `x`.
    fn along_diagonal(&self, f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let (lo, hi) = (self.x.lo.max(self.y.lo), self.x.hi.min(self.y.hi));
        let value = |i: usize| {
            let share = i as f64 / SAMPLES as f64;
            if self.x.log { lo * (hi / lo).powf(share) } else { lo + (hi - lo) * share }
        };
        let all = (0..=SAMPLES).map(value);
        all.map(|v| self.at((v, f(v)))).collect()
    }

    fn strip(&self, canvas: &mut Canvas, share: f64, color: style::Color) {
        let mut outline = self.along_diagonal(|v| v * (1.0 + share));
        outline.extend(self.along_diagonal(|v| v * (1.0 - share)).into_iter().rev());
        canvas.polygon(outline, color);
    }

    fn axes(&self, canvas: &mut Canvas, chart: &XyChart) {
        let area = self.area;
        let mut taken: Vec<Rect> = Vec::new();
        for (value, label) in by_weight(&self.x) {
            let x = self.x.at(value);
            canvas.line((x, area.top), (x, area.bottom), style::GRID, 1.0);
            canvas.line((x, area.bottom), (x, area.bottom + 5.0), style::FRAME, 1.0);
            let (half, y) = (text_width(&label, LABEL) / 2.0, area.bottom + 20.0);
            let place = Rect::new(x - half - 5.0, y - LABEL, x + half + 5.0, y);
            if taken.iter().all(|other| place.overlap(other) == 0.0) {
                canvas.text(&label, (x, y), LABEL, style::INK, Align::Centre);
                taken.push(place);
            }
        }
        taken.clear();
        for (value, label) in by_weight(&self.y) {
            let y = self.y.at(value);
            canvas.line((area.left, y), (area.right, y), style::GRID, 1.0);
            canvas.line((area.left - 5.0, y), (area.left, y), style::FRAME, 1.0);
            let place = Rect::new(0.0, y - LABEL / 2.0 - 2.0, area.left, y + LABEL / 2.0 + 2.0);
            if taken.iter().all(|other| place.overlap(other) == 0.0) {
                canvas.text(&label, (area.left - 10.0, y + 5.0), LABEL, style::INK, Align::Right);
                taken.push(place);
            }
        }
        canvas.frame(area, style::FRAME, 1.0);
        let (centre, middle) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
        let title = chart.x.title(&self.x, area.width());
        let title = fit_titled(&title, style::AXIS, area.width());
        frame::x_title(canvas, &title, centre, area.bottom + 42.0);
        let title = chart.y.title(&self.y, area.height());
        frame::y_title(canvas, &title, canvas.sheet.margin + 10.0, middle, area.height());
        if self.x.is_zoomed() {
            break_mark(canvas, |along, across| (area.left + along, area.bottom + across));
        }
        if self.y.is_zoomed() {
            break_mark(canvas, |along, across| (area.left + across, area.bottom - along));
        }
    }
}

/// Two strokes across the low end of an axis that does not begin at 0.
fn break_mark(canvas: &mut Canvas, at: impl Fn(f64, f64) -> (f64, f64)) {
    let gap = [at(9.0, -7.0), at(16.0, -7.0), at(13.0, 7.0), at(6.0, 7.0)];
    canvas.polygon(gap.to_vec(), style::WHITE);
    for start in [6.0, 13.0] {
        canvas.line(at(start, 7.0), at(start + 3.0, -7.0), style::INK, 1.5);
    }
}

/// Room to the right of the plot: half a label of its axis.
fn right_of(sheet: &Sheet) -> f64 {
    if sheet.is_titled() { 44.0 } else { 12.0 }
}

/// Ticks in the order in which their labels get room: whole decades first.
fn by_weight(scale: &Scale) -> Vec<(f64, String)> {
    let mut ticks = scale.ticks(8);
    ticks.sort_by_key(|(value, _)| !(scale.log && decade(*value)));
    ticks
}

#[cfg(test)]
#[path = "xy/tests.rs"]
mod tests;
