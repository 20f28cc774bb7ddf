//! What ran when in the step that a timeline shows, and what was held meanwhile.

use crate::units::{Bytes, Span, Time};
use crate::workload::{Name, ObjectKind, Phase};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The last measured step of a run. Commands are in the order of their ends, samples in that of
/// time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// What ran when: all that ended in the step, or behind the end of the last.
    pub slices: Vec<Slice>,
    /// The steps themselves.
    pub steps: Vec<ShownStep>,
    /// Bytes held by tier: at the start, and then whenever they change.
    pub held: Vec<Residency>,
}

/// A step on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownStep {
    /// Which of the run, counted from 0.
    pub number: u64,
    /// Start.
    pub start: Time,
    /// Length.
    pub span: Span,
}

/// What a tier holds from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// The moment.
    pub at: Time,
    /// The tier, by index.
    pub tier: usize,
    /// Bytes of objects, room kept for copies under way included.
    pub bytes: Bytes,
}

/// Something that ran from one moment to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// What occupied it.
    pub track: Track,
    /// The op's name, or the object's for a copy.
    pub name: Name,
    /// What more there is to say of it.
    pub detail: SliceDetail,
    /// Start.
    pub start: Time,
    /// Length.
    pub span: Span,
    /// Bytes copied; 0 for ops.
    pub bytes: Bytes,
}

/// What there is to say of a slice beside its name: words only where somebody reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SliceDetail {
    /// An op: the part of its step, and its module.
    Op(Phase, Option<Name>),
    /// A copy: what the object holds.
    Copy(ObjectKind),
    /// So many objects.
    Objects(usize),
}

impl fmt::Display for SliceDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SliceDetail::Op(phase, module) => {
                write!(f, "{} {}", phase.word(), module.as_deref().unwrap_or_default())
            }
            SliceDetail::Copy(kind) => f.write_str(kind.word()),
            SliceDetail::Objects(count) => write!(f, "{count} objects"),
        }
    }
}

/// A row of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Track {
    /// A compute stream.
    Stream(u16),
    /// A channel, by index into [`Conditions::channels`](super::Conditions::channels).
    Channel(usize),
}

impl Timeline {
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Everything was so much later.
    pub fn delay(&mut self, by: Span) {
        self.slices.iter_mut().for_each(|slice| slice.start = slice.start + by);
        self.steps.iter_mut().for_each(|step| step.start = step.start + by);
        self.held.iter_mut().for_each(|held| held.at = held.at + by);
    }

    /// From now on a tier holds so much.
    pub fn holds(&mut self, at: Time, tier: usize, bytes: Bytes) {
        match self.held.last_mut() {
            Some(last) if (last.at, last.tier) == (at, tier) => last.bytes = bytes,
            _ => self.held.push(Residency { at, tier, bytes }),
        }
    }
}
