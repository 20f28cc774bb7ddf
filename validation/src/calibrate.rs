//! Calibration: what is asked of a machine, and what it answers.
//!
//! A [`MeasuredMachine`] runs one [`Probe`] at a time and gives back what its clock said, without
//! averaging and without leaving anything out: which points are measured, how often, and what is
//! made of them is decided once, here, for all machines.
//! Invariant: a probe times what the simulator's laws must predict, on the same path through the
//! same machine as a plan would take, unless its name says that it goes around that machine.

mod bench;
mod blocks;
mod cuda;
pub mod figures;
pub mod fit;
mod host;
pub mod measure;
pub mod nodes;
mod probe;
pub mod recorded;
pub(crate) mod skeleton;
pub mod spec;
pub mod through;

pub use probe::*;

use crate::fault::Result;
use crate::real;
use std::path::Path;

/// The bench of a kind of machine and its device by number, which a host ignores; files of tiers
/// that are files lie below `scratch`.
///
/// Errors with [`Fault::NoDevice`](crate::fault::Fault::NoDevice) where there is no such machine.
pub fn bench(
    (machine, device): (real::Kind, usize),
    scratch: &Path,
) -> Result<Box<dyn MeasuredMachine>> {
    match machine {
        real::Kind::Host => Ok(Box::new(host::HostBench::new(scratch)?)),
        real::Kind::Cuda => Ok(Box::new(cuda::CudaBench::new(device, scratch)?)),
    }
}
