//! How the planner gets room in a tier whose allocator is not exact: eviction.
//!
//! Where no free piece is large enough, objects are moved together ([`super::compaction`]), and
//! then the policy is asked for something that can leave.
//! Invariants: nothing here happens in exact tiers, but for relief in one that is watched
//! ([`super::relief`]). Nothing moves into a tier while room is made there, so every answer leaves
//! it with less and the asking ends.

use crate::action::Refusal;
use crate::planner::{PlanError, Planner};
use crate::policy::Action;
use tiersim_models::ids::{ObjectId, TierId};

impl Planner<'_> {
    /// Asks the policy for room until an object fits into a tier. If it has none to give, the
    /// allocation that follows fails.
    pub(super) fn make_room(&mut self, object: ObjectId, tier: TierId) -> Result<(), PlanError> {
        let bytes = self.allocation(object, tier).bytes;
        self.making_room.push(tier);
        while !self.ledger.is_exact(tier) && !self.ledger.fits(tier, bytes, self.stream) {
            let Some(action) = self.ask(|policy, view| policy.make_room(view, tier)) else {
                break;
            };
            let gone = match action {
                Action::Evict { object, from, .. } if from == tier => object,
                Action::Drop { object, tier: from } if from == tier => object,
                other => {
                    let rule = "room in a tier is made by an evict or a drop out of it";
                    return Err(self.refused(Refusal::of(other, rule, "take nothing, or that")));
                }
            };
            if self.uses().iter().any(|touched| touched.object == gone) {
                let rule = "what the op uses may not leave to make room for it";
                return Err(self.refused(Refusal::of(action, rule, "name another object")));
            }
            if matches!(action, Action::Evict { to, .. } if self.makes_room(to)) {
                break;
            }
            self.act(action)?;
            if let Some(arena) = self.ledger.arena(tier) {
                arena.meter.found.forced += 1;
            }
        }
        self.force(tier, bytes)?;
        self.making_room.pop();
        Ok(())
    }

    /// Whether objects are leaving a tier for one that needs room there: nothing may go back.
    pub(super) fn makes_room(&self, tier: TierId) -> bool {
        self.making_room.contains(&tier)
    }

    /// Whether a prefetch is not worth its room: it would have to be made.
    pub(super) fn gives_up(&mut self, object: ObjectId, tier: TierId) -> bool {
        let counted = self.ledger.is_exact(tier) && !self.watches(tier);
        if counted || self.ledger.is_allocated(object, tier) {
            return false;
        }
        let bytes = self.allocation(object, tier).bytes;
        let given_up = !self.ledger.fits(tier, bytes, self.stream);
        if let Some(arena) = self.ledger.arena(tier).filter(|_| given_up) {
            arena.meter.found.given_up += 1;
        }
        given_up
    }
}
