//! Carries the choice out: what is offloaded leaves and comes back at its time, all else is paged.
//!
//! What is offloaded is evicted before the op behind its last forward use, and fetched again in the
//! backward pass that needs it, some ops before its first use there, into free room that neither
//! this op nor the births up to that use need. All else is paged on demand by recency, as under
//! `lru`.
//! Invariant: nothing is offloaded to a tier that could then not take all of HBM, so what paging
//! alone fits into memory fits here.

use super::layers::Layers;
use crate::paging::{Recency, evict_roomy, free_up, make_room, outside, prefetch_again};
use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::Setting;
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use std::collections::BTreeSet;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;

/// Offloads stated activations.
#[derive(Debug)]
pub struct ActivationOffload {
    spill: Vec<TierId>,
    prefetch_ops: u64,
    total: u64,
    /// By op of the trace: what leaves before it.
    leaves: Vec<Vec<ObjectId>>,
    /// By op of the trace: what is to be there when it runs, and from which op on it may come.
    back: Vec<Vec<(ObjectId, usize)>>,
    /// By op of the trace: bytes that it creates and that end with it.
    grows: Vec<(u64, u64)>,
    recency: Recency,
}

impl ActivationOffload {
    /// For a workload, of whose activations that wait these are offloaded.
    pub(super) fn new(
        setting: &Setting<'_>,
        layers: &Layers,
        offloaded: &BTreeSet<ObjectId>,
        (spill, prefetch_ops): (&[TierId], u64),
    ) -> ActivationOffload {
        let trace = &setting.workload.trace;
        let ops = trace.ops.len();
        let (mut leaves, mut back) = (vec![Vec::new(); ops], vec![Vec::new(); ops]);
        for waiting in layers.waiting.iter().filter(|w| offloaded.contains(&w.object)) {
            leaves[waiting.last + 1].push(waiting.object);
            back[waiting.first].push((waiting.object, waiting.turn));
        }
        ActivationOffload {
            spill: spill.to_vec(),
            prefetch_ops,
            total: ops as u64 * u64::from(setting.repeat),
            leaves,
            back,
            grows: grows(setting.workload),
            recency: Recency::new(trace.objects.len()),
        }
    }

    fn op(&self, occurrence: u64) -> usize {
        (occurrence % self.grows.len() as u64) as usize
    }

    /// What has been used in forward for the last time leaves; where this very op needs it, it comes
    /// back at once.
    fn leave(&mut self, step: &mut Step<'_>) {
        let op = self.op(step.view().occurrence());
        for &object in &self.leaves[op] {
            if step.view().in_hbm(object) && evict_roomy(step, object, &self.spill) {
                self.recency.remove(object);
                if step.is_used(object) {
                    step.fetch(object, HBM);
                }
            }
        }
    }

    /// What backward needs soon comes back, as far as there is room for it.
    fn come_back(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let now = view.occurrence();
        let born = step.missing().get();
        // What the ops up to then add to what is held, at most.
        let (mut held, mut most) = (0i128, 0i128);
        held -= i128::from(self.grows[self.op(now)].1);
        for at in now + 1..self.total.min(now.saturating_add(self.prefetch_ops) + 1) {
            let op = self.op(at);
            held += i128::from(self.grows[op].0);
            most = most.max(held);
            for index in 0..self.back[op].len() {
                let (object, turn) = self.back[op][index];
                if self.op(now) < turn
                    || step.stays_in_hbm(object)
                    || !view.exists(object)
                    || step.is_used(object)
                {
                    continue;
                }
                let need = most + i128::from(born) + i128::from(step.bytes(object).get());
                if !step.has_free(HBM, Bytes::new(u64::try_from(need).unwrap_or(u64::MAX))) {
                    return;
                }
                prefetch_again(step, object);
                self.recency.touch(object);
            }
            held -= i128::from(self.grows[op].1);
        }
    }
}

/// Bytes that each op creates, and that end with it.
fn grows(workload: &Workload) -> Vec<(u64, u64)> {
    let trace = &workload.trace;
    let sum = |objects: &[ObjectId]| -> u64 {
        objects.iter().map(|object| trace.objects[object.index()].bytes.get()).sum()
    };
    let ops = (0..trace.ops.len()).map(OpId::at);
    ops.map(|op| (sum(workload.births(op)), sum(workload.releases(op)))).collect()
}

impl Policy for ActivationOffload {
    fn name(&self) -> &'static str {
        super::NAME
    }

    /// It knows which ops use what from the start.
    fn lookahead(&self) -> Lookahead {
        Lookahead::Oracle
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        outside(object, &self.spill, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        self.recency.forget_absent(view);
        self.leave(step);
        free_up(step, step.missing(), &mut self.recency, &[], &self.spill);
        view.uses().iter().for_each(|touched| self.recency.touch(touched.object));
        step.fetch_missing();
        if step.has_free(HBM, step.missing()) {
            self.come_back(step);
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(outside(object, &self.spill, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        make_room(&mut self.recency, tier, &self.spill, view)
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        out.looks_ahead(self.prefetch_ops.saturating_add(1));
        remember!(out, self as ActivationOffload { recency }
            skip { spill, prefetch_ops, total, leaves, back, grows });
        true
    }

    fn leave_out(&mut self, replays: u64) {
        self.total -= replays * self.grows.len() as u64;
    }
}
