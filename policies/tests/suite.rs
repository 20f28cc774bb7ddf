//! What `tiersim-policies` promises, as a user of the crate sees it. One program: linking takes
//! longer than running.

mod device_map;
mod placements;
mod pressure;
mod replacement;
mod trace_memory;
