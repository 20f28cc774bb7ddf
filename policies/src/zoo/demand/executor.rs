//! What all demand policies share: which copies follow from what the algorithm says.
//!
//! The uses of an op are requests in order; what a request evicts is never something that the op
//! uses. Nothing leaves while there is room, whatever shares an algorithm gives its parts.
//! Invariant: the algorithm holds the objects of HBM that were used and are alive, but for those
//! that memory pressure took; it hears of those when they are used or named next.

use super::{DemandConfig, Write};
use crate::paging::home;
use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::Recipe;
use crate::replacement::{NEVER, Replacement};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use crate::visits::Visits;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Demand paging.
#[derive(Debug)]
pub struct Demand<R> {
    name: &'static str,
    rule: R,
    spill: Vec<TierId>,
    write: Write,
    /// The uses of a replay, and how many replays there are, for an algorithm that knows them.
    future: Option<(Visits, u64)>,
    /// What the op before used, and what it changed.
    used: Vec<ObjectId>,
    changed: Vec<ObjectId>,
    /// Objects whose room outside HBM was made by a copy that went through.
    spare: Vec<ObjectId>,
}

impl<R: Replacement> Demand<R> {
    /// For a trace of so many objects; `future` for algorithms that have to know it.
    pub fn new(
        config: &DemandConfig,
        rule: R,
        objects: usize,
        future: Option<(Visits, u64)>,
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
        future: Option<(Visits, u64)>,
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

    /// With no room anywhere the last tier is named, and the ledger says that it is full.
    fn last(&self) -> TierId {
        self.spill.last().copied().unwrap_or(HBM)
    }

    /// Gives up copies that went through, of objects that HBM holds, until the object has a home.
    fn reclaim(&mut self, object: ObjectId, step: &mut Step<'_>) -> Option<TierId> {
        let (spill, mut found) = (&self.spill, None);
        self.spare.retain(|&other| {
            let stays = step.stays_in_hbm(other) && other != object;
            if !stays || found.is_some() {
                return stays;
            }
            let room = spill.iter().find(|&&tier| step.is_allocated(other, tier));
            if let Some(&tier) = room {
                step.drop_copy(other, tier);
                found = home(step, object, spill);
            }
            room.is_none()
        });
        found
    }

    /// The next object to leave, of those that HBM holds and the op does not use; one that has
    /// nowhere to go only if all are like that.
    fn victim(&mut self, step: &Step<'_>) -> Option<ObjectId> {
        let used = |id: u32| step.is_used(ObjectId(id));
        let (spill, spare) = (&self.spill, !self.spare.is_empty());
        let stuck = |id: u32| {
            let object = ObjectId(id);
            !spare && step.in_hbm(object) && home(step, object, spill).is_none()
        };
        loop {
            let next = self.rule.evict(|id| used(id) || stuck(id));
            let object = ObjectId(next.or_else(|| self.rule.evict(used))?);
            if step.in_hbm(object) {
                return Some(object);
            }
        }
    }

    /// Makes room for so many bytes, as far as it can be made.
    fn make(&mut self, bytes: Bytes, step: &mut Step<'_>) {
        while !step.has_free(HBM, bytes) && !self.spill.is_empty() {
            let Some(object) = self.victim(step) else { break };
            let home = home(step, object, &self.spill).or_else(|| self.reclaim(object, step));
            step.evict(object, HBM, home.unwrap_or_else(|| self.last()));
        }
    }

    /// One use as a request.
    fn request(&mut self, object: ObjectId, step: &mut Step<'_>) {
        let view = step.view();
        let (id, bytes, here) = (object.0, step.bytes(object), view.in_hbm(object));
        if !here && self.rule.holds(id) {
            self.rule.remove(id);
        }
        if let Some((visits, replays)) = &self.future {
            let next = visits.next(object, view.occurrence(), *replays);
            self.rule.foresee(next.unwrap_or(NEVER));
        }
        if self.rule.holds(id) {
            self.rule.hit(id);
            return;
        }
        self.rule.miss(id, bytes.get());
        if !here {
            self.make(bytes, step);
            step.expect(object, HBM);
        }
        self.rule.insert(id, bytes.get());
    }

    /// Copies out what the op before changed and HBM still holds.
    fn write_through(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        for object in std::mem::take(&mut self.changed) {
            let outside = self.spill.iter().any(|&tier| view.holds(object, tier));
            if outside || !step.stays_in_hbm(object) {
                continue;
            }
            let Some(to) = home(step, object, &self.spill) else { continue };
            if !step.is_allocated(object, to) {
                let margin =
                    view.capacity(HBM).most().get().saturating_add(step.bytes(object).get());
                if !step.fits(to, Bytes::new(margin)) {
                    continue;
                }
                self.spare.push(object);
            }
            step.prefetch(object, to);
        }
    }
}

impl<R: Replacement> Policy for Demand<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn lookahead(&self) -> Lookahead {
        if R::ORACLE { Lookahead::Oracle } else { Lookahead::Past }
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        home(&Step::new(view), object, &self.spill).unwrap_or_else(|| self.last())
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        // Lives that ended with the op before.
        for object in std::mem::take(&mut self.used) {
            if !view.exists(object) {
                self.rule.remove(object.0);
            }
        }
        self.rule.begin(view.occurrence());
        for touched in view.uses() {
            self.request(touched.object, step);
            if touched.mode.writes() {
                self.rule.change(touched.object.0);
            }
            self.used.push(touched.object);
        }
        step.fetch_missing();
        if self.write == Write::Through {
            self.write_through(step);
            let written = view.uses().iter().filter(|touched| touched.mode.writes());
            self.changed.extend(written.map(|touched| touched.object));
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(self.initial_tier(object, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier != HBM || self.spill.is_empty() {
            return None;
        }
        let object = self.victim(&Step::new(view))?;
        Some(Action::Evict { object, from: HBM, to: self.initial_tier(object, view) })
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        if let Some((visits, _)) = &self.future {
            // What is used again is so in this replay or in the next.
            out.looks_ahead(2 * u64::from(visits.ops()));
        }
        remember!(out, self as Demand { used, changed, spare }
            skip { name, rule, spill, write, future });
        self.rule.state(out)
    }

    fn leave_out(&mut self, replays: u64) {
        if let Some((_, all)) = &mut self.future {
            *all -= replays;
        }
    }
}
