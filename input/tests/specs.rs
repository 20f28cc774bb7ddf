//! What may stand in hardware and scenario files, what it means, and how mistakes are reported
//! that no file of `tests/errors` has.

mod allocators;
mod economics;
mod efficiency;
mod form;
pub(crate) mod hardware;
mod hostile;
mod machines;
mod numa;
pub(crate) mod parts;
mod parts_hostile;
pub(crate) mod project;
mod rules;
mod servers;
mod services;
mod sweep;
mod topology;
mod weights;
mod written;
