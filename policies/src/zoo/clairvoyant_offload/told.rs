//! What the policy is told beforehand by somebody who tries runs.
//!
//! Some uses bring nothing back: what is outside when they come is used where it is. Some contents
//! are kept: they are not copied out early, and leave only if an op needs their room. And whoever
//! tells may ask which early copies have been of no use.
//! Invariant: nothing told is nothing changed; a use of what is in HBM, or does not exist yet, is
//! what it always is.

use super::ClairvoyantOffload;
use crate::step::Step;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tiersim_models::ids::{ObjectId, OpId};

/// Uses: an object and an op of the trace.
pub(in crate::zoo) type Uses = BTreeSet<(ObjectId, OpId)>;

/// What is told.
#[derive(Clone, Debug, Default)]
pub(in crate::zoo) struct Told {
    /// Uses of objects where they are.
    pub(in crate::zoo) in_place: Uses,
    /// Uses behind which an object's contents are kept.
    pub(in crate::zoo) kept: Uses,
    /// Filled by runs, if asked: uses behind which contents were copied out, and never left.
    pub(in crate::zoo) wasted: Option<Arc<Mutex<Uses>>>,
}

impl ClairvoyantOffload {
    /// What this op uses where it is costs what such a use costs.
    pub(super) fn use_in_place(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let op = self.future.op(view.occurrence());
        for touched in view.uses() {
            let object = touched.object;
            let there = self.told.in_place.contains(&(object, op));
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

    /// Whether an object's contents are kept.
    pub(super) fn is_kept(&self, object: ObjectId) -> bool {
        let last = self.future.last(object);
        last.is_some_and(|op| self.told.kept.contains(&(object, op)))
    }

    /// An object's contents are no more: if they have been copied out early and are in HBM still,
    /// that was of no use.
    pub(super) fn ends_early(&mut self, object: ObjectId) {
        let Some(op) = self.early[object.index()].take() else { return };
        if let Some(wasted) = &self.told.wasted {
            wasted.lock().expect("nobody panics with it").insert((object, op));
        }
    }
}
