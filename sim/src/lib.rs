//! What happens, and when: the event engine and everything that runs on it.

pub mod engine;
pub mod queue;
pub mod station;
