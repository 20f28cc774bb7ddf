//! Commands under way, and who waits for whom; and what has ended. Every machine keeps one.
//!
//! An edge is kept twice. Until the earlier command is *queued* (others can wait for it where it
//! runs) it holds the later one back on the host; until it has *ended* it keeps the later one's end
//! from being told. So on a device most edges are one wait between two streams, and ends are still
//! heard in an order that could have been. The host's threads queue nothing: there a command waits
//! until those before it have ended.
//! Invariant: what a command waits for has an earlier ticket.

use crate::contents::ObjectContents;
use crate::real::{CopyRun, OpRun, Report};
use crate::truth::{Mismatch, Truth};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tiersim_models::units::Time;
use tiersim_policies::command::{Command, Ticket, Work};
use tiersim_policies::transit::Transit;

/// A command under way.
pub(crate) struct Entry<O> {
    pub(crate) command: Arc<Command>,
    /// What it must meet of each touched object, or of a copy's object.
    pub(crate) met: Vec<ObjectContents>,
    /// What was under way when it was submitted and has to end first.
    before: SmallVec<[Ticket; 8]>,
    pub(crate) unqueued: u32,
    pub(crate) unended: u32,
    waiters: Vec<Ticket>,
    pub(crate) queued: bool,
    /// When it could start: its edges were satisfied and it was at the head of its queue.
    pub(crate) ready: Time,
    /// When it started, of what starts on the host.
    pub(crate) began: Option<Time>,
    /// How far a copy has come on its route.
    pub(crate) transit: Option<Transit>,
    /// What its machine knows of it besides.
    pub(crate) own: O,
}

/// Everything under way, and what has ended.
pub(crate) struct Book<O> {
    pub(crate) entries: BTreeMap<Ticket, Entry<O>>,
    pub(crate) ended: VecDeque<(Time, Ticket)>,
    /// Commands that may be able to start.
    pub(crate) due: Vec<Ticket>,
    pub(crate) truth: Truth,
    pub(crate) ops: Vec<OpRun>,
    pub(crate) copies: Vec<CopyRun>,
}

impl<O> Entry<O> {
    pub(crate) fn new(command: Command, met: Vec<ObjectContents>, ready: Time, own: O) -> Entry<O> {
        Entry {
            command: Arc::new(command),
            met,
            before: SmallVec::new(),
            unqueued: 0,
            unended: 0,
            waiters: Vec::new(),
            queued: false,
            ready,
            began: None,
            transit: None,
            own,
        }
    }

    /// The way of a copy.
    pub(crate) fn transit(&mut self) -> &mut Transit {
        self.transit.as_mut().expect("a copy has a route")
    }

    /// What it does, in a word.
    pub(crate) fn word(&self) -> &'static str {
        match self.command.work {
            Work::Compute { .. } => "an op",
            Work::Copy { .. } => "a copy",
            Work::Compact { .. } => "a compaction",
            Work::Release => "a release",
        }
    }
}

impl<O> Book<O> {
    /// Nothing yet.
    pub(crate) fn new() -> Book<O> {
        Book {
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            due: Vec::new(),
            truth: Truth::default(),
            ops: Vec::new(),
            copies: Vec::new(),
        }
    }

    pub(crate) fn is_under_way(&self, ticket: Ticket) -> bool {
        self.entries.contains_key(&ticket)
    }

    pub(crate) fn entry(&self, ticket: Ticket) -> &Entry<O> {
        self.entries.get(&ticket).expect("the command is under way")
    }

    pub(crate) fn entry_mut(&mut self, ticket: Ticket) -> &mut Entry<O> {
        self.entries.get_mut(&ticket).expect("the command is under way")
    }

    /// Makes a command that is about to come wait for others, if they are under way.
    pub(crate) fn wait_for(&self, entry: &mut Entry<O>, tickets: impl IntoIterator<Item = Ticket>) {
        for ticket in tickets {
            if self.is_under_way(ticket) && !entry.before.contains(&ticket) {
                entry.before.push(ticket);
            }
        }
    }

    /// Takes a command in.
    pub(crate) fn add(&mut self, mut entry: Entry<O>) {
        let ticket = entry.command.ticket;
        for before in &entry.before {
            let before = self.entries.get_mut(before).expect("it is under way");
            before.waiters.push(ticket);
            entry.unended += 1;
            entry.unqueued += u32::from(!before.queued);
        }
        self.entries.insert(ticket, entry);
        self.due.push(ticket);
    }

    /// What a command waits for and that has not ended.
    pub(crate) fn before(&self, ticket: Ticket) -> impl Iterator<Item = &Entry<O>> {
        self.entry(ticket).before.iter().filter_map(|before| self.entries.get(before))
    }

    /// Others can wait for a command where it runs.
    pub(crate) fn queued(&mut self, ticket: Ticket) {
        let entry = self.entry_mut(ticket);
        debug_assert!(!entry.queued, "a command is queued once");
        entry.queued = true;
        let waiters = entry.waiters.clone();
        for waiter in waiters {
            let entry = self.entry_mut(waiter);
            entry.unqueued -= 1;
            if entry.unqueued == 0 {
                self.due.push(waiter);
            }
        }
    }

    /// A piece of a copy has crossed a hop: whose next pieces may go, or none if all of the copy
    /// has arrived.
    pub(crate) fn copied(
        &mut self,
        ticket: Ticket,
        hop: usize,
        (start, end): (Time, Time),
    ) -> Option<SmallVec<[usize; 3]>> {
        let entry = self.entry_mut(ticket);
        let start = *entry.began.get_or_insert(start);
        let hops = entry.transit().copied(hop);
        if hops.is_none() {
            let Work::Copy { object, bytes, from, to } = entry.command.work else {
                unreachable!("channels run copies only")
            };
            let ready = entry.ready.min(start);
            self.copies.push(CopyRun { ticket, object, bytes, from, to, ready, start, end });
        }
        hops
    }

    /// A command has ended: whoever waited for it on the host may go.
    pub(crate) fn finish(&mut self, ticket: Ticket, end: Time) {
        let entry = self.entries.remove(&ticket).expect("a command ends once");
        self.ended.push_back((end, ticket));
        for ticket in entry.waiters {
            let waiter = self.entry_mut(ticket);
            waiter.unended -= 1;
            waiter.unqueued -= u32::from(!entry.queued);
            waiter.ready = waiter.ready.max(end);
            if waiter.unqueued == 0 || waiter.unended == 0 {
                self.due.push(ticket);
            }
        }
    }

    pub(crate) fn note(&mut self, checks: Vec<Option<Mismatch>>) {
        checks.into_iter().for_each(|check| self.truth.note(check));
    }

    /// What it knows of a run.
    pub(crate) fn report(&self) -> Report {
        Report {
            truth: self.truth.clone(),
            ops: self.ops.clone(),
            copies: self.copies.len() as u64,
            copies_run: self.copies.clone(),
            ..Report::default()
        }
    }
}
