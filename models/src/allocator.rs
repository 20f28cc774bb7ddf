//! Allocators inside a tier: which addresses an object gets, and what that wastes.
//!
//! A tier has room for bytes, but a program needs them in one piece. Each model here takes requests
//! in the order in which a program makes them and answers with an [`AllocatorBlock`]; it can be
//! full though bytes are free. Models are pure: no memory is touched, addresses are numbers that
//! start at 0.
//! Invariant: live blocks never overlap, and `active + free == capacity` at any time.

pub mod buckets;
pub mod buddy;
pub mod caching;
mod costs;
pub mod exact;
pub(crate) mod model;
mod moves;
pub mod pool;
mod space;
pub(crate) mod stats;

use crate::units::Bytes;
use std::fmt;

pub use crate::allocator::buckets::BucketsConfig;
pub use crate::allocator::buddy::BuddyConfig;
pub use crate::allocator::caching::CachingConfig;
pub use crate::allocator::costs::{Calls, Costs};
pub use crate::allocator::model::Allocator;
pub use crate::allocator::moves::Moves;
pub use crate::allocator::stats::{AllocatorBlock, BucketStats, Fragmentation, Full, Stats};

/// Most bytes that a model looks after; of a larger or unlimited tier it uses so much. It leaves
/// addresses for the reservations of 2^17 expandable segments in 64 bits.
pub const LARGEST: Bytes = Bytes::gib(64 << 10);

/// How many pieces have a size of at least 2^i and less than 2^(i+1) bytes, for i = 0 to 63.
pub fn histogram(sizes: &[Bytes]) -> [u64; 64] {
    let mut counts = [0; 64];
    for bytes in sizes.iter().filter_map(|bytes| bytes.get().checked_ilog2()) {
        counts[bytes as usize] += 1;
    }
    counts
}

/// Which allocator a tier has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatorSpec {
    /// How it places blocks.
    pub model: Model,
    /// When it moves them.
    pub compaction: Option<Compaction>,
}

/// How blocks are placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Model {
    /// Bytes are counted and nothing else: no rounding, no fragmentation.
    #[default]
    Exact,
    /// One pool, best fit.
    Pool,
    /// PyTorch's caching allocator for CUDA.
    Caching(CachingConfig),
    /// Slabs of fixed sizes and a pool for what is larger.
    Buckets(BucketsConfig),
    /// Powers of two.
    Buddy(BuddyConfig),
}

/// When blocks are moved together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// Once fragmentation is above this share.
    pub above: f64,
    /// Which fragmentation.
    pub by: Fragmentation,
    /// Most bytes that are moved before one op; `None` to stop the world and move all. A block is
    /// moved whole, so the last one may go beyond.
    pub at_once: Option<Bytes>,
}

/// Fragmentation above which blocks are moved unless a scenario says otherwise.
pub const COMPACT_ABOVE: f64 = 0.3;

impl AllocatorSpec {
    /// Whether it does no more than count bytes.
    pub fn is_exact(&self) -> bool {
        self.model == Model::Exact
    }

    /// An empty allocator over `capacity`, at most [`LARGEST`].
    pub fn build(&self, capacity: Bytes) -> Box<dyn Allocator> {
        let capacity = capacity.min(LARGEST);
        match &self.model {
            Model::Exact => Box::new(exact::Exact::new(capacity)),
            Model::Pool => Box::new(pool::Pool::new(capacity)),
            Model::Caching(config) => Box::new(caching::Caching::new(capacity, *config)),
            Model::Buckets(config) => Box::new(buckets::Buckets::new(capacity, *config)),
            Model::Buddy(config) => Box::new(buddy::Buddy::new(capacity, *config)),
        }
    }
}

impl AllocatorSpec {
    /// What its work takes. Only for PyTorch's allocator there are measurements.
    pub fn costs(&self) -> Costs {
        match &self.model {
            Model::Caching(config) => config.costs,
            _ => Costs::NONE,
        }
    }
}

impl Model {
    /// Its name in scenarios, tables and charts.
    pub const fn name(&self) -> &'static str {
        match self {
            Model::Exact => "exact",
            Model::Pool => "pool",
            Model::Caching(_) => "caching",
            Model::Buckets(_) => "buckets",
            Model::Buddy(_) => "buddy",
        }
    }

    /// What capacities differ by that make a difference to it: blocks and segments are multiples.
    pub const fn granule(&self) -> Bytes {
        match self {
            Model::Exact => Bytes::new(1),
            Model::Pool => Bytes::new(pool::ALIGN),
            Model::Caching(_) => Bytes::new(caching::ROUND_LARGE),
            Model::Buckets(_) => Bytes::new(buckets::LARGE_ROUND),
            Model::Buddy(config) => config.least,
        }
    }

    /// Whether its blocks can be moved. Programs hold the addresses of PyTorch's blocks.
    pub const fn moves(&self) -> bool {
        !matches!(self, Model::Exact | Model::Caching(_))
    }
}

impl fmt::Display for AllocatorSpec {
    /// Such as `buckets, compacted above 30 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model.name())?;
        match &self.model {
            Model::Caching(config) if config.expandable_segments => {
                f.write_str(" with expandable segments")?;
            }
            Model::Buckets(config) if config.adaptive => f.write_str(" of adaptive sizes")?,
            _ => {}
        }
        match self.compaction {
            Some(Compaction { above, by, at_once }) => {
                write!(f, ", compacted above {} %", above * 100.0)?;
                if by == Fragmentation::Total {
                    f.write_str(" in total")?;
                }
                at_once.map_or(Ok(()), |bytes| write!(f, ", {bytes} at once"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_defined_when_nothing_is_there() {
        let stats = Stats::default();
        assert_eq!((stats.external(), stats.internal(), stats.total()), (0.0, 0.0, 0.0));
    }

    #[test]
    fn fragmentation_is_what_one_piece_does_not_have() {
        let mib = Bytes::mib;
        let stats = Stats {
            free: mib(8),
            largest_free: mib(2),
            requested: mib(3),
            allocated: mib(4),
            ..Stats::default()
        };
        assert_eq!((stats.external(), stats.internal()), (0.75, 0.25));
        assert_eq!((stats.total(), stats.of(Fragmentation::Total)), (0.5, 0.5));
        assert_eq!(stats.of(Fragmentation::External), 0.75);
    }

    #[test]
    fn the_histogram_counts_by_powers_of_two() {
        let sizes = [1, 2, 3, 4, 512, 1023, u64::MAX].map(Bytes::new);
        let counts = histogram(&sizes);
        assert_eq!((counts[0], counts[1], counts[2], counts[9], counts[63]), (1, 2, 1, 2, 1));
        assert_eq!(counts.iter().sum::<u64>(), 7);
    }

    #[test]
    fn a_spec_says_what_it_is() {
        let compaction =
            Some(Compaction { above: 0.3, by: Fragmentation::External, at_once: None });
        let model = Model::Buckets(BucketsConfig::default());
        let mut spec = AllocatorSpec { model, compaction };
        assert_eq!(spec.to_string(), "buckets, compacted above 30 %");
        let at_once = Some(Bytes::mib(1));
        spec.compaction = Some(Compaction { above: 0.3, by: Fragmentation::Total, at_once });
        assert_eq!(spec.to_string(), "buckets, compacted above 30 % in total, 1.0 MiB at once");
    }
}
