//! What each tier holds in the course of a step: a panel for a case, a line for a tier.
//!
//! Steps of a run differ in length, so time is the share of the step that has passed, and its
//! length stands below the panel's name. The step is the last measured one, which the timeline
//! shows; the title says so, and beside its length stands the mean of all where that differs.
//! Invariant: of many changes in one column of the chart the highest is drawn: a peak is never
//! smoothed away.

use crate::contest::order;
use crate::names::direct;
use crate::panels::{Layer, Panel, Panels, Shared};
use crate::render::Charts;
use crate::series::looks_of_cases;
use crate::sheet::Made;
use crate::units::time;
use tiersim_models::results::{RunRecord, Timeline};
use tiersim_models::units::shown::of_sizes;

/// Cases with a panel: the quickest of more.
pub(crate) const MOST_CASES: usize = 6;
/// Columns of a panel.
const COLUMNS: usize = 120;

/// The chart of a record that has timelines.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    let all = with_timeline(record);
    let cases = shown(record, &all);
    let held = |case: usize, tier: usize| occupancy(timeline(record, case), tier);
    let tiers = &record.base().tiers;
    let peak = |case: usize, tier: usize| held(case, tier).into_iter().map(|at| at.1).max();
    let most = cases.iter().flat_map(|&case| (0..tiers.len()).filter_map(move |t| peak(case, t)));
    let most = most.max().unwrap_or(0) as f64;
    if most == 0.0 {
        return Vec::new();
    }
    let (unit, size) = of_sizes(most);
    let (labels, looks) = (direct(record, &cases), looks_of_cases(record));
    let layer = |case: usize, tier: usize| {
        let line = held(case, tier);
        line.iter().any(|at| at.1 > 0).then(|| Layer {
            look: tier,
            line: line.into_iter().map(|(at, bytes)| (at * 100.0, bytes as f64 / size)).collect(),
            ..Layer::default()
        })
    };
    let panel = |(&case, label): (&usize, &String)| {
        let budget = record.results[case].hbm_budget.limit().map(|bytes| bytes.get() as f64);
        Panel {
            name: label.clone(),
            below: took(record, case),
            look: Some(looks[case]),
            layers: (0..tiers.len()).filter_map(|tier| layer(case, tier)).collect(),
            // A budget far above all would press the lines to the floor.
            level: budget.filter(|budget| *budget <= 1.3 * most).map(|budget| budget / size),
            ..Panel::default()
        }
    };
    // Budgets may be above all that is held.
    let budgets = cases.iter().filter_map(|&case| record.results[case].hbm_budget.limit());
    let budgets = budgets.map(|bytes| bytes.get() as f64).filter(|bytes| *bytes <= 1.3 * most);
    let top = budgets.fold(most, f64::max) * 1.05;
    let panels: Vec<Panel> = cases.iter().zip(&labels.names).map(panel).collect();
    let used =
        |tier: usize| panels.iter().flat_map(|panel| &panel.layers).any(|layer| layer.look == tier);
    let keys = (0..tiers.len()).filter(|&tier| used(tier));
    let panels = Panels {
        record,
        title: format!("{}: what the tiers hold in the last measured step", record.scenario),
        about: record.about.clone(),
        x: Shared {
            range: Some((0.0, 100.0)),
            ..Shared::of("share of the step that has passed (%)")
        },
        y: Shared { range: Some((0.0, top / size)), ..Shared::of(format!("bytes held ({unit})")) },
        keys: keys.map(|tier| (tier, tiers[tier].0.clone())).collect(),
        panels,
        notes: labels.left_out.into_iter().chain(rest(record, &all, "cases")).collect(),
        level: "HBM budget".to_owned(),
    };
    vec![("occupancy".to_owned(), panels.chart(made))]
}

/// The cases that have a panel, of those that may have one: the quickest first, emulated ones last.
pub(crate) fn shown(record: &RunRecord, of: &[usize]) -> Vec<usize> {
    let mut cases = of.to_vec();
    order(record, &mut cases);
    cases.truncate(MOST_CASES);
    cases
}

/// The cases whose last step is known.
pub(crate) fn with_timeline(record: &RunRecord) -> Vec<usize> {
    let has = |case: &usize| {
        let figures = record.results[*case].outcome.figures();
        figures.is_some_and(|figures| span(&figures.timeline).1 > 0)
    };
    // Cases on several machines have no tiers in common, and points of a sweep no timelines.
    let one = record.shared().is_some() && record.axes.is_empty();
    (0..record.results.len()).filter(|case| one && has(case)).collect()
}

/// What is said where not all cases have a panel, but the first of those that may: `what` they are.
pub(crate) fn rest(record: &RunRecord, may: &[usize], what: &str) -> Option<String> {
    let (all, may, emulated) = (
        with_timeline(record).len(),
        may.len(),
        may.iter().any(|&case| record.results[case].emulated),
    );
    let last = if emulated { ", emulated ones last" } else { "" };
    let which = match may > MOST_CASES {
        true => format!("The quickest {MOST_CASES} of {may} {what}{last}"),
        false if may < all => format!("All {may} {what}"),
        false => return None,
    };
    Some(format!("{which}; timeline.json has all {all}."))
}

/// How long the step that is shown took, and beside it the mean of those measured where that is
/// another.
pub(crate) fn took(record: &RunRecord, case: usize) -> String {
    let mean = record.results[case].outcome.figures().expect("it ran").mean_step();
    let [own, mean] = [span(timeline(record, case)).1, mean.ps()].map(|ps| time(ps as f64));
    if own == mean { own } else { format!("{own} (mean {mean})") }
}

/// The timeline of a case that has one.
pub(crate) fn timeline(record: &RunRecord, case: usize) -> &Timeline {
    &record.results[case].outcome.figures().expect("it ran").timeline
}

/// When the steps of a timeline begin, and how long they are together, in picoseconds.
pub(crate) fn span(timeline: &Timeline) -> (u64, u64) {
    let (Some(first), Some(last)) = (timeline.steps.first(), timeline.steps.last()) else {
        return (0, 0);
    };
    let start = first.start.ps();
    (start, last.start.ps() + last.span.ps() - start)
}

/// The corners of a tier's line: the share of the step, and bytes.
fn occupancy(timeline: &Timeline, tier: usize) -> Vec<(f64, u64)> {
    let (start, length) = span(timeline);
    // What is held when the step begins stands before it.
    let mut columns: Vec<Option<(u64, u64)>> = vec![None; COLUMNS + 1];
    for held in timeline.held.iter().filter(|held| held.tier == tier) {
        let since = held.at.ps().saturating_sub(start).min(length);
        let share = u128::from(since) * COLUMNS as u128 / u128::from(length.max(1));
        let (column, bytes) = (&mut columns[share as usize], held.bytes.get());
        let most = column.map_or(bytes, |(most, _)| most.max(bytes));
        *column = Some((most, bytes));
    }
    let mut corners = Vec::new();
    let mut now = 0;
    for (index, column) in columns.into_iter().enumerate() {
        let Some((most, last)) = column else { continue };
        let x = index as f64 / COLUMNS as f64;
        corners.extend([(x, now), (x, most), (x, last)]);
        now = last;
    }
    // At the start nothing came before.
    if corners.first().is_some_and(|first| first.0 == 0.0) {
        corners.remove(0);
    }
    corners.push((1.0, now));
    corners.dedup();
    corners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::results::{Residency, ShownStep};
    use tiersim_models::units::{Bytes, Span, Time};

    fn holding(held: &[(u64, usize, u64)]) -> Timeline {
        let of = |&(at, tier, bytes): &(u64, usize, u64)| Residency {
            at: Time::from_ps(at),
            tier,
            bytes: Bytes::new(bytes),
        };
        let step = ShownStep { number: 1, start: Time::from_ps(1000), span: Span::from_ps(2400) };
        Timeline { steps: vec![step], held: held.iter().map(of).collect(), slices: Vec::new() }
    }

    #[test]
    fn a_line_has_what_is_held_from_each_moment_on() {
        let timeline = holding(&[(1000, 0, 50), (1000, 1, 7), (1600, 0, 80), (2200, 0, 20)]);
        let line = [(0.0, 50), (0.25, 50), (0.25, 80), (0.5, 80), (0.5, 20), (1.0, 20)];
        assert_eq!(occupancy(&timeline, 0), line);
        assert_eq!(occupancy(&timeline, 1), [(0.0, 7), (1.0, 7)]);
        assert_eq!(occupancy(&timeline, 2), [(1.0, 0)]);
    }

    #[test]
    fn a_peak_within_a_column_is_kept() {
        let timeline = holding(&[(1000, 0, 5), (1601, 0, 99), (1602, 0, 6)]);
        assert_eq!(occupancy(&timeline, 0).iter().map(|at| at.1).max(), Some(99));
    }

    #[test]
    fn what_is_said_counts_those_that_may_have_a_panel_and_names_the_mean() {
        let record = common::training();
        let all = with_timeline(&record);
        assert_eq!(all.len(), 9);
        let said = rest(&record, &all, "cases").expect("there are more");
        assert_eq!(said, "The quickest 6 of 9 cases; timeline.json has all 9.");
        let said = rest(&record, &all[..4], "cases that copy in it").expect("there are more");
        assert_eq!(said, "All 4 cases that copy in it; timeline.json has all 9.");
        // The step that is shown is a blink beside the mean.
        assert_eq!(took(&record, 1), "1.50 us (mean 431 ms)");
    }
}
