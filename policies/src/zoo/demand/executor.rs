//! What all demand policies share: which copies follow from what the algorithm says.
//!
//! The uses of an op are requests in order; what a request evicts is never something that the op
//! uses. Nothing leaves while there is room, whatever shares an algorithm gives its parts.
//! Invariant: the algorithm holds the objects of HBM that were used and are alive, but for those
//! that memory pressure took; it hears of those when they are used or named next.

use super::future::Future;
use super::{DemandConfig, Write};
use crate::policy::{Action, Policy, Sight};
use crate::recipe::Recipe;
use crate::replacement::Replacement;
use crate::state::State;
use crate::step::Step;
use crate::view::View;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Demand paging.
#[derive(Debug)]
pub struct Demand<R> {
    name: &'static str,
    rule: R,
    spill: Vec<TierId>,
    write: Write,
    future: Option<Future>,
    /// What the op before used, and what it changed.
    used: Vec<ObjectId>,
    changed: Vec<ObjectId>,
    /// Objects whose room outside HBM was made by a copy that went through.
    spare: Vec<ObjectId>,
}

/// What the actions of one op change.
struct Batch {
    free: Bytes,
    claimed: [Bytes; MAX_TIERS],
    dropped: [Bytes; MAX_TIERS],
    gone: Vec<ObjectId>,
}

impl Batch {
    fn new(view: &View<'_>) -> Batch {
        let none = [Bytes::ZERO; MAX_TIERS];
        Batch { free: view.free(HBM), claimed: none, dropped: none, gone: Vec::new() }
    }

    /// Whether an object fits into a tier after the actions so far.
    fn fits(&self, tier: TierId, bytes: Bytes, view: &View<'_>) -> bool {
        // What is asked for may be all of an unlimited tier.
        let need = self.claimed[tier.index()].get().saturating_add(bytes.get());
        view.fits(tier, Bytes::new(need.saturating_sub(self.dropped[tier.index()].get())))
    }
}

/// The first spill tier where the object has room or can have it.
fn home(spill: &[TierId], object: ObjectId, batch: &Batch, view: &View<'_>) -> Option<TierId> {
    let bytes = view.object(object).bytes;
    let mut tiers = spill.iter().copied();
    let owned = tiers.clone().find(|&tier| view.has_room(object, tier));
    owned.or_else(|| tiers.find(|&tier| batch.fits(tier, bytes, view)))
}

impl<R: Replacement> Demand<R> {
    /// For a trace of so many objects; `future` for algorithms that have to know it.
    pub fn new(
        config: &DemandConfig,
        rule: R,
        objects: usize,
        future: Option<Future>,
    ) -> Demand<R> {
        let demand = Demand::named(config.name(), &config.spill, rule, objects, future);
        Demand { write: config.write, ..demand }
    }

    /// The same for a rule that is a policy of its own, with write-back.
    pub fn named(
        name: &'static str,
        spill: &[TierId],
        mut rule: R,
        objects: usize,
        future: Option<Future>,
    ) -> Demand<R> {
        assert!(future.is_some() || !R::ORACLE, "the algorithm has to know the future");
        rule.grow(objects);
        Demand {
            name,
            rule,
            spill: spill.to_vec(),
            write: Write::Back,
            future,
            used: Vec::new(),
            changed: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn home(&self, object: ObjectId, batch: &Batch, view: &View<'_>) -> Option<TierId> {
        home(&self.spill, object, batch, view)
    }

    /// With no room anywhere the last tier is named, and the ledger says that it is full.
    fn last(&self) -> TierId {
        self.spill.last().copied().unwrap_or(HBM)
    }

    /// Gives up copies that went through, of objects that HBM holds, until the object has a home.
    fn reclaim(
        &mut self,
        object: ObjectId,
        batch: &mut Batch,
        view: &View<'_>,
        actions: &mut Vec<Action>,
    ) -> Option<TierId> {
        let mut spare = std::mem::take(&mut self.spare);
        let mut home = None;
        spare.retain(|&other| {
            let stays = view.in_hbm(other) && other != object && !batch.gone.contains(&other);
            if !stays || home.is_some() {
                return stays;
            }
            let room = self.spill.iter().find(|&&tier| view.has_room(other, tier));
            if let Some(&tier) = room {
                actions.push(Action::Drop { object: other, tier });
                batch.dropped[tier.index()] += view.object(other).bytes;
                home = self.home(object, batch, view);
            }
            room.is_none()
        });
        self.spare = spare;
        home
    }

    /// The next object to leave, of those that HBM holds and the op does not use; one that has
    /// nowhere to go only if all are like that.
    fn victim(&mut self, batch: &Batch, view: &View<'_>) -> Option<ObjectId> {
        let used = |id: u32| view.uses().iter().any(|touched| touched.object.0 == id);
        let (spill, spare) = (&self.spill, !self.spare.is_empty());
        let stuck = |id: u32| {
            let object = ObjectId(id);
            !spare && view.in_hbm(object) && home(spill, object, batch, view).is_none()
        };
        loop {
            let next = self.rule.evict(|id| used(id) || stuck(id));
            let object = ObjectId(next.or_else(|| self.rule.evict(used))?);
            if view.in_hbm(object) {
                return Some(object);
            }
        }
    }

    /// Makes room for so many bytes, as far as it can be made.
    fn make(
        &mut self,
        bytes: Bytes,
        batch: &mut Batch,
        view: &View<'_>,
        actions: &mut Vec<Action>,
    ) {
        while batch.free < bytes && !self.spill.is_empty() {
            let Some(object) = self.victim(batch, view) else { break };
            let home = self.home(object, batch, view);
            let home = home.or_else(|| self.reclaim(object, batch, view, actions));
            let to = home.unwrap_or_else(|| self.last());
            let size = view.object(object).bytes;
            if !view.has_room(object, to) {
                batch.claimed[to.index()] += size;
            }
            actions.push(Action::Evict { object, from: HBM, to });
            batch.free += size;
            batch.gone.push(object);
        }
        batch.free = Bytes::new(batch.free.get().saturating_sub(bytes.get()));
    }

    /// One use as a request.
    fn request(
        &mut self,
        object: ObjectId,
        batch: &mut Batch,
        view: &View<'_>,
        actions: &mut Vec<Action>,
    ) {
        let (id, bytes, here) = (object.0, view.object(object).bytes, view.in_hbm(object));
        if !here && self.rule.holds(id) {
            self.rule.remove(id);
        }
        if let Some(future) = &self.future {
            self.rule.foresee(future.next(object, view.occurrence()));
        }
        if self.rule.holds(id) {
            self.rule.hit(id);
            return;
        }
        self.rule.miss(id, bytes.get());
        if !here {
            self.make(bytes, batch, view, actions);
        }
        self.rule.insert(id, bytes.get());
    }

    /// Copies out what the op before changed and HBM still holds.
    fn write_through(&mut self, batch: &mut Batch, view: &View<'_>, actions: &mut Vec<Action>) {
        for object in std::mem::take(&mut self.changed) {
            let outside = self.spill.iter().any(|&tier| view.holds(object, tier));
            if outside || !view.in_hbm(object) || batch.gone.contains(&object) {
                continue;
            }
            let Some(to) = self.home(object, batch, view) else { continue };
            let bytes = view.object(object).bytes;
            if !view.has_room(object, to) {
                let margin = view.capacity(HBM).get().saturating_add(bytes.get());
                if !batch.fits(to, Bytes::new(margin), view) {
                    continue;
                }
                batch.claimed[to.index()] += bytes;
                self.spare.push(object);
            }
            actions.push(Action::Prefetch { object, to });
        }
    }
}

impl<R: Replacement> Policy for Demand<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sight(&self) -> Sight {
        if R::ORACLE { Sight::Oracle } else { Sight::Past }
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.home(object, &Batch::new(view), view).unwrap_or_else(|| self.last())
    }

    fn allocate_in(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let actions = &mut Vec::new();
        // Lives that ended with the op before.
        for object in std::mem::take(&mut self.used) {
            if !view.exists(object) {
                self.rule.remove(object.0);
            }
        }
        let mut batch = Batch::new(view);
        self.rule.begin(view.occurrence());
        for touched in view.uses() {
            self.request(touched.object, &mut batch, view, actions);
            if touched.mode.writes() {
                self.rule.change(touched.object.0);
            }
            self.used.push(touched.object);
        }
        for touched in view.uses() {
            if !view.in_hbm(touched.object) && view.exists(touched.object) {
                actions.push(Action::Fetch { object: touched.object, to: HBM });
            }
        }
        if self.write == Write::Through {
            self.write_through(&mut batch, view, actions);
            let written = view.uses().iter().filter(|touched| touched.mode.writes());
            self.changed.extend(written.map(|touched| touched.object));
        }
        actions.drain(..).for_each(|action| step.take(action));
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(self.initial_tier(object, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier != HBM || self.spill.is_empty() {
            return None;
        }
        let object = self.victim(&Batch::new(view), view)?;
        Some(Action::Evict { object, from: HBM, to: self.initial_tier(object, view) })
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        let Demand { name: _, rule, spill: _, write: _, future, used, changed, spare } = self;
        if let Some(future) = future {
            out.looks_ahead(future.reach());
        }
        for objects in [used, changed, spare] {
            out.objects(objects);
        }
        rule.state(out)
    }

    fn leave_out(&mut self, replays: u64) {
        if let Some(future) = &mut self.future {
            future.leave_out(replays);
        }
    }
}
