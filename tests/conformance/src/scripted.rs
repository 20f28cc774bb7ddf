//! A policy that does what a test wrote down.

use crate::prelude::*;

/// Objects start where `start` says; before op i the actions of `script[i]` are taken.
#[derive(Debug)]
pub struct Scripted {
    /// Tier of each object before the first op.
    pub start: Vec<TierId>,
    /// Actions before each op; ops beyond its end have none.
    pub script: Vec<Vec<Action>>,
}

impl Policy for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn lookahead(&self) -> Lookahead {
        Lookahead::Past
    }

    fn initial_tier(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        self.start[object.index()]
    }

    fn allocate_in(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let now = self.script.get(step.view().occurrence() as usize);
        now.into_iter().flatten().for_each(|&action| step.take(action));
    }
}
