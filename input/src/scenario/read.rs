//! Reads a scenario file.
//!
//! `bytes -> size check -> RON -> --set -> raw -> resolve -> Scenario`. An override replaces the
//! text of one value, so it may do what editing the file may do, and is checked by the same rules.

use crate::file_kind::{FileKind, refused};
use crate::scenario::Scenario;
use crate::scenario::files::Files;
use crate::scenario::resolve::{Failure, resolve};
use crate::scenario::sweep;
use crate::text::ron_text::Document;
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
        _ => sweep::axes(&document).err().unwrap_or_default(),
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

/// The document with its overrides, and the files that it may name.
pub(crate) fn open(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<(Document, Files), Diagnostics> {
    let mut document = Document::read(path)?;
    let name = name_of(path);
    if matches!(name.as_str(), "." | "..") {
        let rule = "a scenario's name is that of its folder of results";
        return Err(Diagnostics::one(path, None, rule, name, "give the file another name"));
    }
    for (at, value) in overrides {
        let shown: String = value.chars().take(60).collect();
        document = document.with(at, value, &format!("--set {at}={shown}"))?;
    }
    Ok((document, Files::around(path, registry)?))
}

/// The file's name without `.ron`.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
