//! From a model card to a workload: what a transformer is, and how it is trained or served.
//!
//! A [`Card`] says what the model is; [`training::Training`] how it is trained: batch, formats, optimizer,
//! checkpointing, and how ranks split the work. Generators make the trace of one rank; what it needs of
//! memory by formula is in `memory`.
//! Invariant: plain data, checked where it is read; nothing in here knows of files or hardware.

mod build;
pub mod card;
pub mod format;
pub mod generation;
pub mod known;
pub(crate) mod modules;
pub mod routing;
pub mod semiseparable;
pub mod serving;
pub mod training;

pub use card::Card;
use generation::Generation;
use semiseparable::Semiseparable;
use training::Training;

/// What is done with a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// It is trained.
    Train(Training),
    /// It generates text.
    Generate(Generation),
    /// Vectors go through layers of structured operators, in the place of a model.
    Operators(Semiseparable),
}
