//! Who leaves, and where to: victims in HBM and rooms outside.
//!
//! Invariant: what has been decided for an op is not undone by a later decision for the same op.

use super::{ClairvoyantOffload, Future, Now, PASSED_OVER, Place, SOON};
use crate::policy::Action;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

impl ClairvoyantOffload {
    /// Makes room in HBM for so many bytes.
    pub(super) fn make_way(&mut self, need: Bytes, view: &View<'_>) {
        while self.now.free < need {
            let Some((object, place)) = self.victim(view) else { break };
            if place == Place::Copied {
                self.give_up(object, view);
            } else if !self.evict(object, view) {
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
            let alone = || {
                let places = [Place::Alone, Place::Kept];
                let last = places.map(|place| spared(place).next().map(|found| (found, place)));
                let last = last.into_iter().flatten().max_by_key(|found| found.0);
                last.map(|((_, object), place)| (object, place))
            };
            let any = || {
                let places = [Place::Copied, Place::Alone, Place::Kept];
                let last = places.map(|place| self.stock.of(place).next_back().map(|f| (f, place)));
                let last = last.into_iter().flatten().max_by_key(|found| found.0);
                last.map(|((_, object), place)| (object, place))
            };
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
    pub(super) fn give_up(&mut self, object: ObjectId, view: &View<'_>) {
        match self.pending(object).map(|index| &mut self.now.coming[index]) {
            // It leaves with the copy that has just been decided.
            Some(action) => {
                if let Action::Prefetch { to, .. } = *action {
                    *action = Action::Evict { object, from: HBM, to };
                }
            }
            None => self.now.leaving.push(Action::Drop { object, tier: HBM }),
        }
        self.left(object, view);
    }

    /// Writes an object back and gives up its room; whether there is room for it outside.
    fn evict(&mut self, object: ObjectId, view: &View<'_>) -> bool {
        let bytes = view.object(object).bytes;
        let rank = self.rank(object);
        // Any copy outside is worth less than an op that can run. Where free bytes are not all that
        // counts, the planner asks for pieces.
        let to = self.lodge(object, rank, false, view);
        let to = to.or_else(|| self.lodge(object, u64::MAX, false, view));
        let Some(to) = to.or(self.spill.last().copied()) else { return false };
        self.claim(object, to, view);
        self.now.leaving.push(Action::Evict { object, from: HBM, to });
        self.estimate.copy_out(object, HBM, to, bytes, self.now.turn);
        self.left(object, view);
        true
    }

    fn left(&mut self, object: ObjectId, view: &View<'_>) {
        let bytes = view.object(object).bytes;
        self.estimate.leave(object, bytes);
        self.now.free += bytes;
        self.moves(object);
        self.stock.put(object, Place::Outside, self.rank(object));
    }

    /// Gives up complete copies that are needed after `rank`, the last first, until `now` bytes are
    /// free, if all of them together would make room for `in_all`; whether `now` bytes are free.
    /// Asked with rising ranks before one op.
    pub(super) fn displace(
        &mut self,
        rank: u64,
        now: Bytes,
        in_all: Bytes,
        view: &View<'_>,
    ) -> bool {
        while self.now.free + self.now.pool < in_all {
            let cursor = self.now.cursor.unwrap_or((u64::MAX, ObjectId(u32::MAX)));
            let next = self.stock.down_from(Place::Copied, cursor).next();
            let Some(found) = next.filter(|found| found.0 > rank) else { return false };
            self.now.cursor = Some(found);
            if self.is_loose(found.1, view) {
                self.now.pool += view.object(found.1).bytes;
            }
        }
        while self.now.free < now {
            let Some(object) = self.last_landed(rank) else { return false };
            if self.is_true(object, Place::Copied, view) {
                let bytes = view.object(object).bytes;
                self.now.pool = self.now.pool.checked_sub(bytes).unwrap_or(Bytes::ZERO);
                self.give_up(object, view);
            }
        }
        true
    }

    /// Whether an object can leave before the op ends without a copy of its own.
    fn is_loose(&mut self, object: ObjectId, view: &View<'_>) -> bool {
        self.has_landed(object) && self.is_true(object, Place::Copied, view)
    }

    /// What is needed last of those needed after `rank` that can leave before the op ends.
    fn last_landed(&self, rank: u64) -> Option<ObjectId> {
        let last = self.stock.of(Place::Copied).rev().take_while(|found| found.0 > rank);
        last.map(|(_, object)| object).find(|&object| self.has_landed(object))
    }

    /// Whether the copies of an object end before the op does, and nothing else is decided. Where
    /// the op creates objects they must have ended: room is given in the order in which it was
    /// given up, and new objects would get the room that comes late.
    fn has_landed(&self, object: ObjectId) -> bool {
        let settled = self.estimate.settled(object);
        let free = !self.has_moved(object) || self.pending(object).is_some();
        free && (settled <= self.now.turn || (!self.now.births && settled < self.now.end))
    }

    /// Which action copies an object out early.
    fn pending(&self, object: ObjectId) -> Option<usize> {
        let copies = |action: &Action| match action {
            Action::Prefetch { object: copied, to } => *copied == object && *to != HBM,
            _ => false,
        };
        self.now.coming.iter().position(copies)
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
        view: &View<'_>,
    ) -> Option<TierId> {
        let bytes = view.object(object).bytes;
        let allowed = |all: &Self, tier| {
            !early
                || (all.is_idle(object, rank, tier, view) && all.is_wanted(tier, rank, bytes, view))
        };
        let fits = |all: &Self, tier: TierId| {
            let claimed = all.now.claimed[tier.index()];
            all.has_room(object, tier, view) || view.fits(tier, claimed + bytes)
        };
        for index in 0..self.spill.len() {
            let tier = self.spill[index];
            if !allowed(self, tier) {
                continue;
            }
            if fits(self, tier) {
                let mut far = self.spill[index + 1..].iter().copied();
                let far = far.find(|&far| {
                    self.is_spared(tier, far, rank, bytes, view)
                        && allowed(self, far)
                        && fits(self, far)
                });
                return Some(far.unwrap_or(tier));
            }
            if !(early && self.now.exhausted[tier.index()]) && self.reclaim(tier, bytes, rank, view)
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
    fn is_wanted(&self, tier: TierId, rank: u64, bytes: Bytes, view: &View<'_>) -> bool {
        let nearer = self.spill.iter().take_while(|&&near| near != tier);
        let nearer = nearer.map(|&near| view.capacity(near).most().get());
        let Some(nearer) = nearer.reduce(u64::saturating_add) else { return true };
        let next = Future::in_sight(rank);
        if next.is_none() && self.window.is_some() {
            return true; // how much will be alive until then is not in sight either
        }
        let held = view.capacity(tier).most().get() - view.free(tier).get();
        let held = held.saturating_add(self.now.claimed[tier.index()].get());
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

    /// Whether an object has room in a tier outside after what is decided.
    fn has_room(&self, object: ObjectId, tier: TierId, view: &View<'_>) -> bool {
        view.has_room(object, tier) && !self.now.dropped.contains(&(object, tier))
    }

    /// Notes that an object gets room in a tier outside, and gives up stale room in others.
    pub(super) fn claim(&mut self, object: ObjectId, to: TierId, view: &View<'_>) {
        if !self.has_room(object, to, view) {
            self.now.claimed[to.index()] += view.object(object).bytes;
        }
        for &tier in self.outside.iter().filter(|&&tier| tier != to) {
            if self.has_room(object, tier, view) && !view.holds(object, tier) {
                self.now.leaving.push(Action::Drop { object, tier });
            }
        }
    }

    /// Where an object starts out, or belongs if others send it away: outside if there is room.
    pub(super) fn home(&self, object: ObjectId, view: &View<'_>) -> TierId {
        let bytes = view.object(object).bytes;
        let owned = self.spill.iter().copied().find(|&tier| view.has_room(object, tier));
        let roomy = || self.spill.iter().copied().find(|&tier| view.fits(tier, bytes));
        owned.or_else(roomy).unwrap_or(HBM)
    }

    /// Makes room in a tier outside by giving up rooms there of objects that are in HBM: stale
    /// ones, then copies of what is needed before `rank`, the next first. Whether that was enough.
    fn reclaim(&mut self, tier: TierId, bytes: Bytes, rank: u64, view: &View<'_>) -> bool {
        let taken = self.now.claimed[tier.index()] + bytes;
        let mut free = view.free(tier);
        let mut gone = Vec::new();
        let stale = [Place::Kept, Place::Alone].into_iter().flat_map(|place| self.stock.of(place));
        let sooner = self.stock.of(Place::Copied).take_while(|found| found.0 < rank);
        for (_, object) in stale.chain(sooner) {
            if free >= taken {
                break;
            }
            if !self.has_moved(object) && view.has_room(object, tier) && view.in_hbm(object) {
                free += view.object(object).bytes;
                gone.push(object);
            }
        }
        if free < taken {
            return false;
        }
        for object in gone {
            self.now.leaving.push(Action::Drop { object, tier });
            self.now.dropped.push((object, tier));
            self.moves(object);
            let bytes = view.object(object).bytes.get();
            let claimed = &mut self.now.claimed[tier.index()];
            *claimed = Bytes::new(claimed.get().saturating_sub(bytes));
            self.put(object, Place::Alone, view);
        }
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
        self.estimate.leave(object, view.object(object).bytes);
        self.stock.put(object, Place::Outside, self.rank(object));
        if self.holder(object, view).is_some() {
            return Some(Action::Drop { object, tier: HBM });
        }
        let last = self.spill.last().copied().unwrap_or(HBM);
        let to = self.spill.iter().copied().find(|&tier| {
            view.has_room(object, tier) || view.fits(tier, view.object(object).bytes)
        });
        let to = to.unwrap_or(last);
        Some(Action::Evict { object, from: HBM, to })
    }

    /// A room outside that can be given up: of an object that is in HBM.
    pub(super) fn spare_copy(&mut self, tier: TierId, view: &View<'_>) -> Option<Action> {
        let places = [Place::Kept, Place::Alone, Place::Copied];
        let usable = |&(_, object): &(u64, ObjectId)| {
            let used = view.uses().iter().any(|touched| touched.object == object);
            !used && !self.has_moved(object) && view.has_room(object, tier) && view.in_hbm(object)
        };
        let found = places.iter().flat_map(|&place| self.stock.of(place)).find(usable);
        let (_, object) = found?;
        self.moves(object);
        Some(Action::Drop { object, tier })
    }
}
