//! The actions for one op while they are made up, and what the ledger will hold after them.
//!
//! Every action is checked and its effect noted before the next one, as the planner will carry them
//! out in this order. In a tier that is not exact, what fits is an estimate: there the planner asks
//! for more room itself.
//! Invariant: nothing that the op uses leaves the tier in which it is used, and no object loses its
//! only copy.

use crate::policy::Action;
use crate::view::View;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::Unit;

/// What is known of tiers and objects whatever the op.
#[derive(Debug)]
pub(super) struct Ground {
    /// Memory of the host, in the order in which it is filled.
    pub(super) host: Vec<TierId>,
    /// The other tiers outside HBM that the policy uses.
    pub(super) beyond: Vec<TierId>,
    /// How many tiers there are: others than the policy may have put an object anywhere.
    pub(super) tiers: usize,
    /// By object: the op of the run that used it last, counted from 1.
    pub(super) last_used: Vec<u64>,
    /// The same for ops on the host's processors only.
    pub(super) host_last: Vec<u64>,
    /// By object: whether any op on the host's processors uses it.
    pub(super) for_host: Vec<bool>,
}

impl Ground {
    /// Every tier outside HBM that the policy uses, memory of the host first.
    fn outside(&self) -> impl Iterator<Item = TierId> + '_ {
        self.host.iter().chain(&self.beyond).copied()
    }
}

/// What a tier has of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No room.
    Absent,
    /// Room with contents of the past.
    Stale,
    /// Its contents.
    Valid,
}

/// Actions, and what they make of the ledger.
pub(super) struct Draft<'v, 'a> {
    pub(super) view: &'v View<'a>,
    ground: &'v Ground,
    pub(super) actions: Vec<Action>,
    changed: BTreeMap<(ObjectId, TierId), Held>,
    /// By tier: bytes taken less bytes given back.
    taken: [i128; MAX_TIERS],
}

impl<'v, 'a> Draft<'v, 'a> {
    pub(super) fn new(view: &'v View<'a>, ground: &'v Ground) -> Draft<'v, 'a> {
        let (actions, changed) = (Vec::new(), BTreeMap::new());
        Draft { view, ground, actions, changed, taken: [0; MAX_TIERS] }
    }

    pub(super) fn bytes(&self, object: ObjectId) -> Bytes {
        self.view.object(object).bytes
    }

    pub(super) fn is_used(&self, object: ObjectId) -> bool {
        self.view.uses().iter().any(|touched| touched.object == object)
    }

    pub(super) fn held(&self, object: ObjectId, tier: TierId) -> Held {
        match self.changed.get(&(object, tier)) {
            Some(&held) => held,
            None if self.view.holds(object, tier) => Held::Valid,
            None if self.view.has_room(object, tier) => Held::Stale,
            None => Held::Absent,
        }
    }

    fn set(&mut self, object: ObjectId, tier: TierId, held: Held) {
        let bytes = i128::from(self.bytes(object).get());
        match (self.held(object, tier) == Held::Absent, held == Held::Absent) {
            (true, false) => self.taken[tier.index()] += bytes,
            (false, true) => self.taken[tier.index()] -= bytes,
            _ => {}
        }
        self.changed.insert((object, tier), held);
    }

    /// Tiers with its contents, the lowest first.
    fn holders(&self, object: ObjectId) -> impl Iterator<Item = TierId> + '_ {
        let valid = move |tier: &TierId| self.held(object, *tier) == Held::Valid;
        (0..self.ground.tiers).map(TierId::at).filter(valid)
    }

    pub(super) fn nearest(&self, object: ObjectId) -> Option<TierId> {
        self.holders(object).next()
    }

    /// The tier of the host in which the object would be used.
    pub(super) fn in_host(&self, object: ObjectId) -> Option<TierId> {
        self.holders(object).find(|tier| self.ground.host.contains(tier))
    }

    /// Whether so many more bytes can be taken of a tier.
    pub(super) fn fits(&self, tier: TierId, bytes: Bytes) -> bool {
        let need = self.taken[tier.index()] + i128::from(bytes.get());
        need <= 0 || u64::try_from(need).is_ok_and(|need| self.view.fits(tier, Bytes::new(need)))
    }

    fn can_enter(&self, object: ObjectId, tier: TierId) -> bool {
        self.held(object, tier) != Held::Absent || self.fits(tier, self.bytes(object))
    }

    /// Takes room for what the op creates.
    pub(super) fn bear(&mut self, object: ObjectId, tier: TierId) {
        self.set(object, tier, Held::Valid);
    }

    /// The tier that an object gets which is to be created in `tier`: that one if it has room or
    /// can get some, else another outside HBM.
    pub(super) fn room_outside(&mut self, object: ObjectId, tier: TierId) -> TierId {
        if self.make_room(tier, self.bytes(object)) {
            return tier;
        }
        self.roomy_outside(object).unwrap_or(tier)
    }

    /// The first tier outside HBM with room for an object.
    pub(super) fn roomy_outside(&self, object: ObjectId) -> Option<TierId> {
        self.ground.outside().find(|&tier| self.fits(tier, self.bytes(object)))
    }

    /// A copy to a tier for this op, with room made if it needs any.
    pub(super) fn fetch(&mut self, object: ObjectId, to: TierId) {
        let there = self.held(object, to);
        if there == Held::Valid || self.nearest(object).is_none() {
            return;
        }
        if there == Held::Absent {
            self.make_room(to, self.bytes(object));
        }
        self.actions.push(Action::Fetch { object, to });
        self.set(object, to, Held::Valid);
    }

    /// A copy to a tier for later, if that leaves so many bytes there.
    pub(super) fn prefetch(&mut self, object: ObjectId, to: TierId, leaving: Bytes) {
        let there = self.held(object, to);
        let room = there == Held::Stale || self.fits(to, self.bytes(object) + leaving);
        if there != Held::Valid && room && self.nearest(object).is_some() {
            self.actions.push(Action::Prefetch { object, to });
            self.set(object, to, Held::Valid);
        }
    }

    /// Takes an object out of a tier, to `to` if that can take it or else wherever there is room;
    /// `false` if there is none.
    pub(super) fn evict(&mut self, object: ObjectId, from: TierId, to: TierId) -> bool {
        if self.held(object, from) == Held::Absent || from == to {
            return false;
        }
        let needless = self.held(object, from) == Held::Stale;
        let to = if needless || self.can_enter(object, to) {
            to
        } else {
            let Some(other) = self.place(object, from, Some(to)) else { return false };
            other
        };
        self.actions.push(Action::Evict { object, from, to });
        self.set(object, from, Held::Absent);
        if !needless {
            self.set(object, to, Held::Valid);
        }
        true
    }

    /// Gives up one of several copies, or room with contents of the past.
    pub(super) fn drop_copy(&mut self, object: ObjectId, tier: TierId) {
        let elsewhere = self.holders(object).any(|other| other != tier);
        if self.held(object, tier) != Held::Absent && elsewhere {
            self.actions.push(Action::Drop { object, tier });
            self.set(object, tier, Held::Absent);
        }
    }

    /// Where an object goes that leaves a tier: where it has room, else where there is some, else
    /// where some can be made.
    fn place(&mut self, object: ObjectId, from: TierId, best: Option<TierId>) -> Option<TierId> {
        let tiers = best.into_iter().chain(self.ground.outside());
        let tiers: Vec<TierId> = tiers.filter(|&tier| tier != from && tier != HBM).collect();
        let owned = |&&tier: &&TierId| self.held(object, tier) != Held::Absent;
        let roomy = |&&tier: &&TierId| self.fits(tier, self.bytes(object));
        if let Some(&tier) = tiers.iter().find(owned).or_else(|| tiers.iter().find(roomy)) {
            return Some(tier);
        }
        // What leaves memory of the host makes no room there.
        let bytes = self.bytes(object);
        (from == HBM).then(|| tiers.into_iter().find(|&tier| self.clear(tier, bytes)))?
    }

    /// Makes room for so many bytes, as far as it can be made; whether it was.
    pub(super) fn make_room(&mut self, tier: TierId, bytes: Bytes) -> bool {
        match tier {
            HBM => self.clear_hbm(bytes),
            _ => self.clear(tier, bytes),
        }
    }

    /// Objects in a tier that the op does not use.
    fn others_in(&self, tier: TierId) -> Vec<ObjectId> {
        let objects = (0..self.ground.last_used.len()).map(ObjectId::at);
        let there =
            |&object: &ObjectId| self.held(object, tier) != Held::Absent && !self.is_used(object);
        objects.filter(there).collect()
    }

    /// What was used longest ago leaves HBM.
    fn clear_hbm(&mut self, bytes: Bytes) -> bool {
        if self.fits(HBM, bytes) || bytes > self.view.capacity(HBM) {
            return self.fits(HBM, bytes);
        }
        let mut others = self.others_in(HBM);
        others.sort_by_key(|object| (self.ground.last_used[object.index()], *object));
        for object in others {
            if self.fits(HBM, bytes) {
                break;
            }
            if let Some(to) = self.place(object, HBM, None) {
                self.evict(object, HBM, to);
            }
        }
        self.fits(HBM, bytes)
    }

    /// Second copies go from a tier outside HBM, then what no op on the host uses, the longest
    /// unused first, and then what such an op used last: as these come in turn, it is needed last.
    fn clear(&mut self, tier: TierId, bytes: Bytes) -> bool {
        if self.fits(tier, bytes) || bytes > self.view.capacity(tier) {
            return self.fits(tier, bytes);
        }
        let mut others = self.others_in(tier);
        let ground = self.ground;
        others.sort_by_key(|object| {
            let at = object.index();
            let host = ground.for_host[at];
            let age = if host { 0 } else { ground.last_used[at] };
            (host, age, Reverse(ground.host_last[at]), *object)
        });
        for &object in &others {
            if self.fits(tier, bytes) {
                return true;
            }
            self.drop_copy(object, tier);
        }
        for object in others {
            if self.fits(tier, bytes) {
                return true;
            }
            if self.held(object, tier) == Held::Absent {
                continue;
            }
            // HBM takes something only if no op of the device is about to need it.
            let spare = ground.host.contains(&tier) && self.view.op().unit == Unit::Cpu;
            let mut goals = ground.beyond.iter().chain(&ground.host).copied();
            let goal = goals.find(|&goal| goal != tier && self.can_enter(object, goal));
            let goal =
                goal.or_else(|| Some(HBM).filter(|&hbm| spare && self.can_enter(object, hbm)));
            if let Some(to) = goal {
                self.evict(object, tier, to);
            }
        }
        self.fits(tier, bytes)
    }
}
