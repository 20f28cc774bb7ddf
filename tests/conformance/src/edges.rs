//! Mutations: a plan without edges of one kind must show in the contents, or the contents show
//! nothing at all.

use crate::prelude::*;
use crate::real::{careless, on_real, open, planner, run};
use crate::same::enough;
use crate::world::Careless;
use crate::{BYTES, Check, Counts, LEAST, Site, TIME, ensure, equal};
use std::cell::Cell;
use std::collections::BTreeMap;
use tiersim_validation::options::{Delay, Options};
use tiersim_validation::real::{Kind, Report};
use tiersim_validation::truth::Contents;

/// Every piece of work starts late by up to 150 us.
pub fn delayed(site: &Site, seed: u64) -> Options {
    Options { delay: Some(Delay { seed, most: Span::from_us(150) }), ..site.options() }
}

/// The control: with every edge in place, late work changes nothing.
pub fn with_all_edges_the_same_delays_show_nothing(site: &Site) -> Check<Counts> {
    let (mut fit, mut checks) = (0, 0);
    for seed in site.seeds(site.worlds) {
        let world = World::scaled(seed, BYTES, TIME);
        let options = delayed(site, seed);
        let ran = on_real(site.kind, &world, &|| world.chaos(), &options, Some(seed));
        if let Some(ran) = ran.map_err(|found| format!("world {seed}: {found}"))? {
            (fit, checks) = (fit + 1, checks + ran.checks);
        }
    }
    enough(fit, site.worlds)?;
    Ok(Counts(vec![("worlds", site.worlds), ("fit", fit), ("checks of contents", checks)]))
}

/// In how many worlds it shows that edges of one kind are missing: in one of twenty it must.
fn shown(site: &Site, without: Hazard, shows: impl Fn(&Report, &World) -> bool) -> Check<Counts> {
    let worlds = worlds(site);
    let mut shown = 0;
    for seed in site.seeds(worlds) {
        let world = World::scaled(seed, BYTES, TIME);
        let options = delayed(site, seed);
        let report = careless(site.kind, &world, &|| world.chaos(), without, &options);
        let report = report.map_err(|found| format!("world {seed}: {found}"))?;
        shown += u64::from(report.is_some_and(|report| shows(&report, &world)));
    }
    counted(worlds, shown)
}

fn counted(worlds: u64, shown: u64) -> Check<Counts> {
    ensure(shown > worlds / 20, || {
        format!("only {shown} of {worlds} worlds show that edges are missing: that says little")
    })?;
    Ok(Counts(vec![("worlds", worlds), ("show it", shown)]))
}

/// How many worlds a body of this file runs.
fn worlds(site: &Site) -> u64 {
    (site.worlds * 10 / 3).max(LEAST)
}

/// A wrong pattern. Room that is missing does not count.
fn stale(report: &Report, _: &World) -> bool {
    report.truth.first.iter().any(|mismatch| mismatch.found != Contents::NotAllocated)
}

/// Data is used before it has arrived.
pub fn contents_show_a_missing_arrival_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::ReadAfterWrite, stale)
}

/// Data is overwritten while it is in use.
pub fn contents_show_a_missing_last_use_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::WriteAfterRead, stale)
}

/// Data is fetched again before it was written back.
pub fn contents_show_a_missing_write_back_edge(site: &Site) -> Check<Counts> {
    shown(site, Hazard::WriteBack, stale)
}

/// A tier holds more than it has room for. In all other bodies none ever does.
///
/// A CUDA machine gives rooms in the order of the plan, and who takes over bytes waits for who had
/// them: nothing can be overfull there, with these edges or without.
pub fn meters_show_a_missing_room_edge(site: &Site) -> Check<Counts> {
    if site.kind == Kind::Cuda {
        return Ok(Counts(vec![("worlds that could show it", 0)]));
    }
    let unmetered = Cell::new(false);
    let overfull = |report: &Report, world: &World| {
        unmetered.set(report.peak.is_empty());
        report.peak.first().is_some_and(|peak| !world.hardware.tiers[0].capacity.holds(*peak))
    };
    match shown(site, Hazard::Capacity, overfull) {
        // Its machine cannot be asked.
        Err(_) if unmetered.get() => Ok(Counts(vec![("worlds metered", 0)])),
        done => done,
    }
}

/// Notes which copies must await whose turn, before the edges are left out.
struct Turns<M> {
    machine: Careless<M>,
    ops: BTreeMap<Ticket, u64>,
    turns: Vec<(Ticket, Ticket)>,
}

impl<M: Machine> Machine for Turns<M> {
    type Fault = M::Fault;

    fn submit(&mut self, command: Command) -> Result<(), M::Fault> {
        match command.work {
            Work::Compute { occurrence, .. } => drop(self.ops.insert(command.ticket, occurrence)),
            Work::Copy { .. } => {
                let turns = command.after.iter().filter(|edge| edge.hazard == Hazard::IssueOrder);
                self.turns.extend(turns.map(|edge| (command.ticket, edge.ticket)));
            }
            Work::Compact { .. } | Work::Release => {}
        }
        self.machine.submit(command)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, M::Fault> {
        self.machine.next()
    }
}

/// Copies that had to await their turn, over many worlds, in how many worlds one did not, and how
/// many copies were timed.
fn turns(site: &Site, without: Option<Hazard>) -> Check<(u64, u64, u64)> {
    let (mut awaited, mut early, mut timed) = (0, 0, 0);
    for seed in site.seeds(worlds(site)) {
        let world = World::scaled(seed, BYTES, TIME);
        let named = |found: String| format!("world {seed}: {found}");
        let Some(mut planner) = planner(&world, &|| world.chaos()) else { continue };
        let machine = open(site.kind, &world, &planner, &delayed(site, seed));
        let machine = machine.map_err(|fault| named(fault.to_string()))?;
        let machine = Careless { machine, without };
        let mut machine = Turns { machine, ops: BTreeMap::new(), turns: Vec::new() };
        let ended = run(&world, &mut planner, &mut machine);
        if ended.map_err(|stopped| named(stopped.to_string()))?.is_none() {
            continue;
        }
        let report = machine.machine.machine.report();
        let starts: BTreeMap<Ticket, Time> =
            report.copies_run.iter().map(|copy| (copy.ticket, copy.start)).collect();
        let ends: BTreeMap<u64, Time> =
            report.ops.iter().map(|op| (op.occurrence, op.end)).collect();
        let too_early = |&(copy, op): &(Ticket, Ticket)| {
            starts.get(&copy).is_some_and(|start| *start < ends[&machine.ops[&op]])
        };
        awaited += machine.turns.len() as u64;
        early += u64::from(machine.turns.iter().any(too_early));
        timed += report.copies_run.len() as u64;
    }
    Ok((awaited, early, timed))
}

/// A copy on demand starts before the demand.
pub fn times_of_copies_show_a_missing_turn_edge(site: &Site) -> Check<Counts> {
    let (awaited, early, timed) = turns(site, None)?;
    if timed == 0 {
        // Its machine cannot be asked.
        return Ok(Counts(vec![("copies timed", 0)]));
    }
    ensure(awaited > worlds(site), || {
        format!("only {awaited} copies await a turn, which says little")
    })?;
    equal(&early, &0, "worlds in which a copy did not await its turn, with all edges")?;
    let (_, early, _) = turns(site, Some(Hazard::IssueOrder))?;
    counted(worlds(site), early)
}
