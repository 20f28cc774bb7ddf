//! Runs: times, bytes and memory of the whole machine against formulas, measurements and random
//! worlds.

mod accounting;
mod allocators;
mod channels;
mod collectives;
mod conformance;
mod copy_bandwidth;
mod emulation;
mod energy;
mod framework;
mod fuzz;
mod kernel_times;
mod layered;
mod loaded;
mod offloaded_inference;
mod op_grades;
mod own_chart;
mod queueing;
mod ranks;
mod serving;
mod sharing;
mod snapshots;
mod soak;
mod step_time;
mod training_options;
mod training_state;
