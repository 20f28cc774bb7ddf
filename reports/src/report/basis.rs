//! What the answer rests on: numbers that somebody assumed, how ops were priced, what the lint
//! says, and whether the measured steps are those of a steady state.

use super::folder::Report;
use super::summary::{Case, Machine, Number, Steady, Summary, Warning};
use crate::ChartError;
use crate::html::{Page, Table, Tone};
use crate::table::scope;
use crate::text_table::Side::Left;
use crate::words::{count, number};
use std::collections::BTreeSet;

/// Most of a list that are shown.
const MOST: usize = 200;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let summary = &report.summary;
    page.heading("What it rests on");
    let mut facts = vec![
        ("hardware", each(summary, &summary.hardware, |case| &case.hardware)),
        ("workload", each(summary, &summary.workload, |case| &case.workload)),
        ("op time", each(summary, &summary.op_time, |case| &case.op_time)),
    ];
    // Files of earlier versions do not say it of each.
    let of_all = summary.devices;
    let devices = summary.results.iter().map(|case| match case.devices {
        0 => of_all,
        own => own,
    });
    facts.extend(scope(devices).map(|scope| ("devices", scope)));
    page.facts(&facts);
    steady(page, summary);
    statistics(page, summary);
    warnings(page, summary);
    if summary.machines.is_empty() {
        let (assumed, all) = (&summary.assumed, summary.assumed_numbers);
        sources(page, "the hardware", "", (assumed, all), &summary.power_and_price);
    }
    for Machine { hardware, assumed_numbers, assumed, power_and_price } in &summary.machines {
        let of = format!(" of {hardware}");
        sources(page, hardware, &of, (assumed, *assumed_numbers), power_and_price);
    }
    missing(page, summary);
    Ok(())
}

/// The numbers of a machine that somebody may ask the source of; captions of several machines say
/// `of` which.
fn sources(
    page: &mut Page,
    machine: &str,
    of: &str,
    (assumed, count_of_all): (&[Number], u64),
    power_and_price: &[Number],
) {
    let all = count(count_of_all as usize, "number is assumed", "numbers are assumed");
    let mut words = format!("{all} among those of {machine} that times rest on");
    if (assumed.len() as u64) < count_of_all {
        words += ", capacities that the scenario sets included";
    }
    let caption = format!("Assumed numbers{of}, with the reason of each");
    numbers(page, &format!("{words}."), &caption, assumed);
    if !power_and_price.is_empty() {
        let words = format!("Energy and cost{of} can rest on these:");
        let caption = format!("Numbers of power and price{of}, with their sources");
        numbers(page, &words, &caption, power_and_price);
    }
}

/// Why some sums of energy and price are not there; nothing where no machine states any number.
fn missing(page: &mut Page, summary: &Summary) {
    let stated = summary.machines.iter().map(|machine| &machine.power_and_price);
    if stated.chain([&summary.power_and_price]).all(|numbers| numbers.is_empty()) {
        return;
    }
    for (sum, what) in [("energy", "energy"), ("cost", "price")] {
        let missing = |case: &Case| -> Vec<String> {
            let numbers = case.all.get(sum).and_then(|sum| sum.get("missing")?.as_array());
            numbers
                .into_iter()
                .flatten()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect()
        };
        let without: Vec<Vec<String>> =
            summary.results.iter().map(missing).filter(|names| !names.is_empty()).collect();
        let names: BTreeSet<&String> = without.iter().flatten().collect();
        if !names.is_empty() {
            let cases = count(without.len(), "case has", "cases have");
            let names = names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!("Note: {cases} no sum of {what}, for nobody states {names}.");
            page.statement(Tone::Note, &text);
        }
    }
}

/// What the cases have of a text, each once.
pub(super) fn each(summary: &Summary, base: &str, of: fn(&Case) -> &String) -> String {
    let all = summary.each(base, of);
    match all.get(..8).filter(|_| all.len() > 8) {
        Some(first) => format!("{}, and others of the points", first.join(", ")),
        None => all.join(", "),
    }
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
