//! One line per step of a run: memory, traffic and waiting.
//!
//! Invariant: bytes moved and stalls of all lines add up to those of the steps that they are of.

use crate::units::{Bytes, Span};
use serde::{Deserialize, Serialize};

/// Most steps whose lines are kept.
pub const MOST_LINES: usize = 100_000;

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLine {
    /// Which step of the run, counted from 0, warm-up included.
    pub step: u64,
    /// Whether it counts.
    pub measured: bool,
    /// Its length.
    pub span: Span,
    /// Bytes held in the first tier at its end.
    pub live: Bytes,
    /// Most bytes held in the first tier within it.
    pub peak: Bytes,
    /// Bytes copied over all channels, compaction included.
    pub moved: Bytes,
    /// Time that compute stood still for these copies.
    pub stall: Span,
}
