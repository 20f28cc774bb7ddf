//! A machine that has nothing beside its laws: the same times as [`SimMachine`], for a small part of
//! the work.
//!
//! Where one device carries out a short plan, every copy crosses one channel that serves one after
//! the other, ops pay for use in place by the laws of tiers alone, and nobody audits the run or
//! walks its path, most of what a machine looks after for each command cannot happen. What is left
//! is here: streams, channels, edges, and the same sums. A stream and a channel each have at most
//! one end to come, so the next event is the least of few. All commands of a plan are kept, so the
//! path of a step is walked back when the step ends, and not carried along. What a plan comes to is
//! made once where others carry it out too.
//! Invariant: whoever follows a run cannot tell it from one on the whole machine, to the picosecond
//! and the order of what ends at the same moment.

mod digest;
mod path;
mod run;

use super::watched::Watched;
use super::{Fault, SimMachine, timeline};
use crate::durations::Durations;
use crate::machine::channels::{Channel, sent_by};
use crate::machine::meters::Meters;
use digest::Digest;
pub use digest::Digests;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tiersim_models::hardware::Law;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::results::Timeline;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Machine, Ticket};

/// How many ended commands are remembered for stalls, as on the whole machine.
const MEMORY: u32 = super::blame::MEMORY as u32;
/// No command.
const NONE: u32 = u32::MAX;
/// Ops of a run for which a plain machine is tried at most, and commands that it keeps at most, some
/// 300 bytes each.
pub const MOST_OPS: u64 = 1 << 16;
const MOST_COMMANDS: usize = 1 << 18;
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
    /// The tiers between which its copies go, once there are some.
    way: Option<(TierId, TierId)>,
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
    timeline: Option<Box<Timeline>>,
}

impl<'a> SimMachine<'a> {
    /// The same machine for a plan of some `commands`, before the first of them; `None` if it has more
    /// than its laws. What plans that others carry out too come to is kept in `digests`.
    pub fn plain(
        &self,
        commands: usize,
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
        Some(Plain {
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
            cells: Vec::with_capacity(commands),
            waiters: Vec::with_capacity(2 * commands),
            streams: Vec::new(),
            lines: channels.iter().map(Line::of).collect(),
            ended: VecDeque::new(),
            open: 0,
            newest: 0,
            last: NONE,
            told: NONE,
            since: Time::ZERO,
            meters: meters.clone(),
            timeline: None,
        })
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
            way: None,
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
    /// Makes the next part of a plan ready that others carry out too.
    fn load(&mut self, plan: &Arc<[Command]>) -> Result<(), Ended> {
        let digest = self.digests.of(plan, self.workload).ok_or(Ended::NotPlain)?;
        assert_eq!(digest.first as usize, self.planned(), "parts follow each other");
        self.plan = Some(plan.clone());
        self.loaded.push(Loaded { digest, channels: Vec::new() });
        self.find_channels()
    }

    /// The next command of a plan that nobody else has.
    fn add(&mut self, command: &Command) -> Result<(), Ended> {
        if self.loaded.is_empty() {
            let digest = Digest::new(command.ticket.0, self.cells.capacity());
            let digest = Arc::new(digest);
            self.loaded.push(Loaded { digest, channels: Vec::new() });
        }
        if self.cells.len() == MOST_COMMANDS {
            return Err(Ended::NotPlain);
        }
        let digest = &mut self.loaded.last_mut().expect("it is there").digest;
        let own = Arc::get_mut(digest).expect("a plan is one's own from its first command on");
        own.push(command, self.workload).ok_or(Ended::NotPlain)?;
        self.find_channels()
    }

    /// The channels of ways that have come up in the last part of the plan.
    #[inline]
    fn find_channels(&mut self) -> Result<(), Ended> {
        let Loaded { digest, channels } = self.loaded.last_mut().expect("a part is ready");
        if self.uses_flow && digest.charges_any() {
            return Err(Ended::NotPlain);
        }
        for &(from, to) in &digest.ways[channels.len()..] {
            let mut hops = self.routes.hops(from, to);
            let (Some([channel]), None) = (hops.next(), hops.next()) else {
                return Err(Ended::NotPlain);
            };
            let line = &mut self.lines[channel.index()];
            // Copies of one pair of tiers would take turns with those of another.
            if !line.plain || *line.way.get_or_insert((from, to)) != (from, to) {
                return Err(Ended::NotPlain);
            }
            channels.push(channel.index() as u32);
        }
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
}

impl Machine for Plain<'_> {
    type Fault = Ended;

    fn submit(&mut self, command: Command) -> Result<(), Ended> {
        self.add(&command)?;
        self.take()
    }

    fn submit_all(&mut self, commands: &mut Vec<Command>) -> Result<(), Ended> {
        for command in commands.iter() {
            self.add(command)?;
            self.take()?;
        }
        commands.clear();
        Ok(())
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

    fn record_timeline(&mut self) {
        self.timeline = Some(timeline::begins(self.now, &self.meters));
    }

    fn take_timeline(&mut self) -> Timeline {
        self.timeline.take().map_or_else(Timeline::default, |timeline| *timeline)
    }
}
