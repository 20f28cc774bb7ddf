//! Training steps from model cards: what they hold, keep and compute is what the formulas say.

mod activations;
mod any;
mod rules;
mod semiseparable;
mod shape;
mod zero;
