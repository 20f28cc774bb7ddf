//! The cases of a record at other numbers of their machines.
//!
//! A draw is the same scenario with a machine whose uncertain numbers have other values. Only what
//! bands are made of is kept of it: no bound, no curve of bounds, no timeline. The seed of jitter
//! stays, so what differs between two draws is their numbers.
//! Invariant: a draw in which every number is as written gives the figures of the record.

use crate::feasible::too_long;
use crate::run::{CaseRunner, Kin, Options, RunError};
use crate::sweep::{draws, key};
use std::collections::BTreeMap;
use tiersim_models::results::RunRecord;
use tiersim_models::results::uncertainty::DrawnCase;
use tiersim_policies::scenario::sweep::{Params, Sweep};
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, Scenario};

/// Where each case of a record stands in its scenario: the point's values, and the case's name.
#[derive(Clone, Debug)]
pub struct Places(Vec<(Option<Params>, String)>);

impl Places {
    /// Those of a record of `run`. A case that stands for several points has the first.
    pub fn of(record: &RunRecord, run: &Sweep) -> Places {
        let place = |(index, result): (usize, &tiersim_models::results::CaseRecord)| {
            if run.points.is_empty() {
                return (None, run.base.cases[index].name().to_owned());
            }
            let here = |params: &Params| result.params.iter().all(|own| params.contains(own));
            let mut cases =
                run.points.iter().filter(|point| here(&point.params)).flat_map(|point| {
                    let of = |case: &Case| (point.params.clone(), case.name().to_owned());
                    point.scenario.cases.iter().map(of)
                });
            let own = |(_, name): &(Params, String)| {
                tiersim_policies::scenario::labelled(name, &result.params) == result.label
            };
            let (params, name) = cases.find(own).expect("a record's case is one of its points'");
            (Some(params), name)
        };
        Places(record.results.iter().enumerate().map(place).collect())
    }

    /// The scenario and the case of a place in a draw of the run.
    fn find<'s>(
        draw: &'s Sweep,
        (params, name): &(Option<Params>, String),
    ) -> Option<(&'s Scenario, &'s Case)> {
        let scenario = match params {
            None => &draw.base,
            Some(params) => &draw.points.iter().find(|point| point.params == *params)?.scenario,
        };
        Some((scenario, scenario.cases.iter().find(|case| case.name() == name)?))
    }
}

/// Whether the seed matters to any case of a run.
pub fn has_jitter(run: &Sweep) -> bool {
    run.points.iter().map(|point| &point.scenario).chain([&run.base]).any(draws)
}

/// What came of every case of a record at a draw, in the record's order; `None` where it ran out of
/// memory. What draws have in common is worked out once.
///
/// # Errors
/// A case that the record has and that makes no sense with the drawn numbers; those of a run.
pub fn drawn<'w>(
    places: &Places,
    draw: &Sweep,
    traces: &'w Traces,
    options: Options,
    kin: &Kin<'w>,
) -> Result<Vec<Option<DrawnCase>>, RunError> {
    let mut benches: BTreeMap<String, CaseRunner<'_>> = BTreeMap::new();
    let mut cases = Vec::new();
    for place in &places.0 {
        let (scenario, case) = Places::find(draw, place).ok_or_else(|| {
            RunError::Input(format!("case {:?} makes no sense with these numbers", place.1))
        })?;
        let key = key(scenario);
        if !benches.contains_key(&key) {
            let workload = traces.of(scenario);
            if let Some(endless) = too_long(scenario, &workload.trace) {
                return Err(RunError::Input(endless.to_string()));
            }
            let bench = CaseRunner::among(kin, scenario, workload, options)?;
            benches.insert(key.clone(), bench);
        }
        cases.push(benches[&key].drawn(case, options)?);
    }
    Ok(cases)
}
