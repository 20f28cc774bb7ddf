//! How steps are made up along their critical paths: the words of the parts, for JSON, CSV and
//! table.
//!
//! Sums are of all measured steps, in whole picoseconds, so that anybody can add them up; means per
//! step are of these.
//! Invariant: a part has the same name wherever it is written.

use crate::csv_columns::Columns;
use crate::places::Places;
use crate::text_table::{Detail, paragraph};
use crate::words::clean;
use serde_json::{Value, json};
use std::fmt::Write;
use tiersim_models::results::{CaseRecord, Conditions, Figures, PathPart, RunRecord};

/// Parts of a line of words: the rest is said as one.
const MOST_PARTS: usize = 3;
/// Lines of a table's section.
const MOST_LINES: usize = 24;

/// What a part is called in files.
pub(crate) fn part_name(on: &Conditions, part: PathPart) -> String {
    let found = parts(on, true).into_iter().find(|(known, _)| *known == part);
    found.map_or_else(String::new, |(_, name)| name)
}

/// Whether a framework adds to some case of a record.
pub(crate) fn framework(record: &RunRecord) -> bool {
    record.results.iter().any(|case| !case.runtime.is_none())
}

/// Every part of a machine, with its name; those of a framework where there is one.
pub(crate) fn parts(on: &Conditions, framework: bool) -> Vec<(PathPart, String)> {
    let channels = on.channels.iter().filter(|channel| !channel.is_within()).count();
    let names = on.channel_names();
    let name = |part: PathPart| match part {
        PathPart::Compute(phase) => format!("compute.{}", phase.word()),
        PathPart::Recompute => "recompute".to_owned(),
        PathPart::Cpu => "cpu".to_owned(),
        PathPart::Launch => "launch".to_owned(),
        PathPart::Collective => "collectives".to_owned(),
        PathPart::Copy(channel) => format!("copy.{}", names[channel]),
        PathPart::Queue(channel) => format!("queue.{}", names[channel]),
        PathPart::InPlace(tier) => format!("in_place.{}", on.tier_name(tier)),
        PathPart::Allocator => "allocator".to_owned(),
        PathPart::Delay => "delay".to_owned(),
        PathPart::Bubble => "bubble".to_owned(),
        PathPart::Arrival => "arrival".to_owned(),
        PathPart::HostOps => "runtime.ops".to_owned(),
        PathPart::HostObjects => "runtime.objects".to_owned(),
        PathPart::HostPasses => "runtime.passes".to_owned(),
    };
    PathPart::all(channels, on.tiers.len())
        .filter(|part| framework || !part.is_of_framework())
        .map(|part| (part, name(part)))
        .collect()
}

/// The measured steps, part by part: parts add up to the total.
pub(crate) fn summary(on: &Conditions, framework: bool, figures: &Figures) -> Value {
    let sums =
        parts(on, framework).into_iter().map(|(part, name)| (name, figures.split.of(part).ps()));
    json!({
        "steps": figures.steps.len(),
        "total_ps": figures.split.total().ps(),
        "parts_ps": sums.collect::<Value>(),
    })
}

/// Milliseconds of a mean step, by part.
pub(crate) fn mean_ms(on: &Conditions, framework: bool, figures: &Figures) -> Value {
    let steps = figures.steps.len().max(1) as f64;
    let ms = |part| figures.split.of(part).as_ms() / steps;
    parts(on, framework).into_iter().map(|(part, name)| (name, ms(part))).collect()
}

/// Columns of `results.csv`.
pub(crate) fn csv(columns: &mut Columns, record: &RunRecord) {
    columns.figure("split_steps", |f| f.steps.len().to_string());
    columns.figure("split_total_ps", |f| f.split.total().ps().to_string());
    let framework = framework(record);
    let own = |on: &Conditions| {
        let parts = parts(on, framework).into_iter();
        parts.map(|(part, name)| (name, part)).collect()
    };
    let parts = Places::of(record, own);
    columns.each("split_ps", parts, |f, part| f.split.of(part).ps().to_string());
}

/// The lines below a table: where the critical path of each case's steps leads; nothing if no case
/// ran.
pub(crate) fn section<'f>(
    record: &RunRecord,
    cases: impl Iterator<Item = (String, &'f CaseRecord)>,
    detail: Detail,
) -> String {
    let most = if detail == Detail::Wide { usize::MAX } else { MOST_PARTS };
    let framework = framework(record);
    let words = |case| words(record.of(case), framework, case, most);
    let lines = cases.filter_map(|(label, case)| Some((label, words(case)?)));
    let lines: Vec<(String, String)> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "\nthe step along its critical path\n".to_owned();
    for (label, words) in lines.iter().take(MOST_LINES) {
        paragraph(&mut out, "  ", "    ", &format!("{label}: {words}"), detail.width());
    }
    if lines.len() > MOST_LINES {
        let _ = writeln!(out, "  and {} more, see results.csv", lines.len() - MOST_LINES);
    }
    if detail == Detail::Wide {
        out.push_str(
            "  Stalls, use in place and delays above are sums over streams, not parts of it.\n",
        );
    }
    out
}

/// What most of the step is.
fn words(on: &Conditions, framework: bool, case: &CaseRecord, most: usize) -> Option<String> {
    let figures = case.outcome.figures()?;
    let parts = parts(on, framework).into_iter();
    shares(parts.map(|(part, name)| (name, figures.split.of(part).ps())), most)
}

/// What most of these picoseconds are, in per cent, the largest part first; `None` if there are
/// none.
pub(crate) fn shares(
    parts: impl IntoIterator<Item = (String, u64)>,
    most: usize,
) -> Option<String> {
    let parts: Vec<(String, u64)> = parts.into_iter().collect();
    let total = parts.iter().map(|(_, ps)| u128::from(*ps)).sum::<u128>().max(1);
    let share = |ps: u128| ps as f64 * 100.0 / total as f64;
    let mut shares: Vec<(u128, String)> = parts
        .into_iter()
        .map(|(name, ps)| (u128::from(ps), spoken(&name)))
        // Less than what is printed.
        .filter(|&(ps, _)| share(ps) >= 0.05)
        .collect();
    // Equal parts stay in the order of reports.
    shares.sort_by_key(|&(ps, _)| std::cmp::Reverse(ps));
    if shares.is_empty() {
        return None;
    }
    shares.truncate(most);
    let said: u128 = shares.iter().map(|(ps, _)| ps).sum();
    let rest = share(total - said);
    let mut words: Vec<String> =
        shares.iter().map(|(ps, name)| format!("{name} {:.1} %", share(*ps))).collect();
    if rest >= 0.05 {
        words.push(format!("other parts {rest:.1} %"));
    }
    Some(words.join(", "))
}

/// A part's name in a sentence.
pub(crate) fn spoken(name: &str) -> String {
    match name.split_once('.') {
        Some((what, place)) => format!("{} {}", what.replace('_', " "), clean(place)),
        None => name.to_owned(),
    }
}
