//! Training steps from model cards: what they hold, keep and compute is what the formulas say.

mod activations;
mod any;
mod blocks;
mod eager;
mod encoder;
mod last_stage;
mod overlap;
mod ring;
mod rules;
mod semiseparable;
pub(crate) mod shape;
mod timed;
mod zero;
