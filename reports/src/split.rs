//! How steps are made up along their critical paths: the words of the parts, for JSON, CSV and
//! table.
//!
//! Sums are of all measured steps, in whole picoseconds, so that anybody can add them up; means per
//! step are of these.
//! Invariant: a part has the same name wherever it is written.

use crate::table::Detail;
use crate::words::{clean, lane_names, wrapped};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use tiersim_models::results::{Figures, Part, RunRecord};

/// The measured steps, part by part.
#[derive(Clone, Debug, Serialize)]
pub struct SplitSummary {
    /// How many measured steps there are.
    pub steps: u64,
    /// All of them together, in picoseconds.
    pub total_ps: u64,
    /// The same by part; these add up to it.
    pub parts_ps: Map<String, Value>,
}

/// Parts of a line of words: the rest is said as one.
const MOST_PARTS: usize = 3;
/// Lines of a table's section.
const MOST_LINES: usize = 24;

/// Every part of the machine of a record, with its name.
fn parts(record: &RunRecord) -> Vec<(Part, String)> {
    let lanes = record.lanes.iter().filter(|lane| !lane.is_within()).count();
    let names = lane_names(record);
    let name = |part: Part| match part {
        Part::Compute(phase) => format!("compute.{}", phase.word()),
        Part::Recompute => "recompute".to_owned(),
        Part::Cpu => "cpu".to_owned(),
        Part::Launch => "launch".to_owned(),
        Part::Collective => "collectives".to_owned(),
        Part::Copy(lane) => format!("copy.{}", names[lane]),
        Part::Queue(lane) => format!("queue.{}", names[lane]),
        Part::InPlace(tier) => format!("in_place.{}", record.tiers[tier].0),
        Part::Allocator => "allocator".to_owned(),
        Part::Delay => "delay".to_owned(),
        Part::Bubble => "bubble".to_owned(),
        Part::Arrival => "arrival".to_owned(),
    };
    Part::all(lanes, record.tiers.len()).map(|part| (part, name(part))).collect()
}

pub(crate) fn summary(record: &RunRecord, figures: &Figures) -> SplitSummary {
    let sums = parts(record).into_iter();
    SplitSummary {
        steps: figures.steps.len() as u64,
        total_ps: figures.split.total().ps(),
        parts_ps: sums.map(|(part, name)| (name, json!(figures.split.of(part).ps()))).collect(),
    }
}

/// Milliseconds of a mean step, by part.
pub(crate) fn mean_ms(record: &RunRecord, figures: &Figures) -> Map<String, Value> {
    let steps = figures.steps.len().max(1) as f64;
    let ms = |part| figures.split.of(part).as_ms() / steps;
    parts(record).into_iter().map(|(part, name)| (name, json!(ms(part)))).collect()
}

/// Columns of the CSV.
pub(crate) fn header(record: &RunRecord) -> Vec<String> {
    let sums = ["split_steps", "split_total_ps"].map(str::to_owned).into_iter();
    sums.chain(parts(record).into_iter().map(|(_, name)| format!("split_ps.{name}"))).collect()
}

/// A case's cells in these columns; empty for one that did not run.
pub(crate) fn row(record: &RunRecord, figures: Option<&Figures>) -> Vec<String> {
    let parts = parts(record);
    let Some(figures) = figures else { return vec![String::new(); parts.len() + 2] };
    let sums = [figures.steps.len() as u64, figures.split.total().ps()].into_iter();
    let sums = sums.chain(parts.into_iter().map(|(part, _)| figures.split.of(part).ps()));
    sums.map(|sum| sum.to_string()).collect()
}

/// The lines below a table: where the critical path of each case's steps leads; nothing if no case
/// ran.
pub(crate) fn section<'f>(
    record: &RunRecord,
    cases: impl Iterator<Item = (String, &'f Figures)>,
    detail: Detail,
) -> String {
    let most = if detail == Detail::Wide { usize::MAX } else { MOST_PARTS };
    let lines = cases.filter_map(|(label, figures)| Some((label, words(record, figures, most)?)));
    let lines: Vec<(String, String)> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "\nthe step along its critical path\n".to_owned();
    for (label, words) in lines.iter().take(MOST_LINES) {
        let text = wrapped(&format!("{label}: {words}"), detail.width() - 4);
        for (index, part) in text.iter().enumerate() {
            let _ = writeln!(out, "{}{part}", if index == 0 { "  " } else { "    " });
        }
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

/// What most of the step is, in per cent, the largest part first.
fn words(record: &RunRecord, figures: &Figures, most: usize) -> Option<String> {
    let total = figures.split.total().ps();
    let share = |ps: u64| ps as f64 * 100.0 / total.max(1) as f64;
    let mut shares: Vec<(u64, String)> = parts(record)
        .into_iter()
        .map(|(part, name)| (figures.split.of(part).ps(), spoken(&name)))
        // Less than what is printed.
        .filter(|&(ps, _)| share(ps) >= 0.05)
        .collect();
    // Equal parts stay in the order of reports.
    shares.sort_by_key(|&(ps, _)| std::cmp::Reverse(ps));
    if shares.is_empty() {
        return None;
    }
    shares.truncate(most);
    let said: u64 = shares.iter().map(|(ps, _)| ps).sum();
    let rest = share(total - said);
    let mut words: Vec<String> =
        shares.iter().map(|(ps, name)| format!("{name} {:.1} %", share(*ps))).collect();
    if rest >= 0.05 {
        words.push(format!("other parts {rest:.1} %"));
    }
    Some(words.join(", "))
}

/// A part's name in a sentence.
fn spoken(name: &str) -> String {
    match name.split_once('.') {
        Some((what, place)) => format!("{} {}", what.replace('_', " "), clean(place)),
        None => name.to_owned(),
    }
}
