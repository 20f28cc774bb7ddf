//! How much is used between two uses of the same object: what a memory must hold for the second to
//! find it there, if the memory keeps what was used last.
//!
//! Ops use objects in the order of the trace, and those of one op in the order of its rows. A distance
//! is the bytes of the different objects that were used in between, each counted whole and once
//! (Mattson et al., 1970, with sizes).
//! Invariant: a distance depends on the order of uses alone, not on their times.

use serde::Serialize;
use tiersim_models::workload::Trace;

/// Distances between uses of the same object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReuseInfo {
    /// Uses of objects that were used before.
    pub again: u64,
    /// Bytes used in between: half of these uses have no more.
    pub bytes_p50: u64,
    /// Nine of ten have no more.
    pub bytes_p90: u64,
    /// 99 of 100 have no more.
    pub bytes_p99: u64,
    /// The most that any has.
    pub bytes_most: u64,
}

/// The distances of a trace.
pub(super) fn reuse(trace: &Trace) -> ReuseInfo {
    let mut distances: Vec<u64> = distances(trace).into_iter().map(|of| of.0).collect();
    distances.sort_unstable();
    let rank = |share: usize| {
        let rank = (distances.len() * share).div_ceil(100);
        distances.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    };
    let again = distances.len() as u64;
    let [bytes_p50, bytes_p90, bytes_p99, bytes_most] = [50, 90, 99, 100].map(rank);
    ReuseInfo { again, bytes_p50, bytes_p90, bytes_p99, bytes_most }
}

/// By use of an object that was used before: the distance, and the bytes of the object.
pub(super) fn distances(trace: &Trace) -> Vec<(u64, u64)> {
    let mut sums = Sums::new(trace.uses.len());
    // By object: one more than the use that was its last, 0 before its first.
    let mut last = vec![0usize; trace.objects.len()];
    let mut distances = Vec::new();
    let mut all = 0u64;
    for (at, one) in trace.uses.iter().enumerate() {
        let object = one.object.index();
        let bytes = trace.objects[object].bytes.get();
        match last[object].checked_sub(1) {
            Some(before) => {
                distances.push((all - sums.up_to(before), bytes));
                sums.add(before, bytes.wrapping_neg());
            }
            None => all = all.saturating_add(bytes),
        }
        sums.add(at, bytes);
        last[object] = at + 1;
    }
    distances
}

/// Sums of the first so many numbers, which change (Fenwick, 1994). All numbers together fit, for the
/// objects of a trace do.
struct Sums(Vec<u64>);

impl Sums {
    fn new(count: usize) -> Sums {
        Sums(vec![0; count + 1])
    }

    fn add(&mut self, at: usize, more: u64) {
        let mut index = at + 1;
        while let Some(sum) = self.0.get_mut(index) {
            *sum = sum.wrapping_add(more);
            index += index & index.wrapping_neg();
        }
    }

    /// The sum of the numbers from the first to the one at `at`.
    fn up_to(&self, at: usize) -> u64 {
        let (mut index, mut sum) = (at + 1, 0u64);
        while index > 0 {
            sum = sum.wrapping_add(self.0[index]);
            index -= index & index.wrapping_neg();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::unnamed;
    use super::*;
    use tiersim_models::ids::ObjectId;
    use tiersim_models::units::Bytes;
    use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Use};

    /// The definition, word by word.
    fn naive(uses: &[usize], bytes: &[u64]) -> Vec<u64> {
        let mut distances = Vec::new();
        for (at, object) in uses.iter().enumerate() {
            let Some(before) = uses[..at].iter().rposition(|other| other == object) else {
                continue;
            };
            let mut between: Vec<usize> = uses[before + 1..at].to_vec();
            between.sort_unstable();
            between.dedup();
            distances.push(between.iter().map(|&other| bytes[other]).sum());
        }
        distances.sort_unstable();
        distances
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let bytes = [10, 200, 3000, 40_000, 500_000, 6_000_000];
        let (mut state, mut uses) = (1u64, Vec::new());
        for _ in 0..500 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            uses.push((state >> 33) as usize % (1 + (state >> 60) as usize % 6));
        }
        let object = |(at, &bytes): (usize, &u64)| {
            Object::new(at.to_string(), ObjectKind::Buffer, Bytes::new(bytes))
        };
        let of = |&object: &usize| Use::whole(ObjectId::at(object), Mode::Read);
        let meta = unnamed();
        let trace = Trace {
            meta,
            modules: Vec::new(),
            objects: bytes.iter().enumerate().map(object).collect(),
            ops: vec![Op::new(0, Phase::Other, "op", 0..500)],
            uses: uses.iter().map(of).collect(),
        };
        let (found, wanted) = (reuse(&trace), naive(&uses, &bytes));
        let at = |share: usize| wanted[(wanted.len() * share).div_ceil(100) - 1];
        assert_eq!(found.again, wanted.len() as u64);
        assert_eq!(
            [found.bytes_p50, found.bytes_p90, found.bytes_p99, found.bytes_most],
            [at(50), at(90), at(99), at(100)]
        );
        assert_eq!(reuse(&Trace { uses: Vec::new(), ..trace }), ReuseInfo::default());
    }
}
