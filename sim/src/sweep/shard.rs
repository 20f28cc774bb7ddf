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
            if *units.entry(unit).or_insert(next) % self.of == self.index - 1 {
                own.push(number);
            }
        }
        Ok(own)
    }
}
