//! Runs one world on the simulated machine and on the host's memory, for conformance tests.

use crate::world::{Careless, World};
use std::path::Path;
use tiersim_models::hardware::Tier;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::{Hazard, Machine};
use tiersim_policies::drive::{DriveError, drive};
use tiersim_policies::planner::{PlanError, Planner};
use tiersim_policies::policy::Policy;
use tiersim_sim::machine::SimMachine;
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
    /// Bytes by lane.
    pub moved: Vec<Bytes>,
    /// (object, tier, whether its contents are the present ones), at the end.
    pub residents: Vec<(ObjectId, TierId, bool)>,
    /// End of each op of the run.
    pub ends: Vec<Time>,
}

impl Outcome {
    /// Panics unless two machines did the same work.
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        assert_eq!(self.decisions, other.decisions, "{what}: decisions");
        assert_eq!(self.moved, other.moved, "{what}: bytes by lane");
        assert_eq!(self.residents, other.residents, "{what}: where everything is");
    }
}

/// A planner for a world; `None` if it does not fit at the start.
pub fn planner<'a>(world: &'a World, make: Make<'_>) -> Option<Planner<'a>> {
    let capacities: Vec<Bytes> = world.hardware.tiers.iter().map(|tier| tier.capacity).collect();
    Planner::new(&world.workload, make(), &capacities, world.repeat).ok()
}

/// When every op ended; `None` if the plan does not fit.
pub type Ended<M> = Result<Option<Vec<Time>>, <M as Machine>::Fault>;

/// Drives a machine to the end; `None` if the plan does not fit.
pub fn run<M: Machine>(world: &World, planner: &mut Planner<'_>, machine: &mut M) -> Ended<M> {
    let mut ends = vec![Time::ZERO; world.workload.trace.ops.len() * world.repeat as usize];
    match drive(planner, machine, 64, |op, at, _| ends[op as usize] = at) {
        Ok(()) => Ok(Some(ends)),
        Err(DriveError::Machine(fault)) => Err(fault),
        Err(DriveError::Plan(PlanError::OutOfMemory { .. })) => Ok(None),
        Err(DriveError::Plan(refused)) => panic!("{refused}"),
    }
}

fn residents(world: &World, planner: &Planner<'_>) -> Vec<(ObjectId, TierId, bool)> {
    let objects = (0..world.workload.trace.objects.len()).map(ObjectId::at);
    let ledger = planner.ledger();
    let tiers = |object| world.hardware.tier_ids().map(move |tier| (object, tier));
    let rooms = objects.flat_map(tiers).filter(|&(object, tier)| ledger.has_room(object, tier));
    rooms.map(|(object, tier)| (object, tier, ledger.holds(object, tier))).collect()
}

/// On the simulated machine, with ends and commands delayed at random if there is a seed.
pub fn on_sim(world: &World, make: Make<'_>, jitter: Option<u64>) -> Option<Outcome> {
    let mut planner = planner(world, make)?;
    let start = planner.start();
    let routes = world.hardware.routes().expect("every tier is joined");
    let (workload, durations) = (&world.workload, &world.durations);
    let machine = SimMachine::new(&world.hardware, routes, workload, durations, &start);
    let (ends, decisions, machine) = match jitter {
        None => {
            let mut machine = Logged::new(machine);
            let ends = run(world, &mut planner, &mut machine).expect("no fault")?;
            (ends, machine.decisions(), machine.machine)
        }
        Some(seed) => {
            let mut machine = Logged::new(JitterMachine::new(machine, seed));
            let ends = run(world, &mut planner, &mut machine).expect("no fault")?;
            (ends, machine.decisions(), machine.machine.machine)
        }
    };
    let (moved, residents) = (machine.meters().moved.clone(), residents(world, &planner));
    Some(Outcome { decisions, moved, residents, ends })
}

/// On real memory; panics if any contents are wrong, during the run or at its end.
pub fn on_host(
    world: &World,
    make: Make<'_>,
    options: &Options,
    jitter: Option<u64>,
) -> Option<Outcome> {
    let mut planner = planner(world, make)?;
    let machine = host(world, &planner, options).expect("the machine starts");
    let (ends, decisions, machine) = match jitter {
        None => {
            let mut machine = Logged::new(machine);
            let ends = run(world, &mut planner, &mut machine).expect("no fault")?;
            (ends, machine.decisions(), machine.machine)
        }
        Some(seed) => {
            let mut machine = Logged::new(JitterMachine::new(machine, seed));
            let ends = run(world, &mut planner, &mut machine).expect("no fault")?;
            (ends, machine.decisions(), machine.machine.machine)
        }
    };
    let report = machine.report();
    assert_eq!(report.truth.first, [], "contents are wrong");
    assert_eq!(report.truth.mismatches, 0);
    let over = |(peak, tier): (&Bytes, &Tier)| *peak > tier.capacity;
    assert!(!report.peak.iter().zip(&world.hardware.tiers).any(over), "{:?}", report.peak);
    let residents = residents(world, &planner);
    let found = machine.holdings().expect("rooms can be read");
    let rooms = |&(object, tier, _): &(ObjectId, TierId, _)| (object, tier);
    let held: Vec<_> = found.iter().map(|&(object, tier, _)| (object, tier)).collect();
    assert_eq!(held, residents.iter().map(rooms).collect::<Vec<_>>(), "rooms at the end");
    for (&(object, tier, valid), &(_, _, version)) in residents.iter().zip(&found) {
        let truth = Some(machine.written()[object.index()]);
        assert!(!valid || version == truth, "{object:?} in {tier:?}: {version:?}, not {truth:?}");
    }
    Some(Outcome { decisions, moved: report.moved, residents, ends })
}

/// On real memory with one kind of edge left out: what the contents and the meters say.
pub fn careless(
    world: &World,
    make: Make<'_>,
    without: Hazard,
    options: &Options,
) -> Option<Report> {
    let mut planner = planner(world, make)?;
    let machine = host(world, &planner, options).expect("the machine starts");
    let mut machine = Careless { machine, without: Some(without) };
    run(world, &mut planner, &mut machine).expect("no fault")?;
    Some(machine.machine.report())
}

/// On real memory with one failure, on a worker (`options.fail`) or at submission (`failure`).
pub fn failing(
    world: &World,
    make: Make<'_>,
    options: &Options,
    failure: Failure,
) -> Result<(), FaultyFault<Fault>> {
    let mut planner = planner(world, make).expect("it fits");
    let machine = host(world, &planner, options).map_err(FaultyFault::Machine)?;
    let mut machine = FaultyMachine::new(machine, failure);
    run(world, &mut planner, &mut machine).map(|_| ())
}

/// This computer's memory, set up for a world.
pub fn host<'a>(
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
    Kind::Host.open(setup, options)
}

/// Options for tests: everything is checked whole.
pub fn options(scratch: &Path) -> Options {
    Options { arrival_stride: 1, ..Options::new(scratch) }
}
