//! The table that a run prints: the answer in a terminal, before anybody opens a chart.
//!
//! A header says what was run and what it rests on; then one row per case with time, and one with
//! memory and traffic. A sweep prints its Pareto front and the quickest case of each policy. Sums
//! are per measured step. Columns that are zero for every case (a tier or lane never used) are
//! left out, and columns that do not fit [`WIDTH`] continue in a block of their own.
//! Invariant: every line of a block has the same width; nothing of a name reaches the terminal
//! uncleaned.

use crate::contest::{gap, marks, order};
use crate::economics_summary::economics_lines;
use crate::hidden::hidden_words;
use crate::points::pareto_front;
use crate::pressure;
use crate::served;
use crate::steady;
use crate::words::{
    axis_value, clean, count, decimals_for, elide, finite, lane_names, oom_reason,
    short_fingerprint,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use tiersim_policies::policy::Sight;
use tiersim_sim::energy::CaseEconomics;
use tiersim_sim::record::{CaseRecord, Figures, Outcome, RunRecord};
use tiersim_sim::scenario::AxisValue;

/// Most characters of a line of figures.
const WIDTH: usize = 112;
/// Beyond so many points of a sweep only the best are printed.
const MOST_CASES: usize = 24;
/// Beyond so many cases that somebody wrote down, too.
const MOST_WRITTEN: usize = 64;
const MOST_LABEL: usize = 44;
const MOST_REASONS: usize = 8;

/// A column: two header lines and a cell per row.
struct Column {
    header: [String; 2],
    cells: Vec<String>,
}

/// The table of a record; `version` is tiersim's own. Ends with a line break.
pub fn text(record: &RunRecord, version: &str) -> String {
    let mut out = header(record, version);
    let mut cases = chosen(record, &mut out);
    order(record, &mut cases);
    if cases.is_empty() {
        out.push_str("no case ran\n");
    } else {
        let labels: Vec<String> =
            cases.iter().map(|&case| row_label(&record.results[case])).collect();
        block(&mut out, &labels, time_columns(record, &cases));
        out.push('\n');
        let served = served::columns(record, &cases);
        if !served.is_empty() {
            let of = |(header, values): ([&str; 2], Vec<Option<f64>>)| {
                Column::of(header, &values, decimals_for(largest(&values)).min(3))
            };
            block(&mut out, &labels, served.into_iter().map(of).collect());
            out.push('\n');
        }
        block(&mut out, &labels, memory_columns(record, &cases));
        let economics = economics_columns(record, &cases);
        if !economics.is_empty() {
            out.push('\n');
            block(&mut out, &labels, economics);
        }
    }
    let hidden = cases.iter().map(|&case| &record.results[case]);
    let hidden = hidden.filter_map(|case| Some((row_label(case), hidden_words(record, case)?)));
    say_why(&mut out, "hidden memory", hidden);
    let pressed = cases.iter().map(|&case| &record.results[case]);
    let pressed =
        pressed.filter_map(|case| Some((row_label(case), pressure::words(record, case)?)));
    say_why(&mut out, "memory pressure", pressed);
    let ran = record.results.iter().filter_map(|case| Some((case, case.outcome.figures()?)));
    let drifts = ran.filter_map(|(case, f)| Some((row_label(case), steady::words(record, f)?)));
    let baseline = steady::words(record, &record.baseline);
    let baseline = baseline.map(|words| ("baseline".to_owned(), words));
    say_why(&mut out, "not steady", baseline.into_iter().chain(drifts));
    failures(record, &mut out);
    out
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

fn header(record: &RunRecord, version: &str) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<10}{}", clean(value));
    };
    line("scenario", &record.scenario);
    for part in wrapped(&elide(&record.about, 400), WIDTH - 10) {
        line("", &part);
    }
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
    out.push('\n');
    out
}

/// `text` broken at spaces into lines of at most `most` characters, unless one word is longer.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The cases to print; for a sweep, says how they were chosen.
fn chosen(record: &RunRecord, out: &mut String) -> Vec<usize> {
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
    let shown = cases.len();
    for policy in policies {
        let step = |case: &usize| record.results[*case].outcome.figures().map(Figures::mean_step);
        let own = (0..all).filter(|&case| record.results[case].policy == policy);
        let best = own.filter_map(|case| step(&case).map(|step| (step, case))).min();
        if let Some((_, case)) = best.filter(|(_, case)| !cases.contains(case)) {
            cases.push(case);
        }
    }
    let _ = writeln!(
        out,
        "the Pareto front of peak HBM and step time by memory, emulated cases apart ({shown} of {}), \
         then the quickest of each other policy\n",
        count(front, "point", "points")
    );
    cases
}

fn time_columns(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let of = |figure: &dyn Fn(&Figures) -> f64| -> Vec<Option<f64>> {
        cases.iter().map(|&case| record.results[case].outcome.figures().map(figure)).collect()
    };
    let mean = of(&|f| f.mean_step().as_ms());
    let digits = decimals_for(largest(&mean));
    let change = |figure: &dyn Fn(f64) -> f64| -> Vec<Option<f64>> {
        let records = cases.iter().map(|&case| &record.results[case]);
        let slowdown =
            records.map(|case| Some(case.outcome.figures()?.slowdown(case.baseline_step)));
        slowdown.map(|slowdown| slowdown.map(figure)).collect()
    };
    let mut columns = vec![
        Column::of(["step", "mean ms"], &mean, digits),
        Column::of(["", "p50 ms"], &of(&|f| f.step_ms_percentile(50)), digits),
        Column::of(["", "p95 ms"], &of(&|f| f.step_ms_percentile(95)), digits),
        Column::of(["", "p99 ms"], &of(&|f| f.step_ms_percentile(99)), digits),
    ];
    let tokens = of(&|f| f.tokens_per_s(record.tokens_per_step));
    if record.tokens_per_step > 0 || served::serves(record) {
        let digits = decimals_for(largest(&tokens)).min(3);
        columns.push(Column::of(["throughput", "tokens/s"], &tokens, digits));
    }
    columns.push(Column::signed(["overhead", "step %"], &change(&|s| (s - 1.0) * 100.0)));
    let records = cases.iter().map(|&case| &record.results[case]);
    let bounds: Vec<Option<f64>> = records.map(|case| Some(case.bound_step.as_ms())).collect();
    columns.push(Column::of(["bound", "step ms"], &bounds, digits));
    let gaps = cases.iter().map(|&case| gap(&record.results[case]).map(|gap| gap * 100.0));
    let gaps: Vec<Option<f64>> = gaps.collect();
    if gaps.iter().any(Option::is_some) {
        columns.push(Column::signed(["over the", "bound %"], &gaps));
    }
    let sees = |case: &CaseRecord| {
        let ahead = match case.sight {
            Sight::Window(ops) => Some(count(ops as usize, "op", "ops")),
            Sight::Past => Some("past".to_owned()),
            Sight::Oracle => None,
        };
        ahead.iter().map(String::as_str).chain(marks(case)).collect::<Vec<_>>().join(", ")
    };
    let sees: Vec<String> = cases.iter().map(|&case| sees(&record.results[case])).collect();
    if sees.iter().any(|words| words != "past") {
        columns.push(Column { header: ["", "sees"].map(str::to_owned), cells: sees });
    }
    // A case that ran out of memory says so in its first column.
    for (row, &case) in cases.iter().enumerate() {
        if matches!(record.results[case].outcome, Outcome::OutOfMemory(_)) {
            columns[0].cells[row] = "OOM".to_owned();
        }
    }
    columns
}

fn memory_columns(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let of = |figure: &dyn Fn(&Figures) -> f64| -> Vec<Option<f64>> {
        cases.iter().map(|&case| record.results[case].outcome.figures().map(figure)).collect()
    };
    let steps = |f: &Figures| f.steps.len().max(1) as f64;
    let mut columns = Vec::new();
    let mut group =
        |title: &str, names: &[String], unit: Option<&str>, figures: Vec<Vec<Option<f64>>>| {
            let most = figures.iter().map(|column| largest(column)).fold(0.0, f64::max);
            let (unit, size) = unit.map_or_else(|| byte_unit(most), |unit| (unit, 1.0));
            for (name, values) in names.iter().zip(figures) {
                // A tier or lane that nothing uses is not printed.
                if largest(&values) > 0.0 {
                    let scaled: Vec<Option<f64>> =
                        values.iter().map(|v| v.map(|v| v / size)).collect();
                    let digits = decimals_for(most / size).min(3);
                    let header = [format!("{title} {unit}"), elide(name, 24)];
                    columns.push(Column::of([&header[0], &header[1]], &scaled, digits));
                }
            }
        };
    let tiers: Vec<String> = record.tiers.iter().map(|(tier, _)| tier.clone()).collect();
    let lanes = lane_names(record);
    let tier = |figure: &dyn Fn(&Figures, usize) -> f64| -> Vec<Vec<Option<f64>>> {
        (0..tiers.len()).map(|tier| of(&|f| figure(f, tier))).collect()
    };
    let lane = |figure: &dyn Fn(&Figures, usize) -> f64| -> Vec<Vec<Option<f64>>> {
        (0..lanes.len()).map(|lane| of(&|f| figure(f, lane))).collect()
    };
    group("peak", &tiers, None, tier(&|f, i| f.peak[i].get() as f64));
    group("moved", &lanes, None, lane(&|f, i| f.moved[i].get() as f64 / steps(f)));
    group("stall", &lanes, Some("ms"), lane(&|f, i| f.stall[i].as_ms() / steps(f)));
    group("in place", &tiers, Some("ms"), tier(&|f, i| f.in_place[i].as_ms() / steps(f)));
    let delay = vec![of(&|f| f.delay.as_ms() / steps(f))];
    group("delay", &["of ops".to_owned()], Some("ms"), delay);
    columns
}

/// Joules per step and dollars; nothing where no case has any.
fn economics_columns(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let of = |figure: &dyn Fn(&CaseEconomics) -> Option<f64>| -> Vec<Option<f64>> {
        cases.iter().map(|&case| figure(&record.results[case].economics)).collect()
    };
    let mut columns = Vec::new();
    for (header, values) in [
        (["energy", "J/step"], of(&CaseEconomics::joules)),
        (["machine", "USD"], of(&CaseEconomics::dollars)),
    ] {
        if values.iter().any(Option::is_some) {
            let digits = decimals_for(largest(&values)).min(3);
            columns.push(Column::of(header, &values, digits));
        }
    }
    columns
}

/// Why cases ran out of memory, and what a sweep skipped. Equal reasons share a line.
fn failures(record: &RunRecord, out: &mut String) {
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
    say_why(out, "out of memory", failed);
    say_why(out, "skipped", skipped);
}

fn say_why(out: &mut String, title: &str, cases: impl Iterator<Item = (String, String)>) {
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
        let _ = writeln!(out, "  {what}{more}: {why}");
    }
    if reasons.len() > MOST_REASONS {
        let rest = reasons.len() - MOST_REASONS;
        let _ = writeln!(out, "  and {rest} other reasons, see summary.json");
    }
}

impl Column {
    fn of(header: [&str; 2], values: &[Option<f64>], digits: usize) -> Column {
        let cell = |value: &Option<f64>| match value.and_then(finite) {
            Some(value) => format!("{value:.digits$}"),
            None => "-".to_owned(),
        };
        Column { header: header.map(str::to_owned), cells: values.iter().map(cell).collect() }
    }

    /// A change in per cent, with its sign.
    fn signed(header: [&str; 2], values: &[Option<f64>]) -> Column {
        let cell = |value: &Option<f64>| match value.and_then(finite) {
            // Not "-0.00".
            Some(value) if value.abs() < 0.005 => "0.00".to_owned(),
            Some(value) => format!("{value:+.2}"),
            None => "-".to_owned(),
        };
        Column { header: header.map(str::to_owned), cells: values.iter().map(cell).collect() }
    }

    fn width(&self) -> usize {
        let texts = self.header.iter().chain(&self.cells);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// Writes columns after the labels, in as many blocks as their width asks for.
fn block(out: &mut String, labels: &[String], columns: Vec<Column>) {
    let name = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).max(4);
    let mut columns = columns.into_iter().peekable();
    let mut first = true;
    while columns.peek().is_some() {
        let mut part: Vec<Column> = Vec::new();
        let mut width = name;
        while let Some(column) = columns.peek() {
            width += 2 + column.width();
            if width > WIDTH && !part.is_empty() {
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

fn largest(values: &[Option<f64>]) -> f64 {
    values.iter().flatten().copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

fn byte_unit(most: f64) -> (&'static str, f64) {
    match most {
        m if m >= f64::from(1 << 30) * 0.5 => ("GiB", f64::from(1 << 30)),
        m if m >= f64::from(1 << 20) * 0.5 => ("MiB", f64::from(1 << 20)),
        _ => ("KiB", 1024.0),
    }
}
