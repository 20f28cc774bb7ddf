//! What all threads of a host machine share: commands under way, queues, what has ended.
//!
//! Each channel and each compute stream is a queue in the order of submission whose head blocks
//! those behind it, like a CUDA stream, and has a thread. A copy over several channels goes in
//! chunks, at most [`BOUNCE`] of its own between two channels: the rules are the simulator's, the
//! time is real.
//! Invariant: an edge is an indegree. A command's end is listed before any command that waited for
//! it can start, so ends are heard in an order that could have been.

use crate::book::{self, Book};
use crate::contents::ObjectContents;
use crate::fault::Fault;
use crate::host::pace::OpPlan;
use crate::host::room::Buffer;
use crate::real::OpRun;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Ticket, Work};
use tiersim_policies::transit::{BOUNCE, HopPiece, Transit};

/// A command under way.
pub(crate) type Entry = book::Entry<Own>;

/// What only this machine knows of a command.
pub(crate) struct Own {
    /// What an op is to do.
    pub(crate) plan: OpPlan,
    /// Buffers between the channels of a copy.
    bounces: Vec<Bounce>,
}

/// Part of a copy on one of its channels.
pub(crate) struct Piece {
    pub(crate) part: HopPiece,
    /// Whether the copy ends with it.
    pub(crate) ends: bool,
    /// Buffers before and after this channel; none at the copy's ends.
    pub(crate) source: Option<Bounce>,
    pub(crate) target: Option<Bounce>,
}

/// Buffers between two channels of one copy.
pub(crate) type Bounce = Arc<[Mutex<Buffer>]>;

/// What a thread is to do: an op, or a piece of a copy.
pub(crate) struct Job {
    pub(crate) ticket: Ticket,
    pub(crate) piece: Option<Piece>,
}

/// What a thread works off.
#[derive(Default)]
pub(crate) struct Queue {
    /// Commands that have not started.
    waiting: VecDeque<Ticket>,
    jobs: VecDeque<Job>,
    /// An op is offered or under way, which keeps the next one waiting.
    busy: bool,
    /// Bytes copied.
    pub(crate) moved: Bytes,
}

/// The shared state, under one lock.
pub(crate) struct State {
    pub(crate) book: Book<Own>,
    /// Those of channels, then those of streams.
    pub(crate) queues: Vec<Queue>,
    channels: usize,
    pub(crate) fault: Option<Fault>,
    pub(crate) stop: bool,
    /// Workers that are at work on an op or a piece.
    pub(crate) at_work: usize,
    /// Ops and pieces that workers have taken so far.
    pub(crate) taken: u64,
    /// Threads to wake, by their queues; the one behind them is the thread that plans. Waking takes
    /// longer than anything else between two ops, so whoever adds to this wakes them after it has
    /// let go of the lock; it is part of what a launch costs.
    pub(crate) rings: Vec<usize>,
    /// Releases that may go; whoever holds the lock carries them out.
    releases: Vec<Ticket>,
}

impl State {
    pub(crate) fn new(streams: usize, channels: usize) -> State {
        State {
            book: Book::new(),
            queues: (0..channels + streams).map(|_| Queue::default()).collect(),
            channels,
            fault: None,
            stop: false,
            at_work: 0,
            taken: 0,
            rings: Vec::new(),
            releases: Vec::new(),
        }
    }

    /// Takes a command in, with the way of a copy and how many times it is stored in between.
    pub(crate) fn add(
        &mut self,
        command: Command,
        met: Vec<ObjectContents>,
        plan: OpPlan,
        (transit, between): (Option<Transit>, usize),
    ) {
        // They grow when they are first used, by the thread that uses them.
        let buffers = |_| (0..BOUNCE).map(|_| Mutex::new(Buffer::new(0))).collect();
        let own = Own { plan, bounces: (0..between).map(buffers).collect() };
        let mut entry = Entry::new(command, met, Time::ZERO, own);
        let command = entry.command.clone();
        self.book.wait_for(&mut entry, command.after.iter().map(|edge| edge.ticket));
        entry.transit = transit;
        if let Some(queue) = self.queue_of(&entry) {
            self.queues[queue].waiting.push_back(command.ticket);
        }
        self.book.add(entry);
    }

    /// The queue of an op, and the first of a copy. Nothing else has one: objects lie where the
    /// system put them, so that nothing has to move to compact them.
    fn queue_of(&self, entry: &Entry) -> Option<usize> {
        match entry.command.work {
            Work::Compute { stream, .. } => Some(self.channels + usize::from(stream)),
            _ => entry.transit.as_ref().map(|transit| transit.channel(0)),
        }
    }

    /// Starts whatever can start, if nothing holds it back. Returns releases that may go.
    pub(crate) fn start_due(&mut self, now: Time) -> Vec<Ticket> {
        for ticket in std::mem::take(&mut self.book.due) {
            let entry = self.book.entry(ticket);
            match self.queue_of(entry) {
                _ if entry.unended > 0 => {}
                Some(queue) => self.try_queue(queue, now),
                None => self.releases.push(ticket),
            }
        }
        std::mem::take(&mut self.releases)
    }

    fn try_queue(&mut self, queue: usize, now: Time) {
        while let Some(&ticket) = self.queues[queue].waiting.front() {
            let entry = self.book.entry_mut(ticket);
            if self.queues[queue].busy || entry.unended > 0 {
                break;
            }
            entry.ready = now;
            let is_copy = entry.transit.is_some();
            self.queues[queue].waiting.pop_front();
            if is_copy {
                self.offer(ticket, 0);
            } else {
                self.queues[queue].busy = true;
                self.push(queue, Job { ticket, piece: None });
            }
        }
    }

    /// Puts the next piece of a copy into the queue of one of its channels, if it may go there.
    fn offer(&mut self, ticket: Ticket, hop: usize) {
        let entry = self.book.entry_mut(ticket);
        let Some(part) = entry.transit().next(hop) else { return };
        let bounces = &entry.own.bounces;
        let source = hop.checked_sub(1).map(|before| bounces[before].clone());
        let target = bounces.get(hop).cloned();
        let transit = entry.transit();
        let (channel, last_hop) = (transit.channel(hop), transit.is_last_hop(hop));
        let ends = last_hop && transit.is_last_piece(&part);
        self.push(channel, Job { ticket, piece: Some(Piece { part, ends, source, target }) });
    }

    fn push(&mut self, queue: usize, job: Job) {
        self.queues[queue].jobs.push_back(job);
        self.rings.push(queue);
    }

    /// Takes what a thread is to do next.
    pub(crate) fn take(&mut self, queue: usize) -> Option<Job> {
        let job = self.queues[queue].jobs.pop_front()?;
        self.at_work += 1;
        self.taken += 1;
        Some(job)
    }

    /// A thread has done what it took. Returns releases that may go.
    pub(crate) fn done(
        &mut self,
        queue: usize,
        job: &Job,
        (start, end): (Time, Time),
    ) -> Vec<Ticket> {
        self.at_work -= 1;
        let ticket = job.ticket;
        if let Some(piece) = &job.piece {
            self.queues[queue].moved += piece.part.bytes;
            match self.book.copied(ticket, piece.part.hop, (start, end)) {
                Some(hops) => hops.into_iter().for_each(|hop| self.offer(ticket, hop)),
                None => return self.finish(ticket, end),
            }
            return Vec::new();
        }
        let entry = self.book.entry(ticket);
        let Work::Compute { occurrence, .. } = entry.command.work else {
            unreachable!("streams run ops only")
        };
        let (planned, ready) = (entry.own.plan.planned, entry.ready);
        let planned = planned.span + planned.delay;
        self.book.ops.push(OpRun { occurrence, planned, ready, start, end });
        self.queues[queue].busy = false;
        let releases = self.finish(ticket, end);
        self.try_queue(queue, end);
        releases
    }

    /// A command has ended: whoever waited for it may go. Returns releases that may go.
    pub(crate) fn finish(&mut self, ticket: Ticket, now: Time) -> Vec<Ticket> {
        self.book.finish(ticket, now);
        self.rings.push(self.queues.len());
        self.start_due(now)
    }

    /// Ends the run.
    pub(crate) fn fail(&mut self, fault: Fault, bells: &[Condvar]) {
        self.fault.get_or_insert(fault);
        self.stop(bells);
    }

    /// What to say if nothing has gone on for `waited`: nothing while a worker is at work or an end
    /// is yet to be heard.
    pub(crate) fn stuck(&self, waited: Span) -> Option<Fault> {
        let (first, entry) = self.book.entries.first_key_value()?;
        if self.at_work > 0 || !self.book.ended.is_empty() || self.fault.is_some() {
            return None;
        }
        let (waited_ms, under_way) = (waited.ps() / 1_000_000_000, self.book.entries.len());
        Some(Fault::Stuck { waited_ms, under_way, first: first.0, work: entry.word() })
    }

    pub(crate) fn stop(&mut self, bells: &[Condvar]) {
        self.stop = true;
        bells.iter().for_each(Condvar::notify_all);
    }
}
