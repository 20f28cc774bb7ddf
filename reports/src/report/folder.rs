//! A result folder as the page has it: the summary, the charts, and where each case stands.
//!
//! Invariant: the order in which a folder lists its files changes nothing.

use super::summary::Summary;
use crate::drawing::Drawing;
use crate::html::{Page, Table};
use crate::words::clean;
use crate::{Artefact, ChartError};

/// What results are read from.
pub const SUMMARY: &str = "summary.json";
/// The simulator, packed.
pub const WHAT_IF_MODULE: &str = "what-if.wasm";
/// What the scenario of a simulator reads, packed.
pub const WHAT_IF_FILES: &str = "what-if.files.lzma";
/// The chart that has the first place.
pub(super) const CHART: &str = "latency-vs-memory.svg";
/// Most rows of a table of cases: more would be no table to read.
pub(super) const MOST_ROWS: usize = 300;
/// Most cases with a place of their own.
const MOST_DETAILS: usize = 32;

/// A result folder with those of its files that a page is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFolder {
    /// What people call it; on a page of several it tells results of one name apart.
    pub name: String,
    /// `summary.json`, the charts and the two files of a simulator, in any order; others are not
    /// looked at.
    pub files: Vec<Artefact>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A folder's `summary.json` is none.
    #[error("{folder}/summary.json: {what}")]
    Summary {
        /// The folder.
        folder: String,
        /// Line, column and what is wrong there.
        what: String,
    },
    /// Two results were to be compared, and there are more or fewer.
    #[error("two results can be compared, not {0}")]
    NotTwo(usize),
    /// A chart of the page could not be made.
    #[error(transparent)]
    Chart(#[from] ChartError),
}

/// One result folder, read.
pub(super) struct Report {
    pub(super) summary: Summary,
    /// Charts by the name of their file, or why they are none.
    pub(super) charts: Vec<(String, Result<Drawing, String>)>,
    /// The id of each case on the page, if it has a place: of its own, or in the table.
    pub(super) ids: Vec<Option<String>>,
    /// Cases in the order of the table.
    order: Vec<usize>,
    /// A simulator and its files, as they are, if the folder has both.
    pub(super) what_if: Option<(Vec<u8>, Vec<u8>)>,
}

impl Report {
    /// Reads a folder. Errors: its summary is none; a chart that is none is kept as why.
    pub(super) fn read(folder: &ResultFolder) -> Result<Report, ReportError> {
        let wrong = |what: String| ReportError::Summary { folder: clean(&folder.name), what };
        let summary = folder.files.iter().find(|file| file.name == SUMMARY);
        let summary = summary.ok_or_else(|| wrong("there is none".to_owned()))?;
        let summary = Summary::read(&summary.bytes).map_err(wrong)?;
        let charts = folder.files.iter().filter(|file| is_chart(&file.name));
        let mut charts: Vec<(String, Result<Drawing, String>)> = charts
            .map(|file| {
                let text = std::str::from_utf8(&file.bytes).map_err(|_| "it is no text".to_owned());
                (file.name.clone(), text.and_then(Drawing::read))
            })
            .collect();
        // The order in which a folder lists its files is none.
        charts.sort_by(|a, b| a.0.cmp(&b.0));
        let (ids, order) = (vec![None; summary.results.len()], summary.order());
        let held = |name: &str| {
            let file = folder.files.iter().find(|file| file.name == name);
            file.map(|file| file.bytes.clone())
        };
        let what_if = held(WHAT_IF_MODULE).zip(held(WHAT_IF_FILES));
        Ok(Report { summary, charts, ids, order, what_if })
    }

    pub(super) fn chart(&self, name: &str) -> Option<&Result<Drawing, String>> {
        self.charts.iter().find(|(own, _)| own == name).map(|(_, chart)| chart)
    }

    /// The cases that have a place of their own.
    pub(super) fn detailed(&self) -> &[usize] {
        &self.order[..self.order.len().min(MOST_DETAILS)]
    }

    /// Makes the ids of cases: links to them stand above them.
    pub(super) fn name_cases(&mut self, page: &mut Page) {
        for &case in self.order.iter().take(MOST_ROWS) {
            let label = format!("case {}", self.summary.results[case].label);
            self.ids[case] = Some(page.id(&label));
        }
    }

    /// The last row of a table leads to its case, which has its place there if it has none of its
    /// own and the table is `of_all`.
    pub(super) fn link(&self, table: &mut Table, case: usize, of_all: bool) {
        let Some(id) = &self.ids[case] else { return };
        match of_all && !self.detailed().contains(&case) {
            true => table.place(id),
            false => table.link(id),
        }
    }
}

/// Whether a file of a result folder is a chart that a page shows.
pub fn is_chart(name: &str) -> bool {
    name.ends_with(".svg") && crate::is_artefact(name)
}
