//! `validate`: the same plans on the simulated and on a real machine.
//!
//! Decisions, bytes per channel and contents must agree, or the command fails. Times are compared
//! and reported, not judged: how good a prediction is depends on the hardware spec.

mod both;

use crate::VERSION;
use crate::args::{MachineArgs, assignment};
use crate::output::{Failure, print, write_all, written};
use crate::progress::bar;
use crate::runs::{Instead, read_all, seeded};
use both::Both;
use clap::{ArgAction, Args as ClapArgs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_models::results::comparison::{CaseResult, Compared};
use tiersim_models::workload::Unit;
use tiersim_policies::cpu_ops::has_cpu_ops;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, Said, Scenario};
use tiersim_policies::zoo::Registry;
use tiersim_reports::{Validation, validation_artefacts, validation_text};
use tiersim_sim::run::{CaseRunner, Options as BenchOptions};
use tiersim_validation::real::Kind;

#[derive(Debug, ClapArgs)]
pub(crate) struct ValidateArgs {
    /// Scenario files.
    #[arg(required = true, value_name = "SCENARIO", value_parser = crate::args::scenario())]
    pub(crate) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Only cases of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// How often each case is run on the real machine.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat_runs: u16,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Override the scenarios' seeds.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Folder to write to, with a folder per scenario if there are several [default:
    /// out/validate-SCENARIO, or out/validate].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the files that stand for NVMe and remote tiers [default: the folder to write to].
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

/// Runs every case of every scenario on both machines; all are read before the first is run.
pub(crate) fn validate(args: &ValidateArgs, registry: &Registry) -> Result<(), Failure> {
    let (kind, device) = args.machine.which()?;
    let (scenarios, traces) =
        read_all(&args.scenarios, &seeded(&args.set, args.seed)?, registry, &Instead::default())?;
    if let Some(name) = &args.policy {
        known(&scenarios, name)?;
    }
    let count = scenarios.len();
    let several = count > 1;
    let out = args.out.clone().unwrap_or_else(|| match &scenarios[..] {
        [only] => PathBuf::from("out").join(format!("validate-{}", only.name)),
        _ => PathBuf::from("out").join("validate"),
    });
    let scratch = args.scratch.clone().unwrap_or_else(|| out.clone());
    for scenario in &scenarios {
        fits_the_machine(scenario, &traces, args)?;
    }
    let _kept = kind.keep(device)?;
    let mut compared = Vec::new();
    for scenario in scenarios {
        let done = compare(scenario, &traces, args, &scratch)?;
        let folder = if several { out.join(&done.scenario) } else { out.clone() };
        let done = [done];
        emit(&done, kind, args.quiet, &folder)?;
        compared.extend(done);
        if several {
            // After each of them: a run that is stopped leaves what it has come to.
            let is_last = compared.len() == count;
            emit(&compared, kind, args.quiet || !is_last, &out)?;
        }
    }
    let failures = |compared: &Compared| -> Vec<String> {
        let all = compared.results.iter().flat_map(CaseResult::failures);
        all.map(|failure| format!("{}: {failure}", compared.scenario)).collect()
    };
    let failed: Vec<String> = compared.iter().flat_map(failures).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Expectation(failed)) }
}

/// Is every case one that the scenario's machine can be set up for? Found before anything runs.
fn fits_the_machine(
    scenario: &Scenario,
    traces: &Traces,
    args: &ValidateArgs,
) -> Result<(), Failure> {
    let trace = &traces.of(scenario).trace;
    let refuse = |why: &str| Err(Failure::Input(format!("{}: {why}", scenario.name)));
    if has_cpu_ops(trace) {
        return refuse(
            "some ops of its trace run on the host's processors, which only the simulator does; \
             choose a trace without a `unit` of cpu",
        );
    }
    let together = trace.ops.iter().any(|op| matches!(op.unit, Unit::Network(_)));
    if together || scenario.workload.ranks > 1 {
        return refuse(
            "several devices run this trace, which only the simulator does; take `ranks` out of \
             the workload, or choose a trace without collectives",
        );
    }
    if trace.ops.iter().any(|op| op.release.is_some()) {
        return refuse(
            "ops of its trace wait for arrivals, which only the simulator does; validate a \
             workload without them",
        );
    }
    let bench = CaseRunner::new(scenario, traces.of(scenario), BenchOptions::default())?;
    for case in wanted(scenario, args) {
        let label = &case.label;
        bench.memory_of(case)?;
        if case.pressure.is_some() || case.micro_batch.is_some() || case.chunk.is_some() {
            return refuse(&format!(
                "{label:?} watches memory pressure, or has a micro-batch or chunks of its own, which \
                 only the simulator does; leave it out with --policy, or take `pressure`, \
                 `micro_batch` and `chunk` out of it"
            ));
        }
        if !case.compress.is_none() {
            return refuse(&format!(
                "{label:?} has tiers that store objects packed, which only the simulator does: real \
                 machines copy objects as they are; leave it out with --policy, or take `compress` \
                 out of it"
            ));
        }
        if bench.repeats_ops(case)? {
            return refuse(&format!(
                "the policy of {label:?} has ops run again, which only the simulator does; leave it \
                 out with --policy, or give it a choice that keeps or offloads"
            ));
        }
    }
    Ok(())
}

fn wanted<'a>(scenario: &'a Scenario, args: &ValidateArgs) -> impl Iterator<Item = &'a Case> {
    let name = args.policy.clone();
    scenario.cases.iter().filter(move |case| name.as_ref().is_none_or(|name| case.label == *name))
}

/// One scenario on both machines.
fn compare(
    scenario: Scenario,
    traces: &Traces,
    args: &ValidateArgs,
    scratch: &Path,
) -> Result<Compared, Failure> {
    let stamp = fingerprint(&scenario, traces.hash(&scenario));
    let workload = traces.of(&scenario);
    let bench = CaseRunner::new(&scenario, workload, BenchOptions::default())?;
    let ((kind, device), runs) = (args.machine.which()?, args.repeat_runs);
    let both = Both { kind, device, scenario: &scenario, workload, bench: &bench, scratch, runs };
    let progress = bar(wanted(&scenario, args).count(), args.quiet);
    let compared = wanted(&scenario, args).map(|case| {
        progress.set_message(format!("{}: {}", scenario.name, case.label));
        let result = both.case(case)?;
        progress.inc(1);
        Ok(result)
    });
    let results = compared.collect::<Result<Vec<_>, Failure>>()?;
    progress.finish_and_clear();
    drop(bench);
    let Scenario { said, seed, hardware, .. } = scenario;
    let Said { name, about, .. } = Arc::unwrap_or_clone(said);
    Ok(Compared { scenario: name, about, fingerprint: stamp, seed, hardware, results })
}

/// Writes the files of some scenarios, and prints the table.
fn emit(compared: &[Compared], kind: Kind, quiet: bool, out: &Path) -> Result<(), Failure> {
    let (machine, place, version) = (kind.word(), kind.place(), VERSION);
    let all = Validation { compared, machine, place, version };
    let files = validation_artefacts(all)?;
    write_all(out, &files)?;
    if quiet {
        Ok(())
    } else {
        print(&format!("{}\n{}\n\n", validation_text(all), written(out, &files)))
    }
}

/// A case that no scenario has is a mistake in what was typed.
fn known(scenarios: &[Scenario], name: &str) -> Result<(), Failure> {
    let labels = || scenarios.iter().flat_map(|s| s.cases.iter().map(|case| &case.label));
    if labels().any(|label| label == name) {
        return Ok(());
    }
    let names: Vec<String> = labels().map(|label| format!("{label:?}")).collect();
    let names = names.join(", ");
    Err(Failure::Input(format!("--policy: no case is called {name:?}; use one of {names}")))
}
