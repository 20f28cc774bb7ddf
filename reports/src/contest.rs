//! Cases against each other: who is quickest, and how far from the best that anybody could be.
//!
//! Cases are ranked by [`Measure::ranking`]. Emulated ones do not pay for every access, so they have
//! no place; those that look at the whole trace or whose numbers were learned have one, and are
//! marked.

use crate::measure::Measure;
use std::cmp::Reverse;
use tiersim_models::results::{CaseRecord, Lookahead, RunRecord};

/// The place of each case, 1 the best; equals share one. `None` for cases that ran out of memory and
/// for emulated ones.
pub(crate) fn ranks(record: &RunRecord) -> Vec<Option<usize>> {
    let own = costs(record);
    let ranked = |(case, cost): (&CaseRecord, &Option<u64>)| cost.filter(|_| !case.emulated);
    let own: Vec<Option<u64>> = record.results.iter().zip(&own).map(ranked).collect();
    let mut all: Vec<u64> = own.iter().flatten().copied().collect();
    all.sort_unstable();
    let place = |own| all.partition_point(|other| *other < own) + 1;
    own.into_iter().map(|own| own.map(place)).collect()
}

/// Indices of the cases in the order of the table: by rank, then emulated ones by the same measure,
/// then those out of memory; equals in the scenario's order.
pub(crate) fn order(record: &RunRecord, cases: &mut [usize]) {
    let costs = costs(record);
    cases.sort_by_key(|&case| {
        let result = &record.results[case];
        (Reverse(result.outcome.figures().is_some()), result.emulated, costs[case], case)
    });
}

/// What cases are ranked by, in picoseconds; `None` for those that ran out of memory.
fn costs(record: &RunRecord) -> Vec<Option<u64>> {
    let measure = Measure::ranking(record);
    let cost = |case: &CaseRecord| measure.ps(case.outcome.figures()?, record.of(case));
    record.results.iter().map(cost).collect()
}

/// How far a policy looks ahead, in one word.
pub(crate) const fn lookahead_word(lookahead: Lookahead) -> &'static str {
    match lookahead {
        Lookahead::Past => "past",
        Lookahead::Window(_) => "window",
        Lookahead::Oracle => "all",
    }
}

/// What a reader must know of a case before comparing it: `oracle`, `learned`, `emulated`.
pub(crate) fn marks(case: &CaseRecord) -> Vec<&'static str> {
    let oracle = case.lookahead == Lookahead::Oracle;
    let marks = [(oracle, "oracle"), (case.learned, "learned"), (case.emulated, "emulated")];
    marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use tiersim_models::results::Outcome;
    use tiersim_models::units::Span;

    #[test]
    fn the_quickest_is_first_and_emulated_and_failed_cases_have_no_place() {
        for mut record in common::all() {
            if let Some(first) = record.results.first_mut() {
                first.emulated = true;
            }
            let ranks = ranks(&record);
            let mut cases: Vec<usize> = (0..record.results.len()).collect();
            order(&record, &mut cases);
            let placed: Vec<usize> = cases.iter().filter_map(|&case| ranks[case]).collect();
            assert!(placed.is_sorted(), "{placed:?}");
            let first = cases.len().min(placed.len());
            assert!(cases[..first].iter().all(|&case| ranks[case].is_some()), "{ranks:?}");
            for (case, rank) in record.results.iter().zip(&ranks) {
                let failed = matches!(case.outcome, Outcome::OutOfMemory(_));
                assert_eq!(rank.is_none(), failed || case.emulated);
            }
        }
    }

    #[test]
    fn the_gap_is_what_a_step_is_longer_than_the_bound() {
        let all = common::all();
        let mut cases = all.iter().flat_map(|record| &record.results);
        let ran = cases.find(|case| case.outcome.figures().is_some() && !case.emulated);
        let mut case = ran.expect("one of them ran").clone();
        let step = case.outcome.figures().expect("it ran").mean_step();
        case.bound_step = Span::from_ps(step.ps() / 4);
        assert!((case.gap_to_bound().expect("a gap") - 3.0).abs() < 1e-6);
        case.bound_step = Span::ZERO;
        assert_eq!(case.gap_to_bound(), None);
    }
}
