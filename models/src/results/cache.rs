//! What the replay of a block trace through one replacement policy measured.

/// What a replay measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRecord {
    /// Name of the trace's file.
    pub trace: String,
    /// The policy's name.
    pub policy: String,
    /// Does the policy see requests to come?
    pub oracle: bool,
    /// Did every object count 1?
    pub unit: bool,
    /// Requests of the trace.
    pub requests: u64,
    /// Different objects requested.
    pub objects: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Misses at the capacities asked for, rising, each once.
    pub results: Vec<Misses>,
    /// Misses at other capacities that the same pass gave, rising; none for most policies.
    pub curve: Vec<Misses>,
}

/// What a cache of some capacity missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misses {
    /// Its capacity in objects or bytes.
    pub capacity: u64,
    /// Requests that it missed.
    pub misses: u64,
    /// Bytes of these requests.
    pub bytes: u64,
}
