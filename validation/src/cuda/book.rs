//! Commands under way, and who waits for whom.
//!
//! An edge is kept twice. Until the earlier command is *queued* (it has marks on the device that
//! others can wait for there) it holds the later one back on the host; until it has *ended* it
//! keeps the later one's end from being told. So most edges are one wait between two streams, and
//! ends are still heard in an order that could have been.
//! Invariant: what a command waits for has an earlier ticket.

use crate::cuda::findings::Watch;
use crate::cuda::mark::Mark;
use crate::cuda::rooms::{Held, Place};
use crate::real::{CopyRun, OpRun};
use crate::truth::{Mismatch, Truth};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::{Command, Ticket};
use tiersim_policies::transit::Transit;

/// Marks that others wait for.
pub(crate) type MarkList = SmallVec<[Rc<Mark>; 2]>;

/// A command under way.
pub(crate) struct Entry {
    pub(crate) command: Rc<Command>,
    /// Version of each touched object, or of a copy's object, that it must meet.
    pub(crate) versions: Vec<u64>,
    /// How long an op is to last.
    pub(crate) planned: Planned,
    /// Where its touches are, or a copy's source and target.
    pub(crate) places: SmallVec<[Option<Rc<Held>>; 4]>,
    /// Room that it gives back.
    pub(crate) freed: SmallVec<[Rc<Held>; 4]>,
    /// What was under way when it was submitted and has to end first.
    pub(crate) before: SmallVec<[Ticket; 8]>,
    pub(crate) unqueued: u32,
    pub(crate) unended: u32,
    waiters: Vec<Ticket>,
    pub(crate) queued: bool,
    /// What of it others wait for, once it is queued; its own end is the first.
    pub(crate) marks: MarkList,
    /// Where it starts on the device.
    pub(crate) start: Option<Rc<Mark>>,
    /// When it started, of what starts on the host.
    pub(crate) began: Option<Time>,
    /// When it ended, of what the device has no mark of.
    pub(crate) over: Option<Time>,
    /// When it could start: its edges were satisfied and it was at the head of its queue.
    pub(crate) ready: Time,
    pub(crate) watches: SmallVec<[Watch; 4]>,
    pub(crate) progress: Option<Progress>,
    pub(crate) files: Files,
}

/// How long an op is to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// Without the delays.
    pub(crate) span: Span,
    /// Those of use in place, where they are emulated, and what the policy states.
    pub(crate) delay: Span,
}

/// How far an op has come with the files that it uses in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    None,
    ToDo,
    Asked,
    /// They took this long.
    Done(Span),
}

/// A copy on its route.
pub(crate) struct Progress {
    pub(crate) transit: Transit,
    /// Buffers between its lanes, made when they are first used.
    pub(crate) bounces: Vec<SmallVec<[Option<Place>; 4]>>,
}

/// Everything under way, and what has ended.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) entries: BTreeMap<Ticket, Entry>,
    pub(crate) ended: VecDeque<(Time, Ticket)>,
    /// Commands that may be able to start.
    pub(crate) due: Vec<Ticket>,
    pub(crate) truth: Truth,
    pub(crate) ops: Vec<OpRun>,
    pub(crate) copies: Vec<CopyRun>,
}

impl Entry {
    pub(crate) fn new(command: Rc<Command>, versions: Vec<u64>, planned: Planned) -> Entry {
        Entry {
            command,
            versions,
            planned,
            places: SmallVec::new(),
            freed: SmallVec::new(),
            before: SmallVec::new(),
            unqueued: 0,
            unended: 0,
            waiters: Vec::new(),
            queued: false,
            marks: MarkList::new(),
            start: None,
            began: None,
            over: None,
            ready: Time::ZERO,
            watches: SmallVec::new(),
            progress: None,
            files: Files::None,
        }
    }

    /// Checks of arrivals in rooms that it gives back: nobody may use these before.
    pub(crate) fn guards(&self) -> MarkList {
        self.freed.iter().filter_map(|held| held.guard.borrow().clone()).collect()
    }
}

impl Book {
    pub(crate) fn is_under_way(&self, ticket: Ticket) -> bool {
        self.entries.contains_key(&ticket)
    }

    pub(crate) fn entry(&self, ticket: Ticket) -> &Entry {
        self.entries.get(&ticket).expect("the command is under way")
    }

    pub(crate) fn entry_mut(&mut self, ticket: Ticket) -> &mut Entry {
        self.entries.get_mut(&ticket).expect("the command is under way")
    }

    /// Takes a command in; `entry.before` names what is under way.
    pub(crate) fn add(&mut self, ticket: Ticket, mut entry: Entry) {
        for before in &entry.before {
            let before = self.entries.get_mut(before).expect("it is under way");
            before.waiters.push(ticket);
            entry.unended += 1;
            entry.unqueued += u32::from(!before.queued);
        }
        self.entries.insert(ticket, entry);
        self.due.push(ticket);
    }

    /// Marks of everything that a command waits for and that has not ended.
    pub(crate) fn waits(&self, ticket: Ticket) -> Vec<Rc<Mark>> {
        let before = self.entry(ticket).before.iter();
        let under_way = before.filter_map(|before| self.entries.get(before));
        under_way.flat_map(|before| before.marks.iter().cloned()).collect()
    }

    /// A command has marks that others can wait for.
    pub(crate) fn queued(&mut self, ticket: Ticket, marks: MarkList) {
        let entry = self.entry_mut(ticket);
        debug_assert!(!entry.queued, "a command is queued once");
        (entry.queued, entry.marks) = (true, marks);
        let waiters = entry.waiters.clone();
        for waiter in waiters {
            let entry = self.entry_mut(waiter);
            entry.unqueued -= 1;
            if entry.unqueued == 0 {
                self.due.push(waiter);
            }
        }
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
}
