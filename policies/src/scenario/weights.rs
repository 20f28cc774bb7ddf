//! Weights of a policy's features, and how they were found.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Weights of a policy's features, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightFile {
    /// The policy's spelling in scenarios, such as `Scored`.
    pub policy: &'static str,
    /// What they are for.
    pub about: String,
    /// By feature; a feature that is not named weighs 0.
    pub weights: BTreeMap<&'static str, f64>,
    /// How they were found, if they were trained.
    pub trained: Option<Trained>,
}

/// How weights were found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Trained {
    /// The scenario's name.
    pub scenario: String,
    /// What it asked for, in one line.
    pub fingerprint: String,
    /// The name of the trace.
    pub workload: String,
    /// The cases whose slowdowns were averaged.
    pub cases: Vec<String>,
    /// Seed of the draws.
    pub seed: u64,
    /// How often the distribution was refitted.
    pub generations: u32,
    /// Weights that were tried per generation.
    pub population: u32,
    /// Mean slowdown of the cases with the weights that the scenario had.
    pub before: f64,
    /// The same with these weights.
    pub after: f64,
}
