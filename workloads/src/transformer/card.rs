//! What a transformer is, a decoder or an encoder: the numbers of its model card.
//!
//! From these follow all parameters by name and shape ([`Card::tensors`], checked against the
//! makers' own code tensor by tensor), hence counts that are exact: no rule of thumb such as 12 x
//! layers x hidden^2.
//! Invariant: a card without [`Card::problems`] has fewer than [`MAX_PARAMETERS`] parameters, so
//! that bytes of any format, and of all optimizer state, fit into 64 bits.

mod count;
mod family;
mod limits;
mod tensors;

use std::ops::Range;

pub use family::{Activation, Biases, Family, HeadNorms, NormKind, NormPlaces};
pub use limits::MAX_PARAMETERS;
pub use tensors::{CardTensor, Tensor, TensorKind};

/// Experts in the place of a block's feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Experts {
    /// In each block.
    pub count: u32,
    /// That each token goes through.
    pub active: u32,
    /// Width between the matrices of one expert.
    pub ffn: u32,
    /// That every token goes through beside those, of the same width.
    pub shared: u32,
    /// Blocks in front that have one feed-forward part, of the card's width, in their place.
    pub dense_first: u32,
}

/// Keys and values that follow from one compressed row per token: multi-head latent attention
/// (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Latent {
    /// Numbers that a token is compressed to for its queries, if it is.
    pub queries: Option<u32>,
    /// Numbers that a token is compressed to for its keys and values.
    pub rank: u32,
    /// Numbers of a head that are turned by position; those of keys are the same in all heads.
    pub rotary: u32,
    /// Numbers of a value.
    pub value: u32,
}

/// A window of attention, and which blocks attend to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Positions that a token attends to.
    pub tokens: u32,
    /// Every so many-th block attends to all nonetheless.
    pub full_every: Option<u32>,
}

impl Windows {
    /// Whether block `layer` attends to all.
    fn is_full(&self, layer: u32) -> bool {
        self.full_every.is_some_and(|every| layer.saturating_add(1).is_multiple_of(every))
    }

    /// How many of these blocks attend to all.
    pub fn full_in(&self, layers: Range<u32>) -> u32 {
        let before = |to: u32| self.full_every.and_then(|every| to.checked_div(every)).unwrap_or(0);
        before(layers.end) - before(layers.start)
    }
}

/// The numbers of a model card.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Card {
    /// The model's name.
    pub name: String,
    /// Whose family it is.
    pub family: Family,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width between the matrices of the feed-forward part; where all blocks have experts, of one
    /// of them.
    pub ffn: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of a head; `hidden / heads` in most models.
    pub head_dim: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Positions that there is a table for; 0 for a family without.
    pub positions: u32,
    /// Whether the head uses the embedding's matrix.
    pub tied: bool,
    /// Whether queries, keys and values have biases: as the family has it ([`Family::biases`]),
    /// or as the model's maker chose where that is open.
    pub qkv_bias: bool,
    /// Experts, if it has them.
    pub experts: Option<Experts>,
    /// Positions that a token attends to, if not all before it.
    pub window: Option<u32>,
    /// With a window: every so many-th block attends to all nonetheless, and none without it.
    pub full_attention_every: Option<u32>,
    /// Compressed keys and values, if they are; a head is then as wide as its query.
    pub latent: Option<Latent>,
}

impl Card {
    /// Width of all queries of a token.
    pub const fn q_width(&self) -> u64 {
        self.heads as u64 * self.head_dim as u64
    }

    /// The window of attention, if there is one.
    pub fn windows(&self) -> Option<Windows> {
        let full_every = self.full_attention_every;
        self.window.map(|tokens| Windows { tokens, full_every })
    }

    /// Positions that a token attends to in block `layer`, if not all before it.
    pub fn window_of(&self, layer: u32) -> Option<u32> {
        self.windows().filter(|windows| !windows.is_full(layer)).map(|windows| windows.tokens)
    }

    /// The experts of block `layer`, if it has them.
    pub fn experts_of(&self, layer: u32) -> Option<Experts> {
        self.experts.filter(|experts| layer >= experts.dense_first)
    }

    /// Blocks that are alike but for what they attend to: one of them, and how many there are of
    /// the first `layers`.
    pub fn sorts(&self, layers: u32) -> impl Iterator<Item = (u32, u32)> {
        let dense = self.experts.map_or(0, |experts| experts.dense_first.min(layers));
        [(0, dense), (dense, layers - dense)].into_iter().filter(|&(_, count)| count > 0)
    }

    /// What one of `tensor` ranks keeps of a token for later ones in one block: the numbers of a
    /// piece, and the pieces. Keys and values of its heads are two, a compressed row is one.
    pub fn cached(&self, tensor: u32) -> (u64, u64) {
        match self.latent {
            Some(latent) => (u64::from(latent.rank) + u64::from(latent.rotary), 1),
            None => (u64::from(self.own_kv_heads(tensor)) * u64::from(self.head_dim), 2),
        }
    }

    /// Heads of keys and values that one of `tensor` ranks has: where there are more ranks than
    /// heads, several have the same one.
    pub fn own_kv_heads(&self, tensor: u32) -> u32 {
        (self.kv_heads / tensor.max(1)).max(1)
    }

    /// Width of all results of attention of a token.
    pub fn mixed_width(&self) -> u64 {
        let head = self.latent.map_or(self.head_dim, |latent| latent.value);
        u64::from(self.heads) * u64::from(head)
    }

    /// Width of all keys, or all values, of a token.
    pub const fn kv_width(&self) -> u64 {
        self.kv_heads as u64 * self.head_dim as u64
    }
}
