//! Who leaves and where to, when the plan has not said so.
//!
//! The object goes that is used last. Where no spill tier has room for any, copies there are given
//! up whose objects are in HBM too.
//! Invariant: what the op in question uses stays.

use super::PlannedMigration;
use crate::policy::Action;
use crate::view::View;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// What actions of this op take of the spill tiers, and give back there.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) taken: [Bytes; MAX_TIERS],
    pub(super) given: [Bytes; MAX_TIERS],
    /// Whose copies there are given up by now.
    dropped: Vec<ObjectId>,
}

impl Claims {
    /// Whether an object still has room in a tier.
    pub(super) fn has_room(&self, object: ObjectId, tier: TierId, view: &View<'_>) -> bool {
        view.has_room(object, tier) && !self.dropped.contains(&object)
    }

    pub(super) fn fits(&self, tier: TierId, bytes: Bytes, view: &View<'_>) -> bool {
        let need = self.taken[tier.index()].get().saturating_add(bytes.get());
        view.fits(tier, Bytes::new(need.saturating_sub(self.given[tier.index()].get())))
    }
}

impl PlannedMigration {
    /// Where an object goes: where it has room already, or where it is planned, or where it fits.
    pub(super) fn home(
        &self,
        object: ObjectId,
        planned: Option<TierId>,
        claims: &Claims,
        view: &View<'_>,
    ) -> Option<TierId> {
        let bytes = view.object(object).bytes;
        let owned = self.spill.iter().find(|&&tier| claims.has_room(object, tier, view)).copied();
        let mut order = planned.into_iter().chain(self.spill.iter().copied());
        owned.or_else(|| order.find(|&tier| claims.fits(tier, bytes, view)))
    }

    /// The object in HBM that is used last, of those that this op does not use and that have
    /// somewhere to go.
    pub(super) fn victim(
        &mut self,
        view: &View<'_>,
        claims: &Claims,
    ) -> Option<(ObjectId, TierId)> {
        let used = |object: ObjectId| view.uses().iter().any(|touched| touched.object == object);
        let mut gone = Vec::new();
        let mut found = None;
        for &(key, object) in self.inside.iter().rev() {
            if !view.has_room(object, HBM) {
                gone.push((key, object));
            } else if !used(object)
                && let Some(to) = self.home(object, None, claims, view)
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
            let own = self.spill.iter().find(|&&tier| view.has_room(object, tier));
            own.map(|&tier| (object, tier))
        })
    }

    /// Gives up copies in spill tiers, if only so the object that is used last has somewhere to go.
    pub(super) fn reclaim(
        &mut self,
        claims: &mut Claims,
        view: &View<'_>,
        actions: &mut Vec<Action>,
    ) -> Option<(ObjectId, TierId)> {
        for (object, tier) in self.spare(view).collect::<Vec<_>>() {
            if !claims.has_room(object, tier, view) {
                continue;
            }
            actions.push(Action::Drop { object, tier });
            claims.dropped.push(object);
            claims.given[tier.index()] += view.object(object).bytes;
            if let Some(found) = self.victim(view, claims) {
                return Some(found);
            }
        }
        None
    }
}
