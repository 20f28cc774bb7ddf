//! When each object is used: what a policy that knows the future is told.

use crate::replacement::NEVER;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;

/// The uses of every object over a run.
#[derive(Debug)]
pub struct Future {
    /// Ops of one replay.
    ops: u64,
    repeat: u64,
    /// By object: the ops that use it, in order, and whether it outlives a replay.
    uses: Vec<(Vec<u32>, bool)>,
}

impl Future {
    /// Of a workload that is replayed so often.
    pub fn of(workload: &Workload, repeat: u32) -> Future {
        let trace = &workload.trace;
        let mut uses: Vec<(Vec<u32>, bool)> =
            trace.objects.iter().map(|object| (Vec::new(), object.persistent)).collect();
        for op in (0..trace.ops.len()).map(OpId::at) {
            for touched in trace.uses_of(op) {
                uses[touched.object.index()].0.push(op.0);
            }
        }
        Future { ops: trace.ops.len() as u64, repeat: u64::from(repeat), uses }
    }

    /// How many ops ahead the next use of what is used again lies at most.
    pub fn reach(&self) -> u64 {
        2 * self.ops
    }

    /// So many replays fewer are to come.
    pub fn leave_out(&mut self, replays: u64) {
        self.repeat -= replays;
    }

    /// Which op of the run uses an object next after this one; [`NEVER`] if none does. A use in a
    /// later replay counts only if the object still is the same one then.
    pub fn next(&self, object: ObjectId, occurrence: u64) -> u64 {
        let (uses, persistent) = &self.uses[object.index()];
        let (replay, op) = (occurrence / self.ops, (occurrence % self.ops) as u32);
        let at = uses.partition_point(|&used| used <= op);
        match (uses.get(at), uses.first()) {
            (Some(&next), _) => replay * self.ops + u64::from(next),
            (None, Some(&first)) if *persistent && replay + 1 < self.repeat => {
                (replay + 1) * self.ops + u64::from(first)
            }
            _ => NEVER,
        }
    }
}
