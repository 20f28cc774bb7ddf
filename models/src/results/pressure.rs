//! What happened under memory pressure of a tier, and when.

use crate::units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};

/// How many events of a run are kept one by one; all of them are counted.
pub const MOST_EVENTS: usize = 4096;

crate::words! {
    /// How full a tier is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Level {
        /// Below every threshold; each of the others has one.
        #[default]
        Normal = "normal",
        /// As full as it should be.
        Target = "target",
        /// Fuller than it should be.
        Warning = "warning",
        /// The next larger step may not fit.
        Critical = "critical",
        /// The next claim may not fit, or did not.
        Emergency = "emergency",
    }

    /// What happened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum What {
        /// The level changed.
        Level = "level",
        /// A warning was to be given.
        Warn = "warn",
        /// The allocator gave memory back.
        Clean = "clean",
        /// Objects left.
        Evict = "evict",
        /// The micro-batch became smaller with this op's step.
        Shrink = "shrink",
        /// It became larger.
        Restore = "restore",
    }
}

/// Something that happened, before an op in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureEvent {
    /// Which op of the run comes next, or is being planned.
    pub occurrence: u64,
    /// Which step of the run that op belongs to.
    pub step: u32,
    /// What.
    pub what: What,
    /// The level before.
    pub from: Level,
    /// The level after.
    pub to: Level,
    /// Bytes reserved after it.
    pub used: Bytes,
    /// Bytes that were cleaned or evicted.
    pub bytes: Bytes,
    /// Micro-batch before and after.
    pub batch: Option<(u32, u32)>,
}

/// All that happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureLog {
    /// The highest level of the run.
    pub highest: Level,
    /// How often a level was entered from below.
    pub rises: u64,
    /// Warnings.
    pub warnings: u64,
    /// How often the allocator was told to give memory back.
    pub cleans: u64,
    /// Bytes that this gave back.
    pub cleaned: Bytes,
    /// Objects that were moved out.
    pub evictions: u64,
    /// Their bytes.
    pub evicted: Bytes,
    /// How often the micro-batch became smaller.
    pub shrinks: u64,
    /// How often it became larger.
    pub restores: u64,
    /// Claims that did not fit at first.
    pub forced: u64,
    /// The first [`MOST_EVENTS`] events, in order.
    pub events: Vec<PressureEvent>,
    /// How many more there were.
    pub left_out: u64,
    /// The most samples of a micro-batch, by step of the run; empty if that is not known.
    pub micro_batches: Vec<u32>,
}

impl PressureLog {
    /// Counts and keeps an event.
    pub fn note(&mut self, event: PressureEvent) {
        self.highest = self.highest.max(event.to);
        match event.what {
            What::Level => self.rises += u64::from(event.to > event.from),
            What::Warn => self.warnings += 1,
            What::Clean => {
                self.cleans += 1;
                self.cleaned += event.bytes;
            }
            What::Evict => self.evicted += event.bytes,
            What::Shrink => self.shrinks += 1,
            What::Restore => self.restores += 1,
        }
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        } else {
            self.left_out += 1;
        }
    }
}

/// The pressure of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PressureRecord {
    /// The tier that is watched, by index.
    pub tier: usize,
    /// Its capacity.
    pub capacity: Bytes,
    /// What happened, in the order of the plan.
    pub log: PressureLog,
    /// When: of each event of the log the moment from which it has effect, the end of the op before
    /// it on its stream. Empty if nobody asked for a timeline; shorter than the log if the run
    /// ended early.
    pub at: Vec<Time>,
    /// Start and length of the first steps of the run, as many as events are kept. Empty if nobody
    /// asked for a timeline.
    pub steps: Vec<(Time, Span)>,
}

impl PressureRecord {
    /// The smallest micro-batch of any step, if the run has micro-batches.
    pub fn smallest_micro_batch(&self) -> Option<u32> {
        self.log.micro_batches.iter().copied().min()
    }

    /// The largest.
    pub fn largest_micro_batch(&self) -> Option<u32> {
        self.log.micro_batches.iter().copied().max()
    }

    /// Events whose moment is known.
    pub fn timed(&self) -> impl Iterator<Item = (&PressureEvent, Time)> {
        self.log.events.iter().zip(self.at.iter().copied())
    }
}
