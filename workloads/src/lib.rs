//! What models do: their cards, the traces of training, generation and serving, and formulas of
//! the memory that they take.
//!
//! Pure, as `tiersim-models` is: no input or output, no clock, no threads, no unsafe code.

mod build;
mod limits;
pub mod memory;
pub mod operators;
pub mod transformer;

pub use limits::ShapeProblem;
