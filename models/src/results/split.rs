//! How a step is made up along its critical path.
//!
//! The path leads back from the op whose end ends the step to what that op had waited for last, to
//! what that had waited for last, and so on to the end of the step before. Every picosecond of the
//! step is on it once, and belongs to one part: what the command that is on the path did at that
//! time. Sums over streams ([`Figures::compute`](super::Figures::compute), `stall`, `in_place`,
//! `delay`) are another thing: they count what runs beside the path too, and do not add up to a
//! step.
//! Invariant: the parts of the measured steps add up to these steps, to the picosecond.

use crate::units::Span;
use crate::workload::Phase;
use serde::{Deserialize, Serialize};

/// What a stretch of the critical path was spent on. Channels and tiers are those of a record, by
/// index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// The device computed in this phase; without launches, delays and use in place.
    Compute(Phase),
    /// The device ran ops again whose results had been dropped.
    Recompute,
    /// The host's processors ran an op.
    Cpu,
    /// Ops were launched, on the device, on the host or of a collective.
    Launch,
    /// Devices exchanged bytes, or waited for the last of them to come.
    Collective,
    /// A copy that was waited for crossed this channel.
    Copy(usize),
    /// A copy that was waited for stood in line for this channel: others crossed it.
    Queue(usize),
    /// An op waited for what it used in this tier, where it lay.
    InPlace(usize),
    /// A tier's allocator took segments or gave them back, kept the device waiting, or moved
    /// objects together.
    Allocator,
    /// What policies state for ops, such as the handling of page faults.
    Delay,
    /// A stage of a pipeline waited for others.
    Bubble,
    /// There was nothing to do before a request arrived.
    Arrival,
    /// A framework's thread was at work before an op, and the device waited.
    HostOps,
    /// A framework's thread saw to objects to fetch, or a copy waited until it did.
    HostObjects,
    /// The device went over what copies had brought, or one waited until that of others was done.
    HostPasses,
}

impl PathPart {
    /// Whether only a framework adds time to it.
    pub fn is_of_framework(self) -> bool {
        matches!(self, PathPart::HostOps | PathPart::HostObjects | PathPart::HostPasses)
    }

    /// Every part of a machine with so many channels of links and tiers, in the order of reports.
    pub fn all(channels: usize, tiers: usize) -> impl Iterator<Item = PathPart> {
        let (copies, queues) =
            ((0..channels).map(PathPart::Copy), (0..channels).map(PathPart::Queue));
        let uses = (0..tiers).map(PathPart::InPlace);
        COMMON.into_iter().chain(copies).chain(queues).chain(uses)
    }
}

/// Parts that every machine has.
const COMMON: [PathPart; 17] = [
    PathPart::Compute(Phase::Forward),
    PathPart::Compute(Phase::Backward),
    PathPart::Compute(Phase::Optimizer),
    PathPart::Compute(Phase::Prefill),
    PathPart::Compute(Phase::Decode),
    PathPart::Compute(Phase::Other),
    PathPart::Recompute,
    PathPart::Cpu,
    PathPart::Launch,
    PathPart::Collective,
    PathPart::Allocator,
    PathPart::Delay,
    PathPart::Bubble,
    PathPart::Arrival,
    PathPart::HostOps,
    PathPart::HostObjects,
    PathPart::HostPasses,
];

/// The parts of a machine with so many channels of links and tiers, in the order in which they are
/// kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    channels: usize,
    tiers: usize,
}

impl Parts {
    /// The parts of a machine with so many channels and tiers.
    pub fn new(channels: usize, tiers: usize) -> Parts {
        Parts { channels, tiers }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        COMMON.len() + 2 * self.channels + self.tiers
    }

    /// The place of a part. A channel behind those of links is a tier's own, which only compaction
    /// takes.
    #[inline]
    pub fn index(self, part: PathPart) -> usize {
        let channels = COMMON.len();
        match part {
            PathPart::Compute(phase) => phase as usize,
            PathPart::Recompute => 6,
            PathPart::Cpu => 7,
            PathPart::Launch => 8,
            PathPart::Collective => 9,
            PathPart::Allocator => 10,
            PathPart::Delay => 11,
            PathPart::Bubble => 12,
            PathPart::Arrival => 13,
            PathPart::HostOps => 14,
            PathPart::HostObjects => 15,
            PathPart::HostPasses => 16,
            PathPart::Copy(channel) | PathPart::Queue(channel) if channel >= self.channels => 10,
            PathPart::Copy(channel) => channels + channel,
            PathPart::Queue(channel) => channels + self.channels + channel,
            PathPart::InPlace(tier) => channels + 2 * self.channels + tier,
        }
    }

    /// The part that a part is counted as: what moves within a tier is its allocator's.
    pub fn counted(self, part: PathPart) -> PathPart {
        match part {
            PathPart::Copy(channel) | PathPart::Queue(channel) if channel >= self.channels => {
                PathPart::Allocator
            }
            part => part,
        }
    }

    /// All, by place.
    fn all(self) -> impl Iterator<Item = PathPart> {
        PathPart::all(self.channels, self.tiers)
    }
}

/// Time by part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    parts: Parts,
    spans: Vec<Span>,
}

impl Split {
    /// Nothing yet, of a machine with so many channels of links and tiers.
    pub fn new(parts: Parts) -> Split {
        Split { parts, spans: vec![Span::ZERO; parts.count()] }
    }

    /// These times, of a machine with so many channels of links and tiers; a part may come several
    /// times.
    pub fn of_parts(channels: usize, tiers: usize, times: &[(PathPart, Span)]) -> Split {
        let mut split = Split::new(Parts::new(channels, tiers));
        times.iter().for_each(|&(part, span)| split.spans[split.parts.index(part)] += span);
        split
    }

    /// Every part with its time, in the order of reports, those without any time included.
    pub fn iter(&self) -> impl Iterator<Item = (PathPart, Span)> + '_ {
        self.parts.all().zip(self.spans.iter().copied())
    }

    /// The time of one part.
    pub fn of(&self, part: PathPart) -> Span {
        self.spans.get(self.parts.index(part)).copied().unwrap_or(Span::ZERO)
    }

    /// All parts together.
    pub fn total(&self) -> Span {
        self.spans.iter().copied().sum()
    }

    /// Adds the time of each part, by place.
    pub fn add(&mut self, spans: &[Span]) {
        self.spans.iter_mut().zip(spans).for_each(|(sum, &span)| *sum += span);
    }

    /// What came since it was `start`.
    pub fn since(&self, start: &Split) -> Split {
        let pairs = self.spans.iter().zip(&start.spans);
        let spans = pairs.map(|(end, start)| Span::from_ps(end.ps() - start.ps())).collect();
        Split { parts: self.parts, spans }
    }

    /// What it has places for.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// The sums by place.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The same, to be added to.
    pub fn spans_mut(&mut self) -> &mut [Span] {
        &mut self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_place_of_its_own() {
        for parts in [Parts::new(0, 1), Parts::new(4, 3), Parts::new(2, 2)] {
            let places: Vec<usize> = parts.all().map(|part| parts.index(part)).collect();
            assert_eq!(places, (0..parts.count()).collect::<Vec<_>>());
        }
        // Whatever stands in line within a tier is moved there.
        let parts = Parts::new(4, 3);
        assert_eq!(parts.index(PathPart::Queue(5)), parts.index(PathPart::Allocator));
    }
}
