//! What cases are held against on a chart: the same workload with unlimited HBM, and what no policy
//! goes below.
//!
//! Cases of one scenario share both; points of a sweep may each have their own, of another machine
//! or workload.

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
}

impl Against {
    pub(crate) fn of(record: &RunRecord, measure: Measure) -> Against {
        let baseline = match record.common(|on| measure.baseline(on)) {
            Some(0) => HeldAgainst::Nowhere,
            Some(ps) => HeldAgainst::Same(ps),
            None => HeldAgainst::Own,
        };
        let none = || Against { measure, baseline, bound: HeldAgainst::Nowhere, curve: Vec::new() };
        let same =
            |bound: Span| measure.bound(bound).map_or(HeldAgainst::Nowhere, HeldAgainst::Same);
        let curve = record.shared().map(|on| &on.bound_curve).filter(|curve| !curve.is_empty());
        if let (Measure::Step, Some(curve)) = (measure, curve) {
            return Against { curve: curve.clone(), ..none() };
        }
        let bound = match (level(record), measure) {
            (Some(bound), _) => same(bound),
            (None, Measure::Step) if record.results.iter().any(has_bound) => HeldAgainst::Own,
            (None, _) => HeldAgainst::Nowhere,
        };
        Against { bound, ..none() }
    }

    /// Picoseconds that the axis must reach.
    pub(crate) fn values(&self, record: &RunRecord, points: &Points) -> Vec<f64> {
        let of = |held: HeldAgainst, own: &dyn Fn(&Point) -> u64| match held {
            HeldAgainst::Nowhere => Vec::new(),
            HeldAgainst::Same(ps) => vec![ps],
            HeldAgainst::Own => points.done.iter().map(own).collect(),
        };
        let mut all = of(self.baseline, &|point| self.own_baseline(record, point));
        all.extend(of(self.bound, &|point| own_bound(record, point)));
        // The end of the curve.
        all.extend(self.curve.last().map(|end| end.1.ps()));
        all.into_iter().filter(|ps| *ps > 0).map(|ps| ps as f64).collect()
    }

    /// What the point itself is held against.
    pub(crate) fn own_baseline(&self, record: &RunRecord, point: &Point) -> u64 {
        self.measure.baseline(record.of(&record.results[point.case]))
    }
}

/// What no policy goes below in any case: the bound that all cases have, else what holds whatever
/// HBM a case has; `None` where cases are of several machines or workloads.
pub(crate) fn level(record: &RunRecord) -> Option<Span> {
    let mut bounds = record.results.iter().map(|case| case.bound_step);
    let first = bounds.next().unwrap_or(Span::ZERO);
    match first > Span::ZERO && bounds.all(|bound| bound == first) {
        true => Some(first),
        false => record.shared().map(|on| on.bound),
    }
}

fn has_bound(case: &CaseRecord) -> bool {
    case.bound_step > Span::ZERO
}

/// No policy makes the point quicker.
pub(crate) fn own_bound(record: &RunRecord, point: &Point) -> u64 {
    record.results[point.case].bound_step.ps()
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
        assert_eq!(level(&record), Some(own));
        record.results[0].bound_step = own + own;
        assert_eq!(level(&record), Some(any));
        // Records of before have none of their own.
        record.results.iter_mut().for_each(|case| case.bound_step = Span::ZERO);
        assert_eq!(level(&record), Some(any));
    }
}
