//! The table that a run prints: the answer in a terminal, before anybody opens a chart.
//!
//! The question and the [verdict](verdict) come first, then one row per case, then what was run and what
//! it rests on. A narrow table has one block with as many columns as fit; a wide one has all: time, then
//! memory and traffic. A sweep prints its Pareto front and the quickest case of each policy. Sums
//! are per measured step. Columns that are zero for every case (a tier or lane never used) or that
//! repeat the one before are left out, and in a wide table columns that do not fit its width continue in
//! a block of their own.
//! Invariant: every line of a block has the same width, and no line of text is longer than the table may
//! be, unless one word is; nothing of a name reaches the terminal uncleaned.

mod columns;
mod verdict;

use crate::contest::order;
use crate::economics_summary::economics_lines;
use crate::hidden::hidden_words;
use crate::hints;
use crate::points::pareto_front;
use crate::pressure;
use crate::split;
use crate::steady;
use crate::words::{axis_value, clean, count, elide, oom_reason, short_fingerprint, wrapped};
use columns::{Column, economics, memory, narrow, served, time};
use std::collections::BTreeMap;
use std::fmt::Write;
use tiersim_sim::record::{CaseRecord, Figures, Outcome, RunRecord};
use tiersim_sim::scenario::AxisValue;

/// How much a table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What a terminal of 80 columns has room for.
    Narrow,
    /// Every figure, on lines of up to 112 characters.
    Wide,
}

impl Detail {
    /// Most characters of a line.
    pub(crate) const fn width(self) -> usize {
        match self {
            Detail::Narrow => 80,
            Detail::Wide => 112,
        }
    }
}

/// Beyond so many points of a sweep only the best are printed.
const MOST_CASES: usize = 24;
/// Beyond so many cases that somebody wrote down, too.
const MOST_WRITTEN: usize = 64;
const MOST_LABEL: usize = 44;
const MOST_REASONS: usize = 8;

/// The table of a record; `version` is tiersim's own. Ends with a line break.
pub fn text(record: &RunRecord, version: &str, detail: Detail) -> String {
    let width = detail.width();
    let mut out = String::new();
    let question = match record.about.trim() {
        "" => clean(&record.scenario),
        about => format!("{}: {}", clean(&record.scenario), elide(about, 400)),
    };
    wrapped(&question, width).iter().for_each(|part| out += &format!("{part}\n"));
    for (word, text) in verdict::verdict(record) {
        entry(&mut out, &format!("  {word}"), &text, width);
    }
    out.push('\n');
    let mut cases = chosen(record, &mut out, width);
    order(record, &mut cases);
    if cases.is_empty() {
        out.push_str("no case ran\n");
    } else {
        let labels: Vec<String> =
            cases.iter().map(|&case| row_label(&record.results[case])).collect();
        tables(record, &cases, &labels, detail, &mut out);
    }
    let ran = cases.iter().map(|&case| &record.results[case]);
    let ran = ran.filter_map(|case| Some((row_label(case), case.outcome.figures()?)));
    out.push_str(&split::section(record, ran, detail));
    out.push('\n');
    details(record, version, width, &mut out);
    let hidden = cases.iter().map(|&case| &record.results[case]);
    let hidden = hidden.filter_map(|case| Some((row_label(case), hidden_words(record, case)?)));
    say_why(&mut out, "hidden memory", hidden, width);
    let pressed = cases.iter().map(|&case| &record.results[case]);
    let pressed =
        pressed.filter_map(|case| Some((row_label(case), pressure::words(record, case)?)));
    say_why(&mut out, "memory pressure", pressed, width);
    let ran = record.results.iter().filter_map(|case| Some((case, case.outcome.figures()?)));
    let drifts = ran.filter_map(|(case, f)| Some((row_label(case), steady::words(record, f)?)));
    let baseline = steady::words(record, &record.baseline);
    let baseline = baseline.map(|words| ("baseline".to_owned(), words));
    say_why(&mut out, "not steady", baseline.into_iter().chain(drifts), width);
    let hinted = cases.iter().map(|&case| &record.results[case]);
    let hinted = hinted.filter_map(|case| Some((row_label(case), hints::words(case)?)));
    say_why(&mut out, "hints", hinted, width);
    failures(record, &mut out, width);
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
        block(out, labels, columns, detail.width());
    }
}

/// The label; at a point of a sweep, where the point is.
fn row_label(case: &CaseRecord) -> String {
    if case.params.is_empty() {
        return elide(&case.label, MOST_LABEL);
    }
    let at = case.params.iter().map(|(axis, value)| match value {
        AxisValue::Number(_) => format!("{} {}", clean(axis), axis_value(value)),
        AxisValue::Text(text) => clean(text),
    });
    elide(&at.collect::<Vec<_>>().join(", "), MOST_LABEL)
}

/// What was run, and what it rests on.
fn details(record: &RunRecord, version: &str, width: usize, out: &mut String) {
    let mut line = |name: &str, value: &str| entry(out, name, &clean(value), width);
    line("hardware", &record.hardware);
    line("workload", &record.workload);
    line("op time", &record.op_time);
    line("baseline", &format!("{} per step with unlimited HBM", record.baseline.mean_step()));
    line(
        "bound",
        &format!("{} per step: no policy is faster, whatever memory it has", record.bound),
    );
    let assumed = count(record.assumed_numbers, "assumed number", "assumed numbers");
    line("rests on", &format!("{assumed} in the hardware, seed {}", record.seed));
    for (name, text) in economics_lines(record) {
        line(name, &text);
    }
    let print = short_fingerprint(&record.fingerprint);
    line("run", &format!("{print}, tiersim {version}"));
}

/// A word and what it is, on as many lines as that needs.
fn entry(out: &mut String, word: &str, text: &str, width: usize) {
    const INDENT: usize = 10;
    for (index, part) in wrapped(text, width - INDENT).iter().enumerate() {
        let _ = writeln!(out, "{:<INDENT$}{part}", if index == 0 { word } else { "" });
    }
}

/// The cases to print; for a sweep, says how they were chosen.
fn chosen(record: &RunRecord, out: &mut String, width: usize) -> Vec<usize> {
    let all = record.results.len();
    let done = record.results.iter().filter(|case| case.outcome.figures().is_some()).count();
    let swept = record.results.iter().any(|case| !case.params.is_empty());
    let most = if swept { MOST_CASES } else { MOST_WRITTEN };
    if all > most || !record.skipped.is_empty() {
        let _ = writeln!(
            out,
            "{}: {done} done, {} out of memory, {} skipped",
            count(all + record.skipped.len(), "point", "points"),
            all - done,
            record.skipped.len()
        );
    }
    if all <= most {
        return (0..all).collect();
    }
    let mut cases = pareto_front(record);
    let front = cases.len();
    let mut policies: Vec<&str> = Vec::new();
    for case in &record.results {
        if !policies.contains(&case.policy.as_str()) {
            policies.push(&case.policy);
        }
    }
    // A long front is thinned evenly, both ends kept.
    if front > MOST_CASES {
        cases = (0..MOST_CASES).map(|i| cases[i * (front - 1) / (MOST_CASES - 1)]).collect();
    }
    // The verdict names the quickest, so it is there.
    let mut ranked: Vec<usize> = (0..all).filter(|&case| !record.results[case].emulated).collect();
    order(record, &mut ranked);
    cases.extend(ranked.first().filter(|&best| !cases.contains(best)).copied());
    let shown = cases.len();
    for policy in policies {
        let step = |case: &usize| record.results[*case].outcome.figures().map(Figures::mean_step);
        let own = (0..all).filter(|&case| record.results[case].policy == policy);
        let best = own.filter_map(|case| step(&case).map(|step| (step, case))).min();
        if let Some((_, case)) = best.filter(|(_, case)| !cases.contains(case)) {
            cases.push(case);
        }
    }
    let said = format!(
        "the Pareto front of peak HBM and step time by memory, emulated cases apart ({shown} of {}), \
         then the quickest of each other policy",
        count(front, "point", "points")
    );
    wrapped(&said, width).iter().for_each(|part| *out += &format!("{part}\n"));
    out.push('\n');
    cases
}

/// Why cases ran out of memory, and what a sweep skipped. Equal reasons share a line.
fn failures(record: &RunRecord, out: &mut String, width: usize) {
    let failed = record.results.iter().filter_map(|case| match &case.outcome {
        Outcome::OutOfMemory(oom) => Some((row_label(case), oom_reason(oom))),
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
        let machine = clean(&record.hardware);
        let _ = writeln!(out, "  what fits: tiersim memory --model NAME ... --fit {machine}");
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
        for (index, part) in wrapped(&format!("{what}{more}: {why}"), width - 4).iter().enumerate()
        {
            let _ = writeln!(out, "{}{part}", if index == 0 { "  " } else { "    " });
        }
    }
    if reasons.len() > MOST_REASONS {
        let rest = reasons.len() - MOST_REASONS;
        let _ = writeln!(out, "  and {rest} other reasons, see summary.json");
    }
}

/// How wide the column of labels is.
fn longest(labels: &[String]) -> usize {
    labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).max(4)
}

/// Writes columns after the labels, in as many blocks as their width asks for.
fn block(out: &mut String, labels: &[String], columns: Vec<Column>, most: usize) {
    let name = longest(labels);
    let mut columns = columns.into_iter().peekable();
    let mut first = true;
    while columns.peek().is_some() {
        let mut part: Vec<Column> = Vec::new();
        let mut width = name;
        while let Some(column) = columns.peek() {
            width += 2 + column.width();
            if width > most && !part.is_empty() {
                break;
            }
            part.extend(columns.next());
        }
        if !first {
            out.push('\n');
        }
        first = false;
        part_of_block(out, labels, &part, name);
    }
}

fn part_of_block(out: &mut String, labels: &[String], part: &[Column], name: usize) {
    let mut line = |first: &str, cell: &dyn Fn(&Column) -> String| {
        let _ = write!(out, "{first:<name$}");
        for column in part {
            let width = column.width();
            let _ = write!(out, "  {:>width$}", cell(column));
        }
        out.push('\n');
    };
    line("", &|column| column.header[0].clone());
    line("case", &|column| column.header[1].clone());
    line(&"-".repeat(name), &|column| "-".repeat(column.width()));
    for (row, label) in labels.iter().enumerate() {
        line(label, &|column| column.cells[row].clone());
    }
}
