//! A policy that does everything a policy may do, at random: evicts early, fetches back at once,
//! prefetches, drops, uses in place. Whatever it decides must be safe under any timing.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_policies::policy::{Action, Policy, Sight};
use tiersim_policies::view::View;

/// The policy.
#[derive(Debug)]
pub struct Chaos {
    rng: ChaCha12Rng,
    tiers: usize,
    objects: usize,
    in_place: bool,
}

impl Chaos {
    /// For a machine of so many tiers and a trace of so many objects.
    pub fn new(seed: u64, tiers: usize, objects: usize, in_place: bool) -> Chaos {
        Chaos { rng: ChaCha12Rng::seed_from_u64(seed), tiers, objects, in_place }
    }

    fn far(&mut self) -> TierId {
        TierId::at(self.rng.random_range(1..self.tiers))
    }

    /// Keeps its own account of HBM while it makes up its mind.
    fn leave(&mut self, object: ObjectId, view: &View<'_>, free: &mut Bytes) -> Action {
        *free += view.object(object).bytes;
        Action::Evict { object, from: HBM, to: self.far() }
    }
}

impl Policy for Chaos {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn sight(&self) -> Sight {
        Sight::Past
    }

    fn start(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let fits = view.free(HBM) >= view.object(object).bytes;
        if fits && self.rng.random_bool(0.5) { HBM } else { self.far() }
    }

    fn birth(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn before(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        let used = |object| view.uses().iter().any(|touched| touched.object == object);
        let mut free = view.free(HBM);
        let mut residents: Vec<ObjectId> = (0..self.objects)
            .map(ObjectId::at)
            .filter(|&object| view.has_room(object, HBM) && !used(object))
            .collect();
        // Early evictions, some fetched back in the same breath.
        residents.retain(|&object| {
            if !self.rng.random_bool(0.25) {
                return true;
            }
            actions.push(self.leave(object, view, &mut free));
            if self.rng.random_bool(0.3) && view.in_hbm(object) {
                actions.push(Action::Prefetch { object, to: HBM });
                free -= view.object(object).bytes;
                return true;
            }
            false
        });
        let mut fetches = Vec::new();
        let mut need = Bytes::ZERO;
        for touched in view.uses().iter().filter(|touched| !view.in_hbm(touched.object)) {
            let object = touched.object;
            if self.in_place && view.exists(object) && self.rng.random_bool(0.3) {
                let tier = self.far();
                actions.push(Action::InPlace { object });
                actions.push(Action::Charge { tier, bytes: view.object(object).bytes });
                continue;
            }
            if !view.has_room(object, HBM) {
                need += view.object(object).bytes;
            }
            if view.exists(object) {
                fetches.push(Action::Fetch { object, to: HBM });
            }
        }
        while free < need && !residents.is_empty() {
            let victim = residents.swap_remove(self.rng.random_range(0..residents.len()));
            actions.push(self.leave(victim, view, &mut free));
        }
        actions.append(&mut fetches);
        free = free.checked_sub(need).unwrap_or(Bytes::ZERO);
        self.prefetch_something(view, &used, free, actions);
    }
}

impl Chaos {
    fn prefetch_something(
        &mut self,
        view: &View<'_>,
        used: &impl Fn(ObjectId) -> bool,
        mut free: Bytes,
        actions: &mut Vec<Action>,
    ) {
        for object in (0..self.objects).map(ObjectId::at) {
            let bytes = view.object(object).bytes;
            let absent = view.exists(object) && !view.has_room(object, HBM) && !used(object);
            if absent && free >= bytes && self.rng.random_bool(0.2) {
                actions.push(Action::Prefetch { object, to: HBM });
                free -= bytes;
            }
            // A second copy, far away, that is good or stale.
            let (near, far) = (view.in_hbm(object), self.far());
            let mentioned = actions.iter().any(|action| match *action {
                Action::Evict { object: o, .. } | Action::Prefetch { object: o, .. } => o == object,
                _ => false,
            });
            if near && view.has_room(object, far) && !mentioned && self.rng.random_bool(0.2) {
                actions.push(Action::Drop { object, tier: far });
            }
        }
    }
}
