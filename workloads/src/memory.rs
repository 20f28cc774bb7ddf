//! What a model needs of memory, by formula: no trace, no simulation.
//!
//! Model state under ZeRO ([`zero`]), optimizers ([`optimizer`]), what is kept for the backward
//! pass ([`activations`]), the data pipeline ([`loader`]), serving ([`inference`]), structured
//! operators ([`semiseparable`]), and DeepSpeed's own estimators ([`deepspeed`]); [`rank`] says
//! what a rank has of a model, [`account`] puts them together, and [`fit`] says what makes a job
//! fit.
//! Invariant: integers throughout, checked; what is shared out is rounded up part by part. Floats
//! stand only where a published formula has them.

pub mod account;
pub mod activations;
pub mod deepspeed;
pub mod fit;
pub mod inference;
pub mod loader;
pub mod optimizer;
pub mod rank;
pub mod semiseparable;
mod streamed;
pub mod zero;

/// An amount of 2^128 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the amount does not fit 128 bits")]
pub struct Overflow;

/// The product of all factors.
pub(crate) fn product(factors: &[u128]) -> Result<u128, Overflow> {
    if factors.contains(&0) {
        return Ok(0);
    }
    factors.iter().try_fold(1u128, |all, &factor| all.checked_mul(factor)).ok_or(Overflow)
}

/// The sum of all parts.
pub(crate) fn total(parts: impl IntoIterator<Item = u128>) -> Result<u128, Overflow> {
    parts.into_iter().try_fold(0u128, u128::checked_add).ok_or(Overflow)
}

/// The largest of `ways` nearly equal shares.
///
/// # Panics
/// If `ways` is 0.
pub(crate) fn share(amount: u128, ways: u128) -> u128 {
    amount.div_ceil(ways)
}
