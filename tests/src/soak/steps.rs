//! The second account of steps: their splits along the critical path.
//!
//! It finds for itself when steps end. The parts of every step add up to it, to the picosecond, and
//! what a path passed through has happened: no more computing than ops computed, no more crossing
//! than the channel was busy, no more use in place than was paid.

use super::Trial;
use crate::prelude::*;
use tiersim_models::results::{PathPart, Split};

/// The steps of one run.
pub(super) struct Steps {
    /// Ops of each step of the run that have not ended.
    open: Vec<u32>,
    /// The first step that has not ended.
    next: usize,
    last: Time,
    /// Durations of all ops that have ended.
    computed: u64,
    /// How long each channel had been busy by then.
    busy: Vec<Span>,
}

impl Steps {
    pub(super) fn new(trial: &Trial) -> Steps {
        let mut sizes = vec![0; trial.workload.step_ends().len()];
        let ops = 0..trial.workload.trace.ops.len();
        ops.for_each(|op| sizes[step_of(trial, op)] += 1);
        let open = sizes.repeat(trial.repeat as usize);
        let channels = 2 * trial.hardware.links.len() + trial.hardware.tiers.len();
        Steps { open, next: 0, last: Time::ZERO, computed: 0, busy: vec![Span::ZERO; channels] }
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
            let before = machine.meters().split.clone();
            machine.step_ended();
            let parts = machine.meters().split.since(&before);
            let split = parts.total();
            let (step, took) = (self.next, at.since(self.last));
            if split != took {
                return Err(format!("step {step} took {took}, its parts take {split}"));
            }
            self.walked(&parts, at, machine).map_err(|what| format!("step {step}: {what}"))?;
            (self.next, self.last) = (step + 1, at);
            self.happened(trial, machine)?;
        }
        Ok(())
    }

    /// The path of the step that has ended at `end`, walked: it has no gap, adds up to its split
    /// part by part, and channels were busy when the meters say so.
    fn walked(
        &mut self,
        split: &Split,
        end: Time,
        machine: &mut SimMachine<'_>,
    ) -> Result<(), String> {
        let busy = machine.so_far().busy;
        let was = std::mem::replace(&mut self.busy, busy);
        let Some(walked) = machine.take_walked() else {
            return if end == self.last { Ok(()) } else { Err("it has no path".to_owned()) };
        };
        let mut at = self.last;
        let mut sums = Split::new(split.parts());
        for segment in &walked.segments {
            if segment.start != at || segment.setup > segment.span {
                return Err(format!("{segment:?} does not begin at {at}"));
            }
            at = at + segment.span;
            let place = split.parts().index(segment.part);
            sums.spans_mut()[place] += segment.span;
        }
        if (at, &sums) != (end, split) {
            return Err(format!("its path to {at} is {sums:?} and not {split:?}"));
        }
        for (channel, (busy, was)) in self.busy.iter().zip(&was).enumerate() {
            let spans = walked.busy[channel].iter().map(|(from, to)| to.since(*from));
            let (walked, busy) = (spans.sum::<Span>(), Span::from_ps(busy.ps() - was.ps()));
            if walked != busy {
                return Err(format!("channel {channel} was busy for {busy}, not {walked}"));
            }
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
