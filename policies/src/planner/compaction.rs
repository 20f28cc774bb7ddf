//! Compaction as commands: objects get other addresses, and a machine has to move them.
//!
//! A compaction is one command. It waits for all that use the objects, or what they move into, and
//! for the op after which it was decided; whoever uses the objects, or what they left, waits for
//! it. If it is incremental, all others go on beside it. If it stops the world, it waits for the
//! latest op of every stream too, and the next op of every stream waits for it.
//! Invariant: addresses change when the plan is made, contents when the command runs; no command
//! meets an object on its way.

use crate::arena::Compacted;
use crate::command::{Command, Edge, Hazard, Room, Ticket, Work, add_edge};
use crate::ledger::Filled;
use crate::planner::Planner;
use smallvec::SmallVec;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl Planner<'_> {
    /// Moves objects together in every tier where too much is in pieces.
    pub(super) fn compact(&mut self, out: &mut Vec<Command>) {
        for (tier, compacted) in self.ledger.compact(None, &self.tickets) {
            self.move_together(tier, &compacted, &[], SmallVec::new(), out);
        }
    }

    /// The same for a new object that fits into no free piece though its bytes are free. `born` are
    /// objects of the op that is planned: they have an address, and nothing there yet. `after` are
    /// the op's edges so far, for these addresses: the compaction takes them over.
    pub(super) fn compact_for(
        &mut self,
        object: ObjectId,
        tier: TierId,
        born: &[Room],
        after: &mut SmallVec<[Edge; 6]>,
        out: &mut Vec<Command>,
    ) {
        let bytes = self.room(object, tier).bytes;
        let exact = self.ledger.is_exact(tier);
        if exact || self.ledger.fits(tier, bytes, self.stream) || self.ledger.free(tier) < bytes {
            return;
        }
        for (tier, compacted) in self.ledger.compact(Some(tier), &self.tickets) {
            let ticket = self.move_together(tier, &compacted, born, after.clone(), out);
            add_edge(after, ticket, Hazard::Room);
        }
    }

    fn move_together(
        &mut self,
        tier: TierId,
        compacted: &Compacted,
        born: &[Room],
        mut after: SmallVec<[Edge; 6]>,
        out: &mut Vec<Command>,
    ) -> Ticket {
        let turn = self.last_op[usize::from(self.stream)];
        let ticket = self.tickets.issue(None);
        compacted.waits.iter().for_each(|edge| add_edge(&mut after, edge.ticket, edge.hazard));
        let mut wait = |on: Ticket, hazard| {
            if !self.tickets.ended(on) {
                add_edge(&mut after, on, hazard);
            }
        };
        let mut bytes = compacted.bytes;
        let mut objects = Vec::new();
        for &(object, of) in &compacted.moved {
            if born.iter().any(|room| (room.object, room.tier) == (object, tier)) {
                bytes -= of.min(bytes);
                continue;
            }
            let Some(slot) = self.ledger.slot_mut(object, tier) else { continue };
            if let Some(filled) = slot.filled {
                wait(filled.ticket, Hazard::Arrival);
            }
            slot.users.drain(..).for_each(|user| wait(user.ticket, Hazard::LastUse));
            slot.filled = Some(Filled { ticket, by_copy: true });
            objects.push(object);
        }
        if let Some(op) = turn {
            wait(op, Hazard::Turn);
        }
        if compacted.stops {
            self.last_op.iter().flatten().for_each(|&op| wait(op, Hazard::Turn));
            self.stopped.fill(Some(ticket));
        }
        if let Some(arena) = self.ledger.arena(tier) {
            arena.vacate(compacted, ticket);
        }
        let work = if bytes == Bytes::ZERO {
            Work::Release // all that moved is still to be born
        } else {
            Work::Compact { tier, bytes, objects: objects.into() }
        };
        let (claims, frees) = (SmallVec::new(), SmallVec::new());
        out.push(Command { ticket, work, after, claims, frees });
        ticket
    }
}
