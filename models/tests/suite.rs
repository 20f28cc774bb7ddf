//! What `tiersim-models` promises, as a user of the crate sees it. One program: linking takes
//! longer than running.

mod cards;
mod collectives;
mod generation;
mod layered;
mod memory;
mod memory_fit;
mod routes;
mod serving;
mod trace_rules;
mod training;
mod transformer;
