//! What can go wrong on real memory.

use crate::faulty::Failure;

/// Why a run on a real machine ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The system refused.
    #[error("the machine {what} {place}: {found}; give it another --scratch or more room")]
    Io {
        /// What it was doing.
        what: &'static str,
        /// Where.
        place: String,
        /// What the system said.
        found: String,
    },
    /// There is no such machine here.
    #[error("--machine {machine}: {found}; {remedy}")]
    NoDevice {
        /// Which.
        machine: &'static str,
        /// What was looked for and not found.
        found: String,
        /// What the reader can do.
        remedy: &'static str,
    },
    /// A call to the device's driver or libraries failed.
    #[error("the device: {call} failed: {found}")]
    Device {
        /// The call.
        call: &'static str,
        /// The driver's name for the error, and its text.
        found: String,
    },
    /// What was measured did not do what it was told, so its time says nothing.
    #[error("while measuring: {0}")]
    Contents(String),
    /// A test asked for it.
    #[error("failed as told: {0:?}")]
    Injected(Failure),
    /// A mistake in this program.
    #[error("a worker of the machine died: {0}")]
    Died(String),
}

impl Fault {
    pub(crate) fn io(what: &'static str, place: &str, error: &std::io::Error) -> Fault {
        Fault::Io { what, place: place.to_owned(), found: error.to_string() }
    }
}
