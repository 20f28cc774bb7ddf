//! What of a plan must be the same again for the plan to repeat itself, and replays left out of it.
//!
//! The state is taken between two replays, when the last op of one has been planned. It leaves out
//! what was only counted, and what ended commands have left in the books: nobody waits for these.
//! Invariant: two plans with the same state go on with the same commands, but for the numbers of
//! tickets and ops, as long as both have more ops to come than anything looks ahead.

use crate::planner::{Counts, PlanError, Planner};
use crate::policy::Lookahead;
use crate::state::{State, remember};
use crate::view::View;

impl Planner<'_> {
    /// Whether the last op planned was the last of a replay.
    pub fn is_between_replays(&self) -> bool {
        self.next > 0 && self.next.is_multiple_of(self.ops_per_replay())
    }

    /// Ops of one replay.
    pub fn ops_per_replay(&self) -> u64 {
        self.workload.trace.ops.len() as u64
    }

    /// How many ops are still to be planned.
    pub fn left(&self) -> u64 {
        self.until - self.next
    }

    /// How many of these come before the first that counts.
    pub fn left_uncounted(&self) -> u64 {
        self.count_from.saturating_sub(self.next)
    }

    /// Writes the state; `false` if something in it cannot be told.
    pub fn state(&self, out: &mut State) -> bool {
        // A log is kept of pressure, with moments. What is carried out again has no state: it is
        // short.
        if self.pressure.is_some() || self.again.is_some() {
            return false;
        }
        match self.lookahead {
            Lookahead::Past | Lookahead::Oracle => {}
            Lookahead::Window(ops) => out.looks_ahead(ops.into()),
        }
        out.know_commands(self.tickets.under_way());
        remember!(out, self as Planner {
            tickets, last_op => each_under_way, stopped => each_under_way
        } skip {
            // The same throughout a run, or counted only.
            workload, lookahead, until, counts, count_from, unpaid, times, host,
            // Of the op that is planned: there is none.
            buffers, in_place, used, charges, delay, stream, out, making_room,
            // Requests arrive once: such a trace is not replayed.
            found, next_reuse,
            // Of a plan that is made for others.
            choices,
            // Looked at above or below.
            ledger, policy, next, total, pressure, again
        });
        let (workload, ledger, lookahead) = (self.workload, &self.ledger, self.lookahead);
        let view = View { workload, ledger, occurrence: self.next, total: self.total, lookahead };
        ledger.state(out) && self.policy.state(&view, out)
    }

    /// The number of the command that is issued next.
    pub fn next_ticket(&self) -> u32 {
        self.tickets.next().0
    }

    /// Leaves replays out that are still to come. What they would have counted is `counts`.
    ///
    /// Panics if fewer are to come.
    pub fn leave_out(&mut self, replays: u64, counts: Counts) {
        let ops = replays * self.ops_per_replay();
        assert!(self.left() >= ops, "what is left out is still to come");
        self.total -= ops;
        self.until -= ops;
        if self.count_from > self.next {
            self.count_from -= ops;
        }
        self.counts.hits += counts.hits;
        self.counts.misses += counts.misses;
        self.policy.leave_out(replays);
    }

    /// Commands have names of 32 bits.
    pub(super) fn has_names(&self) -> Result<(), PlanError> {
        match self.tickets.are_short() {
            false => Ok(()),
            true => Err(PlanError::TooLong { what: "it has more than 2^31 commands to simulate" }),
        }
    }
}
