//! Gradients of one rank where every module is updated inside the backward pass, as soon as its
//! gradient is complete.
//!
//! One micro-batch: no more than the gradient of one module is there at once, and beside it that of
//! a tied table from the head on. With replicas, it is what a bucket holds and what the one before
//! it held, whose update comes when the next one is sent; at stages 2 and 3 the shards of those.
//! Several micro-batches: gradients are added to, so that all of a virtual stage are there when its
//! last backward pass begins.
//! Invariant: it is the most of what a step's trace has at once, in the order of its ops.

use super::rank::{Rank, RankModule};
use super::zero::shard;
use super::{Overflow, product, share, total};
use crate::transformer::format::Format;

/// What gradients are added up and reduced in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passes {
    /// Their format.
    pub(super) format: Format,
    /// Stage of ZeRO.
    pub(super) stage: u8,
    /// Bytes of a bucket.
    pub(super) bucket: u64,
    /// Micro-batches of a step.
    pub(super) micro_batches: u64,
    /// Stages of the pipeline.
    pub(super) pipeline: u64,
    /// Virtual stages of each.
    pub(super) interleave: u64,
}

/// A module's gradient.
#[derive(Clone, Copy)]
struct Gradient {
    whole: u128,
    /// What is kept of it on this rank.
    kept: u128,
    replicas: u64,
    expert: bool,
}

/// Gradients that are there while a backward pass goes on.
#[derive(Default)]
struct Walk {
    alive: u128,
    most: u128,
    /// Of all ranks' modules and of experts', those that wait to be reduced.
    waiting: [Vec<Gradient>; 2],
    /// What was reduced last.
    reduced: u128,
}

impl Walk {
    fn born(&mut self, bytes: u128) {
        self.alive += bytes;
        self.most = self.most.max(self.alive);
    }

    /// The pass is done with a module's gradient.
    fn done(&mut self, of: Gradient, passes: &Passes, is_there: bool) {
        if of.replicas == 1 {
            self.alive -= of.kept;
            return;
        }
        let waiting = &mut self.waiting[usize::from(of.expert)];
        waiting.push(of);
        if waiting.iter().map(|of| of.whole).sum::<u128>() >= passes.bucket.into() {
            self.reduce(usize::from(of.expert), passes, is_there);
        }
    }

    fn reduce(&mut self, which: usize, passes: &Passes, is_there: bool) {
        let all = std::mem::take(&mut self.waiting[which]);
        if all.is_empty() {
            return;
        }
        let bytes = all.iter().map(|of| of.kept).sum();
        if passes.stage >= 2 && !is_there {
            self.born(bytes);
        }
        self.alive -= std::mem::replace(&mut self.reduced, bytes);
    }
}

impl Rank {
    fn gradient(&self, module: &RankModule, passes: &Passes) -> Result<Gradient, Overflow> {
        let replicas = self.replicas(module);
        let whole = product(&[module.params(), passes.format.bytes().into()])?;
        let kept = shard(whole, 2, passes.stage, replicas.into());
        Ok(Gradient { whole, kept, replicas, expert: module.expert })
    }

    /// Most bytes of gradients at once.
    pub(super) fn streamed(&self, passes: &Passes) -> Result<u128, Overflow> {
        let of = |all: &[RankModule]| -> Result<Vec<Gradient>, Overflow> {
            let all = all.iter().filter(|module| module.trains);
            all.map(|module| self.gradient(module, passes)).collect()
        };
        let (embedding, head) = (of(&self.embedding)?, of(&self.head)?);
        let kept = |all: &[Gradient]| total(all.iter().map(|of| of.kept));
        // As a backward pass of a virtual stage comes to them.
        let (mut sorts, mut of_blocks) = (Vec::new(), 0);
        for (count, block) in self.sorts().rev() {
            let (block, count) = (of(block)?, share(count.into(), passes.interleave.into()));
            of_blocks = total([of_blocks, product(&[kept(&block)?, count])?])?;
            sorts.push((block, count));
        }
        let ends = total([kept(&embedding)?, kept(&head)?])?;
        let several = passes.micro_batches > 1;
        // More than one round of interleaved micro-batches has gradients of all virtual stages.
        let all_at_once = passes.micro_batches > passes.pipeline || passes.interleave == 1;
        if several && all_at_once {
            return total([product(&[of_blocks, passes.interleave.into()])?, ends]);
        }
        let mut walk = Walk::default();
        for virtual_stage in (0..passes.interleave).rev() {
            let (is_first, is_last) = (virtual_stage == 0, virtual_stage + 1 == passes.interleave);
            if several {
                walk.born(total([of_blocks, if is_first { ends } else { 0 }])?);
            }
            let head = if is_last { head.iter().rev() } else { [].iter().rev() };
            let embedding = if is_first { embedding.iter().rev() } else { [].iter().rev() };
            let tied = self.is_tied.then(|| self.embedding.len() - 1);
            let in_blocks =
                sorts.iter().flat_map(|(block, count)| (0..*count).flat_map(move |_| block));
            let is_there = |of: &Gradient| several || of.replicas > 1 && passes.stage >= 2;
            if let Some(table) = tied.and_then(|last| embedding.clone().nth(last)) {
                walk.born(if is_there(table) { 0 } else { table.kept });
            }
            for of in head.chain(in_blocks) {
                walk.born(if is_there(of) { 0 } else { of.kept });
                walk.done(*of, passes, several);
            }
            for (index, of) in embedding.enumerate() {
                let is_born = is_there(of) || tied == Some(index);
                walk.born(if is_born { 0 } else { of.kept });
                walk.done(*of, passes, several);
            }
            walk.reduce(0, passes, several);
            walk.reduce(1, passes, several);
        }
        Ok(walk.most)
    }
}
