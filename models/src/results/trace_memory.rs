//! What a trace asks of memory, by itself: no machine, no policy, everything in one tier.
//!
//! An allocator serves the trace's requests in their order. Found are fragmentation and peaks, the
//! least pool that serves, what offsets that are assigned ahead would save, and what is never given
//! back.
//! Invariant: bytes are exact; shares are worked out from them here, once.

use crate::results::memory_use::Share;
use crate::units::Bytes;

/// All that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceMemory {
    /// The trace's name.
    pub trace: String,
    /// The allocator in words.
    pub allocator: String,
    /// Steps of the trace.
    pub steps: usize,
    /// Objects that are there from the start, and requests of ops.
    pub requests: (usize, usize),
    /// Most bytes asked for at once: what no allocator goes below.
    pub floor: Bytes,
    /// What the allocator keeps for it at most where memory is not short.
    pub ample: Bytes,
    /// The least pool.
    pub least: LeastPool,
    /// The trace's requests in [`TraceMemory::capacity`].
    pub served: Result<Served, Refused>,
    /// The capacity of `served`: as asked for, or the least pool.
    pub capacity: Bytes,
    /// Offsets that are assigned ahead.
    pub ahead: Ahead,
    /// What is never given back.
    pub leaks: Leaks,
}

/// What an allocator made of requests that it served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Most bytes of live blocks, as rounded.
    pub allocated: Bytes,
    /// Most bytes kept from others.
    pub reserved: Bytes,
    /// `1 - largest free piece / free bytes` after every op.
    pub external: Share,
    /// `1 - bytes asked for / bytes of blocks` after every op.
    pub internal: Share,
    /// `(external + internal) / 2`.
    pub total: Share,
    /// How often blocks were moved together, and how many bytes were copied by that.
    pub compactions: u64,
    /// These bytes.
    pub moved: Bytes,
}

/// The request that was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The object that it was for.
    pub object: String,
    /// The op that asked, if the object was not there from the start.
    pub op: Option<usize>,
    /// What was asked for.
    pub need: Bytes,
    /// Bytes that were free.
    pub free: Bytes,
    /// The largest piece of them.
    pub largest: Bytes,
}

/// The smallest capacity that serves a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastPool {
    /// That capacity.
    pub bytes: Bytes,
    /// Capacities are multiples of this: between two of them the allocator does the same.
    pub granule: Bytes,
    /// What says that no smaller one serves.
    pub proof: Proof,
    /// A capacity below the least that was found first, or above it, at which the trace fails
    /// though a smaller one serves: then more is not always enough.
    pub fails_above: Option<Bytes>,
    /// Replays that this took.
    pub replays: u64,
}

/// Why no smaller capacity serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The blocks that are live at once fill it: no smaller one can.
    Floor,
    /// Every smaller one down to that floor was tried, and fails.
    All,
    /// One granule less fails, and so do all of `tried` smaller ones; others were not tried.
    Some {
        /// How many were.
        tried: u64,
        /// How many there are.
        of: u64,
    },
}

/// Offsets assigned ahead: planned from the first step, used by those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// The trace has one step, which is planned and then taken as the next one, too.
    pub same_step: bool,
    /// Requests of the observed step that got an offset, and those that did not as they outlive it.
    pub planned: usize,
    /// These.
    pub outliving: usize,
    /// Most bytes of planned objects at once: what no plan goes below.
    pub plan_floor: Bytes,
    /// Bytes of the plan, from its first offset to its last.
    pub plan: Bytes,
    /// Bytes of what is there from the start.
    pub persistent: Bytes,
    /// Most that the allocator kept for requests without an offset in the steps behind.
    pub beside: Bytes,
    /// Requests of these steps that took their offset.
    pub hits: u64,
    /// Those that the observed step did not have.
    pub unknown: u64,
    /// Those that were larger than what was observed.
    pub larger: u64,
    /// Those whose offset was still in use.
    pub in_use: u64,
    /// Most bytes asked for at once in these steps.
    pub floor: Bytes,
    /// What the allocator alone keeps at most in these steps.
    pub alone: Bytes,
}

impl Ahead {
    /// Bytes of all of it.
    pub fn total(&self) -> Bytes {
        self.persistent + self.plan + self.beside
    }

    /// Bytes that it takes less than the allocator alone; negative where it takes more.
    pub fn saved(&self) -> i128 {
        i128::from(self.alone.get()) - i128::from(self.total().get())
    }

    /// Bytes of it that nobody has asked for when most was.
    pub fn wasted(&self) -> Bytes {
        self.total().checked_sub(self.floor).unwrap_or(Bytes::ZERO)
    }
}

/// Memory that is held for nothing, and more of it with the steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Steps of the trace; below [`Leaks::LEAST_STEPS`] growth cannot be told from a first time.
    pub steps: usize,
    /// Where it grows, most bytes per step first.
    pub sites: Vec<Leak>,
}

impl Leaks {
    /// Three steps that leave something behind, and one that shows that the last of it stays.
    pub const LEAST_STEPS: usize = 4;

    /// Whether there are enough steps.
    pub fn can_tell(&self) -> bool {
        self.steps >= Leaks::LEAST_STEPS
    }
}

/// One place of the program that leaves objects behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The op that makes them.
    pub op: String,
    /// Its module.
    pub module: Option<String>,
    /// The first of them by name.
    pub first: String,
    /// How many there are.
    pub objects: usize,
    /// Their bytes.
    pub bytes: Bytes,
    /// The step that made the first, counted from 0.
    pub since: usize,
    /// Bytes more with every step from there on, rounded to the nearest.
    pub per_step: Bytes,
}
