//! A stand-in for the CUDA driver, for tests on computers without a GPU: a library with the
//! driver's functions, whose device is memory and threads of this computer.
//!
//! What it keeps to is what the driver promises about *order and errors*: streams are queues that
//! run on threads of their own, an event is what its stream had queued when it was recorded, a
//! launch reads its parameters when it is called, wrong use gives the driver's error codes, and an
//! error inside a stream stays with the context. It says nothing about the speed of any GPU, and
//! its device calls itself "stand-in (no GPU)" so that nobody takes its times for a device's.
//!
//! A program has it in place of the driver if a link `libcuda.so` to it lies in a folder that its
//! `LD_LIBRARY_PATH` names when it starts. It obeys:
//!
//! * `TIERSIM_STAND_IN_MEMORY`: bytes of the device; 1 GiB if unset
//! * `TIERSIM_STAND_IN_FAIL=NAME:N`: the N-th call of function NAME fails, with
//!   CUDA_ERROR_OUT_OF_MEMORY if it allocates, else CUDA_ERROR_UNKNOWN; `NAME:N:CODE` names the
//!   code
//! * `TIERSIM_STAND_IN_LEAKS=FILE`: when the last hold on the context is given back, what is still
//!   allocated is added to FILE, one `name count` per line
//! * `TIERSIM_STAND_IN_CALLS=FILE`: at the same moment, every function called and how often
//!
//! Limits: one device, its primary context, no graphs, no managed memory, no memory pools. A kernel
//! is looked up by name in `kernels.rs`; the PTX only says which exist and what they take.
//! Invariant: no lock of the driver is held while a stream is waited for.

#![expect(unsafe_code, reason = "a driver is a C interface: its arguments are raw pointers")]

#[path = "cuda_stand_in/api_blas.rs"]
mod api_blas;
#[path = "cuda_stand_in/api_context.rs"]
mod api_context;
#[path = "cuda_stand_in/api_memory.rs"]
mod api_memory;
#[path = "cuda_stand_in/api_module.rs"]
mod api_module;
#[path = "cuda_stand_in/api_stream.rs"]
mod api_stream;
#[path = "cuda_stand_in/codes.rs"]
mod codes;
#[path = "cuda_stand_in/driver.rs"]
mod driver;
#[path = "cuda_stand_in/kernels.rs"]
mod kernels;
#[path = "cuda_stand_in/memory.rs"]
mod memory;
#[path = "cuda_stand_in/ptx.rs"]
mod ptx;
#[path = "cuda_stand_in/stream.rs"]
mod stream;
