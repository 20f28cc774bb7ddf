//! Most recently used first out: demand paging for traces that go round.
//!
//! A training step uses every layer's state once, then the next step does the same. Under least
//! recently used, what is needed next has just been thrown out; keeping the oldest and giving up
//! the newest keeps a fixed part of the state in HBM, and only the rest moves.

use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_policies::entry::{Entry, Kind, Parameter};
use tiersim_policies::policy::{Action, Policy};
use tiersim_policies::recipe::{Recipe, Setting};
use tiersim_policies::step::Step;
use tiersim_policies::view::View;

/// How scenarios spell it: `NewestOut()` or `NewestOut(home: "dram")`.
pub const ENTRY: Entry = Entry {
    spelling: "NewestOut",
    about: "demand paging by object, most recently used first out",
    parameters: &[Parameter::required("home", Kind::Tier)],
    make: |params| Ok(NewestOutConfig { home: params.tier("home").expect("required") }.into()),
};

/// Parameters of `newest-out`.
#[derive(Clone, Debug)]
pub struct NewestOutConfig {
    /// Where objects live that are not in HBM.
    pub home: TierId,
}

impl Recipe for NewestOutConfig {
    fn name(&self) -> &'static str {
        "newest-out"
    }

    fn details(&self) -> String {
        "on demand".to_owned()
    }

    fn build(&self, _: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(NewestOut { home: self.home, used: Vec::new() }))
    }
}

/// The policy.
#[derive(Debug)]
pub struct NewestOut {
    home: TierId,
    /// Objects that may be in HBM, least recently used first.
    used: Vec<ObjectId>,
}

impl NewestOut {
    /// The object in HBM that was used last, but not by this op; it is forgotten.
    fn newest(&mut self, view: &View<'_>) -> Option<ObjectId> {
        let wanted = |object: ObjectId| view.uses().iter().any(|used| used.object == object);
        self.used.retain(|&object| view.is_allocated(object, HBM));
        let at = self.used.iter().rposition(|&object| !wanted(object))?;
        Some(self.used.remove(at))
    }
}

impl Policy for NewestOut {
    fn name(&self) -> &'static str {
        "newest-out"
    }

    fn initial_tier(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        self.home
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        while !step.has_free(HBM, step.missing()) {
            let Some(object) = self.newest(&step.view()) else { break };
            step.evict(object, HBM, self.home);
        }
        step.fetch_missing();
        for used in step.uses() {
            self.used.retain(|&object| object != used.object);
            self.used.push(used.object);
        }
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let object = if tier == HBM { self.newest(view)? } else { return None };
        Some(Action::Evict { object, from: HBM, to: self.home })
    }
}
