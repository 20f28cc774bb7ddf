//! What *happens*, and when.
//!
//! The engine and the simulated machine, the auditor that watches it, the readers that turn files
//! into resolved scenarios, hardware and traces, and the runs and sweeps that bring them together.

pub mod audit;
pub mod cache;
pub mod diagnostic;
pub mod durations;
pub mod energy;
pub mod engine;
pub mod expect;
pub mod fair_share;
pub mod feasible;
pub mod file_kind;
pub mod hardware_file;
pub mod hidden;
pub mod import;
pub mod lint;
pub mod machine;
pub mod project;
pub mod queue;
pub mod record;
pub mod run;
pub mod scenario;
pub mod served;
pub mod shipped;
pub mod station;
pub mod sweep;
pub mod text;
pub mod trace;
pub mod traces;
pub mod train;
