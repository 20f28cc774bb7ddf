//! How much more a pass that begins later can count than one that began before it.
//!
//! What crosses between two splits is counted by a pass that begins at the first of them, with all
//! inside for free. A pass that began earlier has counted the same stretch, in which no more was
//! inside at its start: by the optimality of both counts, the later pass counts no more than the
//! earlier one did there, but for what this module adds:
//! * what the host made between the two starts, which only the later pass may have inside;
//! * outwards, room for what ops take of contents that were written between the two starts: the
//!   earlier pass knows that they are inside, so it counts a second time as if it did not;
//! * what the earlier pass had inside above the capacity, as uses of parts differ.
//!
//! Nor does any pass count more outwards than versions that begin and end in the stretch.
//! Invariant: sums over intervals, whatever the capacity; none is less than what it bounds.

use super::future::Future;
use super::traffic::{Counted, Crossing};

/// By split, or by pair of splits.
#[derive(Debug)]
pub(crate) struct Slack {
    /// Made by the host and not used before the split.
    from_host: Vec<u128>,
    /// Written and replaced between the splits.
    versions: Vec<Vec<u128>>,
}

impl Slack {
    pub(crate) fn new(future: &Future, objects: usize, splits: &[u64]) -> Slack {
        let (ops, pieces) = (future.ops.len() as u64, splits.len() - 1);
        let host = |&split: &u64| {
            let alive = future.alive(objects, split);
            alive.iter().filter(|alive| alive.from_host).map(|a| u128::from(a.bytes)).sum()
        };
        // By the piece in which something was written, and that in which it is replaced.
        let mut replaced = vec![vec![0u128; pieces]; pieces];
        let piece_of = |op: u64| splits.partition_point(|&split| split <= op).checked_sub(1);
        for here in 0..pieces {
            for at in splits[here]..splits[here + 1] {
                let own = future.ops[(at % ops) as usize];
                if !own.on_device {
                    continue;
                }
                for row in &future.rows[own.first as usize..own.last as usize] {
                    let ends = row.version.map(|version| (at + version.ops, version.bytes));
                    if let Some((end, bytes)) = ends.filter(|(end, _)| *end < splits[pieces]) {
                        let until = piece_of(end).expect("no earlier than the first split");
                        replaced[here][until] += u128::from(bytes);
                    }
                }
            }
        }
        let mut versions = vec![vec![0; pieces + 1]; pieces + 1];
        for first in 0..pieces {
            for last in first + 1..=pieces {
                let within = replaced[first..last].iter();
                let sum = within.map(|by_piece| by_piece[first..last].iter().sum::<u128>());
                versions[first][last] = sum.sum();
            }
        }
        Slack { from_host: splits.iter().map(host).collect(), versions }
    }

    /// What a pass from the split `first` counts at most up to `last`, where an earlier one counted
    /// so much up to each of the two.
    pub(crate) fn at_most(
        &self,
        (first, last): (usize, usize),
        before: &Counted,
        after: &Counted,
    ) -> Crossing {
        let (from, to) = (&before.crossing, &after.crossing);
        let host = self.from_host[first];
        let versions = self.versions[first][last];
        let strict_out = after.without_passing - before.without_passing;
        Crossing {
            strict: [to.strict[0] - from.strict[0] + before.above + host, strict_out.min(versions)],
            loose: [
                to.loose[0] - from.loose[0] + host,
                (to.loose[1] - from.loose[1]).min(versions),
            ],
            in_place: to.in_place - from.in_place,
            unread: to.unread - from.unread,
        }
    }
}
