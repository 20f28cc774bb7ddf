//! Who leaves, and where to: victims in HBM and rooms outside.
//!
//! Invariant: what has been decided for an op is not undone by a later decision for the same op.

use super::{ClairvoyantOffload, Future, Now, PASSED_OVER, Place, SOON};
use crate::paging::home;
use crate::policy::Action;
use crate::step::{Residency, Step};
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl ClairvoyantOffload {
    /// Makes room in HBM for so many bytes.
    pub(super) fn make_way(&mut self, need: Bytes, step: &mut Step<'_>) {
        while step.free(HBM) < need {
            let Some((object, place)) = self.victim(&step.view()) else { break };
            if place == Place::Copied {
                self.give_up(object, step);
            } else if !self.evict(object, step) {
                break;
            }
        }
    }

    /// Who leaves for an op: of those that are not needed soon one whose copy is complete, else one
    /// whose copy is under way, else the one that is needed last; then the same of all others.
    fn victim(&mut self, view: &View<'_>) -> Option<(ObjectId, Place)> {
        loop {
            let landed = |object: &ObjectId| self.estimate.settled(*object) <= self.now.turn;
            let spared = |place| {
                let farthest = self.stock.of(place).rev().take(PASSED_OVER);
                farthest.filter(|&(rank, object)| !self.is_soon(object, rank, view))
            };
            let copied = || spared(Place::Copied).map(|(_, object)| (object, Place::Copied));
            let done = copied().find(|(object, _)| landed(object));
            let last = |places: &[Place], of: &dyn Fn(Place) -> Option<(u64, ObjectId)>| {
                let found = places.iter().filter_map(|&place| Some((of(place)?, place)));
                found.max_by_key(|found| found.0).map(|((_, object), place)| (object, place))
            };
            let alone = || last(&[Place::Alone, Place::Kept], &|place| spared(place).next());
            let all = [Place::Copied, Place::Alone, Place::Kept];
            let any = || last(&all, &|place| self.stock.of(place).next_back());
            let found = done.or_else(|| copied().next()).or_else(alone).or_else(any);
            let (object, place) = found?;
            if self.is_true(object, place, view) {
                return Some((object, place));
            }
        }
    }

    /// Whether an object would hardly be back in time if it left now.
    fn is_soon(&self, object: ObjectId, rank: u64, view: &View<'_>) -> bool {
        let Some(next) = Future::in_sight(rank) else { return false };
        let Now { occurrence, turn, .. } = self.now;
        let from = self.holder(object, view).or(self.spill.first().copied()).unwrap_or(HBM);
        let span = self.estimate.span(from, HBM, view.object(object).bytes);
        let queue = self.estimate.begins(turn, from, HBM) - turn;
        self.future.between(occurrence, next) < queue.saturating_add(span.saturating_mul(SOON))
    }

    /// Gives up the room of an object that has a copy outside.
    fn give_up(&mut self, object: ObjectId, step: &mut Step<'_>) {
        if !step.leave_with_copy(object) {
            step.take_first(Action::Drop { object, tier: HBM });
        }
        self.left(object, step);
    }

    /// Writes an object back and gives up its room; whether there is room for it outside.
    fn evict(&mut self, object: ObjectId, step: &mut Step<'_>) -> bool {
        let bytes = step.bytes(object);
        let rank = self.rank(object);
        // Any copy outside is worth less than an op that can run. Where free bytes are not all that
        // counts, the planner asks for pieces.
        let to = self.lodge(object, rank, false, step);
        let to = to.or_else(|| self.lodge(object, u64::MAX, false, step));
        let Some(to) = to.or(self.spill.last().copied()) else { return false };
        self.drop_stale(object, to, step);
        step.take_first(Action::Evict { object, from: HBM, to });
        self.estimate.copy_out(object, HBM, to, bytes, self.now.turn);
        self.left(object, step);
        true
    }

    fn left(&mut self, object: ObjectId, step: &Step<'_>) {
        self.estimate.leave(object, step.bytes(object));
        self.early[object.index()] = None;
        self.moves(object);
        self.put(object, Place::Outside, &step.view());
    }

    /// Gives up complete copies that are needed after `rank`, the last first, until `now` bytes are
    /// free, if all of them together would make room for `in_all`; whether `now` bytes are free.
    /// Asked with rising ranks before one op.
    pub(super) fn displace(
        &mut self,
        rank: u64,
        now: Bytes,
        in_all: Bytes,
        step: &mut Step<'_>,
    ) -> bool {
        let view = &step.view();
        while step.free(HBM) + self.now.pool < in_all {
            let cursor = self.now.cursor.unwrap_or((u64::MAX, ObjectId(u32::MAX)));
            let next = self.stock.down_from(Place::Copied, cursor).next();
            let Some(found) = next.filter(|found| found.0 > rank) else { return false };
            self.now.cursor = Some(found);
            if self.has_landed(found.1, step) && self.is_true(found.1, Place::Copied, view) {
                self.now.pool += view.object(found.1).bytes;
            }
        }
        while step.free(HBM) < now {
            let Some(object) = self.last_landed(rank, step) else { return false };
            if self.is_true(object, Place::Copied, view) {
                let bytes = view.object(object).bytes;
                self.now.pool = self.now.pool.checked_sub(bytes).unwrap_or(Bytes::ZERO);
                self.give_up(object, step);
            }
        }
        true
    }

    /// What is needed last of those needed after `rank` that can leave before the op ends.
    fn last_landed(&self, rank: u64, step: &Step<'_>) -> Option<ObjectId> {
        let last = self.stock.of(Place::Copied).rev().take_while(|found| found.0 > rank);
        last.map(|(_, object)| object).find(|&object| self.has_landed(object, step))
    }

    /// Whether the copies of an object end before the op does, and nothing else is decided. Where
    /// the op creates objects they must have ended: room is given in the order in which it was
    /// given up, and new objects would get the room that comes late.
    fn has_landed(&self, object: ObjectId, step: &Step<'_>) -> bool {
        let settled = self.estimate.settled(object);
        let free = !self.has_moved(object) || step.is_copied_out(object);
        free && (settled <= self.now.turn || (!self.now.births && settled < self.now.end))
    }

    /// Where an object goes that leaves HBM: the nearest tier of the list where it has room, can
    /// have it, or gets it from copies of what is in HBM anyway and needed sooner. If that tier
    /// will not hold all that must leave, it is spared for what is needed before a slower one could
    /// have brought it back. With `early` only where the copy costs the op nothing.
    pub(super) fn lodge(
        &mut self,
        object: ObjectId,
        rank: u64,
        early: bool,
        step: &mut Step<'_>,
    ) -> Option<TierId> {
        let (view, bytes) = (&step.view(), step.bytes(object));
        let allowed = |all: &Self, tier, step: &Step<'_>| {
            !early
                || (all.is_idle(object, rank, tier, view) && all.is_wanted(tier, rank, bytes, step))
        };
        for index in 0..self.spill.len() {
            let tier = self.spill[index];
            if !allowed(self, tier, step) {
                continue;
            }
            if step.can_enter(object, tier) {
                let mut far = self.spill[index + 1..].iter().copied();
                let far = far.find(|&far| {
                    self.is_spared(tier, far, rank, bytes, view)
                        && allowed(self, far, step)
                        && step.can_enter(object, far)
                });
                return Some(far.unwrap_or(tier));
            }
            if !(early && self.now.exhausted[tier.index()]) && self.reclaim(tier, bytes, rank, step)
            {
                return Some(tier);
            }
            self.now.exhausted[tier.index()] = true;
        }
        None
    }

    /// Whether an object can be copied to a tier before the op ends and without being in the way
    /// of its next use.
    fn is_idle(&self, object: ObjectId, rank: u64, to: TierId, view: &View<'_>) -> bool {
        let Now { occurrence, turn, end, .. } = self.now;
        let begins = self.estimate.begins(turn, HBM, to);
        let span = self.estimate.span(HBM, to, view.object(object).bytes);
        let next = Future::in_sight(rank);
        let spare = next.map_or(u64::MAX, |next| self.future.between(occurrence, next));
        begins < end && spare >= (begins - turn).saturating_add(span.saturating_mul(3))
    }

    /// Whether a tier behind others has to take so many bytes more before an op of this rank: what
    /// is alive until then and fits into nothing nearer, with room for what is on its way at both
    /// of its ends.
    fn is_wanted(&self, tier: TierId, rank: u64, bytes: Bytes, step: &Step<'_>) -> bool {
        let view = step.view();
        let nearer = self.spill.iter().take_while(|&&near| near != tier);
        let nearer = nearer.map(|&near| view.capacity(near).most().get());
        let Some(nearer) = nearer.reduce(u64::saturating_add) else { return true };
        let next = Future::in_sight(rank);
        if next.is_none() && !self.future.sees_all(self.now.occurrence) {
            return true; // how much will be alive until then is not known either
        }
        let held = view.capacity(tier).most().get() - step.free(tier).get();
        let alive = self.future.peak_until(self.now.occurrence, next);
        let under_way = self.under_way.get();
        let inside = nearer.saturating_add(view.capacity(HBM).most().get());
        held.saturating_add(bytes.get())
            <= alive.get().saturating_add(under_way).saturating_sub(inside)
    }

    /// Whether `near` is better kept for others than an object that can go to `far`.
    fn is_spared(
        &self,
        near: TierId,
        far: TierId,
        rank: u64,
        bytes: Bytes,
        view: &View<'_>,
    ) -> bool {
        let Now { occurrence, turn, excess, .. } = self.now;
        if view.capacity(near).holds(excess) {
            return false;
        }
        let next = Future::in_sight(rank);
        let spare = next.map_or(u64::MAX, |next| self.future.between(occurrence, next));
        let way = |from, to| {
            let queue = self.estimate.begins(turn, from, to) - turn;
            queue.saturating_add(self.estimate.span(from, to, bytes))
        };
        let both = way(HBM, far).saturating_add(way(far, HBM));
        spare > both.saturating_mul(4)
    }

    /// An object goes to a tier: its stale rooms in others are given up. What they give back is not
    /// promised to anybody before the same op.
    pub(super) fn drop_stale(&self, object: ObjectId, to: TierId, step: &mut Step<'_>) {
        for &tier in self.outside.iter().filter(|&&tier| tier != to) {
            if step.residency(object, tier) == Residency::Stale {
                step.take_first(Action::Drop { object, tier });
                step.reserve(tier, step.room_of(object, tier));
            }
        }
    }

    /// Where an object starts out, or belongs if others send it away: outside if there is room.
    pub(super) fn home(&self, object: ObjectId, view: &View<'_>) -> TierId {
        home(&Step::new(view), object, &self.spill).unwrap_or(HBM)
    }

    /// Makes room in a tier outside by giving up rooms there of objects that are in HBM: stale
    /// ones, then copies of what is needed before `rank`, the next first. Whether that was enough.
    fn reclaim(&mut self, tier: TierId, bytes: Bytes, rank: u64, step: &mut Step<'_>) -> bool {
        let view = step.view();
        let (mut given_up, mut gone) = (Bytes::ZERO, Vec::new());
        let stale = [Place::Kept, Place::Alone].into_iter().flat_map(|place| self.stock.of(place));
        let sooner = self.stock.of(Place::Copied).take_while(|found| found.0 < rank);
        for (_, object) in stale.chain(sooner) {
            if step.has_free_after(tier, bytes, given_up) {
                break;
            }
            if !self.has_moved(object) && view.is_allocated(object, tier) && view.in_hbm(object) {
                given_up += step.room_of(object, tier);
                gone.push(object);
            }
        }
        if !step.has_free_after(tier, bytes, given_up) {
            return false;
        }
        for object in gone {
            step.take_first(Action::Drop { object, tier });
            self.moves(object);
            self.put(object, Place::Alone, &view);
        }
        step.forfeit(tier);
        true
    }

    /// Something that leaves HBM though that was not planned.
    pub(super) fn piece(&mut self, view: &View<'_>) -> Option<Action> {
        let places = [Place::Copied, Place::Kept, Place::Alone];
        let usable = |&(_, object): &(u64, ObjectId)| {
            let used = view.uses().iter().any(|touched| touched.object == object);
            !used && !self.has_moved(object) && view.in_hbm(object)
        };
        let last = places.map(|place| self.stock.of(place).rev().find(usable));
        let (_, object) = last.into_iter().flatten().max()?;
        self.moves(object);
        self.early[object.index()] = None;
        self.estimate.leave(object, view.object(object).bytes);
        self.put(object, Place::Outside, view);
        if self.holder(object, view).is_some() {
            return Some(Action::Drop { object, tier: HBM });
        }
        let last = self.spill.last().copied().unwrap_or(HBM);
        let to = self.spill.iter().copied().find(|&tier| {
            view.is_allocated(object, tier) || view.fits(tier, view.room_of(object, tier))
        });
        let to = to.unwrap_or(last);
        Some(Action::Evict { object, from: HBM, to })
    }

    /// A room outside that can be given up: of an object that is in HBM.
    pub(super) fn spare_copy(&mut self, tier: TierId, view: &View<'_>) -> Option<Action> {
        let places = [Place::Kept, Place::Alone, Place::Copied];
        let usable = |&(_, object): &(u64, ObjectId)| {
            let used = view.uses().iter().any(|touched| touched.object == object);
            !used
                && !self.has_moved(object)
                && view.is_allocated(object, tier)
                && view.in_hbm(object)
        };
        let found = places.iter().flat_map(|&place| self.stock.of(place)).find(usable);
        let (_, object) = found?;
        self.moves(object);
        Some(Action::Drop { object, tier })
    }
}
