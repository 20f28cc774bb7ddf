//! What the answer rests on: numbers that somebody assumed, how ops were priced, what the lint
//! says, and whether the measured steps are those of a steady state.

use super::folder::Report;
use super::summary::{Case, Number, Steady, Summary, Warning};
use crate::ChartError;
use crate::html::{Page, Table, Tone};
use crate::text_table::Side::Left;
use crate::words::{count, number};

/// Most of a list that are shown.
const MOST: usize = 200;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    page.heading("What it rests on");
    page.facts(&[
        ("hardware", each(summary, &summary.hardware, |case| &case.hardware)),
        ("workload", each(summary, &summary.workload, |case| &case.workload)),
        ("op time", each(summary, &summary.op_time, |case| &case.op_time)),
    ]);
    steady(page, summary);
    statistics(page, summary);
    warnings(page, summary);
    let assumed = summary.assumed_numbers;
    let all = count(assumed as usize, "number is assumed", "numbers are assumed");
    let mut words = format!("{all} among those of the hardware that times rest on");
    if (summary.assumed.len() as u64) < assumed {
        words += ", capacities that the scenario sets included";
    }
    numbers(
        page,
        &format!("{words}."),
        "Assumed numbers, with the reason of each",
        &summary.assumed,
    );
    let words = "Energy and cost can rest on these:";
    let caption = "Numbers of power and price, with their sources";
    if !summary.power_and_price.is_empty() {
        numbers(page, words, caption, &summary.power_and_price);
    }
    Ok(())
}

/// What the cases have of a text, each once.
fn each<'s>(summary: &'s Summary, base: &'s String, of: fn(&Case) -> &String) -> String {
    let mut all: Vec<&String> = Vec::new();
    for case in &summary.results {
        if !all.contains(&of(case)) {
            all.push(of(case));
        }
        if all.len() > 8 {
            return format!(
                "{}, and others of the points",
                all[..8].iter().map(|t| t.as_str()).collect::<Vec<_>>().join(", ")
            );
        }
    }
    if all.is_empty() {
        all.push(base);
    }
    all.into_iter().cloned().collect::<Vec<_>>().join(", ")
}

fn steady(page: &mut Page, summary: &Summary) {
    let ran: Vec<(&Case, &Steady)> =
        summary.results.iter().filter_map(|case| Some((case, case.steady.as_ref()?))).collect();
    let drifting: Vec<String> = ran
        .iter()
        .filter(|(_, steady)| steady.settled == "drifts")
        .map(|(case, steady)| {
            let drift = steady.drift.map_or("n/a".to_owned(), |drift| number(drift * 100.0));
            let warmup = count(steady.warmup_replays as usize, "replay", "replays");
            format!("{}: steps still drift by {drift} % after {warmup} of warm-up", case.label)
        })
        .collect();
    if !drifting.is_empty() {
        let cases = count(drifting.len(), "case is", "cases are");
        page.statement(Tone::Bad, &format!("Not steady: {cases} not in a steady state:"));
        page.list(&drifting[..drifting.len().min(MOST)]);
    } else if !ran.is_empty() {
        let once = ran.iter().filter(|(_, steady)| steady.settled == "once").count();
        let words = match once {
            0 => "the measured steps of every case are those of its steady state",
            _ if once == ran.len() => "the trace runs once and pays for all that it copies",
            _ => "measured steps are those of the steady state, or the trace runs once",
        };
        page.statement(Tone::Good, &format!("Steady: {words}."));
    }
}

fn statistics(page: &mut Page, summary: &Summary) {
    for (word, said) in [("made up", "made up, by depth"), ("synthetic", "drawn from a seed")] {
        let own = summary.results.iter().filter(|case| case.statistics.as_deref() == Some(word));
        let cases = own.count();
        if cases > 0 {
            let cases = count(cases, "case ranks", "cases rank");
            page.statement(
                Tone::Note,
                &format!("Note: {cases} modules by statistics that are {said}."),
            );
        }
    }
}

fn warnings(page: &mut Page, summary: &Summary) {
    if summary.warnings.is_empty() {
        return page.statement(Tone::Good, "Lint: no warning about the machine or the results.");
    }
    let all = count(summary.warnings.len(), "warning", "warnings");
    page.statement(Tone::Bad, &format!("Lint: {all} about the machine or the results."));
    let columns =
        [("rule", Left), ("place", Left), ("found", Left), ("why", Left), ("remedy", Left)];
    let mut table = Table::new("Warnings of the lint", &columns);
    for warning in summary.warnings.iter().take(MOST) {
        let Warning { rule, place, found, reason, remedy } = warning;
        table.row([rule, place, found, reason, remedy]);
    }
    page.table(&table);
}

fn numbers(page: &mut Page, words: &str, caption: &str, numbers: &[Number]) {
    page.paragraph(words);
    let columns = [("number", Left), ("value", Left), ("source", Left), ("which, or why", Left)];
    let mut table = Table::new(caption, &columns);
    for Number { path, value, confidence, source } in numbers.iter().take(MOST) {
        table.row([path, value, confidence, source]);
    }
    if !table.is_empty() {
        page.table(&table);
    }
}
