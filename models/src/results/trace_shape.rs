//! The shape of a trace and of a file of requests: what charts of them show.
//!
//! Invariant: curves rise along their first number, and have a few hundred points whatever the
//! trace has.

use crate::recorded::ShownCopies;

/// Values with the share of all that is at most as large, both ascending.
pub type Distribution = Vec<(u64, f64)>;

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceShape {
    /// Its name.
    pub name: String,
    /// With what, when and on which machine it was recorded, as far as it says so.
    pub recorded: String,
    /// How many ops it has.
    pub ops: u64,
    /// Bytes in use by kind of object, the kind's word first, each as long as `at`.
    pub alive: Vec<(&'static str, Vec<u64>)>,
    /// The ops at which they are: of each stretch of ops the one with the most bytes.
    pub at: Vec<u32>,
    /// What ops in a row use.
    pub windows: Vec<Window>,
    /// Bytes of other objects between two uses of the same: by uses, and by the bytes that are used
    /// again.
    pub reuse: [Distribution; 2],
    /// Copies by the road that they took.
    pub roads: Vec<RoadShape>,
}

/// So many ops in a row, wherever they begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How many.
    pub ops: u64,
    /// Bytes of the objects that they use, each counted once: the mean over all beginnings.
    pub mean: f64,
    /// The most.
    pub most: u64,
}

/// The copies of one road.
#[derive(Clone, Debug, PartialEq)]
pub struct RoadShape {
    /// What they show together.
    pub shown: ShownCopies,
    /// By rising size.
    pub sizes: Vec<Reached>,
}

/// Copies of one size, or of sizes that lie near to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// The size: of several the median.
    pub bytes: u64,
    /// How many copies.
    pub copies: u64,
    /// Bytes per second that they reach: the 5th percentile, the median and the 95th.
    pub rate: [f64; 3],
}

/// A file of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestsShape {
    /// Its name.
    pub name: String,
    /// How many requests.
    pub requests: u64,
    /// From the first arrival to the last, in ps.
    pub span: u64,
    /// Length of an interval, in ps.
    pub interval: u64,
    /// Arrivals in each interval, from the first arrival on.
    pub arrivals: Vec<u64>,
    /// Tokens of prompts.
    pub prompt: Distribution,
    /// Tokens of answers.
    pub output: Distribution,
}
