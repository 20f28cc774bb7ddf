//! What a policy can ask for before an op, and what the ledger refuses of it.
//!
//! A refusal says what was found, the rule and what to do instead; whoever knows the names of
//! objects and tiers says it with them ([`Refusal::said`]).

use std::fmt;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;

/// What a policy can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy an object to a tier for the op that is asked about.
    Fetch {
        /// The object; it must have a valid copy somewhere.
        object: ObjectId,
        /// Where to.
        to: TierId,
    },
    /// Copy an object to a tier for a later op. Given up where the tier's allocator is not exact
    /// and has no free piece that is large enough; the object then stays where it is.
    Prefetch {
        /// The object; it must have a valid copy somewhere.
        object: ObjectId,
        /// Where to.
        to: TierId,
    },
    /// Take an object out of a tier: written back to `to` unless `to` already holds its contents.
    Evict {
        /// The object; the op that is asked about must not use it in `from`.
        object: ObjectId,
        /// Out of here.
        from: TierId,
        /// In here.
        to: TierId,
    },
    /// Give up one of several copies of an object.
    Drop {
        /// The object.
        object: ObjectId,
        /// Where; another tier must hold its contents too.
        tier: TierId,
    },
    /// Let the op that is asked about use an object where it is, outside HBM.
    InPlace {
        /// The object.
        object: ObjectId,
    },
    /// Delay the op by one access of so many bytes to a tier. Directly behind an `InPlace` it is
    /// what that use costs.
    Charge {
        /// The tier.
        tier: TierId,
        /// How much is accessed.
        bytes: Bytes,
    },
    /// Delay the op by a span that the policy states, such as the handling of page faults. It is a
    /// constant of the policy's parameters: no reading of a clock.
    Delay {
        /// How long.
        span: Span,
    },
}

/// What a policy did that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found.
    pub found: Found,
    /// What is wanted.
    pub rule: &'static str,
    /// What to do instead.
    pub remedy: &'static str,
}

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An action.
    Action(Action),
    /// Something else, in words.
    Words(String),
}

impl Refusal {
    pub(crate) const fn of(action: Action, rule: &'static str, remedy: &'static str) -> Refusal {
        Refusal { found: Found::Action(action), rule, remedy }
    }

    /// What is refused and why, with the names that objects and tiers have.
    pub fn said(
        &self,
        object: &dyn Fn(ObjectId) -> String,
        tier: &dyn Fn(TierId) -> String,
    ) -> String {
        let found = match &self.found {
            Found::Words(words) => words.clone(),
            Found::Action(action) => action.said(object, tier),
        };
        format!("{} (found {found}); {}", self.rule, self.remedy)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said(&|object| format!("{object:?}"), &|tier| format!("{tier:?}")))
    }
}

impl Action {
    /// The object that it names.
    pub fn object(&self) -> Option<ObjectId> {
        match *self {
            Action::Fetch { object, .. }
            | Action::Prefetch { object, .. }
            | Action::Evict { object, .. }
            | Action::Drop { object, .. }
            | Action::InPlace { object } => Some(object),
            Action::Charge { .. } | Action::Delay { .. } => None,
        }
    }

    /// In words, with names.
    fn said(&self, name: &dyn Fn(ObjectId) -> String, at: &dyn Fn(TierId) -> String) -> String {
        match *self {
            Action::Fetch { object, to } => format!("fetch {} to {}", name(object), at(to)),
            Action::Prefetch { object, to } => format!("prefetch {} to {}", name(object), at(to)),
            Action::Evict { object, from, to } => {
                format!("evict {} from {} to {}", name(object), at(from), at(to))
            }
            Action::Drop { object, tier } => format!("drop {} in {}", name(object), at(tier)),
            Action::InPlace { object } => format!("use {} in place", name(object)),
            Action::Charge { tier, bytes } => format!("charge {bytes} of {}", at(tier)),
            Action::Delay { span } => format!("delay by {} ps", span.ps()),
        }
    }
}

/// Why the ledger refuses an action, if it does: the rules that do not depend on how much is free.
/// The last question is whether a tier beside this one holds the object's present contents.
pub(crate) fn refusal(
    action: &Action,
    uses: &[Use],
    is_allocated: impl Fn(ObjectId, TierId) -> bool,
    is_held_beside: impl Fn(ObjectId, Option<TierId>) -> bool,
) -> Option<Refusal> {
    let refused = |rule, remedy| Some(Refusal::of(*action, rule, remedy));
    match *action {
        Action::Fetch { object, .. } | Action::Prefetch { object, .. }
            if !is_held_beside(object, None) =>
        {
            refused("what is fetched must exist", "what the op creates is there by itself")
        }
        Action::Evict { from, to, .. } if from == to => {
            refused("an evict takes an object to another tier", "name the tier it goes to")
        }
        Action::Evict { object, from, .. } if !is_allocated(object, from) => refused(
            "what is evicted must have room in the tier that it leaves",
            "name a tier in which it is",
        ),
        Action::Drop { object, tier } if !is_allocated(object, tier) => {
            refused("what is dropped must have room in the tier", "name a tier in which it is")
        }
        Action::Drop { object, tier } if !is_held_beside(object, Some(tier)) => refused(
            "the only copy of an object may not be dropped",
            "evict it to another tier instead",
        ),
        Action::InPlace { object } if !uses.iter().any(|used| used.object == object) => refused(
            "only what the op uses can be used in place",
            "name one of the op's own objects",
        ),
        _ => None,
    }
}
