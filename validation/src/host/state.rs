//! What all threads of a host machine share: commands under way, queues, what has ended.
//!
//! Each compute stream and each lane is a queue in the order of submission whose head blocks those
//! behind it, like a CUDA stream. A copy over several lanes goes in chunks, at most [`BOUNCE`] of
//! its own between two lanes: the same rules as in the simulator, with real time.
//! Invariant: an edge is an indegree. A command's end is listed before any command that waited for
//! it can start, so ends are heard in an order that could have been.

use crate::fault::Fault;
use crate::host::pace::OpPlan;
use crate::host::room::Buffer;
use crate::real::{CopyRun, OpRun};
use crate::truth::{Mismatch, Truth};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Ticket, Work};
use tiersim_policies::transit::{BOUNCE, Transit};

/// A command under way.
pub(crate) struct Entry {
    pub(crate) command: Arc<Command>,
    /// Version of each touched object, or of a copy's object, that it must meet.
    pub(crate) versions: Vec<u64>,
    /// What an op is to do.
    pub(crate) plan: OpPlan,
    indegree: u32,
    waiters: Vec<Ticket>,
    progress: Option<Progress>,
}

/// Part of a copy on one of its lanes.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) hop: usize,
    pub(crate) last_hop: bool,
    pub(crate) number: u32,
    pub(crate) last: bool,
    pub(crate) from: u64,
    pub(crate) bytes: Bytes,
    /// Buffers before and after this lane; none at the copy's ends.
    pub(crate) source: Option<Bounce>,
    pub(crate) target: Option<Bounce>,
}

/// Buffers between two lanes of one copy.
pub(crate) type Bounce = Arc<[Mutex<Buffer>]>;

struct Progress {
    transit: Transit,
    bounces: Vec<Bounce>,
    /// When it could start, and when it did.
    ready: Time,
    start: Option<Time>,
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) waiting: VecDeque<Ticket>,
    running: bool,
    /// The head may start, since then.
    pub(crate) ready: Option<Time>,
}

#[derive(Default)]
pub(crate) struct LaneQueue {
    gate: VecDeque<Ticket>,
    pub(crate) ready: VecDeque<Piece>,
    pub(crate) moved: Bytes,
}

/// The shared state, under one lock.
pub(crate) struct State {
    pub(crate) entries: BTreeMap<Ticket, Entry>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) lanes: Vec<LaneQueue>,
    pub(crate) ended: VecDeque<(Time, Ticket)>,
    pub(crate) fault: Option<Fault>,
    pub(crate) stop: bool,
    pub(crate) truth: Truth,
    pub(crate) ops: Vec<OpRun>,
    pub(crate) copies: Vec<CopyRun>,
    /// Workers that are at work on an op or a piece.
    pub(crate) at_work: usize,
    /// Ops and pieces that workers have taken so far.
    pub(crate) taken: u64,
    /// Threads to wake. Waking takes longer than anything else between two ops, so whoever adds to
    /// this wakes them after it has let go of the lock; it is part of what a launch costs.
    pub(crate) rings: Vec<Ring>,
    /// Releases that may go; whoever holds the lock carries them out.
    releases: Vec<Ticket>,
}

/// A thread to wake. The order is that of waking: who works before who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ring {
    Lane(usize),
    Stream(usize),
    Main,
}

/// Wakes one thread each.
pub(crate) struct Bells {
    pub(crate) streams: Vec<Condvar>,
    pub(crate) lanes: Vec<Condvar>,
    pub(crate) main: Condvar,
}

impl Bells {
    /// Wakes threads.
    pub(crate) fn ring(&self, mut rings: Vec<Ring>) {
        rings.sort_unstable();
        rings.dedup();
        for ring in rings {
            match ring {
                Ring::Lane(lane) => self.lanes[lane].notify_one(),
                Ring::Stream(stream) => self.streams[stream].notify_one(),
                Ring::Main => self.main.notify_one(),
            }
        }
    }
}

impl State {
    pub(crate) fn new(streams: usize, lanes: usize) -> State {
        State {
            entries: BTreeMap::new(),
            streams: (0..streams).map(|_| Stream::default()).collect(),
            lanes: (0..lanes).map(|_| LaneQueue::default()).collect(),
            ended: VecDeque::new(),
            fault: None,
            stop: false,
            truth: Truth::default(),
            ops: Vec::new(),
            copies: Vec::new(),
            at_work: 0,
            taken: 0,
            rings: Vec::new(),
            releases: Vec::new(),
        }
    }

    /// Takes a command in; `route` are the lanes of a copy.
    pub(crate) fn add(
        &mut self,
        command: Command,
        versions: Vec<u64>,
        plan: OpPlan,
        route: &[usize],
        chunk: Bytes,
    ) -> Ticket {
        let ticket = command.ticket;
        let mut indegree = 0;
        for edge in &command.after {
            if let Some(before) = self.entries.get_mut(&edge.ticket) {
                before.waiters.push(ticket);
                indegree += 1;
            }
        }
        let mut progress = None;
        match command.work {
            Work::Compute { stream, .. } => {
                self.streams[usize::from(stream)].waiting.push_back(ticket);
            }
            Work::Copy { bytes, .. } => {
                progress = Some(Progress::new(bytes, chunk, route));
                self.lanes[route[0]].gate.push_back(ticket);
            }
            // Objects lie where the system put them: nothing has to move.
            Work::Compact { .. } | Work::Release => {}
        }
        let command = Arc::new(command);
        let waiters = Vec::new();
        let entry = Entry { command, versions, plan, indegree, waiters, progress };
        self.entries.insert(ticket, entry);
        ticket
    }

    /// Starts whatever a command can start, if nothing holds it back.
    pub(crate) fn try_start(&mut self, ticket: Ticket, now: Time) {
        let entry = &self.entries[&ticket];
        if entry.indegree > 0 {
            return;
        }
        match (&entry.command.work, &entry.progress) {
            (&Work::Compute { stream, .. }, _) => self.try_stream(usize::from(stream), now),
            (_, Some(progress)) => self.try_gate(progress.transit.lane(0), now),
            (_, None) => self.releases.push(ticket),
        }
    }

    fn try_stream(&mut self, stream: usize, now: Time) {
        let queue = &mut self.streams[stream];
        let Some(head) = queue.waiting.front() else { return };
        if !queue.running && queue.ready.is_none() && self.entries[head].indegree == 0 {
            queue.ready = Some(now);
            self.rings.push(Ring::Stream(stream));
        }
    }

    fn try_gate(&mut self, lane: usize, now: Time) {
        while let Some(&ticket) = self.lanes[lane].gate.front() {
            let entry = self.entries.get_mut(&ticket).expect("the copy is under way");
            if entry.indegree > 0 {
                break;
            }
            entry.progress.as_mut().expect("a copy has a route").ready = now;
            self.lanes[lane].gate.pop_front();
            self.offer(ticket, 0);
        }
    }

    /// Puts the next piece of a copy into the queue of one of its lanes, if it may go there.
    fn offer(&mut self, ticket: Ticket, hop: usize) {
        let entry = self.entries.get_mut(&ticket).expect("the copy is under way");
        let progress = entry.progress.as_mut().expect("a copy has a route");
        let Some(piece) = progress.next_piece(ticket, hop) else { return };
        let lane = progress.transit.lane(hop);
        self.lanes[lane].ready.push_back(piece);
        self.rings.push(Ring::Lane(lane));
    }

    /// Takes the head of a stream, which may start.
    pub(crate) fn take_op(&mut self, stream: usize) -> Option<(Ticket, Time)> {
        let queue = &mut self.streams[stream];
        let ready = queue.ready.take()?;
        queue.running = true;
        self.at_work += 1;
        self.taken += 1;
        Some((queue.waiting.pop_front().expect("the head is ready"), ready))
    }

    /// Takes the next piece that a lane may copy.
    pub(crate) fn take_piece(&mut self, lane: usize) -> Option<Piece> {
        let piece = self.lanes[lane].ready.pop_front()?;
        self.at_work += 1;
        self.taken += 1;
        Some(piece)
    }

    /// An op has ended on its stream.
    pub(crate) fn op_ended(&mut self, ticket: Ticket, run: OpRun) -> Vec<Ticket> {
        let Work::Compute { stream, .. } = self.entries[&ticket].command.work else {
            unreachable!("streams run ops only")
        };
        self.at_work -= 1;
        self.ops.push(run);
        self.streams[usize::from(stream)].running = false;
        let releases = self.finish(ticket, run.end);
        self.try_stream(usize::from(stream), run.end);
        releases
    }

    /// A lane has copied a piece. Returns releases that may go.
    pub(crate) fn copied(&mut self, piece: &Piece, start: Time, now: Time) -> Vec<Ticket> {
        self.at_work -= 1;
        let entry = self.entries.get_mut(&piece.ticket).expect("the copy is under way");
        let progress = entry.progress.as_mut().expect("a copy has a route");
        let start = *progress.start.get_or_insert(start);
        let offers = progress.transit.copied(piece.hop);
        self.lanes[progress.transit.lane(piece.hop)].moved += piece.bytes;
        let Some(hops) = offers else {
            let (ticket, ready) = (piece.ticket, progress.ready);
            let Work::Copy { object, bytes, from, to } = entry.command.work else {
                unreachable!("lanes run copies only")
            };
            self.copies.push(CopyRun { ticket, object, bytes, from, to, ready, start, end: now });
            return self.finish(ticket, now);
        };
        hops.into_iter().for_each(|hop| self.offer(piece.ticket, hop));
        Vec::new()
    }

    /// A command has ended: whoever waited for it may go. Returns releases that may go.
    pub(crate) fn finish(&mut self, ticket: Ticket, now: Time) -> Vec<Ticket> {
        let entry = self.entries.remove(&ticket).expect("a command ends once");
        self.ended.push_back((now, ticket));
        self.rings.push(Ring::Main);
        for waiter in entry.waiters {
            let waiting = self.entries.get_mut(&waiter).expect("a waiter is under way");
            waiting.indegree -= 1;
            self.try_start(waiter, now);
        }
        self.take_releases()
    }

    pub(crate) fn take_releases(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.releases)
    }

    /// Ends the run.
    pub(crate) fn fail(&mut self, fault: Fault, bells: &Bells) {
        self.fault.get_or_insert(fault);
        self.stop(bells);
    }

    /// What to say if nothing has gone on for `waited`: nothing while a worker is at work or an end
    /// is yet to be heard.
    pub(crate) fn stuck(&self, waited: Span) -> Option<Fault> {
        let (first, entry) = self.entries.first_key_value()?;
        if self.at_work > 0 || !self.ended.is_empty() || self.fault.is_some() {
            return None;
        }
        let work = match entry.command.work {
            Work::Compute { .. } => "an op",
            Work::Copy { .. } => "a copy",
            Work::Compact { .. } => "a compaction",
            Work::Release => "a release",
        };
        let waited_ms = waited.ps() / 1_000_000_000;
        Some(Fault::Stuck { waited_ms, under_way: self.entries.len(), first: first.0, work })
    }

    pub(crate) fn stop(&mut self, bells: &Bells) {
        self.stop = true;
        bells.streams.iter().chain(&bells.lanes).chain([&bells.main]).for_each(Condvar::notify_all);
    }

    pub(crate) fn note(&mut self, checks: Vec<Option<Mismatch>>) {
        checks.into_iter().for_each(|check| self.truth.note(check));
    }
}

impl Progress {
    fn new(bytes: Bytes, chunk: Bytes, route: &[usize]) -> Progress {
        // They grow when they are first used, by the thread that uses them.
        let buffers = || (0..BOUNCE).map(|_| Mutex::new(Buffer::new(0))).collect();
        Progress {
            transit: Transit::new(route.iter().copied(), bytes, chunk),
            bounces: route.iter().skip(1).map(|_| buffers()).collect(),
            ready: Time::ZERO,
            start: None,
        }
    }

    fn next_piece(&mut self, ticket: Ticket, hop: usize) -> Option<Piece> {
        let part = self.transit.next(hop)?;
        Some(Piece {
            ticket,
            hop,
            last_hop: self.transit.is_last_hop(hop),
            number: part.number,
            last: self.transit.is_last_piece(&part),
            from: part.from.get(),
            bytes: part.bytes,
            source: hop.checked_sub(1).map(|before| self.bounces[before].clone()),
            target: self.bounces.get(hop).cloned(),
        })
    }
}
