//! What `tiersim-sim` promises, as a user of the crate sees it. One program: linking takes longer than running.

mod cards;
mod fair_share;
mod import_hostile;
mod import_recording;
mod queue;
mod queueing;
mod sharing;
mod specs;
mod trace_folder;
mod trace_properties;
mod trace_units;
