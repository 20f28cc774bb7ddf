//! What cases are held against on a chart: the same workload with unlimited HBM, and what no policy
//! goes below.
//!
//! Cases of one scenario share both; points of a sweep may each have their own, of another machine
//! or workload. A bound holds for a budget of HBM, which its words say. Emulated cases are held
//! against none: they do not pay for every use, and may be quicker.

use crate::measure::Measure;
use crate::points::{Point, Points};
use tiersim_models::results::{CaseRecord, RunRecord};
use tiersim_models::units::{Bytes, Span};

/// One figure that cases are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldAgainst {
    /// There is none.
    Nowhere,
    /// Picoseconds, the same for every case.
    Same(u64),
    /// Each case has its own.
    Own,
}

/// What the cases of a record are held against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Against {
    measure: Measure,
    pub(crate) baseline: HeldAgainst,
    pub(crate) bound: HeldAgainst,
    /// The bound by HBM, in the place of a level line.
    pub(crate) curve: Vec<(Bytes, Span)>,
    /// What the bound is one of.
    pub(crate) what: &'static str,
    /// Who is quicker than it, behind "no policy is faster".
    pub(crate) apart: &'static str,
}

impl Against {
    pub(crate) fn of(record: &RunRecord, measure: Measure) -> Against {
        let baseline = match record.common(|on| measure.baseline(on)) {
            Some(0) => HeldAgainst::Nowhere,
            Some(ps) => HeldAgainst::Same(ps),
            None => HeldAgainst::Own,
        };
        let none = || Against {
            measure,
            baseline,
            bound: HeldAgainst::Nowhere,
            curve: Vec::new(),
            what: "bound with so much HBM",
            apart: apart(record),
        };
        let curve = record.shared().map(|on| &on.bound_curve).filter(|curve| !curve.is_empty());
        if let (Measure::Step, Some(curve)) = (measure, curve) {
            return Against { curve: curve.clone(), ..none() };
        }
        let (bound, what) = bound(record, measure);
        Against { bound, what, ..none() }
    }

    /// Picoseconds that the axis must reach.
    pub(crate) fn values(&self, record: &RunRecord, points: &Points) -> Vec<f64> {
        let of = |held: HeldAgainst, own: &dyn Fn(&Point) -> u64| match held {
            HeldAgainst::Nowhere => Vec::new(),
            HeldAgainst::Same(ps) => vec![ps],
            HeldAgainst::Own => points.done.iter().map(own).collect(),
        };
        let own_bound = |point: &Point| own_bound(record, self.measure, point);
        let mut all = of(self.baseline, &|point| self.own_baseline(record, point));
        all.extend(of(self.bound, &own_bound));
        // The end of the curve.
        all.extend(self.curve.last().map(|end| end.1.ps()));
        all.into_iter().filter(|ps| *ps > 0).map(|ps| ps as f64).collect()
    }

    /// What the point itself is held against.
    pub(crate) fn own_baseline(&self, record: &RunRecord, point: &Point) -> u64 {
        self.measure.baseline(record.of(&record.results[point.case]))
    }
}

/// The bound that is drawn where there is no curve, and what it is one of.
pub(crate) fn bound(record: &RunRecord, measure: Measure) -> (HeldAgainst, &'static str) {
    match (measure, level(record)) {
        (Measure::Step, Some((bound, what))) if bound > Span::ZERO => {
            (HeldAgainst::Same(bound.ps()), what)
        }
        (Measure::Step | Measure::Token, _) if record.results.iter().any(has_bound) => {
            (HeldAgainst::Own, "bound of the point above it")
        }
        _ => (HeldAgainst::Nowhere, ""),
    }
}

/// What no policy goes below in any case, and in words which bound that is: the one that all cases
/// have, else what holds whatever HBM a case has; `None` where cases are of several machines or
/// workloads.
fn level(record: &RunRecord) -> Option<(Span, &'static str)> {
    let mut bounds = record.results.iter().map(|case| case.bound_step);
    let first = bounds.next().unwrap_or(Span::ZERO);
    match first > Span::ZERO && bounds.all(|bound| bound == first) {
        true => Some((first, "bound of every case")),
        false => record.shared().map(|on| (on.bound, "bound whatever HBM")),
    }
}

/// Who of the cases that ran may be below a bound, as the end of a sentence that says nobody is.
pub(crate) fn apart(record: &RunRecord) -> &'static str {
    let below = |case: &CaseRecord| case.emulated && case.outcome.figures().is_some();
    if record.results.iter().any(below) { " but emulated cases" } else { "" }
}

fn has_bound(case: &CaseRecord) -> bool {
    case.bound_step > Span::ZERO
}

/// No policy makes the point quicker; 0 where that is not known, as of an emulated case.
pub(crate) fn own_bound(record: &RunRecord, measure: Measure, point: &Point) -> u64 {
    let case = &record.results[point.case];
    let bound = measure.bound(case.bound_step, record.of(case));
    bound.filter(|_| !point.emulated).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn the_level_is_the_bound_that_all_cases_have_or_that_of_any_memory() {
        let mut record = common::training();
        let any = record.shared().expect("all are of one machine").bound;
        let own = any + Span::from_ps(1_000_000);
        record.results.iter_mut().for_each(|case| case.bound_step = own);
        assert_eq!(level(&record), Some((own, "bound of every case")));
        record.results[0].bound_step = own + own;
        assert_eq!(level(&record), Some((any, "bound whatever HBM")));
        // Records of before have none of their own.
        record.results.iter_mut().for_each(|case| case.bound_step = Span::ZERO);
        assert_eq!(level(&record), Some((any, "bound whatever HBM")));
    }

    #[test]
    fn an_emulated_case_is_held_against_no_bound_and_the_words_say_so() {
        let mut record = common::machines();
        record.results[1].emulated = true;
        let points = Points::of(&record, Measure::Step);
        for point in &points.done {
            assert_eq!(
                own_bound(&record, Measure::Step, point) == 0,
                point.case == 1,
                "{}",
                point.case
            );
        }
        let against = Against::of(&record, Measure::Step);
        assert_eq!((against.bound, against.apart), (HeldAgainst::Own, " but emulated cases"));
        record.results[1].emulated = false;
        assert_eq!(Against::of(&record, Measure::Step).apart, "");
    }
}
