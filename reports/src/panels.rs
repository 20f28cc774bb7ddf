//! Small multiples: several plots of the same axes beside each other, each with its name.
//!
//! Panels share both scales, so that what stands higher in one of them is more than in another;
//! ticks stand at the left and below only. A line is named at its end or at a place that it says,
//! without a legend, and so is a point; what has no room is left out. Where there are more panels
//! than a page can hold, the note says how many there are.
//! Invariant: every finite point is drawn inside the frame of its panel.

use crate::against_marks;
use crate::canvas::{Align, Canvas, Rect, Tag};
use crate::fitted::{fit, fit_name, fit_titled};
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::labels::{self, Obstacles, Request};
use crate::render::Chart;
use crate::scale::Scale;
use crate::sheet::{Made, Sheet};
use crate::style::{self, LABEL, SMALL};
use tiersim_models::results::RunRecord;

/// So many panels fit a page.
pub(crate) const MOST_PANELS: usize = 12;
/// Above a panel: its name, and what stands below that.
const HEAD: f64 = 22.0;
const BELOW: f64 = 16.0;
/// Between panels.
const GAP: f64 = 16.0;
/// What is drawn in a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layer {
    /// Its name in the panel; none if empty.
    pub(crate) label: String,
    /// Its colour, marker and dashes.
    pub(crate) look: usize,
    /// The case that it is of, if it is of one.
    pub(crate) case: Option<usize>,
    /// Its line is unbroken whatever its look: markers and labels tell it apart.
    pub(crate) unbroken: bool,
    /// A line through these points, in the axes' units.
    pub(crate) line: Vec<(f64, f64)>,
    /// The outline of an area, filled in the layer's colour.
    pub(crate) area: Vec<(f64, f64)>,
    /// Markers at these; the label stands beside the first, or at the end of the line.
    pub(crate) marks: Vec<(f64, f64)>,
}

/// One plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// What stands below the name, in small.
    pub(crate) below: String,
    /// The marker that stands beside its name: that of a case on other charts.
    pub(crate) look: Option<usize>,
    pub(crate) layers: Vec<Layer>,
    /// A broken line across the panel.
    pub(crate) level: Option<f64>,
    /// The points of a front, by x.
    pub(crate) front: Vec<(f64, f64)>,
}

/// An axis that all panels share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shared {
    pub(crate) title: String,
    /// From where to where; else what the data needs.
    pub(crate) range: Option<(f64, f64)>,
    /// Logarithmic beyond this ratio.
    pub(crate) ratio: f64,
    /// What stands at these values in the place of numbers.
    pub(crate) named: Vec<(f64, String)>,
}

/// The panels of a chart.
pub(crate) struct Panels<'r> {
    pub(crate) record: &'r RunRecord,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) x: Shared,
    pub(crate) y: Shared,
    pub(crate) panels: Vec<Panel>,
    /// Said in place of a legend: what is common to all labels, what marks mean.
    pub(crate) notes: Vec<String>,
    /// What looks mean that no label says.
    pub(crate) keys: Vec<(usize, String)>,
    /// What the level of panels is.
    pub(crate) level: String,
}

impl Shared {
    pub(crate) fn of(title: impl Into<String>) -> Shared {
        Shared { title: title.into(), range: None, ratio: f64::INFINITY, named: Vec::new() }
    }

    /// The title, with what distances on its scale are not, beside the unit.
    fn titled(&self, scale: &Scale) -> String {
        match (scale.said(), self.title.strip_suffix(')')) {
            ("", _) => self.title.clone(),
            (said, Some(open)) => format!("{open}{said})"),
            (said, None) => format!("{} ({})", self.title, said.trim_start_matches(", ")),
        }
    }

    fn ticks(&self, scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
        if self.named.is_empty() { scale.ticks(wanted) } else { self.named.clone() }
    }

    fn scale(&self, values: &[f64], from: f64, to: f64) -> Scale {
        match self.range {
            Some((lo, hi)) => Scale::linear(&[lo, hi], 0.0, from, to),
            None => Scale::fitting(values, self.ratio, 0.08, from, to),
        }
    }
}

/// Columns and rows of so many panels.
fn grid(sheet: &Sheet, panels: usize) -> (usize, usize) {
    let columns = match panels {
        0..=1 => 1,
        2 | 4 => 2,
        3 | 5..=9 => 3,
        _ => 4,
    };
    let columns = if sheet.is_titled() { columns } else { columns.min(2) };
    (columns, panels.max(1).div_ceil(columns))
}

impl Panels<'_> {
    /// The chart, laid out.
    pub(crate) fn chart(mut self, made: Made<'_>) -> Chart {
        let all = self.panels.len();
        if all > MOST_PANELS {
            self.panels.truncate(MOST_PANELS);
            let rest = format!("{MOST_PANELS} of {all} panels; all cases are in results.csv");
            self.notes.push(rest);
        }
        let mut canvas = Canvas::of(made.style);
        let (columns, rows) = grid(&canvas.sheet, self.panels.len());
        let top = frame::header(&mut canvas, &self.title, &self.about);
        let top = self.legend(&mut canvas, top) + 4.0;
        if !canvas.sheet.is_titled() {
            // What the legend takes is not taken from the panels.
            let high = top + if rows == 1 { 230.0 } else { 150.0 * rows as f64 + 60.0 };
            canvas.sheet.height = canvas.sheet.height.max(high);
        }
        let sheet = canvas.sheet;
        let area = Rect::new(sheet.margin + 26.0, top, sheet.width - sheet.margin, sheet.floor());
        let plots = self.plots(&sheet, area, columns, rows);
        for (index, (panel, plot)) in self.panels.iter().zip(&plots).enumerate() {
            let below = index + columns >= self.panels.len();
            plot.axes(&mut canvas, &self.y, (index % columns == 0, below));
            plot.draw(&mut canvas, panel);
        }
        let centre = f64::midpoint(area.left, area.right);
        // Panels have the same scales.
        let [x, y] = [self.x.titled(&plots[0].x), self.y.titled(&plots[0].y)];
        let title = fit_titled(&x, style::AXIS, area.width());
        frame::x_title(&mut canvas, &title, centre, sheet.floor() - 6.0);
        let middle = f64::midpoint(area.top, area.bottom);
        frame::y_title(&mut canvas, &y, sheet.margin + 10.0, middle, area.height());
        frame::footer(&mut canvas, self.record, made.version);
        Chart::new(self.title, canvas)
    }

    fn legend(&self, canvas: &mut Canvas, top: f64) -> f64 {
        let layers = || self.panels.iter().flat_map(|panel| &panel.layers);
        let lined = layers().any(|layer| !layer.line.is_empty());
        let marked = layers().any(|layer| !layer.marks.is_empty());
        let key = move |look: usize| -> frame::Key<'static> {
            Box::new(move |canvas: &mut Canvas, (x, y): (f64, f64)| {
                if lined {
                    style::line(canvas, look, &[(x - 15.0, y), (x + 15.0, y)]);
                }
                if marked {
                    style::marker(canvas, look, (x, y), 4.5, 1.0);
                }
            })
        };
        let entry = |(look, text): &(usize, String)| Entry { key: key(*look), text: text.clone() };
        let mut last = self.keys.iter().map(entry).collect::<Vec<_>>();
        if self.panels.iter().any(|panel| panel.front.len() > 1) {
            let key = |canvas: &mut Canvas, at: (f64, f64)| {
                canvas.path(frame::sample_stairs(at), style::FRONT, 4.0);
            };
            last.push(Entry {
                key: Box::new(key),
                text: "front of a panel, if more than one case is on it".to_owned(),
            });
        }
        if self.panels.iter().any(|panel| panel.level.is_some()) {
            let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
                level(canvas, (x - 15.0, x + 15.0), y);
            };
            last.push(Entry { key: Box::new(key), text: self.level.clone() });
        }
        let top = frame::legend(canvas, top, Vec::new(), last, "");
        self.notes.iter().fold(top, |top, note| {
            let sheet = canvas.sheet;
            let text = fit(note, SMALL, sheet.width - 2.0 * sheet.margin);
            canvas.text(&text, (sheet.margin, top + 16.0), SMALL, style::SOFT_INK, Align::Left);
            top + 20.0
        })
    }

    /// Where each panel is, and its scales.
    fn plots(&self, sheet: &Sheet, area: Rect, columns: usize, rows: usize) -> Vec<Plot> {
        let layers = || self.panels.iter().flat_map(|panel| &panel.layers);
        let points = || layers().flat_map(|layer| layer.line.iter().chain(&layer.marks));
        let finite = points().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (xs, mut ys): (Vec<f64>, Vec<f64>) = finite.copied().unzip();
        ys.extend(self.panels.iter().filter_map(|panel| panel.level));
        let high = (area.height() - 40.0) / rows as f64;
        let some = self.panels.iter().any(|panel| !panel.below.is_empty());
        let head = if some { HEAD + BELOW } else { HEAD };
        let inner = high - head - GAP / 2.0;
        let probe = self.y.scale(&ys, inner, 0.0);
        let labels = self.y.ticks(&probe, sheet.ticks(6, inner * 1.5)).into_iter();
        let widest = labels.map(|(_, label)| text_width(&label, SMALL)).fold(0.0, f64::max);
        let left = area.left + widest + 8.0;
        let wide = (area.right - left) / columns as f64;
        let place = |index: usize| {
            let (column, row) = ((index % columns) as f64, (index / columns) as f64);
            let (x, y) = (left + wide * column, area.top + high * row + head);
            let place = Rect::new(x, y, x + wide - GAP, y + inner);
            let x = self.x.scale(&xs, place.left, place.right);
            Plot { place, x, y: self.y.scale(&ys, place.bottom, place.top) }
        };
        (0..self.panels.len()).map(place).collect()
    }
}

/// One panel's frame and its scales.
struct Plot {
    place: Rect,
    x: Scale,
    y: Scale,
}

impl Plot {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    fn axes(&self, canvas: &mut Canvas, shared: &Shared, (left, below): (bool, bool)) {
        let place = self.place;
        let ticks = canvas.sheet.ticks(6, place.width()).min((place.width() / 60.0) as usize);
        let mut taken = f64::NEG_INFINITY;
        for (value, label) in self.x.ticks(ticks.max(2)) {
            let x = self.x.at(value);
            canvas.line((x, place.top), (x, place.bottom), style::GRID, 1.0);
            // A label of a panel does not reach into the next.
            let width = text_width(&label, SMALL);
            let left = (x - width / 2.0).min(place.right + GAP / 2.0 - 2.0 - width).max(place.left);
            if below && left > taken + 4.0 {
                let at = (left, place.bottom + 17.0);
                canvas.text(&label, at, SMALL, style::INK, Align::Left);
                taken = left + width;
            }
        }
        let ticks = canvas.sheet.ticks(6, place.height() * 1.5);
        let mut taken = f64::INFINITY;
        for (value, label) in
            shared.ticks(&self.y, ticks.min((place.height() / 26.0) as usize).max(2))
        {
            let y = self.y.at(value);
            canvas.line((place.left, y), (place.right, y), style::GRID, 1.0);
            if left && !label.is_empty() && y + SMALL < taken {
                let at = (place.left - 7.0, y + 4.5);
                canvas.text(&label, at, SMALL, style::INK, Align::Right);
                taken = y;
            }
        }
        canvas.frame(place, style::FRAME, 1.0);
    }

    fn draw(&self, canvas: &mut Canvas, panel: &Panel) {
        let place = self.place;
        let top = if panel.below.is_empty() { place.top } else { place.top - BELOW };
        let indent = match panel.look {
            Some(look) => {
                style::marker(canvas, look, (place.left + 7.0, top - 10.0), 5.0, 1.0);
                18.0
            }
            None => 0.0,
        };
        let (name, marks) = marks_apart(&panel.name);
        let name = fit_name(&name, LABEL, place.width() - indent - text_width(&marks, LABEL));
        let below = fit(&panel.below, SMALL, place.width() - indent);
        let at = (place.left + indent, place.top - 6.0);
        canvas.text(&below, at, SMALL, style::SOFT_INK, Align::Left);
        let at = (place.left + indent, top - 6.0);
        canvas.text(&(name + &marks), at, LABEL, style::INK, Align::Left);
        if panel.front.len() > 1 {
            let front = panel.front.iter().map(|&point| self.at(point));
            canvas.path(frame::stairs(front, place), style::FRONT, 4.0);
        }
        if let Some(value) = panel.level {
            level(canvas, (place.left, place.right), self.y.at(value));
        }
        for layer in panel.layers.iter().filter(|layer| !layer.area.is_empty()) {
            canvas.polygon(self.places(&layer.area), style::series_color(layer.look));
        }
        for layer in &panel.layers {
            let tag = Tag { series: Some(layer.look), ..Tag::default() };
            let places = self.places(&layer.line);
            canvas.tagged(tag, |canvas| match layer.unbroken {
                true if places.len() < 2 => {}
                true => canvas.path(places, style::line_color(layer.look), 2.0),
                false => style::line(canvas, layer.look, &places),
            });
        }
        let (radius, opacity) =
            style::marker_size(panel.layers.iter().map(|layer| layer.marks.len()).sum());
        for layer in &panel.layers {
            for at in self.places(&layer.marks) {
                let of = (layer.look, layer.case);
                style::marker_of(canvas, of, at, radius.min(4.5), opacity);
            }
        }
        self.labels(canvas, panel);
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        finite.map(|&point| self.at(point)).collect()
    }

    /// Each layer's name beside its first marker or the end of its line.
    fn labels(&self, canvas: &mut Canvas, panel: &Panel) {
        let mut obstacles = Obstacles::default();
        let (mut requests, mut texts) = (Vec::new(), Vec::new());
        for layer in &panel.layers {
            let (line, marks) = (self.places(&layer.line), self.places(&layer.marks));
            obstacles.solid.extend(marks.iter().map(|&at| Rect::around(at, 5.0)));
            obstacles.lines.extend(line.windows(2).map(|ends| (ends[0], ends[1])));
            let Some(&at) = marks.first().or(line.last()) else { continue };
            if layer.label.is_empty() {
                continue;
            }
            let text = fit_name(&layer.label, SMALL, self.place.width() * 0.75);
            let size = (text_width(&text, SMALL) + 4.0, SMALL + 3.0);
            requests.push(Request { at, clear: 6.0, size });
            texts.push((text, layer.look));
        }
        // A long line of many corners would make every place dear, and the search slow.
        obstacles.lines.truncate(2000);
        let places = labels::place(&requests, &self.place.grown(-2.0), &obstacles);
        for ((place, request), (text, look)) in places.iter().zip(&requests).zip(&texts) {
            let Some(place) = place else { continue };
            if let Some((from, to)) = labels::leader(request.at, place) {
                canvas.line(from, to, style::FRAME, 1.0);
            }
            canvas.rect(*place, style::WHITE.alpha(0.75));
            let ink = style::series_color(*look).shade();
            let at = (place.left + 2.0, place.bottom - 4.0);
            canvas.text(text, at, SMALL, ink, Align::Left);
        }
    }
}

/// A name that is too long is cut, but not what a reader must know of it, such as ` (oracle)`: the
/// name without that, and that.
fn marks_apart(name: &str) -> (String, String) {
    let of = |mark: &str| name.find(mark).map(|at| (at, at + mark.len()));
    match [" (oracle)", " (learned)", " (oracle, learned)", " (emulated)"].into_iter().find_map(of)
    {
        Some((from, to)) => {
            (format!("{}{}", &name[..from], &name[to..]), name[from..to].to_owned())
        }
        None => (name.to_owned(), String::new()),
    }
}

fn level(canvas: &mut Canvas, (from, to): (f64, f64), y: f64) {
    let (width, dashes) = (against_marks::WIDTH, against_marks::DASHES);
    canvas.dashed(&[(from, y), (to, y)], style::SOFT_INK, width, dashes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_name_keeps_what_a_reader_must_know() {
        let apart = |name| {
            let (name, mark) = marks_apart(name);
            [name, mark]
        };
        let of_oracle = ["clairvoyant, lookahead: all", " (oracle)"];
        assert_eq!(apart("clairvoyant (oracle), lookahead: all"), of_oracle);
        assert_eq!(apart("lru (2)"), ["lru (2)", ""]);
    }
}
