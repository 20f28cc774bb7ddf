//! The policy that serves ops on the CPU and guards the one that it wraps.
//!
//! Before an op of the device the wrapped policy is asked, and what it says is checked against what
//! is where by now; what it did not think of is added. Before an op on the CPU it is not asked.
//! Invariant: what the op uses is in its place after the actions, or the ledger says what is full.

use super::guests::{Guests, soon};
use super::make_room::{Usage, drop_spare, prefetch};
use crate::policy::{Action, Lookahead, Policy};
use crate::state::{State, remember};
use crate::step::{Buffers, Step};
use crate::view::View;
use std::collections::BTreeSet;
use std::fmt;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, Unit};

/// A policy for the device, and what ops on the CPU need.
pub(super) struct CpuOps {
    inner: Box<dyn Policy>,
    /// The device's ops alone, if the policy was made for these.
    device: Option<DeviceOps>,
    usage: Usage,
    guests: Guests,
    /// Where what the op creates will be, if that was decided with its actions.
    promised: Vec<(ObjectId, TierId)>,
    /// What the actions of the op name.
    named: BTreeSet<ObjectId>,
    /// Memory for the steps of the wrapped policy.
    buffers: Buffers,
}

/// The device's ops alone.
struct DeviceOps {
    workload: Workload,
    /// By op of the whole trace: how many of the device's come before it.
    before: Vec<u64>,
}

impl DeviceOps {
    /// What is where, for a policy that knows these ops only.
    fn view<'v>(&'v self, view: &View<'v>, lookahead: Lookahead) -> View<'v> {
        let DeviceOps { workload, before } = self;
        let (all, own) = (before.len() as u64, workload.trace.ops.len() as u64);
        let at = view.occurrence;
        let occurrence = at / all * own + before[(at % all) as usize];
        View { workload, ledger: view.ledger, occurrence, total: view.total / all * own, lookahead }
    }

    /// In so many of these ops come at most so many of the whole trace.
    fn ops_of_all(&self, own: u64) -> u64 {
        let replays = own / self.workload.trace.ops.len() as u64 + 1;
        replays.saturating_mul(self.before.len() as u64)
    }
}

impl CpuOps {
    pub(super) fn new(
        inner: Box<dyn Policy>,
        device: Option<Workload>,
        workload: &Workload,
        (host, tiers): (Vec<TierId>, impl Iterator<Item = TierId>),
    ) -> CpuOps {
        let trace = &workload.trace;
        let only = inner.keeps_to();
        let may = |tier: &TierId| only.is_none_or(|only| only.contains(tier));
        let outer = |tier: &TierId| *tier != HBM && !host.contains(tier) && may(tier);
        let outer = tiers.filter(outer).collect();
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
        CpuOps {
            inner,
            device: device.map(|workload| DeviceOps { workload, before }),
            usage: Usage { host, outer, last_used, host_last, for_host },
            guests: Guests::default(),
            promised: Vec::new(),
            named: BTreeSet::new(),
            buffers: Buffers::default(),
        }
    }

    /// Asks the wrapped policy, which sees the device's ops alone.
    fn ask<T>(
        &mut self,
        view: &View<'_>,
        question: impl FnOnce(&mut dyn Policy, &View<'_>) -> T,
    ) -> T {
        let lookahead = self.inner.lookahead();
        match &self.device {
            None => question(&mut *self.inner, view),
            Some(device) => question(&mut *self.inner, &device.view(view, lookahead)),
        }
    }

    /// Before an op of the device: what the wrapped policy wants as far as it can be had, and what
    /// the op needs beside it.
    fn plan_device(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let buffers = std::mem::take(&mut self.buffers);
        let (buffers, refused) = self.ask(&view, |policy, view| {
            let mut step = Step::over(view, buffers);
            policy.plan_op(&mut step);
            step.done()
        });
        step.refuse(refused);
        let soon = soon(&view);
        self.guests.leave(&self.usage, &soon, step);
        let wanted = &buffers.actions;
        let mut before = None;
        for &action in wanted {
            self.grant(action, before, step);
            before = Some(action);
        }
        let in_place = |object| step.actions().contains(&Action::InPlace { object });
        let absent = view.uses().iter().map(|used| used.object).filter(|&object| !in_place(object));
        let (known, new): (Vec<_>, Vec<_>) = absent.partition(|&object| view.exists(object));
        known.into_iter().for_each(|object| self.usage.fetch(object, HBM, step));
        let born = new.into_iter().map(|object| step.bytes(object)).sum();
        if born > Bytes::ZERO {
            self.usage.make_room(HBM, born, step);
        }
        for &action in wanted {
            if let Action::Prefetch { object, to } = action {
                prefetch(object, to, if to == HBM { born } else { Bytes::ZERO }, step);
            }
        }
        self.guests.come(&self.usage, &soon, step);
        self.buffers = buffers;
    }

    /// Takes an action of the wrapped policy, which does not know what ops on the CPU have moved:
    /// here, and nowhere else, its wishes are changed. Left out without a word are evictions and
    /// drops of what the op uses or of what has left the tier, drops of the only copy, fetches for
    /// later ops that find no room, and uses in place of what is in HBM. An eviction to a full tier
    /// goes to another one.
    fn grant(&mut self, action: Action, before: Option<Action>, step: &mut Step<'_>) {
        match action {
            // Behind what the op itself needs.
            Action::Prefetch { .. } => {}
            Action::Fetch { object, to } => {
                if step.is_used(object) || step.can_enter(object, to) {
                    self.usage.fetch(object, to, step);
                }
            }
            Action::Evict { object, from, to } if !step.is_used(object) => {
                self.usage.evict(object, (from, to), step);
            }
            Action::Drop { object, tier } if !step.is_used(object) => {
                drop_spare(object, tier, step);
            }
            Action::InPlace { object } if step.is_used(object) && !step.in_hbm(object) => {
                step.take(action);
            }
            Action::Evict { .. } | Action::Drop { .. } | Action::InPlace { .. } => {}
            Action::Charge { tier, bytes } => {
                let tier = match before {
                    Some(Action::InPlace { object }) => self.charged(object, tier, step),
                    _ => Some(tier),
                };
                tier.into_iter().for_each(|tier| step.charge(tier, bytes));
            }
            Action::Delay { .. } => step.take(action),
        }
    }

    /// The tier that a use in place is charged for: where the object is, or where the op will
    /// create it; `None` if it is in HBM.
    fn charged(&mut self, object: ObjectId, tier: TierId, step: &mut Step<'_>) -> Option<TierId> {
        if step.view().exists(object) {
            return step.nearest(object).filter(|&nearest| nearest != HBM);
        }
        if tier == HBM || self.promised.iter().any(|(unborn, _)| *unborn == object) {
            return Some(tier);
        }
        let tier = self.usage.room_outside(object, tier, step);
        self.promise(object, tier, step);
        Some(tier)
    }

    /// The op will create an object in a tier.
    fn promise(&mut self, object: ObjectId, tier: TierId, step: &mut Step<'_>) {
        step.expect(object, tier);
        self.promised.push((object, tier));
    }

    /// Before an op on the CPU: what it uses comes to memory of the host.
    fn plan_host(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let used = view.uses().iter();
        let far: Vec<Option<TierId>> =
            used.map(|touched| self.spill_tier(touched.object, &view)).collect();
        let soon = soon(&view);
        self.guests.leave(&self.usage, &soon, step);
        let mut made = Vec::new();
        for (touched, &far) in view.uses().iter().zip(&far) {
            let (object, writes) = (touched.object, touched.mode.writes());
            let here = self.usage.in_host(object, step);
            if !view.exists(object) || (touched.mode == Mode::Write && here.is_none()) {
                made.push((object, far));
                continue;
            }
            if here.is_none() && !step.in_hbm(object) {
                self.guests.note(object);
            }
            let to = here.unwrap_or_else(|| self.usage.in_host_or_made(object, far, step));
            // What changes leaves HBM; what is only read may stay there as well.
            if writes {
                self.usage.evict(object, (HBM, to), step);
            }
            self.usage.fetch(object, to, step);
        }
        for (object, far) in made {
            let tier = self.usage.in_host_or_made(object, far, step);
            self.promise(object, tier, step);
        }
        self.guests.come(&self.usage, &soon, step);
    }
}

impl Policy for CpuOps {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn lookahead(&self) -> Lookahead {
        self.inner.lookahead()
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
        if said == HBM || view.fits(said, view.room_of(object, said)) {
            return said;
        }
        self.usage.roomy_outside(object, &Step::new(view)).unwrap_or(said)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        self.promised.clear();
        match step.view().op().unit {
            Unit::Cpu => self.plan_host(step),
            _ => self.plan_device(step),
        }
        self.named = step.actions().iter().filter_map(Action::object).collect();
        let view = step.view();
        for object in view.uses().iter().map(|touched| touched.object.index()) {
            self.usage.last_used[object] = view.occurrence() + 1;
            if view.op().unit == Unit::Cpu {
                self.usage.host_last[object] = view.occurrence() + 1;
            }
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.ask(view, |policy, view| policy.spill_tier(object, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let mut step = Step::new(view);
        if view.op().unit != Unit::Cpu {
            let wanted = self.ask(view, |policy, view| policy.make_room(view, tier));
            let free = |object: ObjectId| !step.is_used(object) && !self.named.contains(&object);
            match wanted {
                // Where it should go may be full by now, and then another leaves.
                Some(Action::Evict { object, from, to })
                    if from == tier && free(object) && step.can_enter(object, to) =>
                {
                    self.usage.evict(object, (from, to), &mut step);
                }
                Some(Action::Drop { object, tier: from }) if from == tier && free(object) => {
                    drop_spare(object, from, &mut step);
                }
                _ => {}
            }
            if let Some(&action) = step.actions().first() {
                return Some(action);
            }
        }
        self.usage.leaving(tier, &self.named, &mut step)
    }

    fn host(&self) -> &[TierId] {
        &self.usage.host
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        // Promises and names are those of one op.
        remember!(out, self as CpuOps { usage, guests }
            skip { inner, device, promised, named, buffers });
        let CpuOps { inner, device, .. } = self;
        let Some(device) = device else { return inner.state(view, out) };
        let view = device.view(view, inner.lookahead());
        let mut own = State::new(view.occurrence);
        let told = inner.state(&view, &mut own);
        own.words().iter().for_each(|&word| out.word(word));
        let window = match inner.lookahead() {
            Lookahead::Window(ops) => own.horizon().max(ops.into()),
            Lookahead::Past | Lookahead::Oracle => own.horizon(),
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

impl fmt::Debug for CpuOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuOps({})", self.inner.name())
    }
}
