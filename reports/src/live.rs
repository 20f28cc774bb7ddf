//! The pages of `tiersim serve`: a list of results, one result, one scenario with sliders; and what
//! of a result is measured.
//!
//! A result's page is that of `tiersim report`, with a way back to the list. The scenario's page has
//! the sliders of a report, but asks the server that it came from. Only these pages may ask anybody,
//! and their policy says whom.
//! Invariant: no figure is worked out here; what is shown and measured is what `summary.json` says.

use crate::html::{Page, Table, Tone, WhatIf};
use crate::report::{Case, Summary, page_of};
use crate::text_table::Side::{Left, Right};
use crate::units::time;
use crate::words::{clean, count};
use crate::{ReportError, ResultFolder};
use serde::Serialize;
use serde_json::Value;

/// Where the list is.
const HOME: (&str, &str) = ("/", "All results");

/// A page and what a browser may do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPage {
    /// The document.
    pub html: String,
    /// Its content security policy.
    pub policy: String,
}

impl From<Page> for ServedPage {
    fn from(page: Page) -> ServedPage {
        ServedPage { policy: page.policy(), html: page.finish() }
    }
}

/// What a list says of one result, and what is measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// The scenario's name.
    pub scenario: String,
    /// The machine; of several that of the quickest case, and how many there are.
    pub hardware: String,
    /// What the quickest case that fits is called, and in milliseconds what cases are ranked by.
    pub quickest: Option<(String, f64)>,
    /// What that is, such as `mean step time`.
    pub ranked_by: String,
    /// Every case.
    pub cases: Vec<CaseMeasures>,
}

/// What is measured of a case, as `summary.json` has it; of one out of memory there is nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseMeasures {
    /// Its label.
    pub label: String,
    /// Mean step in milliseconds.
    pub step_ms: Option<f64>,
    /// Bytes at the most, by tier.
    pub peak_bytes: Vec<(String, f64)>,
    /// Bytes of the first tier that it may use, if they are limited.
    pub budget_bytes: Option<f64>,
    /// Bytes per step, by channel.
    pub moved_bytes: Vec<(String, f64)>,
    /// Copies per step, by channel that had any.
    pub copies: Vec<(String, f64)>,
    /// Milliseconds per step that ops waited, by channel.
    pub stall_ms: Vec<(String, f64)>,
    /// Of each tier with an allocator.
    pub fragmentation: Vec<Fragmented>,
}

/// Mean shares of a tier over the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragmented {
    /// The tier.
    pub tier: String,
    /// Of its free bytes, what is not in the largest piece.
    pub external: f64,
    /// Of its reserved bytes, what no object asked for.
    pub internal: f64,
    /// The mean of both.
    pub total: f64,
}

/// What a `summary.json` says for a list and for whoever measures.
///
/// # Errors
/// As [`report_page`](crate::report_page).
pub fn overview(folder: &str, summary: &[u8]) -> Result<Overview, ReportError> {
    let read = Summary::read(summary);
    let summary = read.map_err(|what| ReportError::Summary { folder: clean(folder), what })?;
    let best = summary.best();
    let cost = |case: &Case| Some(summary.cost_ms(case)).filter(|ms| ms.is_finite());
    let quickest = best.and_then(|case| Some((case.called(), cost(case)?)));
    let ranked_by = summary.measure().words().to_owned();
    let cases = summary.results.iter().map(|case| {
        let named = |key: &str| {
            let object = case.all.get(key).and_then(Value::as_object).into_iter().flatten();
            object.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
        };
        let list = |key: &str| case.all.get(key).and_then(Value::as_array).into_iter().flatten();
        CaseMeasures {
            label: case.label.clone(),
            step_ms: case.step(),
            peak_bytes: named("peak_bytes"),
            budget_bytes: case.all.get("hbm_budget_bytes").and_then(Value::as_f64),
            moved_bytes: named("moved_bytes"),
            copies: case.transfers.iter().map(|of| (of.lane.clone(), of.per_step)).collect(),
            stall_ms: named("stall_ms"),
            fragmentation: list("allocators").filter_map(fragmented).collect(),
        }
    });
    let cases = cases.collect();
    let machines = summary.each(&summary.hardware, |case| &case.hardware);
    let own = best.map_or(machines[0], |case| &case.hardware);
    let hardware = match machines.len() {
        1 => own.to_owned(),
        several => format!("{own} (of {several} machines)"),
    };
    Ok(Overview { quickest, ranked_by, cases, hardware, scenario: summary.scenario })
}

fn fragmented(allocator: &Value) -> Option<Fragmented> {
    let share = |key: &str| allocator.get(key).and_then(Value::as_f64);
    Some(Fragmented {
        tier: allocator.get("tier")?.as_str()?.to_owned(),
        external: share("external_mean")?,
        internal: share("internal_mean")?,
        total: share("total_mean")?,
    })
}

/// A sweep that has not come to its end, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweepShown {
    /// Its folder below the one that is served.
    pub name: String,
    /// The scenario, as it was named.
    pub scenario: String,
    /// Cases that are finished, and of how many.
    pub done: String,
    /// Cases per second.
    pub rate: String,
    /// The time that is left.
    pub left: String,
}

/// What a list is made of.
#[derive(Clone, Debug)]
pub struct Index<'a> {
    /// What is served, in words.
    pub title: &'a str,
    /// Name of the scenario that can be turned, if there is one.
    pub scenario: Option<&'a str>,
    /// Each result's folder below the one that is served, and what it is or why it is none.
    pub results: &'a [(String, Result<&'a Overview, String>)],
    /// Sweeps on their way.
    pub sweeps: &'a [SweepShown],
}

/// The list.
pub fn index_page(of: &Index<'_>) -> ServedPage {
    let mut page = Page::new(of.title);
    if let Some(scenario) = of.scenario {
        page.heading("What if");
        let columns = [("scenario", Left), ("its page", Left)];
        let mut table = Table::new("The scenario whose numbers can be turned", &columns);
        table.row([scenario, "sliders, with which this server runs it again"]);
        table.lead("/scenario".to_owned());
        page.table(&table);
    }
    if !of.sweeps.is_empty() {
        page.heading("Sweeps on their way");
        let columns = [
            ("folder", Left),
            ("scenario", Left),
            ("cases done", Right),
            ("cases per second", Right),
            ("time left", Right),
        ];
        let caption = "Sweeps that run, were cut off, or are parts to be merged, by their journals";
        let mut table = Table::new(caption, &columns);
        for SweepShown { name, scenario, done, rate, left } in of.sweeps {
            table.row([name, scenario, done, rate, left]);
        }
        page.renewed(&table);
    }
    page.heading("Results");
    let columns = [
        ("folder", Left),
        ("scenario", Left),
        ("machine", Left),
        ("cases", Right),
        ("ranked by", Left),
        ("quickest", Right),
        ("case", Left),
    ];
    let mut table = Table::new("Folders that a run or a sweep wrote", &columns);
    let mut none = Vec::new();
    for (name, result) in of.results {
        match result {
            Ok(overview) => {
                let (label, step) = overview.quickest.clone().unzip();
                let step = step.map_or_else(|| "-".to_owned(), |ms| time(ms * 1e9));
                let (cases, label) = (overview.cases.len().to_string(), label.unwrap_or_default());
                let Overview { scenario, hardware, ranked_by, .. } = overview;
                table.row([name, scenario, hardware, &cases, ranked_by, &step, &label]);
                table.lead(format!("/results/{}", encoded(name)));
            }
            Err(why) => none.push(why.clone()),
        }
    }
    match table.is_empty() {
        true => page.statement(Tone::Note, "Note: there are no results; tiersim run writes some."),
        false => page.table(&table),
    }
    if !none.is_empty() {
        let said = count(none.len(), "folder has no summary", "folders have no summary");
        page.statement(Tone::Note, &format!("Note: {said} that can be read."));
        page.list(&none);
    }
    page.into()
}

/// The page of a result.
///
/// # Errors
/// As [`report_page`](crate::report_page).
pub fn result_page(folder: &ResultFolder) -> Result<ServedPage, ReportError> {
    let mut page = page_of(folder)?;
    page.home = Some(HOME);
    Ok(page.into())
}

/// The page of a scenario whose numbers can be turned. `nominal` are the figures of its cases as
/// JSON, a list for each; `text` is what its file holds, and a tag of that, where it may be changed.
pub fn what_if_page(name: &str, nominal: &str, text: Option<(&str, &str)>) -> ServedPage {
    let mut page = Page::new(name);
    page.home = Some(HOME);
    page.heading("What if");
    page.paragraph(
        "Sliders set what --set sets, and the server runs the scenario again: every number is \
         exact, none is interpolated. Hollow circles are the scenario's cases, filled ones what \
         becomes of them.",
    );
    page.what_if(&WhatIf { inside: None, nominal });
    if let Some((text, tag)) = text {
        page.heading("The scenario");
        page.paragraph("What is saved replaces the file, if tiersim check finds no problem in it.");
        if !page.editor(name, text, tag) {
            page.statement(
                Tone::Note,
                "Note: the file has control characters or marks that no page can show as they \
                 are, so it cannot be changed here.",
            );
        }
    }
    page.into()
}

/// Why there is no such page: what is wrong, the first of it before the others.
pub fn refused_page(title: &str, words: &[String]) -> ServedPage {
    let mut page = Page::new(title);
    page.home = Some(HOME);
    let (first, others) = words.split_first().unzip();
    page.statement(Tone::Bad, &format!("Refused: {}", first.map_or("", String::as_str)));
    page.list(others.unwrap_or_default());
    page.into()
}

/// A path within an address: RFC 3986, section 2.1.
fn encoded(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests;
