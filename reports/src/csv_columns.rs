//! Columns of `results.csv`: a name, and how a case's cell is made.

use crate::places::Places;
use crate::words::finite;
use std::rc::Rc;
use tiersim_models::results::{CaseRecord, Conditions, Figures, RunRecord};
use tiersim_models::units::Span;

/// Columns, each with its name and the cell of a case by its index.
pub(crate) struct Columns<'r> {
    record: &'r RunRecord,
    pub(crate) all: Vec<(String, Cell<'r>)>,
}

pub(crate) type Cell<'r> = Box<dyn Fn(usize) -> String + 'r>;

impl<'r> Columns<'r> {
    pub(crate) fn new(record: &'r RunRecord) -> Columns<'r> {
        Columns { record, all: Vec::new() }
    }

    /// Adds a column that every case has.
    pub(crate) fn case(
        &mut self,
        name: impl Into<String>,
        cell: impl Fn(&CaseRecord) -> String + 'r,
    ) {
        let record = self.record;
        self.all.push((name.into(), Box::new(move |case| cell(&record.results[case]))));
    }

    /// Adds a column that is empty for a case that did not run.
    pub(crate) fn figure(
        &mut self,
        name: impl Into<String>,
        cell: impl Fn(&Figures) -> String + 'r,
    ) {
        self.case(name, move |case| case.outcome.figures().map_or_else(String::new, &cell));
    }

    pub(crate) fn float(&mut self, name: impl Into<String>, cell: impl Fn(&Figures) -> f64 + 'r) {
        self.figure(name, move |figures| float(cell(figures)));
    }

    /// Adds a sum over the measured steps, in milliseconds per step.
    pub(crate) fn ms(&mut self, name: impl Into<String>, sum: impl Fn(&Figures) -> Span + 'r) {
        self.figure(name, move |f| per_step(sum(f), f));
    }

    /// Adds a column for each tier, channel or the like; empty where a case's machine has none of
    /// that name.
    pub(crate) fn each<T: Clone + 'r>(
        &mut self,
        what: &str,
        places: Places<T>,
        cell: impl Fn(&Figures, T) -> String + Copy + 'r,
    ) {
        let places = Rc::new(places);
        for (index, name) in places.names.iter().enumerate() {
            let own = Rc::clone(&places);
            self.case(format!("{what}.{name}"), move |case| {
                let figures = case.outcome.figures();
                let there = figures.and_then(|f| Some(cell(f, own.at(case, index)?)));
                there.unwrap_or_default()
            });
        }
    }

    /// Adds what a case ran on.
    pub(crate) fn condition(&mut self, name: &str, cell: impl Fn(&Conditions) -> String + 'r) {
        let record = self.record;
        self.case(name, move |case| cell(record.of(case)));
    }
}

/// A sum over the measured steps as milliseconds per step.
pub(crate) fn per_step(sum: Span, figures: &Figures) -> String {
    float(sum.ps() as f64 / 1e9 / figures.steps.len().max(1) as f64)
}

/// A figure that some cases do not have.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, float)
}

/// The shortest text that reads back as the same number; empty if there is none.
pub(crate) fn float(value: f64) -> String {
    finite(value).map_or_else(String::new, |value| value.to_string())
}
