//! What ZeRO adds to a step: weights are gathered before they are used, gradients are reduced in
//! buckets.
//!
//! Stage 0 sums whole gradients over the replicas once per step. Stage 1 reduces them where they
//! are, and each rank uses its shard. From stage 2 on, every backward pass makes its gradients in
//! buffers, which are reduced into the shards, written by the first pass of a step and added to by
//! the others, and given back. One bucket is reduced while the next one fills; what comes then
//! waits for it, as in DeepSpeed, which has two buffers with `overlap_comm`.
//! At stage 3 the weights of a visit (a block, the embedding, the head) are gathered in one
//! collective into buffers that live until the visit's last use, no earlier than prefetching
//! allows. Without `reshard` they stay until the visit that has the backward pass is over, which
//! then gathers nothing (PyTorch, `FlatParamHandle` and `FSDPParamGroup`: what is not resharded
//! after forward is whole when backward comes, and is resharded after that).
//! Invariant: gathered weights and unreduced gradients are buffers, so that weights, gradients and
//! optimizer state are what the formulas say.

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::pass::GraphBuilder;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{CollectiveKind, ObjectKind};

/// Tasks in a row that use the same weights.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    /// What they use.
    pub(super) needs: Vec<usize>,
    /// Whose backward pass is over behind them.
    pub(super) given_back: Vec<usize>,
}

impl GraphBuilder<'_> {
    /// The stream of what runs beside the device's work.
    pub(crate) fn sibling(&self, stream: u16) -> u16 {
        if self.shape.zero.overlap { stream } else { 0 }
    }

    fn over_replicas(
        &mut self,
        kind: CollectiveKind,
        of: &[usize],
        bytes: u128,
        uses: &[ObjectAccess],
    ) {
        let Some(first) = of.first().map(|&owned| &self.owned[owned]) else { return };
        let group = if first.expert { self.groups.replicas } else { self.groups.data };
        let (unit, module, stream) = (group.does(kind, bytes), first.module, self.sibling(1));
        let recompute = std::mem::take(&mut self.build.recompute);
        self.build.op_on(unit, stream, kind.word(), module, 0, uses);
        self.build.recompute = recompute;
    }

    /// Gathers those of a visit that are partitioned and not whole already; gives what ops use in
    /// their place.
    pub(super) fn gather(&mut self, visit: &Visit, number: usize) -> Vec<(usize, ObjectId)> {
        let mut gathered = Vec::new();
        if self.shape.zero.stage < 3 {
            return gathered;
        }
        let held = |&owned: &usize| Some((owned, self.owned[owned].held?));
        gathered.extend(visit.needs.iter().filter_map(held));
        for is_expert in [false, true] {
            let group = visit.needs.iter().copied().filter(|&owned| {
                let row = &self.owned[owned];
                row.replicas > 1 && row.expert == is_expert && row.held.is_none()
            });
            let group: Vec<usize> = group.collect();
            let (mut touches, mut bytes) = (Vec::new(), 0);
            for &owned in &group {
                let size = self.owned[owned].bytes;
                bytes += size;
                let shard = self.owned[owned].weight;
                let name = format!("v{number}.{}.whole", self.build.name(shard));
                let packed = self.owned[owned].packed;
                let format = if packed { Format::Int8 } else { self.shape.formats.weights };
                let size = (size, format);
                let whole = self.build.object(name, ObjectKind::Buffer, size, None);
                touches.extend([read(shard), write(whole)]);
                gathered.push((owned, whole));
            }
            self.over_replicas(CollectiveKind::AllGather, &group, bytes, &touches);
            if !group.is_empty() {
                // As many visits ahead as there is room for would be gathered otherwise.
                self.build.no_further_ahead();
            }
        }
        if !self.shape.zero.reshard {
            gathered.iter().for_each(|&(owned, whole)| self.owned[owned].held = Some(whole));
            visit.given_back.iter().for_each(|&owned| self.owned[owned].held = None);
        }
        gathered
    }

    /// Whether every backward pass reduces this gradient into its shard.
    pub(super) fn is_reduced_each_pass(&self, owned: usize) -> bool {
        self.shape.zero.stage >= 2 && self.owned[owned].replicas > 1
    }

    /// What the gradient of a module's weights goes into: nothing if they are frozen.
    pub(super) fn gradient(&mut self, owned: usize) -> Vec<ObjectAccess> {
        if !self.owned[owned].trains {
            return Vec::new();
        }
        if !self.is_reduced_each_pass(owned) {
            let row = &mut self.owned[owned];
            let is_written = std::mem::replace(&mut row.written, true);
            let touch = |&(_, object): &(_, ObjectId)| {
                if is_written { change(object) } else { write(object) }
            };
            return row.gradient.iter().map(touch).collect();
        }
        if let Some(full) = self.owned[owned].full {
            return vec![change(full)];
        }
        let name = format!("{}{}.grad", self.prefix, self.build.name(self.owned[owned].weight));
        let size: (u128, Format) = (self.owned[owned].gradient_bytes, self.shape.formats.gradients);
        let full = self.build.object(name, ObjectKind::Buffer, size, None);
        self.owned[owned].full = Some(full);
        vec![write(full)]
    }

    /// This pass adds nothing more to the gradient.
    pub(super) fn done(&mut self, owned: usize) {
        if !self.owned[owned].trains {
            return;
        }
        let is_reduced = self.is_reduced_each_pass(owned) || self.reduction.is_last;
        if self.owned[owned].replicas == 1 && self.reduction.is_last {
            self.complete(&[owned]);
        }
        if self.owned[owned].replicas == 1 || !is_reduced {
            return;
        }
        let which = usize::from(self.owned[owned].expert);
        self.reduction.waiting[which].push(owned);
        let waiting = &self.reduction.waiting[which];
        let bytes: u128 = waiting.iter().map(|&owned| self.owned[owned].gradient_bytes).sum();
        if bytes >= u128::from(self.shape.zero.bucket.get()) {
            self.reduce(which);
        }
    }

    /// Reduces what waits, however little.
    pub(super) fn reduce_rest(&mut self) {
        for which in 0..2 {
            self.reduce(which);
        }
    }

    fn reduce(&mut self, which: usize) {
        let all = std::mem::take(&mut self.reduction.waiting[which]);
        if all.is_empty() {
            return;
        }
        let mut touches = Vec::new();
        let mut bytes = 0;
        for &owned in &all {
            let row = &mut self.owned[owned];
            bytes += row.gradient_bytes;
            let pieces = row.gradient.iter().map(|&(_, object)| object);
            match row.full.take() {
                None => touches.extend(pieces.map(change)),
                Some(full) => {
                    let is_written = std::mem::replace(&mut row.written, true);
                    touches.push(read(full));
                    touches.extend(pieces.map(if is_written { change } else { write }));
                }
            }
        }
        let whole = self.shape.zero.stage == 0;
        let kind = if whole { CollectiveKind::AllReduce } else { CollectiveKind::ReduceScatter };
        self.over_replicas(kind, &all, bytes, &touches);
        if self.shape.zero.stage >= 2 && self.shape.zero.overlap {
            let reduction = OpId::at(self.build.trace.ops.len() - 1);
            self.build.awaits.extend(self.reduction.previous.replace(reduction));
        }
        if self.reduction.is_last {
            self.reduced(all);
        }
    }

    /// The last reduction of these is issued. What waits for it would keep the device waiting, so
    /// that those before it are updated now.
    fn reduced(&mut self, all: Vec<usize>) {
        let Some(streamed) = &mut self.reduction.streamed else { return };
        let ready = if self.shape.zero.overlap {
            std::mem::replace(&mut streamed.reduced, all)
        } else {
            all
        };
        self.complete(&ready);
    }

    /// After an update of shards, every rank gets all weights again (stages 1 and 2).
    pub(super) fn gather_updated(&mut self) {
        if !matches!(self.shape.zero.stage, 1 | 2) {
            return;
        }
        let bucket = u128::from(self.shape.zero.bucket.max(Bytes::new(1)).get());
        for is_expert in [false, true] {
            let (mut group, mut touches, mut bytes) = (Vec::new(), Vec::new(), 0);
            for owned in 0..self.owned.len() {
                let row = &self.owned[owned];
                if row.replicas == 1 || row.expert != is_expert || !row.trains {
                    continue;
                }
                group.push(owned);
                bytes += row.bytes;
                touches.push(change(row.weight).part(row.bytes));
                if bytes >= bucket {
                    self.over_replicas(CollectiveKind::AllGather, &group, bytes, &touches);
                    (group, touches, bytes) = (Vec::new(), Vec::new(), 0);
                }
            }
            self.over_replicas(CollectiveKind::AllGather, &group, bytes, &touches);
        }
    }
}
