//! What really happens: the same plans as in the simulator, on real memory.
//!
//! A [`HostMachine`] honours `after` edges with threads and moves real bytes between memory and
//! files, a [`CudaMachine`] does with a GPU's streams; every object carries a pattern that says
//! which version of it one is looking at, so a missing edge shows as a wrong pattern. The wrappers
//! ([`FaultyMachine`], [`JitterMachine`], [`Logged`]) work around any machine.
//! Invariant: no machine in here validates or decides; decisions and bytes are equal to the
//! simulator's by construction, and only time may differ.
//!
//! [`HostMachine`]: host::HostMachine
//! [`CudaMachine`]: cuda::CudaMachine
//! [`FaultyMachine`]: faulty::FaultyMachine
//! [`JitterMachine`]: jitter::JitterMachine
//! [`Logged`]: log::Logged

mod book;
pub mod calibrate;
pub mod clock;
mod contents;
pub mod cuda;
pub mod fault;
pub mod faulty;
pub mod files;
pub mod host;
pub mod jitter;
pub mod limits;
pub mod log;
pub mod op_fit;
pub mod open;
pub mod options;
mod pattern;
pub mod real;
pub mod truth;
