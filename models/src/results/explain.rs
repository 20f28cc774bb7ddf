//! Where the time of a step went, why, and what would change it: the record of `tiersim explain`.
//!
//! The path of a step is a row of segments, each of which belongs to one part ([`PathPart`]), and
//! to what spent it. Sums over it are kept by part, phase, op and object, so that every grouping of
//! a report is a sum of the same numbers.
//! Invariant: the segments of a step add up to it, and so do the sums, to the picosecond.

mod causes;

use super::{CaseRecord, Conditions, Figures, PathPart, RunRecord};
use crate::units::{Bytes, Span, Time};
use crate::workload::{ObjectKind, Phase};
pub use causes::{Cause, CauseSum, Gap, Hot};

/// An explained case.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The run that was explained: the one case, whose timeline is there.
    pub record: RunRecord,
    /// Its path.
    pub path: WalkedPath,
    /// Step minus bound, by cause.
    pub gap: Gap,
    /// How the step answers to the machine's numbers, the largest answer first.
    pub elasticities: Vec<Elasticity>,
    /// Relative change of each number on either side, such as 0.01.
    pub change: f64,
    /// Numbers that could not be changed, with the reason.
    pub unchanged: Vec<(String, String)>,
    /// Runs with other numbers, in the order in which they were tried.
    pub tries: Vec<Try>,
    /// Runs with more HBM, by rising capacity.
    pub memory: Vec<MemoryTry>,
}

/// The critical path of the last measured replay of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WalkedPath {
    /// Steps of the replay.
    pub steps: u64,
    /// How long they took together.
    pub span: Span,
    /// What of it is waiting at the end of a trace that runs once, until nothing was under way.
    pub left_over: Span,
    /// Ops on the path.
    pub ops: Vec<PathOp>,
    /// Objects on the path.
    pub objects: Vec<PathObject>,
    /// The path itself, of the last of these steps: all of them unless that would be too much.
    pub segments: Vec<PathSegment>,
    /// Sums over all of these steps, in a fixed order.
    pub sums: Vec<PathSum>,
    /// How channels were used in each phase, over all of these steps, where they were.
    pub lanes: Vec<Lane>,
}

/// An op on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOp {
    /// Its name.
    pub name: String,
    /// Its module; empty if it has none.
    pub module: String,
    /// The stream that it runs on.
    pub stream: u16,
}

/// An object on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathObject {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ObjectKind,
    /// Its module; empty if it has none.
    pub module: String,
}

/// What spent a stretch of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spender {
    /// An op, by index into [`WalkedPath::ops`].
    Op(usize),
    /// The copy of an object, or its use in place, by index into [`WalkedPath::objects`]; of time
    /// in line the one that crossed meanwhile.
    Object(usize),
    /// Neither: objects were moved together, or nothing was under way but copies behind the last
    /// op.
    Nothing,
}

/// A stretch of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSegment {
    /// Which step of the replay, from 0.
    pub step: u64,
    /// When it began, from the start of the run.
    pub start: Time,
    /// How long it was.
    pub span: Span,
    /// Of a copy, or of the one that it stood in line for: what of it does not depend on bytes.
    pub setup: Span,
    /// What it was spent on.
    pub part: PathPart,
    /// The phase of the op that ran, or of the one that waited.
    pub phase: Phase,
    /// The op that ran; of a copy the one that waited; `None` where none did.
    pub op: Option<usize>,
    /// The object that was copied, or the largest that was used in place.
    pub object: Option<usize>,
    /// Bytes of the copy, or of all that was used in place.
    pub bytes: Bytes,
    /// Of standing in line: the object that crossed the channel meanwhile, if one did.
    pub behind: Option<usize>,
}

/// A sum over the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSum {
    /// What it was spent on.
    pub part: PathPart,
    /// In which phase.
    pub phase: Phase,
    /// By what.
    pub by: Spender,
    /// How long.
    pub span: Span,
    /// Of copies: what of it does not depend on bytes.
    pub setup: Span,
    /// Bytes of the copies, or of the uses in place.
    pub bytes: u128,
    /// How many ops, copies or uses.
    pub count: u64,
}

/// A channel in a phase. Phases follow one another as the path does: at every moment it is that of
/// the op which the path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The channel, by index.
    pub channel: usize,
    /// The phase.
    pub phase: Phase,
    /// How long the channel was busy.
    pub busy: Span,
    /// How long the path led over it: copies that were waited for crossed it, or stood in line.
    pub exposed: Span,
    /// What of that was standing in line.
    pub queued: Span,
    /// How long it was busy while the path led elsewhere.
    pub overlapped: Span,
}

/// What a step, or the latency of requests, does when a number of the machine changes a little.
#[derive(Clone, Debug, PartialEq)]
pub struct Elasticity {
    /// The path of the number, as `--set` takes it.
    pub path: String,
    /// Its value as written, such as `gb_per_s(64)`.
    pub value: String,
    /// The values that were tried, as written: below and above.
    pub tried: [String; 2],
    /// By how much these differ, as a share of the value: the sum of both changes.
    pub change: f64,
    /// Mean steps, or latencies, with the one and with the other.
    pub steps: [Span; 2],
}

impl Explanation {
    /// The case.
    pub fn case(&self) -> &CaseRecord {
        &self.record.results[0]
    }

    /// What it ran on.
    pub fn on(&self) -> &Conditions {
        self.record.of(self.case())
    }

    /// What runs with other numbers are held against: the mean of all measured steps of the case,
    /// or the mean latency of requests where it serves some.
    pub fn judged(&self) -> Span {
        self.case().outcome.figures().map_or(Span::ZERO, Figures::judged)
    }

    /// Whether the step is its bound but for less than is printed of it.
    pub fn is_at_bound(&self) -> bool {
        self.gap.total().saturating_mul(10_000) <= i128::from(self.path.span.ps())
    }
}

impl Elasticity {
    /// By how much the value above is more, as a share of the value. Counts, too, go as far up as
    /// down, but for those of which there is nothing below.
    pub fn above(&self) -> f64 {
        if self.tried[0] == self.value { self.change } else { self.change / 2.0 }
    }

    /// Whether it was not changed by the share `change` as it is a count, which goes from one whole
    /// number to the next.
    pub fn is_of_a_count(&self, change: f64) -> bool {
        (self.above() - change).abs() > 1e-3 * change
    }

    /// Per cent of step time per per cent of the number: a central finite difference.
    pub fn of(&self, step: Span) -> f64 {
        let [below, above] = self.steps.map(|step| step.ps() as f64);
        (above - below) / (step.ps() as f64).max(1.0) / self.change
    }
}

/// A run with one other number.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    /// The path of the number.
    pub path: String,
    /// Its value as written.
    pub value: String,
    /// The one that was tried.
    pub tried: String,
    /// By how many times the number changed.
    pub factor: f64,
    /// The mean step with that.
    pub step: Span,
}

/// A run with other HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTry {
    /// Bytes of it for the case's objects.
    pub hbm: Bytes,
    /// The mean step; `None` where the case does not fit.
    pub step: Option<Span>,
}

impl WalkedPath {
    /// The time of a part.
    pub fn of(&self, part: PathPart) -> Span {
        self.sums.iter().filter(|sum| sum.part == part).map(|sum| sum.span).sum()
    }

    /// The mean step of the replay, rounded to the picosecond.
    pub fn mean_step(&self) -> Span {
        let steps = self.steps.max(1);
        Span::from_ps((self.span.ps() + steps / 2) / steps)
    }

    /// Milliseconds of a mean step of a sum over all steps.
    pub fn mean_ms(&self, sum: Span) -> f64 {
        sum.as_ms() / self.steps.max(1) as f64
    }

    /// What share of all time a sum is.
    pub fn share(&self, sum: Span) -> f64 {
        sum.ps() as f64 / (self.span.ps() as f64).max(1.0)
    }
}
