//! Commands under way, and how far a copy has come.

use crate::machine::blame::Ended;
use crate::machine::lines::LineName;
use crate::machine::moment::Piece;
use crate::machine::path::{Leg, Path};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::hardware::Law;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Ticket};
use tiersim_policies::transit::Transit;

/// A command, alone or in a plan that others carry out too.
#[derive(Debug)]
pub(crate) enum Held {
    Alone(Box<Command>),
    Planned(Rc<Arc<[Command]>>, u32),
}

impl Held {
    /// The command, to be changed.
    pub(super) fn own(&mut self) -> &mut Command {
        if let Held::Planned(..) = self {
            *self = Held::Alone((**self).clone().into());
        }
        match self {
            Held::Alone(command) => command,
            Held::Planned(..) => unreachable!("it is alone by now"),
        }
    }
}

impl Deref for Held {
    type Target = Command;

    fn deref(&self) -> &Command {
        match self {
            Held::Alone(command) => command,
            Held::Planned(plan, index) => &plan[*index as usize],
        }
    }
}

/// A command from submission to its end.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) command: Held,
    /// Edges that are not satisfied yet.
    pub(crate) indegree: u32,
    /// Commands with an edge to this one.
    pub(crate) waiters: SmallVec<[Ticket; 4]>,
    /// The stream of an op.
    pub(crate) stream: Option<usize>,
    /// Which op of the trace it is.
    pub(crate) op: Option<u32>,
    /// How long an op computes, without delays.
    pub(crate) compute: Span,
    /// What it waits for allocators.
    pub(crate) allocating: Span,
    /// What a framework's thread takes before it.
    pub(crate) host: Span,
    /// Whether a framework's thread has seen to the object of a copy.
    pub(crate) issued: bool,
    /// The way of a copy.
    pub(crate) progress: Option<Box<Progress>>,
    /// When a copy was let into its first channel, and when an op could have started but for its
    /// release; before that, when a framework's thread was asked for the copy, and behind it, when
    /// its last byte came that the device goes over.
    pub(crate) ready_at: Time,
    /// The path up to then, of an op and of what a framework does for a copy.
    pub(super) path: Option<Path>,
    pub(crate) start: Time,
    /// What it waited for last.
    pub(crate) blocker: Option<Ticket>,
    pub(crate) begun: bool,
    pub(crate) ended: bool,
}

// Memory per transfer in flight is bounded: one entry, beside one piece per channel that it is on.
// Longer lists of edges than usual are on the heap, and a plan is made at most a window of ops
// ahead. What is looked at for every event lies together; the command itself and the way of a copy
// lie apart.
const _: () = assert!(size_of::<Entry>() <= 192 && size_of::<Piece>() <= 48);

/// All commands from the oldest under way to the newest, by ticket.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    base: u32,
    entries: VecDeque<Entry>,
}

impl Entry {
    /// When the last byte of a copy that ends now had come.
    pub(super) fn came_at(&self, now: Time) -> Time {
        if self.path.is_some() { self.ready_at } else { now }
    }
}

impl Entries {
    /// Adds the next command, which runs on a stream an op of the trace if it is one; returns how
    /// many of its edges are open.
    pub(crate) fn add(
        &mut self,
        command: Held,
        runs: Option<(usize, u64)>,
        progress: Option<Box<Progress>>,
    ) -> u32 {
        let ticket = command.ticket;
        if self.entries.is_empty() {
            self.base = ticket.0;
        }
        assert_eq!(self.base + self.entries.len() as u32, ticket.0, "tickets come in order");
        let mut indegree = 0;
        for edge in &command.after {
            assert!(edge.ticket < ticket, "an edge names an earlier command");
            let index = edge.ticket.0.checked_sub(self.base).map(|index| index as usize);
            if let Some(entry) = index.map(|index| &mut self.entries[index])
                && !entry.ended
            {
                entry.waiters.push(ticket);
                indegree += 1;
            }
        }
        self.entries.push_back(Entry {
            command,
            indegree,
            waiters: SmallVec::new(),
            stream: runs.map(|(stream, _)| stream),
            op: runs.map(|(_, op)| op as u32),
            compute: Span::ZERO,
            allocating: Span::ZERO,
            host: Span::ZERO,
            issued: false,
            progress,
            ready_at: Time::ZERO,
            path: None,
            start: Time::ZERO,
            blocker: None,
            begun: false,
            ended: false,
        });
        indegree
    }

    pub(crate) fn get(&self, ticket: Ticket) -> &Entry {
        &self.entries[(ticket.0 - self.base) as usize]
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> &mut Entry {
        &mut self.entries[(ticket.0 - self.base) as usize]
    }

    pub(crate) fn progress(&mut self, ticket: Ticket) -> &mut Progress {
        self.get_mut(ticket).progress.as_deref_mut().expect("a copy has a route")
    }

    /// A copy that has begun and not ended, as [`Blame`](super::blame::Blame) wants it.
    pub(crate) fn under_way(&self, ticket: Ticket) -> Option<Ended> {
        let entry = self.entries.get(ticket.0.checked_sub(self.base)? as usize)?;
        let channel = Some(entry.progress.as_ref().filter(|_| !entry.ended)?.slowest);
        Some(Ended { start: entry.start, channel, blocker: entry.blocker })
    }

    pub(crate) fn forget_ended(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.ended) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// Whether a command has not ended.
    pub(crate) fn is_under_way(&self, ticket: Ticket) -> bool {
        let index = ticket.0.checked_sub(self.base).map(|index| index as usize);
        index.and_then(|index| self.entries.get(index)).is_some_and(|entry| !entry.ended)
    }

    /// All from the oldest that is under way.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry> {
        let Entries { base: _, entries } = self;
        entries.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The way of a copy.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) transit: Transit,
    /// Where it stands on every channel that serves lines in turn.
    pub(crate) line: LineName,
    /// The channel that takes longest: where the copy is said to wait.
    pub(crate) slowest: usize,
    /// By hop, as far as it has come: the piece that is there, or was last.
    pub(super) legs: SmallVec<[Leg; 1]>,
}

impl Progress {
    pub(crate) fn new(transit: Transit, line: LineName, law: impl Fn(usize) -> Law) -> Progress {
        let span = |&(channel, bytes): &(usize, Bytes)| law(channel).span_of(bytes);
        let (slowest, _) =
            transit.largest_pieces().max_by_key(span).expect("a copy goes somewhere");
        Progress { transit, line, slowest, legs: SmallVec::new() }
    }
}
