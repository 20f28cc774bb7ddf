//! Shared helpers of the suites in `tests/tests`: small machines, small traces, random worlds.

pub mod build;
pub mod chaos;
pub mod real;
pub mod scripted;
pub mod tiny;
pub mod varying;
pub mod world;
