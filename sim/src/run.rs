//! From a resolved scenario to a run record.
//!
//! One case is one single-threaded simulation; cases run in parallel and are collected in the
//! scenario's order, so no output depends on the number of threads.

mod batches;
mod bounds;
mod stopwatch;

use crate::audit::Audit;
use crate::durations::Durations;
use crate::lint::{lint_hardware, lint_results};
use crate::machine::SimMachine;
use crate::record::{CaseRecord, Figures, LaneName, Outcome, PressureRecord, RunRecord};
use crate::run::stopwatch::Stopwatch;
use crate::scenario::{Budget, Case, OpTime, Scenario, TraceSource, WorkloadSpec};
use rayon::prelude::*;
use std::collections::BTreeSet;
use tiersim_models::allocator::AllocatorSpec;
use tiersim_models::hardware::{HBM, Hardware, Routes};
use tiersim_models::ids::{ModuleId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{ObjectKind, Trace};
use tiersim_policies::config::PolicyConfig;
use tiersim_policies::drive::{DriveError, WINDOW, drive};
use tiersim_policies::planner::Planner;
use tiersim_policies::pressure::PressureConfig;

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
    spec: &'a WorkloadSpec,
    durations: Durations,
    repeat: u32,
    warmup: u32,
    seed: u64,
    baseline: Figures,
    bound: Span,
}

/// What one simulation is asked for.
struct Asked<'s> {
    workload: &'s Workload,
    durations: &'s Durations,
    policy: PolicyConfig,
    capacities: &'s [Bytes],
    allocators: &'s [AllocatorSpec],
    /// What is watched, and the micro-batch of each step if there are any.
    watched: Option<(&'s PressureConfig, Vec<u32>)>,
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
        let routes = scenario.hardware.routes().map_err(|(from, to)| {
            let name = |tier: TierId| &scenario.hardware.tiers[tier.index()].name;
            RunError::Input(format!("no links join {} and {}", name(from), name(to)))
        })?;
        let mut bench = Bench {
            hardware: &scenario.hardware,
            routes,
            workload,
            spec,
            bound: Span::ZERO,
            durations,
            repeat: spec.repeat,
            warmup: spec.warmup,
            seed: scenario.seed,
            baseline: Figures::default(),
        };
        bench.bound = bench.compute_bound(workload, &bench.durations);
        let mut capacities = bench.capacities(Bytes::MAX);
        capacities.fill(Bytes::MAX);
        let all = bench.plain(PolicyConfig::AllHbm, &capacities);
        match bench.simulate("baseline", &all, options)?.0 {
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
        let batches = self.micro_batches(case, &capacities)?;
        let own = self.own(batches.as_deref())?;
        let mut asked = self.plain(case.policy.clone(), &capacities);
        asked.allocators = &case.allocators;
        if let Some(own) = &own {
            (asked.workload, asked.durations) = (&own.workload, &own.durations);
        }
        let bound_step = match &own {
            Some(own) => self.compute_bound(&own.workload, &own.durations),
            None => self.bound,
        };
        asked.watched = case.pressure.as_ref().map(|config| (config, batches.unwrap_or_default()));
        let (outcome, pressure) = self.simulate(&case.label, &asked, options)?;
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
            bound_step,
            outcome,
            placement,
            pressure,
        })
    }

    /// The policy's parameters, and the tiers that its modules are spread over.
    fn details(&self, case: &Case, placement: Option<&[(String, usize)]>) -> String {
        let policy = &case.policy;
        let homes: BTreeSet<usize> =
            placement.unwrap_or_default().iter().map(|&(_, t)| t).collect();
        let away: Vec<&str> = homes
            .iter()
            .filter(|&&tier| tier != HBM.index())
            .map(|&tier| self.hardware.tiers[tier].name.as_str())
            .collect();
        let mut details = match away.as_slice() {
            [] => policy.details(),
            away => format!("{}, {}", policy.details(), away.join(" and ")),
        };
        let allocators = case.allocators.iter().zip(&self.hardware.tiers);
        for (spec, tier) in allocators.filter(|(spec, _)| !spec.is_exact()) {
            let between = if details.is_empty() { "" } else { "; " };
            details = format!("{details}{between}{} in {}", spec, tier.name);
        }
        if let Some(words) = batches::words(case, self.hardware) {
            let between = if details.is_empty() { "" } else { "; " };
            details = format!("{details}{between}{words}");
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

    /// The workload of all cases in exact tiers that nobody watches.
    fn plain<'s>(&'s self, policy: PolicyConfig, capacities: &'s [Bytes]) -> Asked<'s> {
        let (workload, durations) = (self.workload, &self.durations);
        Asked { workload, durations, policy, capacities, allocators: &[], watched: None }
    }

    fn simulate(
        &self,
        label: &str,
        asked: &Asked<'_>,
        options: Options,
    ) -> Result<(Outcome, Option<PressureRecord>), RunError> {
        let Asked { workload, durations, policy, capacities, allocators, watched } = asked;
        let internal =
            |what: String| RunError::Internal { case: label.to_owned(), seed: self.seed, what };
        let built = policy.build(&workload.trace, self.hardware).map_err(RunError::Input)?;
        let planner =
            Planner::with_allocators(workload, built, capacities, allocators, self.repeat);
        let mut planner = match planner {
            Ok(planner) => planner,
            Err(error) => {
                let full = self.out_of_memory(error, &workload.trace).map_err(internal)?;
                return Ok((full, None));
            }
        };
        if let Some((config, batches)) = watched {
            planner.watch((*config).clone(), batches.clone());
        }
        let start = planner.start();
        let routes = self.routes.clone();
        let mut machine = SimMachine::new(self.hardware, routes, workload, durations, &start);
        machine.draw_from(self.seed);
        if options.audit {
            let objects = workload.trace.objects.len();
            let audit = Audit::new(self.hardware, capacities, objects, &start);
            machine.audit(audit.map_err(|breach| internal(breach.to_string()))?);
        }
        let mut stopwatch = Stopwatch::new(workload, self.repeat, self.warmup, options.timeline);
        if options.timeline && watched.is_some() {
            stopwatch.time_turns();
        }
        planner.count_from(stopwatch.first_measured_op());
        let driven =
            drive(&mut planner, &mut machine, options.window, |occurrence, at, machine| {
                stopwatch.op_ended(occurrence, at, machine);
            });
        let pressure = watched.as_ref().and_then(|(config, _)| {
            stopwatch.pressure(&planner, config.tier, capacities[config.tier.index()])
        });
        let outcome = match driven {
            Ok(()) => Outcome::Done(stopwatch.figures(&planner, &mut machine)),
            Err(DriveError::Plan(error)) => {
                self.out_of_memory(error, &workload.trace).map_err(internal)?
            }
            Err(DriveError::Machine(fault)) => return Err(internal(fault.to_string())),
        };
        Ok((outcome, pressure))
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
        tokens_per_step: match &scenario.workload.trace {
            TraceSource::Training(training) => training.tokens_per_step(),
            _ => bench.workload.trace.tokens_per_step(),
        },
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
