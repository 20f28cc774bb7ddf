//! Which ops of a trace serve which request.

use crate::ids::{ObjectId, OpId};
use crate::units::Time;
use crate::workload::Trace;

/// A trace, and what its ops do for requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The trace: one step per iteration, or per several that one op stands for.
    pub trace: Trace,
    /// What becomes of the requests.
    pub plan: Plan,
}

/// Which ops serve which request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order of arrival.
    pub requests: Vec<Course>,
    /// Blocks that were there when a request came, in the order of ops.
    pub reuses: Vec<Reuse>,
    /// When the last op ends with everything in HBM.
    pub estimate: Time,
}

/// The course of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// When it arrives.
    pub arrival: Time,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens of the answer.
    pub output: u32,
    /// Blocks of the prompt.
    pub blocks: u32,
    /// Of these, blocks at the start that were there already.
    pub hits: u32,
    /// Tokens of the prompt that were not computed for this request.
    pub hit_tokens: u32,
    /// The first op that computes for it; the op before waits for its arrival, or for a later one.
    pub first: OpId,
    /// The op with whose end the first token is there.
    pub token: OpId,
    /// The op with whose end the last token is there.
    pub last: OpId,
}

/// An op is the first of its request to read what was computed for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// The op.
    pub op: OpId,
    /// Part of a block: its layers.
    pub object: ObjectId,
}
