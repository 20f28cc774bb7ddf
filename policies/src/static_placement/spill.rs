//! Other homes for objects whose home is full, and who leaves HBM for an op that does not fit.
//!
//! A fixed placement is made from sizes; what a run really needs is known when it is there. Least
//! recently used residents leave first, as under demand paging, and do not become residents again.
//! Invariant: without tiers to spill to nothing here changes a home.

use crate::paging::home;
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Trace};

/// Where to spill, and who is in HBM.
#[derive(Debug, Default)]
pub(super) struct Spill {
    tiers: Vec<TierId>,
    /// By object: whether it never leaves a home in HBM; none of them where it is empty.
    kept: Vec<bool>,
    /// Objects that are at home in HBM; some may be gone, or named twice.
    residents: Vec<ObjectId>,
    /// How many of them there may be before those that are gone are left out.
    limit: usize,
    /// By object: the op of the run that used it last, counted from 1.
    last_used: Vec<u64>,
}

impl Spill {
    pub(super) fn new(tiers: &[TierId], objects: usize) -> Spill {
        let tiers: Vec<TierId> = tiers.iter().copied().filter(|&tier| tier != HBM).collect();
        let last_used = if tiers.is_empty() { Vec::new() } else { vec![0; objects] };
        Spill { tiers, last_used, kept: Vec::new(), residents: Vec::new(), limit: 1024 }
    }

    pub(super) fn keep(self, kept: Vec<bool>) -> Spill {
        Spill { kept, ..self }
    }

    fn is_kept(&self, object: ObjectId) -> bool {
        self.kept.get(object.index()) == Some(&true)
    }

    pub(super) fn tiers(&self) -> &[TierId] {
        &self.tiers
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// Writes who may leave HBM. Residents that are gone are named again before they are back.
    pub(super) fn state(&self, homes: &[TierId], view: &View<'_>, out: &mut State) {
        let here = |&o: &ObjectId| homes[o.index()] == HBM && view.is_allocated(o, HBM);
        let here: BTreeSet<ObjectId> = self.residents.iter().copied().filter(here).collect();
        remember!(out, self as Spill { last_used: op_from_1 } skip { tiers, kept, residents, limit });
        here.state(out);
    }

    /// Notes the uses of an op.
    pub(super) fn touch(&mut self, view: &View<'_>) {
        if !self.is_empty() {
            for touched in view.uses() {
                self.last_used[touched.object.index()] = view.occurrence() + 1;
            }
        }
    }

    /// Where an object starts out whose home is `home`: there if it has room, HBM if nothing else
    /// has.
    pub(super) fn start(&mut self, object: ObjectId, home: TierId, view: &View<'_>) -> TierId {
        if self.is_empty() || home == HBM && self.is_kept(object) {
            return home;
        }
        let mut choice = [home].into_iter().chain(self.tiers.iter().copied()).chain([HBM]);
        let tier = choice.find(|&tier| view.fits(tier, view.room_of(object, tier))).unwrap_or(home);
        if tier == HBM {
            self.residents.push(object);
        }
        tier
    }

    /// Notes an object that is at home in HBM from now on.
    pub(super) fn settle(&mut self, object: ObjectId, homes: &[TierId], view: &View<'_>) {
        if self.is_empty() {
            return;
        }
        if self.residents.len() >= self.limit {
            self.residents.sort_unstable();
            self.residents.dedup();
            self.residents.retain(|&o| homes[o.index()] == HBM && view.is_allocated(o, HBM));
            self.limit = self.residents.len() * 2 + 1024;
        }
        self.residents.push(object);
    }

    /// Where an object goes that leaves HBM or cannot be there: where it has room, else home, else
    /// the first tier with room. `None` if all are full, and for what stays in HBM; without tiers to
    /// spill to always home.
    pub(super) fn place(
        &self,
        object: ObjectId,
        at_home: TierId,
        step: &Step<'_>,
    ) -> Option<TierId> {
        if self.is_empty() {
            return Some(at_home);
        }
        if at_home == HBM && self.is_kept(object) {
            return None;
        }
        let first = [at_home].into_iter().filter(|&tier| tier != HBM);
        let tiers: SmallVec<[TierId; MAX_TIERS]> =
            first.chain(self.tiers.iter().copied()).collect();
        home(step, object, &tiers)
    }

    /// The resident of HBM that the op does not use and that was used longest ago, with the tier
    /// that takes it.
    pub(super) fn oldest(
        &mut self,
        homes: &[TierId],
        step: &Step<'_>,
    ) -> Option<(ObjectId, TierId)> {
        if self.is_empty() {
            return None;
        }
        self.residents.retain(|&o| homes[o.index()] == HBM && step.is_allocated(o, HBM));
        let mut refused: Vec<Bytes> = Vec::new();
        loop {
            // Where an object found no room, none that is as large will find any.
            let least = refused.iter().min().copied();
            let fits = |&&object: &&ObjectId| {
                !step.is_used(object)
                    && !self.is_kept(object)
                    && least.is_none_or(|least| step.bytes(object) < least)
            };
            let candidates = self.residents.iter().filter(fits);
            let oldest = candidates.min_by_key(|object| (self.last_used[object.index()], **object));
            let &object = oldest?;
            match home(step, object, &self.tiers) {
                Some(tier) => return Some((object, tier)),
                None => refused.push(step.bytes(object)),
            }
        }
    }
}

/// The tier of each module, by module id: that of its largest weight, HBM without any.
pub(super) fn module_tiers(trace: &Trace, homes: &[TierId]) -> Vec<TierId> {
    let mut largest = vec![(Bytes::ZERO, HBM); trace.modules.len()];
    for (object, &home) in trace.objects.iter().zip(homes) {
        let Some(module) = object.module.filter(|_| object.kind == ObjectKind::Weight) else {
            continue;
        };
        if object.bytes > largest[module.index()].0 {
            largest[module.index()] = (object.bytes, home);
        }
    }
    largest.into_iter().map(|(_, home)| home).collect()
}
