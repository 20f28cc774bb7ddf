//! Fixed placement: every object has a home tier, decided before the first op.
//!
//! The executor that `all-hbm`, `adam-state` and `hints` share. Objects at home in HBM never move;
//! the others are used in place or visit HBM ([`Access`]).
//! Invariant: a prefetch never takes room that ops within the window need for new objects, and
//! never keeps an op from having what it needs.

use crate::access::{Access, Charge};
use crate::policy::{Action, Policy, Sight};
use crate::view::View;
use std::collections::VecDeque;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Trace};

/// Every object has a home.
#[derive(Debug)]
pub struct Placed {
    name: &'static str,
    /// Home tier of each module, by module id.
    modules: Vec<TierId>,
    /// Home tier of each object, by object id.
    homes: Vec<TierId>,
    access: Access,
    /// Objects from elsewhere that are in HBM now.
    visitors: Vec<ObjectId>,
    /// The last occurrence within sight that uses each object.
    needed_until: Vec<u64>,
    /// Uses within sight that are not fetched yet: (occurrence, object).
    wanted: VecDeque<(u64, ObjectId)>,
    /// New bytes of each op within sight, this one first.
    births: VecDeque<Bytes>,
}

impl Placed {
    /// Everything in HBM.
    pub fn all_in_hbm(trace: &Trace) -> Placed {
        let modules = vec![HBM; trace.modules.len()];
        Placed::new("all-hbm", trace, modules, &[], Access::Migrate { prefetch_ops: 0 })
    }

    /// Objects of the given kinds live in their module's tier, all others in HBM.
    pub fn new(
        name: &'static str,
        trace: &Trace,
        modules: Vec<TierId>,
        kinds: &[ObjectKind],
        access: Access,
    ) -> Placed {
        let home = |object: &Object| match object.module {
            Some(module) if kinds.contains(&object.kind) => modules[module.index()],
            _ => HBM,
        };
        Placed {
            name,
            homes: trace.objects.iter().map(home).collect(),
            modules,
            access,
            visitors: Vec::new(),
            needed_until: vec![0; trace.objects.len()],
            wanted: VecDeque::new(),
            births: VecDeque::new(),
        }
    }

    fn use_in_place(&self, charge: Charge, view: &View<'_>, actions: &mut Vec<Action>) {
        let charged = match charge {
            Charge::ModuleOutput => view.outputs(),
            Charge::ModuleWeights => view.weights(),
            Charge::EveryUse => &[],
        };
        for &(module, bytes) in charged {
            let tier = self.modules[module.index()];
            if tier != HBM {
                actions.push(Action::Charge { tier, bytes });
            }
        }
        for touched in view.uses() {
            let home = self.homes[touched.object.index()];
            if home != HBM {
                actions.push(Action::InPlace { object: touched.object });
                if charge == Charge::EveryUse {
                    let bytes = view.object(touched.object).bytes;
                    actions.push(Action::Charge { tier: home, bytes });
                }
            }
        }
    }

    fn migrate(&mut self, prefetch_ops: u32, view: &View<'_>, actions: &mut Vec<Action>) {
        self.look_ahead(prefetch_ops, view);
        let now = view.occurrence();
        let mut free = view.free(HBM);
        // What no op within sight uses leaves, or is dropped if its home still holds it.
        let (homes, needed_until) = (&self.homes, &self.needed_until);
        self.visitors.retain(|&object| {
            // Freed meanwhile. A use within sight is then of its next life, which is another visit.
            if !view.has_room(object, HBM) {
                return false;
            }
            let stays = needed_until[object.index()] >= now;
            if !stays {
                let to = homes[object.index()];
                actions.push(Action::Evict { object, from: HBM, to });
                free += view.object(object).bytes;
            }
            stays
        });
        self.room_for_op(view, &mut free, actions);
        let mut reserved: Bytes = self.births.iter().copied().sum();
        for touched in view.uses() {
            let object = touched.object;
            if self.homes[object.index()] != HBM && !view.in_hbm(object) {
                self.visitors.push(object);
                if view.exists(object) {
                    actions.push(Action::Fetch { object, to: HBM });
                    reserved += view.object(object).bytes;
                }
            }
        }
        while let Some(&(occurrence, object)) = self.wanted.front() {
            let bytes = view.object(object).bytes;
            let pointless = occurrence <= now || !view.exists(object) || view.in_hbm(object);
            if !pointless && !self.visitors.contains(&object) {
                if free < reserved + bytes {
                    break;
                }
                actions.push(Action::Prefetch { object, to: HBM });
                self.visitors.push(object);
                reserved += bytes;
            }
            self.wanted.pop_front();
        }
    }

    /// Sends visitors home that a later op within sight needs, the one needed longest first, if this
    /// op does not fit otherwise: looking further ahead must not make a run fail that fits.
    fn room_for_op(&mut self, view: &View<'_>, free: &mut Bytes, actions: &mut Vec<Action>) {
        let mut need = self.births.front().copied().unwrap_or(Bytes::ZERO);
        for touched in view.uses().iter().filter(|touched| view.exists(touched.object)) {
            if !view.in_hbm(touched.object) {
                need += view.object(touched.object).bytes;
            }
        }
        let used = |object: ObjectId| view.uses().iter().any(|touched| touched.object == object);
        while *free < need {
            let others = self.visitors.iter().enumerate().filter(|(_, object)| !used(**object));
            let Some((index, &object)) =
                others.max_by_key(|(_, object)| (self.needed_until[object.index()], **object))
            else {
                break;
            };
            self.visitors.remove(index);
            let to = self.homes[object.index()];
            actions.push(Action::Evict { object, from: HBM, to });
            *free += view.object(object).bytes;
        }
    }

    /// Slides the window: learns the uses of the op that has come into sight.
    fn look_ahead(&mut self, prefetch_ops: u32, view: &View<'_>) {
        let window = u64::from(prefetch_ops);
        let first = if view.occurrence() == 0 { 0 } else { window };
        self.births.pop_front();
        for ahead in first..=window {
            let Some(uses) = view.ahead(ahead) else { break };
            self.births.push_back(view.births_ahead(ahead).unwrap_or(Bytes::ZERO));
            for touched in uses.iter().filter(|t| self.homes[t.object.index()] != HBM) {
                let occurrence = view.occurrence() + ahead;
                self.needed_until[touched.object.index()] = occurrence;
                if ahead > 0 {
                    self.wanted.push_back((occurrence, touched.object));
                }
            }
        }
    }
}

impl Policy for Placed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sight(&self) -> Sight {
        match self.access {
            Access::Migrate { prefetch_ops } if prefetch_ops > 0 => Sight::Window(prefetch_ops),
            _ => Sight::Past,
        }
    }

    fn start(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        self.homes[object.index()]
    }

    fn birth(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        match self.access {
            Access::InPlace(_) => self.homes[object.index()],
            Access::Migrate { .. } => HBM,
        }
    }

    fn before(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        match self.access {
            Access::InPlace(charge) => self.use_in_place(charge, view, actions),
            Access::Migrate { prefetch_ops } => self.migrate(prefetch_ops, view, actions),
        }
    }

    fn far(&mut self, object: ObjectId, _: &View<'_>) -> Option<TierId> {
        Some(self.homes[object.index()]).filter(|&home| home != HBM)
    }

    /// As `room_for_op`: the visitor that is needed last goes home.
    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let used = |object: ObjectId| view.uses().iter().any(|touched| touched.object == object);
        let here = |object: ObjectId| tier == HBM && view.has_room(object, HBM) && !used(object);
        let visitors = self.visitors.iter().enumerate().filter(|(_, object)| here(**object));
        let (index, &object) =
            visitors.max_by_key(|(_, object)| (self.needed_until[object.index()], **object))?;
        self.visitors.remove(index);
        Some(Action::Evict { object, from: HBM, to: self.homes[object.index()] })
    }
}
