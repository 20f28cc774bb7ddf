//! Reads a scenario file.
//!
//! `bytes -> size check -> RON -> --set -> raw -> resolve -> Scenario`. An override replaces the
//! text of one value, so it may do what editing the file may do, and is checked by the same rules.

use crate::scenario::Scenario;
use crate::scenario::sweep::read_run_with;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Warning};
use tiersim_policies::scenario::sweep::{Params, Point};
use tiersim_policies::zoo::Registry;

/// Reads a scenario; `overrides` are pairs of a path and the text of its new value. Of several
/// machines it has the first.
///
/// A sweep in the file is checked but not expanded; see [`read_sweep`](super::sweep::read_sweep).
pub fn read_scenario(path: &Path, overrides: &[(String, String)]) -> Result<Scenario, Diagnostics> {
    read_scenario_with(path, overrides, &Registry::default())
}

/// The same, where the scenario can name the policies of `registry`.
pub fn read_scenario_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Scenario, Diagnostics> {
    let read = read_run_with(path, overrides, registry)?;
    let [first, others @ ..] = &read.points[..] else { return Ok(read.base) };
    let Point { scenario, .. } = first;
    let mut scenario = scenario.clone();
    for case in &mut scenario.cases {
        (case.label, case.params) = (case.name().to_owned(), Params::default());
    }
    scenario.warnings.push(Warning {
        rule: "first-of-several-machines",
        place: "hardware".to_owned(),
        found: scenario.hardware.name.clone(),
        reason: format!("this is about the first of {} machines", 1 + others.len()),
        remedy: "take another with --set hardware=NAME".to_owned(),
    });
    Ok(scenario)
}
