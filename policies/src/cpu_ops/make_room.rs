//! Room for what the op needs, in HBM and in memory of the host: who leaves, and where to.
//!
//! Invariant: nothing that the op uses leaves the tier in which it is used, and no object loses its
//! only copy.

use crate::policy::Action;
use crate::state::remember;
use crate::step::{Residency, Step};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::Unit;

/// What is known of tiers and objects whatever the op.
#[derive(Debug)]
pub(super) struct Usage {
    /// Memory of the host, in the order in which it is filled.
    pub(super) host: Vec<TierId>,
    /// The other tiers outside HBM that the policy uses.
    pub(super) outer: Vec<TierId>,
    /// By object: the op of the run that used it last, counted from 1.
    pub(super) last_used: Vec<u64>,
    /// The same for ops on the CPU only.
    pub(super) host_last: Vec<u64>,
    /// By object: whether any op on the CPU uses it.
    pub(super) for_host: Vec<bool>,
}

remember! {
    Usage { last_used: op_from_1, host_last: op_from_1 } skip { host, outer, for_host };
}

impl Usage {
    /// Every tier outside HBM that the policy uses, memory of the host first.
    fn outside(&self) -> impl Iterator<Item = TierId> + '_ {
        self.host.iter().chain(&self.outer).copied()
    }

    /// The tier of the host in which the object would be used.
    pub(super) fn in_host(&self, object: ObjectId, step: &Step<'_>) -> Option<TierId> {
        step.holders(object).into_iter().find(|tier| self.host.contains(tier))
    }

    /// The tier that an object gets which is to be created in `tier`: that one if it has room or
    /// can get some, else another outside HBM.
    pub(super) fn room_outside(
        &self,
        object: ObjectId,
        tier: TierId,
        step: &mut Step<'_>,
    ) -> TierId {
        if self.make_room(tier, step.room_of(object, tier), step) {
            return tier;
        }
        self.roomy_outside(object, step).unwrap_or(tier)
    }

    /// The first tier outside HBM with room for an object.
    pub(super) fn roomy_outside(&self, object: ObjectId, step: &Step<'_>) -> Option<TierId> {
        self.outside().find(|&tier| step.fits(tier, step.room_of(object, tier)))
    }

    /// A copy to a tier for this op, with room made if it needs any.
    pub(super) fn fetch(&self, object: ObjectId, to: TierId, step: &mut Step<'_>) {
        if step.holds(object, to) || step.nearest(object).is_none() {
            return;
        }
        if !step.is_allocated(object, to) {
            self.make_room(to, step.room_of(object, to), step);
        }
        step.fetch(object, to);
    }

    /// Takes an object out of a tier, to `to` if that can take it or else wherever there is room;
    /// nothing if there is none.
    pub(super) fn evict(
        &self,
        object: ObjectId,
        (from, to): (TierId, TierId),
        step: &mut Step<'_>,
    ) {
        let here = step.residency(object, from);
        if here == Residency::Absent || from == to {
            return;
        }
        let goes = here == Residency::Stale || step.can_enter(object, to);
        let to = if goes { Some(to) } else { self.place(object, from, Some(to), step) };
        to.into_iter().for_each(|to| step.evict(object, from, to));
    }

    /// Where an object goes that leaves a tier: where it has room, else where there is some, else
    /// where some can be made.
    fn place(
        &self,
        object: ObjectId,
        from: TierId,
        best: Option<TierId>,
        step: &mut Step<'_>,
    ) -> Option<TierId> {
        let tiers = best.into_iter().chain(self.outside());
        let tiers: Vec<TierId> = tiers.filter(|&tier| tier != from && tier != HBM).collect();
        let owned = |&&tier: &&TierId| step.is_allocated(object, tier);
        let roomy = |&&tier: &&TierId| step.fits(tier, step.room_of(object, tier));
        if let Some(&tier) = tiers.iter().find(owned).or_else(|| tiers.iter().find(roomy)) {
            return Some(tier);
        }
        // What leaves memory of the host makes no room there.
        let cleared = |tier: &TierId| self.clear(*tier, step.room_of(object, *tier), step);
        if from == HBM { tiers.into_iter().find(cleared) } else { None }
    }

    /// Makes room for so many bytes, as far as it can be made; whether it was.
    pub(super) fn make_room(&self, tier: TierId, bytes: Bytes, step: &mut Step<'_>) -> bool {
        match tier {
            HBM => self.clear_hbm(bytes, step),
            _ => self.clear(tier, bytes, step),
        }
    }

    /// Objects in a tier that the op does not use.
    fn others_in(&self, tier: TierId, step: &Step<'_>) -> Vec<ObjectId> {
        let objects = (0..self.last_used.len()).map(ObjectId::at);
        let there = |&object: &ObjectId| step.is_allocated(object, tier) && !step.is_used(object);
        objects.filter(there).collect()
    }

    /// What was used longest ago leaves HBM.
    fn clear_hbm(&self, bytes: Bytes, step: &mut Step<'_>) -> bool {
        if step.fits(HBM, bytes) || !step.view().capacity(HBM).holds(bytes) {
            return step.fits(HBM, bytes);
        }
        let mut others = self.others_in(HBM, step);
        others.sort_by_key(|object| (self.last_used[object.index()], *object));
        for object in others {
            if step.fits(HBM, bytes) {
                break;
            }
            if let Some(to) = self.place(object, HBM, None, step) {
                step.evict(object, HBM, to);
            }
        }
        step.fits(HBM, bytes)
    }

    /// Second copies go from a tier outside HBM, then what no op on the CPU uses, the longest
    /// unused first, and then what such an op used last: as these come in turn, it is needed last.
    fn clear(&self, tier: TierId, bytes: Bytes, step: &mut Step<'_>) -> bool {
        if step.fits(tier, bytes) || !step.view().capacity(tier).holds(bytes) {
            return step.fits(tier, bytes);
        }
        let mut others = self.others_in(tier, step);
        others.sort_by_key(|object| {
            let at = object.index();
            let host = self.for_host[at];
            let age = if host { 0 } else { self.last_used[at] };
            (host, age, Reverse(self.host_last[at]), *object)
        });
        for &object in &others {
            if step.fits(tier, bytes) {
                return true;
            }
            drop_spare(object, tier, step);
        }
        for object in others {
            if step.fits(tier, bytes) {
                return true;
            }
            if !step.is_allocated(object, tier) {
                continue;
            }
            // HBM takes something only if no op of the device is about to need it.
            let spare = self.host.contains(&tier) && step.view().op().unit == Unit::Cpu;
            let mut goals = self.outer.iter().chain(&self.host).copied();
            let goal = goals.find(|&goal| goal != tier && step.can_enter(object, goal));
            let goal =
                goal.or_else(|| Some(HBM).filter(|&hbm| spare && step.can_enter(object, hbm)));
            if let Some(to) = goal {
                step.evict(object, tier, to);
            }
        }
        step.fits(tier, bytes)
    }

    /// What leaves a tier in which room is in pieces: what was used longest ago, of what neither
    /// the op nor its actions name.
    pub(super) fn leaving(
        &self,
        tier: TierId,
        named: &BTreeSet<ObjectId>,
        step: &mut Step<'_>,
    ) -> Option<Action> {
        let mut objects = self.others_in(tier, step);
        objects.retain(|object| !named.contains(object));
        objects.sort_by_key(|object| (self.last_used[object.index()], *object));
        for object in objects {
            if tier != HBM && (step.nearest(object) != Some(tier) || !step.holds(object, tier)) {
                drop_spare(object, tier, step);
            } else {
                let mut goals = self.outer.iter().chain(&self.host).copied();
                let goal = goals.find(|&to| to != tier && step.can_enter(object, to));
                goal.into_iter().for_each(|to| step.evict(object, tier, to));
            }
            if let Some(&action) = step.actions().first() {
                return Some(action);
            }
        }
        None
    }

    /// The tier of the host that an object gets, with room made for it.
    pub(super) fn in_host_or_made(
        &self,
        object: ObjectId,
        far: Option<TierId>,
        step: &mut Step<'_>,
    ) -> TierId {
        let fits = |tier: &TierId, step: &Step<'_>| step.fits(*tier, step.room_of(object, *tier));
        let owned = self.host.iter().find(|&&tier| step.is_allocated(object, tier));
        let far = far.filter(|far| self.host.contains(far) && fits(far, step));
        let roomy = || self.host.iter().copied().find(|tier| fits(tier, step));
        if let Some(tier) = owned.copied().or(far).or_else(roomy) {
            return tier;
        }
        // With no room anywhere the ledger says that the first one is full.
        let mut hosts = self.host.iter();
        let made = hosts.find(|&&tier| self.make_room(tier, step.room_of(object, tier), step));
        made.copied().unwrap_or(self.host[0])
    }
}

/// A copy to a tier for later, if that leaves so many bytes there.
pub(super) fn prefetch(object: ObjectId, to: TierId, leaving: Bytes, step: &mut Step<'_>) {
    let room = step.is_allocated(object, to) || step.fits(to, step.room_of(object, to) + leaving);
    if !step.holds(object, to) && room && step.nearest(object).is_some() {
        step.prefetch(object, to);
    }
}

/// Gives up one of several copies, or room with contents of the past; never the only copy.
pub(super) fn drop_spare(object: ObjectId, tier: TierId, step: &mut Step<'_>) {
    let elsewhere = step.holders(object).into_iter().any(|other| other != tier);
    if step.is_allocated(object, tier) && elsewhere {
        step.drop_copy(object, tier);
    }
}
