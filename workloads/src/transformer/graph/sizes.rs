//! What a micro-batch amounts to on a rank: tokens, widths and attention.

use crate::memory::activations::{own_tokens, stored};
use crate::transformer::format::Format;
use crate::transformer::training::{Attention, Training};
use tiersim_models::kernel;

/// What a micro-batch amounts to on this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Tokens of a micro-batch.
    pub(crate) tokens: u128,
    /// Of those, the ones whose norms and dropout this rank computes.
    pub(crate) own_tokens: u128,
    /// Numbers per token of the residual stream.
    pub(crate) hidden: u128,
    /// Query heads of this rank.
    pub(crate) heads: u128,
    /// Numbers per token of its queries, and of its keys.
    pub(crate) queries: u128,
    pub(crate) keys: u128,
    /// Numbers per token of what attention gives.
    pub(crate) mixed: u128,
    /// Attention of the micro-batch.
    pub(crate) attention: kernel::Attention,
    /// Pairs of tokens that attention multiplies, over the micro-batch, of one head.
    pub(crate) pairs: u128,
    /// Numbers of the table of scores, all heads of this rank.
    pub(crate) scores: u128,
    /// Rows of the embedding of this rank.
    pub(crate) vocab: u128,
    /// The format of activations that are kept, and of everything that is not.
    pub(crate) kept: Format,
    pub(crate) work: Format,
}

impl Sizes {
    /// A micro-batch of training.
    pub(crate) fn new(shape: &Training) -> Sizes {
        Sizes::of(shape, shape.micro_batch.into(), 0, shape.own_sequence())
    }

    /// `new` tokens of each of `sequences` sequences behind `past` others.
    pub(crate) fn of(shape: &Training, sequences: u64, past: u64, new: u64) -> Sizes {
        let Training { card, parallel, formats, .. } = shape;
        let [tensor, head] = [parallel.tensor, card.head_dim].map(u128::from);
        let tokens = u128::from(sequences) * u128::from(new);
        let heads = u128::from(card.heads) / tensor;
        let attention = kernel::Attention {
            batch: sequences,
            new,
            past,
            heads: card.heads / parallel.tensor,
            kv_heads: card.own_kv_heads(parallel.tensor),
            head_dim: card.head_dim,
            window: card.window_of(0).unwrap_or(0),
            kv_bytes: formats.kv.bytes() as u32,
            causal: card.family.is_causal(),
        };
        let square = u128::from(sequences) * u128::from(new) * u128::from(past + new);
        let skips = shape.attention == Attention::Flash;
        let is_whole = |format: &Format| format.bytes() > 1;
        let candidates = [formats.activations, formats.weights, Format::Bf16];
        Sizes {
            tokens,
            own_tokens: own_tokens(tokens, tensor, parallel.sequence),
            hidden: u128::from(card.hidden),
            heads,
            queries: heads * head,
            keys: u128::from(card.own_kv_heads(parallel.tensor)) * head,
            mixed: u128::from(card.mixed_width()) / tensor,
            attention,
            pairs: if skips { attention.pairs() } else { square },
            scores: heads * square,
            vocab: u128::from(card.vocab) / tensor,
            kept: formats.activations,
            work: candidates.into_iter().find(is_whole).unwrap_or(Format::Bf16),
        }
    }

    /// The same tokens in block `layer`, which may attend to others than the block before.
    pub(crate) fn in_block(self, shape: &Training, layer: u32) -> Sizes {
        let window = shape.card.window_of(layer).unwrap_or(0);
        let attention = kernel::Attention { window, ..self.attention };
        let skips = shape.attention == Attention::Flash;
        Sizes { attention, pairs: if skips { attention.pairs() } else { self.pairs }, ..self }
    }

    /// Bytes of so many numbers that are kept: compressed to 8 bits, a minimum and a range per
    /// group more.
    pub(crate) fn of_kept(&self, numbers: u128) -> u128 {
        stored(numbers, self.kept).expect("a shape without problems has sums below 2^128")
    }

    /// Numbers of the residual stream that this rank has between tensor-parallel parts.
    pub(crate) fn stream(&self) -> u128 {
        self.own_tokens * self.hidden
    }
}
