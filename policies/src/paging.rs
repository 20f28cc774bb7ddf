//! What policies share that page by recency: the order of uses, places outside HBM, and who leaves.
//!
//! Evictions come before fetches among the actions of an op, so that room which is made while a
//! fetch is carried out ([`crate::policy::Policy::make_room`]) never takes what an action still
//! names.
//! Invariant: an object that the op in question uses is never evicted for it; and where no tier has
//! room for what must leave, copies outside of objects that are in HBM too are given up first.

use crate::policy::Action;
use crate::state::remember;
use crate::step::Step;
use crate::view::View;
use std::collections::BTreeSet;
use tiersim_models::hardware::HBM;
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

remember! {
    // When each was used does not matter.
    Recency { order: second } skip { last, uses };
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

    /// The object is listed no more.
    pub(crate) fn remove(&mut self, object: ObjectId) {
        let last = std::mem::take(&mut self.last[object.index()]);
        self.order.remove(&(last, object));
    }

    /// Takes objects off the old end of the list that are in HBM no more; before the op's own are
    /// touched, which are not there yet.
    pub(crate) fn forget_absent(&mut self, view: &View<'_>) {
        while let Some(&(_, object)) = self.order.first()
            && !view.is_allocated(object, HBM)
        {
            self.remove(object);
        }
    }

    /// The object that was used longest ago first.
    pub(crate) fn oldest_first(&self) -> impl DoubleEndedIterator<Item = ObjectId> {
        self.order.iter().map(|&(_, object)| object)
    }
}

/// The first of these tiers where an object has room or can have it.
pub(crate) fn home(step: &Step<'_>, object: ObjectId, spill: &[TierId]) -> Option<TierId> {
    let owned = spill.iter().find(|&&tier| step.is_allocated(object, tier));
    let roomy = || spill.iter().find(|&&tier| step.fits(tier, step.room_of(object, tier)));
    owned.or_else(roomy).copied()
}

/// Takes an object out of HBM; `false` if it was not there, or no tier has room for it.
pub(crate) fn evict(step: &mut Step<'_>, object: ObjectId, spill: &[TierId]) -> bool {
    let to = if step.stays_in_hbm(object) { home(step, object, spill) } else { None };
    to.inspect(|&to| step.take_first(Action::Evict { object, from: HBM, to })).is_some()
}

/// As [`evict`], but only where the object has room already, or where the tier could still take all
/// of HBM: for what leaves although nothing else needs its room.
pub(crate) fn evict_roomy(step: &mut Step<'_>, object: ObjectId, spill: &[TierId]) -> bool {
    let margin = step.view().capacity(HBM).most().get().saturating_add(step.bytes(object).get());
    let roomy =
        |&tier: &TierId| step.is_allocated(object, tier) || step.fits(tier, Bytes::new(margin));
    let tier = spill.iter().copied().find(roomy);
    tier.is_some_and(|tier| evict(step, object, &[tier]))
}

/// Evicts the first of these that a tier has room for; which one it was.
pub(crate) fn evict_one(
    step: &mut Step<'_>,
    candidates: impl IntoIterator<Item = ObjectId>,
    spill: &[TierId],
) -> Option<ObjectId> {
    candidates.into_iter().find(|&object| !step.is_used(object) && evict(step, object, spill))
}

/// Gives up one copy outside of an object that stays in HBM and that the op does not use, the one
/// used last first.
fn drop_one(step: &mut Step<'_>, recency: &Recency, spill: &[TierId]) -> bool {
    let stays = |object: &ObjectId| {
        step.stays_in_hbm(*object) && step.view().in_hbm(*object) && !step.is_used(*object)
    };
    let copy = |object: ObjectId| {
        let tier = spill.iter().find(|&&tier| step.is_allocated(object, tier));
        tier.map(|&tier| Action::Drop { object, tier })
    };
    let found = recency.oldest_first().rev().filter(stays).find_map(copy);
    found.inspect(|&copy| step.take_first(copy)).is_some()
}

/// Evicts what was used longest ago until HBM has `need` free, and gives up copies outside where
/// nothing can leave otherwise. Objects of `last` go only if nothing else can, in their order.
pub(crate) fn free_up(
    step: &mut Step<'_>,
    need: Bytes,
    recency: &mut Recency,
    last: &[ObjectId],
    spill: &[TierId],
) {
    while !step.has_free(HBM, need) {
        let others = recency.oldest_first().filter(|object| !last.contains(object));
        match evict_one(step, others.chain(last.iter().copied()), spill) {
            Some(object) => recency.remove(object),
            None if drop_one(step, recency, spill) => {}
            // The ledger will say what does not fit.
            None => break,
        }
    }
}

/// Prefetches to HBM what may be on its way there already: its room then counts for each who asked.
pub(crate) fn prefetch_again(step: &mut Step<'_>, object: ObjectId) {
    if step.is_allocated(object, HBM) {
        step.reserve(HBM, step.bytes(object));
    }
    step.prefetch(object, HBM);
}

/// Where an object that exists before the first op starts outside HBM. With no room anywhere it is
/// the last of the tiers, and the ledger says that it is full.
pub(crate) fn outside(object: ObjectId, spill: &[TierId], view: &View<'_>) -> TierId {
    home(&Step::new(view), object, spill).unwrap_or_else(|| *spill.last().unwrap_or(&HBM))
}

/// What leaves a tier in which nothing fits: of HBM the object used longest ago, of others a copy
/// of what is in HBM too.
pub(crate) fn make_room(
    recency: &mut Recency,
    tier: TierId,
    spill: &[TierId],
    view: &View<'_>,
) -> Option<Action> {
    let mut step = Step::new(view);
    if tier == HBM {
        let gone = evict_one(&mut step, recency.oldest_first(), spill)?;
        recency.remove(gone);
    } else {
        drop_one(&mut step, recency, &[tier]);
    }
    step.actions().first().copied()
}
