//! Hidden memory: bytes of a tier that no object of a trace takes, and no object can have.
//!
//! The device's driver and the context of a process, a library's workspace, buffers of collectives,
//! and the pinned buffers through which copies bounce. It is there before the first op and stays.
//! Invariant: a list holds each kind of each tier once, in order of tier and kind.

use crate::ids::TierId;
use crate::units::Bytes;
use serde::Deserialize;

crate::words! {
    /// What hidden memory is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum What {
        /// A process's context on the device.
        Context = "context",
        /// What the driver keeps to itself, whoever runs.
        Driver = "driver",
        /// Scratch memory of libraries, such as cuBLAS's; belongs to the framework, so to the
        /// scenario.
        Workspace = "workspace",
        /// Buffers of collectives.
        Communication = "communication",
        /// Pinned host memory that is kept whatever is copied.
        Pinned = "pinned",
        /// Pinned buffers through which copies of pageable memory go.
        Staging = "staging",
        /// Pinned buffers between the links of a route.
        Bounce = "bounce",
    }
}

/// Hidden memory of one kind in one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Where.
    pub tier: TierId,
    /// What for.
    pub what: What,
    /// How much.
    pub bytes: Bytes,
}

/// `base`, but what `own` says of the same kind and tier instead. 0 bytes are as if not said.
pub fn over(base: &[Hidden], own: &[Hidden]) -> Vec<Hidden> {
    let key = |hidden: &Hidden| (hidden.tier, hidden.what);
    let kept = base.iter().filter(|entry| own.iter().all(|other| key(other) != key(entry)));
    let mut all: Vec<Hidden> = kept.chain(own).copied().collect();
    all.retain(|entry| entry.bytes > Bytes::ZERO);
    all.sort_by_key(key);
    all
}

/// Hidden bytes of a tier, or as many as can be counted.
pub fn of_tier(hidden: &[Hidden], tier: TierId) -> Bytes {
    let own = hidden.iter().filter(|entry| entry.tier == tier);
    Bytes::new(own.fold(0, |sum: u64, entry| sum.saturating_add(entry.bytes.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tier: u8, what: What, bytes: u64) -> Hidden {
        Hidden { tier: TierId(tier), what, bytes: Bytes::new(bytes) }
    }

    #[test]
    fn what_is_said_last_of_a_kind_and_tier_holds() {
        let base =
            [entry(0, What::Context, 5), entry(0, What::Driver, 7), entry(1, What::Bounce, 9)];
        let own =
            [entry(0, What::Workspace, 3), entry(1, What::Bounce, 0), entry(0, What::Context, 6)];
        let all = over(&base, &own);
        let expected =
            [entry(0, What::Context, 6), entry(0, What::Driver, 7), entry(0, What::Workspace, 3)];
        assert_eq!(all, expected);
        assert_eq!([0, 1].map(|tier| of_tier(&all, TierId(tier)).get()), [16, 0]);
    }

    #[test]
    fn a_sum_that_does_not_fit_is_the_most_there_is() {
        let all = [entry(0, What::Context, u64::MAX), entry(0, What::Pinned, 2)];
        assert_eq!(of_tier(&all, TierId(0)), Bytes::new(u64::MAX));
    }
}
