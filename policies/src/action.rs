//! What a policy can ask for before an op, and what the ledger refuses of it.

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
}

/// Why the ledger refuses an action, if it does: the rules that do not depend on how much is free.
/// The last question is whether a tier beside this one holds the object's present contents.
pub(crate) fn refusal(
    action: &Action,
    uses: &[Use],
    is_allocated: impl Fn(ObjectId, TierId) -> bool,
    is_held_beside: impl Fn(ObjectId, Option<TierId>) -> bool,
) -> Option<String> {
    match *action {
        Action::Fetch { object, .. } | Action::Prefetch { object, .. } => {
            let exists = is_held_beside(object, None);
            (!exists).then(|| format!("fetches {object:?}, which does not exist"))
        }
        Action::Evict { object, from, to } => (from == to || !is_allocated(object, from))
            .then(|| format!("evicts {object:?} {from:?} -> {to:?}")),
        Action::Drop { object, tier } => {
            let spare = is_allocated(object, tier) && is_held_beside(object, Some(tier));
            (!spare).then(|| format!("drops the only copy of {object:?}"))
        }
        Action::InPlace { object } => (!uses.iter().any(|used| used.object == object))
            .then(|| format!("{object:?} in place, but not used")),
        Action::Charge { .. } | Action::Delay { .. } => None,
    }
}
