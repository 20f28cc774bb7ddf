//! Homes that change during a run, and the moves that follow from that.
//!
//! What leaves HBM goes before what comes, so that its room can be taken. An object moves while no
//! op uses it, and has its new home only when it is there as a whole: until then every op finds it
//! where it was. What finds no room waits; a move that is not done when homes change again is
//! given up, or goes on to another place.
//! Invariant: an object has a copy at its home at all times, and none elsewhere once it has
//! settled.

use super::StaticPlacement;
use crate::access::Access;
use crate::step::Step;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::workload::{ObjectKind, Trace};

impl StaticPlacement {
    /// Gives modules, and with them their objects of these kinds, other homes: from the next op on
    /// objects move there.
    pub(crate) fn rehome(&mut self, modules: Vec<TierId>, kinds: &[ObjectKind], trace: &Trace) {
        let before = std::mem::take(&mut self.moving);
        for (index, object) in trace.objects.iter().enumerate() {
            let Some(module) = object.module.filter(|_| kinds.contains(&object.kind)) else {
                continue;
            };
            let (object, home) = (ObjectId::at(index), modules[module.index()]);
            // A copy on its way to another place must be given up.
            let astray = before.iter().any(|(moving, _)| *moving == object);
            if astray || self.homes[index] != home {
                self.moving.push((object, home));
            }
        }
        self.moving.sort_by_key(|&(object, to)| (to == HBM, object));
        self.modules = modules;
    }

    /// Goes on with the moves.
    pub(super) fn move_on(&mut self, step: &mut Step<'_>) {
        for (object, to) in std::mem::take(&mut self.moving) {
            if !self.settles(object, to, step) {
                self.moving.push((object, to));
            }
        }
    }

    /// One move goes on; whether it has ended.
    fn settles(&mut self, object: ObjectId, to: TierId, step: &mut Step<'_>) -> bool {
        let view = step.view();
        if !view.exists(object) {
            self.homes[object.index()] = to;
            return true;
        }
        if view.holds(object, to) {
            let used_here = |tier: TierId| tier == HBM && step.is_used(object);
            let tiers = (0..view.ledger.tiers()).map(TierId::at).filter(|&tier| tier != to);
            let others: Vec<TierId> = tiers.filter(|&t| step.is_allocated(object, t)).collect();
            if others.iter().any(|&tier| used_here(tier)) {
                return false;
            }
            others.into_iter().for_each(|tier| step.drop_copy(object, tier));
            self.homes[object.index()] = to;
            self.prefetched.retain(|&other| other != object);
            if to == HBM {
                self.spill.settle(object, &self.homes, &view);
            }
            // Uses of it that the lookahead has passed over count from now on, or no more.
            self.rescan = true;
            return true;
        }
        if step.is_used(object) || !step.can_enter(object, to) {
            return false;
        }
        if to == HBM {
            // What is used in place takes none of it.
            let needed = match self.access {
                Access::InPlace(_) => step.born(),
                Access::Migrate { .. } => step.missing(),
            };
            if step.has_free(HBM, needed + step.bytes(object)) {
                step.prefetch(object, HBM);
            }
        } else if step.stays_in_hbm(object) && view.in_hbm(object) {
            step.evict(object, HBM, to);
            self.prefetched.retain(|&other| other != object);
        } else {
            step.prefetch(object, to);
        }
        false
    }
}
