//! Where the numbers come from: enough to run the same again.

use super::figures::params;
use super::folder::Report;
use super::summary::Case;
use crate::ChartError;
use crate::html::{Page, Table};
use crate::text_table::Side::Left;
use crate::words::count;

/// Most points of a sweep that are named as skipped.
const MOST_SKIPPED: usize = 100;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    page.heading("This run");
    let kind = match summary.results.iter().any(Case::is_swept) {
        true => "a sweep",
        false => "a run",
    };
    page.facts(&[
        ("scenario", format!("{}, {kind}", summary.scenario)),
        ("cases", summary.results.len().to_string()),
        ("fingerprint", summary.fingerprint.clone()),
        ("seed", summary.seed.to_string()),
        ("version", format!("tiersim {}", summary.tiersim)),
    ]);
    page.paragraph(
        "The same scenario, seed and version give the same bytes. This page is one file: it loads \
         nothing and sends nothing. The same figures are in summary.json and results.csv beside it.",
    );
    if summary.skipped.is_empty() {
        return Ok(());
    }
    let all = count(summary.skipped.len(), "point was skipped", "points were skipped");
    let caption = format!("{all}, as they do not resolve (up to {MOST_SKIPPED} are shown)");
    let mut table = Table::new(&caption, &[("point", Left), ("reason", Left)]);
    for skipped in summary.skipped.iter().take(MOST_SKIPPED) {
        table.row([params(&skipped.params), skipped.reason.clone()]);
    }
    page.table(&table);
    Ok(())
}
