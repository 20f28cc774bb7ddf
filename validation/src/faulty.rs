//! A machine that fails once, for tests: at the N-th allocation or the N-th copy.
//!
//! The failure comes while other commands are under way, so it shows whether a machine that is
//! dropped in the middle of a run gives everything back. [`crate::options::Options::fail`] is its
//! counterpart inside the host machine, where the failure comes on a worker thread.

use tiersim_models::units::Time;
use tiersim_policies::command::{Command, Machine, Ticket, Work};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The N-th room that is allocated, counted from 1.
    Allocation(u64),
    /// The N-th copy, counted from 1.
    Copy(u64),
}

/// Why a machine under test failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultyFault<F: std::error::Error> {
    /// As told.
    #[error("failed as told: {0:?}")]
    Injected(Failure),
    /// The machine itself.
    #[error("{0}")]
    Machine(F),
}

/// Fails as told.
#[derive(Debug)]
pub struct FaultyMachine<M> {
    /// The machine.
    pub machine: M,
    failure: Failure,
    seen: u64,
}

impl<M> FaultyMachine<M> {
    /// `machine`, failing once.
    pub fn new(machine: M, failure: Failure) -> FaultyMachine<M> {
        FaultyMachine { machine, failure, seen: 0 }
    }
}

impl<M: Machine> Machine for FaultyMachine<M> {
    type Fault = FaultyFault<M::Fault>;

    fn submit(&mut self, command: Command) -> Result<(), Self::Fault> {
        let (more, limit) = match self.failure {
            Failure::Allocation(n) => (command.allocates.len() as u64, n),
            Failure::Copy(n) => (u64::from(matches!(command.work, Work::Copy { .. })), n),
        };
        let before = self.seen;
        self.seen += more;
        if before < limit && limit <= self.seen {
            return Err(FaultyFault::Injected(self.failure));
        }
        self.machine.submit(command).map_err(FaultyFault::Machine)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Self::Fault> {
        self.machine.next().map_err(FaultyFault::Machine)
    }
}
