//! The way back: a case of a scenario in the words of a framework.
//!
//! Keys and words are those by which `from` reads ([`super::deepspeed::keys`],
//! [`super::serve::names`]), so that what is written is read again as what it was. What a scenario
//! says beyond a framework's words is told, with why, and never left out in silence: its structs are
//! taken apart field by field, so that a new field does not compile until it is told.
//! Invariant: a scenario whose [`Back`] is whole is, written and read again, the same scenario.

mod case;
mod deepspeed;
mod device_map;
mod fsdp;
mod parts;
mod plan;
mod serve;
mod training;

pub use deepspeed::deepspeed as to_deepspeed;
pub use device_map::device_map as to_device_map;
pub use fsdp::fsdp as to_fsdp;
pub use parts::{Ask, Back, Part, Told};
pub use plan::plan as to_plan;
pub use serve::serve as to_server;
