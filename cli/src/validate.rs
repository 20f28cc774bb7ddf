//! `validate`: the same plan on the simulated and on a real machine.
//!
//! Decisions, bytes per lane and contents must agree, or the command fails. Times are compared and
//! reported, not judged: how good a prediction is depends on the hardware spec.

use crate::args::{RealMachine, ValidateArgs};
use crate::output::{Failure, print, write_all};
use crate::runs::feasible;
use crate::validate_report::{CaseResult, Measured, Verdict, csv, json, table};
use std::path::{Path, PathBuf};
use tiersim_models::hardware::TierKind;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::Machine;
use tiersim_policies::drive::{DriveError, WINDOW, drive};
use tiersim_policies::planner::{PlanError, Planner};
use tiersim_sim::machine::SimMachine;
use tiersim_sim::run::{Bench, Options as BenchOptions};
use tiersim_sim::scenario::fingerprint::fingerprint;
use tiersim_sim::scenario::read::read_scenario;
use tiersim_sim::scenario::{Case, Scenario};
use tiersim_sim::traces::Traces;
use tiersim_validation::fault::Fault;
use tiersim_validation::log::Logged;
use tiersim_validation::options::Options;
use tiersim_validation::real::{Kind, OpRun, Setup};

/// Runs every case on both machines.
pub(crate) fn validate(args: &ValidateArgs) -> Result<(), Failure> {
    let kind = match args.machine {
        RealMachine::Host => Kind::Host,
        RealMachine::Cuda => Kind::Cuda,
    };
    let scenario = read_scenario(&args.scenario, &args.set)?;
    let traces = Traces::read([&scenario])?;
    feasible([&scenario], &traces)?;
    let cases = wanted(&scenario, args)?;
    let workload = traces.of(&scenario);
    let bench = Bench::new(&scenario, workload, BenchOptions::default())?;
    let folder = |name| PathBuf::from("out").join(format!("validate-{name}"));
    let out = args.out.clone().unwrap_or_else(|| folder(&scenario.name));
    let scratch = args.scratch.clone().unwrap_or_else(|| out.clone());
    let both = Both { kind, scenario: &scenario, workload, bench: &bench, scratch: &scratch };
    let mut results = Vec::new();
    for case in cases {
        results.push(both.case(case, args.repeat_runs)?);
    }
    let stamp = fingerprint(&scenario, traces.hash(&scenario));
    let files = [
        (
            "validation.json".to_owned(),
            json(&scenario, &stamp, kind.word(), &results)?.into_bytes(),
        ),
        ("validation.csv".to_owned(), csv(&results).into_bytes()),
    ];
    write_all(&out, &files)?;
    let written = format!("\nwritten to {}: validation.json, validation.csv\n", out.display());
    if !args.quiet {
        print(&(table(&scenario, kind.word(), &results) + &written))?;
    }
    let failed: Vec<String> = results.iter().flat_map(CaseResult::failures).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Expectation(failed)) }
}

fn wanted<'a>(scenario: &'a Scenario, args: &ValidateArgs) -> Result<Vec<&'a Case>, Failure> {
    let Some(name) = &args.policy else { return Ok(scenario.cases.iter().collect()) };
    let found: Vec<&Case> = scenario.cases.iter().filter(|case| case.label == *name).collect();
    if found.is_empty() {
        let names: Vec<String> = scenario.cases.iter().map(|c| format!("{:?}", c.label)).collect();
        return Err(Failure::Input(format!(
            "{}: no case is called {name:?}; use one of {}",
            args.scenario.display(),
            names.join(", ")
        )));
    }
    Ok(found)
}

/// What all cases share.
struct Both<'a> {
    kind: Kind,
    scenario: &'a Scenario,
    workload: &'a Workload,
    bench: &'a Bench<'a>,
    scratch: &'a Path,
}

/// Where a plan ended, when each op did.
enum Ended {
    Done(Vec<Time>),
    OutOfMemory(String),
}

impl Both<'_> {
    fn case(&self, case: &Case, runs: u16) -> Result<CaseResult, Failure> {
        let (label, policy) = (case.label.clone(), case.policy.name().to_owned());
        let simulated = match self.simulate(case)? {
            Ok(simulated) => simulated,
            Err(why) => return Ok(CaseResult { label, policy, verdict: Verdict::DoesNotFit(why) }),
        };
        let (predicted, peak) = simulated;
        self.check_memory(case, &peak)?;
        let measured = (0..runs).map(|_| self.measure(case)).collect::<Result<Vec<_>, _>>()?;
        let verdict = Verdict::Ran { predicted: Box::new(predicted), measured };
        Ok(CaseResult { label, policy, verdict })
    }

    fn planner(&self, case: &Case) -> Result<Result<Planner<'_>, String>, Failure> {
        let hardware = &self.scenario.hardware;
        let policy = case.policy.build(&self.workload.trace, hardware).map_err(Failure::Input)?;
        let capacities = self.bench.capacities_of(case)?;
        let repeat = self.scenario.workload.repeat;
        match Planner::new(self.workload, policy, &capacities, repeat) {
            Ok(planner) => Ok(Ok(planner)),
            Err(full @ PlanError::OutOfMemory { .. }) => Ok(Err(full.to_string())),
            Err(refused) => Err(Failure::Internal(refused.to_string())),
        }
    }

    /// Drives a machine; a fault of the machine is worded by `fault`.
    fn drive<M: Machine>(
        &self,
        planner: &mut Planner<'_>,
        machine: &mut M,
        fault: impl Fn(M::Fault) -> Failure,
    ) -> Result<Ended, Failure> {
        let ops = self.workload.trace.ops.len() * self.scenario.workload.repeat as usize;
        let mut ends = vec![Time::ZERO; ops];
        match drive(planner, machine, WINDOW, |op, at, _| ends[op as usize] = at) {
            Ok(()) => Ok(Ended::Done(ends)),
            Err(DriveError::Plan(full @ PlanError::OutOfMemory { .. })) => {
                Ok(Ended::OutOfMemory(full.to_string()))
            }
            Err(DriveError::Plan(refused)) => Err(Failure::Internal(refused.to_string())),
            Err(DriveError::Machine(found)) => Err(fault(found)),
        }
    }

    /// On the simulated machine: what it did, and the most bytes of each tier.
    fn simulate(&self, case: &Case) -> Result<Result<(Measured, Vec<Bytes>), String>, Failure> {
        let mut planner = match self.planner(case)? {
            Ok(planner) => planner,
            Err(why) => return Ok(Err(why)),
        };
        let (start, routes) = (planner.start(), self.bench.routes().clone());
        let (hardware, durations) = (&self.scenario.hardware, self.bench.durations());
        let mut machine = SimMachine::new(hardware, routes, self.workload, durations, &start);
        machine.draw_from(self.scenario.seed);
        let mut machine = Logged::new(machine);
        let fault = |fault: tiersim_sim::machine::Fault| Failure::Internal(fault.to_string());
        let ends = match self.drive(&mut planner, &mut machine, fault)? {
            Ended::Done(ends) => ends,
            Ended::OutOfMemory(why) => return Ok(Err(why)),
        };
        let decisions = machine.decisions();
        let meters = machine.machine.meters();
        let (moved, peak) = (meters.moved.clone(), meters.peak.clone());
        let steps = self.steps(&ends);
        Ok(Ok((Measured { decisions, moved, steps, ..Measured::default() }, peak)))
    }

    /// On real memory.
    fn measure(&self, case: &Case) -> Result<Measured, Failure> {
        let fault = |fault: Fault| Failure::Input(fault.to_string());
        let mut planner = self.planner(case)?.map_err(Failure::Internal)?;
        let setup = Setup {
            hardware: &self.scenario.hardware,
            routes: self.bench.routes().clone(),
            workload: self.workload,
            spans: Box::new(|occurrence| self.bench.durations().of(occurrence)),
            start: planner.start(),
        };
        let machine = self.kind.open(setup, &Options::new(self.scratch)).map_err(fault)?;
        let mut machine = Logged::new(machine);
        let ends = match self.drive(&mut planner, &mut machine, fault)? {
            Ended::Done(ends) => ends,
            Ended::OutOfMemory(why) => return Err(Failure::Internal(why)),
        };
        let report = machine.machine.report();
        let trace = &self.workload.trace;
        let first = trace.ops.len() as u64 * u64::from(self.scenario.workload.warmup);
        let mut ops: Vec<_> = report.ops.iter().filter(|op| op.occurrence >= first).collect();
        ops.sort_unstable_by_key(|op| op.occurrence);
        let phase = |occurrence: u64| trace.ops[occurrence as usize % trace.ops.len()].phase;
        let run = |op: &&_| {
            let &&OpRun { occurrence, planned, start, end, .. } = op;
            (phase(occurrence), planned, end.since(start))
        };
        let waits = ops.iter().map(|op| op.start.since(op.ready));
        Ok(Measured {
            decisions: machine.decisions(),
            moved: report.moved.clone(),
            steps: self.steps(&ends),
            launch: waits.collect(),
            ops: ops.iter().map(run).collect(),
            submitted: report.submitted,
            truth: report.truth,
            slots: report.slots,
        })
    }

    /// Lengths of the measured steps: each from the end of the one before.
    fn steps(&self, ends: &[Time]) -> Vec<Span> {
        let trace_ops = self.workload.trace.ops.len();
        let mut steps = Vec::new();
        let mut before = Time::ZERO;
        for replay in ends.chunks(trace_ops) {
            let mut first = 0;
            for last in self.workload.step_ends() {
                let ops = &replay[first..=last.index()];
                // With several streams a later step may end its last op before this one does.
                let end = ops.iter().copied().max().unwrap_or(before).max(before);
                steps.push(end.since(before));
                (first, before) = (last.index() + 1, end);
            }
        }
        let warmup = self.workload.step_ends().len() * self.scenario.workload.warmup as usize;
        steps.split_off(warmup)
    }

    /// Real memory is not to be had beyond what there is, and asking for it would end other
    /// programs. Twice the peak: slots are kept for the next object of their size.
    fn check_memory(&self, case: &Case, peak: &[Bytes]) -> Result<(), Failure> {
        let tiers = self.scenario.hardware.tiers.iter().zip(peak);
        let memory = tiers.filter(|(t, _)| !matches!(t.kind, TierKind::Nvme | TierKind::Remote));
        let need = Bytes::new(memory.map(|(_, peak)| peak.get()).sum::<u64>().saturating_mul(2));
        match available() {
            Some(available) if need > available => Err(Failure::Input(format!(
                "case {:?} needs {need} of memory and this machine has {available} left; lower \
                 the scenario's sizes, or leave the case out with --policy",
                case.label
            ))),
            _ => Ok(()),
        }
    }
}

/// Memory that can be had without pushing other programs out, where the system says so.
fn available() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kib << 10))
}
