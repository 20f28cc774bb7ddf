//! The answer before anything else: who is best and by how much, what the limit is, what the next
//! one saves, and what does not fit.
//!
//! Sentences are those of the text table, out of the summary; the limit is the split of the best.

use super::folder::Report;
use crate::ChartError;
use crate::html::{Page, Tone};
use crate::split::shares;

/// Parts of the best's step that are named.
const MOST_PARTS: usize = 3;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    page.heading("Verdict");
    if !summary.about.trim().is_empty() {
        page.paragraph(&summary.about);
    }
    let best = ["best", "result"];
    let mut sentences = summary.verdict.iter();
    for said in sentences.by_ref() {
        let tone = match said.word.as_str() {
            "no fit" => Tone::Bad,
            word if best.contains(&word) && summary.best().is_some() => Tone::Good,
            _ => Tone::Plain,
        };
        page.statement(tone, &format!("{}: {}.", capital(&said.word), said.text));
        if best.contains(&said.word.as_str()) {
            limit(page, report);
        }
    }
    if summary.verdict.is_empty() {
        page.statement(
            Tone::Note,
            "Note: this summary is of an earlier tiersim, which did not write its verdict; the \
             table below has the cases in their order.",
        );
    }
    Ok(())
}

/// What most of the best's step is, and what holds everybody up.
fn limit(page: &mut Page, report: &Report) {
    let Some(best) = report.summary.best() else { return };
    let Some(words) = shares(best.parts(), MOST_PARTS) else { return };
    page.statement(
        Tone::Plain,
        &format!(
            "Limit: along its critical path the best's step is {words}. What sets the bound \
             that no policy beats: {}.",
            best.bound_by
        ),
    );
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
