//! How many bytes are alive, and the most within any stretch of a run.
//!
//! Invariant: asked for more than a replay, it is the most of all.

use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;

/// Bytes alive during each op of a replay, wherever they are: a tree of maxima.
#[derive(Debug)]
pub(super) struct Alive {
    ops: usize,
    /// Leaves from `ops` on, each inner node the greater of its two.
    tree: Vec<Bytes>,
    /// The most of all.
    all: Bytes,
    /// Alive behind each op.
    pub(super) after: Vec<Bytes>,
}

impl Alive {
    pub(super) fn new(workload: &Workload) -> Alive {
        let trace = &workload.trace;
        let ops = trace.ops.len();
        let mut used = vec![false; trace.objects.len()];
        trace.uses.iter().for_each(|touched| used[touched.object.index()] = true);
        let bytes = |object: &ObjectId| trace.objects[object.index()].bytes;
        let lasting = (0..trace.objects.len()).map(ObjectId::at);
        let mut alive: Bytes = lasting
            .filter(|object| trace.objects[object.index()].persistent && used[object.index()])
            .map(|object| bytes(&object))
            .sum();
        let mut tree = vec![Bytes::ZERO; 2 * ops];
        let mut after = Vec::with_capacity(ops);
        for op in 0..ops {
            alive += workload.births(OpId::at(op)).iter().map(bytes).sum();
            tree[ops + op] = alive;
            alive -= workload.releases(OpId::at(op)).iter().map(bytes).sum();
            after.push(alive);
        }
        for node in (1..ops).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        let all = tree[ops..].iter().copied().max().unwrap_or(Bytes::ZERO);
        Alive { ops, tree, all, after }
    }

    /// The most between two occurrences, both included.
    pub(super) fn peak(&self, from: u64, to: u64) -> Bytes {
        let ops = self.ops as u64;
        if to - from.min(to) >= ops {
            return self.all;
        }
        let (from, to) = ((from % ops) as usize, (to % ops) as usize);
        if from <= to {
            self.within(from, to + 1)
        } else {
            self.within(from, self.ops).max(self.within(0, to + 1))
        }
    }

    fn within(&self, from: usize, to: usize) -> Bytes {
        let (mut low, mut high) = (from + self.ops, to + self.ops);
        let mut peak = Bytes::ZERO;
        while low < high {
            if low % 2 == 1 {
                peak = peak.max(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                peak = peak.max(self.tree[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        peak
    }
}
