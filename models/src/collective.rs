//! Collectives: what the devices of a group do together over the links between them.
//!
//! Sizes are those of the whole buffer, as NCCL's documentation has them: what an all-gather makes,
//! what a reduce-scatter takes, what an all-reduce takes and makes.
//! Invariant: a group has at least one rank, and every server that it spans has equally many.

use crate::units::Bytes;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// Everybody gets everybody's part.
    AllGather,
    /// Parts are summed, and everybody gets one part of the sum.
    ReduceScatter,
    /// Everything is summed, and everybody gets the sum.
    AllReduce,
    /// Everybody sends a part to everybody.
    AllToAll,
    /// One sends to the next, as stages of a pipeline do.
    SendRecv,
    /// One sends to all.
    Broadcast,
}

impl CollectiveKind {
    /// Every kind.
    pub const ALL: [CollectiveKind; 6] = [
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllReduce,
        CollectiveKind::AllToAll,
        CollectiveKind::SendRecv,
        CollectiveKind::Broadcast,
    ];

    /// The word used in traces.
    pub const fn word(self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::SendRecv => "send-recv",
            CollectiveKind::Broadcast => "broadcast",
        }
    }

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<CollectiveKind> {
        CollectiveKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One collective, as an op of a trace says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// The whole buffer.
    pub bytes: Bytes,
    /// Ranks of the group in each server that it spans.
    pub within: u32,
    /// Servers that the group spans.
    pub servers: u32,
}

impl Collective {
    /// Ranks of the group.
    pub const fn ranks(&self) -> u64 {
        self.within as u64 * self.servers as u64
    }
}
