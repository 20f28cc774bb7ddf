//! Scenario files, as text, and what they mean ([`tiersim_policies::scenario`]).
//!
//! `bytes -> size check -> RON -> raw (mirrors the file) -> resolve -> Scenario`.

pub mod allocators;
mod axes;
mod card;
mod compression;
mod document;
mod expectations;
pub mod files;
pub mod fingerprint;
mod hidden;
pub mod hints;
mod machines;
mod model;
mod modes;
mod numa;
pub mod numbers;
mod places;
mod policies;
mod pressure;
pub mod raw;
pub mod read;
pub mod resolve;
pub(crate) mod resolver;
pub mod runtime;
mod spelling;
mod statistics;
mod statistics_file;
pub mod sweep;
pub mod unknowns;
pub mod weights;
pub mod workload;

pub(crate) use tiersim_policies::scenario::{
    AxisValue, Budget, Case, OpTime, Params, Said, Scenario, ServingSource, Terms, TraceSource,
    WorkloadSpec, labelled,
};
