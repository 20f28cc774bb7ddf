//! Where the time goes: the split of each case's mean step along its critical path, as bars and as
//! a table.

use super::bars::bars;
use super::figures::{header, quickest};
use super::folder::Report;
use super::summary::Case;
use crate::ChartError;
use crate::column::{Column, Values};
use crate::html::{Page, Table};
use crate::split::spoken;
use crate::text_table::Side::{Left, Right};

/// Most cases that have a bar and a row: more would not be read.
const MOST_CASES: usize = 24;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    let split: Vec<usize> = summary
        .order()
        .into_iter()
        .filter(|&case| !summary.results[case].parts().is_empty())
        .collect();
    if split.is_empty() {
        return Ok(());
    }
    page.heading("Where the time goes");
    page.paragraph(
        "The critical path of a step leads back from the op that ends it to what that waited for \
         last, and so on. At every moment one command is on it, so the parts add up to the step; \
         copies that computing hides are not on it.",
    );
    if split.len() > MOST_CASES {
        page.paragraph(&format!(
            "{}; the others are in results.csv.",
            quickest(MOST_CASES, &split, summary)
        ));
    }
    let cases: Vec<usize> = split.into_iter().take(MOST_CASES).collect();
    let shown: Vec<&Case> = cases.iter().map(|&case| &summary.results[case]).collect();
    let parts = named_parts(&shown);
    let rows: Vec<(String, Values)> = shown
        .iter()
        .map(|case| (case.label.clone(), parts.iter().map(|part| ms(case, part)).collect()))
        .collect();
    let names: Vec<String> = parts.iter().map(|part| spoken(part)).collect();
    let title = format!("{}: the mean step along its critical path", summary.scenario);
    page.chart(
        &bars(&title, &names, &rows),
        "Each bar is the mean step of a case, made up of what its critical path was spent on.",
    )?;
    table(page, report, &cases, &names, &rows);
    Ok(())
}

fn table(
    page: &mut Page,
    report: &Report,
    cases: &[usize],
    names: &[String],
    rows: &[(String, Values)],
) {
    let columns: Vec<Column> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let ps: Values = rows.iter().map(|(_, ms)| ms[at].map(|ms| ms * 1e9)).collect();
            Column::time(name, "", &ps)
        })
        .collect();
    let headers: Vec<[&str; 2]> = columns.iter().map(header).collect();
    let mut head = vec![("case", Left)];
    head.extend(headers.iter().map(|lines| (lines[0], Right)));
    let mut table = Table::new("Parts of the mean step along its critical path", &head);
    let seconds = headers.iter().enumerate();
    seconds.for_each(|(at, lines)| table.second_line(1 + at, lines[1]));
    for (row, (label, _)) in rows.iter().enumerate() {
        let cells = columns.iter().map(|column| column.cells[row].clone());
        table.row(std::iter::once(label.clone()).chain(cells));
        report.link(&mut table, cases[row], false);
    }
    page.table(&table);
}

/// Milliseconds of a mean step; none of a part that the case's machine does not have.
fn ms(case: &Case, part: &str) -> Option<f64> {
    let split = case.split.as_ref()?;
    let ps = split.parts_ps.get(part).and_then(serde_json::Value::as_u64)?;
    Some(ps as f64 / 1e9 / split.steps.max(1) as f64)
}

/// The parts that some case has any time of, in the order of the summary.
fn named_parts(cases: &[&Case]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, ps) in cases.iter().flat_map(|case| case.parts()) {
        if ps > 0 && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
