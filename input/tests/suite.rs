//! What `tiersim-input` promises, as a user of the crate sees it. One program: linking takes longer
//! than running.

mod cards;
mod export_chakra;
mod files;
mod guide;
mod import_accesses;
mod import_block_traces;
mod import_chakra;
mod import_execution;
mod import_footprint;
mod import_gather;
mod import_hostile;
#[cfg(feature = "nsight")]
mod import_nsight;
mod import_profiler;
mod import_ranks;
mod import_recording;
mod import_serving;
mod import_tables;
mod lint;
mod op_times;
mod profiler_answers;
mod round_trips;
mod specs;
mod trace_diff;
mod trace_folder;
mod trace_properties;
mod trace_units;
