//! Latency against memory as small multiples: a panel for each value of what cases differ in.
//!
//! Above six series one plot is a crowd. Here cases are taken apart by machine, by an axis of the
//! sweep such as the ZeRO stage, or else by policy, and panels share both scales, so that they can
//! be compared by eye. Within a panel a case is named beside its point, without what all labels of
//! the panel have in common. Of a sweep whose every point would be a panel there is none.
//! Invariant: every case that ran is in exactly one panel.

use crate::against::{apart, own_bound};
use crate::latency_cost::front;
use crate::measure::{Measure, by_measure};
use crate::names::direct;
use crate::panels::{Layer, MOST_PANELS, Panel, Panels, Shared};
use crate::points::{Point, Points};
use crate::render::{Chart, Charts};
use crate::sheet::Made;
use crate::words::clean;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::results::{AxisValue, MACHINE, RunRecord};
use tiersim_models::units::shown::{of_sizes, of_times};

/// More series than one plot can show apart.
const MOST_SERIES: usize = 6;
/// Of more groups the panels that a page holds would be too few to say anything.
const MOST_GROUPS: usize = 4 * MOST_PANELS;
/// More points of a panel are not named, and a legend says what their markers mean.
const MOST_LABELS: usize = 8;

/// One for each measure of a record that is one.
pub(crate) fn charts(record: &RunRecord, made: Made<'_>) -> Charts {
    by_measure(record, "by-panel", |measure| chart(record, measure, made))
}

/// Cases by what takes them apart best, each group with its name: by machine, by a sweep's
/// first axis of two to twelve values, or else by series.
pub(crate) fn grouped(record: &RunRecord, cases: &[usize]) -> Vec<(String, Vec<usize>)> {
    match factor(record, cases) {
        Some(axis) => by(cases, |case| {
            let value = &record.results[case].params.iter().find(|(name, _)| name == axis);
            value.map_or(String::new(), |(_, value)| named(axis, value))
        }),
        None => {
            let points = Points::of(record, Measure::of(record)[0]);
            let at = |case| points.done.binary_search_by_key(&case, |point| point.case).ok();
            let name = |at: usize| points.series[points.done[at].series].clone();
            by(cases, |case| at(case).map_or(String::new(), name))
        }
    }
}

/// A group's name: that of a machine or of a word says enough, a number needs its axis.
fn named(axis: &str, value: &AxisValue) -> String {
    match value {
        AxisValue::Text(text) => clean(text),
        AxisValue::Number(number) => {
            let short = axis.rsplit('.').next().unwrap_or(axis);
            clean(&format!("{short} {number}"))
        }
    }
}

fn by(cases: &[usize], name: impl Fn(usize) -> String) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for &case in cases {
        let own = name(case);
        let place = *places.entry(own.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((own, Vec::new()));
        }
        groups[place].1.push(case);
    }
    groups
}

/// The first axis that takes cases apart into two panels or more, if all of them are on it; that of
/// machines before all.
fn factor<'r>(record: &'r RunRecord, cases: &[usize]) -> Option<&'r str> {
    let mut names = std::iter::once(MACHINE).chain(record.axes.iter().map(String::as_str));
    let value = |case: usize, name: &str| {
        let params = &record.results[case].params;
        params.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.to_string())
    };
    names.find(|name| {
        let all: Option<Vec<String>> = cases.iter().map(|&case| value(case, name)).collect();
        let different: Option<BTreeSet<String>> = all.map(|all| all.into_iter().collect());
        different.is_some_and(|all| (2..=MOST_PANELS).contains(&all.len()))
    })
}

fn chart(record: &RunRecord, measure: Measure, made: Made<'_>) -> Option<Chart> {
    let points = Points::of(record, measure);
    let cases: Vec<usize> = points.done.iter().map(|point| point.case).collect();
    if factor(record, &cases).is_none() && points.drawn().len() <= MOST_SERIES {
        return None;
    }
    let groups = grouped(record, &cases);
    if !(2..=MOST_GROUPS).contains(&groups.len()) {
        return None;
    }
    let most = |of: fn(&Point) -> u64| points.done.iter().map(of).max().unwrap_or(0) as f64;
    let (memory, time) = (of_sizes(most(|p| p.memory)), of_times(most(|p| p.step)));
    let place = |point: &Point| (point.memory as f64 / memory.1, point.step as f64 / time.1);
    let named = groups.iter().all(|(_, cases)| cases.len() <= MOST_LABELS);
    let panel = |(name, cases): &(String, Vec<usize>)| {
        let own = |point: &&Point| cases.binary_search(&point.case).is_ok();
        let own: Vec<&Point> = points.done.iter().filter(own).collect();
        let labels = match named {
            true => direct(record, cases).names,
            false => vec![String::new(); cases.len()],
        };
        let layer = |(point, label): (&&Point, &String)| Layer {
            label: label.clone(),
            look: point.series,
            case: Some(point.case),
            marks: vec![place(point)],
            ..Layer::default()
        };
        // Emulated cases are held against no bound.
        let paying = own.iter().filter(|point| !point.emulated);
        let bounds: Vec<u64> = paying.map(|point| own_bound(record, measure, point)).collect();
        let same = bounds.windows(2).all(|pair| pair[0] == pair[1]);
        let bound = bounds.first().copied().filter(|&bound| same && bound > 0);
        Panel {
            name: name.clone(),
            layers: own.iter().zip(&labels).map(layer).collect(),
            level: bound.map(|ps| ps as f64 / time.1),
            front: front(own.iter().filter(|p| !p.emulated).map(|point| place(point)).collect()),
            ..Panel::default()
        }
    };
    // What names of panels say, a legend need not.
    let keys = match &points.factors {
        Some(of) if factor(record, &cases) == Some(&of.axis) => of.markers.clone(),
        _ => points.drawn().into_iter().map(|at| (at, points.series[at].clone())).collect(),
    };
    let oom = points.oom.len();
    let note =
        (oom > 0).then(|| format!("{oom} out of memory and not shown; results.csv has all."));
    let all: Vec<Panel> = groups.iter().map(panel).collect();
    let bound = all.iter().any(|panel| panel.level.is_some()).then(|| {
        format!(
            "No policy is faster than the bound{}; a panel whose cases have several HBM budgets has \
             none.",
            apart(record)
        )
    });
    let panels = Panels {
        record,
        title: format!("{}: {} against memory", record.scenario, measure.title()),
        about: record.about.clone(),
        x: Shared::of(format!("peak HBM ({})", memory.0)),
        y: Shared { ratio: 20.0, ..Shared::of(format!("{} ({})", measure.words(), time.0)) },
        panels: all,
        notes: note.into_iter().chain(bound).collect(),
        keys,
        level: "bound at the panel's HBM budget".to_owned(),
    };
    Some(panels.chart(made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;
    use crate::common;
    use tiersim_models::units::Span;

    #[test]
    fn a_sweep_is_taken_apart_by_its_axis_of_names_and_no_case_is_lost() {
        let record = common::sweep();
        let points = Points::of(&record, Measure::Step);
        let cases: Vec<usize> = points.done.iter().map(|point| point.case).collect();
        let groups = grouped(&record, &cases);
        let names: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["in place", "migrate"]);
        let mut all: Vec<usize> = groups.into_iter().flat_map(|(_, cases)| cases).collect();
        all.sort_unstable();
        assert_eq!(all, cases);
    }

    #[test]
    fn a_bound_is_drawn_only_where_somebody_is_held_against_it() {
        let mut record = common::sweep();
        let says = |record: &RunRecord, words: &str| {
            let charts = charts(record, "0".into());
            let mut items = charts[0].1.items().iter();
            items.any(|item| matches!(item, Item::Text { text, .. } if text.contains(words)))
        };
        for case in &mut record.results {
            case.bound_step = Span::from_ps(390_000_000_000);
        }
        assert!(says(&record, "No policy is faster than the bound; a panel"));
        record.results[0].emulated = true;
        assert!(says(&record, "No policy is faster than the bound but emulated cases; a panel"));
        record.results.iter_mut().for_each(|case| case.emulated = true);
        assert!(!says(&record, "bound"));
    }

    #[test]
    fn few_series_of_one_scenario_stay_on_one_plot() {
        assert!(charts(&common::training(), "0".into()).is_empty());
        assert_eq!(charts(&common::sweep(), "0".into()).len(), 1);
    }

    #[test]
    fn as_many_groups_as_no_page_holds_are_no_chart() {
        let mut record = common::training();
        let ran = record.results[1].clone();
        let many = |count: usize| {
            let case = |at: usize| {
                let mut own = ran.clone();
                (own.label, own.policy) = (format!("p{at}"), format!("p{at}"));
                own.details = String::new();
                own
            };
            (0..count).map(case).collect::<Vec<_>>()
        };
        for (count, charted) in [(MOST_GROUPS, 1), (MOST_GROUPS + 1, 0)] {
            record.results = many(count);
            let made = charts(&record, "0".into()).len();
            assert_eq!(made, charted, "{count} policies");
        }
    }

    #[test]
    fn without_axes_cases_are_taken_apart_by_series() {
        let record = common::training();
        let groups = grouped(&record, &[1, 2, 4, 7]);
        let names: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["lru", "adam-state, in place", "adam-state, migrate"]);
        assert_eq!(groups[0].1, [1, 2]);
    }
}
