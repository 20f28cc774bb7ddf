//! What a workload does with each object: when it lives, when it is used, and what it moves if it
//! only visits HBM.
//!
//! Worked out once per policy from the order of the trace, for rules that weigh what a resident
//! saves. A visit is what [`crate::static_placement::StaticPlacement`] makes of uses that are close
//! together.
//! Invariant: the traffic is that of a plan in which nothing leaves HBM before it must.

use crate::access::Access;
use std::ops::Range;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::Trace;

/// The uses and lives of all objects in one replay of a trace.
#[derive(Clone, Debug)]
pub struct Visits {
    ops: u32,
    lives: Vec<Range<u32>>,
    born: Vec<bool>,
    starts: Vec<u32>,
    /// By object, in order: the op, and whether it writes.
    uses: Vec<(u32, bool)>,
}

/// What an object that is not at home in HBM moves in one replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Copies to HBM.
    pub fetches: u64,
    /// Copies back.
    pub write_backs: u64,
}

/// What changes of bytes, each from an op on, add up to by op.
pub(crate) fn running(ops: usize, changes: impl IntoIterator<Item = (u32, i128)>) -> Vec<i128> {
    let mut held = vec![0i128; ops + 1];
    changes.into_iter().for_each(|(op, bytes)| held[op as usize] += bytes);
    (1..ops).for_each(|op| held[op] += held[op - 1]);
    held.truncate(ops);
    held
}

/// How many streams a trace has.
pub(crate) fn streams(trace: &Trace) -> usize {
    trace.ops.iter().map(|op| usize::from(op.stream) + 1).max().unwrap_or(0)
}

impl Visits {
    /// Of a workload.
    pub fn new(workload: &Workload) -> Visits {
        let trace = &workload.trace;
        let ops = trace.ops.len() as u32;
        let born = trace.objects.iter().map(|object| !object.persistent).collect();
        let mut lives: Vec<Range<u32>> =
            trace.objects.iter().map(|o| if o.persistent { 0..ops } else { 0..0 }).collect();
        let mut starts = vec![0u32; trace.objects.len() + 1];
        for index in 0..trace.ops.len() {
            let op = OpId::at(index);
            workload.births(op).iter().for_each(|o| lives[o.index()].start = op.0);
            workload.releases(op).iter().for_each(|o| lives[o.index()].end = op.0 + 1);
            trace.uses_of(op).iter().for_each(|touched| starts[touched.object.index() + 1] += 1);
        }
        for index in 0..trace.objects.len() {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut uses = vec![(0, false); trace.uses.len()];
        for index in 0..trace.ops.len() {
            for touched in trace.uses_of(OpId::at(index)) {
                let at = &mut next[touched.object.index()];
                uses[*at as usize] = (index as u32, touched.mode.writes());
                *at += 1;
            }
        }
        Visits { ops, lives, born, starts, uses }
    }

    /// How many ops a replay has.
    pub fn ops(&self) -> u32 {
        self.ops
    }

    /// The ops during which the object exists; empty if it never does.
    pub fn life(&self, object: ObjectId) -> Range<u32> {
        self.lives[object.index()].clone()
    }

    /// The ops that use the object, in order, and whether they write it.
    pub fn uses(&self, object: ObjectId) -> &[(u32, bool)] {
        let start = self.starts[object.index()] as usize;
        &self.uses[start..self.starts[object.index() + 1] as usize]
    }

    /// Which op of a run of so many replays uses an object next after this one. A use in a later
    /// replay counts only if the object still is the same one then.
    pub fn next(&self, object: ObjectId, occurrence: u64, replays: u64) -> Option<u64> {
        let (uses, ops) = (self.uses(object), u64::from(self.ops));
        let (replay, op) = (occurrence / ops, (occurrence % ops) as u32);
        match uses.get(uses.partition_point(|&(used, _)| used <= op)) {
            Some(&(next, _)) => Some(replay * ops + u64::from(next)),
            None if self.born[object.index()] || replay + 1 >= replays => None,
            None => uses.first().map(|&(first, _)| (replay + 1) * ops + u64::from(first)),
        }
    }

    /// Ops of a replay during which the object exists and is not used.
    pub fn idle(&self, object: ObjectId) -> u32 {
        self.life(object).len() as u32 - self.uses(object).len() as u32
    }

    /// What the object moves in the first replay if it visits HBM and `window` more ops are looked
    /// ahead: it leaves once no op within the window uses it, and is written back if it changed.
    pub fn moves(&self, object: ObjectId, window: u32) -> Moves {
        let (life, uses) = (self.life(object), self.uses(object));
        let mut moves = Moves::default();
        let away = window.saturating_add(1);
        let mut dirty = false;
        for (index, &(op, writes)) in uses.iter().enumerate() {
            let before = index.checked_sub(1).map(|index| uses[index].0);
            let arrives = before.is_none_or(|before| op - before > away);
            // What is created is there without a copy; whoever comes back is fetched.
            let created = before.is_none() && self.born[object.index()];
            if arrives {
                moves.fetches += u64::from(!created);
                dirty = created;
            }
            dirty |= writes;
            let stays = uses.get(index + 1).is_some_and(|next| next.0 - op <= away);
            let leaves = !stays && op + 1 < life.end;
            moves.write_backs += u64::from(leaves && dirty);
        }
        moves
    }

    /// Bytes that a replay saves if the object is at home in HBM, for how it is touched otherwise.
    /// In place every use counts.
    pub fn saved(&self, object: ObjectId, bytes: Bytes, access: Access) -> u64 {
        let Moves { fetches, write_backs } = self.accesses(object, access);
        (fetches + write_backs).saturating_mul(bytes.get())
    }

    /// How often the object crosses to HBM and back if it is at home elsewhere: in place it crosses
    /// at every use, to be read and back if it is written.
    pub fn accesses(&self, object: ObjectId, access: Access) -> Moves {
        match access {
            Access::Migrate { prefetch_ops } => self.moves(object, prefetch_ops),
            Access::InPlace(_) => {
                let uses = self.uses(object);
                let written = uses.iter().filter(|(_, writes)| *writes).count() as u64;
                Moves { fetches: uses.len() as u64 - written, write_backs: written }
            }
        }
    }
}

/// The block that a module is in: its path up to the first number, or all of it.
pub(crate) fn block(module: &str) -> &str {
    let mut end = 0;
    for part in module.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &module[..end];
        }
        end += 1;
    }
    module
}

#[cfg(test)]
mod tests {
    use super::block;

    #[test]
    fn a_block_is_the_path_up_to_its_first_number() {
        assert_eq!(block("h.11.mlp.c_fc"), "h.11");
        assert_eq!(block("model.layers.3.self_attn.0"), "model.layers.3");
        assert_eq!(block("layer1.0.conv1"), "layer1.0");
        assert_eq!(block("h.0"), "h.0");
        assert_eq!(block("lm_head"), "lm_head");
        assert_eq!(block("a..b"), "a..b");
    }
}
