//! Brings a planner and a machine together.
//!
//! Lazy: planning runs at most a stated number of ops ahead of the last op that has ended, so that
//! memory stays bounded on any trace. Decisions do not depend on that number, nor on when commands
//! end; times do only where one stream runs further ahead of another than the window.

use crate::command::{Command, Machine};
use crate::planner::{PlanError, Planner};
use tiersim_models::units::Time;

/// How many ops may be planned but not ended. More than any sensible prefetch window.
pub const WINDOW: u64 = 256;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError<F: std::error::Error> {
    /// The plan cannot go on.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The machine failed.
    #[error("{0}")]
    Machine(F),
}

/// Runs the plan to its end. `on_op` hears of every op that ends: which of the run, and when.
pub fn drive<M: Machine>(
    planner: &mut Planner<'_>,
    machine: &mut M,
    window: u64,
    mut on_op: impl FnMut(u64, Time, &mut M),
) -> Result<(), DriveError<M::Fault>> {
    let mut commands: Vec<Command> = Vec::new();
    let mut ops_ended = 0;
    loop {
        while planner.planned() - ops_ended < window.max(1) && planner.plan_next(&mut commands)? {
            for command in commands.drain(..) {
                machine.submit(command).map_err(DriveError::Machine)?;
            }
        }
        let Some((at, ticket)) = machine.next().map_err(DriveError::Machine)? else {
            return Ok(());
        };
        if let Some(occurrence) = planner.ended(ticket) {
            ops_ended += 1;
            on_op(occurrence, at, machine);
        }
    }
}
