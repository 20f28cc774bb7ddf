//! `check`: what a file is, and all that a run or a sweep of it would be refused or warned for.
//!
//! Invariant: nothing is written, and no case is simulated; the baseline is, because budgets are
//! shares of what it needs.

use crate::args::{Deny, scenario};
use crate::lints::diagnostic;
use crate::messages::{say_note, say_warnings};
use crate::output::{Failure, print};
use crate::points::scenarios;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_input::file_kind::{FileKind, refused};
use tiersim_input::hardware_file::parts::{is_part, read_part};
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::lint::lint_scenario;
use tiersim_input::op_times::{is_op_times, read_op_times};
use tiersim_input::scenario::sweep::{read_run_with, read_sweep_with};
use tiersim_input::scenario::weights::{is_weights, read_weights};
use tiersim_input::text::ron_text::Document;
use tiersim_input::trace::read_trace;
use tiersim_input::traces::read_traces;
use tiersim_models::diagnostic::{Diagnostics, Warning};
use tiersim_models::hardware::Hardware;
use tiersim_models::lint::{assumed_note, lint_hardware};
use tiersim_policies::scenario::Scenario;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::zoo::Registry;
use tiersim_sim::feasible::{first_too_long, problems};
use tiersim_sim::run::{CaseRunner, Options, RunError};
use tiersim_sim::sweep::{comparable, warnings};

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Scenarios or hardware specs (.ron), folders of traces, or names of scenarios that ship.
    #[arg(required = true, value_name = "FILE", value_parser = scenario())]
    pub(crate) files: Vec<PathBuf>,
    /// What counts as a problem too.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<Deny>,
}

/// Reads every file and reports all problems together.
pub(crate) fn check(args: &CheckArgs, registry: &Registry) -> Result<(), Failure> {
    let mut all = Diagnostics::default();
    for path in &args.files {
        match check_one(path, registry) {
            Ok((what, hardware, mut warnings)) => {
                warnings.extend(hardware.as_deref().map(lint_hardware).unwrap_or_default());
                if args.deny.is_some() && !warnings.is_empty() {
                    all.0.extend(warnings.iter().map(|warning| diagnostic(path, warning)));
                    continue;
                }
                say_warnings(&path.display().to_string(), &warnings);
                if let Some(note) = hardware.as_deref().and_then(assumed_note) {
                    say_note(&path.display().to_string(), &note);
                }
                print(&format!("{}: {what}, no problems\n", path.display()))?;
            }
            Err(mut found) => all.0.append(&mut found.0),
        }
    }
    Ok(all.into_result(())?)
}

/// All that a run of a scenario would be refused for.
pub(crate) fn checked(path: &Path, registry: &Registry) -> Result<(), Diagnostics> {
    check_one(path, registry).map(|_| ())
}

/// What a file is, the machine that it describes or names, and warnings of other files.
type Checked = (&'static str, Option<Arc<Hardware>>, Vec<Warning>);

fn check_one(path: &Path, registry: &Registry) -> Result<Checked, Diagnostics> {
    let alone = |what| (what, None, Vec::new());
    if path.is_dir() {
        return read_trace(path).map(|_| alone("trace"));
    }
    let wanted = [FileKind::Scenario, FileKind::Hardware];
    let document = Document::read(path).map_err(|said| refused(path, &wanted, said))?;
    if is_part(&document) {
        return read_part(path).map(|()| alone("part of a machine"));
    }
    if is_op_times(&document) {
        return read_op_times(path).map(|_| alone("op times of a device"));
    }
    if is_weights(&document) {
        return read_weights(path, registry).map(|_| alone("trained weights"));
    }
    // Only hardware has tiers or parts at the top.
    if ["tiers", "parts"].iter().any(|section| document.value(section).is_some()) {
        let found = |hardware| ("hardware spec", Some(Arc::new(hardware)), Vec::new());
        return read_hardware(path).map(found);
    }
    let run = read_run_with(path, &[], registry)?;
    let has_sweep = document.value("sweep").is_some();
    let sweep = has_sweep.then(|| read_sweep_with(path, &[], registry)).transpose()?;
    let points = sweep.iter().flat_map(|sweep| sweep.points.iter().map(|point| &point.scenario));
    let traces = read_traces(points.chain(scenarios(&run)))?;
    let mut warnings = Vec::new();
    for scenario in scenarios(&run) {
        warnings.extend(of_scenario(path, scenario, &traces)?);
        warnings.extend(scenario.warnings.clone());
    }
    for sweep in sweep.iter().chain((!run.points.is_empty()).then_some(&run)) {
        warnings.extend(of_sweep(path, sweep, &traces)?);
    }
    Ok(("scenario", Some(run.base.hardware), warnings))
}

/// Everything that is said of a scenario before its first case is run.
fn of_scenario(
    path: &Path,
    scenario: &Scenario,
    traces: &Traces,
) -> Result<Vec<Warning>, Diagnostics> {
    let workload = traces.of(scenario);
    problems(scenario, &workload.trace).into_result(())?;
    let refused = |error| said(path, error);
    let bench = CaseRunner::new(scenario, workload, Options::default()).map_err(refused)?;
    for case in &scenario.cases {
        bench.memory_of(case).map_err(refused)?;
    }
    Ok(lint_scenario(scenario, &workload.trace))
}

/// The same of the points of its sweep.
fn of_sweep(path: &Path, sweep: &Sweep, traces: &Traces) -> Result<Vec<Warning>, Diagnostics> {
    if let Some(problem) = first_too_long(sweep, traces) {
        return Err(Diagnostics(vec![problem]));
    }
    comparable(sweep).map_err(|error| said(path, error))?;
    Ok(warnings(sweep))
}

fn said(path: &Path, error: RunError) -> Diagnostics {
    Diagnostics::one(path, None, error.to_string(), "", "")
}
