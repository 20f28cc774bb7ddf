//! `report.html`: a run or a sweep as one page for a design review, or several of them side by
//! side.
//!
//! The page is made from the files of a result folder and from nothing else: numbers from
//! `summary.json`, charts from the `.svg` files, which say where the mark of which case is. So the
//! page that a run writes and the page that is made of its folder a year later are the same bytes,
//! and no number on the page is another than the file's.
//! Invariant: whatever the files hold, the answer is a page or a sentence.

mod about;
mod bars;
mod basis;
mod cases;
mod chart;
mod charts;
mod compare;
mod figures;
mod sections;
mod summary;
mod verdict;
mod why;

use crate::drawing::Drawing;
use crate::html::{Page, Table};
use crate::words::clean;
use crate::{Artefact, ChartError};
use figures::MOST_ROWS;
use sections::SECTIONS;
use summary::Summary;

/// The page's file.
pub const REPORT: &str = "report.html";
/// What results are read from.
pub const SUMMARY: &str = "summary.json";
/// The chart that has the first place.
const CHART: &str = "latency-vs-memory.svg";
/// Most cases with a place of their own.
const MOST_DETAILS: usize = 32;

/// A result folder with those of its files that a page is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFolder {
    /// What people call it; on a page of several it tells results of one name apart.
    pub name: String,
    /// `summary.json` and the charts, in any order; others are not looked at.
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
struct Report {
    summary: Summary,
    /// Charts by the name of their file, or why they are none.
    charts: Vec<(String, Result<Drawing, String>)>,
    /// The id of each case on the page, if it has a place: of its own, or in the table.
    ids: Vec<Option<String>>,
    /// Cases in the order of the table.
    order: Vec<usize>,
}

impl Report {
    fn read(folder: &ResultFolder) -> Result<Report, ReportError> {
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
        Ok(Report { summary, charts, ids, order })
    }

    fn chart(&self, name: &str) -> Option<&Result<Drawing, String>> {
        self.charts.iter().find(|(own, _)| own == name).map(|(_, chart)| chart)
    }

    /// The cases that have a place of their own.
    fn detailed(&self) -> &[usize] {
        &self.order[..self.order.len().min(MOST_DETAILS)]
    }

    /// Makes the ids of cases: links to them stand above them.
    fn name_cases(&mut self, page: &mut Page) {
        for &case in self.order.iter().take(MOST_ROWS) {
            let label = format!("case {}", self.summary.results[case].label);
            self.ids[case] = Some(page.id(&label));
        }
    }

    /// The last row of a table leads to its case, which has its place there if it has none of its
    /// own and the table is `of_all`.
    fn link(&self, table: &mut Table, case: usize, of_all: bool) {
        let Some(id) = &self.ids[case] else { return };
        match of_all && !self.detailed().contains(&case) {
            true => table.place(id),
            false => table.link(id),
        }
    }

    fn sections(&self, page: &mut Page) -> Result<(), ChartError> {
        SECTIONS.iter().try_for_each(|section| section(page, self))
    }
}

/// Whether a file of a result folder is a chart that a page shows.
pub fn is_chart(name: &str) -> bool {
    name.ends_with(".svg") && crate::is_artefact(name)
}

/// The page of the files of one run.
pub fn report_artefact(files: &[Artefact]) -> Result<Artefact, ReportError> {
    let folder = ResultFolder { name: String::new(), files: files.to_vec() };
    Ok(Artefact::new(REPORT, report_page(&[folder], false)?))
}

/// The page of one result folder or of several; with `compare` every figure in which two of them
/// differ.
///
/// Of several each has its part, and a first one has their cases side by side. Errors: a summary
/// that is none, and `compare` of other than two.
pub fn report_page(folders: &[ResultFolder], compare: bool) -> Result<String, ReportError> {
    if compare && folders.len() != 2 {
        return Err(ReportError::NotTwo(folders.len()));
    }
    let mut reports = folders.iter().map(Report::read).collect::<Result<Vec<_>, _>>()?;
    if let [report] = &mut reports[..] {
        let mut page = Page::new(&report.summary.scenario);
        report.name_cases(&mut page);
        report.sections(&mut page)?;
        return Ok(page.finish());
    }
    let names = compare::names(&reports, folders);
    let mut page = Page::new(&names.join(" · "));
    reports.iter_mut().for_each(|report| report.name_cases(&mut page));
    compare::part(&mut page, &reports, &names, compare);
    for (report, name) in reports.iter().zip(&names) {
        page.part(name);
        report.sections(&mut page)?;
    }
    Ok(page.finish())
}

#[cfg(test)]
mod tests;
