//! Readers of what other programs recorded; each makes a native trace.
//!
//! An importer drops what a memory simulator cannot use, says how much that was, and guesses
//! nothing silently.
//! Invariant: a trace that an importer returns has passed `Trace::problems`.

pub mod recording;
pub mod snapshot;
