//! What the forward pass keeps for the backward pass, per rank.
//!
//! Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
//! 2022 (arXiv 2205.05198), sections 4 and 5. [`block`] lists what one block keeps, tensor by
//! tensor. For their transformer (feed-forward part of 4h, GeLU, dropout, LayerNorm, 16 bits) the
//! list adds up to s*b*h*(34 + 5*a*s/h); with tensor parallelism to s*b*h*(10 + 24/t +
//! 5*a*s/(h*t)); with sequence parallelism all is over t. Selective recomputation leaves the core
//! of attention out: 34*s*b*h/t. Full keeps a block's input: 2*s*b*h, of which every rank has its
//! tokens with sequence parallelism: 2*s*b*h/t. The first stage of a pipeline has L blocks in
//! flight, and L*(1 + (p-1)/(p*m)) with m virtual stages per stage.
//! Invariant: what is split over t ranks is rounded up tensor by tensor; all else is exact.

pub mod block;

use super::{Overflow, product, share, total};
use crate::transformer::adapters::{Lora, Target};
use crate::transformer::format::Format;
use crate::transformer::training::{Attention, Checkpointing, Kernels, Loss};
use block::{BlockShape, Over, Sort, beside_norm, keeps_input, kept};

/// Numbers that share a range where activations are compressed to 8 bits (ActNN, Chen et al. 2021,
/// arXiv 2104.14129: groups of 256, each with a minimum and a range in 16 bits).
pub const GROUP: u128 = 256;

/// What goes through the model at once, and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Sequences of a micro-batch (b).
    pub sequences: u64,
    /// Tokens of a sequence (s).
    pub tokens: u64,
    /// Format of what is kept; int8 stands for compression, with a range per group.
    pub format: Format,
    /// How attention is computed.
    pub attention: Attention,
    /// Whether there is dropout, whose masks are kept.
    pub dropout: bool,
    /// Ranks that matrices are split over (t).
    pub tensor: u64,
    /// Whether the rest is split by sequence over the same ranks.
    pub by_sequence: bool,
    /// Which kernels run.
    pub kernels: Kernels,
    /// How the head and the loss are computed.
    pub loss: Loss,
    /// What alone is trained, if not all of the model is.
    pub lora: Option<Lora>,
}

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

/// One block's share of one rank and one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfBlock {
    /// Everything but the core of attention and statistics.
    pub rest: u128,
    /// The core of attention: what selective recomputation computes again.
    pub core: u128,
    /// Statistics of norms and of attention in one kernel, which the published formulas leave out.
    pub statistics: u128,
    /// Of all that, what the backward pass is done with before it comes to the core.
    pub behind: u128,
}

impl OfBlock {
    fn sum(&self) -> Result<u128, Overflow> {
        total([self.rest, self.core, self.statistics])
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

/// What one block keeps on one rank for one micro-batch.
pub fn of_block(block: &BlockShape, batch: &Batch) -> Result<OfBlock, Overflow> {
    let mut all = OfBlock::default();
    for tensor in kept(block, batch)? {
        let is_split = match tensor.over {
            Over::Ranks => true,
            Over::Tokens => batch.by_sequence,
            Over::Nothing => false,
        };
        let ranks = if is_split { batch.tensor } else { 1 };
        let numbers = share(tensor.numbers, ranks.into());
        let bytes = match tensor.sort {
            Sort::Numbers => stored(numbers, batch.format)?,
            Sort::Mask => numbers,
            Sort::Statistics | Sort::Wide => product(&[numbers, 4])?,
        };
        let of = match tensor.sort {
            Sort::Statistics => &mut all.statistics,
            _ if tensor.core => &mut all.core,
            _ => &mut all.rest,
        };
        *of = total([*of, bytes])?;
        if tensor.behind {
            all.behind = total([all.behind, bytes])?;
        }
    }
    Ok(all)
}

impl Batch {
    /// Whether the backward pass needs what the products of one of these matrices are given: for
    /// the gradients of their weights, or of their adapters.
    pub(super) fn keeps_input(&self, targets: &[Target]) -> bool {
        self.lora.is_none_or(|lora| targets.iter().any(|&target| lora.targets.has(target)))
    }
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

/// What the last norm and the head keep, whose `input` is of so many bytes.
fn of_head(block: &BlockShape, batch: &Batch, input: u128, vocab: u64) -> Result<u128, Overflow> {
    let logits = match batch.loss {
        Loss::Eager => {
            let all = [batch.tokens, batch.sequences, vocab].map(u128::from);
            product(&[share(product(&all)?, batch.tensor.into()), 4])?
        }
        // A chunk of them is a working buffer.
        Loss::Fused => 0,
    };
    if batch.lora.is_some() && batch.by_sequence && batch.tensor > 1 {
        // What a frozen head is given goes once it is gathered, and is not needed again.
        return total([input, logits.max(input)]);
    }
    let tokens = product(&[batch.tokens.into(), batch.sequences.into()])?;
    let own = own_tokens(tokens, batch.tensor.into(), batch.by_sequence);
    let beside = product(&[own, beside_norm(block, batch)?])?;
    let inputs = if keeps_input(block, batch) { 2 } else { 1 };
    // A matrix and GeLU before the norm have inputs of their own.
    let inputs = if block.transforms_head { inputs + 2 } else { inputs };
    total([product(&[input, inputs])?, logits, beside])
}

/// Cosines and sines, which eager kernels keep.
fn turns(block: &BlockShape, batch: &Batch) -> Result<u128, Overflow> {
    if batch.kernels != Kernels::Eager || block.mean {
        return Ok(0);
    }
    stored(product(&[2, batch.tokens.into(), block.head_dim.into()])?, batch.format)
}

/// What the first stage keeps.
///
/// `vocab` is the number of logits per token; 0 for a model without a head.
pub fn of_stage(
    block: &BlockShape,
    batch: &Batch,
    stages: &Stages,
    checkpointing: Checkpointing,
    vocab: u64,
) -> Result<OfStage, Overflow> {
    let one = of_block(block, batch)?;
    let [ranks, hidden] = [batch.tensor, block.hidden].map(u128::from);
    let tokens = product(&[batch.tokens.into(), batch.sequences.into()])?;
    let stream = product(&[own_tokens(tokens, ranks, batch.by_sequence), hidden])?;
    let input = stored(stream, batch.format)?;
    let (blocks, in_flight) = (stages.of_virtual_stage(), stages.in_flight());
    // What a norm copies is there until its sum with what follows is, in the place of the input.
    let own = if keeps_input(block, batch) { input } else { 0 };
    let recompute = |blocks: u128| Ok(product(&[one.sum()?, blocks])?.saturating_sub(own));
    let statistics = product(&[one.statistics, blocks])?;
    let (kept, statistics, recomputed) = match checkpointing {
        Checkpointing::None => (product(&[total([one.rest, one.core])?, blocks])?, statistics, 0),
        Checkpointing::Selective => {
            let recompute = one.core.saturating_sub(one.behind);
            (product(&[one.rest, blocks])?, statistics, recompute)
        }
        Checkpointing::Full => (product(&[input, blocks])?, 0, recompute(1)?),
        Checkpointing::Layers(first) => {
            let again = u128::from(first).min(blocks);
            let others = blocks - again;
            let all = product(&[total([one.rest, one.core])?, others])?;
            let kept = total([product(&[input, again])?, all])?;
            // What the others keep is gone before anything is computed again.
            let gone = product(&[one.sum()?, others])?;
            let most = if again > 0 { recompute(1)?.saturating_sub(gone) } else { 0 };
            (kept, product(&[one.statistics, others])?, most)
        }
        Checkpointing::Every(each) => {
            let each = u128::from(each.max(1)).min(blocks.max(1));
            let last = blocks % each;
            // A shorter part comes last and is gone, with its input, before the next.
            let most = match last {
                0 => recompute(each)?,
                last => recompute(last)?.max(recompute(each)?.saturating_sub(input)),
            };
            (product(&[input, blocks.div_ceil(each)])?, 0, most)
        }
    };
    let masks = if batch.dropout { stream } else { 0 };
    let turns = turns(block, batch)?;
    let own_rows = own_tokens(tokens, ranks, batch.by_sequence);
    let beside = product(&[own_rows, beside_norm(block, batch)?])?;
    let normed = if block.norm_0 { total([input, beside])? } else { 0 };
    let head =
        if vocab > 0 && stages.pipeline == 1 { of_head(block, batch, input, vocab)? } else { 0 };
    // Where a norm keeps a copy, the last block's input to it goes with the sum behind it, before
    // there is a head.
    let keeps_all = match checkpointing {
        Checkpointing::None | Checkpointing::Selective => true,
        Checkpointing::Layers(first) => u128::from(first) < blocks,
        Checkpointing::Full | Checkpointing::Every(_) => false,
    };
    let head = if keeps_all && own == 0 { head.max(input) } else { head };
    Ok(OfStage {
        kept: product(&[kept, in_flight])?,
        statistics: product(&[statistics, in_flight])?,
        recomputed: recomputed.saturating_sub(head),
        // Frozen tables have no backward pass.
        embedding: match batch.lora {
            None => product(&[total([masks, normed, turns])?, stages.embedded()])?,
            Some(_) => 0,
        },
        head,
    })
}
