//! What a case says of the long run that it is the beginning of.
//!
//! The sample is what was measured, replay by replay: how long each took, and the most that it held
//! of HBM; and what the allocators of its tiers kept and how it lay in pieces, step by step. Nothing
//! is simulated that would not be without.
//! Invariant: the figures of the case are those of its own replays.

use super::{CaseRunner, Options};
use tiersim_models::results::long_run::{LongRun, Seen};
use tiersim_models::results::memory_use::MemoryUse;
use tiersim_models::results::step_log::StepLine;
use tiersim_models::results::{Outcome, Settled};

impl CaseRunner<'_> {
    /// Of a case that was run with lines of its steps, which stay only where they were asked for.
    pub(super) fn long_run(&self, outcome: &mut Outcome, options: Options) -> Option<LongRun> {
        let horizon = self.horizon?;
        let figures = outcome.figures_mut()?;
        let each = self.workload.step_ends().len();
        let lines = figures.log.iter().filter(|line| line.measured);
        let lines: Vec<&StepLine> = lines.collect();
        let replays = || lines.chunks_exact(each);
        let length = |of: &[&StepLine]| of.iter().map(|line| line.span.ps() as f64).sum();
        let lengths: Vec<f64> = replays().map(length).collect();
        let peak = |of: &[&StepLine]| of.iter().map(|line| line.peak.get()).max().unwrap_or(0);
        let peaks: Vec<f64> = replays().map(|of| peak(of) as f64).collect();
        let mut seen = vec![Seen::of(PEAKS, &peaks)];
        let before = lines.first().map_or(0, |line| line.step);
        for (_, used) in &figures.memory {
            seen.extend(of_allocator(used, before));
        }
        let steady = figures.steady.settled != Settled::Drifts;
        let replays = horizon - u64::from(self.warmup);
        let long_run = LongRun::of(&lengths, (each as u64, replays), seen, steady);
        if !options.log {
            figures.log.clear();
        }
        Some(long_run)
    }
}

const PEAKS: &str = "peaks of memory (bytes)";
const RESERVED: &str = "bytes that allocators keep";
const FRAGMENTED: &str = "shares of free memory in pieces";

/// What an allocator kept and how its free memory lay, once for each step from `before` on.
fn of_allocator(used: &MemoryUse, before: u64) -> [Seen; 2] {
    let (mut reserved, mut pieces): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut step = None;
    for point in used.series.iter().filter(|point| point.step >= before) {
        let (kept, highest) = (point.reserved.get() as f64, point.highest);
        match (step == Some(point.step), reserved.last_mut(), pieces.last_mut()) {
            // Several points of one step.
            (true, Some(most), Some(worst)) => {
                (*most, *worst) = (most.max(kept), worst.max(highest));
            }
            _ => {
                reserved.push(kept);
                pieces.push(highest);
            }
        }
        step = Some(point.step);
    }
    [Seen::of(RESERVED, &reserved), Seen::of(FRAGMENTED, &pieces)]
}
