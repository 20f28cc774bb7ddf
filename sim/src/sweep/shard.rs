//! Parts of a sweep for several processes.
//!
//! What comes to the same run is in one shard, so that shards together simulate as little as one
//! process would. Where there are many machines or workloads their cases stay together, as each has
//! a baseline.
//! Invariant: every case is in exactly one shard, whatever computer says which.

use super::Jobs;
use crate::run::RunError;
use crate::run::alike::comes_to;
use std::collections::BTreeMap;
use tiersim_policies::scenario::traces::Traces;

/// Benches for each shard from which on they are kept together.
const BENCHES: usize = 4;

/// One of several parts of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl Shard {
    /// The numbers of its cases, rising.
    pub(super) fn cases(self, all: &Jobs<'_>, traces: &Traces) -> Result<Vec<usize>, RunError> {
        let whole = all.benches.len() >= self.of.saturating_mul(BENCHES);
        let mut units: BTreeMap<String, usize> = BTreeMap::new();
        let mut own = Vec::new();
        for (number, job) in all.jobs.iter().enumerate() {
            let scenario = all.benches[job.bench];
            let unit = match whole {
                true => job.bench.to_string(),
                false => match comes_to(job.case, &traces.of(scenario).trace)? {
                    Some(like) => format!("{} {like}", job.bench),
                    None => format!("case {number}"),
                },
            };
            let next = units.len();
            if self.has(*units.entry(unit).or_insert(next)) {
                own.push(number);
            }
        }
        Ok(own)
    }

    /// Whether it has the unit of this number. Units that differ by a step of some axis are alike in
    /// what they cost, so the turn must not keep step with any axis: multiples of the golden ratio
    /// spread every arithmetic sequence evenly (Weyl 1916).
    fn has(self, unit: usize) -> bool {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let turn = u128::from((unit as u64).wrapping_mul(GOLDEN));
        (turn * self.of as u128) >> 64 == self.index as u128 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_in_one_shard_and_no_axis_keeps_step_with_the_turn() {
        for of in [1, 2, 3, 5, 8, 13, 100] {
            for (first, step) in [(0, 1), (0, 2), (1, 2), (0, 3), (4, 8), (7, 10), (3, 50)] {
                let shards: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
                let units: Vec<usize> = (0..1000).map(|unit| first + step * unit).collect();
                let of_shard =
                    |shard: &Shard| units.iter().filter(|&&unit| shard.has(unit)).count();
                let counts: Vec<usize> = shards.iter().map(of_shard).collect();
                assert_eq!(counts.iter().sum::<usize>(), 1000, "{of}: {first} + {step} n");
                let (most, least) = (counts.iter().max(), counts.iter().min());
                let even = 1000 / of;
                assert!(most <= Some(&(even + 5)), "{of}: {first} + {step} n: {counts:?}");
                assert!(
                    least >= Some(&even.saturating_sub(5)),
                    "{of}: {first} + {step} n: {counts:?}"
                );
            }
        }
    }
}
