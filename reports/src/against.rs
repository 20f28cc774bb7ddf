//! What cases are held against on a chart: the same workload with unlimited HBM, and what no policy
//! goes below.
//!
//! Cases of one scenario share both; points of a sweep may each have their own, of another machine
//! or workload.

use crate::measure::Measure;
use crate::points::{Point, Points};
use tiersim_models::results::RunRecord;
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
        if let Some(on) = record.shared() {
            return match measure {
                Measure::Step if !on.bound_curve.is_empty() => {
                    Against { curve: on.bound_curve.clone(), ..none() }
                }
                _ => Against { bound: same(on.bound), ..none() },
            };
        }
        let mut bounds = record.results.iter().map(|case| case.bound_step);
        let first = bounds.next().unwrap_or(Span::ZERO);
        let bound = match (measure, bounds.all(|bound| bound == first)) {
            (_, true) => same(first),
            (Measure::Step, false) => HeldAgainst::Own,
            (_, false) => HeldAgainst::Nowhere,
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

/// No policy makes the point quicker.
pub(crate) fn own_bound(record: &RunRecord, point: &Point) -> u64 {
    record.results[point.case].bound_step.ps()
}
