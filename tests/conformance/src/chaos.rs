//! A policy that does everything a policy may do, at random: evicts early, fetches back at once,
//! prefetches, drops, uses in place. Whatever it decides must be safe under any timing.

use crate::prelude::*;

/// The policy.
#[derive(Debug)]
pub struct Chaos {
    rng: ChaCha12Rng,
    tiers: usize,
    objects: usize,
    in_place: bool,
    /// Between far tiers too, and with room in pieces.
    everywhere: bool,
    /// What later actions before the same op count on.
    promised: Vec<ObjectId>,
}

impl Chaos {
    /// For a machine of so many tiers and a trace of so many objects.
    pub fn new(seed: u64, tiers: usize, objects: usize, in_place: bool) -> Chaos {
        let (rng, promised) = (ChaCha12Rng::seed_from_u64(seed), Vec::new());
        Chaos { rng, tiers, objects, in_place, everywhere: false, promised }
    }

    /// Moves objects between far tiers as well, bears some there, prefers tiers with room, and
    /// makes room where a tier is in pieces. Works on a machine of one tier, too.
    pub fn everywhere(self) -> Chaos {
        Chaos { everywhere: true, ..self }
    }

    fn far(&mut self) -> TierId {
        TierId::at(self.rng.random_range(1..self.tiers))
    }

    /// A far tier that can take the object, if that matters and there is one.
    fn far_for(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let mut far = self.far();
        for _ in 0..if self.everywhere { 6 } else { 0 } {
            if view.is_allocated(object, far) || view.fits(far, view.object(object).bytes) {
                break;
            }
            far = self.far();
        }
        far
    }

    /// Keeps its own account of HBM while it makes up its mind.
    fn leave(&mut self, object: ObjectId, view: &View<'_>, free: &mut Bytes) -> Action {
        *free += view.object(object).bytes;
        Action::Evict { object, from: HBM, to: self.far_for(object, view) }
    }
}

impl Policy for Chaos {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn lookahead(&self) -> Lookahead {
        Lookahead::Past
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        if self.tiers == 1 {
            return HBM;
        }
        let fits = view.free(HBM) >= view.object(object).bytes;
        if fits && self.rng.random_bool(0.5) { HBM } else { self.far_for(object, view) }
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let away = self.everywhere && self.tiers > 1 && self.rng.random_bool(0.2);
        if away { self.far_for(object, view) } else { HBM }
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let mut actions = Vec::new();
        self.decide(&step.view(), &mut actions);
        actions.into_iter().for_each(|action| step.take(action));
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let used = |object| view.uses().iter().any(|touched| touched.object == object);
        let leaves = |object: &ObjectId| {
            view.is_allocated(*object, HBM) && !used(*object) && !self.promised.contains(object)
        };
        let mut victims = (0..self.objects).map(ObjectId::at).filter(leaves);
        let object = victims.next().filter(|_| self.everywhere && self.tiers > 1 && tier == HBM)?;
        Some(Action::Evict { object, from: HBM, to: self.far_for(object, view) })
    }
}

impl Chaos {
    fn decide(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        if self.tiers == 1 {
            return;
        }
        // Not drawn: a draw more would make every other decision another one.
        if self.everywhere && view.occurrence() % 5 == 3 {
            let span = Span::from_ps(1000 * (view.occurrence() % 997));
            actions.push(Action::Delay { span });
        }
        let used = |object| view.uses().iter().any(|touched| touched.object == object);
        let mut free = view.free(HBM);
        let mut residents: Vec<ObjectId> = (0..self.objects)
            .map(ObjectId::at)
            .filter(|&object| view.is_allocated(object, HBM) && !used(object))
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
                // Where room is in pieces a prefetch may be given up, and then there is no victim.
                return !self.everywhere;
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
            if !view.is_allocated(object, HBM) {
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
        if self.everywhere {
            self.move_far(view, &used, actions);
        }
    }

    fn prefetch_something(
        &mut self,
        view: &View<'_>,
        used: &impl Fn(ObjectId) -> bool,
        mut free: Bytes,
        actions: &mut Vec<Action>,
    ) {
        for object in (0..self.objects).map(ObjectId::at) {
            let bytes = view.object(object).bytes;
            let absent = view.exists(object) && !view.is_allocated(object, HBM) && !used(object);
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
            if near && view.is_allocated(object, far) && !mentioned && self.rng.random_bool(0.2) {
                actions.push(Action::Drop { object, tier: far });
            }
        }
    }

    /// One object more in, or from, a far tier; notes what the actions so far count on.
    fn move_far(
        &mut self,
        view: &View<'_>,
        used: &impl Fn(ObjectId) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let named = |action: &Action| match *action {
            Action::Evict { object, .. }
            | Action::Fetch { object, .. }
            | Action::Prefetch { object, .. }
            | Action::Drop { object, .. }
            | Action::InPlace { object } => Some(object),
            Action::Charge { .. } | Action::Delay { .. } => None,
        };
        self.promised.clear();
        self.promised.extend(actions.iter().filter_map(named));
        let object = ObjectId::at(self.rng.random_range(0..self.objects));
        let (from, to) = (self.far(), self.far_for(object, view));
        if used(object) || self.promised.contains(&object) || !view.exists(object) || from == to {
            return;
        }
        let fits = view.is_allocated(object, to) || view.fits(to, view.object(object).bytes);
        if view.is_allocated(object, from) && self.rng.random_bool(0.5) {
            actions.push(Action::Evict { object, from, to });
        } else if fits && self.rng.random_bool(0.5) {
            actions.push(Action::Prefetch { object, to });
        }
        self.promised.push(object);
    }
}
