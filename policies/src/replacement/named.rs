//! The algorithms by name.

use super::{Arc, Belady, Clock, Fifo, Lfu, Lirs, Lru, Replacement, S3Fifo, Sieve, Slru, TwoQ};

/// A replacement algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// [`Arc`].
    Arc,
    /// [`Belady`].
    Belady,
    /// [`Clock`].
    Clock,
    /// [`Fifo`].
    Fifo,
    /// [`Lfu`].
    Lfu,
    /// [`Lirs`] by libCacheSim's rule.
    Lirs,
    /// [`Lirs`] by the paper's rule.
    LirsPaper,
    /// [`Lru`].
    Lru,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Sieve`].
    Sieve,
    /// [`Slru`].
    Slru,
    /// [`TwoQ`].
    TwoQ,
}

/// What is done with an algorithm once it is known which: static dispatch needs a type.
pub trait Visit {
    /// What comes of it.
    type Out;

    /// Called with a fresh algorithm.
    fn visit<R: Replacement + 'static>(self, rule: R) -> Self::Out;
}

impl Algorithm {
    /// All of them, by name.
    pub const ALL: [Algorithm; 12] = [
        Algorithm::Arc,
        Algorithm::Belady,
        Algorithm::Clock,
        Algorithm::Fifo,
        Algorithm::Lfu,
        Algorithm::Lirs,
        Algorithm::LirsPaper,
        Algorithm::Lru,
        Algorithm::S3Fifo,
        Algorithm::Sieve,
        Algorithm::Slru,
        Algorithm::TwoQ,
    ];

    /// Its name in tables and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Arc => "arc",
            Algorithm::Belady => "belady",
            Algorithm::Clock => "clock",
            Algorithm::Fifo => "fifo",
            Algorithm::Lfu => "lfu",
            Algorithm::Lirs => "lirs",
            Algorithm::LirsPaper => "lirs-paper",
            Algorithm::Lru => "lru",
            Algorithm::S3Fifo => "s3-fifo",
            Algorithm::Sieve => "sieve",
            Algorithm::Slru => "slru",
            Algorithm::TwoQ => "two-q",
        }
    }

    /// The algorithm of that name. Case and hyphens do not matter, so that the names of other
    /// simulators (`S3FIFO`, `TwoQ`) are understood.
    pub fn by_name(name: &str) -> Option<Algorithm> {
        let plain = |name: &str| name.replace('-', "").to_ascii_lowercase();
        Algorithm::ALL.into_iter().find(|algorithm| plain(algorithm.name()) == plain(name))
    }

    /// Whether it has to be told of the future.
    pub const fn is_oracle(self) -> bool {
        matches!(self, Algorithm::Belady)
    }

    /// Gives a fresh algorithm for a cache of so many bytes to `visit`.
    pub fn with<V: Visit>(self, capacity: u64, visit: V) -> V::Out {
        match self {
            Algorithm::Arc => visit.visit(Arc::new(capacity)),
            Algorithm::Belady => visit.visit(Belady::default()),
            Algorithm::Clock => visit.visit(Clock::default()),
            Algorithm::Fifo => visit.visit(Fifo::default()),
            Algorithm::Lfu => visit.visit(Lfu::default()),
            Algorithm::Lirs => visit.visit(Lirs::of_libcachesim(capacity)),
            Algorithm::LirsPaper => visit.visit(Lirs::new(capacity)),
            Algorithm::Lru => visit.visit(Lru::default()),
            Algorithm::S3Fifo => visit.visit(S3Fifo::new(capacity)),
            Algorithm::Sieve => visit.visit(Sieve::default()),
            Algorithm::Slru => visit.visit(Slru::new(capacity)),
            Algorithm::TwoQ => visit.visit(TwoQ::new(capacity)),
        }
    }
}
