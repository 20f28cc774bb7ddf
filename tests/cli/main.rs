//! The command as people meet it: through the real binary, by exit code, streams and files.
//!
//! What single rules of the readers say is tested beside the readers; here is what only the whole
//! can promise: nothing half-written, nothing printed where it does not belong, the same bytes
//! again. One target for all of it, so that it is linked once.

mod accelerate;
mod agree;
mod allocator;
mod answers;
mod cache;
mod calibrate;
mod common;
mod conform;
mod containers;
mod contract;
mod deepspeed;
mod determinism;
mod device_maps;
mod documented;
mod errors;
mod explain;
mod exports;
mod flexgen;
mod frameworks;
mod frameworks_back;
mod from_trace;
mod goldens;
mod gpu_script;
mod hardware;
mod hostile;
mod hostile_generated;
#[cfg(target_os = "linux")]
mod hostile_memory;
mod hostile_traces;
mod journals;
mod learned_page;
mod lints;
mod long_runs;
mod megatron;
mod memory;
mod memory_pressure;
mod models;
mod ops;
mod outside;
mod plausible;
mod profiler;
mod programs;
mod promises;
mod readers;
mod replications;
mod report;
mod round_trips;
#[cfg(unix)]
mod serve;
mod solve;
mod statistics;
mod sweeps;
mod trace_charts;
mod train;
mod uncertainty;
mod validate;
mod what_if;
#[cfg(unix)]
mod writing;
mod written_plans;
mod wrong_files;
