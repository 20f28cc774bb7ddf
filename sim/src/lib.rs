//! What *happens*, and when.

pub mod audit;
mod blame;
pub mod diagnostic;
pub mod durations;
pub mod engine;
mod entry;
pub mod expect;
pub mod little;
pub mod machine;
pub mod meters;
pub mod queue;
pub mod record;
pub mod run;
pub mod scenario;
pub mod station;
mod stopwatch;
//SW pub mod sweep;
//SW pub mod traces;
