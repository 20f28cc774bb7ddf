//! What the planner knows about commands that it has issued.
//!
//! Enough to leave out edges that cannot matter: to commands that have ended, and to commands that
//! an earlier op of the same stream already waits for. Memory is bounded by what is under way.

use crate::command::Ticket;
use crate::state::remember;
use std::collections::VecDeque;

/// The commands of a plan, from the oldest that is still under way to the newest.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    base: u32,
    issued: VecDeque<Issued>,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    ended: bool,
    /// The stream on which it runs, or on which some op waits for it.
    covered_on: Option<u16>,
    /// The op, for compute commands.
    occurrence: Option<u64>,
}

remember! {
    // All that are under way, and those that have ended behind the first of them.
    Tickets { issued } skip { base };
    Issued { ended, covered_on, occurrence: op };
}

impl Tickets {
    /// Names a new command; `stream` for compute.
    pub(crate) fn issue(&mut self, op: Option<(u64, u16)>) -> Ticket {
        let ticket = self.next();
        self.issued.push_back(Issued {
            ended: false,
            covered_on: op.map(|(_, stream)| stream),
            occurrence: op.map(|(occurrence, _)| occurrence),
        });
        ticket
    }

    /// The name of the command that is issued next.
    pub(crate) fn next(&self) -> Ticket {
        let count = u32::try_from(self.issued.len()).ok();
        let next = count.and_then(|count| self.base.checked_add(count));
        Ticket(next.expect("a run has fewer than 2^32 commands"))
    }

    /// Whether so many commands were issued that their names may run out.
    pub(crate) fn are_short(&self) -> bool {
        self.base > u32::MAX / 2
    }

    /// The commands that are under way, each with how many have been issued since.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = (Ticket, u64)> {
        let issued = (self.base..).zip(&self.issued).filter(|(_, issued)| !issued.ended);
        issued.map(|(number, _)| (Ticket(number), u64::from(self.next().0 - number)))
    }

    /// Notes that a command has ended; returns its op if it was one.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<u64> {
        let entry = self.entry_mut(ticket).expect("a command ends once, after it was issued");
        assert!(!entry.ended, "{ticket:?} ended twice");
        entry.ended = true;
        let occurrence = entry.occurrence;
        while self.issued.front().is_some_and(|first| first.ended) {
            self.issued.pop_front();
            self.base += 1;
        }
        occurrence
    }

    /// Whether a command has ended.
    pub(crate) fn ended(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_none_or(|entry| entry.ended)
    }

    /// Whether a command ends before any later op of `stream` can start, without a new edge.
    pub(crate) fn covered(&self, ticket: Ticket, stream: u16) -> bool {
        self.entry(ticket).is_none_or(|entry| entry.ended || entry.covered_on == Some(stream))
    }

    /// Notes that an op of `stream` waits for a command.
    pub(crate) fn cover(&mut self, ticket: Ticket, stream: u16) {
        if let Some(entry) = self.entry_mut(ticket) {
            entry.covered_on.get_or_insert(stream);
        }
    }

    /// The command of an op that is still under way, if it is.
    pub(crate) fn of_op(&self, occurrence: u64) -> Option<Ticket> {
        // Ops are few steps back: the search goes from the newest command.
        let back = self.issued.iter().rev().position(|i| i.occurrence == Some(occurrence))?;
        Some(Ticket(self.base + (self.issued.len() - 1 - back) as u32))
    }

    fn entry(&self, ticket: Ticket) -> Option<&Issued> {
        self.issued.get(ticket.0.checked_sub(self.base)? as usize)
    }

    fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Issued> {
        self.issued.get_mut(ticket.0.checked_sub(self.base)? as usize)
    }
}
