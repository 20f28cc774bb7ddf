//! From a model card to a workload: what a transformer is, and how it is trained or served.
//!
//! A [`Card`] says what the model is; [`training::Training`] how it is trained: batch, formats,
//! optimizer, checkpointing, and how ranks split the work. Generators make the trace of one rank;
//! what it needs of memory by formula is in `memory`.
//! Invariant: plain data, checked where it is read; nothing in here knows of files or hardware.

pub(crate) mod adapted;
pub mod adapters;
pub mod card;
pub mod format;
pub mod generation;
pub(crate) mod graph;
pub mod known;
pub(crate) mod modules;
pub mod packed;
pub mod routing;
pub mod semiseparable;
pub mod serving;
pub mod training;

pub use card::Card;
use generation::Generation;
use semiseparable::Semiseparable;
use tiersim_models::workload::Trace;
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

impl Work {
    /// The trace of one rank of work without problems.
    pub fn trace(&self) -> Trace {
        match self {
            Work::Train(training) => training.trace(),
            Work::Generate(generation) => generation.trace(),
            Work::Operators(operators) => operators.trace(),
        }
    }

    /// All ranks, of each of which a device runs the trace.
    pub fn devices(&self) -> u64 {
        match self {
            Work::Train(training) => training.parallel.ranks(),
            Work::Generate(of) => u64::from(of.tensor) * u64::from(of.context),
            Work::Operators(operators) => operators.ranks.into(),
        }
    }

    /// Tokens of one step of all ranks together.
    pub fn tokens(&self) -> u64 {
        match self {
            Work::Train(training) => {
                let sequences = u64::from(training.batch) * u64::from(training.parallel.data);
                sequences.saturating_mul(training.sequence)
            }
            // One token per sequence, whether it comes of the prompt or of the token before it.
            Work::Generate(generation) => {
                u64::from(generation.batch) * u64::from(generation.batches)
            }
            // A vector stands for a token; every rank has some of its own.
            Work::Operators(operators) => u64::from(operators.batch) * u64::from(operators.ranks),
        }
    }
}
