//! A plan carried out under audit, and what was seen of it op by op.

use crate::prelude::*;
use tiersim_policies::planner::Counts;

/// What a run came to.
#[derive(Debug)]
pub struct Played {
    /// When each op of the run ended, in picoseconds.
    pub ends: Vec<u64>,
    /// Delay that the policy stated, by op of the run, in picoseconds.
    pub delays: Vec<u64>,
    /// Time in which an op of the device ran, in picoseconds.
    pub active: u64,
    /// Copies: before which op of the run they were planned, of which object, from where and to
    /// where.
    pub copies: Vec<(usize, u32, TierId, TierId)>,
    /// Uses that found their object in HBM, and those that did not.
    pub counts: Counts,
    /// By op: the tiers of its uses.
    pub used: Vec<Vec<(ObjectId, TierId)>>,
}

/// Plans a whole world, runs it under audit, and tells what was seen.
pub fn play(world: &World, policy: Box<dyn Policy>) -> Result<Played, PlanError> {
    assert_eq!(world.workload.trace.problems(), []);
    let mut planner = world.planner(policy)?;
    let mut machine = world.audited(&planner);
    let (mut used, mut copies, mut delays) = (Vec::new(), Vec::new(), Vec::new());
    let mut commands: Vec<Command> = Vec::new();
    while planner.plan_next(&mut commands)? {
        for command in commands.drain(..) {
            match &command.work {
                Work::Compute { touches, delay, .. } => {
                    used.push(touches.iter().map(|touch| (touch.object, touch.tier)).collect());
                    delays.push(delay.ps());
                }
                Work::Copy { object, from, to, .. } => {
                    copies.push((used.len(), object.0, *from, *to));
                }
                Work::Compact { .. } | Work::Release => {}
            }
            machine.submit(command).expect("no fault");
        }
    }
    let mut ends = vec![0; used.len()];
    while let Some((at, ticket)) = machine.next().expect("no fault") {
        if let Some(op) = planner.ended(ticket) {
            ends[op as usize] = at.ps();
        }
    }
    let active = machine.so_far().active.ps();
    Ok(Played { ends, delays, active, copies, counts: planner.counts(), used })
}
