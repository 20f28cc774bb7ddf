//! What should be *where*.
//!
//! Pure, and without a clock: a policy sees logical residency and free bytes, never time, so that
//! the same policy makes the same decisions on a simulator and on a real machine.

pub mod access;
mod action;
mod arena;
pub mod asked;
pub mod bound;
pub mod buffers;
pub mod chunks;
pub mod command;
pub mod cpu_ops;
pub mod drive;
pub mod elsewhere;
pub mod entry;
pub mod fragmentation;
pub mod ledger;
pub mod noted;
pub mod numa;
pub mod packing;
mod paging;
mod plan_error;
pub mod planner;
pub mod policy;
pub mod pressure;
pub mod recipe;
pub mod recorded;
pub mod replacement;
pub mod residents;
pub mod scenario;
pub mod state;
pub mod static_placement;
pub mod step;
mod tickets;
pub mod trace_memory;
pub mod transit;
pub mod view;
pub mod visits;
pub mod zoo;
