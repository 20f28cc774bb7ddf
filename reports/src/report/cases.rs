//! Every case with all that the summary says of it, each with a place that a link leads to.

use super::chart::numbers;
use super::folder::Report;
use super::summary::{Case, Named};
use crate::ChartError;
use crate::html::{Page, Table, Tone};
use crate::split::shares;
use crate::text_table::Side::{Left, Right};
use crate::words::count;
use serde_json::Value;

/// Most figures of a case that are shown.
const MOST_FIGURES: usize = 300;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    if summary.results.is_empty() {
        return Ok(());
    }
    page.heading("Every case");
    let all = summary.results.len();
    let shown = report.detailed();
    if shown.len() < all {
        page.paragraph(&format!(
            "{} of {all} cases, the first of the table above; the others are in summary.json and \
             results.csv.",
            shown.len()
        ));
    }
    for &case in shown {
        if let Some(id) = &report.ids[case] {
            one(page, id, &summary.results[case]);
        }
    }
    Ok(())
}

fn one(page: &mut Page, id: &str, case: &Case) {
    page.subheading_at(id, &case.label);
    let details = if case.details.is_empty() { "no parameters" } else { &case.details };
    page.paragraph(&format!("Policy {}: {details}.", case.policy));
    match &case.oom_reason {
        Some(why) => page.statement(Tone::Bad, &format!("Out of memory: {}.", why.text)),
        None => {
            let what = if case.serving.is_some() { "Means" } else { "Per step" };
            page.paragraph(&format!("{what}: {}.", numbers(case)));
        }
    }
    if let Some(words) = shares(case.parts(), usize::MAX) {
        page.paragraph(&format!("Along the critical path: {words}."));
    }
    let figures = leaves(&case.all);
    let words = count(figures.len(), "figure", "figures");
    let caption = format!("Figures of {} as in summary.json", case.label);
    let mut table = Table::new(&caption, &[("figure", Left), ("value", Right)]);
    let left = figures.len().saturating_sub(MOST_FIGURES);
    for (name, value) in figures.into_iter().take(MOST_FIGURES) {
        table.row([name, value]);
    }
    if left > 0 {
        table.row([format!("and {left} more, see summary.json"), String::new()]);
    }
    page.folded(&format!("All its {words}"), &table);
}

/// Every number, word and truth value with the path to it; what is null is not there.
pub(super) fn leaves(all: &Named) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in all.iter().filter(|(name, _)| *name != "label") {
        leaf(name, value, &mut found);
    }
    found
}

fn leaf(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => found.push((path.to_owned(), value.to_string())),
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                leaf(&format!("{path}.{index}"), value, found);
            }
        }
        Value::Object(values) => {
            for (name, value) in values {
                leaf(&format!("{path}.{name}"), value, found);
            }
        }
    }
}
