//! `report.html`: a run or a sweep as one page for a design review, or several of them side by
//! side.
//!
//! The page is made from the files of a result folder and from nothing else: numbers from
//! `summary.json`, charts from the `.svg` files, which say where the mark of which case is, and the
//! simulator, in a run that was asked for one, from the two files that hold it. So the
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
mod compared;
mod correlations;
mod draws;
mod figures;
mod folder;
mod pieces;
mod sections;
mod summary;
mod verdict;
mod what_if;
mod why;

use crate::html::Page;
use crate::{Artefact, ChartError};
use folder::Report;
use sections::SECTIONS;
pub(crate) use summary::{Case, Summary};

pub use folder::{ReportError, ResultFolder, SUMMARY, WHAT_IF_FILES, WHAT_IF_MODULE, is_chart};

/// The page's file.
pub const REPORT: &str = "report.html";

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
    if let [folder] = folders {
        return Ok(page_of(folder)?.finish());
    }
    let mut reports = folders.iter().map(Report::read).collect::<Result<Vec<_>, _>>()?;
    // A page has room for one simulator, and its figures are those of one run.
    reports.iter_mut().for_each(|report| report.what_if = None);
    let names = compare::names(&reports, folders);
    let mut page = Page::new(&names.join(" · "));
    reports.iter_mut().for_each(|report| report.name_cases(&mut page));
    compare::part(&mut page, &reports, &names, compare);
    for (report, name) in reports.iter().zip(&names) {
        page.part(name);
        sections(&mut page, report)?;
    }
    Ok(page.finish())
}

/// The page of one result folder, to which more may be added.
pub(crate) fn page_of(folder: &ResultFolder) -> Result<Page, ReportError> {
    let mut report = Report::read(folder)?;
    let mut page = Page::new(&report.summary.scenario);
    report.name_cases(&mut page);
    sections(&mut page, &report)?;
    Ok(page)
}

fn sections(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    SECTIONS.iter().try_for_each(|section| section(page, report))
}

#[cfg(test)]
mod tests;
