//! Reads a scenario file.
//!
//! `bytes -> size check -> RON -> --set -> raw -> resolve -> Scenario`. An override replaces the
//! text of one value, so it may do what editing the file may do, and is checked by the same rules.

use crate::file_kind::{FileKind, refused};
use crate::scenario::Scenario;
use crate::scenario::document::{name_of, open};
use crate::scenario::resolve::{Failure, resolve};
use crate::scenario::sweep;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;

/// Reads a scenario; `overrides` are pairs of a path and the text of its new value.
///
/// A sweep in the file is checked but not expanded; see [`sweep::read_sweep`].
pub fn read_scenario(path: &Path, overrides: &[(String, String)]) -> Result<Scenario, Diagnostics> {
    read_scenario_with(path, overrides, &Registry::default())
}

/// The same, where the scenario can name the policies of `registry`.
pub fn read_scenario_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Scenario, Diagnostics> {
    let read = read_document(path, overrides, registry);
    read.map_err(|said| refused(path, &[FileKind::Scenario], said))
}

fn read_document(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Scenario, Diagnostics> {
    let (document, mut files) = open(path, overrides, registry)?;
    let base = resolve(&document, &name_of(path), &mut files, &[]);
    let mut problems = match &base {
        Err(Failure::Form(..)) => Diagnostics::default(),
        _ => sweep::axes(&document, &mut files).err().unwrap_or_default(),
    };
    match base {
        Ok(scenario) => problems.into_result(scenario),
        Err(failure) => {
            let mut all = failure.into_problems();
            all.0.append(&mut problems.0);
            Err(all)
        }
    }
}
