//! Compaction as commands: objects get other addresses, and a machine has to move them.
//!
//! A compaction is one command. It waits for all that use the objects, or what they move into, and
//! for the op after which it was decided; whoever uses the objects, or what they left, waits for
//! it. If it is incremental, all others go on beside it. If it stops the world, it waits for the
//! latest op of every stream too, and the next op of every stream waits for it.
//! Invariant: addresses change when the plan is made, contents when the command runs; no command
//! meets an object on its way.

use crate::arena::Compacted;
use crate::command::{Allocation, Edges, Hazard, Ticket, Work, add_edge};
use crate::ledger::Filled;
use crate::planner::Planner;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl Planner<'_> {
    /// Moves objects together in every tier where too much is in pieces.
    pub(super) fn compact(&mut self) {
        for (tier, compacted) in self.ledger.compact(None, &self.tickets) {
            self.move_together(tier, &compacted, &[], Edges::new());
        }
    }

    /// The same for a new object that fits into no free piece though its bytes are free. `born` are
    /// objects of the op that is planned: they have an address, and nothing there yet. `after` are
    /// the op's edges so far, for these addresses: the compaction takes them over.
    pub(super) fn compact_for(
        &mut self,
        object: ObjectId,
        tier: TierId,
        born: &[Allocation],
        after: &mut Edges,
    ) {
        let bytes = self.allocation(object, tier).bytes;
        let exact = self.ledger.is_exact(tier);
        if exact || self.ledger.fits(tier, bytes, self.stream) || self.ledger.free(tier) < bytes {
            return;
        }
        for (tier, compacted) in self.ledger.compact(Some(tier), &self.tickets) {
            let ticket = self.move_together(tier, &compacted, born, after.clone());
            add_edge(after, ticket, Hazard::Capacity);
        }
    }

    fn move_together(
        &mut self,
        tier: TierId,
        compacted: &Compacted,
        born: &[Allocation],
        mut after: Edges,
    ) -> Ticket {
        compacted.waits.iter().for_each(|edge| add_edge(&mut after, edge.ticket, edge.hazard));
        let tickets = &self.tickets;
        let mut wait = |on: Ticket, hazard| {
            if !tickets.ended(on) {
                add_edge(&mut after, on, hazard);
            }
        };
        let by_copy = Some(Filled { ticket: tickets.next(), by_copy: true });
        let mut bytes = compacted.bytes;
        let mut objects = Vec::new();
        for &(object, of) in &compacted.moved {
            if born.iter().any(|allocation| (allocation.object, allocation.tier) == (object, tier))
            {
                bytes -= of.min(bytes);
                continue;
            }
            let Some(slot) = self.ledger.slot_mut(object, tier) else { continue };
            if let Some(filled) = slot.filled {
                wait(filled.ticket, Hazard::ReadAfterWrite);
            }
            slot.users.drain(..).for_each(|user| wait(user.ticket, Hazard::WriteAfterRead));
            slot.filled = by_copy;
            objects.push(object);
        }
        self.await_turn(&mut after);
        if compacted.stops {
            self.last_op
                .iter()
                .flatten()
                .for_each(|&op| self.wait(op, Hazard::IssueOrder, &mut after));
        }
        let work = if bytes == Bytes::ZERO {
            Work::Release // all that moved is still to be born
        } else {
            Work::Compact { tier, bytes, objects: objects.into() }
        };
        let ticket = self.issue(work, after, None, None);
        if compacted.stops {
            self.stopped.fill(Some(ticket));
        }
        if let Some(arena) = self.ledger.arena(tier) {
            arena.vacate(compacted, ticket);
        }
        ticket
    }
}
