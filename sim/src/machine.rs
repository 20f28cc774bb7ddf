//! The simulated machine: compute streams, copy engines and tiers in virtual time.
//!
//! A compute stream runs its ops in order. Each direction of a link is a copy engine (`channels`):
//! copies between the same two tiers enter in the order in which they were submitted, once their
//! edges are satisfied, and are served one after the other, in turn with those between other tiers
//! (`lines`), or as the link's service says. A copy that is stored on its way travels in chunks, at
//! most [`BOUNCE`] of its own between two hops at any moment ([`tiersim_policies::transit`]);
//! shared links that meet in a switch are one flow (`sharing`). Several devices of a server carry
//! out the same plan at the same time (`ranks`), and together what one of them cannot
//! (`collectives`).
//! Invariant: the machine never validates and never decides. An edge is an indegree; whether the
//! plan was right is the auditor's business ([`crate::audit`]).
//!
//! [`BOUNCE`]: tiersim_policies::transit::BOUNCE

mod blame;
mod channels;
mod collectives;
mod copies;
mod detail;
mod entry;
mod framework;
mod in_place;
mod issues;
mod lines;
mod loads;
pub mod meters;
mod moment;
mod ops;
mod path;
pub mod plain;
mod ranks;
mod sharing;
mod state;
mod streams;
mod timed;
mod timeline;
mod together;
mod told;
mod trail;
mod walk;
pub mod watched;

use crate::audit::{Audit, Breach};
use crate::durations::Durations;
use crate::engine::Engine;
use crate::machine::blame::{Blame, Ended};
use crate::machine::channels::Channel;
use crate::machine::collectives::Collectives;
use crate::machine::entry::{Entries, Held, Progress};
use crate::machine::framework::Framework;
use crate::machine::in_place::Uses;
use crate::machine::loads::{Load, Loads};
use crate::machine::meters::Meters;
use crate::machine::moment::Piece;
use crate::machine::path::{Path, Paths};
use crate::machine::ranks::Ranks;
use crate::machine::sharing::{Flight, Sharing};
use crate::machine::streams::{Processors, Stream, Threads};
pub use crate::machine::trail::{Doing, Segment, UsedInPlace, WalkedStep};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::compression::Storing;
use tiersim_models::hardware::{Hardware, Law, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::Timeline;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Allocation, Command, Machine, Ticket, Work};

/// What goes wrong only through a mistake in this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Commands are left, but nothing is under way.
    #[error("after event {events}: {waiting} commands wait for each other")]
    Stuck {
        /// Events processed so far.
        events: u64,
        /// Commands that wait.
        waiting: usize,
    },
    /// The auditor found a rule broken.
    #[error("after event {events}: audit: {breach}")]
    Audit {
        /// Events processed so far.
        events: u64,
        /// The rule.
        breach: Breach,
    },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// An op has ended.
    Op(Ticket),
    /// A channel has copied a piece.
    Copied { channel: u16, piece: Piece },
    /// The set-up of a flow is over: its bytes go from now on.
    Flows(Flight),
    /// A flow has ended.
    Landed,
    /// The bytes of an op's charge go over shared links from now on.
    Uses(Ticket),
    /// The op at the head of a stream is released.
    Released(u32),
    /// The bytes of a collective go from now on, of all ranks.
    Exchange(Ticket),
    /// The work of an op on the CPU begins.
    Launched { op: Ticket, work: Span },
    /// Such an op has ended.
    Worked,
    /// The thread of a framework has seen to an object: its copy may begin.
    Issued(Ticket),
    /// The device has gone over what a copy brought.
    Passed(Ticket),
}

/// The simulated machine.
pub struct SimMachine<'a> {
    workload: &'a Workload,
    durations: &'a Durations,
    accesses: Vec<Law>,
    loads: Option<Box<Loads>>,
    chunk: Bytes,
    routes: Routes,
    engine: Engine<Event>,
    entries: Entries,
    /// The plan whose commands were submitted last, where it is carried out again.
    plan: Option<Rc<Arc<[Command]>>>,
    ranks: Ranks,
    /// Those of each rank beside each other.
    streams: Vec<Stream>,
    /// Two per link, then one per tier, from the tier to itself; every instance.
    channels: Vec<Channel>,
    /// Links of one device.
    links: usize,
    sharing: Option<Box<Sharing>>,
    uses: Option<Box<Uses>>,
    collectives: Option<Box<Collectives>>,
    processors: Option<Box<Processors>>,
    threads: Threads,
    framework: Option<Box<Framework>>,
    seed: u64,
    /// Whether objects lie where something else than the plan's allocators puts them.
    placed_elsewhere: bool,
    /// What tiers store packed.
    storing: Option<Storing>,
    ended: VecDeque<(Time, Ticket, Path)>,
    meters: Meters,
    blame: Blame,
    paths: Paths,
    audit: Option<Box<Audit>>,
    timeline: Option<Box<Timeline>>,
}

impl<'a> SimMachine<'a> {
    /// A machine with `start` in its tiers. `routes` must be the hardware's.
    pub fn new(
        hardware: &Hardware,
        routes: Routes,
        workload: &'a Workload,
        durations: &'a Durations,
        start: &[Allocation],
    ) -> SimMachine<'a> {
        SimMachine::of_ranks(1, hardware, routes, workload, durations, start)
    }

    /// As many devices of one server as ranks, each of which carries out the plan; `start` is that
    /// of each. A command has ended when it has ended on all. What is measured is of the first.
    pub fn of_ranks(
        ranks: u32,
        hardware: &Hardware,
        routes: Routes,
        workload: &'a Workload,
        durations: &'a Durations,
        start: &[Allocation],
    ) -> SimMachine<'a> {
        let ranks = Ranks::new(hardware, ranks);
        let all = ranks.hardware();
        let mut meters =
            Meters::new(hardware.tiers.len(), hardware.links.len() * 2 + hardware.tiers.len());
        start.iter().for_each(|room| meters.allocate(room));
        SimMachine {
            workload,
            durations,
            accesses: hardware.tiers.iter().map(|tier| tier.access).collect(),
            loads: Loads::new(all, &workload.trace),
            chunk: hardware.chunk,
            uses: Uses::new(hardware, &routes),
            processors: Processors::new(hardware, &routes, &workload.trace),
            routes,
            engine: Engine::new(),
            entries: Entries::default(),
            plan: None,
            streams: Vec::new(),
            channels: Channel::all(all),
            links: hardware.links.len(),
            sharing: Sharing::new(all).map(Box::new),
            collectives: Collectives::new(hardware, &ranks, &workload.trace),
            threads: Threads::default(),
            framework: None,
            seed: 0,
            placed_elsewhere: false,
            storing: None,
            ended: VecDeque::new(),
            paths: Paths::new(meters.parts()),
            meters,
            blame: Blame::new(ranks.count()),
            ranks,
            audit: None,
            timeline: None,
        }
    }

    /// From now on links add no random delays.
    pub fn draw_nothing(&mut self) {
        let channels = self.channels.iter_mut().filter_map(|channel| channel.peculiar.as_mut());
        channels.for_each(|peculiar| peculiar.draw_nothing());
    }

    /// Switches on the auditor, before the first command.
    pub fn audit(&mut self, audit: Audit) {
        self.audit = Some(Box::new(audit));
    }

    /// The seed of random delays, before the first command; 0 otherwise.
    pub fn draw_from(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// From now on allocators and compaction cost nothing, as on a machine that places objects by
    /// its own means.
    pub fn place_elsewhere(&mut self) {
        self.placed_elsewhere = true;
    }

    /// From now on tiers store objects packed as the memory of the case says, before the first
    /// command.
    pub fn store(&mut self, memory: &Memory) {
        self.storing = memory.stores().cloned();
    }

    /// What was measured so far.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Most bytes held in the first tier since this was last asked, or since the start.
    pub(crate) fn peak_since(&mut self) -> Bytes {
        let now = self.meters.used[0];
        std::mem::replace(&mut self.meters.peak_since, now)
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.engine.events()
    }

    /// A command starts: it takes its room.
    fn begin(&mut self, ticket: Ticket, cause: Option<Ticket>) -> Result<(), Fault> {
        let now = self.engine.now();
        let entry = self.entries.get_mut(ticket);
        entry.start = now;
        entry.blocker = cause;
        entry.begun = true;
        if let Some(audit) = &mut self.audit {
            let checked = audit.starts(&entry.command, now);
            checked.map_err(|breach| Fault::Audit { events: self.engine.events(), breach })?;
        }
        if self.ranks.is_first(ticket) {
            for room in &entry.command.allocates {
                self.meters.allocate(room);
                timeline::holds(&mut self.timeline, now, room.tier, &self.meters);
            }
        }
        Ok(())
    }

    /// A command ends: it gives room back, and whoever waited for it may go.
    fn finish(&mut self, ticket: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let is_first = self.ranks.is_first(ticket);
        let over = self.collectives.as_mut().and_then(|all| all.ends(ticket));
        if let Some(timeline) = self.timeline.as_mut().filter(|_| is_first) {
            let entry = self.entries.get(ticket);
            let kind = |channel| self.ranks.kind(channel);
            let shown = timeline::slices(entry, &self.workload.trace, over.as_ref(), kind, now);
            timeline.slices.extend(shown);
        }
        let entry = self.entries.get_mut(ticket);
        entry.ended = true;
        if let Some(audit) = &mut self.audit {
            let checked = audit.ends(&entry.command, now);
            checked.map_err(|breach| Fault::Audit { events: self.engine.events(), breach })?;
        }
        let mut in_place = self.by_law(ticket);
        if let Some(loads) = self.loads.as_mut().and_then(|loads| loads.ends(ticket)) {
            let kind = |load: &Load| (self.ranks.tier_kind(load.tier), load.excess);
            in_place.extend(loads.iter().map(kind));
        }
        if let Some(excess) = self.uses.as_mut().and_then(|uses| uses.ends(ticket)) {
            in_place.extend(excess);
        }
        if is_first {
            self.count(ticket, &in_place);
            let entry = self.entries.get(ticket);
            if let (Work::Copy { .. }, Some(progress)) = (&entry.command.work, &entry.progress) {
                let channels = progress.transit.channels().map(|channel| self.ranks.kind(channel));
                let came = entry.came_at(now);
                self.meters.copied(channels, came.since(entry.start));
            }
        }
        let path = self.arrives(ticket, &in_place);
        self.waited(ticket);
        let entry = self.entries.get_mut(ticket);
        let channel = entry.progress.as_ref().map(|progress| progress.slowest);
        let channel = channel.or(over.map(|over| over.slowest));
        self.blame.remember(ticket, Ended { start: entry.start, channel, blocker: entry.blocker });
        let stream = entry.stream;
        let waiters = std::mem::take(&mut entry.waiters);
        if let Some(ended) = self.ranks.ended(ticket) {
            self.ended.push_back((now, ended, path));
        }
        if let Some(stream) = stream {
            self.streams[stream].running = false;
            self.streams[stream].idle_since = now;
        }
        for waiter in waiters {
            let entry = self.entries.get_mut(waiter);
            entry.indegree -= 1;
            if entry.indegree == 0 {
                self.ready(waiter, Some(ticket))?;
            }
        }
        if let Some(stream) = stream {
            self.try_stream(stream, Some(ticket))?;
        }
        self.entries.forget_ended();
        Ok(())
    }

    /// All edges of a command are satisfied.
    fn ready(&mut self, ticket: Ticket, cause: Option<Ticket>) -> Result<(), Fault> {
        if self.is_seen_to(ticket, cause) {
            return Ok(());
        }
        let entry = self.entries.get(ticket);
        match (entry.stream, &entry.progress) {
            (Some(stream), _) => self.try_stream(stream, cause),
            (None, Some(progress)) => {
                let channel = progress.transit.channel(0);
                match self.channels[channel].is_in_order() {
                    true => self.try_gate((channel, progress.line), cause),
                    false => self.enter(ticket, cause),
                }
            }
            (None, None) => {
                self.begin(ticket, cause)?;
                self.finish(ticket)
            }
        }
    }

    /// Takes a command of one device.
    fn take(&mut self, mut command: Held) -> Result<(), Fault> {
        self.waits_for_thread(&mut command);
        self.check(|audit, now| audit.submitted(&command, now))?;
        let ticket = command.ticket;
        let mut runs = None;
        let mut progress: Option<Box<Progress>> = None;
        match command.work {
            Work::Compute { occurrence, stream: number, .. } => {
                let index = self.ranks.stream(number, ticket);
                if self.streams.len() <= index {
                    let all = self.ranks.first_stream(number) + self.ranks.count() as usize;
                    self.streams.resize_with(all, Stream::default);
                }
                self.streams[index].waiting.push_back(ticket);
                runs = Some((index, occurrence % self.workload.trace.ops.len() as u64));
            }
            Work::Copy { object, bytes, from, to } => {
                let made = self.way(ticket, object, (from, to), bytes);
                if self.ranks.is_first(ticket) {
                    for (channel, bytes) in made.transit.carries() {
                        self.meters.planned[self.ranks.kind(channel)] += bytes;
                    }
                }
                self.wait_at_gate(ticket, &made);
                progress = Some(made.into());
            }
            Work::Compact { tier, bytes, .. } if !self.placed_elsewhere => {
                if self.ranks.is_first(ticket) {
                    self.meters.planned[2 * self.links + tier.index()] += bytes;
                }
                let made = self.way_within(ticket, tier, bytes);
                self.wait_at_gate(ticket, &made);
                progress = Some(made.into());
            }
            Work::Compact { .. } | Work::Release => {}
        }
        if self.entries.add(command, runs, progress) == 0 {
            self.ready(ticket, None)?;
            self.entries.forget_ended();
        }
        Ok(())
    }

    fn check(
        &mut self,
        rule: impl FnOnce(&mut Audit, Time) -> Result<(), Breach>,
    ) -> Result<(), Fault> {
        let Some(audit) = &mut self.audit else { return Ok(()) };
        let events = self.engine.events();
        rule(audit, self.engine.now()).map_err(|breach| Fault::Audit { events, breach })
    }
}

impl Machine for SimMachine<'_> {
    type Fault = Fault;

    fn submit(&mut self, command: Command) -> Result<(), Fault> {
        if self.ranks.count() == 1 {
            return self.take(Held::Alone(command.into()));
        }
        self.ranks.submitted(command.ticket);
        let of = |ranks: &Ranks, rank| Held::Alone(ranks.of(&command, rank).into());
        (0..self.ranks.count()).try_for_each(|rank| self.take(of(&self.ranks, rank)))
    }

    fn submit_again(&mut self, plan: &Arc<[Command]>, which: Range<usize>) -> Result<(), Fault> {
        if self.ranks.count() > 1 {
            return plan[which].iter().try_for_each(|command| self.submit(command.clone()));
        }
        let known = self.plan.take().filter(|known| Arc::ptr_eq(known, plan));
        let plan = self.plan.insert(known.unwrap_or_else(|| plan.clone().into())).clone();
        which.into_iter().try_for_each(|at| self.take(Held::Planned(plan.clone(), at as u32)))
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Fault> {
        loop {
            if let Some((at, ticket, path)) = self.ended.pop_front() {
                self.paths.tell(path);
                return Ok(Some((at, ticket)));
            }
            self.paths.told();
            self.retime()?;
            if let Some(processors) = &mut self.processors {
                processors.time.retime(&mut self.engine, Event::Worked);
            }
            match self.engine.next() {
                Some((_, Event::Op(ticket))) => self.computed(ticket)?,
                Some((_, Event::Copied { channel, piece })) => {
                    self.copied(usize::from(channel), piece)?
                }
                Some((_, Event::Flows(flight))) => self.flow(flight)?,
                Some((_, Event::Landed)) => self.landed()?,
                Some((_, Event::Uses(op))) => self.use_flows(op)?,
                Some((_, Event::Released(stream))) => self.try_stream(stream as usize, None)?,
                Some((_, Event::Exchange(op))) => self.exchange(op)?,
                Some((_, Event::Launched { op, work })) => self.launched(op, work)?,
                Some((_, Event::Worked)) => self.worked()?,
                Some((_, Event::Issued(copy))) => self.issued(copy)?,
                Some((_, Event::Passed(copy))) => self.finish(copy)?,
                None if self.entries.is_empty() => {
                    self.check(|audit, now| audit.idle(now))?;
                    return Ok(None);
                }
                None => {
                    let (events, waiting) = (self.engine.events(), self.entries.len());
                    return Err(Fault::Stuck { events, waiting });
                }
            }
        }
    }
}
