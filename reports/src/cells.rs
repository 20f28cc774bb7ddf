//! A sweep's points as cells of a map: panel, column, row.
//!
//! The first two numeric axes that have more than one value span the map; each combination of the
//! text axes (and of policies, where one point has several) is a panel. Several cases in one cell,
//! as from a third numeric axis, show their best.
//! Invariant: every point of the sweep that has both axes is in exactly one cell of one panel.

use crate::measure::Measure;
use crate::words::{clean, finite};
use std::collections::BTreeMap;
use tiersim_models::results::{AxisValue, RunRecord};

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The least slowdown of its cases; where requests are served, of their TTFT.
    Slowdown(f64),
    OutOfMemory,
    /// The point does not resolve.
    Skipped,
}

/// Cells by column and row.
pub(crate) type Cells = BTreeMap<(usize, usize), Cell>;

/// A sweep as cells by panel, column and row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) axes: [String; 2],
    pub(crate) values: [Vec<f64>; 2],
    pub(crate) panels: Vec<(String, Cells)>,
    /// Numeric axes over which a cell shows the best.
    pub(crate) folded: Vec<String>,
}

type Params = [(String, AxisValue)];

impl Map {
    pub(crate) fn of(record: &RunRecord) -> Option<Map> {
        let results = record.results.iter().map(|case| &case.params[..]);
        let points: Vec<&Params> =
            results.chain(record.skipped.iter().map(|(point, _)| &point[..])).collect();
        let mut axes = numeric_axes(&points).into_iter().filter(|(_, values)| values.len() > 1);
        let ((x, xs), (y, ys)) = (axes.next()?, axes.next()?);
        let folded = axes.map(|(axis, _)| clean(&axis)).collect();
        let mut map = Map { axes: [x, y], values: [xs, ys], panels: Vec::new(), folded };
        let measure = Measure::of(record)[0];
        let several = record.results.windows(2).any(|pair| pair[0].policy != pair[1].policy);
        for case in &record.results {
            let Some(place) = map.place(&case.params) else { continue };
            let mut name = panel_name(&case.params);
            if several && !name.contains(&clean(&case.policy)) {
                name = [clean(&case.policy), name].join(", ").trim_end_matches(", ").to_owned();
            }
            let ratio = |f| measure.over_baseline(f, record.of(case));
            let cell = match case.outcome.figures().map(ratio) {
                None => Cell::OutOfMemory,
                Some(None) => continue,
                // Without a baseline there is nothing to compare with.
                Some(Some(slowdown)) => Cell::Slowdown(finite(slowdown)?),
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

    /// The slowdowns of all cells.
    pub(crate) fn slowdowns(&self) -> impl Iterator<Item = f64> {
        let cells = self.panels.iter().flat_map(|(_, cells)| cells.values());
        cells.filter_map(Cell::slowdown)
    }

    /// How many cells are as wanted.
    pub(crate) fn count(&self, wanted: fn(&Cell) -> bool) -> usize {
        self.panels.iter().flat_map(|(_, cells)| cells.values()).filter(|cell| wanted(cell)).count()
    }
}

impl Cell {
    pub(crate) fn slowdown(&self) -> Option<f64> {
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
            case.params = case.params[..1].into();
        }
        assert!(Map::of(&record).is_none());
    }

    #[test]
    fn the_best_of_several_cases_in_a_cell_is_shown() {
        let mut record = common::grid();
        for (index, case) in record.results.iter_mut().enumerate() {
            case.policy = "lru".to_owned();
            let depth = ("depth".to_owned(), AxisValue::Number((index % 3) as f64));
            case.params = case.params.iter().cloned().chain([depth]).collect();
        }
        let map = Map::of(&record).unwrap();
        assert_eq!(map.folded, ["depth"]);
        assert_eq!(map.panels.len(), 1);
        assert!(map.panels[0].1.values().all(|cell| cell.slowdown().is_some()));
    }
}
