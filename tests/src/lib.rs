//! Shared helpers of the suites in `tests/tests`: small machines, small traces, random worlds.

pub use tiersim_conformance::{build, chaos, real, scripted, world};

pub mod conversations;
pub mod exhaustive;
pub mod files;
pub mod fuzz;
pub mod jobs;
pub mod measured;
pub mod play;
pub mod prelude;
pub mod setting;
pub mod soak;
pub mod tiny;
pub mod varying;
