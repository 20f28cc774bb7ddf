//! A machine that has nothing beside its laws, and a plan that was made once: the same times as
//! [`SimMachine`], for a small part of the work.
//!
//! Where one device carries out a plan that others carry out too, every copy crosses one channel
//! that serves one after the other, ops pay for use in place by the laws of tiers alone, and nobody
//! looks at what runs when, most of what a machine looks after for each command cannot happen. What
//! is left is here: streams, channels, edges, and the same sums. A stream and a channel each have at
//! most one end to come, so the next event is the least of few. All commands of a plan are kept, so
//! the path of a step is walked back when the step ends, and not carried along.
//! Invariant: whoever follows a run cannot tell it from one on the whole machine, to the picosecond
//! and the order of what ends at the same moment.

mod digest;
mod path;

use super::watched::Watched;
use super::{Fault, SimMachine};
use crate::durations::Durations;
use crate::machine::channels::{Channel, sent_by};
use crate::machine::meters::Meters;
pub use digest::Digests;
use digest::{Digest, Used, What};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tiersim_models::hardware::Law;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Machine, Ticket};

/// How many ended commands are remembered for stalls, as on the whole machine.
const MEMORY: u32 = super::blame::MEMORY as u32;
/// No command.
const NONE: u32 = u32::MAX;
/// Streams of a plain machine at most: the next event is looked for among all of them.
const MOST_STREAMS: usize = 16;

/// Why a run on a plain machine ends early.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// As on the whole machine.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The plan goes on with what only the whole machine can do.
    #[error("the plan needs more than a plain machine")]
    NotPlain,
}

/// What is known of a command from its submission on.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Edges that are not satisfied yet.
    indegree: u32,
    /// The first and the last of the [edges](Plain::waiters) to those that wait for it.
    waiters: [u32; 2],
    /// What it waited for last.
    blocker: u32,
    /// What led up to where its own part of the path begins.
    before: u32,
    /// Its channel, of a copy.
    channel: u32,
    ended: bool,
    /// When a copy took its place in line.
    offered: Time,
    start: Time,
}

/// An in-order queue of the device.
#[derive(Debug)]
struct Stream {
    waiting: VecDeque<u32>,
    /// The op that runs, and how long it computes.
    running: u32,
    compute: Span,
    idle_since: Time,
}

/// A direction of a link.
#[derive(Debug)]
struct Line {
    law: Law,
    /// Whether copies cross it one after the other, as its law says.
    plain: bool,
    /// Copies in the order of submission that were not let in, and those in line.
    gate: VecDeque<u32>,
    ready: VecDeque<u32>,
    /// Whom it serves, and whose turn ended last.
    served: u32,
    before: u32,
    /// When the copy that it serves came, and its bytes.
    counted: Time,
    bytes: Bytes,
}

/// A stream or a channel is done.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Time,
    /// The order in which events were set.
    order: u64,
    /// A channel, or a stream behind all of these.
    of: usize,
}

/// Part of the plan, and the channel of each of its ways.
#[derive(Debug)]
struct Loaded {
    digest: Arc<Digest>,
    channels: Vec<u32>,
}

/// A machine with nothing beside its laws.
#[derive(Debug)]
pub struct Plain<'a> {
    workload: &'a Workload,
    durations: &'a Durations,
    /// How long each op of the trace takes, if that is the same in every replay.
    spans: Option<&'a [Span]>,
    digests: Arc<Digests>,
    accesses: Vec<Law>,
    routes: &'a Routes,
    /// Whether charges may cross shared links.
    uses_flow: bool,
    now: Time,
    events: u64,
    /// At most one event of each channel and stream.
    due: Vec<Due>,
    order: u64,
    plan: Option<Arc<[Command]>>,
    loaded: Vec<Loaded>,
    cells: Vec<Cell>,
    /// By edge that was open: who waits, and the next edge to the same command.
    waiters: Vec<[u32; 2]>,
    streams: Vec<Stream>,
    lines: Vec<Line>,
    /// Commands that have ended of which the plan has not heard; of ops, which of the run.
    ended: VecDeque<(u32, Option<u64>)>,
    open: usize,
    /// One behind the newest that has ended.
    newest: u32,
    /// What ended last on a path, and of what the plan has heard last.
    last: u32,
    told: u32,
    /// When the last step ended.
    since: Time,
    meters: Meters,
}

impl<'a> SimMachine<'a> {
    /// The same machine for this plan, before the first command; `None` if it has more than its
    /// laws, or the plan asks for more.
    pub fn plain(
        &self,
        plan: &Arc<[Command]>,
        (routes, digests): (&'a Routes, Arc<Digests>),
    ) -> Option<Plain<'a>> {
        let SimMachine { workload, durations, ref accesses, ref loads, chunk: _, .. } = *self;
        let SimMachine { routes: _, engine, entries, plan: _, ranks, streams, channels, .. } = self;
        let SimMachine { links: _, sharing: _, uses, collectives: _, processors: _, .. } = self;
        let SimMachine { threads: _, framework, seed: _, placed_elsewhere, storing, .. } = self;
        let SimMachine { ended, meters, blame: _, paths, audit, timeline, .. } = self;
        let watched = audit.is_some() || timeline.is_some() || paths.trail.is_some();
        let alone = ranks.count() == 1 && framework.is_none() && storing.is_none();
        let begun = engine.events() > 0 || !entries.is_empty() || !streams.is_empty();
        // Ops of other processors and collectives are noticed in the plan.
        if watched || !alone || begun || loads.is_some() || *placed_elsewhere || !ended.is_empty() {
            return None;
        }
        let mut plain = Plain {
            workload,
            durations,
            spans: durations.of_every_replay_of(&workload.trace),
            digests,
            accesses: accesses.clone(),
            routes,
            uses_flow: uses.is_some(),
            now: Time::ZERO,
            events: 0,
            due: Vec::new(),
            order: 0,
            plan: None,
            loaded: Vec::new(),
            cells: Vec::new(),
            waiters: Vec::new(),
            streams: Vec::new(),
            lines: channels.iter().map(Line::of).collect(),
            ended: VecDeque::new(),
            open: 0,
            newest: 0,
            last: NONE,
            told: NONE,
            since: Time::ZERO,
            meters: meters.clone(),
        };
        plain.load(plan).ok()?;
        Some(plain)
    }
}

impl Stream {
    fn new() -> Stream {
        Stream {
            waiting: VecDeque::new(),
            running: NONE,
            compute: Span::ZERO,
            idle_since: Time::ZERO,
        }
    }
}

impl Line {
    fn of(channel: &Channel) -> Line {
        let Channel { law, peculiar, shared, at_once, .. } = channel;
        Line {
            law: *law,
            plain: peculiar.is_none() && !shared && *at_once == 1,
            gate: VecDeque::new(),
            ready: VecDeque::new(),
            served: NONE,
            before: NONE,
            counted: Time::ZERO,
            bytes: Bytes::ZERO,
        }
    }
}

impl Plain<'_> {
    /// Makes the next part of the plan ready.
    fn load(&mut self, plan: &Arc<[Command]>) -> Result<(), Ended> {
        let digest = self.digests.of(plan, self.workload).ok_or(Ended::NotPlain)?;
        let channel = |&(from, to): &(TierId, TierId)| {
            let mut hops = self.routes.hops(from, to);
            let (Some([channel]), None) = (hops.next(), hops.next()) else { return None };
            let channel = channel.index();
            self.lines[channel].plain.then_some(channel as u32)
        };
        let channels: Option<Vec<u32>> = digest.ways.iter().map(channel).collect();
        let channels = channels.ok_or(Ended::NotPlain)?;
        // Then copies of one pair of tiers would take turns with those of another.
        let mut sorted = channels.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let flows = self.uses_flow && digest.charges_any();
        if flows || sorted.len() < channels.len() {
            return Err(Ended::NotPlain);
        }
        assert_eq!(digest.first as usize, self.planned(), "parts follow each other");
        self.plan = Some(plan.clone());
        self.loaded.push(Loaded { digest, channels });
        Ok(())
    }

    /// Commands of all parts of the plan that are ready.
    fn planned(&self) -> usize {
        self.loaded.last().map_or(0, |last| last.digest.first as usize + last.digest.len())
    }

    /// The part of the plan with a command, and its place there.
    #[inline]
    fn part(&self, ticket: u32) -> (usize, usize) {
        let mut part = self.loaded.len() - 1;
        while self.loaded[part].digest.first > ticket {
            part -= 1;
        }
        (part, (ticket - self.loaded[part].digest.first) as usize)
    }

    /// Takes the command that comes next.
    fn take(&mut self) -> Result<(), Ended> {
        let ticket = self.cells.len() as u32;
        let (part, at) = self.part(ticket);
        let Loaded { digest, channels } = &self.loaded[part];
        let mut cell = Cell {
            indegree: 0,
            waiters: [NONE; 2],
            blocker: NONE,
            before: NONE,
            channel: NONE,
            ended: false,
            offered: Time::ZERO,
            start: Time::ZERO,
        };
        match digest.step(at).what {
            What::Op { stream, .. } => {
                let stream = usize::from(stream);
                if self.streams.len() <= stream {
                    if stream >= MOST_STREAMS {
                        return Err(Ended::NotPlain);
                    }
                    self.streams.resize_with(stream + 1, Stream::new);
                }
                self.streams[stream].waiting.push_back(ticket);
            }
            What::Copy { way, bytes } => {
                cell.channel = channels[way as usize];
                self.meters.planned[cell.channel as usize] += bytes;
                self.lines[cell.channel as usize].gate.push_back(ticket);
            }
            What::Release => {}
        }
        for &on in digest.edges(at) {
            let on = &mut self.cells[on as usize];
            if on.ended {
                continue;
            }
            let edge = self.waiters.len() as u32;
            self.waiters.push([ticket, NONE]);
            match on.waiters[1] {
                NONE => on.waiters[0] = edge,
                last => self.waiters[last as usize][1] = edge,
            }
            on.waiters[1] = edge;
            cell.indegree += 1;
        }
        self.open += 1;
        self.cells.push(cell);
        if cell.indegree == 0 {
            self.ready(ticket, NONE);
        }
        Ok(())
    }

    /// All edges of a command are satisfied.
    #[inline]
    fn ready(&mut self, ticket: u32, cause: u32) {
        let (part, at) = self.part(ticket);
        match self.loaded[part].digest.step(at).what {
            What::Op { stream, .. } => self.try_stream(usize::from(stream), cause),
            What::Copy { .. } => {
                self.try_gate(self.cells[ticket as usize].channel as usize, cause);
            }
            What::Release => {
                self.begin(ticket, cause, (part, at));
                self.finish(ticket, (part, at));
            }
        }
    }

    /// Starts the op at the head of a stream, if it may.
    fn try_stream(&mut self, index: usize, cause: u32) {
        let stream = &mut self.streams[index];
        let Some(&ticket) = stream.waiting.front() else { return };
        if stream.running != NONE || self.cells[ticket as usize].indegree > 0 {
            return;
        }
        stream.waiting.pop_front();
        stream.running = ticket;
        let idle_since = stream.idle_since;
        self.cells[ticket as usize].before = self.last;
        self.charge(idle_since, cause);
        self.meters.op_starts(self.now);
        let (part, at) = self.part(ticket);
        self.begin(ticket, cause, (part, at));
        let digest = &self.loaded[part].digest;
        let step = digest.step(at);
        let What::Op { occurrence, .. } = step.what else { unreachable!("streams run ops") };
        let compute = self.computes(occurrence, step.op);
        let mut span = compute + step.delay;
        for &(tier, bytes) in digest.charges(at) {
            span += self.accesses[tier.index()].span_of(bytes);
        }
        self.streams[index].compute = compute;
        self.comes(self.lines.len() + index, span);
    }

    /// The event of a channel or a stream comes after so long.
    fn comes(&mut self, at: usize, after: Span) {
        self.due.push(Due { at: self.now + after, order: self.order, of: at });
        self.order += 1;
    }

    /// How long an op computes, which is this one of the trace.
    #[inline]
    fn computes(&self, occurrence: u64, op: u32) -> Span {
        match self.spans {
            Some(spans) => spans[op as usize],
            None => self.durations.of(occurrence),
        }
    }

    /// Lets the copies whose turn it is into a channel, in the order of submission.
    fn try_gate(&mut self, channel: usize, cause: u32) {
        while let Some(&ticket) = self.lines[channel].gate.front() {
            let cell = &mut self.cells[ticket as usize];
            if cell.indegree > 0 {
                break;
            }
            (cell.offered, cell.blocker, cell.before) = (self.now, cause, self.last);
            let line = &mut self.lines[channel];
            line.gate.pop_front();
            line.ready.push_back(ticket);
            self.serve(channel);
        }
    }

    /// Starts the next copy of a channel, if there is one and it is free.
    fn serve(&mut self, channel: usize) {
        let line = &mut self.lines[channel];
        if line.served != NONE {
            return;
        }
        let Some(ticket) = line.ready.pop_front() else { return };
        (line.served, line.counted) = (ticket, self.now);
        let Cell { offered, blocker, .. } = self.cells[ticket as usize];
        // It waited for the channel if it could have begun earlier.
        let cause = if offered < self.now { line.before } else { blocker };
        let (part, at) = self.part(ticket);
        let What::Copy { bytes, .. } = self.loaded[part].digest.step(at).what else {
            unreachable!("channels copy")
        };
        let line = &mut self.lines[channel];
        line.bytes = bytes;
        let span = line.law.span_of(bytes);
        self.begin(ticket, cause, (part, at));
        self.comes(channel, span);
    }

    /// A command starts: it takes its room.
    #[inline]
    fn begin(&mut self, ticket: u32, cause: u32, (part, at): (usize, usize)) {
        let cell = &mut self.cells[ticket as usize];
        (cell.start, cell.blocker) = (self.now, cause);
        for &(tier, bytes) in self.loaded[part].digest.takes(at) {
            self.meters.takes(tier, bytes);
        }
    }

    /// A copy has crossed its channel.
    fn copied(&mut self, channel: usize) {
        let line = &mut self.lines[channel];
        let (ticket, bytes) = (std::mem::replace(&mut line.served, NONE), line.bytes);
        line.before = ticket;
        self.meters.busy[channel] += self.now.since(line.counted);
        self.meters.moved[channel] += bytes;
        self.meters.copied[channel] += bytes;
        self.last = ticket;
        self.finish(ticket, self.part(ticket));
        self.serve(channel);
    }

    /// A command ends: it gives room back, and whoever waited for it may go.
    fn finish(&mut self, ticket: u32, (part, at): (usize, usize)) {
        let now = self.now;
        let digest = &self.loaded[part].digest;
        let step = digest.step(at);
        let cell = &mut self.cells[ticket as usize];
        cell.ended = true;
        let (mut stream, mut op) = (None, None);
        match step.what {
            What::Op { occurrence, stream: own, .. } => {
                self.meters.compute += self.streams[usize::from(own)].compute;
                self.meters.delay += step.delay;
                self.meters.op_stops(now);
                for &Used { tier, read, written } in digest.used(at) {
                    self.meters.read[tier] += read;
                    self.meters.written[tier] += written;
                }
                for &(tier, bytes) in digest.charges(at) {
                    let tier = tier.index();
                    self.meters.in_place[tier] += self.accesses[tier].span_of(bytes);
                }
                self.last = ticket;
                (stream, op) = (Some(usize::from(own)), Some(occurrence));
            }
            What::Copy { .. } => {
                let channel = cell.channel as usize;
                self.meters.transfers[channel] += 1;
                self.meters.transfer_time[channel] += now.since(cell.start);
            }
            What::Release => {}
        }
        for &(tier, bytes) in digest.gives(at) {
            self.meters.gives(tier, bytes);
        }
        self.newest = self.newest.max(ticket + 1);
        self.ended.push_back((ticket, op));
        self.open -= 1;
        if let Some(stream) = stream {
            let stream = &mut self.streams[stream];
            (stream.running, stream.idle_since) = (NONE, now);
        }
        let mut edge = cell.waiters[0];
        while edge != NONE {
            let [waiter, next] = self.waiters[edge as usize];
            let indegree = &mut self.cells[waiter as usize].indegree;
            *indegree -= 1;
            if *indegree == 0 {
                self.ready(waiter, ticket);
            }
            edge = next;
        }
        if let Some(stream) = stream {
            self.try_stream(stream, ticket);
        }
    }

    /// Charges the time in which a stream stood still to the channels that caused it.
    fn charge(&mut self, idle_since: Time, mut cause: u32) {
        let oldest = self.newest.saturating_sub(MEMORY);
        let mut until = self.now;
        while until > idle_since && cause != NONE && cause >= oldest {
            let cell = &self.cells[cause as usize];
            if !cell.ended {
                break;
            }
            let from = cell.start.max(idle_since).min(until);
            if cell.channel != NONE {
                self.meters.stall[cell.channel as usize] += until.since(from);
            }
            (until, cause) = (from, cell.blocker);
        }
    }
}

impl Machine for Plain<'_> {
    type Fault = Ended;

    fn submit(&mut self, _: Command) -> Result<(), Ended> {
        Err(Ended::NotPlain)
    }

    fn submit_again(&mut self, plan: &Arc<[Command]>, which: Range<usize>) -> Result<(), Ended> {
        if !self.plan.as_ref().is_some_and(|known| Arc::ptr_eq(known, plan)) {
            self.load(plan)?;
        }
        which.into_iter().try_for_each(|_| self.take())
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Ended> {
        Ok(self.next_end()?.map(|(ticket, _)| (self.now, Ticket(ticket))))
    }
}

impl Plain<'_> {
    /// Waits for the next op to end: which of the run, and when; `None` when none is under way.
    pub(crate) fn next_op(&mut self) -> Result<Option<(Time, u64)>, Ended> {
        while let Some((_, op)) = self.next_end()? {
            if let Some(occurrence) = op {
                return Ok(Some((self.now, occurrence)));
            }
        }
        Ok(None)
    }

    /// The event that comes next, and its place.
    #[inline]
    fn next_due(&self) -> Option<(usize, Due)> {
        let (mut place, mut first) = (0, *self.due.first()?);
        for (other, &due) in self.due.iter().enumerate().skip(1) {
            if due.at < first.at || (due.at == first.at && due.order < first.order) {
                (place, first) = (other, due);
            }
        }
        Some((place, first))
    }

    /// Waits for the next command to end, and which of the run it is if it is an op.
    fn next_end(&mut self) -> Result<Option<(u32, Option<u64>)>, Ended> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                self.told = ended.0;
                return Ok(Some(ended));
            }
            let Some((place, Due { at, of, .. })) = self.next_due() else {
                let (events, waiting) = (self.events, self.open);
                return match waiting {
                    0 => Ok(None),
                    _ => Err(Fault::Stuck { events, waiting }.into()),
                };
            };
            self.due.swap_remove(place);
            self.now = at;
            self.events += 1;
            match of.checked_sub(self.lines.len()) {
                None => self.copied(of),
                Some(stream) => {
                    let ticket = self.streams[stream].running;
                    self.finish(ticket, self.part(ticket));
                }
            }
        }
    }
}

impl Watched for Plain<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn meters(&self) -> &Meters {
        &self.meters
    }

    fn so_far(&self) -> Meters {
        let mut all = self.meters.clone();
        for (channel, line) in self.lines.iter().enumerate() {
            if line.served == NONE {
                continue;
            }
            let passed = self.now.since(line.counted);
            let gone = sent_by(line.law, line.law.setup, passed).min(line.bytes);
            all.busy[channel] += passed;
            all.moved[channel] += gone;
            all.copied[channel] += gone;
        }
        all
    }

    fn step_ended(&mut self) {
        self.counts_step();
    }

    fn peak_since(&mut self) -> Bytes {
        let now = self.meters.used[0];
        std::mem::replace(&mut self.meters.peak_since, now)
    }
}
