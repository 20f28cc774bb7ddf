//! How the planner gets room in a tier whose allocator is not exact: eviction and compaction.
//!
//! Where no free piece is large enough, the policy is asked for something that can leave.
//! Compaction stops the world: the op before which it happens moves the objects, waits for all
//! that use them or what they move into, is delayed by reading and writing every byte moved, and
//! all later users wait for it.
//! Invariant: nothing here happens in exact tiers, but for relief in one that is watched (`relief`).

use crate::arena::Compacted;
use crate::command::{Command, Edge, Hazard, Ticket};
use crate::ledger::{Filled, add_edge};
use crate::planner::{PlanError, Planner};
use crate::policy::Action;
use smallvec::SmallVec;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Objects that move before the op that is planned.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    done: Vec<(TierId, Compacted)>,
    /// Commands from here on were issued after the objects were given new addresses.
    since: Option<Ticket>,
}

impl Planner<'_> {
    /// Asks the policy for room until an object fits into a tier. If it has none to give, the claim
    /// that follows fails.
    pub(crate) fn make_room(
        &mut self,
        object: ObjectId,
        tier: TierId,
        turn: Option<Ticket>,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        let bytes = self.room(object, tier).bytes;
        while !self.ledger.is_exact(tier) && !self.ledger.fits(tier, bytes, self.stream) {
            let Some(action) = self.ask(|policy, view| policy.make_room(view, tier)) else {
                break;
            };
            let gone = match action {
                Action::Evict { object, from, .. } if from == tier => object,
                Action::Drop { object, tier: from } if from == tier => object,
                other => return Err(self.refused(format!("makes room by {other:?}"))),
            };
            if self.uses(gone) {
                return Err(self.refused(format!("evicts {gone:?}, which the op uses")));
            }
            self.act(action, &[], turn, out)?;
            if let Some(arena) = self.ledger.arena(tier) {
                arena.meter.found.forced += 1;
            }
        }
        self.force(tier, bytes, turn, out)
    }

    /// Whether a prefetch is not worth its room: it would have to be made.
    pub(crate) fn gives_up(&mut self, object: ObjectId, tier: TierId) -> bool {
        let counted = self.ledger.is_exact(tier) && !self.watches(tier);
        if counted || self.ledger.has_room(object, tier) {
            return false;
        }
        let bytes = self.room(object, tier).bytes;
        let given_up = !self.ledger.fits(tier, bytes, self.stream);
        if let Some(arena) = self.ledger.arena(tier).filter(|_| given_up) {
            arena.meter.found.given_up += 1;
        }
        given_up
    }

    fn uses(&self, object: ObjectId) -> bool {
        let op = (self.next % self.workload.trace.ops.len() as u64) as usize;
        let uses = self.workload.trace.uses_of(tiersim_models::ids::OpId::at(op));
        uses.iter().any(|touched| touched.object == object)
    }

    /// Gives objects new addresses where too much is in pieces.
    pub(crate) fn compact(&mut self) -> Compaction {
        let done = self.ledger.compact(None);
        let since = (!done.is_empty()).then(|| self.tickets.next());
        Compaction { done, since }
    }

    /// The same for a new object that fits into no free piece though its bytes are free.
    pub(crate) fn compact_for(
        &mut self,
        object: ObjectId,
        tier: TierId,
        compaction: &mut Compaction,
    ) {
        let bytes = self.room(object, tier).bytes;
        let exact = self.ledger.is_exact(tier);
        if exact || self.ledger.fits(tier, bytes, self.stream) || self.ledger.free(tier) < bytes {
            return;
        }
        let done = self.ledger.compact(Some(tier));
        if !done.is_empty() {
            compaction.since.get_or_insert(self.tickets.next());
            compaction.done.extend(done);
        }
    }

    /// Makes the op `ticket` the one that moves what was given a new address.
    pub(crate) fn move_together(
        &mut self,
        ticket: Ticket,
        compaction: Compaction,
        after: &mut SmallVec<[Edge; 6]>,
    ) {
        let mut waits: Vec<Ticket> = Vec::new();
        for (tier, Compacted { moved, bytes, waits: users }) in compaction.done {
            waits.extend(users);
            for object in moved {
                let Some(slot) = self.ledger.slot_mut(object, tier) else { continue };
                waits.extend(slot.filled.map(|filled| filled.ticket));
                waits.extend(slot.users.drain(..).map(|user| user.ticket));
                slot.filled = Some(Filled { ticket, by_copy: false });
            }
            self.charges.push((tier, Bytes::new(bytes.get().saturating_mul(2))));
            if let Some(arena) = self.ledger.arena(tier) {
                arena.wait_for(ticket);
            }
        }
        let later = compaction.since.map_or(ticket.0, |since| since.0)..ticket.0;
        waits.extend(later.map(Ticket));
        for on in waits.into_iter().filter(|&on| on != ticket && !self.tickets.ended(on)) {
            add_edge(after, on, Hazard::LastUse);
        }
    }
}
