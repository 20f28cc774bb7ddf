//! Offload with the whole order known: who is needed last leaves, and has been copied out before.
//!
//! Five rules, each bounded by what the links can carry while the next op runs. *Early write-back*:
//! what is needed last and will have to leave is copied out while the link is idle, so that leaving
//! is free later; to a tier behind others only what these will not hold. Where a window hides what
//! is to come, a copy that was in vain is not made again in later replays. *Farthest next use*: room
//! is made by giving up what is needed last, copies before what would have to be written first;
//! what is used no more counts as needed when its memory is given back. *Look-ahead fetch*: what is
//! outside comes back in the order of next uses, in the place of what is needed later, as long as
//! new objects still find room. *Staging*: what is in a tier behind comes to the one before it
//! where nothing else will need the room. *Small objects stay*: what a link takes longer to set up
//! than to carry leaves last of all, as long as it is a small share of HBM together.
//! Sources: Belady, IBM Systems Journal 5(2), 1966, for the victim; Rhu et al., "vDNN", MICRO 2016,
//! and Zhang et al., "G10", MICRO 2023, for copying under compute; Peng et al., "Capuchin", ASPLOS
//! 2020, for one iteration that is recorded to plan the others.
//! Whoever tries runs may tell it more (`told`).
//! Invariant: an object that the op in question uses is never evicted for it, and whatever is not
//! needed to run the op is done only if it costs the op nothing.

mod ahead;
mod alive;
mod config;
mod estimate;
mod future;
mod in_place;
mod sizes;
mod space;
mod stock;
mod told;

use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::Setting;
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
pub use config::{ClairvoyantOffloadConfig, ENTRY};
use estimate::Estimate;
use future::{Future, STAYS};
use sizes::{staying, under_way};
use stock::{Place, Stock};
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
pub(in crate::zoo) use told::{Told, Uses};

/// Candidates that are passed over before a search is given up.
const PASSED_OVER: usize = 32;
/// An object is needed soon if that is within so many of its copies.
const SOON: u64 = 2;

/// The policy.
pub struct ClairvoyantOffload {
    workload: Workload,
    spill: Vec<TierId>,
    window: Option<u32>,
    /// Whether an op may use what it lacks where it is.
    in_place: bool,
    told: Told,
    /// Tiers outside HBM.
    outside: Vec<TierId>,
    future: Future,
    estimate: Estimate,
    stock: Stock,
    /// Bytes that may be on their way, and so have room at both ends.
    under_way: Bytes,
    /// By object: it is so small that it leaves HBM last of all.
    stays: Vec<bool>,
    /// By object: the op behind which it was copied out early, while it is in HBM still.
    early: Vec<Option<OpId>>,
    /// Uses behind which contents were copied out early, and ended in HBM without having left it.
    in_vain: Uses,
    /// The occurrence, counted from 1, whose decisions moved an object last.
    moved: Vec<u64>,
    now: Now,
}

/// What is decided for one op.
#[derive(Debug, Default)]
struct Now {
    occurrence: u64,
    turn: u64,
    /// When the op ends: copies that begin before cost it nothing.
    end: u64,
    /// Whether it creates objects.
    births: bool,
    /// Used in HBM before what is decided.
    used: Bytes,
    /// Bytes of complete copies that could leave, as far as they have been looked at.
    pool: Bytes,
    cursor: Option<(u64, ObjectId)>,
    /// More than HBM holds will be alive: so much must be elsewhere.
    excess: Bytes,
    /// Tiers outside where no room could be had.
    exhausted: [bool; MAX_TIERS],
    /// What the op uses where it is.
    in_place: Vec<ObjectId>,
}

impl ClairvoyantOffload {
    /// For a workload on a machine.
    ///
    /// Errors in words if tiers are not joined.
    pub fn new(
        config: &ClairvoyantOffloadConfig,
        setting: &Setting<'_>,
    ) -> Result<ClairvoyantOffload, String> {
        ClairvoyantOffload::with(config, Told::default(), setting)
    }

    /// The same, told something.
    pub(in crate::zoo) fn with(
        config: &ClairvoyantOffloadConfig,
        told: Told,
        setting: &Setting<'_>,
    ) -> Result<ClairvoyantOffload, String> {
        let objects = setting.workload.trace.objects.len();
        let estimate = Estimate::new(setting, setting.memory.usable(HBM).most())?;
        let stays = staying(setting, &config.spill, &estimate);
        Ok(ClairvoyantOffload {
            workload: setting.workload.clone(),
            spill: config.spill.clone(),
            window: config.window,
            in_place: config.in_place,
            outside: setting.hardware.tier_ids().filter(|&tier| tier != HBM).collect(),
            future: Future::new(setting, config, &told.in_place),
            told,
            estimate,
            stays,
            stock: Stock::new(objects),
            under_way: under_way(setting),
            early: vec![None; objects],
            in_vain: Uses::new(),
            moved: vec![0; objects],
            now: Now::default(),
        })
    }

    fn rank(&self, object: ObjectId) -> u64 {
        self.future.rank(object, self.now.occurrence)
    }

    /// The rank of an object in a place: what stays in HBM is needed before all others.
    fn rank_in(&self, object: ObjectId, place: Place) -> u64 {
        let stays = place.is_inside() && self.stays[object.index()];
        if stays { STAYS } else { self.rank(object) }
    }

    /// Whether it can be of use to copy an object out early.
    fn is_worth_a_copy(&self, object: ObjectId, view: &View<'_>) -> bool {
        let room = view.capacity(HBM).most();
        !self.is_kept(object) && self.future.is_worth_a_copy(object, self.now.occurrence, room)
    }

    /// Notes where an object is from now on.
    fn put(&mut self, object: ObjectId, place: Place, view: &View<'_>) {
        let place = match place {
            Place::Alone if !self.is_worth_a_copy(object, view) => Place::Kept,
            Place::Outside if self.future.is_over(object) => Place::Over,
            place => place,
        };
        self.stock.put(object, place, self.rank_in(object, place));
    }

    /// The tier outside that holds an object.
    fn holder(&self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.outside.iter().copied().find(|&tier| view.holds(object, tier))
    }

    /// Whether an object is where it is believed to be; if not, that is mended.
    fn is_true(&mut self, object: ObjectId, place: Place, view: &View<'_>) -> bool {
        if self.has_moved(object) {
            return true;
        }
        let inside = view.in_hbm(object);
        let copied = self.holder(object, view).is_some();
        let found = match (inside, copied) {
            (true, true) => Place::Copied,
            (true, false) if place == Place::Kept => Place::Kept,
            (true, false) => Place::Alone,
            (false, _) => Place::Outside,
        };
        if !view.exists(object) {
            self.stock.take(object);
        } else if found != place {
            self.put(object, found, view);
        }
        view.exists(object) && found == place
    }

    fn has_moved(&self, object: ObjectId) -> bool {
        self.moved[object.index()] == self.now.occurrence + 1
    }

    fn moves(&mut self, object: ObjectId) {
        self.moved[object.index()] = self.now.occurrence + 1;
    }

    /// What the op needs and HBM does not hold.
    fn demand(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let born = view.births_ahead(0).unwrap_or(Bytes::ZERO);
        let missing = |object: &ObjectId| {
            view.exists(*object) && !view.in_hbm(*object) && !self.now.in_place.contains(object)
        };
        let missing: Vec<ObjectId> =
            view.uses().iter().map(|touched| touched.object).filter(missing).collect();
        let bytes: Bytes = missing.iter().map(|&object| view.object(object).bytes).sum();
        self.now.births = born > Bytes::ZERO;
        self.make_way(born + bytes, step);
        for object in missing {
            self.fetch(object, Action::Fetch { object, to: HBM }, step);
        }
    }

    fn fetch(&mut self, object: ObjectId, action: Action, step: &mut Step<'_>) {
        let Some(from) = self.holder(object, &step.view()) else { return };
        step.take(action);
        self.estimate.bring(object, from, HBM, step.bytes(object), self.now.turn);
        self.moves(object);
    }

    /// Whether a copy would begin before the op ends.
    fn begins_in_time(&self, from: TierId, to: TierId) -> bool {
        self.estimate.begins(self.now.turn, from, to) < self.now.end
    }

    /// Copies out what is needed last and will have to leave, as long as a link is idle.
    fn write_back(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        if self.now.excess == Bytes::ZERO && step.free(HBM) > self.now.used {
            return; // no known op asks for it
        }
        let mut passed = 0;
        let mut below = (u64::MAX, ObjectId(u32::MAX));
        while passed < PASSED_OVER && self.spill.iter().any(|&to| self.begins_in_time(HBM, to)) {
            let last = self.stock.down_from(Place::Alone, below).next();
            let Some((rank, object)) = last else { break };
            below = (rank, object);
            if !self.is_true(object, Place::Alone, view) {
                continue;
            }
            if !self.is_worth_a_copy(object, view) {
                self.stock.put(object, Place::Kept, rank);
                continue;
            }
            let Some(to) = self.lodge(object, rank, true, step) else {
                passed += 1;
                continue;
            };
            let bytes = view.object(object).bytes;
            self.drop_stale(object, to, step);
            self.estimate.copy_out(object, HBM, to, bytes, self.now.turn);
            step.prefetch(object, to);
            self.early[object.index()] = self.future.last(object);
            self.moves(object);
            self.stock.put(object, Place::Copied, self.rank_in(object, Place::Copied));
        }
    }

    /// The op runs: everything that it changes is noted.
    fn finish(&mut self, view: &View<'_>) {
        let occurrence = self.now.occurrence;
        self.estimate.run(occurrence, &self.workload);
        let op = self.future.op(occurrence);
        for touched in view.uses() {
            if touched.mode.writes() {
                self.ends_early(touched.object);
            }
            self.future.advance(touched.object, occurrence);
        }
        for touched in view.uses() {
            let object = touched.object;
            let copied = !touched.mode.writes() && self.holder(object, view).is_some();
            let place = match (self.now.in_place.contains(&object), copied) {
                (true, _) => Place::Outside,
                (false, true) => Place::Copied,
                (false, false) => Place::Alone,
            };
            self.put(object, place, view);
        }
        for index in 0..self.workload.releases(op).len() {
            let object = self.workload.releases(op)[index];
            self.ends_early(object);
            let inside = self.stock.take(object).is_some_and(Place::is_inside);
            if inside {
                self.estimate.leave(object, view.object(object).bytes);
            }
            self.future.end(object);
        }
    }
}

impl Policy for ClairvoyantOffload {
    fn name(&self) -> &'static str {
        "clairvoyant-offload"
    }

    fn lookahead(&self) -> Lookahead {
        self.window.map_or(Lookahead::Oracle, Lookahead::Window)
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let tier = self.home(object, view);
        let place = if tier == HBM { Place::Alone } else { Place::Outside };
        if tier == HBM {
            self.estimate.start_inside(view.object(object).bytes);
        }
        self.put(object, place, view);
        tier
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let occurrence = view.occurrence();
        self.now = Now {
            occurrence,
            turn: self.estimate.turn(view.op().stream),
            used: view.capacity(HBM).most().checked_sub(view.free(HBM)).unwrap_or(Bytes::ZERO),
            excess: Bytes::new(
                self.future.peak(occurrence).get().saturating_sub(view.capacity(HBM).most().get()),
            ),
            ..Now::default()
        };
        if self.future.recalls(occurrence) {
            self.in_vain.clear(); // they were in vain for want of sight
            for object in (0..self.workload.trace.objects.len()).map(ObjectId::at) {
                if let Some(place) = self.stock.place(object) {
                    self.put(object, place, view);
                }
            }
        }
        if let Some(op) = self.future.appears(occurrence) {
            let uses = self.workload.trace.uses_of(op).iter().map(|touched| touched.object);
            for object in uses.chain(self.workload.releases(op).iter().copied()) {
                if let Some(place) = self.stock.place(object) {
                    self.stock.put(object, place, self.rank_in(object, place));
                }
            }
        }
        for touched in view.uses() {
            self.stock.take(touched.object);
        }
        self.use_in_place(step);
        self.demand(step);
        let op = self.future.op(occurrence).index();
        let needs = view.uses().iter().map(|touched| touched.object);
        self.now.end = self.estimate.end(op, self.now.turn, needs);
        self.write_back(step);
        self.look_ahead(step);
        self.stage(step);
        self.finish(view);
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(self.home(object, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier == HBM { self.piece(view) } else { self.spare_copy(tier, view) }
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        // What is moved now is of the op that is planned: none is.
        remember!(out, self as ClairvoyantOffload { future, estimate, stock, early, in_vain }
            skip { workload, spill, window, in_place, told, outside, under_way, stays, moved, now });
        true
    }

    fn leave_out(&mut self, replays: u64) {
        self.future.leave_out(replays);
    }
}
