//! The table that a run prints: the answer in a terminal, before anybody opens a chart.
//!
//! The question and the [verdict](crate::verdict) come first, then one row per case, then what was run and
//! what it rests on. A narrow table has one block with as many columns as fit; a wide one has all:
//! time, then memory and traffic. Of very many cases it prints the Pareto front and the quickest
//! case of each policy, and says how many it leaves out. Sums are per measured step. Columns that
//! are zero for every case (a tier or channel never used) or that repeat the one before are left
//! out, and in a wide table columns that do not fit its width continue in a block of their own.
//! Invariant: every line of a block has the same width, and no line of text is longer than the
//! table may be, unless one word is; nothing of a name reaches the terminal uncleaned.

mod columns;

use crate::contest::order;
use crate::economics_summary::economics_lines;
use crate::hidden::hidden_words;
use crate::measure::Measure;
use crate::names::{assumed, each, names, statistics_words};
use crate::points::pareto_front;
use crate::text_table::{Detail, paragraph, table_in_blocks};
use crate::verdict::verdict;
use crate::words::{axis_value, clean, count, elide, oom_reason, short_fingerprint, what_fits};
use crate::{hints, long_run, packed, pressure, split, steady};
use columns::{economics, memory, narrow, served, time};
use std::collections::BTreeMap;
use std::fmt::Write;
use tiersim_models::results::{CaseRecord, Conditions, Outcome, RunRecord};
use tiersim_models::units::Span;

/// Beyond so many cases only the best are printed.
const MOST_CASES: usize = 64;
/// Of these at most so many of the front.
const MOST_FRONT: usize = 24;
const MOST_LABEL: usize = 44;
const MOST_REASONS: usize = 8;

/// What is said of a case below the table, if anything is.
type Said<'a> = &'a dyn Fn(&CaseRecord) -> Option<String>;

/// The table of a record; `version` is tiersim's own. Ends with a line break.
pub fn text(record: &RunRecord, version: &str, detail: Detail) -> String {
    let width = detail.width();
    let mut out = String::new();
    let question = match record.about.trim() {
        "" => clean(&record.scenario),
        about => format!("{}: {}", clean(&record.scenario), elide(about, 400)),
    };
    paragraph(&mut out, "", "", &question, width);
    for (word, text) in verdict(record) {
        entry(&mut out, &format!("  {word}"), &text, width);
    }
    out.push('\n');
    let names = names(record, MOST_LABEL);
    let mut cases = chosen(record, &mut out, width);
    order(record, &mut cases);
    if cases.is_empty() {
        out.push_str("no case ran\n");
    } else {
        let labels: Vec<String> = cases.iter().map(|&case| names[case].clone()).collect();
        tables(record, &cases, &labels, detail, &mut out);
    }
    let named = || cases.iter().map(|&case| (names[case].clone(), &record.results[case]));
    let ran = named().filter(|(_, case)| case.outcome.figures().is_some());
    out.push_str(&split::section(record, ran, detail));
    out.push('\n');
    details(record, version, width, &mut out);
    let base = steady::words(record.base(), &record.base().baseline);
    let mut base = base.map(|words| ("baseline".to_owned(), words));
    let said: [(&str, Said<'_>); 7] = [
        ("hidden memory", &|case| hidden_words(record, case)),
        ("packed", &|case| packed::words(record, case)),
        ("statistics", &statistics_words),
        ("memory pressure", &|case| pressure::words(record, case)),
        ("not steady", &|case| steady::words(record.of(case), case.outcome.figures()?)),
        ("long run", &long_run::words),
        ("hints", &hints::words),
    ];
    for (title, words) in said {
        let first = if title == "not steady" { base.take() } else { None };
        let cases = named().filter_map(|(name, case)| Some((name, words(case)?)));
        say_why(&mut out, title, first.into_iter().chain(cases), width);
    }
    failures(record, &names, &mut out, width);
    if detail == Detail::Narrow {
        out.push_str(
            "\n--wide prints percentiles, traffic, stalls, memory of every tier and costs\n",
        );
    }
    out
}

fn tables(
    record: &RunRecord,
    cases: &[usize],
    labels: &[String],
    detail: Detail,
    out: &mut String,
) {
    let all = match detail {
        Detail::Narrow => {
            let name = longest(labels);
            vec![narrow(record, cases, detail.width().saturating_sub(name))]
        }
        Detail::Wide => {
            let all = [time(record, cases), served(record, cases), memory(record, cases)];
            all.into_iter().chain([economics(record, cases)]).collect()
        }
    };
    let some = all.into_iter().filter(|columns| !columns.is_empty());
    for (index, columns) in some.enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let head = |line: usize, first: &str| row(first, columns.iter().map(|c| &c.header[line]));
        let cells = labels.iter().enumerate();
        let cells = cells.map(|(at, label)| row(label, columns.iter().map(|c| &c.cells[at])));
        let rows: Vec<Vec<String>> =
            [head(0, ""), head(1, "case")].into_iter().chain(cells).collect();
        *out += &table_in_blocks(2, detail.width(), &rows);
    }
}

fn row<'c>(first: &str, others: impl Iterator<Item = &'c String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others.cloned()).collect()
}

/// What was run, and what it rests on.
fn details(record: &RunRecord, version: &str, width: usize, out: &mut String) {
    let mut line = |name: &str, value: &str| entry(out, name, &clean(value), width);
    line("hardware", &each(record, |on| on.hardware.to_string()));
    line("workload", &each(record, |on| on.workload.to_string()));
    line("op time", &each(record, |on| on.op_time.to_string()));
    if let Some(scope) = scope(record.used().into_iter().map(|on| on.devices)) {
        line("devices", &scope);
    }
    let baseline = spread(record, |on| on.baseline.mean_step());
    line("baseline", &format!("{baseline} per step with unlimited HBM"));
    let bound = spread(record, |on| on.bound);
    // The baseline updates on the device what a case may have told the host to update.
    let on_host = record.used().into_iter().any(|on| on.bound > on.baseline.mean_step());
    let on_host = if on_host { ", updating on the host what the baseline does not" } else { "" };
    let bound = format!("{bound} per step: no policy is faster{on_host}, whatever memory it has");
    line("bound", &bound);
    let seeds = each(record, |on| on.seed.to_string());
    line("rests on", &format!("{}, seed {seeds}", assumed(record)));
    for (name, text) in economics_lines(record) {
        line(name, &text);
    }
    let print = short_fingerprint(&record.fingerprint);
    line("run", &format!("{print}, tiersim {version}"));
}

/// What figures are of, where a job has several devices; points may have more and fewer.
pub(crate) fn scope(devices: impl Iterator<Item = u64> + Clone) -> Option<String> {
    let words = "work per second is of all together, every other figure of one of them";
    let (least, most) = (devices.clone().min()?, devices.max()?);
    let many =
        if least == most { most.to_string() } else { format!("{least} to {most}, by point") };
    (most > 1).then(|| format!("{many}: {words}"))
}

/// A time of the conditions; of several the least and the greatest.
fn spread(record: &RunRecord, of: impl Fn(&Conditions) -> Span) -> String {
    let times = || record.used().into_iter().map(&of);
    match (times().min(), times().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}, by point,"),
        (least, _) => least.unwrap_or(Span::ZERO).to_string(),
    }
}

/// A word and what it is, on as many lines as that needs.
fn entry(out: &mut String, word: &str, text: &str, width: usize) {
    paragraph(out, &format!("{word:<10}"), &" ".repeat(10), text, width);
}

/// The cases to print; says how many are left out, and where they are.
fn chosen(record: &RunRecord, out: &mut String, width: usize) -> Vec<usize> {
    let all = record.results.len();
    let done = record.results.iter().filter(|case| case.outcome.figures().is_some()).count();
    if all > MOST_CASES || !record.skipped.is_empty() {
        let cases = count(all, "case", "cases");
        let skipped = record.skipped.len();
        let failed = all - done;
        let _ = writeln!(out, "{cases}: {done} done, {failed} out of memory; {skipped} skipped");
    }
    if all <= MOST_CASES {
        return (0..all).collect();
    }
    let mut cases = pareto_front(record);
    let front = cases.len();
    // A long front is thinned evenly, both ends kept.
    if front > MOST_FRONT {
        cases = (0..MOST_FRONT).map(|i| cases[i * (front - 1) / (MOST_FRONT - 1)]).collect();
    }
    let shown = cases.len();
    // The verdict names the quickest, so it is there; and the quickest of each policy.
    let mut ranked: Vec<usize> = (0..all).filter(|&case| !record.results[case].emulated).collect();
    order(record, &mut ranked);
    let measure = Measure::ranking(record);
    let mut quickest: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (case, result) in record.results.iter().enumerate() {
        let Some(figures) = result.outcome.figures() else { continue };
        let Some(cost) = measure.ps(figures, record.of(result)) else { continue };
        let best = quickest.entry(result.policy.as_str()).or_insert((cost, case));
        *best = (cost, case).min(*best);
    }
    let mut others: Vec<usize> = quickest.into_values().map(|best| best.1).collect();
    others.extend(ranked.first());
    others.sort_unstable();
    others.dedup();
    others.retain(|case| !cases.contains(case));
    cases.extend(others);
    let said = format!(
        "{} of {all} rows: the Pareto front of peak HBM and {} by memory, emulated cases apart \
         ({shown} of {}), then the quickest of each other policy; the other {} rows are in results.csv",
        cases.len(),
        measure.words(),
        count(front, "case", "cases"),
        all - cases.len()
    );
    paragraph(out, "", "", &said, width);
    out.push('\n');
    cases
}

/// Why cases ran out of memory, and what a sweep skipped. Equal reasons share a line.
fn failures(record: &RunRecord, names: &[String], out: &mut String, width: usize) {
    let failed = record.results.iter().zip(names).filter_map(|(case, name)| match &case.outcome {
        Outcome::OutOfMemory(oom) => Some((name.clone(), oom_reason(oom))),
        Outcome::Done(_) => None,
    });
    let skipped = record.skipped.iter().map(|(point, reason)| {
        let at: Vec<String> = point
            .iter()
            .map(|(axis, value)| format!("{} {}", clean(axis), axis_value(value)))
            .collect();
        (at.join(", "), clean(reason))
    });
    say_why(out, "out of memory", failed, width);
    if record.results.iter().any(|case| matches!(case.outcome, Outcome::OutOfMemory(_))) {
        let machine = &record.shared().unwrap_or(record.base()).hardware;
        let _ = writeln!(out, "  {}", what_fits(machine));
    }
    say_why(out, "skipped", skipped, width);
}

fn say_why(
    out: &mut String,
    title: &str,
    cases: impl Iterator<Item = (String, String)>,
    width: usize,
) {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for (what, why) in cases {
        match index.get(&why) {
            Some(&known) => reasons[known].2 += 1,
            None => {
                index.insert(why.clone(), reasons.len());
                reasons.push((what, why, 0));
            }
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(out, "\n{title}");
    }
    for (what, why, more) in reasons.iter().take(MOST_REASONS) {
        let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
        paragraph(out, "  ", "    ", &format!("{what}{more}: {why}"), width);
    }
    if reasons.len() > MOST_REASONS {
        let rest = reasons.len() - MOST_REASONS;
        let _ = writeln!(out, "  and {rest} other reasons, see summary.json");
    }
}

/// How wide the column of labels is.
fn longest(labels: &[String]) -> usize {
    labels.iter().map(|label| crate::wide::columns(label)).max().unwrap_or(0).max(4)
}
