//! A row of a comparison: what each result has of a figure, and how the second differs from the
//! first.
//!
//! A share or a figure in per cent differs by points: a per cent of a per cent is read as points, and
//! of a negative one nobody knows which way it goes.
//! Invariant: a table has no more than so many rows, and no case has a second one while another has
//! none.

use super::folder::MOST_ROWS;
use super::summary::Case;
use crate::html::Table;
use crate::units::three_digits;
use crate::words::number;

/// The unit of shares.
pub(super) const PERCENT: f64 = 0.01;
/// What shares are called, in any place of a path. `tiersim.compare` of the Python package has the
/// same; a test holds them together.
const SHARES: [&str; 18] = [
    "gap_to_bound",
    "hit_ratio",
    "kv_hit_ratio",
    "busy_fraction",
    "drift",
    "unpaid",
    "half_width_share",
    "external_mean",
    "external_highest",
    "external_end",
    "internal_mean",
    "internal_highest",
    "internal_end",
    "total_mean",
    "total_highest",
    "total_end",
    "compacted_from",
    "chance",
];
/// What is more than so many times as much is said in times.
const MOST_PERCENT: f64 = 10.0;
pub(super) const ABSENT: &str = "-";

/// What a result has of a case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// A figure as the file has it.
    Figure(String),
    /// The case ran, and has none.
    Absent,
    /// The case ran out of memory.
    OutOfMemory,
    /// The result has no such case.
    NotThere,
}

/// What a point of per cent is in a figure, if it is a share or in per cent.
fn point(path: &str) -> Option<f64> {
    match path.split('.').any(|part| SHARES.contains(&part)) {
        true => Some(PERCENT),
        false => path.ends_with("_percent").then_some(1.0),
    }
}

impl Cell {
    pub(super) fn of(case: Option<&Case>, figure: Option<&String>) -> Cell {
        match (figure, case) {
            (Some(figure), _) => Cell::Figure(figure.clone()),
            (None, None) => Cell::NotThere,
            (None, Some(case)) if case.oom => Cell::OutOfMemory,
            (None, Some(_)) => Cell::Absent,
        }
    }

    /// In a unit, or as the file has it.
    fn shown(&self, unit: Option<f64>) -> String {
        match (self, self.value().zip(unit)) {
            (_, Some((value, unit))) => number(value / unit),
            (Cell::Figure(text), None) => text.clone(),
            (Cell::Absent, None) => ABSENT.to_owned(),
            (Cell::OutOfMemory, None) => "out of memory".to_owned(),
            (Cell::NotThere, None) => "not there".to_owned(),
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Cell::Figure(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Why there is no figure is said of the whole case, in its first row.
    fn is_of_case(&self) -> bool {
        matches!(self, Cell::OutOfMemory | Cell::NotThere)
    }
}

/// A row of the table, before it is known whether there is room for it.
pub(super) struct Row {
    case: String,
    figure: String,
    cells: Vec<Cell>,
    unit: Option<f64>,
    /// What a point is, where the difference is said in points.
    point: Option<f64>,
    /// Whether it stands out.
    pub(super) marked: bool,
}

impl Row {
    pub(super) fn new(names: [&str; 2], cells: Vec<Cell>, unit: Option<f64>) -> Row {
        let marked = cells.windows(2).any(|pair| pair[0] != pair[1]);
        let [case, figure] = names.map(str::to_owned);
        Row { case, figure, cells, unit, point: None, marked }
    }

    /// The same of the figure at a path, which may be a share.
    pub(super) fn at(self, path: &str) -> Row {
        Row { point: point(path), ..self }
    }

    /// What a row says that is not the first of its case: nothing of results that have no figures.
    pub(super) fn further(mut self) -> Row {
        let has: Vec<&Cell> = self.cells.iter().filter(|cell| !cell.is_of_case()).collect();
        self.marked = has.windows(2).any(|pair| pair[0] != pair[1]);
        self
    }

    /// What the second is against the first.
    pub(super) fn change(&self) -> Option<String> {
        let [one, other] = &self.cells[..] else { return None };
        Some(match (one.value(), other.value()) {
            _ if one == other => "equal".to_owned(),
            _ if !self.marked => ABSENT.to_owned(),
            (Some(one), Some(other)) => match self.point {
                Some(point) => format!("{:+.2} points", (other - one) / point),
                None if one > 0.0 && other > MOST_PERCENT * one => {
                    format!("{} times", three_digits(other / one))
                }
                None if one > 0.0 && other >= 0.0 => {
                    format!("{:+.2} %", (other / one - 1.0) * 100.0)
                }
                None => "differs".to_owned(),
            },
            _ => "differs".to_owned(),
        })
    }

    fn write(self, table: &mut Table) {
        let shown: Vec<String> = self.cells.iter().map(|cell| cell.shown(self.unit)).collect();
        let change = self.change();
        let to = 2 + shown.len() + change.iter().len();
        table.row([self.case, self.figure].into_iter().chain(shown).chain(change));
        table.mark(if self.marked { (2..to).collect() } else { Vec::new() });
    }
}

/// Writes as many rows as a table can have, the first ones of each case; whether some are left out.
pub(super) fn write_shared(cases: Vec<Vec<Row>>, table: &mut Table) -> bool {
    let rows: usize = cases.iter().map(Vec::len).sum();
    let mut left = MOST_ROWS;
    let mut taken = vec![0; cases.len()];
    for round in 0..cases.iter().map(Vec::len).max().unwrap_or(0) {
        for (case, taken) in cases.iter().zip(&mut taken) {
            if round < case.len() && left > 0 {
                (*taken, left) = (round + 1, left - 1);
            }
        }
    }
    for (case, taken) in cases.into_iter().zip(taken) {
        case.into_iter().take(taken).for_each(|row| row.write(table));
    }
    rows > MOST_ROWS
}
