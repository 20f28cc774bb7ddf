//! Several results side by side: cases of one label beside each other, and what differs marked.
//!
//! Two results are told apart by their scenario, or where that is the same by their folder. Of two
//! the difference of the second from the first is said in per cent, or in points where the figure is
//! a share or in per cent itself. Numbers are compared as the
//! files have them, not as they are shown. A case out of memory has no figures, and is told from one
//! that is not there.
//! Invariant: a case that only some have is in the table, which says where it is not.

use super::basis::each;
use super::cases::leaves;
use super::compared::{ABSENT, Cell, PERCENT, Row, write_shared};
use super::folder::{MOST_ROWS, Report, ResultFolder};
use super::summary::{Case, Machine, Summary};
use crate::html::{Page, Table, Tone};
use crate::text_table::Side::{Left, Right};
use crate::words::{count, short_fingerprint};
use std::collections::BTreeMap;

/// What is compared of each case without being asked for more, and the unit in which it is shown.
const FIGURES: [(&str, &str, f64); 8] = [
    ("mean step, ms", "step_ms.mean", 1.0),
    ("p99 step, ms", "step_ms.p99", 1.0),
    (THROUGHPUT, "throughput.value", 1.0),
    ("mean TTFT, ms", "serving.ttft_ms.mean", 1.0),
    ("mean TPOT, ms", "serving.tpot_ms.mean", 1.0),
    ("energy of a step, J", "energy_j", 1.0),
    ("price, USD", "cost_usd", 1.0),
    ("step over the bound, %", "gap_to_bound", PERCENT),
];
/// What the throughput of results is called that count different things.
const THROUGHPUT: &str = "throughput, work/s";
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

/// A label and its cases, one for each result.
type Pair<'r> = (&'r str, Vec<Option<&'r Case>>);

/// Each label with its cases, in the order of the results that have it first.
fn pairs(reports: &[Report]) -> Vec<Pair<'_>> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pairs: Vec<Pair> = Vec::new();
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

/// Cases side by side, each with what it has of the figures.
fn figures(page: &mut Page, reports: &[Report], names: &[String]) {
    let pairs = pairs(reports);
    let head = columns(&[("case", Left), ("figure", Left)], names);
    let mut table = Table::new("Cases side by side; what differs stands out", &head);
    let throughput = throughput(reports);
    // A case has one row at the least.
    let mut some = in_turn(&pairs);
    some.truncate(MOST_ROWS);
    some.sort_unstable();
    let rows = some.iter().map(|&at| rows(&pairs[at], &throughput)).collect();
    let cut = write_shared(rows, &mut table) || some.len() < pairs.len();
    let alone = pairs.iter().filter(|(_, cases)| cases.iter().any(Option::is_none)).count();
    if alone > 0 {
        let all = count(alone, "case is", "cases are");
        page.statement(Tone::Note, &format!("Note: {all} not in all of them."));
    }
    if cut {
        page.paragraph(&format!(
            "{MOST_ROWS} rows, of each case the first ones; all figures of a case are in the \
             results.csv of its own folder."
        ));
    }
    page.table(&table);
}

/// Cases in the order in which they get room: in turn one that all results have, and one of those
/// that are only in some, for each such set of results.
fn in_turn(pairs: &[Pair]) -> Vec<usize> {
    let mut kinds: BTreeMap<Vec<bool>, usize> = BTreeMap::new();
    let turn = pairs.iter().enumerate().map(|(at, (_, cases))| {
        let taken = kinds.entry(cases.iter().map(Option::is_some).collect()).or_default();
        *taken += 1;
        (*taken, at)
    });
    let mut order: Vec<(usize, usize)> = turn.collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// What all results count, if that is the same.
fn throughput(reports: &[Report]) -> String {
    let cases = reports.iter().flat_map(|report| &report.summary.results);
    let mut units = cases.filter_map(|case| Some(&case.throughput.as_ref()?.unit));
    match units.next() {
        Some(unit) if units.all(|other| other == unit) => format!("throughput, {unit}"),
        _ => THROUGHPUT.to_owned(),
    }
}

/// The rows of a case. One that a single result has needs one only: its figures are in the part of
/// that result.
fn rows((label, cases): &Pair, throughput: &str) -> Vec<Row> {
    let all: Vec<Option<BTreeMap<String, String>>> =
        cases.iter().map(|case| Some(leaves(&case.as_ref()?.all).into_iter().collect())).collect();
    let there = || cases.iter().flatten();
    let out = there().any(|case| case.oom);
    let peak = there().find_map(|case| Some(case.peak_hbm()?.0.to_owned()));
    let peak = peak.map(|tier| (format!("peak {tier}, GiB"), format!("peak_bytes.{tier}"), GIB));
    let own = FIGURES.iter().map(|&(title, path, unit)| {
        let title = if title == THROUGHPUT { throughput } else { title };
        (title.to_owned(), path.to_owned(), unit)
    });
    let mut rows: Vec<Row> = Vec::new();
    for (title, path, unit) in own.chain(peak) {
        let of = |(case, figures): (&Option<&Case>, &Option<BTreeMap<_, _>>)| {
            Cell::of(*case, figures.as_ref().and_then(|figures| figures.get(&path)))
        };
        let cells: Vec<Cell> = cases.iter().zip(&all).map(of).collect();
        let some = cells.iter().any(|cell| matches!(cell, Cell::Figure(_)));
        let row = Row::new([label, &title], cells, Some(unit)).at(&path);
        match rows.is_empty() {
            true if some || out => rows.push(row),
            false if some => rows.push(row.further()),
            _ => {}
        }
    }
    if there().count() < 2 {
        rows.truncate(1);
    }
    let parameters = parameters(label, cases).further();
    if parameters.marked {
        rows.insert(rows.len().min(1), parameters);
    }
    rows
}

/// What a case's policy is, and what it was told.
fn parameters(label: &str, cases: &[Option<&Case>]) -> Row {
    let of = |case: &Option<&Case>| match case {
        Some(case) if case.details.is_empty() => Cell::Figure(case.policy.clone()),
        Some(case) => Cell::Figure(format!("{}: {}", case.policy, case.details)),
        None => Cell::NotThere,
    };
    Row::new([label, "policy and its parameters"], cases.iter().map(of).collect(), None)
}

/// Every figure of every case in which two results differ.
fn differences(page: &mut Page, reports: &[Report], names: &[String]) {
    page.heading("Every difference");
    let head = columns(&[("case", Left), ("figure", Left)], names);
    let mut table = Table::new("Figures of summary.json that differ", &head);
    let (mut cases, mut all) = (Vec::new(), 0);
    for (label, pair) in pairs(reports) {
        let [Some(one), Some(other)] = pair[..] else { continue };
        let mut rows = differing(label, [one, other]);
        all += rows.len();
        rows.truncate(MOST_ROWS);
        if !rows.is_empty() && cases.len() < MOST_ROWS {
            cases.push(rows);
        }
    }
    if all == 0 {
        return page.statement(Tone::Good, "Equal: no figure of the cases that both have differs.");
    }
    let words = count(all, "figure differs", "figures differ");
    let shown = match write_shared(cases, &mut table) || all > MOST_ROWS {
        true => format!("{MOST_ROWS} shown, of each case the first ones"),
        false => format!("{all} shown"),
    };
    page.paragraph(&format!("{words} of cases that both have; {shown}."));
    page.table(&table);
}

fn differing(label: &str, cases: [&Case; 2]) -> Vec<Row> {
    let [one, other] = cases.map(|case| leaves(&case.all));
    let [first, second]: [BTreeMap<&String, &String>; 2] =
        [&one, &other].map(|all| all.iter().map(|(path, text)| (path, text)).collect());
    let added = other.iter().map(|(path, _)| path).filter(|path| !first.contains_key(path));
    let paths = one.iter().map(|(path, _)| path).chain(added);
    let row = |path: &String| {
        let cells = cases.iter().zip([&first, &second]);
        let cells = cells.map(|(case, all)| Cell::of(Some(case), all.get(path).copied()));
        Row::new([label, path], cells.collect(), None).at(path)
    };
    paths.map(row).filter(|row| row.marked).collect()
}
