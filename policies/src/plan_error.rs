//! Why a plan cannot go on.

use crate::action::Refusal;
use crate::ledger::DoesNotFit;
use tiersim_models::hardware::Capacity;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Why a plan cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A tier is full, or what is free in it is in too small pieces.
    #[error(
        "tier {tier:?} is full: {need} needed, {free} free of {capacity}{}{}",
        in_pieces(.largest),
        beside(*.hidden)
    )]
    OutOfMemory {
        /// The tier.
        tier: TierId,
        /// What it has.
        capacity: Capacity,
        /// How much of that is hidden memory, which no object can have.
        hidden: Bytes,
        /// What was asked for.
        need: Bytes,
        /// What was free.
        free: Bytes,
        /// The largest free piece, if the tier's allocator is not exact: it may be less than `need`
        /// though more is free.
        largest: Option<Bytes>,
        /// For which object.
        object: ObjectId,
        /// Before which op of the run; `None` while the run is set up.
        occurrence: Option<u64>,
    },
    /// The run is longer than can be counted.
    #[error("the run is too long: {what}")]
    TooLong {
        /// What there is too much of, such as commands.
        what: &'static str,
    },
    /// What was planned once does not serve this run: it has to be planned for itself.
    #[error("the plan of another run does not serve this one")]
    Otherwise,
    /// The policy asked for something that makes no sense: a mistake in the policy.
    #[error("policy {policy}, op {occurrence}: {why}")]
    Refused {
        /// The policy.
        policy: &'static str,
        /// Before which op of the run.
        occurrence: u64,
        /// What it asked for and why that cannot be.
        why: Refusal,
    },
}

pub(crate) fn out_of_memory(
    full: DoesNotFit,
    object: ObjectId,
    occurrence: Option<u64>,
) -> PlanError {
    let DoesNotFit { tier, capacity, hidden, need, free, largest } = full;
    PlanError::OutOfMemory { tier, capacity, hidden, need, free, largest, object, occurrence }
}

/// What a message says of free bytes that are in pieces.
fn in_pieces(largest: &Option<Bytes>) -> String {
    largest.map_or(String::new(), |largest| format!(" in pieces of at most {largest}"))
}

/// What a message says of a capacity that objects cannot have all of.
fn beside(hidden: Bytes) -> String {
    if hidden == Bytes::ZERO { String::new() } else { format!(", {hidden} of which are hidden") }
}
