//! A policy that does what a test wrote down.

use crate::prelude::*;

/// Objects start where `start` says; before op i the actions of `script[i]` are taken, and what it
/// creates is made where `births[i]` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripted {
    /// Tier of each object before the first op.
    pub start: Vec<TierId>,
    /// Actions before each op; ops beyond its end have none.
    pub script: Vec<Vec<Action>>,
    /// Where objects are born, by op; elsewhere than in HBM only.
    pub births: Vec<Vec<(ObjectId, TierId)>>,
    /// The tiers of the host.
    pub host: Vec<TierId>,
}

impl Scripted {
    /// All that is created is made in HBM, and no op runs on the host.
    pub fn of(start: Vec<TierId>, script: Vec<Vec<Action>>) -> Box<dyn Policy> {
        Box::new(Scripted { start, script, ..Scripted::default() })
    }
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

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let births = self.births.get(view.occurrence() as usize).into_iter().flatten();
        births.copied().find(|(born, _)| *born == object).map_or(HBM, |(_, tier)| tier)
    }

    fn host(&self) -> &[TierId] {
        &self.host
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let now = self.script.get(step.view().occurrence() as usize);
        now.into_iter().flatten().for_each(|&action| step.take(action));
    }
}
