//! One case on both machines: the same policy, planner and ledger, once against time that is
//! computed and then against memory that is real.

use crate::output::Failure;
use std::path::Path;
use tiersim_models::hardware::{HBM, Law, TierKind};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::comparison::{CaseResult, CopyTime, Measured, Ran, Verdict};
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Op;
use tiersim_policies::command::Machine;
use tiersim_policies::drive::{DriveError, WINDOW, drive};
use tiersim_policies::planner::{PlanError, Planner};
use tiersim_policies::scenario::{Case, Scenario, WorkloadSpec};
use tiersim_reports::words::what_fits;
use tiersim_sim::durations::Durations;
use tiersim_sim::machine::SimMachine;
use tiersim_sim::run::CaseRunner;
use tiersim_validation::log::Logged;
use tiersim_validation::options::Options;
use tiersim_validation::real::{CopyRun, Kind, OpRun, Report, Setup};

/// What all cases of a scenario share.
pub(crate) struct Both<'a> {
    pub(crate) kind: Kind,
    pub(crate) scenario: &'a Scenario,
    pub(crate) workload: &'a Workload,
    pub(crate) bench: &'a CaseRunner<'a>,
    /// Which device of a machine that has several.
    pub(crate) device: usize,
    pub(crate) scratch: &'a Path,
    /// How often on the real machine.
    pub(crate) runs: u16,
}

/// When each op of a run ended, or why it ended early.
type Ended = Result<Vec<Time>, String>;

/// What the simulator says of a case.
struct Simulated {
    predicted: Measured,
    /// Delay of use in place.
    charged: Span,
}

impl Both<'_> {
    /// Predicts a case, then runs it for real; where objects are used in place both with the
    /// delays of the laws and with real use.
    pub(crate) fn case(&self, case: &Case) -> Result<CaseResult, Failure> {
        let (label, policy) = (case.label.clone(), case.policy.name().to_owned());
        // Once for all runs: what is found by trying takes longer than they do.
        let case = &self.bench.found(case)?;
        // As many replays as a run of the simulator needs for its steady state.
        let (warmup, _) = self.bench.replays(case, Default::default())?;
        let Simulated { predicted, charged } = match self.simulate(case, warmup)? {
            Ok(simulated) => simulated,
            Err(why) => {
                let why = format!("{why}; {}", what_fits(&self.scenario.hardware.name));
                return Ok(CaseResult { label, policy, verdict: Verdict::DoesNotFit(why) });
            }
        };
        self.check_memory(case, &predicted.peak)?;
        let emulating = |emulate: bool| -> Result<Vec<Measured>, Failure> {
            (0..self.runs).map(|_| self.measure((case, warmup), emulate)).collect()
        };
        let measured = emulating(true)?;
        let real = if charged > Span::ZERO { emulating(false)? } else { Vec::new() };
        let verdict = Verdict::Ran(Box::new(Ran { predicted, measured, real, charged }));
        Ok(CaseResult { label, policy, verdict })
    }

    /// Replays of a run, of which so many do not count.
    fn replays(&self, warmup: u32) -> u32 {
        let WorkloadSpec { repeat, warmup: stated, .. } = *self.scenario.workload;
        repeat - stated + warmup
    }

    fn durations(&self, warmup: u32) -> Durations {
        let added = warmup - self.scenario.workload.warmup;
        self.bench.durations().at_least(&self.floors()).later(added.into())
    }

    /// The least that each op of the trace takes on a machine that really reads and writes all that
    /// it touches: a launch, and one pass over what it reads and one over what it writes, by the
    /// spec's law of use where it lies. That law is of an op with one pass, launch included.
    fn floors(&self) -> Vec<Span> {
        let Scenario { hardware, .. } = self.scenario;
        let trace = &self.workload.trace;
        let access = hardware.tiers[HBM.index()].access;
        let launch = hardware.compute.as_ref().map_or(Span::ZERO, |compute| compute.launch);
        let pass = Span::from_ps(access.setup.ps().saturating_sub(launch.ps()));
        let floor = |op: &Op| {
            let (mut passes, mut bytes) = ([false; 2], Bytes::ZERO);
            for one in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
                for (pass, moves) in [one.mode.reads(), one.mode.writes()].into_iter().enumerate() {
                    passes[pass] |= moves;
                    bytes +=
                        if moves { trace.objects[one.object.index()].bytes } else { Bytes::ZERO };
                }
            }
            let passes: Span = passes.iter().filter(|there| **there).map(|_| pass).sum();
            launch + passes + Law { setup: Span::ZERO, ..access }.span_of(bytes)
        };
        trace.ops.iter().map(floor).collect()
    }

    fn planner(&self, case: &Case, warmup: u32) -> Result<Result<Planner<'_>, String>, Failure> {
        let hardware = &self.scenario.hardware;
        let policy = self.bench.policy(case)?;
        let repeat = self.bench.told();
        match Planner::new(self.workload, policy, &self.bench.memory_of(case)?, repeat) {
            Ok(mut planner) => {
                planner.stop_after(self.replays(warmup).into());
                planner.fetch_the_quickest(CopyTimes::new(hardware, self.bench.routes()));
                Ok(Ok(planner))
            }
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
        let ops = planner.left() as usize;
        let mut ends = vec![Time::ZERO; ops];
        match drive(planner, machine, WINDOW, |op, at, _| ends[op as usize] = at) {
            Ok(()) => Ok(Ok(ends)),
            Err(DriveError::Plan(full @ PlanError::OutOfMemory { .. })) => {
                Ok(Err(full.to_string()))
            }
            Err(DriveError::Plan(refused)) => Err(Failure::Internal(refused.to_string())),
            Err(DriveError::Machine(found)) => Err(fault(found)),
        }
    }

    /// On the simulated machine.
    fn simulate(&self, case: &Case, warmup: u32) -> Result<Result<Simulated, String>, Failure> {
        let mut planner = match self.planner(case, warmup)? {
            Ok(planner) => planner,
            Err(why) => return Ok(Err(why)),
        };
        let (start, routes) = (planner.start(), self.bench.routes().clone());
        let (hardware, durations) = (&self.scenario.hardware, &self.durations(warmup));
        let mut machine = SimMachine::new(hardware, routes, self.workload, durations, &start);
        machine.draw_from(self.scenario.seed);
        machine.place_elsewhere();
        // What a runtime says that real machines have of themselves: who waits is woken.
        machine.run_by(&case.runtime);
        let mut machine = Logged::new(machine);
        let fault = |fault: tiersim_sim::machine::Fault| Failure::Internal(fault.to_string());
        let ends = match self.drive(&mut planner, &mut machine, fault)? {
            Ok(ends) => ends,
            Err(why) => return Ok(Err(why)),
        };
        let (decisions, steps) = (machine.decisions(), self.steps(&ends, warmup));
        let meters = machine.machine.meters();
        let (mut moved, peak) = (meters.moved.clone(), meters.peak.clone());
        moved.truncate(2 * hardware.links.len());
        let charged = meters.in_place.iter().copied().sum();
        let predicted = Measured { decisions, moved, steps, peak, ..Measured::default() };
        Ok(Ok(Simulated { predicted, charged }))
    }

    /// On real memory, once.
    fn measure(&self, (case, warmup): (&Case, u32), emulate: bool) -> Result<Measured, Failure> {
        let mut planner = self.planner(case, warmup)?.map_err(Failure::Internal)?;
        let durations = self.durations(warmup);
        let setup = Setup {
            hardware: &self.scenario.hardware,
            routes: self.bench.routes().clone(),
            workload: self.workload,
            spans: Box::new(|occurrence| durations.of(occurrence)),
            start: planner.start(),
        };
        let options = Options { emulate, device: self.device, ..Options::new(self.scratch) };
        let machine = self.kind.open(setup, &options)?;
        let mut machine = Logged::new(machine);
        let ends =
            self.drive(&mut planner, &mut machine, Failure::from)?.map_err(Failure::Internal)?;
        let (decisions, report) = (machine.decisions(), machine.machine.report());
        let steps = self.steps(&ends, warmup);
        Ok(Measured { decisions, steps, ..self.reported(report, warmup) })
    }

    /// What a machine says of its run, without the warm-up where that says more.
    fn reported(&self, report: Report, warmup: u32) -> Measured {
        let trace = &self.workload.trace;
        let first = trace.ops.len() as u64 * u64::from(warmup);
        let mut ops: Vec<_> = report.ops.iter().filter(|op| op.occurrence >= first).collect();
        ops.sort_unstable_by_key(|op| op.occurrence);
        let phase = |occurrence: u64| trace.ops[occurrence as usize % trace.ops.len()].phase;
        let run = |op: &&_| {
            let &&OpRun { occurrence, planned, start, end, .. } = op;
            (phase(occurrence), planned, end.since(start))
        };
        let waits = ops.iter().map(|op| op.start.since(op.ready));
        Measured {
            launch: waits.collect(),
            ops: ops.iter().map(run).collect(),
            copies: self.copies(&report),
            moved: report.moved,
            submitted: report.submitted,
            checks: report.truth.checks,
            mismatches: report.truth.mismatches,
            first_mismatch: report.truth.first.first().map(ToString::to_string),
            slots: report.slots,
            peak: report.peak,
            device: report.device,
            ..Measured::default()
        }
    }

    /// Copies over one channel: the law of that channel is all that is predicted of them.
    fn copies(&self, report: &Report) -> Vec<CopyTime> {
        let (routes, hardware) = (self.bench.routes(), &self.scenario.hardware);
        let time = |copy: &CopyRun| {
            let &[channel] = routes.between(copy.from, copy.to) else { return None };
            let predicted = hardware.channel_law(channel).span_of(copy.bytes);
            Some(CopyTime {
                channel: channel.index(),
                predicted,
                measured: copy.end.since(copy.start),
            })
        };
        report.copies_run.iter().filter_map(time).collect()
    }

    /// Lengths of the measured steps: each from the end of the one before.
    fn steps(&self, ends: &[Time], warmup: u32) -> Vec<Span> {
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
        steps.split_off(self.workload.step_ends().len() * warmup as usize)
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
