//! Adaptive bucket sizes: a bucket that is filled badly gets a closer one beside it.
//!
//! The rule. Each bucket looks back at its last [`WINDOW`] requests. If they filled less than
//! [`FILLED`] of their slots, a bucket is added at the median of what they asked for, rounded up to
//! a 16th of the power of two below it, if that is smaller than the bucket. Half of those requests
//! then get the closer slot. There are at most [`MOST`] buckets; an added one that had no request
//! while another was wanted and has no slab makes place for it.
//! Invariant: the decision depends on the order of requests only.

use crate::allocator::buckets::{Bucket, Buckets, SIZES};
use crate::allocator::pool::round_up;

/// Requests after which a bucket is judged.
const WINDOW: usize = 256;
/// Share of its slots that a good bucket fills.
const FILLED: f64 = 0.75;
/// Most buckets.
const MOST: usize = 32;

impl Buckets {
    /// Notes a request for a slot and judges its bucket when the time has come.
    pub(super) fn adapt(&mut self, slot: u64, requested: u64) {
        let bucket = self.buckets.get_mut(&slot).expect("a slot has a bucket");
        bucket.window.push(requested);
        if bucket.window.len() < WINDOW {
            return;
        }
        let mut sizes = std::mem::take(&mut bucket.window);
        let filled: u64 = sizes.iter().sum();
        if filled as f64 >= FILLED * (slot * WINDOW as u64) as f64 {
            return;
        }
        sizes.sort_unstable();
        let closer = close(sizes[WINDOW / 2]);
        if closer >= slot || self.buckets.contains_key(&closer) {
            return;
        }
        if self.buckets.len() >= MOST {
            let idle = |(size, bucket): &(&u64, &Bucket)| {
                bucket.slabs == 0 && bucket.window.is_empty() && !SIZES.contains(size)
            };
            let Some((&idle, _)) = self.buckets.iter().find(idle) else { return };
            self.buckets.remove(&idle);
        }
        self.buckets.insert(closer, Bucket::default());
    }
}

/// `bytes` rounded up to a 16th of the power of two below it, at least to 64 bytes.
fn close(bytes: u64) -> u64 {
    round_up(bytes, (1 << bytes.ilog2() >> 4).max(64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::allocator::buckets::BucketsConfig;
    use crate::units::Bytes;

    fn slots(buckets: &Buckets) -> Vec<u64> {
        buckets.buckets.keys().copied().collect()
    }

    fn ask(buckets: &mut Buckets, bytes: u64, times: usize) {
        for _ in 0..times {
            let block = buckets.alloc(Bytes::new(bytes), 0).expect("it fits");
            buckets.free(block);
        }
    }

    #[test]
    fn sizes_are_rounded_to_a_16th() {
        assert_eq!([1, 65, 1000, 70_000, 1 << 20].map(close), [64, 128, 1024, 73_728, 1 << 20]);
    }

    #[test]
    fn a_bucket_that_is_filled_badly_gets_a_closer_one() {
        let mut buckets = Buckets::new(Bytes::mib(64), BucketsConfig { adaptive: true });
        ask(&mut buckets, 70_000, WINDOW - 1);
        assert_eq!(slots(&buckets), SIZES);
        ask(&mut buckets, 70_000, 1);
        assert_eq!(buckets.buckets.len(), 9);
        let block = buckets.alloc(Bytes::new(70_000), 0).expect("it fits");
        assert_eq!(block.bytes.get(), 73_728);
    }

    #[test]
    fn a_bucket_that_is_filled_well_stays_alone() {
        let mut buckets = Buckets::new(Bytes::mib(64), BucketsConfig { adaptive: true });
        ask(&mut buckets, 200_000, 2 * WINDOW);
        assert_eq!(slots(&buckets), SIZES);
    }

    #[test]
    fn without_leave_nothing_adapts() {
        let mut buckets = Buckets::new(Bytes::mib(64), BucketsConfig::default());
        ask(&mut buckets, 70_000, 2 * WINDOW);
        assert_eq!(slots(&buckets), SIZES);
    }

    #[test]
    fn there_are_never_more_buckets_than_allowed() {
        let mut buckets = Buckets::new(Bytes::mib(64), BucketsConfig { adaptive: true });
        for step in 1..400 {
            ask(&mut buckets, 64 * step * step % 700_000 + 1, WINDOW);
            assert!(buckets.buckets.len() <= MOST);
        }
        assert!(SIZES.iter().all(|size| buckets.buckets.contains_key(size)));
    }
}
