//! The columns of the table: what a case took, moved and needs, each in the unit that fits.
//!
//! A column of times or sizes has one unit, that of its largest value.

use crate::column::{Column, Values};
use crate::contest::marks;
use crate::places::{Places, channels, tiers};
use crate::replications;
use crate::served;
use crate::uncertainty::band_column;
use crate::words::count;
use tiersim_models::hardware::HBM;
use tiersim_models::results::economics::CaseEconomics;
use tiersim_models::results::{CaseRecord, Figures, Lookahead, Outcome, RunRecord};
use tiersim_models::units::Span;
use tiersim_models::units::shown::{Unit, of_sizes, of_times};

/// The columns of a narrow table, in the order of their worth as far as there is room; the first
/// two always. `room` is what the labels leave.
pub(super) fn narrow(record: &RunRecord, cases: &[usize], room: usize) -> Vec<Column> {
    let mut left = room;
    let mut columns = Vec::new();
    for (index, column) in by_worth(record, cases).into_iter().enumerate() {
        let width = column.width() + 2;
        if index < 2 || width <= left {
            left = left.saturating_sub(width);
            columns.push(column);
        }
    }
    columns
}

fn by_worth(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let mut all = Vec::new();
    let mut of_requests = served(record, cases);
    if !of_requests.is_empty() {
        // What cases are ranked by; of the first token the mean and p99; the mean per further token.
        let first: Vec<Column> = of_requests.drain(..5.min(of_requests.len())).collect();
        all.extend(
            first.into_iter().enumerate().filter(|(i, _)| *i != 2).map(|(_, column)| column),
        );
    }
    let steps = step_columns(record, cases);
    let mut steps = steps.into_iter();
    all.extend(steps.next());
    all.extend(band_column(record, cases));
    all.extend(replications::column(record, cases));
    all.push(overhead(record, cases));
    let marks: Vec<String> =
        cases.iter().map(|&case| marks(&record.results[case]).join(", ")).collect();
    if marks.iter().any(|mark| !mark.is_empty()) {
        all.push(Column { header: ["", "mark"].map(str::to_owned), cells: marks });
    }
    let peak: Figure<'_> = &|f, tier| f.peak[tier].get() as f64;
    let mut peaks = group(record, cases, ("peak", &tiers(record), of_sizes), peak);
    let hbm = record.base().tiers.get(HBM.index()).map(|(name, _)| name.clone());
    if let Some(at) = peaks.iter().position(|peak| Some(&peak.header[1]) == hbm.as_ref()) {
        let peak = peaks.remove(at);
        // Rows that are a front of peak and step cannot be read without both.
        let chosen = cases.len() < record.results.len();
        all.insert(if chosen { 1.min(all.len()) } else { all.len() }, peak);
    }
    all.extend(over_bound(record, cases));
    all.extend(tokens(record, cases));
    all.extend(peaks);
    all.extend(steps);
    all
}

/// Mean and percentiles of steps; what repeats the column before is left out.
fn step_columns(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let mean = figures(record, cases, |f| f.mean_step().ps() as f64);
    let percentile =
        |percent| (percent, figures(record, cases, |f| f.step_ms_percentile(percent) * 1e9));
    let mut columns = Column::steps(&mean, [50, 95, 99].map(percentile));
    // A case that ran out of memory says so in its first column.
    for (row, &case) in cases.iter().enumerate() {
        if matches!(record.results[case].outcome, Outcome::OutOfMemory(_)) {
            columns[0].cells[row] = "OOM".to_owned();
        }
    }
    columns
}

/// Everything about time.
pub(super) fn time(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let mut columns = step_columns(record, cases);
    columns.extend(band_column(record, cases));
    columns.extend(replications::column(record, cases));
    columns.extend(tokens(record, cases));
    columns.push(overhead(record, cases));
    columns.push(change(record, cases));
    if record.common(|on| on.baseline.mean_step()).is_none() {
        let own = of_cases(record, cases, |case| Some(case.baseline_step.ps() as f64));
        columns.push(Column::time("unlimited", "HBM", &own));
    }
    let bounds = of_cases(record, cases, |case| Some(case.bound_step.ps() as f64));
    columns.push(Column::time("bound", "step", &bounds));
    columns.extend(over_bound(record, cases));
    let sees = |case: &CaseRecord| {
        let ahead = match case.lookahead {
            Lookahead::Window(ops) => Some(count(ops as usize, "op", "ops")),
            Lookahead::Past => Some("past".to_owned()),
            Lookahead::Oracle => None,
        };
        ahead.iter().map(String::as_str).chain(marks(case)).collect::<Vec<_>>().join(", ")
    };
    let sees: Vec<String> = cases.iter().map(|&case| sees(&record.results[case])).collect();
    if sees.iter().any(|words| words != "past") {
        columns.push(Column { header: ["", "sees"].map(str::to_owned), cells: sees });
    }
    columns
}

fn tokens(record: &RunRecord, cases: &[usize]) -> Option<Column> {
    let tokens = of_cases(record, cases, |case| record.tokens_per_s(case));
    let counted = record.used().iter().any(|on| on.tokens_per_step > 0);
    let header = ["throughput", record.base().rate()];
    (counted || served::serves(record)).then(|| Column::plain(header, &tokens))
}

/// Over the baseline of the case.
fn overhead(record: &RunRecord, cases: &[usize]) -> Column {
    let slowdown = |case: &CaseRecord| Some(case.outcome.figures()?.slowdown(case.baseline_step));
    let change = of_cases(record, cases, |case| Some((slowdown(case)? - 1.0) * 100.0));
    Column::signed(["overhead", "step %"], &change)
}

/// How much more work per time is done than by the baseline.
fn change(record: &RunRecord, cases: &[usize]) -> Column {
    let change = of_cases(record, cases, |case| {
        Some(case.outcome.figures()?.throughput_change(case.baseline_step))
    });
    Column::signed(["change", "work/s %"], &change)
}

fn over_bound(record: &RunRecord, cases: &[usize]) -> Option<Column> {
    let gaps = of_cases(record, cases, |case| case.gap_to_bound().map(|gap| gap * 100.0));
    let some = gaps.iter().any(Option::is_some);
    some.then(|| Column::signed(["over the", "bound %"], &gaps))
}

/// What became of requests; none where none are served.
pub(super) fn served(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let of = |([title, name], values): ([String; 2], Values)| match name.strip_suffix(" ms") {
        Some(name) => {
            let ps: Values = values.iter().map(|value| value.map(|ms| ms * 1e9)).collect();
            Column::time(&title, name, &ps)
        }
        None => Column::plain([&title, &name], &values),
    };
    served::columns(record, cases).into_iter().map(of).collect()
}

/// Memory and traffic; a tier or channel that nothing uses has no column.
pub(super) fn memory(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let per_step = |sum: Span, f: &Figures| sum.ps() as f64 / f.steps.len().max(1) as f64;
    let (tiers, channels) = (tiers(record), channels(record));
    let group = |title: &str, places: &Places<usize>, unit: fn(f64) -> Unit, figure: Figure<'_>| {
        group(record, cases, (title, places, unit), figure)
    };
    let sums = |title: &str, name: &str, sum: fn(&Figures) -> Span| {
        let values = figures(record, cases, |f| per_step(sum(f), f));
        Column::group((title, &[name.to_owned()], of_times), vec![values])
    };
    let took = |f: &Figures, channel| f.mean_copy(channel).map_or(0, |(_, took)| took.ps()) as f64;
    let moved =
        |f: &Figures, channel: usize| f.moved[channel].get() as f64 / f.steps.len().max(1) as f64;
    // In total, the mean over ops.
    let fragmented =
        |f: &Figures, tier: usize| f.memory_of(tier).map_or(0.0, |memory| memory.total.mean);
    let groups = [
        group("peak", &tiers, of_sizes, &|f, tier| f.peak[tier].get() as f64),
        group("moved", &channels, of_sizes, &moved),
        group("copies", &channels, |_| ("/step", 1.0), &|f, channel| f.copies_per_step(channel)),
        group("mean copy", &channels, of_times, &took),
        group("stall", &channels, of_times, &|f, channel| per_step(f.stall[channel], f)),
        group("in place", &tiers, of_times, &|f, tier| per_step(f.in_place[tier], f)),
        group("fragmented", &tiers, |_| ("%", 0.01), &fragmented),
    ];
    let delay = sums("delay", "of ops", |f| f.delay);
    let waits = sums("allocator", "waits", |f| f.allocating);
    groups.into_iter().flatten().chain(delay).chain(waits).collect()
}

/// Joules per step and dollars; nothing where no case has any.
pub(super) fn economics(record: &RunRecord, cases: &[usize]) -> Vec<Column> {
    let of = |figure: fn(&CaseEconomics) -> Option<f64>| {
        of_cases(record, cases, |case| figure(&case.economics))
    };
    let all = [
        (["energy", "J/step"], of(CaseEconomics::joules)),
        (["machine", "USD"], of(CaseEconomics::dollars)),
    ];
    let some = all.into_iter().filter(|(_, values)| values.iter().any(Option::is_some));
    some.map(|(header, values)| Column::plain(header, &values)).collect()
}

/// What a case that ran has of each tier or channel.
type Figure<'a> = &'a dyn Fn(&Figures, usize) -> f64;

/// Columns of one unit; those that are zero for every case are left out.
fn group(
    record: &RunRecord,
    cases: &[usize],
    (title, places, unit): (&str, &Places<usize>, fn(f64) -> Unit),
    figure: Figure<'_>,
) -> Vec<Column> {
    let values = |name| {
        of_cases(record, cases, |case| {
            Some(figure(case.outcome.figures()?, places.at(case, name)?))
        })
    };
    let columns = (0..places.names.len()).map(values).collect();
    Column::group((title, &places.names, unit), columns)
}

/// What each case has.
fn of_cases(
    record: &RunRecord,
    cases: &[usize],
    value: impl Fn(&CaseRecord) -> Option<f64>,
) -> Values {
    cases.iter().map(|&case| value(&record.results[case])).collect()
}

/// A figure of each case that ran.
fn figures(record: &RunRecord, cases: &[usize], figure: impl Fn(&Figures) -> f64) -> Values {
    of_cases(record, cases, |case| case.outcome.figures().map(&figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    /// The rows are the front of peak and step: one without the other cannot be read.
    #[test]
    fn a_choice_of_rows_has_the_peak_beside_the_step_however_long_the_labels() {
        let record = common::sweep();
        let all: Vec<usize> = (0..record.results.len()).collect();
        let second = |cases: &[usize]| narrow(&record, cases, 0)[1].header.clone();
        assert!(second(&all[..20])[0].starts_with("peak"));
        assert!(second(&all)[0].starts_with("overhead"));
    }
}
