//! What can go wrong on real memory.

use crate::faulty::Failure;
use std::any::Any;
use std::fmt::Display;
use std::io;

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
    /// The machine that the plan is for has what no real one stands for.
    #[error("machine {hardware}: {found}; {remedy}")]
    Machine {
        /// Its name.
        hardware: String,
        /// What it has.
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
    /// Nothing goes on: a mistake in this program or in the plan.
    #[error(
        "the machine is stuck: nothing has ended for {waited_ms} ms, {under_way} commands are under \
         way, no worker is at work, and the first of them is command {first} ({work}); run again, \
         and report it with the scenario if it comes back"
    )]
    Stuck {
        /// How long nothing has ended, in milliseconds.
        waited_ms: u64,
        /// Commands that have not ended.
        under_way: usize,
        /// Ticket of the earliest of them.
        first: u32,
        /// What kind of work that is.
        work: &'static str,
    },
    /// A mistake in this program.
    #[error("a worker of the machine died: {0}")]
    Died(String),
}

/// What comes of work on real memory.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    /// What the system refused, as a fault.
    pub(crate) fn io(what: &'static str, place: impl Display) -> impl FnOnce(io::Error) -> Fault {
        move |error| Fault::Io { what, place: place.to_string(), found: error.to_string() }
    }

    /// A thread has panicked.
    pub(crate) fn died(panic: Box<dyn Any + Send>) -> Fault {
        let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
        Fault::Died(words.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default())
    }
}
