//! What `tiersim-models` promises, as a user of the crate sees it. One program: linking takes
//! longer than running.

mod collectives;
mod routes;
mod trace_rules;
