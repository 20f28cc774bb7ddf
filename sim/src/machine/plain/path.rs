//! How a step is made up along its critical path, on a machine that keeps all commands.
//!
//! Invariant: the same parts as those that the whole machine carries along (`machine/path.rs`).

use super::digest::What;
use super::{Cell, NONE, Plain};
use tiersim_models::results::{Parts, PathPart};
use tiersim_models::units::Span;

/// Adds stretches of time one after the other, without what lies before the step.
struct Adding<'s> {
    parts: Parts,
    sums: &'s mut [Span],
    before: Span,
}

impl Adding<'_> {
    fn add(&mut self, part: PathPart, span: Span) {
        let skipped = span.min(self.before);
        self.before = Span::from_ps(self.before.ps() - skipped.ps());
        self.sums[self.parts.index(part)] += Span::from_ps(span.ps() - skipped.ps());
    }
}

impl Plain<'_> {
    /// The op of which the plan has just heard was the last of a step: the step's split is counted.
    pub(super) fn counts_step(&mut self) {
        // A step that ends at the same moment as another has no time.
        if self.now == self.since {
            return;
        }
        let parts = self.meters.parts();
        let mut sums = vec![Span::ZERO; parts.count()];
        let mut ticket = self.told;
        while ticket != NONE {
            let cell = self.cells[ticket as usize];
            let from = if cell.channel == NONE { cell.start } else { cell.offered };
            let before = Span::from_ps(self.since.ps().saturating_sub(from.ps()));
            self.stretches(ticket, &cell, Adding { parts, sums: &mut sums, before });
            if from <= self.since {
                break;
            }
            ticket = cell.before;
        }
        self.meters.split.add(&sums);
        self.since = self.now;
    }

    /// What a command did since the path led to it, in the order in which it did it.
    fn stretches(&self, ticket: u32, cell: &Cell, mut adding: Adding<'_>) {
        let (part, at) = self.part(ticket);
        let digest = &self.loaded[part].digest;
        let step = digest.step(at);
        match step.what {
            What::Op { occurrence, own, launched, .. } => {
                let compute = self.computes(occurrence, step.op);
                let most = if launched { self.durations.launch() } else { Span::ZERO };
                let launch = most.min(compute);
                adding.add(PathPart::Launch, launch);
                adding.add(own, Span::from_ps(compute.ps() - launch.ps()));
                adding.add(PathPart::Delay, step.delay);
                for &(tier, bytes) in digest.charges(at) {
                    let tier = tier.index();
                    adding.add(PathPart::InPlace(tier), self.accesses[tier].span_of(bytes));
                }
            }
            What::Copy { bytes, .. } => {
                let channel = cell.channel as usize;
                let crossed = self.lines[channel].law.span_of(bytes);
                adding.add(PathPart::Queue(channel), cell.start.since(cell.offered));
                adding.add(PathPart::Copy(channel), crossed);
            }
            What::Release => unreachable!("it takes no time, and no path leads over it"),
        }
    }
}
