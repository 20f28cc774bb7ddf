//! What is brought nearer to the device before it is needed.
//!
//! Invariant: nothing leaves for it that is needed sooner, and no op waits for it.

use super::{ClairvoyantOffload, Future, PASSED_OVER, Place};
use crate::policy::Action;
use crate::step::Step;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl ClairvoyantOffload {
    /// Brings back what is needed next, in the place of what is needed later, as long as a link is
    /// idle and what is created until then finds room.
    pub(super) fn look_ahead(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let occurrence = self.now.occurrence;
        let born = view.births_ahead(0).unwrap_or(Bytes::ZERO);
        let mut passed = 0;
        let mut above = (0, ObjectId(0));
        while passed < PASSED_OVER
            && self.outside.iter().any(|&from| self.begins_in_time(from, HBM))
        {
            let first = self.stock.from(Place::Outside, above).next();
            let Some((rank, object)) = first else { break };
            above = (rank, ObjectId(object.0 + 1));
            let Some(next) = Future::in_sight(rank) else { break };
            if self.future.is_over(object) {
                continue; // replays were left out, and the run ends before its next use
            }
            if self.has_moved(object) || !self.is_true(object, Place::Outside, view) {
                continue;
            }
            let Some(from) = self.holder(object, view) else { continue };
            if !self.begins_in_time(from, HBM) {
                passed += 1;
                continue;
            }
            let bytes = view.object(object).bytes;
            let need = bytes + born;
            let grows = self.future.growth(occurrence, next);
            if !self.displace(rank, need, need + grows, step) {
                break;
            }
            self.fetch(object, Action::Prefetch { object, to: HBM }, step);
            self.stock.put(object, Place::Copied, self.rank_in(object, Place::Copied));
        }
    }

    /// Brings what is needed next from the tiers behind nearer to HBM, as long as their links are
    /// idle and what is alive until then leaves room there.
    pub(super) fn stage(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let occurrence = self.now.occurrence;
        let Some((&near, behind)) = self.spill.split_first() else { return };
        if behind.iter().all(|&tier| view.is_empty(tier)) {
            return;
        }
        let mut passed = 0;
        let mut above = (0, ObjectId(0));
        while passed < PASSED_OVER {
            let idle = |&from: &TierId| self.begins_in_time(from, near);
            if !self.spill[1..].iter().any(idle) {
                break;
            }
            let first = self.stock.from(Place::Outside, above).next();
            let Some((rank, object)) = first else { break };
            above = (rank, ObjectId(object.0 + 1));
            let Some(next) = Future::in_sight(rank) else { break };
            if self.future.is_over(object) {
                continue; // replays were left out, and the run ends before its next use
            }
            let from = self.holder(object, view).filter(|&from| from != near);
            let Some(from) = from.filter(|from| self.spill.contains(from)) else { continue };
            if self.has_moved(object) || !self.is_true(object, Place::Outside, view) {
                continue;
            }
            let bytes = view.object(object).bytes;
            let grows = self.future.growth(occurrence, next);
            let fits = step.fits(near, bytes + grows);
            if !(fits && self.begins_in_time(from, near)) {
                passed += 1;
                continue;
            }
            self.drop_stale(object, near, step);
            step.evict(object, from, near);
            self.estimate.copy_out(object, from, near, bytes, self.now.turn);
            self.moves(object);
        }
    }
}
