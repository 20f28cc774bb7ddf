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

/// Hears of what happens in a run.
pub trait Follow<M> {
    /// An op has ended: which of the run, and when.
    fn op_ended(&mut self, occurrence: u64, at: Time, machine: &mut M);

    /// All ops of a replay have been planned and submitted; so many ops are under way. Replays that
    /// are still to come may be left out here ([`Planner::leave_out`]). Errors end the run.
    fn replayed(
        &mut self,
        _planner: &mut Planner<'_>,
        _machine: &mut M,
        _under_way: u64,
    ) -> Result<(), PlanError> {
        Ok(())
    }

    /// All ops that were planned have ended. More may be planned here ([`Planner::stop_after`]).
    fn caught_up(&mut self, _planner: &mut Planner<'_>, _machine: &mut M) {}
}

impl<M, F: FnMut(u64, Time, &mut M)> Follow<M> for F {
    fn op_ended(&mut self, occurrence: u64, at: Time, machine: &mut M) {
        self(occurrence, at, machine);
    }
}

/// Runs the plan to its end. A closure hears of every op that ends: which of the run, and when.
pub fn drive<M: Machine>(
    planner: &mut Planner<'_>,
    machine: &mut M,
    window: u64,
    mut on_op: impl FnMut(u64, Time, &mut M),
) -> Result<(), DriveError<M::Fault>> {
    follow(planner, machine, window, &mut on_op)
}

/// Runs the plan to its end, followed by someone who may leave replays out.
pub fn follow<M: Machine>(
    planner: &mut Planner<'_>,
    machine: &mut M,
    window: u64,
    follower: &mut impl Follow<M>,
) -> Result<(), DriveError<M::Fault>> {
    let mut commands: Vec<Command> = Vec::new();
    let mut ops_ended = 0;
    loop {
        while planner.planned() - ops_ended < window.max(1) && planner.plan_next(&mut commands)? {
            if let Some((plan, which)) = planner.planned_again() {
                machine.submit_again(plan, which).map_err(DriveError::Machine)?;
            }
            machine.submit_all(&mut commands).map_err(DriveError::Machine)?;
            if planner.is_between_replays() {
                let under_way = planner.planned() - ops_ended;
                follower.replayed(planner, machine, under_way)?;
            }
        }
        let Some((at, ticket)) = machine.next().map_err(DriveError::Machine)? else {
            return Ok(());
        };
        if let Some(occurrence) = planner.ended(ticket) {
            ops_ended += 1;
            follower.op_ended(occurrence, at, machine);
            if ops_ended == planner.planned() {
                follower.caught_up(planner, machine);
            }
        }
    }
}
