//! What `tiersim-workloads` promises, as a user of the crate sees it. One program: linking takes
//! longer than running.

mod blocks_that_differ;
mod cards;
mod context;
mod eager_generation;
mod generation;
mod memory;
mod memory_fit;
mod one_graph;
mod serving;
mod training;
mod transformer;
