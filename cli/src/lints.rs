//! Warnings of the lint on their way to people: shown, or failures where they are denied.
//!
//! Invariant: with `--deny warnings` nothing is written for a machine that warns.

use crate::args::Common;
use crate::messages::{say_note, say_warnings};
use crate::output::{Denied, Failure};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics, Warning, said_once};
use tiersim_models::lint::lint_hardware;
use tiersim_models::results::RunRecord;
use tiersim_policies::scenario::Scenario;
use tiersim_reports::boxes;

/// A denied warning is a problem of the file like any other.
pub(crate) fn diagnostic(file: &Path, warning: &Warning) -> Diagnostic {
    Diagnostic {
        file: file.to_path_buf(),
        place: None,
        rule: format!("{}: {}: {}", warning.rule, warning.place, warning.reason),
        found: warning.found.clone(),
        remedy: warning.remedy.clone(),
    }
}

/// Ends with every warning about the scenarios' machines and files, if warnings are denied.
pub(crate) fn deny_machines<'a>(
    common: &Common,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<(), Failure> {
    let mut all = Diagnostics::default();
    if common.deny.is_none() {
        return Ok(());
    }
    for scenario in scenarios {
        let hardware = &scenario.hardware;
        let of_machine = lint_hardware(hardware);
        let of_machine = of_machine.iter().map(|warning| (&hardware.name, warning));
        let of_files = scenario.warnings.iter().map(|warning| (&scenario.name, warning));
        for (name, warning) in of_machine.chain(of_files) {
            let problem = diagnostic(Path::new(name), warning);
            if !all.0.contains(&problem) {
                all.0.push(problem);
            }
        }
    }
    Ok(all.into_result(())?)
}

/// Shows a record's warnings, or gives them back if they are denied.
pub(crate) fn warned(record: &RunRecord, common: &Common) -> Denied {
    let name = &record.scenario;
    if common.deny.is_some() {
        let lines = said_once(&record.warnings);
        let lines = lines.into_iter().map(|warning| format!("{name}: {warning}")).collect();
        return Denied { count: record.warnings.len(), lines };
    }
    if !common.quiet {
        say_warnings(name, &record.warnings);
        boxes(record).iter().for_each(|note| say_note(name, note));
    }
    Denied::default()
}
