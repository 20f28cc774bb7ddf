//! The policy that serves ops on the host's processors and guards the one that it wraps.
//!
//! Before an op of the device the wrapped policy is asked, and what it says is checked against what
//! is where by now; what it did not think of is added. Before an op on the host it is not asked.
//! Invariant: what the op uses is in its place after the actions, or the ledger says what is full.

use super::draft::{Draft, Ground, Held};
use super::guests::{Guests, soon};
use super::tiers::host_tiers;
use crate::policy::{Action, Policy, Sight};
use crate::state::State;
use crate::step::Step;
use crate::view::View;
use std::collections::BTreeSet;
use std::fmt;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, Unit};

/// A policy for the device, and what ops on the host need.
pub(super) struct HostOps {
    inner: Box<dyn Policy>,
    /// The device's ops alone, if the policy was made for these.
    device: Option<Device>,
    ground: Ground,
    guests: Guests,
    /// Where what the op creates will be, if that was decided with its actions.
    promised: Vec<(ObjectId, TierId)>,
    /// What the actions of the op name.
    named: BTreeSet<ObjectId>,
    /// Said by the wrapped policy; kept for its memory.
    said: Vec<Action>,
}

/// The device's ops.
struct Device {
    workload: Workload,
    /// By op of the whole trace: how many of the device's come before it.
    before: Vec<u64>,
}

impl Device {
    /// What is where, for a policy that knows these ops only.
    fn view<'v>(&'v self, view: &View<'v>, sight: Sight) -> View<'v> {
        let Device { workload, before } = self;
        let (all, own) = (before.len() as u64, workload.trace.ops.len() as u64);
        let at = view.occurrence;
        let occurrence = at / all * own + before[(at % all) as usize];
        let total = view.total / all * own;
        View { workload, ledger: view.ledger, occurrence, total, sight }
    }

    /// In so many of these ops come at most so many of the whole trace.
    fn ops_of_all(&self, own: u64) -> u64 {
        let replays = own / self.workload.trace.ops.len() as u64 + 1;
        replays.saturating_mul(self.before.len() as u64)
    }
}

impl HostOps {
    pub(super) fn new(
        inner: Box<dyn Policy>,
        device: Option<Workload>,
        workload: &Workload,
        hardware: &Hardware,
    ) -> HostOps {
        let trace = &workload.trace;
        let host = host_tiers(hardware);
        let only = inner.keeps_to();
        let may = |tier: &TierId| only.is_none_or(|only| only.contains(tier));
        let beyond = |tier: &TierId| *tier != HBM && !host.contains(tier) && may(tier);
        let beyond = hardware.tier_ids().filter(beyond).collect();
        let mut for_host = vec![false; trace.objects.len()];
        let mut before = Vec::with_capacity(trace.ops.len());
        let mut count = 0;
        for (index, op) in trace.ops.iter().enumerate() {
            before.push(count);
            if op.unit != Unit::Cpu {
                count += 1;
                continue;
            }
            let uses = trace.uses_of(OpId::at(index));
            uses.iter().for_each(|touched| for_host[touched.object.index()] = true);
        }
        let (last_used, host_last) = (vec![0; for_host.len()], vec![0; for_host.len()]);
        HostOps {
            inner,
            device: device.map(|workload| Device { workload, before }),
            ground: Ground {
                host,
                beyond,
                tiers: hardware.tiers.len(),
                last_used,
                host_last,
                for_host,
            },
            guests: Guests::default(),
            promised: Vec::new(),
            named: BTreeSet::new(),
            said: Vec::new(),
        }
    }

    /// Asks the wrapped policy, which sees the device's ops alone.
    fn ask<T>(
        &mut self,
        view: &View<'_>,
        question: impl FnOnce(&mut dyn Policy, &View<'_>) -> T,
    ) -> T {
        let sight = self.inner.sight();
        match &self.device {
            None => question(&mut *self.inner, view),
            Some(device) => question(&mut *self.inner, &device.view(view, sight)),
        }
    }

    fn before_device(&mut self, view: &View<'_>) -> Vec<Action> {
        let mut said = std::mem::take(&mut self.said);
        said.clear();
        self.ask(view, |policy, view| {
            let mut step = Step::new(view);
            policy.plan_op(&mut step);
            said.extend_from_slice(step.actions());
        });
        let mut draft = Draft::new(view, &self.ground);
        let soon = soon(view);
        self.guests.leave(&mut draft, &self.ground.beyond, &soon);
        let mut in_place: Vec<ObjectId> = Vec::new();
        let mut later = Vec::new();
        for (index, &action) in said.iter().enumerate() {
            let used = |object| draft.is_used(object);
            match action {
                Action::Fetch { object, to } => {
                    // Nobody waits for what the op does not use.
                    let room = draft.held(object, to) != Held::Absent;
                    if room || used(object) || draft.fits(to, draft.bytes(object)) {
                        draft.fetch(object, to);
                    }
                }
                Action::Prefetch { object, to } => later.push((object, to)),
                Action::Evict { object, from, to } if !used(object) => {
                    draft.evict(object, from, to);
                }
                Action::Drop { object, tier } if !used(object) => draft.drop_copy(object, tier),
                Action::Evict { .. } | Action::Drop { .. } => {}
                Action::InPlace { object } if used(object) => {
                    if draft.nearest(object) != Some(HBM) {
                        in_place.push(object);
                        draft.actions.push(action);
                    }
                }
                Action::InPlace { .. } => {}
                Action::Charge { tier, bytes } => {
                    let of = index.checked_sub(1).and_then(|before| match said[before] {
                        Action::InPlace { object } => Some(object),
                        _ => None,
                    });
                    let tier = match of {
                        None => Some(tier),
                        Some(object) => charged(&mut draft, &mut self.promised, object, tier),
                    };
                    draft.actions.extend(tier.map(|tier| Action::Charge { tier, bytes }));
                }
                Action::Delay { .. } => draft.actions.push(action),
            }
        }
        let mut born = Bytes::ZERO;
        for object in view.uses().iter().map(|touched| touched.object) {
            match view.exists(object) {
                _ if in_place.contains(&object) => {}
                true => draft.fetch(object, HBM),
                false => born += draft.bytes(object),
            }
        }
        if born > Bytes::ZERO {
            draft.make_room(HBM, born);
        }
        for (object, to) in later {
            draft.prefetch(object, to, if to == HBM { born } else { Bytes::ZERO });
        }
        self.guests.come(&mut draft, &self.ground.host, &soon);
        let actions = draft.actions;
        self.said = said;
        actions
    }

    fn before_host(&mut self, view: &View<'_>) -> Vec<Action> {
        let used = view.uses().iter();
        let far: Vec<Option<TierId>> =
            used.map(|touched| self.spill_tier(touched.object, view)).collect();
        let mut draft = Draft::new(view, &self.ground);
        let soon = soon(view);
        self.guests.leave(&mut draft, &self.ground.beyond, &soon);
        let mut made = Vec::new();
        for (touched, &far) in view.uses().iter().zip(&far) {
            let (object, writes) = (touched.object, touched.mode.writes());
            if !view.exists(object)
                || (touched.mode == Mode::Write && draft.in_host(object).is_none())
            {
                made.push((object, far));
                continue;
            }
            let to = match draft.in_host(object) {
                Some(tier) => tier,
                None if draft.nearest(object) != Some(HBM) => {
                    self.guests.note(object);
                    room_in_host(&mut draft, &self.ground.host, object, far)
                }
                None => room_in_host(&mut draft, &self.ground.host, object, far),
            };
            // What changes leaves HBM; what is only read may stay there as well.
            if writes && draft.held(object, HBM) != Held::Absent {
                draft.evict(object, HBM, to);
            }
            draft.fetch(object, to);
        }
        for (object, far) in made {
            let tier = room_in_host(&mut draft, &self.ground.host, object, far);
            draft.bear(object, tier);
            self.promised.push((object, tier));
        }
        self.guests.come(&mut draft, &self.ground.host, &soon);
        draft.actions
    }

    /// What leaves a tier in which room is in pieces.
    fn leaving(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let named = &self.named;
        let mut draft = Draft::new(view, &self.ground);
        let free = |object: &ObjectId| {
            view.has_room(*object, tier) && !draft.is_used(*object) && !named.contains(object)
        };
        let objects = (0..self.ground.last_used.len()).map(ObjectId::at);
        let mut objects: Vec<ObjectId> = objects.filter(free).collect();
        objects.sort_by_key(|object| (self.ground.last_used[object.index()], *object));
        let outside = || self.ground.beyond.iter().chain(&self.ground.host).copied();
        for object in objects {
            let (roomy, bytes) = (view.nearest(object) != Some(tier), draft.bytes(object));
            if tier != HBM && (roomy || !view.holds(object, tier)) {
                draft.drop_copy(object, tier);
            } else {
                let can = |&to: &TierId| view.has_room(object, to) || view.fits(to, bytes);
                let goal = outside().filter(|&to| to != tier).find(can);
                goal.map(|to| draft.evict(object, tier, to));
            }
            if let Some(action) = draft.actions.pop() {
                return Some(action);
            }
        }
        None
    }
}

/// The tier that a use in place is charged for: where the object is, or where the op will create
/// it; `None` if it is in HBM.
fn charged(
    draft: &mut Draft<'_, '_>,
    promised: &mut Vec<(ObjectId, TierId)>,
    object: ObjectId,
    tier: TierId,
) -> Option<TierId> {
    if draft.view.exists(object) {
        return draft.nearest(object).filter(|&nearest| nearest != HBM);
    }
    if tier != HBM && !promised.iter().any(|(unborn, _)| *unborn == object) {
        let tier = draft.room_outside(object, tier);
        draft.bear(object, tier);
        promised.push((object, tier));
        return Some(tier);
    }
    Some(tier)
}

/// The tier of the host that an object gets, with room made for it.
fn room_in_host(
    draft: &mut Draft<'_, '_>,
    host: &[TierId],
    object: ObjectId,
    far: Option<TierId>,
) -> TierId {
    let bytes = draft.bytes(object);
    let owned = host.iter().find(|&&tier| draft.held(object, tier) != Held::Absent);
    let far = far.filter(|far| host.contains(far) && draft.fits(*far, bytes));
    let roomy = || host.iter().copied().find(|&tier| draft.fits(tier, bytes));
    if let Some(tier) = owned.copied().or(far).or_else(roomy) {
        return tier;
    }
    // With no room anywhere the ledger says that the first one is full.
    host.iter().copied().find(|&tier| draft.make_room(tier, bytes)).unwrap_or(host[0])
}

impl Policy for HostOps {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn sight(&self) -> Sight {
        self.inner.sight()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.ask(view, |policy, view| policy.initial_tier(object, view))
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let promised = self.promised.iter().position(|(unborn, _)| *unborn == object);
        let promised = promised.map(|index| self.promised.swap_remove(index).1);
        if let (Some(tier), Unit::Cpu) = (promised, view.op().unit) {
            return tier;
        }
        let said = self.ask(view, |policy, view| policy.allocate_in(object, view));
        // The op pays for its use there already.
        if let Some(tier) = promised {
            return tier;
        }
        let bytes = view.object(object).bytes;
        if said == HBM || view.fits(said, bytes) {
            return said;
        }
        Draft::new(view, &self.ground).roomy_outside(object).unwrap_or(said)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let actions = &mut Vec::new();
        self.promised.clear();
        self.named.clear();
        let own = match view.op().unit {
            Unit::Cpu => self.before_host(view),
            _ => self.before_device(view),
        };
        self.named.extend(own.iter().filter_map(Action::object));
        actions.extend(own);
        for object in view.uses().iter().map(|touched| touched.object.index()) {
            self.ground.last_used[object] = view.occurrence() + 1;
            if view.op().unit == Unit::Cpu {
                self.ground.host_last[object] = view.occurrence() + 1;
            }
        }
        actions.drain(..).for_each(|action| step.take(action));
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.ask(view, |policy, view| policy.spill_tier(object, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if view.op().unit != Unit::Cpu {
            let said = self.ask(view, |policy, view| policy.make_room(view, tier));
            let mut draft = Draft::new(view, &self.ground);
            let free = |object: ObjectId| !draft.is_used(object) && !self.named.contains(&object);
            // Where it should go may be full by now, and then another leaves.
            let goes = |object, to| {
                free(object) && (view.has_room(object, to) || view.fits(to, draft.bytes(object)))
            };
            match said {
                Some(Action::Evict { object, from, to }) if from == tier && goes(object, to) => {
                    draft.evict(object, from, to);
                }
                Some(Action::Drop { object, tier: from }) if from == tier && free(object) => {
                    draft.drop_copy(object, from);
                }
                _ => {}
            }
            if let Some(action) = draft.actions.pop() {
                return Some(action);
            }
        }
        self.leaving(view, tier)
    }

    fn host(&self) -> &[TierId] {
        &self.ground.host
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        // Promises and names are those of one op.
        let HostOps { inner, device, ground, guests, promised: _, named: _, said: _ } = self;
        guests.state(out);
        let Ground { host: _, beyond: _, last_used, host_last, for_host: _, tiers: _ } = ground;
        last_used.iter().chain(host_last).for_each(|&used| out.op_from_1(used));
        let Some(device) = device else { return inner.state(view, out) };
        let view = device.view(view, inner.sight());
        let mut own = State::new(view.occurrence);
        let told = inner.state(&view, &mut own);
        own.words().iter().for_each(|&word| out.word(word));
        let window = match inner.sight() {
            Sight::Window(ops) => own.horizon().max(ops.into()),
            Sight::Past | Sight::Oracle => own.horizon(),
        };
        if window > 0 {
            out.looks_ahead(device.ops_of_all(window));
        }
        told
    }

    fn leave_out(&mut self, replays: u64) {
        self.inner.leave_out(replays);
    }
}

impl fmt::Debug for HostOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostOps({})", self.inner.name())
    }
}
