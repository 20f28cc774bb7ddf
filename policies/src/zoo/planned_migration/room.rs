//! Who leaves and where to, when the plan has not said so.
//!
//! The object goes that is used last. Where no spill tier has room for any, copies there are given
//! up whose objects are in HBM too.
//! Invariant: what the op in question uses stays.

use super::PlannedMigration;
use crate::step::Step;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};

impl PlannedMigration {
    /// Where an object goes: where it has room already, or where it is planned, or where it fits.
    pub(super) fn home(
        &self,
        object: ObjectId,
        planned: Option<TierId>,
        step: &Step<'_>,
    ) -> Option<TierId> {
        // A copy that has only just been decided is not counted upon.
        let kept = |&tier: &TierId| {
            step.view().is_allocated(object, tier) && step.is_allocated(object, tier)
        };
        let owned = self.spill.iter().copied().find(kept);
        let mut order = planned.into_iter().chain(self.spill.iter().copied());
        owned.or_else(|| order.find(|&tier| step.fits(tier, step.bytes(object))))
    }

    /// The object in HBM that is used last, of those that this op does not use and that have
    /// somewhere to go.
    pub(super) fn victim(&mut self, step: &Step<'_>) -> Option<(ObjectId, TierId)> {
        let mut gone = Vec::new();
        let mut found = None;
        for &(key, object) in self.inside.iter().rev() {
            if !step.is_allocated(object, HBM) {
                gone.push((key, object));
            } else if !step.is_used(object)
                && let Some(to) = self.home(object, None, step)
            {
                found = Some((object, to));
                break;
            }
        }
        for (_, object) in gone {
            self.note(object, None);
        }
        found
    }

    /// Copies in spill tiers whose objects are in HBM too: what can be given up to make room there.
    pub(super) fn spare<'a>(
        &'a self,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = (ObjectId, TierId)> + 'a {
        let inside = self.inside.iter().map(|&(_, object)| object);
        inside.filter(|&object| view.in_hbm(object)).filter_map(|object| {
            let own = self.spill.iter().find(|&&tier| view.is_allocated(object, tier));
            own.map(|&tier| (object, tier))
        })
    }

    /// Gives up copies in spill tiers, if only so the object that is used last has somewhere to go.
    pub(super) fn reclaim(&mut self, step: &mut Step<'_>) -> Option<(ObjectId, TierId)> {
        let view = step.view();
        let spare: Vec<_> =
            self.spare(&view).filter(|&(object, tier)| step.is_allocated(object, tier)).collect();
        spare.into_iter().find_map(|(object, tier)| {
            step.drop_copy(object, tier);
            self.victim(step)
        })
    }
}
