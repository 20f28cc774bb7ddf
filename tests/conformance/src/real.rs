//! Runs one world on the simulated machine and on a machine of real memory.
//!
//! Contents are checked here, during the run and at its end, so that no body can forget to.

use crate::prelude::*;
use crate::world::Careless;
use crate::{Check, ensure, equal};
use std::path::Path;
use tiersim_models::hardware::Tier;
use tiersim_validation::fault::Fault;
use tiersim_validation::faulty::{Failure, FaultyFault, FaultyMachine};
use tiersim_validation::jitter::JitterMachine;
use tiersim_validation::log::{Decisions, Logged};
use tiersim_validation::options::Options;
use tiersim_validation::real::{Kind, RealMachine, Report, Setup};

/// Makes the policy of a run, anew each time.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Policy>;

/// What must be equal on every machine, and when ops ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Fingerprint of what the machine was told.
    pub decisions: Decisions,
    /// Bytes by channel.
    pub moved: Vec<Bytes>,
    /// (object, tier, whether its contents are the present ones), at the end.
    pub residents: Vec<(ObjectId, TierId, bool)>,
    /// End of each op of the run.
    pub ends: Vec<Time>,
    /// Checks of contents; none on the simulated machine.
    pub checks: u64,
}

impl Outcome {
    /// Did two machines do the same work?
    pub fn same_as(&self, other: &Outcome) -> Check {
        equal(&other.decisions, &self.decisions, "decisions")?;
        equal(&other.moved, &self.moved, "bytes by channel")?;
        equal(&other.residents, &self.residents, "where everything is")
    }
}

/// A planner for a world; `None` if it does not fit at the start.
pub fn planner<'a>(world: &'a World, make: Make<'_>) -> Option<Planner<'a>> {
    world.planner(make()).ok()
}

/// Drives a machine to the end; `None` if the plan does not fit.
pub fn run<M: Machine>(
    world: &World,
    planner: &mut Planner<'_>,
    machine: &mut M,
) -> Result<Option<Vec<Time>>, DriveError<M::Fault>> {
    let mut ends = vec![Time::ZERO; world.workload.trace.ops.len() * world.repeat as usize];
    match drive(planner, machine, 64, |op, at, _| ends[op as usize] = at) {
        Ok(()) => Ok(Some(ends)),
        Err(DriveError::Plan(PlanError::OutOfMemory { .. })) => Ok(None),
        Err(stopped) => Err(stopped),
    }
}

/// What a machine was told, when ops ended, and the machine.
type Driven<M> = Option<(Vec<Time>, Decisions, M)>;

/// Drives a machine, logged, with ends and commands held back at random if there is a seed.
fn logged<M: Machine>(
    world: &World,
    planner: &mut Planner<'_>,
    machine: M,
    jitter: Option<u64>,
) -> Check<Driven<M>> {
    let words = |stopped: DriveError<M::Fault>| stopped.to_string();
    Ok(match jitter {
        None => {
            let mut machine = Logged::new(machine);
            let ends = run(world, planner, &mut machine).map_err(words)?;
            ends.map(|ends| (ends, machine.decisions(), machine.machine))
        }
        Some(seed) => {
            let mut machine = Logged::new(JitterMachine::new(machine, seed));
            let ends = run(world, planner, &mut machine).map_err(words)?;
            ends.map(|ends| (ends, machine.decisions(), machine.machine.machine))
        }
    })
}

fn residents(world: &World, planner: &Planner<'_>) -> Vec<(ObjectId, TierId, bool)> {
    let objects = (0..world.workload.trace.objects.len()).map(ObjectId::at);
    let ledger = planner.ledger();
    let tiers = |object| world.hardware.tier_ids().map(move |tier| (object, tier));
    let rooms = objects.flat_map(tiers).filter(|&(object, tier)| ledger.is_allocated(object, tier));
    rooms.map(|(object, tier)| (object, tier, ledger.holds(object, tier))).collect()
}

/// On the simulated machine; `None` if the plan does not fit.
pub fn on_sim(world: &World, make: Make<'_>, jitter: Option<u64>) -> Check<Option<Outcome>> {
    let Some(mut planner) = planner(world, make) else { return Ok(None) };
    let machine = world.simulated(&planner, 1);
    let driven = logged(world, &mut planner, machine, jitter)?;
    Ok(driven.map(|(ends, decisions, machine)| {
        // Channels within a tier come last: only the simulator has those.
        let channels = 2 * world.hardware.links.len();
        let (moved, residents) = (&machine.meters().moved[..channels], residents(world, &planner));
        let moved = moved.to_vec();
        Outcome { decisions, moved, residents, ends, checks: 0 }
    }))
}

/// On real memory, contents checked during the run and at its end; `None` if the plan does not fit.
pub fn on_real(
    kind: Kind,
    world: &World,
    make: Make<'_>,
    options: &Options,
    jitter: Option<u64>,
) -> Check<Option<Outcome>> {
    let Some(mut planner) = planner(world, make) else { return Ok(None) };
    let machine = open(kind, world, &planner, options).map_err(|fault| fault.to_string())?;
    let Some((ends, decisions, machine)) = logged(world, &mut planner, machine, jitter)? else {
        return Ok(None);
    };
    let Report { truth, moved, peak, .. } = machine.report();
    ensure(truth.mismatches == 0, || {
        let first: Vec<String> = truth.first.iter().map(ToString::to_string).collect();
        format!("{} wrong contents: {}", truth.mismatches, first.join("; "))
    })?;
    let over = |(peak, tier): (&Bytes, &Tier)| !tier.capacity.holds(*peak);
    ensure(!peak.iter().zip(&world.hardware.tiers).any(over), || {
        format!("a tier held more than it has room for: {peak:?}")
    })?;
    let residents = residents(world, &planner);
    at_rest(&*machine, &residents)?;
    Ok(Some(Outcome { decisions, moved, residents, ends, checks: truth.checks }))
}

/// What lies where when all is done is what the plan says, and of the version that was written.
fn at_rest(machine: &dyn RealMachine, residents: &[(ObjectId, TierId, bool)]) -> Check {
    let found = machine.holdings().map_err(|fault| fault.to_string())?;
    let planned: Vec<_> = residents.iter().map(|&(object, tier, _)| (object, tier)).collect();
    let held: Vec<_> = found.iter().map(|&(object, tier, _)| (object, tier)).collect();
    equal(&held, &planned, "rooms at the end")?;
    for (&(object, tier, valid), &(_, _, version)) in residents.iter().zip(&found) {
        let truth = Some(machine.written()[object.index()]);
        ensure(!valid || version == truth, || {
            format!("at the end {object:?} in {tier:?} is {version:?}, not {truth:?}")
        })?;
    }
    Ok(())
}

/// On real memory with one kind of edge left out: what contents and meters say.
pub fn careless(
    kind: Kind,
    world: &World,
    make: Make<'_>,
    without: Hazard,
    options: &Options,
) -> Check<Option<Report>> {
    let Some(mut planner) = planner(world, make) else { return Ok(None) };
    let machine = open(kind, world, &planner, options).map_err(|fault| fault.to_string())?;
    let mut machine = Careless { machine, without: Some(without) };
    let ended = run(world, &mut planner, &mut machine).map_err(|stopped| stopped.to_string())?;
    Ok(ended.map(|_| machine.machine.report()))
}

/// On real memory with one failure, on a worker (`options.fail`) or at submission (`failure`):
/// which failure was met, if any.
pub fn failing(
    kind: Kind,
    world: &World,
    make: Make<'_>,
    options: &Options,
    failure: Failure,
) -> Check<Option<Failure>> {
    let mut planner = planner(world, make).ok_or("it does not fit")?;
    let met = |fault: Fault| match fault {
        Fault::Injected(failure) => Ok(Some(failure)),
        other => Err(other.to_string()),
    };
    let machine = match open(kind, world, &planner, options) {
        Ok(machine) => machine,
        Err(fault) => return met(fault),
    };
    let mut machine = FaultyMachine::new(machine, failure);
    match run(world, &mut planner, &mut machine) {
        Ok(_) => Ok(None),
        Err(DriveError::Machine(FaultyFault::Injected(failure))) => Ok(Some(failure)),
        Err(DriveError::Machine(FaultyFault::Machine(fault))) => met(fault),
        Err(stopped) => Err(stopped.to_string()),
    }
}

/// Makes the machine for a world.
pub fn open<'a>(
    kind: Kind,
    world: &'a World,
    planner: &Planner<'_>,
    options: &Options,
) -> Result<Box<dyn RealMachine + 'a>, Fault> {
    let setup = Setup {
        hardware: &world.hardware,
        routes: world.hardware.routes().expect("every tier is joined"),
        workload: &world.workload,
        spans: Box::new(|occurrence| world.durations.of(occurrence)),
        start: planner.start(),
    };
    kind.open(setup, options)
}

/// Options that check everything whole.
pub fn options(scratch: &Path) -> Options {
    Options { arrival_stride: 1, ..Options::new(scratch) }
}
