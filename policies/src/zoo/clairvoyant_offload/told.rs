//! What the policy is told beforehand by somebody who tries runs, and what it learns by itself.
//!
//! Told: some uses bring nothing back: what is outside when they come is used where it is. Some
//! contents are kept: they are not copied out early, and leave only if an op needs their room. And
//! whoever tells may ask which early copies have been in vain. Learned, where a window hides what is
//! to come or if that is told: contents whose early copy was in vain are kept in later replays.
//! Invariant: with nothing told and all in sight, every replay decides by the same rules.

use super::ClairvoyantOffload;
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
    /// Whether to learn from copies in vain with all known, too.
    pub(in crate::zoo) learns: bool,
}

impl ClairvoyantOffload {
    /// Whether an object's contents are kept: that is told, or an early copy of them was in vain in
    /// an earlier replay.
    pub(super) fn is_kept(&self, object: ObjectId) -> bool {
        let last = self.future.last(object).map(|op| (object, op));
        last.is_some_and(|last| self.told.kept.contains(&last) || self.in_vain.contains(&last))
    }

    /// An object's contents are no more: if they have been copied out early and are in HBM still,
    /// that was in vain.
    pub(super) fn ends_early(&mut self, object: ObjectId) {
        let Some(op) = self.early[object.index()].take() else { return };
        if self.told.learns || !self.future.sees_all(self.now.occurrence) {
            self.in_vain.insert((object, op));
        }
        if let Some(wasted) = &self.told.wasted {
            wasted.lock().expect("nobody panics with it").insert((object, op));
        }
    }
}
