//! Series of cases, and the colour and marker of each on every chart of a record.
//!
//! A series is a policy, told apart further by what its cases do not have in common: the names on
//! a sweep's text axes and the words of the policy's details that hold no number (such as
//! `in place` against `migrate`). Numbers are what varies *within* a series.
//! A policy that sees the whole trace, or whose numbers were learned, says so in its series' name.
//! Where machines are compared, each has a colour and a front of its own, and a policy has the same
//! marker on all of them. So it is with the values of a sweep's text axis, if there are many series;
//! they share a front.
//! Invariant: the name of a series is at one place, and no two cases of different names share one.

use crate::contest::marks;
use crate::style::{BY_COLOR, COLORS, MARKERS, SHAPES};
use crate::words::clean;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::results::{AxisValue, CaseRecord, MACHINE, RunRecord};

/// Up to so many series have a colour and a marker each that no other has.
const MOST_OF_OWN_LOOK: usize = 6;

/// Parts of the details, between commas and semicolons, that hold no number.
fn words_of(case: &CaseRecord) -> Vec<&str> {
    case.details
        .split([',', ';'])
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// The colour and marker of each case on charts of which every line is a case: the first of a
/// series has that of its series, every other one that no series has.
pub(crate) fn looks_of_cases(record: &RunRecord) -> Vec<usize> {
    let names = series_names(&record.results, None);
    let series = looks(record, &names);
    let places = places(&series);
    let (mut taken, mut free) = (BTreeSet::new(), series.len()..);
    let mut look = |name: &String| {
        let own = places.get(name.as_str()).copied().filter(|&own| taken.insert(own));
        own.or_else(|| free.next()).expect("there is no end to them")
    };
    names.iter().map(&mut look).collect()
}

/// The first place of each name.
pub(crate) fn places(names: &[String]) -> BTreeMap<&str, usize> {
    let mut places = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        places.entry(name.as_str()).or_insert(place);
    }
    places
}

/// The names of series at the places that are their looks. Where an axis has the colours, a place
/// is that of its value by colours and that of the rest of the name by markers; their numbers have
/// no common factor, so each pair has a place.
pub(crate) fn looks(record: &RunRecord, names: &[String]) -> Vec<String> {
    let series = each_once(names.iter());
    let Some(ByColor { axis, values, policies, markers }) = by_color(record, series.len()) else {
        return series;
    };
    let mut places = vec![String::new(); 2 * BY_COLOR];
    for ((case, name), policy) in record.results.iter().zip(names).zip(&policies) {
        let color = text_of(case, axis).and_then(|own| values.iter().position(|v| v == own));
        let marker = markers.iter().position(|marker| marker == policy).unwrap_or(0);
        places[place(color.unwrap_or(0), marker)].clone_from(name);
    }
    places
}

/// The look of a colour and a marker.
fn place(color: usize, marker: usize) -> usize {
    let own = |place: &usize| place % COLORS == color && place % MARKERS == marker;
    (BY_COLOR..2 * BY_COLOR).find(own).unwrap_or(BY_COLOR)
}

/// What colours and what markers mean where an axis has the colours: looks and words of each. A
/// legend of both is shorter than one of all their pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) axis: String,
    pub(crate) colors: Vec<(usize, String)>,
    pub(crate) markers: Vec<(usize, String)>,
}

/// Those of a record whose series have these names.
pub(crate) fn factors(record: &RunRecord, names: &[String]) -> Option<Factors> {
    let of = by_color(record, each_once(names.iter()).len())?;
    let colors = of.values.iter().enumerate();
    let markers = of.markers.into_iter().enumerate();
    Some(Factors {
        axis: of.axis.to_owned(),
        colors: colors.map(|(color, value)| (place(color, 0), clean(value))).collect(),
        markers: markers.map(|(marker, policy)| (SHAPES + marker, policy)).collect(),
    })
}

/// A record of which an axis has the colours.
struct ByColor<'r> {
    axis: &'r str,
    /// By colour.
    values: Vec<String>,
    /// The rest of the name of each case's series.
    policies: Vec<String>,
    /// These by marker.
    markers: Vec<String>,
}

/// `None` as well where there are more values or policies than colours or markers.
fn by_color(record: &RunRecord, series: usize) -> Option<ByColor<'_>> {
    let axis = axis_of_colors(record, series)?;
    let values = each_once(record.results.iter().filter_map(|case| text_of(case, axis)));
    let policies = series_names(&record.results, Some(axis));
    let markers = each_once(policies.iter());
    let few = values.len() <= COLORS && markers.len() <= MARKERS;
    few.then_some(ByColor { axis, values, policies, markers })
}

/// The axis whose values are told apart by colour: that of machines, or of many series the only one
/// of texts. A few are easier to tell apart if no two have the same marker.
fn axis_of_colors(record: &RunRecord, series: usize) -> Option<&str> {
    if !machines(record).is_empty() {
        return Some(MACHINE);
    }
    let params = record.results.iter().flat_map(|case| case.params.iter());
    let texts = params.filter(|(_, value)| matches!(value, AxisValue::Text(_)));
    let axes: BTreeSet<&str> = texts.map(|(axis, _)| axis.as_str()).collect();
    let only = (axes.len() == 1).then(|| axes.first().copied()).flatten();
    only.filter(|_| series > MOST_OF_OWN_LOOK)
}

fn each_once<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    names.filter(|name| seen.insert(name)).cloned().collect()
}

/// The machines that a record compares, in its order; none where it is about one.
pub(crate) fn machines(record: &RunRecord) -> Vec<String> {
    let all = each_once(record.results.iter().filter_map(machine_of));
    if all.len() > 1 { all } else { Vec::new() }
}

/// The machine of a case, where several are compared.
pub(crate) fn machine_of(case: &CaseRecord) -> Option<&String> {
    text_of(case, MACHINE)
}

/// What a case has on an axis of texts.
fn text_of<'c>(case: &'c CaseRecord, axis: &str) -> Option<&'c String> {
    case.params.iter().find_map(|(own, value)| match value {
        AxisValue::Text(text) if own == axis => Some(text),
        _ => None,
    })
}

/// The name of each case's series, without what it has on one axis.
pub(crate) fn series_names(cases: &[CaseRecord], without: Option<&str>) -> Vec<String> {
    let all_words: Vec<Vec<&str>> = cases.iter().map(words_of).collect();
    let mut policies: Vec<&str> = cases.iter().map(|case| case.policy.as_str()).collect();
    policies.sort_unstable();
    policies.dedup();
    // Words that every case of the policy has say nothing about it.
    let mut common: Vec<Vec<&str>> = Vec::new();
    for policy in &policies {
        let mut of_policy =
            cases.iter().zip(&all_words).filter(|(case, _)| case.policy == **policy);
        let mut shared = of_policy.next().map(|(_, words)| words.clone()).unwrap_or_default();
        for (_, words) in of_policy {
            shared.retain(|word| words.contains(word));
        }
        common.push(shared);
    }
    cases
        .iter()
        .zip(&all_words)
        .map(|(case, words)| {
            let policy = policies.binary_search(&case.policy.as_str()).expect("it is listed");
            let mut name = clean(&case.policy);
            let own = || words.iter().copied().filter(|word| !common[policy].contains(word));
            // `in place, emulated (outputs)` says the mark itself.
            let mut marks = marks(case);
            marks.retain(|mark| own().all(|word| !word.starts_with(mark)));
            if !marks.is_empty() {
                name = format!("{name} ({})", marks.join(", "));
            }
            let texts = case.params.iter().filter_map(|(axis, value)| match value {
                AxisValue::Text(text) => {
                    Some(text.as_str()).filter(|_| Some(axis.as_str()) != without)
                }
                AxisValue::Number(_) => None,
            });
            for word in texts.chain(own()).map(clean) {
                if name.split(", ").all(|part| part != word) {
                    name = format!("{name}, {word}");
                }
            }
            name
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use crate::measure::Measure;
    use crate::points::Points;

    #[test]
    fn of_many_series_a_value_has_a_colour_and_a_policy_a_marker() {
        let (policies, values) = (["all-hbm", "lru", "density"], ["16 bits", "8 bits", "4 bits"]);
        let points = Points::of(&common::pairs(&policies, &values), Measure::Step);
        let look = |policy: &str, value: &str| {
            let name = format!("{policy}, {value}");
            let at = points.series.iter().position(|series| *series == name);
            at.map(|at| (at % COLORS, at % MARKERS)).expect("it is drawn")
        };
        for (marker, policy) in policies.iter().enumerate() {
            for (color, value) in values.iter().enumerate() {
                assert_eq!(look(policy, value), (color, marker), "{policy}, {value}");
            }
        }
        assert_eq!(points.drawn().len(), 9);
    }

    #[test]
    fn a_mark_that_words_say_is_said_once() {
        let mut record = common::training();
        let case = record.results.iter_mut().find(|case| case.details.contains("in place"));
        let case = case.expect("one uses objects in place");
        (case.emulated, case.details) = (true, "in place, emulated (outputs), dram".into());
        let label = case.label.clone();
        let names = series_names(&record.results, None);
        let at = record.results.iter().position(|case| case.label == label).expect("it is there");
        assert_eq!(names[at], "adam-state, in place, emulated (outputs), dram");
        // Without such words the mark stays.
        record.results[at].details = "in place, dram".into();
        assert_eq!(
            series_names(&record.results, None)[at],
            "adam-state (emulated), in place, dram"
        );
    }

    /// What a run adds to the words of a policy follows a semicolon, and hides none of them.
    #[test]
    fn a_word_before_a_semicolon_is_one() {
        let mut record = common::pairs(&["lru"], &["a", "a"]);
        for (case, details) in record.results.iter_mut().zip(["all", "all, in place; 16 MiB"]) {
            case.details = details.into();
        }
        let names = series_names(&record.results, None);
        assert_eq!(names, ["lru, a", "lru, a, in place"]);
    }

    #[test]
    fn of_a_few_series_each_has_a_colour_and_a_marker_of_its_own() {
        let points =
            Points::of(&common::pairs(&["all-hbm", "lru", "density"], &["a", "b"]), Measure::Step);
        assert_eq!((points.series.len(), points.drawn()), (6, (0..6).collect()));
    }
}
