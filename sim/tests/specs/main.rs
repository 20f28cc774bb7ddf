//! What may stand in hardware and scenario files, what it means, and how mistakes are reported.

mod allocators;
mod form;
mod hardware;
mod hostile;
mod numa;
mod project;
mod rules;
mod sweep;
mod written;
