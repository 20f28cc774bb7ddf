//! Whether the measured steps of a run are those of its steady state, and how far off they are.

use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What ended the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// The trace runs once: there is no steady state, and what is left over is charged.
    Once,
    /// The measured replays are the same to the picosecond and the byte.
    #[default]
    Same,
    /// They agree within the tolerance.
    Agree,
    /// They do not, after as many replays as are added at most.
    Drifts,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Settled::Once => "once",
            Settled::Same => "same",
            Settled::Agree => "agree",
            Settled::Drifts => "drifts",
        })
    }
}

/// How steady the measured steps are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// What ended the warm-up.
    pub settled: Settled,
    /// Replays that do not count: those that the scenario states and those that were added.
    pub warmup: u64,
    /// How much longer the replays of the second half of the measured ones are than those of the
    /// first, or a single one than the one before it, as a share.
    pub drift: f64,
    /// What the measured replays copy and do not pay in their time, on the channel where that is
    /// most: the time that it takes there as a share of the measured time. Below 0 where they pay
    /// for others.
    pub unpaid: f64,
    /// The channel, unless all is paid.
    pub unpaid_lane: Option<usize>,
    /// Time from the end of the last op of a trace that runs once until nothing is under way: it is
    /// part of the last step.
    pub left_over: Span,
}
