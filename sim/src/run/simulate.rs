//! One case through planner and machine, with the warm-up that its steady state needs ([`settle`]).
//!
//! [`settle`]: super::settle

use super::{CaseInputs, CaseRunner, Options, RunError, Simulated};
use crate::audit::{Audit, Breach};
use crate::durations::Durations;
use crate::machine::plain::{Digests, Ended, MOST_OPS, Plain};
use crate::machine::{Fault, SimMachine};
use crate::run::decides::decides_by;
use crate::run::plans::Start;
use crate::run::settle::{LONG, MOST_ADDED, compare};
use crate::run::steady::Steady;
use crate::run::step_log::StepLog;
use crate::run::stopwatch::Stopwatch;
use crate::run::walked::Walked;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::results::{Figures, Settled};
use tiersim_models::units::Span;
use tiersim_models::workload::Trace;
use tiersim_policies::command::Allocation;
use tiersim_policies::drive::{DriveError, follow};
use tiersim_policies::elsewhere::{ELSEWHERE, NoAnswer};
use tiersim_policies::planner::{PlanError, Planner};
use tiersim_policies::policy::{Policy, Refusal};
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::recorded::Replays;
use tiersim_policies::scenario::Case;

/// What a run is on.
enum On<'m> {
    Whole(Box<SimMachine<'m>>),
    /// The same times for less work.
    Plain(Box<Plain<'m>>),
}

impl On<'_> {
    /// Runs the plan to its end; `None` if the machine is plain and the plan is not.
    fn follow(
        &mut self,
        planner: &mut Planner<'_>,
        window: u64,
        steady: &mut Steady<'_>,
    ) -> Option<Result<(), DriveError<Fault>>> {
        let driven = match self {
            On::Whole(machine) => {
                steady.stopwatch.begins(&mut **machine);
                return Some(follow(planner, &mut **machine, window, steady));
            }
            On::Plain(plain) => {
                steady.stopwatch.begins(&mut **plain);
                match planner.plans_again() {
                    true => steady.follow_again(planner, plain, window),
                    false => follow(planner, &mut **plain, window, steady),
                }
            }
        };
        Some(match driven {
            Ok(()) => Ok(()),
            Err(DriveError::Plan(error)) => Err(DriveError::Plan(error)),
            Err(DriveError::Machine(Ended::Fault(fault))) => Err(DriveError::Machine(fault)),
            Err(DriveError::Machine(Ended::NotPlain)) => return None,
        })
    }

    /// The figures of a run that has come to its end.
    fn figures(
        &mut self,
        stopwatch: Stopwatch<'_>,
        hardware: &Hardware,
        planner: &Planner<'_>,
    ) -> Figures {
        match self {
            On::Whole(machine) => stopwatch.figures(hardware, planner, &mut **machine),
            On::Plain(plain) => stopwatch.figures(hardware, planner, &mut **plain),
        }
    }
}

/// What a policy of another program did wrong: its author wrote it elsewhere, and is told as of any
/// other input.
fn of_elsewhere(label: &str, policy: &PolicyConfig, why: &str) -> RunError {
    RunError::Input(format!("case {label:?}: policy {}, {why}", policy.details()))
}

impl CaseRunner<'_> {
    /// The replays of a case that do not count, once its measured steps are steady, and those that
    /// do.
    pub fn replays(&self, case: &Case, options: Options) -> Result<(u32, u32), RunError> {
        let measured = self.repeat - self.warmup;
        let run = self.with_asked(case, |asked| self.simulate(&case.label, asked, options))?;
        let settled = run.outcome.figures().map(|figures| figures.steady.warmup as u32);
        Ok((settled.unwrap_or(self.warmup), measured))
    }

    /// Runs what is asked; that a policy's program gave no answer is bad input.
    pub(super) fn simulate(
        &self,
        label: &str,
        asked: &CaseInputs<'_>,
        options: Options,
    ) -> Result<Simulated, RunError> {
        if asked.policy.name() != ELSEWHERE {
            return self.settled(label, asked, options);
        }
        let run = AssertUnwindSafe(|| self.settled(label, asked, options));
        catch_unwind(run).unwrap_or_else(|payload| match payload.downcast::<NoAnswer>() {
            Ok(why) => Err(of_elsewhere(label, &asked.policy, &why.0)),
            Err(payload) => resume_unwind(payload),
        })
    }

    /// A refusal of the plan, by the names of the trace and the machine.
    fn refused(&self, trace: &Trace, occurrence: u64, why: &Refusal) -> String {
        let op = &trace.ops[(occurrence % trace.ops.len() as u64) as usize];
        let object = |object: ObjectId| trace.objects[object.index()].name.to_string();
        let tier = |tier: TierId| self.hardware.tiers[tier.index()].name.clone();
        format!("op {occurrence} of the run ({}): {}", op.name, why.said(&object, &tier))
    }

    /// The same, with as many replays more that do not count as its steady state needs.
    fn settled(
        &self,
        label: &str,
        asked: &CaseInputs<'_>,
        options: Options,
    ) -> Result<Simulated, RunError> {
        let drawn = self.draws();
        let mut before: Option<(u32, Span)> = None;
        let mut built = None;
        loop {
            let added = before.map_or(0, |(added, _)| 2 * added + 1);
            let mut run = self.attempt(label, asked, options, (added, drawn), &mut built)?;
            if let Some(figures) = run.outcome.figures_mut() {
                let mean = figures.mean_step();
                // It may have gone on by itself.
                let added = figures.steady.warmup as u32 - self.warmup;
                // Other replays than those of the last try, or half of them would be the same ones.
                let apart = before.filter(|&(last, _)| added - last >= self.repeat - self.warmup);
                if let Some((_, last)) = apart {
                    compare(&mut figures.steady, mean, last);
                }
                let drifts = figures.steady.settled == Settled::Drifts;
                if drifts && added < MOST_ADDED && self.repeat <= LONG {
                    before = Some((added, mean));
                    continue;
                }
            }
            if !drawn || self.repeat == 1 {
                return Ok(run);
            }
            return self.with_draws(label, asked, options, (added, run), &mut built);
        }
    }

    /// Whether a run may go on where it would be begun anew: one replay of one stream is measured,
    /// and nothing is drawn.
    fn is_simple(&self) -> bool {
        let mut streams = self.workload.trace.ops.iter().map(|op| op.stream);
        let first = streams.next();
        let alone = streams.all(|stream| Some(stream) == first) && self.spec.ranks == 1;
        alone && !self.draws() && self.repeat > 1 && self.repeat == self.warmup + 1
    }

    fn draws(&self) -> bool {
        self.spec.jitter > 0.0 || self.hardware.draws()
    }

    /// As `run`, in which nothing was drawn, and with draws.
    fn with_draws(
        &self,
        label: &str,
        asked: &CaseInputs<'_>,
        options: Options,
        (added, run): (u32, Simulated),
        built: &mut Option<Box<dyn Policy>>,
    ) -> Result<Simulated, RunError> {
        let Some(Figures { steady, .. }) = run.outcome.figures() else { return Ok(run) };
        let steady = steady.clone();
        let mut run = self.attempt(label, asked, options, (added, false), built)?;
        if let Some(figures) = run.outcome.figures_mut() {
            figures.steady = steady;
        }
        Ok(run)
    }

    /// One run, with so many replays added to its warm-up, and with nothing drawn if so asked.
    /// `built` is the policy as an earlier one has built it, if it could keep it.
    fn attempt(
        &self,
        label: &str,
        asked: &CaseInputs<'_>,
        options: Options,
        how: (u32, bool),
        built: &mut Option<Box<dyn Policy>>,
    ) -> Result<Simulated, RunError> {
        let run = self.attempt_by(label, asked, options, (how, true), built)?;
        if let Some(run) = run {
            return Ok(run);
        }
        let alone = Options { share: false, ..options };
        let own = self.attempt_by(label, asked, alone, (how, false), built)?;
        Ok(own.expect("a run that plans for itself has its own plan"))
    }

    /// The same, on a plain machine if it is one and `plain` allows that; `None` if the plan that it
    /// shares turns out to be another one.
    fn attempt_by(
        &self,
        label: &str,
        asked: &CaseInputs<'_>,
        options: Options,
        ((added, nothing_drawn), plain): ((u32, bool), bool),
        earlier: &mut Option<Box<dyn Policy>>,
    ) -> Result<Option<Simulated>, RunError> {
        let CaseInputs { workload, durations, policy, numa, memory, watched, runtime } = asked;
        let nothing_drawn = nothing_drawn && self.repeat > 1;
        let durations = &match nothing_drawn {
            true => durations.without_jitter(),
            false => durations.later(added.into()),
        };
        let (warmup, repeat) = (self.warmup + added, self.repeat + added);
        let internal =
            |what: String| RunError::Internal { case: label.to_owned(), seed: self.seed, what };
        let setting = self.setting(workload, durations, memory);
        let built = match earlier.take() {
            Some(policy) => policy,
            None => numa.build(policy, &setting).map_err(RunError::Input)?,
        };
        *earlier = built.anew();
        let lookahead = built.lookahead();
        // Another program is not asked twice for a plan that may turn out not to be plain.
        let plain = plain && built.name() != ELSEWHERE && !options.walk && watched.is_none();
        let full = |error| self.out_of_memory(error, memory, (&workload.trace, policy));
        let shared = self.shared_plan(asked, &setting, repeat, options)?;
        let planned = match shared {
            Some(shared) => Ok(Planner::again(shared, workload, built, memory, setting.repeat)),
            None => Planner::new(workload, built, memory, setting.repeat),
        };
        let mut planner = match planned {
            Ok(planner) => planner,
            Err(error) => {
                let outcome = full(error).map_err(internal)?;
                let (pressure, walked, unpaid) = (None, None, false);
                let left_out = 0;
                let run = Simulated { outcome, pressure, lookahead, left_out, unpaid, walked };
                return Ok(Some(run));
            }
        };
        planner.stop_after(repeat.into());
        if let Some((config, batches)) = watched {
            let steps = workload.step_ends().len() * repeat as usize;
            let batches = batches.iter().copied().cycle().take(steps).collect();
            planner.watch((*config).clone(), batches);
        }
        let start = planner.start();
        let slower = runtime.pageable.then(|| self.hardware.with_pageable());
        let hardware = slower.as_ref().unwrap_or(self.hardware);
        planner.fetch_the_quickest(self.copies.clone());
        let machine = self.machine(asked, durations, (hardware, &start), options.audit);
        let mut machine = machine.map_err(|breach| internal(breach.to_string()))?;
        if nothing_drawn {
            machine.draw_nothing();
        }
        let mut stopwatch = Stopwatch::new(workload, repeat, warmup, options.timeline);
        if options.timeline && watched.is_some() {
            stopwatch.time_turns();
        }
        stopwatch.walked = options.walk.then(Walked::default);
        stopwatch.log = (options.log || self.horizon.is_some()).then(StepLog::default);
        stopwatch.takes_at_least(durations);
        let shown = options.timeline || options.walk || watched.is_some();
        if options.extend && added == 0 && !shown && stopwatch.log.is_none() && self.is_simple() {
            stopwatch.may_go_on(self.hardware);
        }
        planner.count_from(stopwatch.first_measured_op());
        // A long run is predicted from replays that were simulated one by one.
        let extends = options.extend && self.horizon.is_none() && machine.may_repeat();
        // Until so many ops are under way as may be, every replay adds some.
        let filled = options.window / planner.ops_per_replay() + 2;
        let mut steady = Steady::new(stopwatch, extends, filled);
        let ops = u64::from(repeat).saturating_mul(planner.ops_per_replay());
        let short = ops <= MOST_OPS && steady.leaves_none_out(repeat);
        let plain = (plain && short)
            .then(|| machine.plain((ops + ops / 2) as usize, (&self.routes, self.digests())));
        let mut on = match plain.flatten() {
            Some(plain) => On::Plain(Box::new(plain)),
            None => On::Whole(Box::new(machine)),
        };
        let Some(driven) = on.follow(&mut planner, options.window, &mut steady) else {
            let how = ((added, nothing_drawn), false);
            // Asked for a second time, its plan would be kept.
            let share = planner.plans_again();
            return self.attempt_by(label, asked, Options { share, ..options }, how, earlier);
        };
        let left_out = steady.left_out() * workload.step_ends().len() as u64;
        let mut stopwatch = steady.stopwatch;
        let walked = stopwatch.walked.take();
        let pressure = watched.as_ref().and_then(|(config, _)| {
            let capacity = planner.ledger().capacity(config.tier).most();
            stopwatch.pressure(&planner, config.tier, capacity)
        });
        let outcome = match driven {
            Ok(()) => on.figures(stopwatch, self.hardware, &planner).into(),
            Err(DriveError::Plan(long @ PlanError::TooLong { .. })) => {
                return Err(RunError::Input(format!("case {label:?}: {long}; lower `repeat`")));
            }
            Err(DriveError::Plan(PlanError::Refused { policy: ELSEWHERE, occurrence, why })) => {
                let why = self.refused(&workload.trace, occurrence, &why);
                return Err(of_elsewhere(label, policy, &why));
            }
            Err(DriveError::Plan(PlanError::Otherwise)) => return Ok(None),
            Err(DriveError::Plan(error)) => full(error).map_err(internal)?,
            Err(DriveError::Machine(fault)) => return Err(internal(fault.to_string())),
        };
        let busy = outcome.figures().and_then(Figures::busy_beyond_time);
        match busy {
            Some(what) => Err(internal(what)),
            None => {
                let unpaid = planner.is_unpaid();
                Ok(Some(Simulated { outcome, pressure, lookahead, left_out, unpaid, walked }))
            }
        }
    }

    /// The machine of a run, with `start` in its tiers.
    fn machine<'m>(
        &self,
        asked: &CaseInputs<'m>,
        durations: &'m Durations,
        (hardware, start): (&Hardware, &[Allocation]),
        audited: bool,
    ) -> Result<SimMachine<'m>, Breach> {
        let (workload, ranks, routes) = (asked.workload, self.spec.ranks, self.routes.clone());
        let mut machine = SimMachine::of_ranks(ranks, hardware, routes, workload, durations, start);
        machine.run_by(asked.runtime);
        machine.store(asked.memory);
        machine.draw_from(self.seed);
        if audited {
            let objects = workload.trace.objects.len();
            machine.audit(Audit::of_ranks(ranks, hardware, asked.memory, objects, start)?);
        }
        Ok(machine)
    }

    /// What plans come to on plain machines, where others carry them out too.
    fn digests(&self) -> Arc<Digests> {
        self.plans.as_ref().map_or_else(Arc::default, |plans| plans.digests())
    }

    /// The plan of a run with so many replays, if others that decide the same have run.
    fn shared_plan(
        &self,
        asked: &CaseInputs<'_>,
        setting: &Setting<'_>,
        repeat: u32,
        options: Options,
    ) -> Result<Option<Arc<dyn Replays + '_>>, RunError> {
        let Some(plans) = &self.plans else { return Ok(None) };
        // A workload of the case's own goes with the case.
        if !std::ptr::eq(asked.workload, self.workload) {
            return Ok(None);
        }
        let told = (repeat, setting.repeat);
        let Some(key) = decides_by(asked, self.hardware, told, options) else { return Ok(None) };
        let mut built = Ok(());
        let plan = plans.plan(key, &mut || {
            let policy = asked.numa.build(&asked.policy, setting);
            let policy = policy.map_err(|error| built = Err(RunError::Input(error))).ok()?;
            let (memory, repeat) = (asked.memory.clone(), setting.repeat);
            Some(Start { policy, memory, repeat, copies: self.copies.clone() })
        });
        built.map(|()| plan)
    }
}
