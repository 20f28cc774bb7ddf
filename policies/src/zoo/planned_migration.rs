//! Planned migration over inactive intervals, as in G10.
//!
//! Before the first op the whole trace is planned: which objects leave HBM between which uses,
//! where to, and at which ops their copies start (`plan`). The run then carries the plan out at op
//! boundaries. What the plan could not provide for is done on demand: to make room the object goes
//! that is used last, and it is fetched again shortly before that use.
//! Source: Zhang, Zhou, Xue, Zhou, Huang, "G10: Enabling An Efficient Unified GPU Memory and
//! Storage Architecture with Smart Tensor Migrations", MICRO 2023, sections 4.2 and 4.3.
//! Invariant: an object that the op in question uses is never evicted for it, and nothing is
//! prefetched into room that this op needs.

pub(in crate::zoo) mod intervals;
pub(in crate::zoo) mod plan;
pub(in crate::zoo) mod schedule;
mod slots;
#[cfg(test)]
mod tests;

use crate::entry::{Entry, Kind, Parameter};
use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use crate::visits::Visits;
use intervals::{Gaps, Life};
use schedule::Schedule;
use std::collections::BTreeSet;
use std::sync::Arc;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Parameters of `planned-migration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedMigrationConfig {
    /// Where objects may be outside HBM; of several that serve an interval equally the first.
    pub spill: Vec<TierId>,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "PlannedMigration",
    about: "evictions and prefetches over inactive intervals, planned for the whole trace (G10)",
    parameters: &[Parameter::optional("spill", Kind::Spill)],
    make: |params| Ok(PlannedMigrationConfig { spill: params.tiers("spill") }.into()),
};

impl Recipe for PlannedMigrationConfig {
    fn name(&self) -> &'static str {
        "planned-migration"
    }

    fn details(&self) -> String {
        "whole trace".to_owned()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(PlannedMigration::new(self, setting)))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(PlannedMigrationConfig { spill }.into())
    }
}

/// What is settled before the first op.
#[derive(Debug)]
struct Plan {
    spill: Vec<TierId>,
    visits: Visits,
    schedule: Schedule,
    /// Start of each op of the trace at the recorded pace, in ps, and the end of the last.
    starts: Vec<u64>,
    /// How long a fetch takes from the furthest spill tier, by object.
    fetches: Vec<u64>,
    replays: u64,
}

/// Carries a plan out.
#[derive(Debug)]
pub struct PlannedMigration {
    name: &'static str,
    plan: Arc<Plan>,
    replays: u64,
    /// What is in HBM, by the occurrence of its next use; the key of each object beside it.
    inside: BTreeSet<(u64, ObjectId)>,
    keys: Vec<Option<u64>>,
    /// What should come back before its next use and has not yet, and from when on.
    late: BTreeSet<(u64, ObjectId)>,
    due: Vec<u64>,
}

/// How many objects that should come back are looked at before one op.
const LOOKED_AT: usize = 32;

impl PlannedMigration {
    /// Plans the whole trace.
    pub fn new(config: &PlannedMigrationConfig, setting: &Setting<'_>) -> PlannedMigration {
        let gaps = Gaps::new(setting);
        let stays = plan::plan(setting, &config.spill, &gaps);
        let schedule = Schedule::new(&gaps, &stays, &config.spill);
        PlannedMigration::following(schedule, &gaps, &config.spill, setting)
    }

    /// Carries out this schedule.
    pub(in crate::zoo) fn following(
        schedule: Schedule,
        gaps: &Gaps,
        spill: &[TierId],
        setting: &Setting<'_>,
    ) -> PlannedMigration {
        let mut starts = vec![0];
        for span in setting.spans {
            starts.push(starts.last().map_or(0, |&at| span.ps().saturating_add(at)));
        }
        let farthest = |life: &Life| {
            let bytes = Bytes::new(life.bytes.unsigned_abs());
            let spans = spill.iter().map(|&tier| setting.copies.span(tier, HBM, bytes).ps());
            spans.max().unwrap_or(0)
        };
        let plan = Plan {
            spill: spill.to_vec(),
            visits: Visits::new(setting.workload),
            schedule,
            fetches: gaps.lives.iter().map(farthest).collect(),
            starts,
            replays: u64::from(setting.repeat),
        };
        PlannedMigration::at_the_start(Arc::new(plan), "planned-migration")
    }

    fn at_the_start(plan: Arc<Plan>, name: &'static str) -> PlannedMigration {
        let objects = plan.fetches.len();
        PlannedMigration {
            name,
            replays: plan.replays,
            inside: BTreeSet::new(),
            keys: vec![None; objects],
            late: BTreeSet::new(),
            due: vec![0; objects],
            plan,
        }
    }

    /// The same under the name of the policy whose plan it carries out.
    pub(in crate::zoo) fn called(self, name: &'static str) -> PlannedMigration {
        PlannedMigration { name, ..self }
    }

    /// Ops of a replay.
    fn ops(&self) -> usize {
        self.plan.schedule.evict.len()
    }

    fn next(&self, object: ObjectId, occurrence: u64) -> Option<u64> {
        self.plan.visits.next(object, occurrence, self.replays)
    }

    /// The first use in the run.
    fn first(&self, object: ObjectId) -> Option<u64> {
        self.plan.visits.uses(object).first().map(|&(op, _)| op.into())
    }

    /// Notes that an object is in HBM and used at `key` next.
    fn note(&mut self, object: ObjectId, key: Option<u64>) {
        if let Some(old) = std::mem::replace(&mut self.keys[object.index()], key) {
            self.inside.remove(&(old, object));
        }
        if let Some(key) = key {
            self.inside.insert((key, object));
        }
    }

    /// An op before `key` from which on a fetch is expected to be in time, twice its own time.
    fn due(&self, object: ObjectId, key: u64) -> u64 {
        let ops = self.ops() as u64;
        let (replay, op) = (key / ops, (key % ops) as usize);
        let ahead = self.plan.fetches[object.index()].saturating_mul(2);
        match self.plan.starts[op].checked_sub(ahead) {
            Some(at) => {
                replay * ops + self.plan.starts.partition_point(|&start| start <= at) as u64 - 1
            }
            None => (replay * ops).saturating_sub(1),
        }
    }

    fn evict(&mut self, object: ObjectId, to: TierId, step: &mut Step<'_>) {
        step.evict(object, HBM, to);
        self.note(object, None);
    }

    /// What the plan takes out before this op.
    fn leave(&mut self, step: &mut Step<'_>) {
        let op = (step.view().occurrence() % self.ops() as u64) as usize;
        for at in 0..self.plan.schedule.evict[op].len() {
            let (object, planned) = self.plan.schedule.evict[op][at];
            let key = self.keys[object.index()];
            // Not there, or never used again in this run.
            if key.is_none_or(|key| key == u64::MAX) || !step.is_allocated(object, HBM) {
                continue;
            }
            if let Some(to) = self.home(object, Some(planned), step) {
                self.evict(object, to, step);
            }
        }
    }

    /// What the plan writes back from this op on, so that it can go at once when its time comes.
    fn save(&mut self, step: &mut Step<'_>) {
        let op = (step.view().occurrence() % self.ops() as u64) as usize;
        for &(object, planned) in &self.plan.schedule.save[op] {
            let key = self.keys[object.index()];
            if key.is_none_or(|key| key == u64::MAX) || !step.in_hbm(object) {
                continue;
            }
            if let Some(to) = self.home(object, Some(planned), step) {
                step.prefetch(object, to);
            }
        }
    }

    /// Makes room for what this op needs and the plan has not provided for.
    fn make_way(&mut self, need: Bytes, step: &mut Step<'_>) {
        while !step.has_free(HBM, need) {
            let victim = self.victim(step).or_else(|| self.reclaim(step));
            let Some((object, to)) = victim else { break };
            self.evict(object, to, step);
            if let Some(key) = self.next(object, step.view().occurrence()) {
                self.due[object.index()] = self.due(object, key);
                self.late.insert((key, object));
            }
        }
    }

    /// What the plan uses where it is costs what such a use costs.
    fn use_in_place(&self, objects: &[ObjectId], step: &mut Step<'_>) {
        for touched in step.view().uses() {
            let object = touched.object;
            let tier = step.nearest(object).filter(|_| objects.contains(&object));
            if let Some(tier) = tier {
                step.use_in_place(object);
                step.charge(tier, touched.charged(step.bytes(object)));
            }
        }
    }

    /// Where the op creates an object that the plan lets it use in place.
    fn born_outside(&self, object: ObjectId, step: &Step<'_>) -> Option<TierId> {
        let op = (step.view().occurrence() % self.ops() as u64) as usize;
        let is_born =
            !step.view().exists(object) && self.plan.schedule.in_place[op].contains(&object);
        let planned = self.plan.schedule.outside[object.index()].filter(|_| is_born)?;
        step.fits(planned, step.bytes(object)).then_some(planned)
    }

    /// Brings back what the plan says, and what is late.
    fn come_back(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let now = view.occurrence();
        let op = (now % self.ops() as u64) as usize;
        for at in 0..self.plan.schedule.back[op].len() {
            let object = self.plan.schedule.back[op][at];
            if let Some(key) = self.next(object, now) {
                self.due[object.index()] = now;
                self.late.insert((key, object));
            }
        }
        let looked: Vec<(u64, ObjectId)> = self.late.iter().take(LOOKED_AT).copied().collect();
        for (key, object) in looked {
            let there = self.keys[object.index()].is_some() || !view.exists(object);
            if key <= now || there {
                self.late.remove(&(key, object));
            } else if self.due[object.index()] <= now && step.bytes(object) <= step.free(HBM) {
                self.late.remove(&(key, object));
                step.prefetch(object, HBM);
                self.note(object, Some(key));
            }
        }
    }

    // Who leaves and where to, when the plan has not said so: the object goes that is used last.
    // Where no spill tier has room for any, copies there are given up whose objects are in HBM too.

    /// Where an object goes: where it has room already, or where it is planned, or where it fits.
    fn home(&self, object: ObjectId, planned: Option<TierId>, step: &Step<'_>) -> Option<TierId> {
        // A copy that has only just been decided is not counted upon.
        let kept = |&tier: &TierId| {
            step.view().is_allocated(object, tier) && step.is_allocated(object, tier)
        };
        let owned = self.plan.spill.iter().copied().find(kept);
        let mut order = planned.into_iter().chain(self.plan.spill.iter().copied());
        owned.or_else(|| order.find(|&tier| step.fits(tier, step.room_of(object, tier))))
    }

    /// The object in HBM that is used last, of those that this op does not use and that have
    /// somewhere to go.
    fn victim(&mut self, step: &Step<'_>) -> Option<(ObjectId, TierId)> {
        let mut gone = Vec::new();
        let mut found = None;
        for &(key, object) in self.inside.iter().rev() {
            if !step.is_allocated(object, HBM) {
                gone.push((key, object));
            } else if !step.is_used(object)
                && let Some(to) = self.home(object, None, step)
            {
                found = Some((object, to));
                break;
            }
        }
        for (_, object) in gone {
            self.note(object, None);
        }
        found
    }

    /// Copies in spill tiers whose objects are in HBM too: what can be given up to make room there.
    fn spare<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = (ObjectId, TierId)> + 'a {
        let inside = self.inside.iter().map(|&(_, object)| object);
        inside.filter(|&object| view.in_hbm(object)).filter_map(|object| {
            let own = self.plan.spill.iter().find(|&&tier| view.is_allocated(object, tier));
            own.map(|&tier| (object, tier))
        })
    }

    /// Gives up copies in spill tiers, if only so the object that is used last has somewhere to go.
    fn reclaim(&mut self, step: &mut Step<'_>) -> Option<(ObjectId, TierId)> {
        let view = step.view();
        let spare: Vec<_> =
            self.spare(&view).filter(|&(object, tier)| step.is_allocated(object, tier)).collect();
        spare.into_iter().find_map(|(object, tier)| {
            step.drop_copy(object, tier);
            self.victim(step)
        })
    }
}

impl Policy for PlannedMigration {
    fn name(&self) -> &'static str {
        self.name
    }

    fn lookahead(&self) -> Lookahead {
        Lookahead::Oracle
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let bytes = view.object(object).bytes;
        let (planned, first) = (self.plan.schedule.outside[object.index()], self.first(object));
        let home = self.home(object, planned, &Step::new(view));
        if (planned.is_none() || home.is_none()) && view.fits(HBM, bytes) {
            self.note(object, first.or(Some(u64::MAX)));
            return HBM;
        }
        if let (None, Some(key)) = (planned, first) {
            self.due[object.index()] = self.due(object, key);
            self.late.insert((key, object));
        }
        home.unwrap_or_else(|| self.plan.spill.last().copied().unwrap_or(HBM))
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let now = view.occurrence();
        self.leave(step);
        self.save(step);
        let op = (now % self.ops() as u64) as usize;
        for &object in &self.plan.schedule.in_place[op] {
            if let Some(tier) = self.born_outside(object, step) {
                step.expect(object, tier);
            }
        }
        // Only what is outside, or is born there, stays there.
        let in_place = |object: ObjectId| {
            let stays = self.plan.schedule.in_place[op].contains(&object);
            stays && step.nearest(object).is_some_and(|tier| tier != HBM)
        };
        let all = view.uses().iter().map(|touched| touched.object);
        let (there, used): (Vec<ObjectId>, Vec<ObjectId>) = all.partition(|&one| in_place(one));
        self.use_in_place(&there, step);
        let missing = used.iter().filter(|&&object| !view.in_hbm(object));
        self.make_way(missing.map(|&object| step.bytes(object)).sum(), step);
        for object in used {
            if !view.in_hbm(object) {
                match view.exists(object) {
                    true => step.fetch(object, HBM),
                    false => step.expect(object, HBM),
                }
            }
            let next = self.next(object, now);
            let end = u64::from(self.plan.visits.life(object).end);
            let dead = end <= op as u64 + 1;
            // Not used again and still there: the first to go.
            let stays = || if dead { None } else { Some(u64::MAX) };
            self.note(object, next.or_else(stays));
        }
        self.come_back(step);
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.born_outside(object, &Step::new(view)).unwrap_or(HBM)
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.home(object, None, &Step::new(view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier != HBM {
            let used = |object| view.uses().iter().any(|touched| touched.object == object);
            let mut spare = self.spare(view);
            let (object, tier) = spare.find(|&(one, spill)| spill == tier && !used(one))?;
            return Some(Action::Drop { object, tier });
        }
        let (object, to) = self.victim(&Step::new(view))?;
        self.note(object, None);
        Some(Action::Evict { object, from: HBM, to })
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        // A next use is in this replay or in the one behind it.
        out.looks_ahead(2 * self.ops() as u64);
        remember!(out, self as PlannedMigration { keys: next_use, late: of_op }
        skip {
            name, plan, replays, inside, due
        });
        late.iter().for_each(|&(_, object)| out.coming_op(self.due[object.index()]));
        true
    }

    fn leave_out(&mut self, replays: u64) {
        self.replays -= replays;
    }

    fn anew(&self) -> Option<Box<dyn Policy>> {
        Some(Box::new(PlannedMigration::at_the_start(self.plan.clone(), self.name)))
    }
}
