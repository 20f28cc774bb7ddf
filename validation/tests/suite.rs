//! What `tiersim-validation` promises, as a user of the crate sees it. One program: linking takes
//! longer than running.

mod cuda_bench;
mod cuda_errors;
mod kernels;
mod stand_in;
