//! Several results side by side: cases of one label beside each other, and what differs marked.
//!
//! Two results are told apart by their scenario, or where that is the same by their folder. Of two
//! the difference of the second from the first is said in per cent. Numbers are compared as the
//! files have them, not as they are shown.
//! Invariant: a case that only some have is in the table, with dashes where it is not.

use super::basis::each;
use super::cases::leaves;
use super::folder::{MOST_ROWS, Report, ResultFolder};
use super::summary::{Case, Machine, Summary};
use crate::html::{Page, Table, Tone};
use crate::text_table::Side::{Left, Right};
use crate::units::three_digits;
use crate::words::{count, number, short_fingerprint};
use std::collections::BTreeMap;

/// What is compared of each case without being asked for more, and the unit in which it is shown.
const FIGURES: [(&str, &str, f64); 8] = [
    ("mean step, ms", "step_ms.mean", 1.0),
    ("p99 step, ms", "step_ms.p99", 1.0),
    ("throughput, work/s", "throughput.value", 1.0),
    ("mean TTFT, ms", "serving.ttft_ms.mean", 1.0),
    ("mean TPOT, ms", "serving.tpot_ms.mean", 1.0),
    ("energy of a step, J", "energy_j", 1.0),
    ("price, USD", "cost_usd", 1.0),
    ("step over the bound, %", "gap_to_bound", PERCENT),
];
const PERCENT: f64 = 0.01;
/// What is more than so many times as much is said in times.
const MOST_PERCENT: f64 = 10.0;
const ABSENT: &str = "-";
const GIB: f64 = (1u64 << 30) as f64;

/// A name for each result: all are different.
pub(super) fn names(reports: &[Report], folders: &[ResultFolder]) -> Vec<String> {
    let scenario = |report: &Report| report.summary.scenario.clone();
    let mut names: Vec<String> = Vec::new();
    for (report, folder) in reports.iter().zip(folders) {
        let own = scenario(report);
        let twice = reports.iter().filter(|other| scenario(other) == own).count() > 1;
        let base = if twice { format!("{own} ({})", folder.name) } else { own };
        let mut name = base.clone();
        let mut turn = 1;
        while names.contains(&name) {
            turn += 1;
            name = format!("{base} ({turn})");
        }
        names.push(name);
    }
    names
}

/// The part of the page that has all of them.
pub(super) fn part(page: &mut Page, reports: &[Report], names: &[String], every: bool) {
    page.part("Side by side");
    conditions(page, reports, names);
    figures(page, reports, names);
    if every {
        differences(page, reports, names);
    }
}

fn columns<'n>(
    first: &[(&'n str, crate::text_table::Side)],
    names: &'n [String],
) -> Vec<(&'n str, crate::text_table::Side)> {
    let mut columns = first.to_vec();
    columns.extend(names.iter().map(|name| (name.as_str(), Right)));
    if names.len() == 2 {
        columns.push(("second against first", Right));
    }
    columns
}

/// What the results are of.
fn conditions(page: &mut Page, reports: &[Report], names: &[String]) {
    type Fact = (&'static str, fn(&Summary) -> String);
    let facts: [Fact; 9] = [
        ("scenario", |summary| summary.scenario.clone()),
        ("fingerprint", |summary| short_fingerprint(&summary.fingerprint)),
        ("version", |summary| format!("tiersim {}", summary.tiersim)),
        ("hardware", |summary| each(summary, &summary.hardware, |case| &case.hardware)),
        ("workload", |summary| summary.workload.clone()),
        ("op time", |summary| summary.op_time.clone()),
        ("seed", |summary| summary.seed.to_string()),
        ("assumed numbers", assumed),
        ("best", best),
    ];
    let mut head = vec![("of", Left)];
    head.extend(names.iter().map(|name| (name.as_str(), Left)));
    let mut table = Table::new("What was run; what differs stands out", &head);
    for (name, of) in facts {
        let texts: Vec<String> = reports.iter().map(|report| of(&report.summary)).collect();
        let differ = texts.windows(2).any(|pair| pair[0] != pair[1]);
        table.row(std::iter::once(name.to_owned()).chain(texts));
        table.mark(if differ { (1..=names.len()).collect() } else { Vec::new() });
    }
    page.table(&table);
}

/// Of each machine, where there are several.
fn assumed(summary: &Summary) -> String {
    let own = |of: &Machine| format!("{} of {}", of.assumed_numbers, of.hardware);
    match summary.machines.as_slice() {
        [] => summary.assumed_numbers.to_string(),
        machines => machines.iter().map(own).collect::<Vec<_>>().join(", "),
    }
}

fn best(summary: &Summary) -> String {
    // Labels of cases on several machines end so already, where the machine has the same name.
    let on = |best: &Case| format!(" on {}", best.hardware);
    match summary.best() {
        None => ABSENT.to_owned(),
        Some(best) if summary.machines.is_empty() || best.label.ends_with(&on(best)) => {
            best.label.clone()
        }
        Some(best) => best.label.clone() + &on(best),
    }
}

/// Each label with its cases, one for each result, in the order of the results that have it first.
fn pairs(reports: &[Report]) -> Vec<(&str, Vec<Option<&Case>>)> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pairs: Vec<(&str, Vec<Option<&Case>>)> = Vec::new();
    for (at, report) in reports.iter().enumerate() {
        for case in &report.summary.results {
            let place = *index.entry(&case.label).or_insert(pairs.len());
            if place == pairs.len() {
                pairs.push((&case.label, vec![None; reports.len()]));
            }
            // Labels of one result are all different.
            pairs[place].1[at].get_or_insert(case);
        }
    }
    pairs
}

fn figures(page: &mut Page, reports: &[Report], names: &[String]) {
    let pairs = pairs(reports);
    let head = columns(&[("case", Left), ("figure", Left)], names);
    let mut table = Table::new("Cases side by side; what differs stands out", &head);
    let mut rows = 0;
    for (label, cases) in pairs.iter().take(MOST_ROWS) {
        let all: Vec<Option<BTreeMap<String, String>>> = cases
            .iter()
            .map(|case| Some(leaves(&case.as_ref()?.all).into_iter().collect()))
            .collect();
        let peak = cases.iter().flatten().find_map(|case| Some(case.peak_hbm()?.0.to_owned()));
        let peak =
            peak.map(|tier| (format!("peak {tier}, GiB"), format!("peak_bytes.{tier}"), GIB));
        let own =
            FIGURES.iter().map(|&(title, path, unit)| (title.to_owned(), path.to_owned(), unit));
        for (title, path, unit) in own.chain(peak) {
            let of = |own: &Option<BTreeMap<String, String>>| own.as_ref()?.get(&path).cloned();
            let texts: Vec<Option<String>> = all.iter().map(of).collect();
            if texts.iter().all(Option::is_none) || rows == MOST_ROWS {
                continue;
            }
            rows += 1;
            row(&mut table, [label.to_string(), title], &texts, Some(unit));
        }
    }
    let alone = pairs.iter().filter(|(_, cases)| cases.iter().any(Option::is_none)).count();
    if alone > 0 {
        let all = count(alone, "case is", "cases are");
        page.statement(Tone::Note, &format!("Note: {all} not in all of them."));
    }
    if rows == MOST_ROWS {
        page.paragraph(&format!("The first {MOST_ROWS} rows; the others are in results.csv."));
    }
    page.table(&table);
}

/// A row of what each result has, in a unit or as the file has it, with the second against the first
/// where there are two.
fn row(table: &mut Table, first: [String; 2], texts: &[Option<String>], unit: Option<f64>) {
    let differ = texts.windows(2).any(|pair| pair[0] != pair[1]);
    let value = |text: &Option<String>| text.as_ref()?.parse::<f64>().ok();
    let shown = |text: &Option<String>| match (value(text).zip(unit), text) {
        (Some((value, unit)), _) => number(value / unit),
        (None, Some(text)) => text.clone(),
        (None, None) => ABSENT.to_owned(),
    };
    let mut cells: Vec<String> = first.into();
    let from = cells.len();
    cells.extend(texts.iter().map(shown));
    if let [one, other] = texts {
        cells.push(match (value(one), value(other)) {
            _ if one == other => "equal".to_owned(),
            (Some(one), Some(other)) if unit == Some(PERCENT) => {
                format!("{:+.2} points", (other - one) / PERCENT)
            }
            (Some(one), Some(other)) if one > 0.0 && other > MOST_PERCENT * one => {
                format!("{} times", three_digits(other / one))
            }
            (Some(one), Some(other)) if one != 0.0 => {
                format!("{:+.2} %", (other - one) / one.abs() * 100.0)
            }
            _ => "differs".to_owned(),
        });
    }
    let to = cells.len();
    table.row(cells);
    table.mark(if differ { (from..to).collect() } else { Vec::new() });
}

/// Every figure of every case in which two results differ.
fn differences(page: &mut Page, reports: &[Report], names: &[String]) {
    page.heading("Every difference");
    let head = columns(&[("case", Left), ("figure", Left)], names);
    let mut table = Table::new("Figures of summary.json that differ", &head);
    let (mut shown, mut all) = (0, 0);
    for (label, cases) in pairs(reports) {
        let [Some(one), Some(other)] = cases[..] else { continue };
        let other: BTreeMap<String, String> = leaves(&other.all).into_iter().collect();
        let one = leaves(&one.all);
        let known: BTreeMap<String, String> = one.iter().cloned().collect();
        let added = other.iter().filter(|(path, _)| !known.contains_key(*path));
        let both =
            one.iter().map(|(path, text)| (path, Some(text.clone()), other.get(path).cloned()));
        for (path, a, b) in both.chain(added.map(|(path, text)| (path, None, Some(text.clone())))) {
            if a == b {
                continue;
            }
            all += 1;
            if shown < MOST_ROWS {
                shown += 1;
                row(&mut table, [label.to_owned(), path.clone()], &[a, b], None);
            }
        }
    }
    if all == 0 {
        return page.statement(Tone::Good, "Equal: no figure of the cases that both have differs.");
    }
    page.paragraph(&format!(
        "{} of cases that both have; {shown} shown.",
        count(all, "figure differs", "figures differ")
    ));
    page.table(&table);
}
