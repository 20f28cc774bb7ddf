//! Activations that are kept in 8 bits: an op that compresses what a block keeps, and one that has
//! it whole again.
//!
//! Behind the pass whose tensors stay for the backward pass one op reads them whole and writes them
//! compressed; before the pass that uses them one op does it the other way round (ActNN, Chen et
//! al. 2021, arXiv 2104.14129). A block's output goes with what the block keeps, its input with the
//! pass that reads it: the gradients, or the block computed again. What the head keeps is left out.
//! Invariant: no memory comes with it, a tensor is whole in its kernels' own buffers only; every
//! tensor of a block is compressed once and whole again once.

use super::schedule::recomputed;
use super::{Attention, Checkpointing};
use crate::build::{ObjectAccess, read};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Core, SavedActivations};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Kernel, Streaming, Work};

impl GraphBuilder<'_> {
    /// What was kept in 8 bits since it was last asked.
    fn fresh(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.compressed.fresh)
    }

    /// Before a block's forward pass: what others made is theirs.
    pub(super) fn before_block(&mut self) {
        self.compressed.fresh.clear();
    }

    /// Behind a block's forward pass: compresses what it leaves. `local` is the block's place in
    /// its stretch of so many, `None` where it was computed again.
    pub(super) fn behind_block(
        &mut self,
        by: ModuleId,
        (local, blocks): (Option<usize>, usize),
        kept: &mut SavedActivations,
        next: ObjectId,
    ) {
        let mut own = self.fresh();
        let hands_on = own.contains(&next);
        own.retain(|&object| object != next);
        if self.shape.checkpointing == Checkpointing::Selective
            && self.shape.attention == Attention::Eager
            && let Core::Scores(softmax, dropped) = kept.core
        {
            let core = [Some(softmax), dropped.map(|(_, left)| left)];
            own.retain(|&object| !core.contains(&Some(object)));
        }
        let (first, each) = recomputed(self.shape, blocks);
        if local.is_some_and(|local| local < first) {
            own.clear();
        }
        let stays = local.is_none_or(|local| local + 1 >= first || (local + 1) % each == 0);
        let behind = [next].into_iter().filter(|_| hands_on && stays);
        let all: Vec<ObjectId> = own.iter().copied().chain(behind).collect();
        self.converted("compress", by, &all);
        kept.compressed = own;
    }

    /// Has tensors whole again: what is in 8 bits of these, once.
    pub(super) fn whole_again(&mut self, by: ModuleId, all: &[ObjectId]) {
        let there = |object: &&ObjectId| self.compressed.whole.contains_key(*object);
        let all: Vec<ObjectId> = all.iter().filter(there).copied().collect();
        self.converted("decompress", by, &all);
        for object in all {
            self.compressed.whole.remove(&object);
        }
    }

    /// One kernel that moves every tensor whole and compressed.
    fn converted(&mut self, name: &str, by: ModuleId, all: &[ObjectId]) {
        if all.is_empty() {
            return;
        }
        let touches: Vec<ObjectAccess> = all.iter().map(|&object| read(object)).collect();
        let whole: u128 = all.iter().map(|object| self.compressed.whole[object]).sum();
        let bytes = whole + self.build.touched(&touches);
        let kernel = Kernel::new(Work::Streaming(Streaming::ElementWise), 0, bytes);
        self.build.kernels(name, by, vec![kernel], &touches);
    }
}
