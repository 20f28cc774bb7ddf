//! Trains the weights of `Scored` in the simulator.
//!
//! All cases of a scenario that use the policy are run with the same weights; what is lowered is
//! the mean of their slowdowns against the baseline. A case that runs out of memory makes its
//! weights worth nothing. The search is the cross-entropy method ([`cross_entropy`]).
//! Invariant: weights that cannot tell two objects of the trace apart stay as they were, and `next`
//! stays 0 if it was: no policy learns to look ahead that did not before.

pub mod cross_entropy;

use crate::run::{CaseRunner, Options, RunError};
use cross_entropy::{BestPoint, Search, minimise};
use tiersim_models::lifetime::Workload;
use tiersim_policies::recipe::PolicyConfig;
use tiersim_policies::scenario::weights::{Trained, WeightFile};
use tiersim_policies::scenario::{Case, Scenario};
use tiersim_policies::zoo::scored::features::{Feature, Weights, telling};
use tiersim_policies::zoo::scored::{ENTRY, ScoredConfig};

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
    let cases: Vec<(&Case, &ScoredConfig)> =
        scenario.cases.iter().filter_map(|case| Some((case, case.policy.get()?))).collect();
    let start = start(scenario, &cases)?;
    let options = Options { audit: false, timeline: false, ..Options::default() };
    let bench = CaseRunner::new(scenario, workload, options)?;
    let objective = |point: &[f64]| {
        let weights = weights_at(point);
        let mut sum = 0.0;
        for (case, config) in &cases {
            let policy = PolicyConfig::from(ScoredConfig { weights, ..(*config).clone() });
            let slowdown = bench.slowdown(&Case { policy, ..(*case).clone() }, options)?;
            match slowdown {
                Some(slowdown) if slowdown.is_finite() => sum += slowdown,
                Some(_) => return Err(RunError::Input(no_time(scenario))),
                None => return Ok(f64::INFINITY),
            }
        }
        Ok(sum / cases.len() as f64)
    };
    let free: Vec<usize> = telling(&workload.trace)
        .into_iter()
        .filter(|&feature| feature != Feature::Next || start.get(feature) != 0.0)
        .map(|feature| feature as usize)
        .collect();
    let point: Vec<f64> = Feature::ALL.into_iter().map(|feature| start.get(feature)).collect();
    let BestPoint { point, value, before } = minimise(&point, &free, search, objective, heard)?;
    if !before.is_finite() {
        return Err(RunError::Input(format!(
            "{}: a case that uses {} runs out of memory with the weights that it starts with; give it \
             more memory",
            scenario.name, ENTRY.spelling
        )));
    }
    let weights = weights_at(&point);
    let heavy = Feature::ALL.into_iter().filter(|&feature| weights.get(feature) != 0.0);
    Ok(WeightFile {
        policy: ENTRY.spelling,
        about: format!("trained on {}", workload.trace.meta.name),
        weights: heavy.map(|feature| (feature.word(), weights.get(feature))).collect(),
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
fn start(scenario: &Scenario, cases: &[(&Case, &ScoredConfig)]) -> Result<Weights, RunError> {
    let problem = |what: String| RunError::Input(format!("{}: {what}", scenario.name));
    let Some((first, config)) = cases.first() else {
        let policy = ENTRY.spelling;
        return Err(problem(format!(
            "no case uses {policy}, so there is nothing to train; add (name: \"scored\", policy: \
             {policy}()) to `policies`"
        )));
    };
    if let Some((other, _)) = cases.iter().find(|(_, other)| other.weights != config.weights) {
        return Err(problem(format!(
            "cases {:?} and {:?} start with different weights, and all are trained together; give them \
             the same",
            first.label, other.label
        )));
    }
    Ok(config.weights)
}

fn weights_at(point: &[f64]) -> Weights {
    let mut weights = Weights::default();
    for (feature, &weight) in Feature::ALL.into_iter().zip(point) {
        weights.set(feature, weight);
    }
    weights
}
