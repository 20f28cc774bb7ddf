//! Fixed placement: every object has a home tier, decided before the first op.
//!
//! The executor that all static policies share. Objects at home in HBM stay there; the others are
//! used in place or visit HBM ([`Access`]). With [`StaticPlacement::spilling`] no home is a prison:
//! where an op does not fit, what was used longest ago finds another home, as under demand paging.
//! Invariant: a prefetch never takes room that ops within the window need for new objects, and
//! never keeps an op from having what it needs.

mod rehome;
mod spill;
mod window;

use self::spill::Spill;
use crate::access::{Access, Charge};
use crate::paging::home;
use crate::policy::{Action, Lookahead, Policy};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use std::collections::VecDeque;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Phase, Trace};

/// Every object has a home.
#[derive(Debug)]
pub struct StaticPlacement {
    name: &'static str,
    /// Home tier of each module, by module id.
    modules: Vec<TierId>,
    /// Home tier of each object, by object id.
    homes: Vec<TierId>,
    access: Access,
    /// Objects from elsewhere that are in HBM now.
    prefetched: Vec<ObjectId>,
    /// The last occurrence within the lookahead that uses each object.
    needed_until: Vec<u64>,
    /// Uses within the lookahead that are not fetched yet: (occurrence, object).
    wanted: VecDeque<(u64, ObjectId)>,
    /// New bytes of each op within the lookahead, this one first, and of all of them.
    births: VecDeque<Bytes>,
    born: Bytes,
    /// What is seen of the run beyond the window: all of it, if the homes were chosen by it.
    lookahead: Lookahead,
    /// Homes in the place of those that turn out full.
    spill: Spill,
    confined: bool,
    /// Most bytes that may be fetched ahead, and those that are: (occurrence of the use, bytes).
    prefetch_budget: Bytes,
    staged: VecDeque<(u64, Bytes)>,
    /// The tier in which what is fetched from beyond it is put together whole before it goes on.
    relay: Option<TierId>,
    /// By object: whether it stays in HBM, once it is there, while a step's passes last.
    held: Vec<bool>,
    /// Objects whose homes have changed and that are not there yet, those that leave HBM first.
    moving: Vec<(ObjectId, TierId)>,
    /// Whether the uses within the lookahead are to be learned anew.
    rescan: bool,
}

impl StaticPlacement {
    /// Everything in HBM.
    pub fn all_in_hbm(trace: &Trace) -> StaticPlacement {
        let modules = vec![HBM; trace.modules.len()];
        StaticPlacement::new("all-hbm", trace, modules, &[], Access::Migrate { prefetch_ops: 0 })
    }

    /// Objects of the given kinds live in their module's tier, all others in HBM.
    pub fn new(
        name: &'static str,
        trace: &Trace,
        modules: Vec<TierId>,
        kinds: &[ObjectKind],
        access: Access,
    ) -> StaticPlacement {
        let home = |object: &Object| match object.module {
            Some(module) if kinds.contains(&object.kind) => modules[module.index()],
            _ => HBM,
        };
        let homes = trace.objects.iter().map(home).collect();
        StaticPlacement::at(name, homes, modules, access)
    }

    /// Every object has a home of its own, by object id. The emulated charges of [`Access`] go by
    /// module: each has the tier of its largest weight.
    pub fn of_objects(
        name: &'static str,
        trace: &Trace,
        homes: Vec<TierId>,
        access: Access,
    ) -> StaticPlacement {
        let modules = spill::module_tiers(trace, &homes);
        StaticPlacement::at(name, homes, modules, access)
    }

    fn at(
        name: &'static str,
        homes: Vec<TierId>,
        modules: Vec<TierId>,
        access: Access,
    ) -> StaticPlacement {
        StaticPlacement {
            name,
            modules,
            access,
            prefetched: Vec::new(),
            needed_until: vec![0; homes.len()],
            wanted: VecDeque::new(),
            births: VecDeque::new(),
            born: Bytes::ZERO,
            lookahead: Lookahead::Past,
            spill: Spill::default(),
            confined: false,
            prefetch_budget: Bytes::MAX,
            staged: VecDeque::new(),
            relay: None,
            held: Vec::new(),
            moving: Vec::new(),
            rescan: false,
            homes,
        }
    }

    /// The same, but what does not fit at home goes to the first of these tiers with room.
    pub fn spilling(self, tiers: &[TierId]) -> StaticPlacement {
        StaticPlacement { spill: Spill::new(tiers, self.homes.len()), ..self }
    }

    /// The same, but some objects, by object id, do not leave a home in HBM: what does not fit
    /// without their room is out of memory.
    pub fn keeping(self, kept: Vec<bool>) -> StaticPlacement {
        StaticPlacement { spill: self.spill.keep(kept), ..self }
    }

    /// The same, and nothing goes to a tier that is neither a home nor one to spill to.
    pub fn confined(self) -> StaticPlacement {
        StaticPlacement { confined: true, ..self }
    }

    /// The same, but no more than so many bytes are fetched ahead of the op that uses them.
    pub fn prefetch_budget(self, bytes: Bytes) -> StaticPlacement {
        StaticPlacement { prefetch_budget: bytes, ..self }
    }

    /// The same, but what is fetched from beyond a tier is put together there before it goes on.
    ///
    /// A copy over several links goes in chunks, and the links work at the same time. A library
    /// that reads files into pinned buffers and copies from those to the device cannot do that: an
    /// object must be in the buffer as a whole. So each such fetch becomes two copies, and the
    /// buffer is free again when the second has ended. An object for which the tier has no room
    /// goes straight, so nothing fails for its sake.
    pub fn relayed(self, relay: Option<TierId>) -> StaticPlacement {
        StaticPlacement { relay, ..self }
    }

    /// The same, but some objects, by object id, stay in HBM from their first use in a forward
    /// pass to the end of the backward pass. Where they are in the way of an op, they go last.
    pub fn held(self, held: Vec<bool>) -> StaticPlacement {
        StaticPlacement { held, ..self }
    }

    /// The same, marked as chosen knowing the whole run.
    pub fn foreseen(self) -> StaticPlacement {
        StaticPlacement { lookahead: Lookahead::Oracle, ..self }
    }

    /// Brings an object to HBM, with a stop at the relay if there is one.
    fn bring(&self, fetch: Action, object: ObjectId, step: &mut Step<'_>) {
        let view = step.view();
        let stops = |&relay: &TierId| {
            // What leaves for the relay before the same op may take the room of the stop.
            let full = |action: &Action| matches!(action, Action::Evict { to, .. } if *to == relay);
            !step.actions().iter().any(full)
                && view.is_exact(relay)
                && !view.is_allocated(object, relay)
                && !view.in_hbm(object)
                && view.fits(relay, view.room_of(object, relay))
        };
        let stop = self.relay.filter(stops);
        stop.into_iter().for_each(|relay| step.fetch(object, relay));
        step.take(fetch);
        // The room is given back when the copy to HBM has ended. A prefetch may be given up.
        stop.into_iter().for_each(|relay| step.drop_copy(object, relay));
    }

    fn use_in_place(&mut self, charge: Charge, step: &mut Step<'_>) {
        self.room_for_births(step);
        let view = step.view();
        let charged = match charge {
            Charge::ModuleOutput => view.outputs(),
            Charge::ModuleWeights => view.weights(),
            Charge::EveryUse => &[],
        };
        for &(module, bytes) in charged {
            let tier = self.modules[module.index()];
            if tier != HBM {
                step.charge(tier, bytes);
            }
        }
        for touched in view.uses() {
            let home = self.homes[touched.object.index()];
            if home != HBM {
                step.use_in_place(touched.object);
                if charge == Charge::EveryUse {
                    step.charge(home, touched.charged(step.bytes(touched.object)));
                }
            }
        }
    }

    fn migrate(&mut self, prefetch_ops: u32, step: &mut Step<'_>) {
        let view = step.view();
        self.look_ahead(prefetch_ops, &view);
        let now = view.occurrence();
        // What no op within the lookahead uses leaves, or is dropped if its home still holds it.
        let (homes, needed_until, spill) = (&mut self.homes, &self.needed_until, &self.spill);
        let passes = matches!(view.op().phase, Phase::Forward | Phase::Backward);
        let holds = |object: ObjectId| passes && self.held.get(object.index()) == Some(&true);
        self.prefetched.retain(|&object| {
            // Freed meanwhile. A use within the lookahead is then of its next life, which is
            // another visit.
            if !view.is_allocated(object, HBM) {
                return false;
            }
            let home = &mut homes[object.index()];
            let needed = needed_until[object.index()] >= now || holds(object);
            let to = if needed { None } else { spill.place(object, *home, step) };
            if let Some(to) = to {
                *home = to;
                step.evict(object, HBM, to);
            }
            to.is_none()
        });
        self.room_for_op(step);
        for touched in view.uses() {
            let object = touched.object;
            if self.homes[object.index()] != HBM && !view.in_hbm(object) {
                self.prefetched.push(object);
                if view.exists(object) {
                    self.bring(Action::Fetch { object, to: HBM }, object, step);
                }
            }
        }
        while self.staged.front().is_some_and(|&(at, _)| at <= now) {
            self.staged.pop_front();
        }
        while let Some(&(occurrence, object)) = self.wanted.front() {
            let bytes = view.object(object).bytes;
            // What leaves for this op is not there any more.
            let pointless = occurrence <= now || !view.exists(object) || step.in_hbm(object);
            if !pointless && !self.prefetched.contains(&object) {
                if view.in_hbm(object) {
                    break; // it leaves for this op
                }
                let ahead: Bytes = self.staged.iter().map(|&(_, bytes)| bytes).sum();
                let within = self.prefetch_budget.get() - ahead.get() >= bytes.get();
                if !step.has_free(HBM, self.born + bytes) || !within {
                    break;
                }
                self.staged.push_back((occurrence, bytes));
                self.bring(Action::Prefetch { object, to: HBM }, object, step);
                self.prefetched.push(object);
            }
            self.wanted.pop_front();
        }
    }

    /// Sends prefetched objects home that a later op within the lookahead needs, the one needed
    /// longest first, if this op does not fit otherwise: looking further ahead must not make a run
    /// fail that fits. After them go residents, if anything takes them.
    fn room_for_op(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let mut need = self.births.front().copied().unwrap_or(Bytes::ZERO);
        for touched in view.uses().iter().filter(|touched| view.exists(touched.object)) {
            if !view.in_hbm(touched.object) {
                need += view.object(touched.object).bytes;
            }
        }
        while !step.has_free(HBM, need) {
            let leaving = self.leaving_prefetched(step).or_else(|| self.leaving_resident(step));
            let Some((object, to)) = leaving else { break };
            step.evict(object, HBM, to);
            self.want_again(object, &view);
        }
    }

    /// The prefetched object that the op does not use and that is needed last, and where it goes.
    fn leaving_prefetched(&mut self, step: &Step<'_>) -> Option<(ObjectId, TierId)> {
        let others = self.prefetched.iter().copied().filter(|&object| !step.is_used(object));
        let mut others: Vec<ObjectId> = others.collect();
        others.sort_unstable_by_key(|&o| (self.needed_until[o.index()], o));
        while let Some(object) = others.pop() {
            let home = &mut self.homes[object.index()];
            if step.is_allocated(object, HBM)
                && let Some(to) = self.spill.place(object, *home, step)
            {
                *home = to;
                self.prefetched.retain(|&other| other != object);
                return Some((object, to));
            }
        }
        None
    }

    /// The resident that the op does not use and that was used longest ago, and its new home.
    fn leaving_resident(&mut self, step: &Step<'_>) -> Option<(ObjectId, TierId)> {
        let (object, to) = self.spill.oldest(&self.homes, step)?;
        self.homes[object.index()] = to;
        Some((object, to))
    }

    /// Where objects are used in place: residents leave HBM for what this op creates there, and
    /// what still does not fit is created elsewhere.
    fn room_for_births(&mut self, step: &mut Step<'_>) {
        if self.spill.is_empty() {
            return;
        }
        let view = step.view();
        for touched in view.uses().iter().filter(|touched| !view.exists(touched.object)) {
            let (object, bytes) = (touched.object, step.bytes(touched.object));
            let mut home = self.homes[object.index()];
            while home == HBM && !step.has_free(HBM, bytes) {
                let Some((leaving, to)) = self.leaving_resident(step) else { break };
                step.evict(leaving, HBM, to);
            }
            if home != HBM || !step.has_free(HBM, bytes) {
                home = self.spill.place(object, home, step).unwrap_or(HBM);
                self.homes[object.index()] = home;
            }
            step.expect(object, home);
        }
    }
}

impl Policy for StaticPlacement {
    fn keeps_to(&self) -> Option<&[TierId]> {
        self.confined.then(|| self.spill.tiers())
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn lookahead(&self) -> Lookahead {
        match self.access {
            _ if self.lookahead == Lookahead::Oracle => Lookahead::Oracle,
            Access::Migrate { prefetch_ops } if prefetch_ops > 0 => Lookahead::Window(prefetch_ops),
            _ => Lookahead::Past,
        }
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let home = self.spill.start(object, self.homes[object.index()], view);
        self.homes[object.index()] = home;
        home
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let home = self.homes[object.index()];
        if home == HBM {
            self.spill.settle(object, &self.homes, view);
        }
        match self.access {
            Access::InPlace(_) => home,
            Access::Migrate { .. } => HBM,
        }
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        self.spill.touch(&step.view());
        self.move_on(step);
        match self.access {
            Access::InPlace(charge) => self.use_in_place(charge, step),
            Access::Migrate { prefetch_ops } => self.migrate(prefetch_ops, step),
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        match self.homes[object.index()] {
            HBM => home(&Step::new(view), object, self.spill.tiers()),
            home => Some(home),
        }
    }

    /// As `room_for_op`: the prefetched object that is needed last goes home, then residents leave.
    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier != HBM {
            return None;
        }
        let step = &Step::new(view);
        let leaving = self.leaving_prefetched(step).or_else(|| self.leaving_resident(step));
        let (object, to) = leaving?;
        self.want_again(object, view);
        Some(Action::Evict { object, from: HBM, to })
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        if let Access::Migrate { prefetch_ops } = self.access {
            out.looks_ahead(prefetch_ops.into());
        }
        self.spill.state(&self.homes, view, out);
        remember!(out, self as StaticPlacement {
            homes, prefetched, needed_until: op_from_1, wanted: of_op, births: bytes, staged: of_op,
            moving, rescan
        } skip {
            name, modules, access, lookahead, spill, confined, prefetch_budget, relay, held, born
        });
        true
    }
}
