//! The second account of steps: their splits along the critical path.
//!
//! It finds for itself when steps end. The parts of every step add up to it, to the picosecond, and
//! what a path passed through has happened: no more computing than ops computed, no more crossing
//! than the channel was busy, no more use in place than was paid.

use super::Trial;
use crate::prelude::*;
use tiersim_models::results::PathPart;

/// The steps of one run.
pub(super) struct Steps {
    /// Ops of each step of the run that have not ended.
    open: Vec<u32>,
    /// The first step that has not ended.
    next: usize,
    last: Time,
    /// Durations of all ops that have ended.
    computed: u64,
}

impl Steps {
    pub(super) fn new(trial: &Trial) -> Steps {
        let mut sizes = vec![0; trial.workload.step_ends().len()];
        let ops = 0..trial.workload.trace.ops.len();
        ops.for_each(|op| sizes[step_of(trial, op)] += 1);
        let open = sizes.repeat(trial.repeat as usize);
        Steps { open, next: 0, last: Time::ZERO, computed: 0 }
    }

    /// An op of the run has ended; in words what does not hold.
    pub(super) fn op_ended(
        &mut self,
        trial: &Trial,
        occurrence: u64,
        at: Time,
        machine: &mut SimMachine<'_>,
    ) -> Result<(), String> {
        let ops = trial.workload.trace.ops.len() as u64;
        let replay = (occurrence / ops) as usize * trial.workload.step_ends().len();
        self.open[replay + step_of(trial, (occurrence % ops) as usize)] -= 1;
        self.computed += trial.durations.of(occurrence).ps();
        while self.open.get(self.next) == Some(&0) {
            let before = machine.meters().split.total();
            machine.step_ended();
            let split = Span::from_ps(machine.meters().split.total().ps() - before.ps());
            let (step, took) = (self.next, at.since(self.last));
            if split != took {
                return Err(format!("step {step} took {took}, its parts take {split}"));
            }
            (self.next, self.last) = (step + 1, at);
            self.happened(trial, machine)?;
        }
        Ok(())
    }

    fn happened(&self, trial: &Trial, machine: &SimMachine<'_>) -> Result<(), String> {
        let meters = machine.meters();
        // The path may lead through every rank; figures are those of the first.
        let ranks = u64::from(trial.spec.ranks);
        let mut computed = 0;
        for (part, span) in meters.split.iter() {
            let most = match part {
                PathPart::Compute(_)
                | PathPart::Recompute
                | PathPart::Launch
                | PathPart::Bubble => {
                    computed += span.ps();
                    continue;
                }
                PathPart::Copy(channel) if ranks == 1 => meters.busy[channel],
                PathPart::InPlace(tier) if ranks == 1 => meters.in_place[tier],
                PathPart::Delay if ranks == 1 => meters.delay,
                _ => continue,
            };
            if span > most {
                return Err(format!("{part:?} is {span} of the paths and {most} of the run"));
            }
        }
        let most = self.computed * ranks;
        if computed > most {
            return Err(format!("{computed} ps of the paths computed, and {most} of the run"));
        }
        Ok(())
    }
}

/// The step of a replay that an op belongs to.
fn step_of(trial: &Trial, op: usize) -> usize {
    trial.workload.step_ends().iter().filter(|end| end.index() < op).count()
}
