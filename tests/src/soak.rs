//! Random worlds of every kind, run under audit: what must hold of any run, on any machine.
//!
//! A [`Trial`] is a machine, a trace, a policy, allocators and delays, all drawn from one seed. It
//! is run with the auditor on and watched from outside as well (`watch`); beside some of them a
//! training job is asked of `memory` and of a run ([`jobs`]). To run out of memory is a legal
//! outcome; a fault, a refused action or a panic is a failure, which [`attempt`] tells.
//! Invariant: a trial depends on its seed alone, not on how many others run, or on which threads.

mod dice;
mod drives;
mod formats;
mod machine;
mod memory;
mod plan;
mod ranks;
mod show;
mod steps;
mod watch;
mod workload;

pub use plan::Chosen;
pub use watch::Breach;

use crate::jobs;
use crate::prelude::*;
use crate::setting;
use dice::Dice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tiersim_models::compression::{Choice, Storing};
use tiersim_models::hidden::Hidden;
use tiersim_models::random::split_mix;
use tiersim_models::results::Settled;
use tiersim_models::routes::Routes;
use tiersim_policies::entry::Entry;
use tiersim_policies::numa::NumaConfig;
use tiersim_policies::pressure::PressureConfig;
use tiersim_policies::scenario::OpTime;
use tiersim_sim::audit::Audit;
use tiersim_sim::machine::meters::Meters;
use tiersim_sim::run::{self, BoundMethod};
use watch::Watch;

/// One world in so many is held against the bound by linear program too.
const BOUND_BY_PROGRAM: u64 = 4;

/// One world and what runs on it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it was drawn from.
    pub seed: u64,
    /// The machine, with capacities.
    pub hardware: Hardware,
    /// What runs.
    pub workload: Workload,
    /// How often, and how long its ops take.
    pub spec: WorkloadSpec,
    /// The same as spans.
    pub durations: Durations,
    /// How often the trace is replayed.
    pub repeat: u32,
    /// Who decides.
    pub policy: Chosen,
    /// On which nodes of host memory; for policies that scenarios can name.
    pub numa: NumaConfig,
    /// By tier; empty if all are exact.
    pub allocators: Vec<AllocatorSpec>,
    /// Memory that no object can have.
    pub hidden: Vec<Hidden>,
    /// The tier that is watched, if one is.
    pub pressure: Option<PressureConfig>,
    /// Whether a fetch takes the copy with the quickest route, as scenarios do.
    pub quickest: bool,
    /// Ops planned ahead.
    pub window: u64,
    /// What its tiers store packed.
    pub compress: Choice,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// When each op of the run ended.
    pub ends: Vec<Option<Time>>,
    /// What the machine measured.
    pub meters: Meters,
    /// Events.
    pub events: u64,
    /// Copies.
    pub copies: u64,
}

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The trial's seed.
    pub seed: u64,
    /// How many of its ops are enough.
    pub ops: usize,
    /// Rule, event and what was found.
    pub what: String,
}

/// The seed of world `index` of a soak with `seed`.
pub fn seed_of(seed: u64, index: u64) -> u64 {
    split_mix(seed, index)
}

/// A policy of the registry with parameters drawn from a seed, for a machine of several tiers;
/// `None` if they do not go together.
pub fn drawn(entry: &Entry, seed: u64, trace: &Trace, hardware: &Hardware) -> Option<PolicyConfig> {
    plan::of_entry(&mut Dice::new(seed, 6), entry, trace, hardware)
}

impl Trial {
    /// The trial of a seed, with no more than its first `ops` ops.
    pub fn new(seed: u64, ops: usize) -> Trial {
        let mut trace = workload::trace(&mut Dice::new(seed, 0));
        let (all, most) = workload::sums(&trace);
        let largest = trace.objects.iter().map(|object| object.bytes).max().unwrap_or(Bytes::ZERO);
        let mut hardware = machine::machine(seed, largest);
        let routes = hardware.routes().expect("every drawn machine is joined");
        let mut dice = Dice::new(seed, 5);
        let hidden = memory::hidden(&mut dice, &mut hardware, &routes);
        let pressure = memory::pressure(&mut dice, &mut Dice::new(seed, 10), hardware.tiers.len());
        let quickest = dice.chance(50);
        let numa = memory::numa(&mut dice, &hardware);
        let mut dice = Dice::new(seed, 2);
        let allocators = plan::allocators(&mut dice, hardware.tiers.len());
        plan::capacities(&mut dice, (all, most), &allocators, &hidden, &mut hardware);
        let policy = plan::policy(&mut dice, &trace, &hardware);
        let mut dice = Dice::new(seed, 3);
        let compute = hardware.compute.clone().expect("every drawn machine computes");
        let time = match dice.chance(30) {
            true => OpTime::Priced { compute: compute.own(), precision: "fp32".to_owned() },
            false => OpTime::Recorded { scale: dice.pick(&[1.0, 1.0, 0.5, 3.0]) },
        };
        let repeat = dice.pick(&[1, 1, 1, 2, 3]);
        let jitter = dice.pick(&[0.0, 0.0, 0.05, 0.3, 1.0]);
        let window = dice.pick(&[1, 4, 64, 256]);
        machine::processors(&mut Dice::new(seed, 7), &mut hardware, &mut trace);
        machine::requests(&mut Dice::new(seed, 21), &mut hardware, &mut trace);
        let ranks = ranks::server(&mut Dice::new(seed, 8), &mut hardware, &mut trace);
        let hidden = memory::of_finished(&mut hardware, &hidden);
        let compress = formats::choice(&mut Dice::new(seed, 22), &mut hardware);
        workload::release(&mut Dice::new(seed, 9), &mut trace, repeat);
        let spec = WorkloadSpec { time, jitter, ranks, ..setting::replays(repeat) };
        workload::first(&mut trace, ops);
        let problems = trace.problems();
        assert!(problems.is_empty(), "the drawn trace breaks a rule: {problems:?}");
        let workload = Workload::new(trace);
        let durations = Durations::new(&workload.trace, &spec, hardware.cpu.as_ref(), seed)
            .expect("all ops have a time")
            .with_collectives(&workload.trace, &hardware, ranks);
        Trial {
            seed,
            hardware,
            workload,
            spec,
            durations,
            repeat,
            policy,
            numa,
            allocators,
            hidden,
            pressure,
            quickest,
            window,
            compress,
        }
    }

    /// The same world under another policy, for what a policy of the past has found: which one a
    /// seed draws changes with every policy that is added.
    pub fn under(mut self, policy: Chosen) -> Trial {
        self.policy = policy;
        self
    }

    /// The memory of the machine.
    fn memory(&self) -> Memory {
        let memory = self.hardware.memory().hiding(self.hidden.clone()).with(&self.allocators);
        let trace = &self.workload.trace;
        let written = |object| trace.uses.iter().any(|u| u.object == object && u.mode.writes());
        let routes = self.hardware.routes().expect("every drawn machine is joined");
        let on = (&self.hardware, &routes);
        memory.storing(Storing::new(&self.compress, on, trace.objects.iter(), written))
    }

    /// The planner of the trial, before anything is planned. `None` if the start does not fit.
    fn planner(&self, routes: &Routes) -> Result<Option<Planner<'_>>, String> {
        let copies = CopyTimes::new(&self.hardware, routes);
        let memory = self.memory();
        let policy = self.policy.build(
            &self.numa,
            &Setting {
                workload: &self.workload,
                hardware: &self.hardware,
                memory: &memory,
                spans: &self.durations.nominal()[..self.workload.trace.ops.len()],
                copies: &copies,
                repeat: self.repeat,
            },
        )?;
        let mut planner = match Planner::new(&self.workload, policy, &memory, self.repeat) {
            Ok(planner) => planner,
            Err(PlanError::OutOfMemory { .. }) => return Ok(None),
            Err(refused) => return Err(refused.to_string()),
        };
        if let Some(config) = &self.pressure {
            planner.watch(config.clone(), Vec::new());
        }
        if self.quickest {
            planner.fetch_the_quickest(copies);
        }
        Ok(Some(planner))
    }

    /// Runs the trial under audit, with all edges of one kind left out if asked. `None` if it runs
    /// out of memory.
    pub fn run(&self, without: Option<Hazard>) -> Result<Option<Ran>, Breach> {
        let told = |what: String| Breach { event: 0, what };
        let routes = self.hardware.routes().map_err(|none| told(format!("{none:?}")))?;
        let Some(mut planner) = self.planner(&routes).map_err(told)? else { return Ok(None) };
        let memory = self.memory();
        let start = planner.start();
        let mut machine = SimMachine::of_ranks(
            self.spec.ranks,
            &self.hardware,
            routes.clone(),
            &self.workload,
            &self.durations,
            &start,
        );
        machine.draw_from(self.seed);
        machine.record_path();
        machine.store(&memory);
        let objects = self.workload.trace.objects.len();
        let ranks = self.spec.ranks;
        let audit = Audit::of_ranks(ranks, &self.hardware, &memory, objects, &start);
        machine.audit(audit.map_err(|breach| told(breach.to_string()))?);
        let mut watch = Watch::new(self, machine, &routes, without);
        let mut op_breach = None;
        let driven = drive(&mut planner, &mut watch, self.window, |occurrence, at, watch| {
            if let Err(breach) = watch.op_ended(occurrence, at) {
                op_breach.get_or_insert(breach);
            }
        });
        if let Some(breach) = op_breach {
            return Err(breach);
        }
        if let Some(config) = &self.pressure {
            let rules = memory::pressure_rules(config, &planner, memory.usable(config.tier).most());
            rules.map_err(|what| watch.breach(what))?;
        }
        match driven {
            Ok(()) => {}
            Err(DriveError::Plan(PlanError::OutOfMemory { .. })) => return Ok(None),
            Err(DriveError::Plan(refused)) => return Err(watch.breach(refused.to_string())),
            Err(DriveError::Machine(breach)) => return Err(breach),
        }
        watch.finished(&memory, &self.held(&planner))?;
        let (meters, events) = (watch.machine().meters().clone(), watch.machine().events());
        let copies = watch.copies();
        Ok(Some(Ran { ends: watch.ends, meters, events, copies }))
    }

    /// Bytes of all objects that the plan leaves in each tier.
    fn held(&self, planner: &Planner<'_>) -> Vec<Bytes> {
        let memory = self.memory();
        let mut held = vec![Bytes::ZERO; self.hardware.tiers.len()];
        for (index, object) in self.workload.trace.objects.iter().enumerate() {
            let id = ObjectId::at(index);
            for tier in self.hardware.tier_ids() {
                if planner.ledger().is_allocated(id, tier) {
                    held[tier.index()] += memory.room_of(id, tier, object.bytes);
                }
            }
        }
        held
    }

    /// The same as a scenario, for a policy that scenarios can name.
    pub fn scenario(&self) -> Option<Scenario> {
        let Chosen::Config(policy) = &self.policy else { return None };
        let terms = Terms {
            allocators: self.allocators.clone(),
            numa: self.numa.clone(),
            pressure: self.pressure.clone(),
            compress: self.compress.clone(),
            ..Terms::default()
        };
        let case = Case { terms: terms.into(), ..setting::case("case", policy.clone()) };
        let scenario = setting::scenario(self.hardware.clone(), self.spec.clone(), vec![case]);
        Some(Scenario { seed: self.seed, ..scenario })
    }

    /// Runs the same as a scenario, twice: the bytes of the records must be equal, and no step that
    /// pays for every use below the bound.
    fn as_scenario(&self) -> Result<(), Breach> {
        let Some(scenario) = self.scenario() else { return Ok(()) };
        let told = |what: String| Breach { event: 0, what };
        let record = |bound: BoundMethod| {
            let window = self.window;
            let options =
                Options { audit: true, timeline: true, window, bound, ..Options::default() };
            let record = run::run(&scenario, &self.workload, String::new(), options, || ());
            let record = record.map_err(|error| told(error.to_string()))?;
            let case = &record.results[0];
            let step = case.outcome.figures().map(Figures::mean_step);
            // Steps that drift say so, and promise nothing.
            let drifts = |f: &Figures| f.steady.settled == Settled::Drifts;
            let drifts = case.outcome.figures().is_some_and(drifts);
            match step.filter(|step| *step < case.bound_step && !case.emulated && !drifts) {
                None => Ok(format!("{record:?}")),
                Some(step) => {
                    let (bound, by) = (case.bound_step, &case.bound_by);
                    Err(told(format!("a step of {step} beats the bound of {bound} ({by})")))
                }
            }
        };
        // The linear program takes longer than the world.
        if self.seed.is_multiple_of(BOUND_BY_PROGRAM) {
            record(BoundMethod::Lp)?;
        }
        if record(BoundMethod::Quick)? == record(BoundMethod::Quick)? {
            return Ok(());
        }
        Err(told("two runs of one scenario have different records".to_owned()))
    }

    /// A training job of the same seed: what `memory` says of it by formula, and what its step
    /// holds when it runs.
    fn memory_agrees(&self) -> Result<(), Breach> {
        let (job, offload) = jobs::job(self.seed);
        let told =
            |what| Breach { event: 0, what: format!("memory by formula and by run: {what}") };
        jobs::disagreement(&job, offload).map_or(Ok(()), |what| Err(told(what)))
    }

    /// Runs the trial; one of eight again, one of sixteen as a scenario, and beside one of 64 a
    /// training job.
    pub fn check(&self, without: Option<Hazard>) -> Result<Option<Ran>, Breach> {
        let ran = self.run(without)?;
        if self.seed.is_multiple_of(8) && self.run(without)? != ran {
            return Err(Breach {
                event: 0,
                what: "a second run differs from the first".to_owned(),
            });
        }
        if self.seed % 16 == 1 {
            self.as_scenario()?;
        }
        if self.seed % 64 == 2 {
            self.memory_agrees()?;
        }
        Ok(ran)
    }
}

/// The trial of a seed, checked; a panic is a failure like any other. A failure is tried again with
/// fewer ops, as long as it stays one.
pub fn attempt(seed: u64, ops: usize, without: Option<Hazard>) -> Result<Option<Ran>, Failure> {
    let once = |ops| caught(|| Trial::new(seed, ops).check(without).map_err(|b| b.to_string()));
    let fails = |ops| once(ops).err().map(|what| Failure { seed, ops, what });
    let failure = match once(ops) {
        Ok(ran) => return Ok(ran),
        Err(what) => Failure { seed, ops, what },
    };
    // A trace of fewer ops is another world, so a failure of more ops may be gone.
    let all = caught(|| Ok(Trial::new(seed, ops).workload.trace.ops.len())).unwrap_or(ops);
    Err((1..all).find_map(fails).unwrap_or(failure))
}

fn caught<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}
