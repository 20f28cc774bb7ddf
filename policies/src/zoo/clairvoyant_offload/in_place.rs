//! What an op uses where it is.
//!
//! What was told beforehand, and, where the scenario allows it, what an op lacks if that is quicker
//! so: a link that is behind carries one object less each way, and goes on copying meanwhile.
//! Invariant: a use of what is in HBM, or does not exist yet, is what it always is.

use super::{ClairvoyantOffload, Place};
use crate::step::Step;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// What a copy costs, in its own spans: the op waits for it, what is behind it on the link does,
/// and what leaves for it is copied out.
const COPIES: u64 = 3;

impl ClairvoyantOffload {
    /// What this op uses where it is costs what such a use costs.
    pub(super) fn use_in_place(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let op = self.future.op(view.occurrence());
        let all = self.in_place && self.is_quicker_in_place(step);
        for touched in view.uses() {
            let object = touched.object;
            let there = all || self.told.in_place.contains(&(object, op));
            if !there || !view.exists(object) || view.in_hbm(object) {
                continue;
            }
            let Some(tier) = self.holder(object, &view) else { continue };
            let bytes = touched.charged(step.bytes(object));
            step.use_in_place(object);
            step.charge(tier, bytes);
            self.estimate.delay(tier, bytes);
            self.now.in_place.push(object);
        }
    }

    /// Whether all that the op lacks in HBM is quicker used where it is, now and until it would
    /// leave again, than copied. What could stay until its next use is copied, and serves both.
    fn is_quicker_in_place(&self, step: &Step<'_>) -> bool {
        let (view, now) = (step.view(), self.now.occurrence);
        let outside = |object| view.exists(object) && !view.in_hbm(object);
        let lacks: Vec<(ObjectId, TierId)> = view
            .uses()
            .iter()
            .filter(|touched| outside(touched.object))
            .filter_map(|touched| Some((touched.object, self.holder(touched.object, &view)?)))
            .collect();
        if lacks.is_empty() || self.could_stay(&lacks, step) {
            return false;
        }
        let places = [Place::Copied, Place::Alone, Place::Kept];
        let last = places.iter().filter_map(|&place| self.stock.of(place).next_back()).max();
        let leaves = last.map_or(now, |(rank, _)| rank.max(now));
        let mut left = self.copies(&lacks, step);
        for &(object, tier) in &lacks {
            for (_, op) in self.future.uses_until(object, now, leaves) {
                let uses = self.workload.trace.uses_of(op).iter();
                let charged = uses
                    .filter(|touched| touched.object == object)
                    .map(|touched| touched.charged(step.bytes(object)))
                    .map(|bytes| self.estimate.in_place(tier, bytes));
                match left.checked_sub(charged.fold(0, u64::saturating_add)) {
                    Some(less) => left = less,
                    None => return false,
                }
            }
        }
        true
    }

    /// Whether objects that come would find room, beside all that is created, until their next use.
    fn could_stay(&self, lacks: &[(ObjectId, TierId)], step: &Step<'_>) -> bool {
        let now = self.now.occurrence;
        let next = |&(object, _): &(ObjectId, TierId)| {
            self.future.uses_until(object, now, u64::MAX).map(|(at, _)| at).find(|&at| at > now)
        };
        let Some(until) = lacks.iter().filter_map(next).max() else { return false };
        let need: Bytes = lacks.iter().map(|&(object, _)| step.bytes(object)).sum();
        let born = step.view().births_ahead(0).unwrap_or(Bytes::ZERO);
        step.free(HBM) >= need + born + self.future.growth(now, until)
    }

    /// What copies of these would cost the op and the links.
    fn copies(&self, lacks: &[(ObjectId, TierId)], step: &Step<'_>) -> u64 {
        let turn = self.now.turn;
        let (mut queue, mut spans) = (0, 0u64);
        for &(object, tier) in lacks {
            queue = self.estimate.begins(turn, tier, HBM).saturating_sub(turn).max(queue);
            spans = spans.saturating_add(self.estimate.span(tier, HBM, step.bytes(object)));
        }
        queue.saturating_add(spans.saturating_mul(COPIES))
    }
}
