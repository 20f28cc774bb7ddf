//! Writers of traces in formats of other programs.
//!
//! Invariant: a writer leaves nothing out silently, and reads nothing but the trace.

pub mod chakra;
