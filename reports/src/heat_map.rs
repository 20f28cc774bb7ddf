//! A sweep over two numbers as a map: where the cliff is, and how wide the safe ground.
//!
//! The first two numeric axes that have more than one value span the map; each combination of the
//! text axes (and of policies, where one point has several) has a panel of its own. Several cases
//! in one cell, as from a third numeric axis, show their best. Colour is slowdown against
//! unlimited HBM: dark is quick, yellow is slow. Cells that ran out of memory or do not resolve are
//! not coloured and have their own signs, so that absence never looks like a value.
//! Invariant: every point of the sweep is in exactly one cell of one panel.

use crate::ChartError;
use crate::canvas::{Align, Canvas, Rect, fit};
use crate::frame::{self, Entry, FLOOR, Key, MARGIN};
use crate::render::{CHART_SIZE, Chart, text_width};
use crate::scale::Scale;
use crate::style::{self, Color, LABEL, SMALL};
use crate::words::{clean, count, finite, number};
use std::collections::BTreeMap;
use tiersim_sim::record::RunRecord;
use tiersim_sim::scenario::AxisValue;

const MOST_PANELS: usize = 9;

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The least slowdown of its cases.
    Slowdown(f64),
    OutOfMemory,
    /// The point does not resolve.
    Skipped,
}

/// A sweep as cells by panel, column and row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) axes: [String; 2],
    pub(crate) values: [Vec<f64>; 2],
    pub(crate) panels: Vec<(String, BTreeMap<(usize, usize), Cell>)>,
    /// Numeric axes over which a cell shows the best.
    folded: Vec<String>,
}

type Params = [(String, AxisValue)];

/// The map of a sweep, or `None` if it has no two numeric axes; `version` is tiersim's own.
pub fn threshold_heat_map(record: &RunRecord, version: &str) -> Result<Option<Chart>, ChartError> {
    let Some(map) = Map::of(record) else { return Ok(None) };
    let mut canvas = Canvas::default();
    let mut about = record.about.clone();
    if !map.folded.is_empty() {
        about = format!("{about} (each cell: the best over {})", map.folded.join(", "));
    }
    let top = frame::header(&mut canvas, &record.scenario, &about);
    let shown = map.panels.len().min(MOST_PANELS);
    let columns = match shown {
        0..=3 => shown.max(1),
        4 => 2,
        _ => 3,
    };
    let rows = shown.div_ceil(columns);
    let numbered = map.numbered(columns, rows);
    let top = legend(&mut canvas, top, &map, numbered);
    let scale = map.scale();
    let area = Rect::new(MARGIN, top + 8.0, f64::from(CHART_SIZE.0) - 150.0, FLOOR - 4.0);
    let best = map.best(&map.panels);
    for (index, panel) in map.panels.iter().take(shown).enumerate() {
        let (width, height) = (area.width() / columns as f64, area.height() / rows as f64);
        let (column, row) = ((index % columns) as f64, (index / columns) as f64);
        let (left, top) = (area.left + width * column, area.top + height * row);
        draw_panel(
            &mut canvas,
            &map,
            panel,
            Rect::new(left, top, left + width, top + height),
            &scale,
            best,
            numbered,
        );
    }
    color_bar(&mut canvas, &scale, area);
    frame::footer(&mut canvas, record, version);
    Ok(Some(Chart::new(
        format!("{}: slowdown by {} and {}", record.scenario, map.axes[0], map.axes[1]),
        canvas,
    )))
}

impl Map {
    pub(crate) fn of(record: &RunRecord) -> Option<Map> {
        let results = record.results.iter().map(|case| case.params.as_slice());
        let points: Vec<&Params> =
            results.chain(record.skipped.iter().map(|(point, _)| point.as_slice())).collect();
        let mut axes = numeric_axes(&points).into_iter().filter(|(_, values)| values.len() > 1);
        let ((x, xs), (y, ys)) = (axes.next()?, axes.next()?);
        let folded = axes.map(|(axis, _)| clean(&axis)).collect();
        let mut map = Map { axes: [x, y], values: [xs, ys], panels: Vec::new(), folded };
        let several = several_policies(record);
        for case in &record.results {
            let Some(place) = map.place(&case.params) else { continue };
            let mut name = panel_name(&case.params);
            if several && !name.contains(&clean(&case.policy)) {
                name = [clean(&case.policy), name].join(", ").trim_end_matches(", ").to_owned();
            }
            let slowdown = case.outcome.figures().map(|f| f.slowdown(&record.baseline));
            let cell = match slowdown {
                None => Cell::OutOfMemory,
                // Without a baseline there is nothing to compare with.
                Some(slowdown) => Cell::Slowdown(finite(slowdown)?),
            };
            map.put(&name, place, cell);
        }
        for (point, _) in &record.skipped {
            let Some(place) = map.place(point) else { continue };
            let name = panel_name(point);
            let own = |panel: &str| name.is_empty() || panel.contains(&name);
            let panels: Vec<String> =
                map.panels.iter().map(|p| p.0.clone()).filter(|panel| own(panel)).collect();
            if panels.is_empty() {
                map.put(&name, place, Cell::Skipped);
            }
            for panel in panels {
                map.put(&panel, place, Cell::Skipped);
            }
        }
        let coloured = |cell: &Cell| matches!(cell, Cell::Slowdown(_));
        map.panels.iter().any(|(_, cells)| cells.values().any(coloured)).then_some(map)
    }

    /// Column and row of a point, if it has both axes.
    fn place(&self, point: &Params) -> Option<(usize, usize)> {
        let at = |axis: usize| {
            let value = number_at(point, &self.axes[axis])?;
            self.values[axis].iter().position(|v| *v == value)
        };
        Some((at(0)?, at(1)?))
    }

    fn put(&mut self, panel: &str, place: (usize, usize), cell: Cell) {
        let index = self.panels.iter().position(|(name, _)| name == panel).unwrap_or_else(|| {
            self.panels.push((panel.to_owned(), BTreeMap::new()));
            self.panels.len() - 1
        });
        let old = self.panels[index].1.get(&place).copied();
        let kept = match (old, cell) {
            (Some(Cell::Slowdown(a)), Cell::Slowdown(b)) => Cell::Slowdown(a.min(b)),
            (Some(Cell::Slowdown(a)), _) => Cell::Slowdown(a),
            (Some(Cell::OutOfMemory), Cell::Skipped) => Cell::OutOfMemory,
            _ => cell,
        };
        self.panels[index].1.insert(place, kept);
    }

    /// The least slowdown of some panels.
    fn best(&self, panels: &[(String, BTreeMap<(usize, usize), Cell>)]) -> Option<f64> {
        let cells = panels.iter().flat_map(|(_, cells)| cells.values());
        cells.filter_map(Cell::slowdown).min_by(f64::total_cmp)
    }

    fn scale(&self) -> Scale {
        let cells = self.panels.iter().flat_map(|(_, cells)| cells.values());
        let values: Vec<f64> = cells.filter_map(Cell::slowdown).collect();
        Scale::tight(&values, 2.5)
    }

    /// Is there room for the numbers in the cells? Heights are those under one row of legend.
    fn numbered(&self, columns: usize, rows: usize) -> bool {
        let width = (1020.0 / columns as f64 - 95.0) / self.values[0].len() as f64;
        let height = (560.0 / rows as f64 - 70.0) / self.values[1].len() as f64;
        let cells = self.panels.iter().flat_map(|(_, cells)| cells.values());
        let texts = cells.filter_map(Cell::slowdown).map(in_cell);
        let widest = texts.map(|text| text_width(&text, SMALL)).fold(0.0, f64::max);
        height >= 20.0 && width >= widest + 6.0
    }

    fn count(&self, wanted: fn(&Cell) -> bool) -> usize {
        self.panels.iter().flat_map(|(_, cells)| cells.values()).filter(|cell| wanted(cell)).count()
    }
}

impl Cell {
    fn slowdown(&self) -> Option<f64> {
        match self {
            Cell::Slowdown(slowdown) => Some(*slowdown),
            Cell::OutOfMemory | Cell::Skipped => None,
        }
    }
}

/// Numeric axes in order of appearance, each with its values sorted.
fn numeric_axes(points: &[&Params]) -> Vec<(String, Vec<f64>)> {
    let mut axes: Vec<(String, Vec<f64>)> = Vec::new();
    for (name, value) in points.iter().flat_map(|point| point.iter()) {
        let AxisValue::Number(value) = value else { continue };
        if !value.is_finite() {
            continue;
        }
        match axes.iter_mut().find(|(axis, _)| axis == name) {
            Some((_, values)) => values.push(*value),
            None => axes.push((name.clone(), vec![*value])),
        }
    }
    for (_, values) in &mut axes {
        values.sort_by(f64::total_cmp);
        values.dedup();
    }
    axes
}

fn number_at(point: &Params, axis: &str) -> Option<f64> {
    point.iter().find_map(|(name, value)| match value {
        AxisValue::Number(value) if name == axis => Some(*value),
        _ => None,
    })
}

/// The values on text axes.
fn panel_name(point: &Params) -> String {
    let texts = point.iter().filter_map(|(_, value)| match value {
        AxisValue::Text(text) => Some(clean(text)),
        AxisValue::Number(_) => None,
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn several_policies(record: &RunRecord) -> bool {
    let mut policies = record.results.iter().map(|case| &case.policy);
    policies.next().is_some_and(|first| policies.any(|policy| policy != first))
}

fn legend(canvas: &mut Canvas, top: f64, map: &Map, numbered: bool) -> f64 {
    let mut entries: Vec<Entry> = Vec::new();
    let mut add = |text: String, key: Key<'static>| entries.push(Entry { key, text });
    let key_cell = |at: (f64, f64)| Rect::new(at.0 - 11.0, at.1 - 8.0, at.0 + 11.0, at.1 + 8.0);
    let least = move |canvas: &mut Canvas, at: (f64, f64)| {
        canvas.rect(key_cell(at), style::viridis(0.0));
        mark_least(canvas, key_cell(at), numbered);
    };
    add("least slowdown of the panel".to_owned(), Box::new(least));
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
    if map.panels.len() > MOST_PANELS {
        let text = format!("{MOST_PANELS} of {} panels, the rest in results.csv", map.panels.len());
        add(text, Box::new(|_, _| {}));
    }
    frame::legend(canvas, top, Vec::new(), entries)
}

fn draw_panel(
    canvas: &mut Canvas,
    map: &Map,
    (name, cells): &(String, BTreeMap<(usize, usize), Cell>),
    room: Rect,
    scale: &Scale,
    best: Option<f64>,
    numbered: bool,
) {
    let [xs, ys] = &map.values;
    let labels: Vec<String> = ys.iter().map(|v| number(*v)).collect();
    let widest = labels.iter().map(|l| text_width(l, SMALL)).fold(0.0, f64::max);
    let plot = Rect::new(
        room.left + widest + 38.0,
        room.top + 24.0,
        room.right - 12.0,
        room.bottom - 46.0,
    );
    let (width, height) = (plot.width() / xs.len() as f64, plot.height() / ys.len() as f64);
    let cell_at = |column: usize, row: usize| {
        let (left, bottom) = (plot.left + width * column as f64, plot.bottom - height * row as f64);
        Rect::new(left, bottom - height, left + width, bottom)
    };
    let least = cells.values().filter_map(Cell::slowdown).min_by(f64::total_cmp);
    for (&(column, row), cell) in cells {
        // Cells reach a little under the next ones, so that a viewer's smoothing shows no seam.
        let Rect { left, top, right, bottom } = cell_at(column, row);
        let place =
            Rect::new(left, (top - 0.6).max(plot.top), (right + 0.6).min(plot.right), bottom);
        draw_cell(canvas, place, cell, scale, numbered);
    }
    canvas.frame(plot, style::FRAME, 1.0);
    if let Some((&(column, row), _)) =
        cells.iter().find(|(_, cell)| cell.slowdown().is_some() && cell.slowdown() == least)
    {
        mark_least(canvas, cell_at(column, row), numbered);
        let mark = if least == best { ", the best of all" } else { "" };
        let (x, y) = (number(xs[column]), number(ys[row]));
        let found = format!("{}× at ({x}, {y}){mark}", number(least.unwrap_or_default()));
        let title = if name.is_empty() {
            format!("least {found}")
        } else {
            format!("{name}: least {found}")
        };
        let title = fit(&title, LABEL, room.width() - 12.0);
        canvas.text(&title, (plot.left, plot.top - 8.0), LABEL, style::INK, Align::Left);
    } else {
        let title = fit(name, LABEL, room.width() - 12.0);
        canvas.text(&title, (plot.left, plot.top - 8.0), LABEL, style::INK, Align::Left);
    }
    panel_axes(canvas, map, plot, room, &labels);
}

/// Tick labels in the middle of cells, as many as have room, and axis titles.
fn panel_axes(canvas: &mut Canvas, map: &Map, plot: Rect, room: Rect, labels: &[String]) {
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
    let centre = (plot.left + plot.right) / 2.0;
    frame::x_title(
        canvas,
        &fit(&map.axes[0], style::AXIS, plot.width()),
        centre,
        plot.bottom + 38.0,
    );
    let middle = (plot.top + plot.bottom) / 2.0;
    frame::y_title(canvas, &map.axes[1], room.left + 14.0, middle, plot.height());
}

fn draw_cell(canvas: &mut Canvas, cell: Rect, what: &Cell, scale: &Scale, numbered: bool) {
    let Cell::Slowdown(slowdown) = what else {
        return match what {
            Cell::OutOfMemory => failed_cell(canvas, cell),
            _ => skipped_cell(canvas, cell),
        };
    };
    let color = style::viridis(scale.share(*slowdown));
    canvas.rect(cell, color);
    if numbered {
        let ink = if color.luminance() > 0.3 { style::INK } else { style::WHITE };
        let at = ((cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0 + 4.5);
        canvas.text(&in_cell(*slowdown), at, SMALL, ink, Align::Centre);
    }
}

/// A slowdown with three digits.
fn in_cell(slowdown: f64) -> String {
    match slowdown {
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
fn mark_least(canvas: &mut Canvas, cell: Rect, numbered: bool) {
    if numbered {
        canvas.frame(cell.grown(-2.0), style::WHITE, 4.0);
        canvas.frame(cell.grown(-2.0), style::INK, 1.5);
        return;
    }
    let at = ((cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0);
    let r = (cell.height() * 0.42).clamp(7.0, 10.0);
    style::star(canvas, at, r + 2.5, style::INK);
    style::star(canvas, at, r, style::WHITE);
}

fn color_bar(canvas: &mut Canvas, scale: &Scale, area: Rect) {
    let bar = Rect::new(area.right + 34.0, area.top + 24.0, area.right + 56.0, area.bottom - 46.0);
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
        canvas.text(
            &format!("{label}×"),
            (bar.right + 9.0, y + 4.5),
            SMALL,
            style::INK,
            Align::Left,
        );
    }
    let log = if axis.log { ", logarithmic" } else { "" };
    let title = format!("slowdown against unlimited HBM{log}");
    let middle = (bar.top + bar.bottom) / 2.0;
    frame::y_title(canvas, &title, bar.left - 8.0, middle, area.height());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn a_sweep_of_462_points_and_those_that_do_not_resolve_fill_every_cell() {
        let record = common::sweep();
        assert_eq!(record.results.len(), 462);
        let map = Map::of(&record).unwrap();
        assert_eq!(map.values.each_ref().map(Vec::len), [21, 21]);
        assert_eq!(map.panels.len(), 2);
        assert!(map.panels.iter().all(|(_, cells)| cells.len() == 21 * 21));
        let failed = map.count(|cell| *cell == Cell::OutOfMemory);
        let skipped = map.count(|cell| *cell == Cell::Skipped);
        assert_eq!((failed, skipped), (12, record.skipped.len()));
    }

    #[test]
    fn policies_have_panels_of_their_own() {
        let map = Map::of(&common::grid()).unwrap();
        let names: Vec<&str> = map.panels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["lru", "hints", "adam-state"]);
        assert!(map.panels.iter().all(|(_, cells)| cells.len() == 30));
    }

    #[test]
    fn without_two_numeric_axes_there_is_no_map() {
        assert!(Map::of(&common::training()).is_none());
        let mut record = common::grid();
        for case in &mut record.results {
            case.params.truncate(1);
        }
        assert!(Map::of(&record).is_none());
    }

    #[test]
    fn the_best_of_several_cases_in_a_cell_is_shown() {
        let mut record = common::grid();
        for (index, case) in record.results.iter_mut().enumerate() {
            case.policy = "lru".to_owned();
            case.params.push(("depth".to_owned(), AxisValue::Number((index % 3) as f64)));
        }
        let map = Map::of(&record).unwrap();
        assert_eq!(map.folded, ["depth"]);
        assert_eq!(map.panels.len(), 1);
        assert!(map.panels[0].1.values().all(|cell| cell.slowdown().is_some()));
    }
}
