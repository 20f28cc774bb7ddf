//! What the hardware and the workload *are*.
//!
//! Pure: no input or output, no clock, no threads, no unsafe code. Everything in here is already
//! resolved: no name needs looking up, no unit needs converting, no number can be NaN.

pub mod allocator;
pub mod block_trace;
pub mod collective;
pub mod compression;
pub mod diagnostic;
pub mod efficiency;
pub mod energy;
pub mod hardware;
pub mod hidden;
pub mod host_memory;
pub mod ids;
pub mod instances;
pub mod kernel;
pub mod lifetime;
pub mod lint;
pub mod loaded;
pub mod measured_op;
pub mod nodes;
pub mod op_times;
pub mod outstanding;
mod pricing;
pub mod printed;
pub mod raid0;
pub mod random;
pub mod recorded;
pub mod requests;
pub mod results;
pub mod routes;
pub mod runtime;
pub mod server;
pub mod service;
pub mod serving_plan;
pub mod shared;
pub mod statistics;
pub mod trace_rules;
pub mod units;
mod words;
pub mod workload;
