//! Passes of layers: which ops run one layer once, and what of its state they use.
//!
//! A pass is a longest run of ops of one stream that work for the same module in the same step and
//! phase. An op without a module is a pass of its own.
//! Invariant: passes are numbered by their first op, and every op is in exactly one.

use std::collections::BTreeMap;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::ObjectKind;

/// One pass of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) first: usize,
    pub(super) last: usize,
    /// What of the kinds that are moved by layer the pass uses, in order of first use.
    pub(super) objects: Vec<ObjectId>,
}

/// The passes of a run.
#[derive(Debug)]
pub(super) struct Passes {
    pub(super) list: Vec<Pass>,
    /// By op.
    pub(super) of: Vec<u32>,
    repeat: u64,
    /// Bytes that all ops before one create; one entry more than ops.
    born: Vec<u128>,
}

impl Passes {
    pub(super) fn new(workload: &Workload, kinds: &[ObjectKind], repeat: u32) -> Passes {
        let trace = &workload.trace;
        let mut list: Vec<Pass> = Vec::new();
        let mut of = Vec::with_capacity(trace.ops.len());
        let mut running: BTreeMap<u16, usize> = BTreeMap::new();
        for (index, op) in trace.ops.iter().enumerate() {
            let layer = |op: usize| {
                let op = &trace.ops[op];
                (op.module, op.step, op.phase)
            };
            let same = running.get(&op.stream).filter(|_| op.module.is_some());
            let same = same.filter(|&&at| layer(list[at].first) == layer(index));
            let at = same.copied().unwrap_or_else(|| {
                list.push(Pass { first: index, last: index, objects: Vec::new() });
                list.len() - 1
            });
            running.insert(op.stream, at);
            let pass = &mut list[at];
            pass.last = index;
            for touched in trace.uses_of(OpId::at(index)) {
                let moved = kinds.contains(&trace.objects[touched.object.index()].kind);
                if moved && !pass.objects.contains(&touched.object) {
                    pass.objects.push(touched.object);
                }
            }
            of.push(at as u32);
        }
        let mut born = vec![0];
        for op in (0..trace.ops.len()).map(OpId::at) {
            let new = workload.births(op).iter().map(|&object| &trace.objects[object.index()]);
            let new: u128 = new.map(|object| u128::from(object.bytes.get())).sum();
            born.push(born[op.index()] + new);
        }
        Passes { list, of, repeat: repeat.into(), born }
    }

    fn ops(&self) -> u64 {
        self.of.len() as u64
    }

    /// So many replays fewer are to come.
    pub(super) fn leave_out(&mut self, replays: u64) {
        self.repeat -= replays;
    }

    /// Which pass of the run an op of the run belongs to.
    pub(super) fn at(&self, occurrence: u64) -> u64 {
        let (replay, op) = (occurrence / self.ops(), occurrence % self.ops());
        replay * self.list.len() as u64 + u64::from(self.of[op as usize])
    }

    /// A pass of the run, with its first and last op of the run; `None` behind the last.
    pub(super) fn get(&self, number: u64) -> Option<(&Pass, u64, u64)> {
        let passes = self.list.len() as u64;
        let pass = &self.list[(number % passes) as usize];
        let start = number / passes * self.ops();
        let known = (pass, start + pass.first as u64, start + pass.last as u64);
        (number / passes < self.repeat).then_some(known)
    }

    /// Bytes that the ops behind `after` create, up to and without `before`.
    pub(super) fn births(&self, after: u64, before: u64) -> Bytes {
        let all = *self.born.last().unwrap_or(&0);
        let up_to = |occurrence: u64| {
            let (replay, op) = (occurrence / self.ops(), occurrence % self.ops());
            u128::from(replay) * all + self.born[op as usize]
        };
        let new = up_to(before).saturating_sub(up_to(after + 1));
        Bytes::new(new.min(u128::from(u64::MAX >> 2)) as u64)
    }

    /// How many ops ahead one must see to know `ahead` passes more than that of the op.
    pub(super) fn window(&self, ahead: u64) -> u32 {
        let passes = self.list.len() as u64;
        let mut end = 0;
        // Of several streams a pass may end behind one that begins later.
        let latest = self.list.iter().map(|pass| {
            end = pass.last.max(end);
            end as u64
        });
        let latest: Vec<u64> = latest.collect();
        let all = passes * self.repeat;
        let reach = |number: u64| {
            let to = number.saturating_add(ahead).min(all - 1);
            let end = to / passes * self.ops() + latest[(to % passes) as usize];
            end - self.list[number as usize].first as u64
        };
        (0..passes).map(reach).max().unwrap_or(0).min(u64::from(u32::MAX)) as u32
    }
}
