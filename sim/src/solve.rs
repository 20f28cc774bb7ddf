//! Inverse questions: the least or the largest value of a path for which conditions hold, and the
//! best values of several.
//!
//! Along one path nothing is assumed of how a figure follows the value ([`one`]); along several a
//! derivative-free optimiser is, and what it finds is held against its neighbours ([`several`]).
//! Invariant: an answer is a point that was run.

mod neighbours;
pub mod one;
mod range;
pub mod several;

pub use range::Range;
