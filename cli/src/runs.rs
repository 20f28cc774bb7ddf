//! `run` and `hints`.

use crate::args::{Common, assignment, scenario};
use crate::asking::each_is_asked;
use crate::draws::{Asked, DrawArgs};
use crate::emit::{emit, simulators};
use crate::folder::Folder;
use crate::journal::Counted;
use crate::lints::{deny_machines, warned};
use crate::messages::say_warnings;
use crate::output::{Denied, Failure, Format, print, print_as, print_exact, write, write_all};
use crate::points::scenarios;
use crate::progress;
use crate::replications::ReplicationArgs;
use crate::traces::GapsName;
use clap::{Args as ClapArgs, ValueEnum};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_input::lint::lint_scenario;
use tiersim_input::project::typed;
use tiersim_input::scenario::fingerprint::{fingerprint, sweep_fingerprint};
use tiersim_input::scenario::read::read_scenario_with;
use tiersim_input::scenario::sweep::read_run_with;
use tiersim_input::scenario::workload::trace_at;
use tiersim_input::traces::read_traces;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::results::RunRecord;
use tiersim_models::statistics::Stated;
use tiersim_models::workload::Gaps;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{OpTime, Scenario, TraceSource};
use tiersim_policies::zoo::Registry;
use tiersim_reports::{Artefact, hints_json, step_log_text};
use tiersim_sim::expect::failures;
use tiersim_sim::feasible::problems;
use tiersim_sim::run::{Options, run as simulate};
use tiersim_sim::sweep::{count, run_sweep};
use tiersim_validation::calibrate::recorded::unlike;

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Scenario files, or names of those that ship.
    #[arg(required = true, value_name = "SCENARIO", value_parser = scenario())]
    pub(crate) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) instead: Instead,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) draws: DrawArgs,
    #[command(flatten)]
    pub(crate) replications: ReplicationArgs,
    /// Print a line per step as well: bytes live, reserved and at most, fragmentation, bytes moved,
    /// pressure and stall.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) log: Option<Log>,
    /// Put the simulator into report.html as well, with sliders that run the scenario again; FILE
    /// is the module of `cargo xtask what-if` [default: found beside the command].
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        requires = "report",
        conflicts_with = "trace"
    )]
    pub(crate) what_if: Option<Option<PathBuf>>,
}

/// Another trace than the scenario's.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Instead {
    /// Run this trace instead of the scenario's, with its recorded op times: a trace's folder, or
    /// a file that becomes a trace.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// Of such a file: what becomes of the time in which the device waited for its host [default:
    /// keep].
    #[arg(long, value_enum, requires = "trace")]
    gaps: Option<GapsName>,
}

impl Instead {
    /// Puts it in the place of a scenario's trace.
    pub(crate) fn put(&self, scenario: &mut Scenario) -> Result<(), Diagnostics> {
        let Some(named) = &self.trace else { return Ok(()) };
        let (path, gaps) = (typed(named), self.gaps.map_or(Gaps::Keep, GapsName::gaps));
        let source = match trace_at(&path, gaps) {
            Some(source) => source,
            // What it is instead says the importer.
            None => TraceSource::Recording { file: path, gaps },
        };
        let workload = Arc::make_mut(&mut scenario.workload);
        (workload.trace, workload.time) = (source, OpTime::Recorded { scale: 1.0 });
        workload.statistics = Stated::default();
        // What it says and expects is of its own trace.
        let about = format!("{} under the policies of {}", named.display(), scenario.name);
        (scenario.about, scenario.expect) = (about, Vec::new());
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    /// A line per step.
    Steps,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct HintsArgs {
    /// A scenario file with a policy that places modules, or the name of one that ships.
    #[arg(value_name = "SCENARIO", value_parser = scenario())]
    pub(crate) scenario: PathBuf,
    /// The policy's name in the scenario [default: the first that places modules].
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Folder to write tier_hints.json to, or the file itself [default: out/SCENARIO]; the hints
    /// are printed as well.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Runs scenarios one after the other; all are read before the first is run.
pub(crate) fn run(args: &RunArgs, registry: &Registry) -> Result<(), Failure> {
    if args.log.is_some() && args.common.format == Format::Json {
        return Err(Failure::Input(
            "--log steps prints lines (found --format json); leave one of them out".to_owned(),
        ));
    }
    use_threads(args.common.jobs)?;
    let overrides = overrides(&args.common)?;
    let read = |path: &PathBuf| {
        let mut run = read_run_with(path, &overrides, registry)?;
        args.instead.put(&mut run.base)?;
        run.points.iter_mut().try_for_each(|point| args.instead.put(&mut point.scenario))?;
        Ok(run)
    };
    let (runs, traces) = read_each(&args.scenarios, read)?;
    deny_machines(&args.common, runs.iter().flat_map(scenarios))?;
    runs.iter().zip(&args.scenarios).try_for_each(|(run, path)| args.draws.check(path, run))?;
    let mut simulators = simulators(&args.what_if, &args.scenarios, &overrides)?.into_iter();
    let (mut failed, mut denied) = (Vec::new(), Denied::default());
    let several = runs.len() > 1;
    let mut summaries = Vec::new();
    for (run, path) in runs.iter().zip(&args.scenarios) {
        let out = args.common.out.clone();
        let out = out.map(|out| if several { out.join(&run.base.name) } else { out });
        let folder = Folder::open(out, &run.base.name)?;
        let options = Options { log: args.log.is_some(), ..options(&args.common) };
        let mut record = run_one(run, &traces, &args.common, options)?;
        let asked =
            Asked { path, overrides: &overrides, registry, common: &args.common, sweeps: false };
        args.draws.draw(&asked, run, &traces, &mut record)?;
        args.replications.replicate(&args.common, run, &traces, &mut record)?;
        let simulator = simulators.next().unwrap_or_default();
        let said = emit(&record, &args.common, folder, simulator)?;
        match args.common.format {
            // Several are one document, so nothing of it is printed before all of it is there.
            Format::Json if several => summaries.push(said),
            Format::Json | Format::Text => print_as(args.common.format, &said)?,
        }
        if args.log.is_some() {
            print(&step_log_text(&record))?;
        }
        failed.extend(named(&run.base, failures(&run.base, &record)));
        denied.extend(warned(&record, &args.common));
    }
    if !summaries.is_empty() && !args.common.quiet {
        let summaries: Vec<&str> = summaries.iter().map(|summary| summary.trim_end()).collect();
        print_exact(&format!("[\n{}\n]\n", summaries.join(",\n")))?;
    }
    expect_none(failed, denied)
}

/// Reads scenarios and their traces; every problem of every file is found before anything runs. Of
/// several machines they have the first.
pub(crate) fn read_all(
    paths: &[PathBuf],
    overrides: &[(String, String)],
    registry: &Registry,
    instead: &Instead,
) -> Result<(Vec<Scenario>, Traces), Failure> {
    let read = |path: &PathBuf| {
        let mut base = read_scenario_with(path, overrides, registry)?;
        instead.put(&mut base)?;
        Ok(Sweep { base, axes: Vec::new(), points: Vec::new(), skipped: Vec::new() })
    };
    let (runs, traces) = read_each(paths, read)?;
    Ok((runs.into_iter().map(|run| run.base).collect(), traces))
}

/// The same, on each of their machines.
pub(crate) fn read_runs(
    paths: &[PathBuf],
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<(Vec<Sweep>, Traces), Failure> {
    read_each(paths, |path| read_run_with(path, overrides, registry))
}

fn read_each(
    paths: &[PathBuf],
    read: impl Fn(&PathBuf) -> Result<Sweep, Diagnostics>,
) -> Result<(Vec<Sweep>, Traces), Failure> {
    let mut found = Diagnostics::default();
    let mut runs = Vec::new();
    for path in paths {
        match read(path) {
            Ok(run) => runs.push(run),
            Err(mut problems) => found.0.append(&mut problems.0),
        }
    }
    let mut runs = found.into_result(runs)?;
    different_names(&runs, paths)?;
    let traces = read_traces(runs.iter().flat_map(scenarios))?;
    feasible(runs.iter().flat_map(scenarios), &traces)?;
    let lint = |scenario: &mut Scenario| {
        let (trace, source) = (&traces.of(scenario).trace, &scenario.workload.trace);
        let mut found = lint_scenario(scenario, trace);
        if source.is_recorded() {
            let file = source.place();
            found.extend(unlike(&scenario.hardware, trace, &file.display().to_string()));
        }
        scenario.warnings.extend(found);
    };
    for run in &mut runs {
        match &mut run.points[..] {
            [] => lint(&mut run.base),
            points => points.iter_mut().for_each(|point| lint(&mut point.scenario)),
        }
    }
    Ok((runs, traces))
}

/// Writes the placement that a policy would choose.
pub(crate) fn hints(args: &HintsArgs, registry: &Registry) -> Result<(), Failure> {
    let scenario = read_scenario_with(&args.scenario, &args.set, registry)?;
    say_warnings(&scenario.name, &scenario.warnings);
    let traces = read_traces([&scenario])?;
    feasible([&scenario], &traces)?;
    let trace = &traces.of(&scenario).trace;
    let wanted = |label: &str| args.policy.as_deref().is_none_or(|name| name == label);
    let mut cases = scenario.cases.iter().filter(|case| wanted(&case.label));
    let placed = cases.find_map(|case| {
        tiersim_sim::run::placement(&case.policy, trace, &scenario.hardware).transpose()
    });
    let Some(placed) = placed else {
        let name = args.policy.as_deref().unwrap_or("any");
        return Err(Failure::Input(format!(
            "{}: no policy that places modules (looked for {name}); use AdamState or Hints",
            args.scenario.display()
        )));
    };
    let kinds: Vec<_> = scenario.hardware.tiers.iter().map(|tier| tier.kind).collect();
    let stamp = fingerprint(&scenario, traces.hash(&scenario));
    let text = hints_json(&placed?, &kinds, &stamp)?;
    let path = hints_path(args.out.as_deref(), &scenario.name);
    match path.parent() {
        Some(folder) if path.ends_with(HINTS) => {
            write_all(folder, &[Artefact::new(HINTS, text.as_str())])?;
        }
        _ => write(&path, text.as_bytes())?,
    }
    print_exact(&text)
}

/// The file's name in an output folder.
const HINTS: &str = "tier_hints.json";

/// `--out` may name the folder, as for every command, or the file.
fn hints_path(out: Option<&Path>, scenario: &str) -> PathBuf {
    match out {
        Some(file) if file.extension().is_some_and(|ending| ending == "json") => file.to_owned(),
        Some(folder) => folder.join(HINTS),
        None => PathBuf::from("out").join(scenario).join(HINTS),
    }
}

/// Ends with everything that is wrong before the first scenario is run and written.
pub(crate) fn feasible<'a>(
    scenarios: impl IntoIterator<Item = &'a Scenario>,
    traces: &Traces,
) -> Result<(), Failure> {
    each_is_asked()?;
    let mut all = Diagnostics::default();
    for scenario in scenarios {
        all.0.append(&mut problems(scenario, &traces.of(scenario).trace).0);
    }
    Ok(all.into_result(())?)
}

/// Output goes to a folder of the scenario's name, so the second of two would replace the first.
fn different_names(runs: &[Sweep], paths: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeMap::new();
    for (scenario, path) in runs.iter().map(|run| &run.base).zip(paths) {
        if let Some(first) = seen.insert(&scenario.name, path) {
            return Err(Failure::Input(format!(
                "{} and {} would both be written to {}; run them one by one with --out",
                first.display(),
                path.display(),
                scenario.name
            )));
        }
    }
    Ok(())
}

/// Runs a scenario on each of its machines.
pub(crate) fn run_one(
    run: &Sweep,
    traces: &Traces,
    common: &Common,
    options: Options,
) -> Result<RunRecord, Failure> {
    if !run.points.is_empty() {
        return run_points(run, traces, common, options);
    }
    let scenario = &run.base;
    let stamp = fingerprint(scenario, traces.hash(scenario));
    let options = Options { timeline: true, ..options };
    let bar = progress::bar(scenario.cases.len(), common.quiet);
    let record = simulate(scenario, traces.of(scenario), stamp, options, || bar.inc(1))?;
    bar.finish_and_clear();
    Ok(record)
}

/// Runs every point.
fn run_points(
    sweep: &Sweep,
    traces: &Traces,
    common: &Common,
    options: Options,
) -> Result<RunRecord, Failure> {
    let stamp = sweep_fingerprint(sweep, |scenario| traces.hash(scenario));
    let bar = progress::bar(count(sweep), common.quiet);
    let record = run_sweep(sweep, traces, stamp, options, &Counted(&bar))?;
    bar.finish_and_clear();
    Ok(record)
}

pub(crate) fn options(common: &Common) -> Options {
    let bound_curve = !common.no_bound_curve;
    let bound = common.bound.method();
    Options { audit: common.audit, bound_curve, bound, ..Options::default() }
}

pub(crate) fn overrides(common: &Common) -> Result<Vec<(String, String)>, Failure> {
    seeded(&common.set, common.seed)
}

/// Overrides with the seed as the last of them. Two seeds are one too many.
pub(crate) fn seeded(
    set: &[(String, String)],
    seed: Option<u64>,
) -> Result<Vec<(String, String)>, Failure> {
    let other = set.iter().find(|(path, _)| path == "seed");
    if let (Some(seed), Some((_, other))) = (seed, other) {
        return Err(Failure::Input(format!(
            "--seed {seed} and --set seed={other} both say the seed; leave one of them out"
        )));
    }
    let seed = seed.map(|seed| ("seed".to_owned(), seed.to_string()));
    Ok(set.iter().cloned().chain(seed).collect())
}

/// Lets so many threads work, if it was said.
pub(crate) fn use_threads(jobs: Option<u16>) -> Result<(), Failure> {
    let Some(jobs) = jobs else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(jobs))
        .build_global()
        .map_err(|error| Failure::Internal(format!("cannot start {jobs} threads: {error}")))
}

pub(crate) fn named(scenario: &Scenario, failed: Vec<String>) -> Vec<String> {
    failed.into_iter().map(|failure| format!("{}: {failure}", scenario.name)).collect()
}

pub(crate) fn expect_none(failed: Vec<String>, warnings: Denied) -> Result<(), Failure> {
    match (failed.is_empty(), warnings.lines.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => Err(Failure::Expectation(failed)),
        (_, false) => Err(Failure::Denied { warnings, failed }),
    }
}
