//! From a resolved scenario to a run record.
//!
//! One case is one single-threaded simulation; cases run in parallel and are collected in the
//! scenario's order, so no output depends on the number of threads.

mod stopwatch;

use crate::audit::Audit;
use crate::durations::Durations;
use crate::lint::{lint_hardware, lint_results};
use crate::machine::SimMachine;
use crate::record::{CaseRecord, Figures, LaneName, OutOfMemory, Outcome, RunRecord};
use crate::run::stopwatch::Stopwatch;
use crate::scenario::{Budget, Case, OpTime, Scenario};
use rayon::prelude::*;
use std::collections::BTreeSet;
use tiersim_models::allocator::AllocatorSpec;
use tiersim_models::hardware::{HBM, Hardware, Routes, TierKind};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{ObjectKind, Trace};
use tiersim_policies::config::PolicyConfig;
use tiersim_policies::drive::{DriveError, WINDOW, drive};
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::planner::{PlanError, Planner};

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Check every rule after every event. On by default in debug builds, and so in all tests of
    /// the library; the command asks for it with `--audit`.
    pub audit: bool,
    /// Keep what ran when in the last step.
    pub timeline: bool,
    /// Ops planned ahead; changes memory use, never results.
    pub window: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { audit: cfg!(debug_assertions), timeline: false, window: WINDOW }
    }
}

/// Why there is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that the trace or the hardware does not have.
    #[error("{0}")]
    Input(String),
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
pub struct Bench<'a> {
    hardware: &'a Hardware,
    routes: Routes,
    workload: &'a Workload,
    durations: Durations,
    repeat: u32,
    warmup: u32,
    seed: u64,
    baseline: Figures,
    bound: Span,
}

impl<'a> Bench<'a> {
    /// Works out durations, and runs the baseline: everything in an unlimited HBM.
    pub fn new(
        scenario: &'a Scenario,
        workload: &'a Workload,
        options: Options,
    ) -> Result<Bench<'a>, RunError> {
        let spec = &scenario.workload;
        let durations =
            Durations::new(&workload.trace, spec, scenario.seed).map_err(RunError::Input)?;
        let routes = scenario.hardware.routes().map_err(|none| {
            let name = |tier: TierId| &scenario.hardware.tiers[tier.index()].name;
            RunError::Input(format!("no links join {} and {}", name(none.from), name(none.to)))
        })?;
        let mut bench = Bench {
            hardware: &scenario.hardware,
            routes,
            workload,
            bound: Span::ZERO,
            durations,
            repeat: spec.repeat,
            warmup: spec.warmup,
            seed: scenario.seed,
            baseline: Figures::default(),
        };
        bench.bound = bench.compute_bound();
        let mut capacities = bench.capacities(Bytes::MAX);
        capacities.fill(Bytes::MAX);
        let all_in_hbm = (&PolicyConfig::AllHbm, &NumaConfig::default());
        match bench.simulate("baseline", all_in_hbm, (&capacities, &[]), options)? {
            Outcome::Done(figures) => bench.baseline = figures,
            Outcome::OutOfMemory(_) => unreachable!("an unlimited tier is never full"),
        }
        Ok(bench)
    }

    /// The workload with unlimited HBM.
    pub fn baseline(&self) -> &Figures {
        &self.baseline
    }

    /// No policy can have a shorter mean step: the busiest stream's ops, back to back.
    pub fn bound(&self) -> Span {
        self.bound
    }

    /// Runs one case.
    pub fn run(&self, case: &Case, options: Options) -> Result<CaseRecord, RunError> {
        let budget = self.budget(case)?;
        let capacities = self.capacities(budget);
        let memory = (capacities.as_slice(), case.allocators.as_slice());
        let policy = (&case.policy, &case.numa);
        let outcome = self.simulate(&case.label, policy, memory, options)?;
        let placement = placement(&case.policy, &self.workload.trace, self.hardware)?;
        Ok(CaseRecord {
            label: case.label.clone(),
            policy: case.policy.name().to_owned(),
            details: self.details(case, placement.as_deref()),
            emulated: case.policy.is_emulated(),
            params: case.params.clone(),
            hbm_budget: budget,
            baseline_step: self.baseline.mean_step(),
            baseline_peak: self.baseline.peak[HBM.index()],
            bound_step: self.bound,
            outcome,
            placement,
        })
    }

    /// The policy's parameters, and the tiers that its modules are spread over.
    fn details(&self, case: &Case, placement: Option<&[(String, usize)]>) -> String {
        let policy = &case.policy;
        let homes: BTreeSet<usize> =
            placement.unwrap_or_default().iter().map(|&(_, t)| t).collect();
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
        details
    }

    /// HBM that a case may use.
    fn budget(&self, case: &Case) -> Result<Bytes, RunError> {
        match case.hbm {
            Budget::Hardware => Ok(self.hardware.tiers[HBM.index()].capacity),
            Budget::Bytes(bytes) => Ok(bytes),
            Budget::ShareOfPeak(share) => {
                let peak = self.baseline.peak[HBM.index()].get();
                let bytes = Bytes::new((peak as f64 * share).round() as u64);
                let has = self.hardware.tiers[HBM.index()].capacity;
                if bytes > has {
                    return Err(RunError::Input(format!(
                        "case {:?}: share_of_peak({share}) is {bytes} and {} has {has} of HBM; \
                         lower the share, or leave `hbm` out to give the case all there is",
                        case.label, self.hardware.name
                    )));
                }
                Ok(bytes)
            }
        }
    }

    /// Capacity of each tier for a case, for machines other than the simulated one.
    pub fn capacities_of(&self, case: &Case) -> Result<Vec<Bytes>, RunError> {
        Ok(self.capacities(self.budget(case)?))
    }

    /// How long each op of a run takes.
    pub fn durations(&self) -> &Durations {
        &self.durations
    }

    /// The lanes of every copy.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    fn capacities(&self, hbm: Bytes) -> Vec<Bytes> {
        let mut capacities: Vec<Bytes> =
            self.hardware.tiers.iter().map(|tier| tier.capacity).collect();
        capacities[HBM.index()] = hbm;
        capacities
    }

    fn simulate(
        &self,
        label: &str,
        (policy, numa): (&PolicyConfig, &NumaConfig),
        (capacities, allocators): (&[Bytes], &[AllocatorSpec]),
        options: Options,
    ) -> Result<Outcome, RunError> {
        let internal =
            |what: String| RunError::Internal { case: label.to_owned(), seed: self.seed, what };
        let built = numa.build(policy, &self.workload.trace, self.hardware);
        let built = built.map_err(RunError::Input)?;
        let planner =
            Planner::with_allocators(self.workload, built, capacities, allocators, self.repeat);
        let mut planner = match planner {
            Ok(planner) => planner,
            Err(error) => return self.out_of_memory(error).map_err(internal),
        };
        let start = planner.start();
        planner.fetch_the_quickest(CopyTimes::new(self.hardware, &self.routes));
        let routes = self.routes.clone();
        let mut machine =
            SimMachine::new(self.hardware, routes, self.workload, &self.durations, &start);
        machine.draw_from(self.seed);
        if options.audit {
            let objects = self.workload.trace.objects.len();
            let audit = Audit::new(self.hardware, capacities, objects, &start);
            machine.audit(audit.map_err(|breach| internal(breach.to_string()))?);
        }
        let mut stopwatch =
            Stopwatch::new(self.workload, self.repeat, self.warmup, options.timeline);
        planner.count_from(stopwatch.first_measured_op());
        let driven =
            drive(&mut planner, &mut machine, options.window, |occurrence, at, machine| {
                stopwatch.op_ended(occurrence, at, machine);
            });
        match driven {
            Ok(()) => Ok(Outcome::Done(stopwatch.figures(&planner, &mut machine))),
            Err(DriveError::Plan(error)) => self.out_of_memory(error).map_err(internal),
            Err(DriveError::Machine(fault)) => Err(internal(fault.to_string())),
        }
    }

    /// A full tier is a result; anything else is a mistake, said in words.
    fn out_of_memory(&self, error: PlanError) -> Result<Outcome, String> {
        let PlanError::OutOfMemory { tier, capacity, need, free, largest, object, occurrence } =
            error
        else {
            return Err(error.to_string());
        };
        let trace = &self.workload.trace;
        let at = match occurrence {
            None => "before the first op".to_owned(),
            Some(occurrence) => {
                let index = (occurrence % trace.ops.len() as u64) as usize;
                let op = &trace.ops[index];
                format!("step {}, op {index} {}", op.step, op.name)
            }
        };
        Ok(Outcome::OutOfMemory(OutOfMemory {
            tier: self.hardware.tiers[tier.index()].name.clone(),
            capacity,
            need,
            free,
            largest,
            object: trace.objects[object.index()].name.clone(),
            at,
        }))
    }

    fn compute_bound(&self) -> Span {
        let ops = &self.workload.trace.ops;
        let streams = ops.iter().map(|op| usize::from(op.stream) + 1).max().unwrap_or(0);
        let mut totals = vec![0u128; streams];
        let first = ops.len() as u64 * u64::from(self.warmup);
        let replays = (self.repeat - self.warmup) as usize;
        for (occurrence, op) in (first..).zip(ops.iter().cycle().take(ops.len() * replays)) {
            totals[usize::from(op.stream)] += u128::from(self.durations.of(occurrence).ps());
        }
        let steps = self.workload.step_ends().len() as u128 * u128::from(self.repeat - self.warmup);
        let longest = totals.into_iter().max().unwrap_or(0) / steps.max(1);
        Span::from_ps(u64::try_from(longest).expect("a mean step fits the clock"))
    }
}

/// Runs all cases of a scenario, in parallel. `done` hears of every case that is finished.
pub fn run(
    scenario: &Scenario,
    workload: &Workload,
    fingerprint: String,
    options: Options,
    done: impl Fn() + Sync,
) -> Result<RunRecord, RunError> {
    let bench = Bench::new(scenario, workload, options)?;
    let cases: Vec<&Case> = scenario.cases.iter().collect();
    let run = |case: &&Case| {
        let record = bench.run(case, options);
        done();
        record
    };
    let results = in_order(cases.par_iter().map(run).collect())?;
    Ok(record(scenario, &bench, fingerprint, results))
}

/// All results, or the error of the first that has one: which error is told must not depend on
/// which thread was the quickest.
pub(crate) fn in_order<T>(results: Vec<Result<T, RunError>>) -> Result<Vec<T>, RunError> {
    results.into_iter().collect()
}

/// The record of a scenario's cases.
pub(crate) fn record(
    scenario: &Scenario,
    bench: &Bench<'_>,
    fingerprint: String,
    results: Vec<CaseRecord>,
) -> RunRecord {
    let hardware = &scenario.hardware;
    let op_time = match &scenario.workload.time {
        OpTime::Roofline { compute, precision } => {
            format!("roofline on {}, {precision}", compute.name)
        }
        OpTime::Recorded { scale } => format!("recorded durations x {scale}"),
    };
    let mut record = RunRecord {
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        fingerprint,
        hardware: hardware.name.clone(),
        workload: bench.workload.trace.meta.name.clone(),
        op_time,
        seed: scenario.seed,
        assumed_numbers: hardware.assumed(),
        tokens_per_step: bench.workload.trace.tokens_per_step(),
        tiers: hardware.tiers.iter().map(|tier| (tier.name.clone(), tier.kind)).collect(),
        lanes: hardware
            .lanes()
            .map(|lane| LaneName {
                ends: hardware.lane_name(lane),
                link: hardware.links[lane.link.index()].name.clone(),
            })
            .collect(),
        baseline: bench.baseline().clone(),
        bound: bench.bound(),
        results,
        skipped: Vec::new(),
        warnings: lint_hardware(hardware),
    };
    let mut of_results = lint_results(&record);
    record.warnings.append(&mut of_results);
    record
}

/// Tier of each module that owns weights, by name, for policies that place modules.
pub fn placement(
    policy: &PolicyConfig,
    trace: &Trace,
    hardware: &Hardware,
) -> Result<Option<Vec<(String, usize)>>, RunError> {
    if matches!(policy, PolicyConfig::AllHbm | PolicyConfig::Lru(_)) {
        return Ok(None);
    }
    let tiers = policy.placement(trace, hardware).map_err(RunError::Input)?;
    let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    let owners: BTreeSet<_> = weights.filter_map(|object| object.module).collect();
    let named =
        |module: ModuleId| (trace.modules[module.index()].clone(), tiers[module.index()].index());
    Ok(Some(owners.into_iter().map(named).collect()))
}
