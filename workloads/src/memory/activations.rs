//! What the forward pass keeps for the backward pass, per rank.
//!
//! Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
//! 2022 (arXiv 2205.05198), sections 4 and 5. What one block, the embedding and the head keep is
//! read off the graph that steps are made of ([`Training::kept`]). For their transformer
//! (feed-forward part of 4h, GeLU, dropout, LayerNorm, 16 bits) a block's bytes are
//! s*b*h*(34 + 5*a*s/h); with tensor parallelism s*b*h*(10 + 24/t + 5*a*s/(h*t)); with sequence
//! parallelism all is over t. Selective recomputation leaves the core of attention out:
//! 34*s*b*h/t. Full keeps a block's input: 2*s*b*h, of which every rank has its tokens with
//! sequence parallelism: 2*s*b*h/t. The first stage of a pipeline has L blocks in flight, and
//! L*(1 + (p-1)/(p*m)) with m virtual stages per stage.
//! Invariant: nothing here knows what a block is made of.

use super::{Overflow, product, share, total};
use crate::transformer::format::Format;
use crate::transformer::training::{Checkpointing, KeptActivations, Training};
use std::ops::Range;

/// Numbers that share a range where activations are compressed to 8 bits (ActNN, Chen et al. 2021,
/// arXiv 2104.14129: groups of 256, each with a minimum and a range in 16 bits).
pub const GROUP: u128 = 256;

/// The model's blocks over the stages of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Blocks of the model (L).
    pub layers: u64,
    /// Stages (p).
    pub pipeline: u64,
    /// Stretches of blocks per stage (m).
    pub interleave: u64,
    /// Micro-batches of a step; fewer than stages leave less in flight.
    pub micro_batches: u64,
}

impl Stages {
    /// Those of a training.
    pub fn of(training: &Training) -> Stages {
        Stages {
            layers: training.card.layers.into(),
            pipeline: training.parallel.pipeline.into(),
            interleave: training.parallel.interleave.into(),
            micro_batches: training.micro_batches().into(),
        }
    }

    /// Virtual stages of `layers / (p m)` blocks that the first stage has in flight at most: p with
    /// one virtual stage per stage, p m + p - 1 with m, and never more than there are.
    pub fn in_flight(&self) -> u128 {
        let [p, m, n] = [self.pipeline, self.interleave, self.micro_batches].map(u128::from);
        let deep = if m > 1 { p * m + p - 1 } else { p };
        deep.min(n.saturating_mul(m))
    }

    /// Micro-batches whose embedding the first stage has in flight at most: those of its
    /// first virtual stage.
    fn embedded(&self) -> u128 {
        let [p, m, n] = [self.pipeline, self.interleave, self.micro_batches].map(u128::from);
        if m > 1 { (2 * p).min(n) } else { p.min(n) }
    }

    /// Blocks of a virtual stage.
    fn of_virtual_stage(&self) -> u128 {
        share(self.layers.into(), u128::from(self.pipeline) * u128::from(self.interleave))
    }
}

/// Of so many tokens, those whose norms and dropout one of `tensor` ranks has: its own with
/// sequence parallelism, all of them without. What blocks hand on, and so every checkpoint, has as
/// many.
pub const fn own_tokens(tokens: u128, tensor: u128, by_sequence: bool) -> u128 {
    if by_sequence { tokens.div_ceil(tensor) } else { tokens }
}

/// Bytes of so many numbers in a format, with their ranges if they are compressed.
pub fn stored(numbers: u128, format: Format) -> Result<u128, Overflow> {
    let plain = product(&[numbers, format.bytes().into()])?;
    let ranges = if format == Format::Int8 { product(&[numbers.div_ceil(GROUP), 4])? } else { 0 };
    total([plain, ranges])
}

/// What the first stage of a pipeline keeps on each of its ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfStage {
    /// The published formula: what blocks keep, or their inputs where they are computed again.
    pub kept: u128,
    /// Statistics of what is kept.
    pub statistics: u128,
    /// What is there once more while one block, or one stretch between checkpoints, is computed
    /// again, beyond what is gone by then: what the head had, and selectively the last block's
    /// feed-forward part.
    pub recomputed: u128,
    /// Masks of the dropout behind the embedding (section 4.3), and the input of a norm there, of
    /// all micro-batches in flight.
    pub embedding: u128,
    /// Inputs of the last norm and of the head, and, unless the loss is fused, fp32 logits
    /// (section 4.3), where there is one stage.
    pub head: u128,
}

/// What each of the blocks of a virtual stage keeps: those that are alike, in their order.
struct Sorts(Vec<(u128, KeptActivations)>);

impl Sorts {
    fn of(training: &Training, blocks: u128) -> Result<Sorts, Overflow> {
        let layers = u32::try_from(blocks).unwrap_or(u32::MAX);
        let all = training.card.sorts(layers);
        let all = all.map(|(layer, count)| Ok((count.into(), training.kept_in(layer)?)));
        Ok(Sorts(all.collect::<Result<_, Overflow>>()?))
    }

    fn last(&self) -> Result<KeptActivations, Overflow> {
        self.0.last().map(|&(_, kept)| kept).ok_or(Overflow)
    }

    /// The sum over these blocks.
    fn sum(
        &self,
        blocks: Range<u128>,
        of: impl Fn(&KeptActivations) -> u128,
    ) -> Result<u128, Overflow> {
        let (mut from, mut sum) = (0, 0);
        for (count, kept) in &self.0 {
            let to = from + count;
            let both = to.min(blocks.end).saturating_sub(from.max(blocks.start));
            sum = total([sum, product(&[both, of(kept)])?])?;
            from = to;
        }
        Ok(sum)
    }
}

/// What the first stage of a training's pipeline keeps on each of its ranks; a card with a
/// vocabulary of 0 has no head.
///
/// # Errors
/// If a sum does not fit 128 bits, or a tensor 64.
pub fn of_stage(training: &Training) -> Result<OfStage, Overflow> {
    let stages = Stages::of(training);
    let (blocks, in_flight) = (stages.of_virtual_stage(), stages.in_flight());
    let sorts = Sorts::of(training, blocks)?;
    let one = sorts.last()?;
    let KeptActivations { input, own_input, core, .. } = one;
    // Of how many blocks in front each so many keep their input alone.
    let (again, each) = match training.checkpointing {
        Checkpointing::None | Checkpointing::Selective => (0, 1),
        Checkpointing::Full => (blocks, 1),
        Checkpointing::Layers(first) => (u128::from(first).min(blocks), 1),
        Checkpointing::Every(each) => (blocks, u128::from(each.max(1)).min(blocks.max(1))),
    };
    let is_selective = training.checkpointing == Checkpointing::Selective;
    let others =
        sorts.sum(again..blocks, |of| if is_selective { of.rest } else { of.rest + of.core })?;
    let statistics = sorts.sum(again..blocks, |of| of.statistics)?;
    let stretches = again.div_ceil(each);
    let kept = total([product(&[input, stretches])?, others])?;
    // What is behind a stretch is gone before it is computed again. What a norm copies is there
    // until its sum with what follows is, in the place of the input.
    let mut gone = total([others, statistics])?;
    let mut recomputed = if is_selective { core.saturating_sub(one.behind) } else { 0 };
    for stretch in (0..stretches).rev() {
        let stretch = stretch * each..again.min((stretch + 1) * each);
        let whole = sorts.sum(stretch, |of| of.rest + of.core + of.statistics)?;
        recomputed = recomputed.max(whole.saturating_sub(own_input).saturating_sub(gone));
        gone = total([gone, input])?;
    }
    let has_head = training.card.vocab > 0 && stages.pipeline == 1;
    let head = if has_head { one.head } else { 0 };
    // Where a norm keeps a copy, the last block's input to it goes with the sum behind it, before
    // there is a head.
    let keeps_all = match training.checkpointing {
        Checkpointing::None | Checkpointing::Selective => true,
        Checkpointing::Layers(first) => u128::from(first) < blocks,
        Checkpointing::Full | Checkpointing::Every(_) => false,
    };
    let head = if keeps_all && own_input == 0 { head.max(input) } else { head };
    Ok(OfStage {
        kept: product(&[kept, in_flight])?,
        statistics: product(&[statistics, in_flight])?,
        recomputed: recomputed.saturating_sub(head),
        embedding: product(&[one.embedding, stages.embedded()])?,
        head,
    })
}
