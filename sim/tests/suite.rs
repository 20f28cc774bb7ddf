//! What `tiersim-sim` promises, as a user of the crate sees it. One program: linking takes longer
//! than running.

mod fair_share;
mod jobs;
mod queue;
mod queueing;
mod sharing;
