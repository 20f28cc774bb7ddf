//! A sweep's points as cells of a map: panel, column, row.
//!
//! The first two numeric axes that have more than one value span the map; each combination of the
//! text axes (and of policies, where one point has several) is a panel. Several cases in one cell,
//! as from a third numeric axis, show their best. Emulated cases, which do not pay for every use,
//! have panels of their own behind the others.
//! A slowdown is against unlimited HBM; where points have baselines of their own, as over machines or
//! batches, slowdowns of different cells say nothing of each other, and cells show times.
//! Invariant: every point of the sweep that has both axes is in exactly one cell of one panel.

use crate::measure::Measure;
use crate::words::{clean, finite};
use std::collections::BTreeMap;
use tiersim_models::results::{AxisValue, CaseRecord, RunRecord};
use tiersim_models::units::shown::{Unit, of_times};

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The least of its cases: a slowdown or a time; where requests are served, of their TTFT.
    Value(f64),
    OutOfMemory,
    /// The point does not resolve.
    Skipped,
}

/// Cells by column and row.
pub(crate) type Cells = BTreeMap<(usize, usize), Cell>;

/// Cases that differ in nothing but the axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    pub(crate) name: String,
    /// Its cases do not pay for every access.
    pub(crate) emulated: bool,
    pub(crate) cells: Cells,
}

/// A sweep as cells by panel, column and row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) axes: [String; 2],
    pub(crate) values: [Vec<f64>; 2],
    pub(crate) panels: Vec<Panel>,
    /// Numeric axes over which a cell shows the best.
    pub(crate) folded: Vec<String>,
    /// Of times; none where cells show slowdowns.
    pub(crate) unit: Option<Unit>,
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
        let measure = Measure::of(record)[0];
        let ps = |case: &CaseRecord| measure.ps(case.outcome.figures()?, record.of(case));
        let unit = record.common(|on| measure.baseline(on)).is_none().then(|| {
            let most = record.results.iter().filter_map(ps).max();
            of_times(most.unwrap_or(0) as f64)
        });
        let mut map = Map { axes: [x, y], values: [xs, ys], panels: Vec::new(), folded, unit };
        let several = record.results.windows(2).any(|pair| pair[0].policy != pair[1].policy);
        for case in &record.results {
            let Some(place) = map.place(&case.params) else { continue };
            let mut name = panel_name(&case.params);
            if several && !name.contains(&clean(&case.policy)) {
                name = [clean(&case.policy), name].join(", ").trim_end_matches(", ").to_owned();
            }
            let value = |figures| match unit {
                Some((_, size)) => ps(case).map(|ps| ps as f64 / size),
                None => measure.over_baseline(figures, record.of(case)),
            };
            let cell = match case.outcome.figures().map(value) {
                None => Cell::OutOfMemory,
                Some(None) => continue,
                // Without a baseline there is nothing to compare with.
                Some(Some(value)) => Cell::Value(finite(value)?),
            };
            map.put((&name, case.emulated), place, cell);
        }
        for (point, _) in &record.skipped {
            let Some(place) = map.place(point) else { continue };
            let name = panel_name(point);
            let own = |panel: &str| name.is_empty() || panel.contains(&name);
            let panels = map.panels.iter().map(|panel| (panel.name.clone(), panel.emulated));
            let panels: Vec<(String, bool)> = panels.filter(|(panel, _)| own(panel)).collect();
            if panels.is_empty() {
                map.put((&name, false), place, Cell::Skipped);
            }
            for (panel, emulated) in panels {
                map.put((&panel, emulated), place, Cell::Skipped);
            }
        }
        // Where there are too many panels, those that pay for every access are shown.
        map.panels.sort_by_key(|panel| panel.emulated);
        let some = map.shown().next().is_some();
        some.then_some(map)
    }

    /// Column and row of a point, if it has both axes.
    fn place(&self, point: &Params) -> Option<(usize, usize)> {
        let at = |axis: usize| {
            let value = number_at(point, &self.axes[axis])?;
            self.values[axis].iter().position(|v| *v == value)
        };
        Some((at(0)?, at(1)?))
    }

    fn put(&mut self, (name, emulated): (&str, bool), place: (usize, usize), cell: Cell) {
        let own = |panel: &Panel| panel.name == name && panel.emulated == emulated;
        let index = self.panels.iter().position(own).unwrap_or_else(|| {
            self.panels.push(Panel { name: name.to_owned(), emulated, cells: BTreeMap::new() });
            self.panels.len() - 1
        });
        let old = self.panels[index].cells.get(&place).copied();
        let kept = match (old, cell) {
            (Some(Cell::Value(a)), Cell::Value(b)) => Cell::Value(a.min(b)),
            (Some(Cell::Value(a)), _) => Cell::Value(a),
            (Some(Cell::OutOfMemory), Cell::Skipped) => Cell::OutOfMemory,
            _ => cell,
        };
        self.panels[index].cells.insert(place, kept);
    }

    /// What all cells show.
    pub(crate) fn shown(&self) -> impl Iterator<Item = f64> {
        self.panels.iter().flat_map(Panel::shown)
    }

    /// The least of those who pay for every access.
    pub(crate) fn best(&self) -> Option<f64> {
        let paid = self.panels.iter().filter(|panel| !panel.emulated);
        paid.flat_map(Panel::shown).min_by(f64::total_cmp)
    }

    /// How many cells are as wanted.
    pub(crate) fn count(&self, wanted: fn(&Cell) -> bool) -> usize {
        let cells = self.panels.iter().flat_map(|panel| panel.cells.values());
        cells.filter(|cell| wanted(cell)).count()
    }
}

impl Panel {
    pub(crate) fn shown(&self) -> impl Iterator<Item = f64> {
        self.cells.values().filter_map(Cell::value)
    }

    /// Its name, with the mark of what is in it.
    pub(crate) fn title(&self) -> String {
        match (self.emulated, self.name.as_str()) {
            (true, "") => "emulated".to_owned(),
            (true, name) => format!("{name} (emulated)"),
            (false, name) => name.to_owned(),
        }
    }
}

impl Cell {
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Cell::Value(value) => Some(*value),
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
    use tiersim_models::results::Outcome;

    #[test]
    fn a_sweep_of_462_points_and_those_that_do_not_resolve_fill_every_cell() {
        let record = common::sweep();
        assert_eq!(record.results.len(), 462);
        let map = Map::of(&record).unwrap();
        assert_eq!(map.values.each_ref().map(Vec::len), [21, 21]);
        assert_eq!(map.panels.len(), 2);
        assert!(map.panels.iter().all(|panel| panel.cells.len() == 21 * 21));
        let failed = map.count(|cell| *cell == Cell::OutOfMemory);
        let skipped = map.count(|cell| *cell == Cell::Skipped);
        assert_eq!((failed, skipped), (12, record.skipped.len()));
    }

    #[test]
    fn emulated_cases_have_panels_of_their_own_and_are_never_the_best() {
        let mut record = common::sweep();
        for case in &mut record.results {
            case.emulated = case.details.ends_with("in place");
            if let (true, Outcome::Done(_)) = (case.emulated, &case.outcome) {
                case.outcome = common::done(403.0, 20.0);
            }
        }
        // One point of the other way of access is emulated too: it is not among those that pay.
        let odd = record.results.iter_mut().rev().find(|case| case.outcome.figures().is_some());
        odd.expect("some ran").emulated = true;
        let map = Map::of(&record).unwrap();
        let titles: Vec<String> = map.panels.iter().map(Panel::title).collect();
        assert_eq!(titles, ["migrate", "in place (emulated)", "migrate (emulated)"]);
        let (best, least) = (map.best().unwrap(), map.shown().min_by(f64::total_cmp).unwrap());
        assert!(least < best, "{least}, {best}");
        assert_eq!(map.panels[0].shown().min_by(f64::total_cmp), Some(best));
    }

    #[test]
    fn policies_have_panels_of_their_own() {
        let map = Map::of(&common::grid()).unwrap();
        let names: Vec<&str> = map.panels.iter().map(|panel| panel.name.as_str()).collect();
        assert_eq!(names, ["lru", "hints", "adam-state"]);
        assert!(map.panels.iter().all(|panel| panel.cells.len() == 30));
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
        assert!(map.panels[0].cells.values().all(|cell| cell.value().is_some()));
    }
}
