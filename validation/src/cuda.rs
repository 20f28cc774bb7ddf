//! The CUDA machine: the same commands as the simulator's, on a CUDA device, pinned memory and files.

mod arena;
mod driver;
