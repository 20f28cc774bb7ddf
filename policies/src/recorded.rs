//! What was planned once: commands replay by replay, and what a planner that carries them out again
//! asks for.
//!
//! Invariant: a replay is the same for everybody who asks.

use crate::command::{Allocation, Command};
use crate::plan_error::PlanError;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use tiersim_models::ids::TierId;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::Bytes;

/// Most commands that are kept of one plan, some 400 bytes each.
pub const MOST_COMMANDS: usize = 1 << 17;

/// The plan of one replay.
#[derive(Debug, Default)]
pub struct Replay {
    pub(crate) commands: Arc<[Command]>,
    /// By op: how many of the commands come up to its end.
    pub(crate) ends: Vec<usize>,
    /// By op: hits and misses that it counts.
    pub(crate) counts: Vec<[u64; 2]>,
    pub(crate) choices: BTreeSet<Choice>,
    /// Whether up to its end some op did not pay for all that it used outside HBM.
    pub(crate) unpaid: bool,
    /// Why it ends before its last op.
    pub(crate) broke: Option<PlanError>,
}

impl Replay {
    /// The commands of all its ops.
    pub fn commands(&self) -> &Arc<[Command]> {
        &self.commands
    }
}

/// Which of several copies a fetch took.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    pub(crate) copies: SmallVec<[TierId; 2]>,
    pub(crate) to: TierId,
    pub(crate) bytes: Bytes,
    pub(crate) from: Option<TierId>,
}

/// A plan that is carried out again.
pub(crate) struct Again<'a> {
    pub(crate) recording: Arc<dyn Replays + 'a>,
    pub(crate) replay: Arc<Replay>,
    /// Which of its commands come up to the end of the op that was planned last.
    pub(crate) of_op: Range<usize>,
}

/// What a planner asks of a recording, which may live for longer than the planner.
pub trait Replays: Send + Sync {
    /// Where everything is before the first op.
    fn start(&self) -> &[Allocation];

    /// The plan of a replay, which is made if nobody has asked for it before.
    fn replay(&self, number: u64) -> Result<Arc<Replay>, PlanError>;
}

/// The copy that is the quickest to bring, the lowest tier of several.
pub(crate) fn quickest(
    copies: &[TierId],
    (to, bytes): (TierId, Bytes),
    times: Option<&CopyTimes>,
) -> Option<TierId> {
    let time = |from| times.map(|times| times.span(from, to, bytes)).unwrap_or_default();
    copies.iter().copied().min_by_key(|&from| (time(from), from))
}
