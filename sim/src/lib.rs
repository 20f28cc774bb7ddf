//! What *happens*, and when.
//!
//! The engine and the simulated machine, the auditor that watches it, the readers that turn files
//! into resolved scenarios, hardware and traces, and the runs and sweeps that bring them together.

pub mod audit;
mod blame;
pub mod check;
pub mod diagnostic;
pub mod durations;
pub mod engine;
mod entry;
pub mod expect;
pub mod feasible;
pub mod hardware_file;
pub mod import;
pub mod machine;
pub mod meters;
pub mod quantity;
pub mod queue;
pub mod record;
pub mod ron_error;
mod ron_lex;
pub mod ron_scan;
pub mod ron_text;
pub mod ron_tree;
pub mod run;
pub mod scenario;
pub mod station;
mod stopwatch;
pub mod sweep;
pub mod trace;
pub mod traces;
