//! Readers of what other programs wrote: runs, which become native traces, snapshots of CUDA
//! memory, which the model of the caching allocator is measured with, requests to served models,
//! and what models are.
//!
//! An importer drops what a memory simulator cannot use, says how much that was, and guesses
//! nothing silently.
//! Invariant: a trace that an importer returns has passed `Trace::problems`.

pub mod accesses;
pub mod any;
pub mod card;
pub mod chakra;
pub mod execution;
pub mod footprint;
pub mod gather;
mod groups;
pub mod imported;
mod names;
pub mod profiler;
pub mod ranks;
pub mod recording;
mod repaired;
pub mod requests;
pub mod serving;
pub mod snapshot;
mod stream;
pub mod tables;
