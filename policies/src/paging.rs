//! What policies share that page by recency: the order of uses, places outside HBM, and an account
//! of what the actions for one op change.
//!
//! Evictions come before fetches among the actions of an op, so that room which is made while a
//! fetch is carried out ([`crate::policy::Policy::make_room`]) never takes what an action still
//! names.
//! Invariant: an object that the op in question uses is never evicted for it; and where no tier has
//! room for what must leave, copies outside of objects that are in HBM too are given up first.

use crate::policy::Action;
use crate::state::State;
use crate::view::View;
use std::collections::BTreeSet;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Objects in the order of their last use.
#[derive(Debug)]
pub(crate) struct Recency {
    /// By object: the number of its last use; 0 if it is not listed.
    last: Vec<u64>,
    order: BTreeSet<(u64, ObjectId)>,
    uses: u64,
}

impl Recency {
    /// Nothing was used so far.
    pub(crate) fn new(objects: usize) -> Recency {
        Recency { last: vec![0; objects], order: BTreeSet::new(), uses: 0 }
    }

    /// The object is the last that was used.
    pub(crate) fn touch(&mut self, object: ObjectId) {
        self.remove(object);
        self.uses += 1;
        self.last[object.index()] = self.uses;
        self.order.insert((self.uses, object));
    }

    /// Writes the order: when each was used does not matter.
    pub(crate) fn state(&self, out: &mut State) {
        let Recency { last: _, order, uses: _ } = self;
        out.list(order, |out, &(_, object)| out.object(object));
    }

    /// The object is listed no more.
    pub(crate) fn remove(&mut self, object: ObjectId) {
        let last = std::mem::take(&mut self.last[object.index()]);
        self.order.remove(&(last, object));
    }

    /// Takes objects off the old end of the list that are in HBM no more; before the op's own are
    /// touched, which are not there yet.
    pub(crate) fn forget_absent(&mut self, view: &View<'_>) {
        while let Some(&(_, object)) = self.order.first()
            && !view.has_room(object, HBM)
        {
            self.remove(object);
        }
    }

    /// The object that was used longest ago first.
    pub(crate) fn oldest_first(&self) -> impl DoubleEndedIterator<Item = ObjectId> {
        self.order.iter().map(|&(_, object)| object)
    }
}

/// What the actions for one op change, in planning order.
pub(crate) struct Change<'v, 'a> {
    pub(crate) view: &'v View<'a>,
    /// Bytes of HBM that are free, with those of what leaves.
    pub(crate) free: Bytes,
    /// What leaves, in order.
    pub(crate) leaving: Vec<Action>,
    gone: BTreeSet<ObjectId>,
    claimed: [Bytes; MAX_TIERS],
    freed: [Bytes; MAX_TIERS],
    dropped: BTreeSet<(ObjectId, TierId)>,
}

impl<'v, 'a> Change<'v, 'a> {
    /// Nothing so far.
    pub(crate) fn new(view: &'v View<'a>) -> Change<'v, 'a> {
        Change {
            view,
            free: view.free(HBM),
            leaving: Vec::new(),
            gone: BTreeSet::new(),
            claimed: [Bytes::ZERO; MAX_TIERS],
            freed: [Bytes::ZERO; MAX_TIERS],
            dropped: BTreeSet::new(),
        }
    }

    /// Bytes of HBM that the op needs and has not: of what it fetches and of what it creates.
    pub(crate) fn need(&self) -> Bytes {
        let missing = self.view.uses().iter().filter(|t| !self.view.has_room(t.object, HBM));
        missing.map(|touched| self.view.object(touched.object).bytes).sum()
    }

    /// Bytes of what the op creates.
    pub(crate) fn born(&self) -> Bytes {
        let new = self.view.uses().iter().filter(|touched| !self.view.exists(touched.object));
        new.map(|touched| self.view.object(touched.object).bytes).sum()
    }

    /// Takes room in a tier outside HBM for an object that has none there.
    pub(crate) fn claim(&mut self, object: ObjectId, tier: TierId) {
        self.claimed[tier.index()] += self.view.object(object).bytes;
    }

    /// Whether the op uses an object.
    pub(crate) fn uses(&self, object: ObjectId) -> bool {
        uses(self.view, object)
    }

    /// Whether an object has room in HBM after the actions so far.
    pub(crate) fn in_hbm(&self, object: ObjectId) -> bool {
        self.view.has_room(object, HBM) && !self.gone.contains(&object)
    }

    /// The first of these tiers where an object has room or can have it.
    pub(crate) fn home(&self, object: ObjectId, spill: &[TierId]) -> Option<TierId> {
        let bytes = self.view.object(object).bytes;
        let owned = |&&tier: &&TierId| self.owns(object, tier);
        let roomy = |&&tier: &&TierId| {
            let need = (self.claimed[tier.index()] + bytes).get();
            let freed = self.freed[tier.index()].get();
            self.view.fits(tier, Bytes::new(need.saturating_sub(freed)))
        };
        spill.iter().find(owned).or_else(|| spill.iter().find(roomy)).copied()
    }

    fn owns(&self, object: ObjectId, tier: TierId) -> bool {
        self.view.has_room(object, tier) && !self.dropped.contains(&(object, tier))
    }

    /// Takes an object out of HBM; `false` if it is not there, or no tier has room for it.
    pub(crate) fn evict(&mut self, object: ObjectId, spill: &[TierId]) -> bool {
        if !self.in_hbm(object) {
            return false;
        }
        let Some(to) = self.home(object, spill) else { return false };
        if !self.owns(object, to) {
            self.claim(object, to);
        }
        self.leaving.push(Action::Evict { object, from: HBM, to });
        self.gone.insert(object);
        self.free += self.view.object(object).bytes;
        true
    }

    /// As [`Change::evict`], but only where the object has room already, or where the tier could
    /// still take all of HBM: for what leaves although nothing else needs its room.
    pub(crate) fn evict_roomy(&mut self, object: ObjectId, spill: &[TierId]) -> bool {
        let view = self.view;
        let margin = view.capacity(HBM).get().saturating_add(view.object(object).bytes.get());
        let roomy = |&tier: &TierId| {
            let need = self.claimed[tier.index()].get().saturating_add(margin);
            self.owns(object, tier) || view.fits(tier, Bytes::new(need))
        };
        let tier = spill.iter().copied().find(roomy);
        tier.is_some_and(|tier| self.evict(object, &[tier]))
    }

    /// Evicts the first of these that a tier has room for; which one it was.
    pub(crate) fn evict_one(
        &mut self,
        candidates: impl IntoIterator<Item = ObjectId>,
        spill: &[TierId],
    ) -> Option<ObjectId> {
        candidates.into_iter().find(|&object| !self.uses(object) && self.evict(object, spill))
    }

    /// Gives up one copy outside of an object that stays in HBM and that the op does not use, the
    /// one used last first.
    pub(crate) fn drop_one(&mut self, recency: &Recency, spill: &[TierId]) -> bool {
        let stays = |object: &ObjectId| {
            self.in_hbm(*object) && self.view.in_hbm(*object) && !self.uses(*object)
        };
        let copy = |object: ObjectId| {
            let tier = spill.iter().find(|&&tier| self.owns(object, tier));
            tier.map(|&tier| (object, tier))
        };
        let Some((object, tier)) = recency.oldest_first().rev().filter(stays).find_map(copy) else {
            return false;
        };
        self.give_up(object, tier);
        true
    }

    /// Gives up a copy outside of an object that is in HBM too.
    pub(crate) fn give_up(&mut self, object: ObjectId, tier: TierId) {
        self.leaving.push(Action::Drop { object, tier });
        self.dropped.insert((object, tier));
        self.freed[tier.index()] += self.view.object(object).bytes;
    }

    /// Evicts what was used longest ago until `need` is free, and gives up copies outside where
    /// nothing can leave otherwise. Objects of `last` go only if nothing else can, in their order.
    pub(crate) fn make_room(
        &mut self,
        need: Bytes,
        recency: &mut Recency,
        last: &[ObjectId],
        spill: &[TierId],
    ) {
        while self.free < need {
            let others = recency.oldest_first().filter(|object| !last.contains(object));
            match self.evict_one(others.chain(last.iter().copied()), spill) {
                Some(object) => recency.remove(object),
                None if self.drop_one(recency, spill) => {}
                // The ledger will say what does not fit.
                None => break,
            }
        }
    }
}

/// Whether the op that is planned uses an object.
pub(crate) fn uses(view: &View<'_>, object: ObjectId) -> bool {
    view.uses().iter().any(|touched| touched.object == object)
}

/// Where an object that exists before the first op starts outside HBM. With no room anywhere it is
/// the last of the tiers, and the ledger says that it is full.
pub(crate) fn outside(object: ObjectId, spill: &[TierId], view: &View<'_>) -> TierId {
    let home = Change::new(view).home(object, spill);
    home.unwrap_or_else(|| *spill.last().unwrap_or(&HBM))
}

/// What leaves a tier in which nothing fits: of HBM the object used longest ago, of others a copy
/// of what is in HBM too.
pub(crate) fn make_room(
    recency: &mut Recency,
    tier: TierId,
    spill: &[TierId],
    view: &View<'_>,
) -> Option<Action> {
    let mut change = Change::new(view);
    if tier == HBM {
        let gone = change.evict_one(recency.oldest_first(), spill)?;
        recency.remove(gone);
    } else if !change.drop_one(recency, &[tier]) {
        return None;
    }
    change.leaving.pop()
}
