//! A sweep over two numbers as a map: where the cliff is, and how wide the safe ground.
//!
//! Colour is slowdown against unlimited HBM, or time where cells have baselines of their own: dark is
//! quick, yellow is slow. Cells that ran out of memory or do not resolve are not coloured and have
//! their own signs, so that absence never looks like a value. Numbers are written into cells that
//! have room for them.
//! Invariant: every cell of [`Map`] is drawn; the least of each panel is marked.

use crate::canvas::{Align, Canvas, Rect};
use crate::cells::{Cell, Cells, Map, Panel};
use crate::fitted::fit_titled;
use crate::font::text_width;
use crate::frame::{self, Entry, Key, RESULTS};
use crate::measure::Measure;
use crate::render::{Chart, Charts};
use crate::scale::Scale;
use crate::sheet::{Made, Sheet};
use crate::style::{self, Color, LABEL, SMALL};
use crate::units::three_digits;
use crate::words::{count, number};
use std::ops::Range;
use tiersim_models::results::RunRecord;
use tiersim_models::units::shown::Unit;

const MOST_PANELS: usize = 9;

/// The map of a record, if it has one.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    let map = threshold_heat_map(record, made);
    map.into_iter().map(|map| ("threshold-heat-map".to_owned(), map)).collect()
}

/// The map of a sweep, or `None` if it has no two numeric axes; `version` is tiersim's own.
pub(crate) fn threshold_heat_map<'a>(
    record: &RunRecord,
    made: impl Into<Made<'a>>,
) -> Option<Chart> {
    let made = made.into();
    let map = Map::of(record)?;
    let mut canvas = Canvas::of(made.style);
    let sheet = canvas.sheet;
    let mut about = record.about.clone();
    if !map.folded.is_empty() {
        about = format!("{about} (each cell: the best over {})", map.folded.join(", "));
    }
    if map.panels.len() > MOST_PANELS {
        let all = map.panels.len();
        about = format!("{about} ({MOST_PANELS} of {all} panels; all are in results.csv)");
    }
    let top = frame::header(&mut canvas, &record.scenario, &about);
    let shown = map.panels.len().min(MOST_PANELS);
    let columns = match shown {
        0..=3 => shown.max(1),
        4 => 2,
        _ => 3,
    };
    let rows = shown.div_ceil(columns);
    let numbered = numbered_cells(&sheet, &map, columns, rows);
    let top = legend(&mut canvas, top, &map, numbered);
    let scale = Scale::tight(&map.shown().collect::<Vec<_>>(), 2.5);
    let look = Look { scale, best: map.best(), numbered };
    let right = sheet.width - sheet.aside(150.0);
    // The titles of the axes are shared by all panels and stand outside of them.
    let area = Rect::new(canvas.sheet.margin + 22.0, top + 8.0, right, sheet.floor() - 26.0);
    let (centre, middle) = ((area.left + right) / 2.0, (area.top + area.bottom) / 2.0);
    let title = fit_titled(&map.axes[0], style::AXIS, area.width());
    frame::x_title(&mut canvas, &title, centre, sheet.floor() - 4.0);
    frame::y_title(&mut canvas, &map.axes[1], sheet.margin + 10.0, middle, area.height());
    for (index, panel) in map.panels.iter().take(shown).enumerate() {
        let (width, height) = (area.width() / columns as f64, area.height() / rows as f64);
        let (column, row) = ((index % columns) as f64, (index / columns) as f64);
        let (left, top) = (area.left + width * column, area.top + height * row);
        look.panel(&mut canvas, &map, panel, Rect::new(left, top, left + width, top + height));
    }
    let measure = Measure::of(record)[0];
    color_bar(&mut canvas, &look.scale, area, (measure, map.unit));
    frame::footer(&mut canvas, record, made.version);
    let [x, y] = &map.axes;
    let what = if map.unit.is_some() { measure.words() } else { measure.ratio() };
    Some(Chart::new(format!("{}: {what} by {x} and {y}", record.scenario), canvas))
}

/// Is there room for the numbers in the cells? Heights are those under one row of legend.
fn numbered_cells(sheet: &Sheet, map: &Map, columns: usize, rows: usize) -> bool {
    let width = ((sheet.width - 180.0) / columns as f64 - 95.0) / map.values[0].len() as f64;
    let height = ((sheet.height - 190.0) / rows as f64 - 70.0) / map.values[1].len() as f64;
    let texts = map.shown().map(in_cell);
    let widest = texts.map(|text| text_width(&text, SMALL)).fold(0.0, f64::max);
    height >= 20.0 && width >= widest + 6.0
}

fn legend(canvas: &mut Canvas, top: f64, map: &Map, numbered: bool) -> f64 {
    let mut entries: Vec<Entry> = Vec::new();
    let mut add = |text: String, key: Key<'static>| entries.push(Entry { key, text });
    let key_cell = |at: (f64, f64)| Rect::new(at.0 - 11.0, at.1 - 8.0, at.0 + 11.0, at.1 + 8.0);
    let least = move |canvas: &mut Canvas, at: (f64, f64)| {
        canvas.rect(key_cell(at), style::viridis(0.0));
        mark_least(canvas, key_cell(at), &key_cell(at), numbered);
    };
    let what =
        if map.unit.is_some() { "least of the panel" } else { "least slowdown of the panel" };
    add(what.to_owned(), Box::new(least));
    let failed = map.count(|cell| matches!(cell, Cell::OutOfMemory));
    if failed > 0 {
        let key = move |canvas: &mut Canvas, at: (f64, f64)| failed_cell(canvas, key_cell(at));
        add(format!("out of memory ({})", count(failed, "cell", "cells")), Box::new(key));
    }
    let skipped = map.count(|cell| matches!(cell, Cell::Skipped));
    if skipped > 0 {
        let key = move |canvas: &mut Canvas, at: (f64, f64)| skipped_cell(canvas, key_cell(at));
        let cells = count(skipped, "cell", "cells");
        add(format!("not feasible: the point does not resolve ({cells})"), Box::new(key));
    }
    frame::legend(canvas, top, Vec::new(), entries, RESULTS)
}

/// What all panels share.
struct Look {
    scale: Scale,
    /// The least of all that pay for every access.
    best: Option<f64>,
    /// Whether there is room for numbers in the cells.
    numbered: bool,
}

/// Cells of fewer pixels than this have no room for a cross or a hatch.
const FINE: f64 = 3.0;

impl Look {
    fn panel(&self, canvas: &mut Canvas, map: &Map, panel: &Panel, room: Rect) {
        let (name, cells) = (panel.title(), &panel.cells);
        let [xs, ys] = &map.values;
        let labels: Vec<String> = ys.iter().map(|v| number(*v)).collect();
        let widest = labels.iter().map(|l| text_width(l, SMALL)).fold(0.0, f64::max);
        let (left, right) = (room.left + widest + 18.0, room.right - 12.0);
        let plot = Rect::new(left, room.top + 24.0, right, room.bottom - 28.0);
        let (width, height) = (plot.width() / xs.len() as f64, plot.height() / ys.len() as f64);
        let cell_at = |column: usize, row: usize| {
            let (left, bottom) =
                (plot.left + width * column as f64, plot.bottom - height * row as f64);
            Rect::new(left, bottom - height, left + width, bottom)
        };
        let least = panel.shown().min_by(f64::total_cmp);
        // Cells reach a little under the next ones, so that a viewer's smoothing shows no seam.
        let seamless = |Rect { left, top, right, bottom }: Rect| {
            Rect::new(left, (top - 0.6).max(plot.top), (right + 0.6).min(plot.right), bottom)
        };
        if width.min(height) < FINE {
            for ((column, rows), color) in self.runs(cells) {
                let (first, last) = (cell_at(column, rows.start), cell_at(column, rows.end - 1));
                canvas.rect(seamless(Rect { top: last.top, ..first }), color);
            }
        } else {
            for (&(column, row), cell) in cells {
                self.cell(canvas, seamless(cell_at(column, row)), cell);
            }
        }
        canvas.frame(plot, style::FRAME, 1.0);
        let mut details = Vec::new();
        if let (Some(least), Some((&(column, row), _))) =
            (least, cells.iter().find(|(_, cell)| cell.value() == least))
        {
            mark_least(canvas, cell_at(column, row), &plot, self.numbered);
            let at = format!("at ({}, {})", number(xs[column]), number(ys[row]));
            let least_text = match map.unit {
                Some((unit, _)) => format!("least {} {unit}", three_digits(least)),
                None => format!("least {}×", number(least)),
            };
            if !panel.emulated && self.best == Some(least) {
                details.push(format!("{least_text} {at}, the best of all"));
            }
            details.extend([format!("{least_text} {at}"), least_text]);
        }
        let title = panel_title(&name, &details, plot.width());
        canvas.text(&title, (plot.left, plot.top - 8.0), LABEL, style::INK, Align::Left);
        panel_axes(canvas, map, plot, &labels);
    }

    /// Neighbours of one colour in a column, which has no room for signs: the column and the rows.
    fn runs(&self, cells: &Cells) -> Vec<((usize, Range<usize>), Color)> {
        let mut runs: Vec<((usize, Range<usize>), Color)> = Vec::new();
        for (&(column, row), cell) in cells {
            let color = match cell {
                Cell::Value(value) => style::viridis(self.scale.share(*value)),
                Cell::OutOfMemory => style::OOM_BAND,
                Cell::Skipped => style::ABSENT,
            };
            match runs.last_mut() {
                Some(((of, rows), last)) if *of == column && rows.end == row && *last == color => {
                    rows.end = row + 1;
                }
                _ => runs.push(((column, row..row + 1), color)),
            }
        }
        runs
    }

    fn cell(&self, canvas: &mut Canvas, cell: Rect, what: &Cell) {
        let Cell::Value(value) = what else {
            return match what {
                Cell::OutOfMemory => failed_cell(canvas, cell),
                _ => skipped_cell(canvas, cell),
            };
        };
        let color = style::viridis(self.scale.share(*value));
        canvas.rect(cell, color);
        if self.numbered {
            let ink = style::ink_on(color);
            let at = ((cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0 + 4.5);
            canvas.text(&in_cell(*value), at, SMALL, ink, Align::Centre);
        }
    }
}

/// The panel's name with the longest of `details` that leaves it whole; the name goes first.
fn panel_title(name: &str, details: &[String], room: f64) -> String {
    let joined = details.iter().map(|detail| match name {
        "" => detail.clone(),
        name => format!("{name}: {detail}"),
    });
    let fitting = joined.into_iter().find(|title| text_width(title, LABEL) <= room);
    fitting.unwrap_or_else(|| fit_titled(name, LABEL, room))
}

/// Tick labels in the middle of cells, as many as have room.
fn panel_axes(canvas: &mut Canvas, map: &Map, plot: Rect, labels: &[String]) {
    let xs: Vec<String> = map.values[0].iter().map(|v| number(*v)).collect();
    let (width, height) = (plot.width() / xs.len() as f64, plot.height() / labels.len() as f64);
    let widest = xs.iter().map(|l| text_width(l, SMALL)).fold(0.0, f64::max);
    let every = ((widest + 10.0) / width).ceil().max(1.0) as usize;
    for (column, label) in xs.iter().enumerate().step_by(every) {
        let x = plot.left + width * (column as f64 + 0.5);
        canvas.line((x, plot.bottom), (x, plot.bottom + 4.0), style::FRAME, 1.0);
        canvas.text(label, (x, plot.bottom + 18.0), SMALL, style::INK, Align::Centre);
    }
    let every = (17.0 / height).ceil().max(1.0) as usize;
    for (row, label) in labels.iter().enumerate().step_by(every) {
        let y = plot.bottom - height * (row as f64 + 0.5);
        canvas.line((plot.left - 4.0, y), (plot.left, y), style::FRAME, 1.0);
        canvas.text(label, (plot.left - 8.0, y + 4.5), SMALL, style::INK, Align::Right);
    }
}

/// A number with three digits.
fn in_cell(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn failed_cell(canvas: &mut Canvas, cell: Rect) {
    canvas.rect(cell, style::OOM_BAND);
    let r = (cell.width().min(cell.height()) * 0.28).min(6.0);
    let centre = ((cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0);
    style::cross(canvas, centre, r, style::OOM, (r * 0.4).clamp(1.0, 2.0));
}

fn skipped_cell(canvas: &mut Canvas, cell: Rect) {
    canvas.rect(cell, style::ABSENT);
    let hatch = Color(190, 190, 190, 1.0);
    let r = (cell.width().min(cell.height()) * 0.3).min(7.0);
    let (x, y) = ((cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0);
    canvas.line((x - r, y + r), (x + r, y - r), hatch, 1.2);
}

/// A star; in a cell with its number in it a frame, because a star would hide the number.
fn mark_least(canvas: &mut Canvas, cell: Rect, plot: &Rect, numbered: bool) {
    if numbered {
        canvas.frame(cell.grown(-2.0), style::WHITE, 4.0);
        canvas.frame(cell.grown(-2.0), style::INK, 1.5);
        return;
    }
    let r = (cell.height() * 0.42).clamp(7.0, 10.0);
    // In a fine grid the star is larger than its cell: keep it off the axes.
    let reach = (r + 2.5).min(plot.width() / 2.0).min(plot.height() / 2.0);
    let x = ((cell.left + cell.right) / 2.0).clamp(plot.left + reach, plot.right - reach);
    let y = ((cell.top + cell.bottom) / 2.0).clamp(plot.top + reach, plot.bottom - reach);
    let at = (x, y);
    style::star(canvas, at, r + 2.5, style::INK);
    style::star(canvas, at, r, style::WHITE);
}

fn color_bar(
    canvas: &mut Canvas,
    scale: &Scale,
    area: Rect,
    (measure, unit): (Measure, Option<Unit>),
) {
    let bar = Rect::new(area.right + 34.0, area.top + 24.0, area.right + 56.0, area.bottom - 28.0);
    let axis = scale.along(bar.bottom, bar.top);
    const BANDS: u32 = 200;
    for band in 0..BANDS {
        let top = bar.top + bar.height() * f64::from(band) / f64::from(BANDS);
        let color = style::viridis(1.0 - f64::from(band) / f64::from(BANDS - 1));
        // Each band reaches down to the end and the next covers it: no seams.
        canvas.rect(Rect { top, ..bar }, color);
    }
    canvas.frame(bar, style::FRAME, 1.0);
    for (value, label) in axis.ticks(8) {
        let y = axis.at(value);
        canvas.line((bar.right, y), (bar.right + 5.0, y), style::FRAME, 1.0);
        let at = (bar.right + 9.0, y + 4.5);
        let label = if unit.is_some() { label } else { format!("{label}×") };
        canvas.text(&label, at, SMALL, style::INK, Align::Left);
    }
    let log = if axis.log { ", logarithmic" } else { "" };
    let title = match unit {
        Some((unit, _)) => format!("{} ({unit}{log})", measure.words()),
        None => format!("{} against unlimited HBM{log}", measure.ratio()),
    };
    let middle = (bar.top + bar.bottom) / 2.0;
    frame::y_title(canvas, &title, bar.left - 8.0, middle, area.height());
}
