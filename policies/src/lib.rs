//! What should be *where*.
//!
//! Pure, and without a clock: a policy sees logical residency and free bytes, never time, so that
//! the same policy makes the same decisions on a simulator and on a real machine.

pub mod access;
pub mod config;
