//! What happens, and when: the event engine and everything that runs on it.

pub mod queue;
