//! Whose fault a stall is.
//!
//! When an op starts late, the time since its stream fell idle is charged to channels by walking
//! back: the last thing that it waited for, what that had waited for, and so on. Time in which a
//! copy was on its way belongs to the copy's slowest channel; time in which another stream's op ran
//! belongs to no channel.

use std::collections::VecDeque;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{Remembered, State, remember};

/// How many ended commands of each rank are remembered. A stall whose history is older is charged
/// in part.
pub(super) const MEMORY: usize = 4096;

/// What matters of a command that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) start: Time,
    /// The channel, for a copy or a collective.
    pub(crate) channel: Option<usize>,
    /// What it had waited for last.
    pub(crate) blocker: Option<Ticket>,
}

/// The recent past of a run, by ticket.
#[derive(Debug)]
pub(crate) struct Blame {
    pub(super) memory: usize,
    pub(super) base: u32,
    pub(super) ended: VecDeque<Option<Ended>>,
}

impl Remembered for Blame {
    /// How long those that have ended are remembered. Who they are is written where they may be
    /// blamed ([`Blame::history`]).
    fn state(&self, out: &mut State) {
        remember!(out, self as Blame {} skip { memory, base, ended });
        Ticket(self.base + self.ended.len() as u32).state(out);
    }
}

impl Blame {
    /// For so many ranks.
    pub(crate) fn new(ranks: u32) -> Blame {
        Blame { memory: MEMORY * ranks as usize, base: 0, ended: VecDeque::new() }
    }

    pub(crate) fn remember(&mut self, ticket: Ticket, ended: Ended) {
        let Some(index) = ticket.0.checked_sub(self.base).map(|index| index as usize) else {
            return;
        };
        while index >= self.ended.len() {
            self.ended.push_back(None);
        }
        self.ended[index] = Some(ended);
        while self.ended.len() > self.memory {
            self.ended.pop_front();
            self.base += 1;
        }
    }

    /// Charges the time from `idle_since` to `now` to the channels that caused it. A copy may have
    /// waited for one that goes in pieces and has not ended: `under_way` knows it.
    pub(crate) fn charge(
        &self,
        (idle_since, now): (Time, Time),
        mut cause: Option<Ticket>,
        under_way: impl Fn(Ticket) -> Option<Ended>,
        mut stall: impl FnMut(usize, Span),
    ) {
        let mut until = now;
        while until > idle_since {
            let known = |ticket| self.get(ticket).or_else(|| under_way(ticket));
            let Some(ended) = cause.and_then(known) else { break };
            let from = ended.start.max(idle_since).min(until);
            if let Some(channel) = ended.channel {
                stall(channel, until.since(from));
            }
            until = from;
            cause = ended.blocker;
        }
    }

    /// Writes a command that may be blamed and what it had waited for, as far back as anybody will
    /// look: nobody was idle before `idle_since` who is so now. Those that are under way tell of
    /// themselves.
    pub(super) fn history(
        &self,
        mut cause: Option<Ticket>,
        is_under_way: impl Fn(Ticket) -> bool,
        idle_since: Time,
        out: &mut State,
    ) {
        while let Some(ticket) = cause {
            let Some(ended) = self.get(ticket) else {
                return (1u8, Some(ticket).filter(|&ticket| is_under_way(ticket))).state(out);
            };
            let Ended { start, channel, blocker } = ended;
            (2u8, ticket, channel).state(out);
            start.max(idle_since).state(out);
            cause = blocker.filter(|_| start > idle_since);
        }
        out.word(0);
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<Ended> {
        *self.ended.get(ticket.0.checked_sub(self.base)? as usize)?
    }
}
