//! Commands under way, and how far a copy has come.

use smallvec::SmallVec;
use std::collections::VecDeque;
use tiersim_models::hardware::{Lane, Law};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Command, Ticket};

/// A command from submission to its end.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) command: Command,
    /// Edges that are not satisfied yet.
    pub(crate) indegree: u32,
    /// Commands with an edge to this one.
    pub(crate) waiters: SmallVec<[Ticket; 4]>,
    /// The stream of an op.
    pub(crate) stream: Option<usize>,
    /// How long an op computes, without delays.
    pub(crate) compute: Span,
    /// The way of a copy.
    pub(crate) progress: Option<Progress>,
    /// When a copy was let into its first lane.
    pub(crate) ready_at: Time,
    pub(crate) start: Time,
    /// What it waited for last.
    pub(crate) blocker: Option<Ticket>,
    pub(crate) ended: bool,
}

/// All commands from the oldest under way to the newest, by ticket.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    base: u32,
    entries: VecDeque<Entry>,
}

impl Entries {
    /// Adds the next command; returns how many of its edges are open.
    pub(crate) fn add(
        &mut self,
        command: Command,
        stream: Option<usize>,
        progress: Option<Progress>,
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
            stream,
            compute: Span::ZERO,
            progress,
            ready_at: Time::ZERO,
            start: Time::ZERO,
            blocker: None,
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
        self.get_mut(ticket).progress.as_mut().expect("a copy has a route")
    }

    pub(crate) fn forget_ended(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.ended) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Part of a copy on one of its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) hop: u8,
    /// The copy's first piece on its first lane.
    pub(crate) first: bool,
    pub(crate) bytes: Bytes,
}

/// How far a copy has come on each of its lanes.
#[derive(Debug)]
pub(crate) struct Progress {
    bytes: Bytes,
    chunk: Bytes,
    pub(crate) pieces: u32,
    pub(crate) hops: SmallVec<[Hop; 2]>,
    /// The lane that takes longest: where the copy is said to wait.
    pub(crate) slowest: usize,
}

/// One lane of a copy's route.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) lane: usize,
    /// Pieces that have entered the lane's queue.
    pub(crate) queued: u32,
    /// Pieces that the lane has copied.
    pub(crate) done: u32,
}

impl Progress {
    /// A copy over one lane goes in one piece, over several in chunks.
    pub(crate) fn new(
        route: &[Lane],
        bytes: Bytes,
        chunk: Bytes,
        law: impl Fn(usize) -> Law,
    ) -> Progress {
        let whole = route.len() == 1 || bytes <= chunk;
        let chunk = if whole { bytes } else { chunk };
        let pieces = if whole { 1 } else { bytes.get().div_ceil(chunk.get()) };
        let span = |lane: &&Lane| -> Span { law(lane.index()).span_of(chunk) };
        let slowest = route.iter().max_by_key(span).expect("a copy goes somewhere").index();
        let hop = |lane: &Lane| Hop { lane: lane.index(), queued: 0, done: 0 };
        Progress {
            bytes,
            chunk,
            pieces: u32::try_from(pieces).expect("fewer than 2^32 chunks in a copy"),
            hops: route.iter().map(hop).collect(),
            slowest,
        }
    }

    /// Takes the next piece for a hop: one at a time on a lane, never before it has arrived, and
    /// only while fewer than `bounce` lie before the next lane.
    pub(crate) fn next_piece(&mut self, ticket: Ticket, hop: usize, bounce: u32) -> Option<Piece> {
        let Hop { queued, done, .. } = self.hops[hop];
        let arrived = hop == 0 || self.hops[hop - 1].done > queued;
        let buffered = self.hops.get(hop + 1).map_or(0, |next| queued - next.done);
        if queued != done || queued == self.pieces || !arrived || buffered >= bounce {
            return None;
        }
        self.hops[hop].queued += 1;
        let last = queued + 1 == self.pieces;
        let before = self.chunk.get() * u64::from(self.pieces - 1);
        let bytes = if last { self.bytes - Bytes::new(before) } else { self.chunk };
        let first = hop == 0 && queued == 0;
        Some(Piece { ticket, hop: hop as u8, first, bytes })
    }
}
