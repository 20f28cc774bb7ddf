//! What if a number were another: the sliders, in reports that were asked for them.
//!
//! The folder then holds two files more: the simulator as a module of WebAssembly, and the files
//! that the scenario reads, both packed with gzip. The page takes them over as they are and adds
//! the figures of its own summary, which the module has to give again before it may answer
//! anything else: so a module of another tiersim never shows a number.
//! Invariant: without these two files the page is what it is without this section.

use super::folder::Report;
use super::summary::Case;
use crate::ChartError;
use crate::html::{Page, WhatIf};
use serde_json::{Value, json};

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let Some((module, files)) = &report.what_if else { return Ok(()) };
    page.heading("What if");
    page.paragraph(
        "Sliders set what --set sets, and the simulator itself runs the scenario again inside this \
         page: every number is exact, none is interpolated, and nothing is sent anywhere. Hollow \
         circles are the report's cases, filled ones what becomes of them.",
    );
    let nominal: Vec<Value> = report.summary.results.iter().map(figures).collect();
    let inside = Some((&module[..], &files[..]));
    page.what_if(&WhatIf { inside, nominal: &Value::from(nominal).to_string() });
    Ok(())
}

/// The figures of a case, in the order in which the module gives them; null if it has none.
fn figures(case: &Case) -> Value {
    let Some((_, peak)) = case.peak_hbm().filter(|_| !case.oom) else { return Value::Null };
    match &case.serving {
        Some(serving) => json!([serving.ttft_ms.mean, serving.tpot_ms.mean, peak]),
        None => json!([case.step(), peak]),
    }
}
