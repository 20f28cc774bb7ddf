//! From a resolved scenario to a run record.
//!
//! One case is one single-threaded simulation; cases run in parallel and are collected in the
//! scenario's order, so no output depends on the number of threads.

pub(crate) mod alike;
mod baseline;
mod batches;
mod bounds;
mod case;
mod decides;
#[cfg(feature = "lp")]
mod fluid;
mod kin;
mod likes;
mod long_run;
mod memory;
mod noted;
mod plans;
mod settle;
mod simulate;
mod steady;
mod step_log;
mod stopwatch;
mod stretches;
mod turns;
mod walked;
pub(crate) mod within;

use crate::durations::Durations;
use crate::lint::lint_results;
pub use crate::run::kin::Kin;
use crate::run::kin::Kind;
use crate::run::likes::Likes;
use crate::run::plans::{PlansOf, Shared};
pub use crate::run::settle::{MOST_ADDED, TOLERANCE};
pub use crate::run::walked::Walk;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tiersim_models::hardware::{Capacity, HBM, Hardware, Memory, TierKind};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::lint::lint_hardware;
use tiersim_models::results::{
    CaseRecord, Conditions, Figures, Outcome, Placement, PressureRecord, RunRecord,
};
use tiersim_models::routes::CopyTimes;
use tiersim_models::routes::Routes;
use tiersim_models::runtime::Runtime;
use tiersim_models::units::Span;
use tiersim_models::workload::{ObjectKind, Trace};
use tiersim_policies::bound::Cause;
use tiersim_policies::drive::WINDOW;
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::policy::{Lookahead, Policy};
use tiersim_policies::pressure::PressureConfig;
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::scenario::{Case, OpTime, Scenario, TraceSource, WorkloadSpec};
use tiersim_policies::zoo::all_hbm::AllHbm;

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Check every rule after every event. On by default in debug builds, and so in all tests of
    /// the library; the command asks for it with `--audit`.
    pub audit: bool,
    /// Keep what ran when in the last step.
    pub timeline: bool,
    /// Keep the critical path of the last measured replay, for [`explain`](crate::explain).
    pub walk: bool,
    /// Keep a line per step.
    pub log: bool,
    /// Ops planned ahead; changes memory use, never results.
    pub window: u64,
    /// Leave out replays that would only be the same again, and go on with a run in the place of a
    /// longer one from its start; changes time and memory use, never results.
    pub extend: bool,
    /// Run once what comes to the same, and give all of it that result; changes time and memory
    /// use, never results.
    pub share: bool,
    /// Work out the least step of any policy over budgets, which takes longer than most cases.
    pub bound_curve: bool,
    /// How the bound of each case is worked out; that of a curve is always the quick one.
    pub bound: BoundMethod,
}

/// How a bound is worked out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundMethod {
    /// From bytes that must cross cuts between tiers ([`tiersim_policies::bound::least_time`]).
    #[default]
    Quick,
    /// From the linear program of [`tiersim_policies::bound::fluid`] too, if that is later.
    #[cfg(feature = "lp")]
    Lp,
}

impl Default for Options {
    fn default() -> Options {
        let (audit, timeline, walk) = (cfg!(debug_assertions), false, false);
        Options {
            audit,
            timeline,
            walk,
            log: false,
            window: WINDOW,
            extend: true,
            share: true,
            bound_curve: true,
            bound: BoundMethod::Quick,
        }
    }
}

/// Why there is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that the trace or the hardware does not have.
    #[error("{0}")]
    Input(String),
    /// What came of a case could not be kept, so no other was begun.
    #[error("stopped")]
    Stopped,
    /// A mistake in this program or in a policy.
    #[error("internal fault in case {case:?} (seed {seed}): {what}")]
    Internal {
        /// The case's label.
        case: String,
        /// The scenario's seed.
        seed: u64,
        /// What went wrong, with the event's number.
        what: String,
    },
}

/// A scenario's hardware and workload, ready to run any number of cases.
pub struct CaseRunner<'a> {
    hardware: &'a Hardware,
    routes: Routes,
    copies: CopyTimes,
    workload: &'a Workload,
    spec: &'a WorkloadSpec,
    durations: Arc<Durations>,
    repeat: u32,
    warmup: u32,
    horizon: Option<u64>,
    seed: u64,
    baseline: Figures,
    bound: Span,
    method: BoundMethod,
    /// Bounds that are known, by bytes for objects in each tier.
    bounds: Mutex<BTreeMap<Vec<Capacity>, StepBound>>,
    /// Those by linear program, and whether replays are to end as they began.
    #[cfg(feature = "lp")]
    fluid_bounds: Mutex<BTreeMap<(Vec<Capacity>, bool), StepBound>>,
    /// What machines like this one have in common.
    kind: Arc<Kind>,
    /// Plans of runs that decide the same, if there may be some on other machines.
    plans: Option<Box<dyn Shared + 'a>>,
    /// Whether the policy of some case that has run had ops run more than once.
    repeats: AtomicBool,
    /// Cases that have run, by the SHA-256 of what they come to, which is many times as long.
    alike: Likes<Result<CaseRecord, RunError>, [u8; 32]>,
}

/// What one simulation is asked for.
struct CaseInputs<'s> {
    workload: &'s Workload,
    durations: &'s Durations,
    policy: PolicyConfig,
    numa: NumaConfig,
    memory: &'s Memory,
    /// What is watched, and the micro-batch of each step if there are any.
    watched: Option<(&'s PressureConfig, Vec<u32>)>,
    /// What a framework adds.
    runtime: &'s Runtime,
}

/// What the baseline is run by.
static NO_RUNTIME: Runtime = Runtime {
    per_op: Span::ZERO,
    per_object: Span::ZERO,
    passes: 0,
    blocking: false,
    blocking_out: false,
    ahead: false,
    pageable: false,
    source: String::new(),
};

/// What came of one simulation.
struct Simulated {
    outcome: Outcome,
    pressure: Option<PressureRecord>,
    /// How far the policy looked ahead.
    lookahead: Lookahead,
    /// Steps that were not simulated one by one.
    left_out: u64,
    /// Whether ops used objects outside HBM without paying for every use.
    unpaid: bool,
    /// The critical path of the last replay, if it was asked for and the run came to its end.
    walked: Option<walked::Walked>,
}

/// No policy has a shorter mean step, and what keeps it from it.
#[derive(Clone, Debug, PartialEq)]
struct StepBound {
    step: Span,
    by: String,
    cause: Cause,
    /// Of a linear program: what more of the machine would take off it.
    worths: Vec<(String, f64)>,
}

impl<'a> CaseRunner<'a> {
    /// Works out durations, and runs the baseline: everything in an unlimited HBM.
    pub fn new(
        scenario: &'a Scenario,
        workload: &'a Workload,
        options: Options,
    ) -> Result<CaseRunner<'a>, RunError> {
        CaseRunner::made(&Kin::default(), None, (scenario, workload), options)
    }

    /// The same, unless that is known of a machine that differs in rates alone.
    pub fn among<'w: 'a>(
        kin: &Kin<'w>,
        scenario: &'a Scenario,
        workload: &'w Workload,
        options: Options,
    ) -> Result<CaseRunner<'a>, RunError> {
        if !options.share {
            return CaseRunner::new(scenario, workload, options);
        }
        let plans = PlansOf { plans: kin.plans.clone(), workload };
        CaseRunner::made(kin, Some(Box::new(plans)), (scenario, workload), options)
    }

    fn made<'w: 'a>(
        kin: &Kin<'w>,
        plans: Option<Box<dyn Shared + 'a>>,
        (scenario, workload): (&'a Scenario, &'w Workload),
        options: Options,
    ) -> Result<CaseRunner<'a>, RunError> {
        let spec = &scenario.workload;
        let kind = kin.kind(scenario, workload, &format!("{options:?}"));
        let durations = || {
            let (trace, hardware) = (&workload.trace, &scenario.hardware);
            let own = Durations::new(trace, spec, hardware.cpu.as_ref(), scenario.seed)?;
            Ok(Arc::new(own.with_collectives(trace, hardware, spec.ranks)))
        };
        let durations = kind.durations.get_or_init(durations).clone().map_err(RunError::Input)?;
        let routes = scenario.hardware.routes().map_err(|none| {
            let name = |tier: TierId| &scenario.hardware.tiers[tier.index()].name;
            RunError::Input(format!("no links join {} and {}", name(none.from), name(none.to)))
        })?;
        let mut bench = CaseRunner {
            hardware: &scenario.hardware,
            copies: CopyTimes::new(&scenario.hardware, &routes),
            routes,
            workload,
            spec,
            bound: Span::ZERO,
            method: options.bound,
            durations,
            repeat: spec.repeat,
            warmup: spec.warmup,
            horizon: spec.horizon,
            seed: scenario.seed,
            baseline: Figures::default(),
            bounds: Mutex::default(),
            #[cfg(feature = "lp")]
            fluid_bounds: Mutex::default(),
            kind,
            plans,
            repeats: AtomicBool::new(false),
            alike: Likes::default(),
        };
        let memory = &Memory::of(vec![Capacity::Unlimited; bench.hardware.tiers.len()]);
        bench.bound = bench.bound_of(workload, &bench.durations, memory).step;
        let known = bench.kind.baseline.get().cloned();
        bench.baseline = match known {
            Some(known) => known,
            None => {
                let own = bench.run_baseline(memory, options)?;
                bench.kind.baseline.get_or_init(|| own).clone()
            }
        };
        Ok(bench)
    }

    fn run_baseline(&self, memory: &Memory, options: Options) -> Result<Figures, RunError> {
        let own = self.on_device()?;
        let mut all = self.plain(AllHbm.into(), memory);
        (all.workload, all.durations) = self.of_case(own.as_ref());
        match self.simulate("baseline", &all, options)?.outcome {
            Outcome::Done(figures) => Ok(*figures),
            Outcome::OutOfMemory(_) => unreachable!("an unlimited tier is never full"),
        }
    }

    /// The workload with unlimited HBM.
    pub fn baseline(&self) -> &Figures {
        &self.baseline
    }

    /// No policy can have a shorter mean step, whatever HBM it has: the critical path.
    pub fn bound(&self) -> Span {
        self.bound
    }

    /// Runs one case.
    pub fn run(&self, case: &Case, options: Options) -> Result<CaseRecord, RunError> {
        let walk = self.with_asked(case, |asked| self.record(case, asked, options))?;
        Ok(walk.record)
    }

    /// The policy's parameters, and the tiers that its modules are spread over.
    fn details(&self, case: &Case, policy: &PolicyConfig, placement: Option<&Placement>) -> String {
        let homes = placement.into_iter().flat_map(Placement::iter);
        let homes: BTreeSet<usize> = homes.map(|(_, tier)| tier).collect();
        let away: Vec<&str> = homes
            .iter()
            .map(|&tier| &self.hardware.tiers[tier])
            // With `numa` a home in DRAM is any node of it.
            .filter(|tier| case.numa.is_none() || tier.kind != TierKind::Dram)
            .map(|tier| tier.name.as_str())
            .filter(|&name| name != self.hardware.tiers[HBM.index()].name)
            .collect();
        let mut details = match away.as_slice() {
            [] => policy.details(),
            away => format!("{}, {}", policy.details(), away.join(" and ")),
        };
        if !case.numa.is_none() {
            let between = if details.is_empty() { "" } else { ", " };
            details = format!("{details}{between}{}", case.numa.details(self.hardware));
        }
        let allocators = case.allocators.iter().zip(&self.hardware.tiers);
        for (spec, tier) in allocators.filter(|(spec, _)| !spec.is_exact()) {
            let between = if details.is_empty() { "" } else { "; " };
            details = format!("{details}{between}{} in {}", spec, tier.name);
        }
        if let Some(words) = batches::words(case, self.hardware) {
            let between = if details.is_empty() { "" } else { "; " };
            details = format!("{details}{between}{words}");
        }
        if !case.runtime.is_none() {
            let between = if details.is_empty() { "" } else { "; " };
            details = format!("{details}{between}runtime: {}", case.runtime);
        }
        details
    }

    /// How long each op of a run takes.
    pub fn durations(&self) -> &Durations {
        &self.durations
    }

    /// How many replays a policy is told of: more than count, as measured steps are the beginning
    /// of a longer run. 1 for a trace that runs once.
    pub fn told(&self) -> u32 {
        settle::told(self.repeat, self.workload.trace.ops.len())
    }

    /// The channels of every copy.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The workload of all cases, watched by nobody.
    fn plain<'s>(&'s self, policy: PolicyConfig, memory: &'s Memory) -> CaseInputs<'s> {
        let (workload, durations) = (self.workload, &self.durations);
        let numa = NumaConfig::default();
        let runtime = &NO_RUNTIME;
        CaseInputs { workload, durations, policy, numa, memory, watched: None, runtime }
    }

    /// What a policy is built for.
    fn setting<'s>(
        &'s self,
        workload: &'s Workload,
        durations: &'s Durations,
        memory: &'s Memory,
    ) -> Setting<'s> {
        Setting {
            workload,
            hardware: self.hardware,
            memory,
            spans: &durations.nominal()[..workload.trace.ops.len()],
            copies: &self.copies,
            repeat: settle::told(self.repeat, workload.trace.ops.len()),
        }
    }

    /// A case with the policy that is run for the workload of all cases: the best of what it tries,
    /// if it is one that is found by trying. Of what this returns nothing is searched again.
    pub fn found(&self, case: &Case) -> Result<Case, RunError> {
        let memory = self.memory_of(case)?;
        let policy = self.searched(case, &self.plain(case.policy.clone(), &memory))?;
        Ok(Case { policy, ..case.clone() })
    }

    /// The policy of a case that was [found](CaseRunner::found), for the workload of all cases.
    pub fn policy(&self, found: &Case) -> Result<Box<dyn Policy>, RunError> {
        let memory = self.memory_of(found)?;
        let setting = self.setting(self.workload, &self.durations, &memory);
        found.numa.build(&found.policy, &setting).map_err(RunError::Input)
    }
}

/// Tier of each module that owns weights, by name, for policies that place modules.
pub fn placement(
    policy: &PolicyConfig,
    trace: &Trace,
    hardware: &Hardware,
) -> Result<Option<Vec<(String, usize)>>, RunError> {
    let tiers = policy.placement(trace, hardware).map_err(RunError::Input)?;
    let Some(tiers) = tiers else { return Ok(None) };
    let named = |module: ModuleId| {
        (trace.modules[module.index()].to_string(), tiers[module.index()].index())
    };
    Ok(Some(owners(trace).into_iter().map(named).collect()))
}

/// The modules that own weights.
fn owners(trace: &Trace) -> BTreeSet<ModuleId> {
    let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    weights.filter_map(|object| object.module).collect()
}

/// Runs all cases of a scenario, in parallel. `done` hears of every case that is finished.
pub fn run(
    scenario: &Scenario,
    workload: &Workload,
    fingerprint: String,
    options: Options,
    done: impl Fn() + Sync,
) -> Result<RunRecord, RunError> {
    let bench = CaseRunner::new(scenario, workload, options)?;
    let cases: Vec<&Case> = scenario.cases.iter().collect();
    let compacted = within::compacted([scenario]);
    let run = |case: &&Case| {
        let record = bench.run(case, options)?;
        done();
        Ok(within::kept(record, &scenario.hardware, &compacted))
    };
    let results = in_order(cases.par_iter().map(run).collect())?;
    let mut conditions = conditions(scenario, &bench, &compacted);
    if options.bound_curve {
        conditions.bound_curve = bench.curve(&cases, results.iter())?;
    }
    Ok(record(scenario, fingerprint, vec![conditions], results))
}

/// All results, or the error of the first that has one: which error is told must not depend on
/// which thread was the quickest.
pub(crate) fn in_order<T>(results: Vec<Result<T, RunError>>) -> Result<Vec<T>, RunError> {
    results.into_iter().collect()
}

/// The machine, the workload and the baseline of a bench; `compacted` tiers have a channel to
/// themselves.
pub(crate) fn conditions(
    scenario: &Scenario,
    bench: &CaseRunner<'_>,
    compacted: &BTreeSet<usize>,
) -> Conditions {
    let hardware = &scenario.hardware;
    let mut baseline = bench.baseline().clone();
    within::keep(&mut baseline, hardware.links.len(), compacted);
    let op_time = match &scenario.workload.time {
        OpTime::Priced { compute, precision } if compute.op_times.is_none() => {
            format!("roofline on {}, {precision}", compute.name)
        }
        OpTime::Priced { compute, precision } => {
            let ops = bench.workload.trace.ops.iter();
            let [measured, inherited, roofline] = compute.priced(precision, ops);
            format!(
                "op times of {}, {precision}: {measured} kernels by measurement, {inherited} by \
                 inheritance, {roofline} by the roofline",
                compute.name
            )
        }
        OpTime::Recorded { scale } => format!("recorded durations x {scale}"),
    };
    let recorded = &bench.workload.trace;
    let mut own = Conditions {
        hardware: hardware.name.clone().into(),
        tiers: hardware.tiers.iter().map(|tier| (tier.name.clone(), tier.kind)).collect(),
        channels: within::channel_names(hardware, compacted).into(),
        workload: bench.workload.trace.meta.name.clone().into(),
        op_time: op_time.into(),
        seed: scenario.seed,
        assumed_numbers: hardware.assumed(),
        tokens_per_step: match &scenario.workload.trace {
            TraceSource::Training(training) => training.tokens_per_step(),
            TraceSource::Model(work) => work.tokens(),
            // Iterations differ.
            TraceSource::Serving(_) => 0,
            _ => recorded.tokens_per_step(),
        },
        devices: match &scenario.workload.trace {
            TraceSource::Training(training) => training.devices(),
            TraceSource::Model(work) => work.devices(),
            TraceSource::Serving(source) => source.serving.tensor.into(),
            // What is counted of a recording is one rank's.
            _ => 1,
        },
        counts_steps: scenario.workload.trace.is_recorded() && recorded.tokens_per_step() == 1,
        baseline: baseline.into(),
        bound: bench.bound(),
        bound_curve: Vec::new(),
    };
    own.share(bench.kind.conditions.get_or_init(|| own.clone()));
    own
}

/// The record of a scenario's cases, which are kept as their conditions name channels.
pub(crate) fn record(
    scenario: &Scenario,
    fingerprint: String,
    conditions: Vec<Conditions>,
    results: Vec<CaseRecord>,
) -> RunRecord {
    let hardware = &scenario.hardware;
    let mut record = RunRecord {
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        fingerprint,
        power_and_price: hardware.economics.facts.clone(),
        assumed: hardware.assumed_facts().cloned().collect(),
        machines: Vec::new(),
        conditions,
        axes: Vec::new(),
        results,
        skipped: Vec::new(),
        warnings: lint_hardware(hardware).into_iter().chain(scenario.warnings.clone()).collect(),
        uncertainty: None,
        replications: None,
    };
    let mut of_results = lint_results(&record);
    record.warnings.append(&mut of_results);
    record
}
