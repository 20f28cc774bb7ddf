//! A policy that does what a test wrote down.

use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_policies::policy::{Action, Policy, Sight};
use tiersim_policies::view::View;

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

    fn sight(&self) -> Sight {
        Sight::Past
    }

    fn start(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        self.start[object.index()]
    }

    fn birth(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn before(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        if let Some(now) = self.script.get(view.occurrence() as usize) {
            actions.extend_from_slice(now);
        }
    }
}
