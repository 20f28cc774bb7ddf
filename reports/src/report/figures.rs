//! The full tables: every case with its times, its memory and its traffic, as the text table has
//! them.
//!
//! Columns are made by the same [`Column`] as those of the text table, so the same figure has the
//! same unit and the same digits in both.

use super::folder::{MOST_ROWS, Report};
use super::summary::{Case, Named, Serving, Spread, Summary, Transfers};
use crate::ChartError;
use crate::column::{Column, Values, largest};
use crate::html::{Page, Table};
use crate::text_table::Side::{Left, Right};
use crate::words::number;
use serde_json::Value;
use tiersim_models::units::shown::{Unit, of_sizes, of_times};

/// Makes the columns of one kind of figures.
type Columns = fn(&[&Case]) -> Vec<Column>;

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let results = &report.summary.results;
    if results.is_empty() {
        return Ok(());
    }
    page.heading("All cases");
    let mut order = report.summary.order();
    if order.len() > MOST_ROWS {
        page.paragraph(&format!(
            "{}; all are in results.csv.",
            quickest(MOST_ROWS, &order, &report.summary)
        ));
    }
    order.truncate(MOST_ROWS);
    bounds(page, results);
    // A machine of several links has many channels: on paper a table of all that is said of each
    // would end beyond the margin.
    let blocks: [(&str, Columns); 8] = [
        ("Time of every case, per measured step", time),
        ("Requests of every case, over the whole run", served),
        ("Memory of every case: peaks of the whole run, times per measured step", memory),
        ("Traffic of every case, per measured step", moved),
        ("Number of copies of every case, per measured step", copies),
        ("Time of a copy of every case", copy_times),
        ("Stalls of every case, per measured step", stalls),
        ("Energy of every case per measured step, and price", economics),
    ];
    for (index, (title, of)) in blocks.into_iter().enumerate() {
        block(page, report, &order, (index == 0, title, of));
    }
    Ok(())
}

/// Which bound a case is held against, where that is not the same for all.
fn bounds(page: &mut Page, results: &[Case]) {
    if results.windows(2).any(|pair| pair[0].bound_step_ms != pair[1].bound_step_ms) {
        page.paragraph(
            "A case is held against the bound of its own HBM budget, machine and ops: 0 % over it is \
             the best that can be had under these, not the best of all. The line of a chart is the \
             bound that its words name.",
        );
    }
}

/// A table of one kind of figures; nothing where no case has any. The first has the cases' places,
/// and what they are.
fn block(
    page: &mut Page,
    report: &Report,
    order: &[usize],
    (first, title, of): (bool, &str, Columns),
) {
    let cases: Vec<&Case> = order.iter().map(|&case| &report.summary.results[case]).collect();
    let columns = of(&cases);
    if columns.is_empty() {
        return;
    }
    let headers: Vec<[&str; 2]> = columns.iter().map(header).collect();
    let swept = first && cases.iter().any(|case| !case.params.is_empty());
    let mut head = vec![("case", Left)];
    head.extend(first.then_some(("policy", Left)));
    head.extend(swept.then_some(("point", Left)));
    let words = head.len();
    head.extend(headers.iter().map(|lines| (lines[0], Right)));
    head.extend(first.then_some(("mark", Left)));
    let mut table = Table::new(title, &head);
    let seconds = headers.iter().enumerate();
    seconds.for_each(|(at, lines)| table.second_line(words + at, lines[1]));
    for (row, case) in cases.iter().enumerate() {
        let mut cells = vec![case.label.clone()];
        cells.extend(first.then(|| case.policy.clone()));
        cells.extend(swept.then(|| params(&case.params)));
        cells.extend(columns.iter().map(|column| column.cells[row].clone()));
        if case.oom && first {
            cells[words] = "OOM".to_owned();
        }
        cells.extend(first.then(|| case.marks().join(", ")));
        table.row(cells);
        report.link(&mut table, order[row], first);
    }
    page.table(&table);
}

/// The first cases of the order of tables in words: emulated ones, which may be quicker, stand
/// behind the others, and those that ran out of memory last.
pub(super) fn quickest(shown: usize, order: &[usize], summary: &Summary) -> String {
    let all = || order.iter().map(|&case| &summary.results[case]);
    let failed = all().filter(|case| case.oom).count();
    let emulated = all().filter(|case| !case.oom && case.emulated).count();
    let paying = order.len() - failed - emulated;
    let what = if emulated > 0 { "cases that pay for every access" } else { "cases" };
    let mut words = vec![format!("Quickest first: {} of {paying} {what}", shown.min(paying))];
    let mut left = shown.saturating_sub(paying);
    for (count, what) in [(emulated, "emulated ones"), (failed, "out of memory")] {
        if count > 0 {
            words.push(format!("then {} of {count} {what}", left.min(count)));
        }
        left = left.saturating_sub(count);
    }
    words.join(", ")
}

/// Both lines of a header; the first has words in any case.
pub(super) fn header(column: &Column) -> [&str; 2] {
    match &column.header {
        [first, second] if first.is_empty() => [second, ""],
        [first, second] => [first, second.trim()],
    }
}

/// Where in a sweep a case is.
pub(super) fn params(params: &Named) -> String {
    let value = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.as_f64().map_or_else(|| other.to_string(), number),
    };
    let all = params.iter().map(|(axis, at)| format!("{axis} {}", value(at)));
    all.collect::<Vec<_>>().join(", ")
}

fn values(cases: &[&Case], of: impl Fn(&Case) -> Option<f64>) -> Values {
    cases.iter().map(|case| of(case)).collect()
}

/// Milliseconds as picoseconds.
fn ps(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms * 1e9)
}

fn time(cases: &[&Case]) -> Vec<Column> {
    let step = |of: fn(Spread) -> Option<f64>| values(cases, |case| ps(case.step_ms.and_then(of)));
    let percentiles = [(50, step(|s| s.p50)), (95, step(|s| s.p95)), (99, step(|s| s.p99))];
    let mut columns = Column::steps(&step(|s| s.mean), percentiles);
    let tokens = values(cases, |case| case.throughput.as_ref()?.value);
    if largest(&tokens) > 0.0 {
        let rates = cases.iter().find_map(|case| case.throughput.as_ref());
        let unit = rates.map_or("tokens/s", |throughput| &throughput.unit);
        columns.push(Column::plain(["throughput", unit], &tokens));
    }
    let over = values(cases, |case| case.slowdown.map(|slowdown| (slowdown - 1.0) * 100.0));
    columns.push(Column::signed(["overhead", "step %"], &over));
    let change = values(cases, |case| case.throughput_change_percent);
    columns.push(Column::signed(["change", "work/s %"], &change));
    let base = values(cases, |case| ps(Some(case.baseline_step_ms)));
    columns.push(Column::time("unlimited", "HBM", &base));
    let bounds = values(cases, |case| ps(Some(case.bound_step_ms)));
    columns.push(Column::time("bound", "step", &bounds));
    let gaps = values(cases, |case| case.gap_to_bound.map(|gap| gap * 100.0));
    if gaps.iter().any(Option::is_some) {
        columns.push(Column::signed(["over the", "bound %"], &gaps));
    }
    columns
}

fn served(cases: &[&Case]) -> Vec<Column> {
    if cases.iter().all(|case| case.serving.is_none()) {
        return Vec::new();
    }
    let of = |figure: fn(&Serving) -> Option<f64>| {
        values(cases, |case| ps(figure(case.serving.as_ref()?)))
    };
    let hits = values(cases, |case| Some(case.serving.as_ref()?.kv_hit_ratio? * 100.0));
    vec![
        Column::time("latency", "mean", &of(|s| s.latency_ms.mean)),
        Column::time("TTFT", "mean", &of(|s| s.ttft_ms.mean)),
        Column::time("TTFT", "p95", &of(|s| s.ttft_ms.p95)),
        Column::time("TTFT", "p99", &of(|s| s.ttft_ms.p99)),
        Column::time("TPOT", "mean", &of(|s| s.tpot_ms.mean)),
        Column::time("TPOT", "p95", &of(|s| s.tpot_ms.p95)),
        Column::time("queued", "mean", &of(|s| s.queued_ms.mean)),
        Column::plain(["KV hits", "% blocks"], &hits),
    ]
}

/// Columns of one unit, one for each name that some case has.
fn group(
    cases: &[&Case],
    (title, unit, size): (&str, fn(f64) -> Unit, f64),
    of: fn(&Case) -> Option<&Named>,
) -> Vec<Column> {
    let names = names(cases.iter().filter_map(|case| of(case)).flat_map(|named| named.keys()));
    let column = |name: &String| {
        values(cases, |case| of(case)?.get(name)?.as_f64().map(|value| value * size))
    };
    let columns = names.iter().map(column).collect();
    Column::group((title, &names, unit), columns)
}

/// What is held and used where; what nothing uses has no column.
fn memory(cases: &[&Case]) -> Vec<Column> {
    let one = |title: &str, name: &str, of: fn(&Case) -> Option<f64>| {
        let values = values(cases, |case| ps(of(case)));
        Column::group((title, &[name.to_owned()], of_times), vec![values])
    };
    let groups = [
        group(cases, ("peak", of_sizes, 1.0), |case| case.peak_bytes.as_ref()),
        group(cases, ("in place", of_times, 1e9), |case| case.in_place_ms.as_ref()),
        one("delay", "of ops", |case| case.delay_ms),
        one("allocator", "waits", |case| case.allocator_ms),
    ];
    groups.into_iter().flatten().collect()
}

/// What crosses the channels; one that nothing crosses has no column.
fn moved(cases: &[&Case]) -> Vec<Column> {
    group(cases, ("moved", of_sizes, 1.0), |case| case.moved_bytes.as_ref())
}

fn copies(cases: &[&Case]) -> Vec<Column> {
    let of = |copies: Option<&Transfers>| Some(copies.map_or(0.0, |copies| copies.per_step));
    of_copies(cases, ("copies", |_| ("/step", 1.0)), of)
}

/// No copies take no time on average, not none of it.
fn copy_times(cases: &[&Case]) -> Vec<Column> {
    of_copies(cases, ("mean copy", of_times), |copies| Some(copies?.mean_ms * 1e9))
}

fn stalls(cases: &[&Case]) -> Vec<Column> {
    group(cases, ("stall", of_times, 1e9), |case| case.stall_ms.as_ref())
}

/// A column for each channel that some case copies over; nothing for a case whose machine has not
/// that channel.
fn of_copies(
    cases: &[&Case],
    (title, unit): (&str, fn(f64) -> Unit),
    figure: fn(Option<&Transfers>) -> Option<f64>,
) -> Vec<Column> {
    let names = names(cases.iter().flat_map(|case| &case.transfers).map(|copies| &copies.lane));
    let column = |name: &String| {
        values(cases, |case| {
            let own = case.transfers.iter().find(|copies| copies.lane == *name);
            let has = own.is_some() || case.moved_bytes.as_ref()?.contains_key(name);
            figure(own).filter(|_| has && !case.oom)
        })
    };
    let columns = names.iter().map(column).collect();
    Column::group((title, &names, unit), columns)
}

/// Each name once, in the order in which they come.
fn names<'n>(all: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn economics(cases: &[&Case]) -> Vec<Column> {
    let all = [
        (["energy", "J/step"], values(cases, |case| case.energy_j)),
        (["machine", "USD"], values(cases, |case| case.cost_usd)),
        // What latency-vs-cost shows.
        (["used", "USD"], values(cases, |case| case.all.get("cost")?.get("used_usd")?.as_f64())),
    ];
    let some = all.into_iter().filter(|(_, values)| values.iter().any(Option::is_some));
    some.map(|(header, values)| Column::plain(header, &values)).collect()
}
