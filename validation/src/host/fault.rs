//! What can go wrong on real memory.

use crate::faulty::Failure;

/// Why a run on the host ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The system refused.
    #[error("the host machine {what} {place}: {found}; give it another --scratch or more room")]
    Io {
        /// What it was doing.
        what: &'static str,
        /// Where.
        place: String,
        /// What the system said.
        found: String,
    },
    /// A test asked for it.
    #[error("failed as told: {0:?}")]
    Injected(Failure),
    /// A mistake in this program.
    #[error("a worker of the host machine died: {0}")]
    Died(String),
}

impl Fault {
    pub(crate) fn io(what: &'static str, place: &str, error: &std::io::Error) -> Fault {
        Fault::Io { what, place: place.to_owned(), found: error.to_string() }
    }
}
