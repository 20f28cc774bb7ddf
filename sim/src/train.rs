//! Trains the weights of a policy that learns in the simulator.
//!
//! All cases of a scenario that use the policy are run with the same weights; what is lowered is
//! the mean of their slowdowns against the baseline. A case that runs out of memory makes its
//! weights worth nothing. The search is the cross-entropy method ([`cross_entropy`]).
//! Invariant: only weights move that the policy says may be trained on the workload
//! ([`tiersim_policies::recipe::Recipe::trainable`]).

pub mod cross_entropy;

use crate::run::{CaseRunner, Options, RunError};
use cross_entropy::{BestPoint, Search, minimise};
use std::collections::BTreeSet;
use tiersim_models::lifetime::Workload;
use tiersim_policies::recipe::Learned;
use tiersim_policies::scenario::weights::{Trained, WeightFile};
use tiersim_policies::scenario::{Case, Scenario};
use tiersim_policies::zoo::{learned_placement, scored};

/// Trains on a scenario, whose trace is `workload`; `fingerprint` says what it asks for.
///
/// `heard` is told the best mean slowdown so far after each generation. Errors if no case uses the
/// policy, if the cases that do start with different weights, or if one does not fit with these.
pub fn train(
    scenario: &Scenario,
    workload: &Workload,
    fingerprint: String,
    search: Search,
    heard: impl FnMut(f64),
) -> Result<WeightFile, RunError> {
    let cases: Vec<(&Case, Learned)> =
        scenario.cases.iter().filter_map(|case| Some((case, case.policy.learned()?))).collect();
    let Learned { spelling, features, weights: start } = start(scenario, &cases)?;
    let options = Options { audit: false, timeline: false, ..Options::default() };
    let bench = CaseRunner::new(scenario, workload, options)?;
    let objective = |point: &[f64]| {
        let mut sum = 0.0;
        for (case, _) in &cases {
            let policy = case.policy.with_weights(point).expect("a point has all weights");
            let slowdown = bench.slowdown(&Case { policy, ..(*case).clone() }, options)?;
            match slowdown {
                Some(slowdown) if slowdown.is_finite() => sum += slowdown,
                Some(_) => return Err(RunError::Input(no_time(scenario))),
                None => return Ok(f64::INFINITY),
            }
        }
        Ok(sum / cases.len() as f64)
    };
    // Cases may place other kinds of objects, or look further ahead.
    let trainable = cases.iter().flat_map(|(case, _)| case.policy.trainable(workload));
    let free: Vec<usize> = trainable.collect::<BTreeSet<usize>>().into_iter().collect();
    let BestPoint { point, value, before } = minimise(&start, &free, search, objective, heard)?;
    if !before.is_finite() {
        return Err(RunError::Input(format!(
            "{}: a case that uses {spelling} runs out of memory with the weights that it starts with; give it \
             more memory",
            scenario.name
        )));
    }
    let heavy = features.iter().copied().zip(point).filter(|(_, weight)| *weight != 0.0);
    Ok(WeightFile {
        policy: spelling,
        about: format!("trained on {}", workload.trace.meta.name),
        weights: heavy.collect(),
        trained: Some(Trained {
            scenario: scenario.name.clone(),
            fingerprint,
            workload: workload.trace.meta.name.clone(),
            cases: cases.iter().map(|(case, _)| case.label.clone()).collect(),
            seed: search.seed,
            generations: search.generations,
            population: search.population,
            before,
            after: value,
        }),
    })
}

fn no_time(scenario: &Scenario) -> String {
    let name = &scenario.name;
    format!("{name}: a step takes no time where nothing moves, so nothing can be slower than it")
}

/// The weights that all cases start with.
fn start(scenario: &Scenario, cases: &[(&Case, Learned)]) -> Result<Learned, RunError> {
    let problem = |what: String| RunError::Input(format!("{}: {what}", scenario.name));
    let Some((first, learned)) = cases.first() else {
        let (scored, placed) = (scored::ENTRY.spelling, learned_placement::ENTRY.spelling);
        return Err(problem(format!(
            "no case uses {scored} or {placed}, so there is nothing to train; add (name: \"scored\", \
             policy: {scored}()) to `policies`"
        )));
    };
    let other = cases.iter().find(|(_, other)| other.spelling != learned.spelling);
    if let Some((other, _)) = other {
        return Err(problem(format!(
            "cases {:?} and {:?} use different policies that learn; train one of them, without the \
             cases of the other",
            first.label, other.label
        )));
    }
    if let Some((other, _)) = cases.iter().find(|(_, other)| other.weights != learned.weights) {
        return Err(problem(format!(
            "cases {:?} and {:?} start with different weights, and all are trained together; give them \
             the same",
            first.label, other.label
        )));
    }
    Ok(learned.clone())
}
