//! What *happens*, and when.
//!
//! The engine and the simulated machine, the auditor that watches it, and the runs and sweeps that
//! bring scenarios and traces together.
//! Invariant: nothing in here reads a file, a clock or the environment.

pub mod audit;
pub mod cache;
pub mod draws;
pub mod durations;
pub mod engine;
pub mod expect;
pub mod explain;
pub mod fair_share;
pub mod feasible;
pub mod lint;
pub mod machine;
pub mod queue;
pub mod run;
pub mod solve;
pub mod station;
pub mod sweep;
pub mod train;
