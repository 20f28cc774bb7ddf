//! The cases as points of memory against time, and their Pareto fronts.
//!
//! Invariant: every case is in exactly one of `done` and `oom`, in the record's order.

use crate::canvas::Tag;
use crate::measure::Measure;
use crate::series::{Factors, factors, looks, machine_of, machines, places, series_names};
use std::collections::BTreeSet;
use tiersim_models::hardware::HBM;
use tiersim_models::results::uncertainty::Band;
use tiersim_models::results::{CaseRecord, Lookahead, Outcome, RunRecord};

/// A case that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Index into [`RunRecord::results`].
    pub(crate) case: usize,
    pub(crate) series: usize,
    /// Peak of HBM in bytes.
    pub(crate) memory: u64,
    /// What cases are compared by, in picoseconds.
    pub(crate) step: u64,
    /// On one of the fronts.
    pub(crate) front: bool,
    /// Kept apart: it does not pay for every use outside HBM.
    pub(crate) emulated: bool,
    /// Where it is in draws of the machine's numbers.
    pub(crate) reach: Option<Reach>,
}

/// From the 5th to the 95th percentile over draws, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Bytes.
    pub(crate) memory: [u64; 2],
    /// Picoseconds.
    pub(crate) step: [u64; 2],
}

/// The reach of a case, if it was drawn and fits in some draw.
fn reach(record: &RunRecord, case: usize, measure: Measure) -> Option<Reach> {
    let of = record.uncertainty.as_ref()?;
    let ends = |band: Band| [band.p5, band.p95].map(|end| end.round() as u64);
    Some(Reach {
        memory: ends(of.band(case, |of| Some(of.peak.get() as f64))?),
        step: ends(of.band(case, |of| measure.drawn(of, record.of(&record.results[case])))?),
    })
}

impl Point {
    /// What a chart says of what it draws of the point.
    pub(crate) fn tag(&self) -> Tag {
        Tag { series: Some(self.series), case: Some(self.case), ..Tag::default() }
    }
}

/// The cases that a front is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Those that pay for every access and do not see the whole trace.
    Plain,
    /// All that pay for every access.
    WithOracles,
    /// Emulated ones.
    Emulated,
}

impl Front {
    /// In the order in which they are drawn: the first is the lowest.
    pub(crate) const ALL: [Front; 3] = [Front::Emulated, Front::WithOracles, Front::Plain];

    fn is_of(self, case: &CaseRecord) -> bool {
        match self {
            Front::Plain => !case.emulated && case.lookahead != Lookahead::Oracle,
            Front::WithOracles => !case.emulated,
            Front::Emulated => case.emulated,
        }
    }
}

/// All cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    /// Of all cases, also of those that ran out of memory: the place of a name here is its colour
    /// and its marker on every chart of the record. Places of which no case is are empty.
    pub(crate) series: Vec<String>,
    /// What their colours and markers mean, where both mean something.
    pub(crate) factors: Option<Factors>,
    /// The machines that are compared, by colour, each with the cases of its front by memory.
    pub(crate) machines: Vec<(String, Vec<usize>)>,
    pub(crate) done: Vec<Point>,
    /// Index of the case, and its HBM budget unless that is unlimited.
    pub(crate) oom: Vec<(usize, Option<u64>)>,
    /// Cases of each of [`Front::ALL`], by memory.
    fronts: [Vec<usize>; 3],
}

impl Points {
    pub(crate) fn of(record: &RunRecord, measure: Measure) -> Points {
        let names = series_names(&record.results, None);
        let machines = machines(record);
        let front = |front| front_of(record, front, measure, |_| true);
        let of_machine = |machine: &String| {
            let own = |case: &CaseRecord| machine_of(case) == Some(machine);
            (machine.clone(), front_of(record, Front::Plain, measure, own))
        };
        let mut points = Points {
            series: looks(record, &names),
            factors: factors(record, &names),
            done: Vec::new(),
            oom: Vec::new(),
            // Who is before all others of all machines is nobody's question.
            fronts: Front::ALL.map(|of| if machines.is_empty() { front(of) } else { Vec::new() }),
            machines: machines.iter().map(of_machine).collect(),
        };
        let fronts = points.machines.iter().map(|(_, front)| front).chain(&points.fronts);
        let fronts: BTreeSet<usize> = fronts.flatten().copied().collect();
        let places = places(&points.series);
        for (case, (result, name)) in record.results.iter().zip(&names).enumerate() {
            match &result.outcome {
                Outcome::Done(_) => {
                    let series = *places.get(name.as_str()).expect("it is listed");
                    let Some((memory, step)) = coordinates(record, case, measure) else { continue };
                    let front = fronts.contains(&case);
                    let emulated = result.emulated;
                    let reach = reach(record, case, measure);
                    points.done.push(Point { case, series, memory, step, front, emulated, reach });
                }
                Outcome::OutOfMemory(_) => {
                    let budget = result.hbm_budget.limit();
                    points.oom.push((case, budget.map(|budget| budget.get())));
                }
            }
        }
        points
    }

    /// All cases, in their order.
    pub(crate) fn shown(&self) -> Vec<usize> {
        let done = self.done.iter().map(|point| point.case);
        let mut all: Vec<usize> = done.chain(self.oom.iter().map(|(case, _)| *case)).collect();
        all.sort_unstable();
        all
    }

    /// The points of the front of a machine, by memory.
    pub(crate) fn machine_front(&self, machine: usize) -> Vec<Point> {
        let cases = &self.machines[machine].1;
        let find = |case: &usize| self.done.iter().find(|point| point.case == *case).copied();
        cases.iter().filter_map(find).collect()
    }

    /// The series of which some case is drawn, in the order of cases where their places are looks
    /// and in no order.
    pub(crate) fn drawn(&self) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let all = self.done.iter().map(|point| point.series);
        let mut drawn: Vec<usize> = all.filter(|series| seen.insert(*series)).collect();
        if self.series.iter().all(|name| !name.is_empty()) {
            drawn.sort_unstable();
        }
        drawn
    }

    /// The points of a front, by memory. Empty if it is no other than that of plain cases.
    pub(crate) fn front(&self, front: Front) -> Vec<Point> {
        let of = |front| {
            let at = Front::ALL.iter().position(|other| *other == front);
            &self.fronts[at.expect("all are listed")]
        };
        if front == Front::WithOracles && of(front) == of(Front::Plain) {
            return Vec::new();
        }
        let cases: BTreeSet<usize> = of(front).iter().copied().collect();
        let own = self.done.iter().filter(|point| cases.contains(&point.case));
        let mut own: Vec<Point> = own.copied().collect();
        own.sort_by_key(|point| (point.memory, point.case));
        own
    }
}

/// Indices of the cases that no other case beats on both peak HBM and what cases are ranked by, by
/// memory: first
/// those of cases that pay for every access and do not see the whole trace, then what those that
/// see it add, then those of emulated ones.
///
/// Cases equal in both are all on the front.
pub(crate) fn pareto_front(record: &RunRecord) -> Vec<usize> {
    let mut cases: Vec<usize> = Vec::new();
    for front in [Front::Plain, Front::WithOracles, Front::Emulated] {
        let own = front_of(record, front, Measure::ranking(record), |_| true);
        cases.extend(own.into_iter().filter(|case| !cases.contains(case)).collect::<Vec<_>>());
    }
    cases
}

fn front_of(
    record: &RunRecord,
    front: Front,
    measure: Measure,
    of: impl Fn(&CaseRecord) -> bool,
) -> Vec<usize> {
    let is_of = |case: &CaseRecord| front.is_of(case) && of(case);
    let mut order: Vec<(u64, u64, usize)> = (0..record.results.len())
        .filter(|&case| is_of(&record.results[case]))
        .filter_map(|case| {
            coordinates(record, case, measure).map(|(memory, step)| (memory, step, case))
        })
        .collect();
    order.sort_unstable();
    let mut front: Vec<(u64, u64, usize)> = Vec::new();
    for point in order {
        let better = |last: &(u64, u64, usize)| point.1 < last.1;
        let same = |last: &(u64, u64, usize)| (point.0, point.1) == (last.0, last.1);
        if front.last().is_none_or(|last| better(last) || same(last)) {
            front.push(point);
        }
    }
    front.into_iter().map(|(_, _, case)| case).collect()
}

fn coordinates(record: &RunRecord, case: usize, measure: Measure) -> Option<(u64, u64)> {
    let case = &record.results[case];
    let figures = case.outcome.figures()?;
    let memory = figures.peak.get(HBM.index()).map_or(0, |bytes| bytes.get());
    Some((memory, measure.ps(figures, record.of(case))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn series_differ_by_policy_and_by_words_without_numbers() {
        let points = Points::of(&common::training(), Measure::Step);
        assert_eq!(
            points.series,
            ["all-hbm", "lru", "adam-state, in place", "adam-state, migrate"]
        );
        assert_eq!((points.done.len(), points.oom.len()), (9, 1));
        let points = Points::of(&common::sweep(), Measure::Step);
        assert_eq!(points.series, ["adam-state, in place", "adam-state, migrate"]);
    }

    #[test]
    fn nothing_beats_the_front_and_the_front_beats_the_rest() {
        for record in [common::training(), common::crowd(), common::all_equal()] {
            let points = Points::of(&record, Measure::Step);
            let beats = |a: &Point, b: &Point| {
                a.memory <= b.memory && a.step <= b.step && (a.memory, a.step) != (b.memory, b.step)
            };
            for point in &points.done {
                let beaten = points.done.iter().any(|other| beats(other, point));
                assert_eq!(point.front, !beaten, "{}: {point:?}", record.scenario);
            }
        }
    }
}
