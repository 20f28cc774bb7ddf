//! What a decoder-only transformer is: the numbers of its model card.

/// The makers' families: names of modules, and what a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Learned positions, LayerNorm, biases everywhere, one matrix for queries, keys and values.
    Gpt2,
    /// Rotary positions, RMSNorm, no biases, a gated feed-forward part.
    Llama,
    /// As [`Family::Llama`]; attention may be windowed.
    Mistral,
    /// As [`Family::Mistral`], with experts in the place of the feed-forward part.
    Mixtral,
    /// As [`Family::Llama`], with biases on queries, keys and values.
    Qwen,
    /// Learned positions (two rows more than said), LayerNorm, biases everywhere, separate matrices.
    Opt,
    /// ALiBi, LayerNorm (one behind the embedding too), biases everywhere, one matrix for queries,
    /// keys and values.
    Bloom,
}

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
    /// Width between the matrices of the feed-forward part.
    pub ffn: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of a head; `hidden / heads` in most models.
    pub head_dim: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Rows of the table of positions; 0 for a family without.
    pub positions: u32,
    /// Whether the head uses the embedding's matrix.
    pub tied: bool,
    /// Whether queries, keys and values have biases, in a family that leaves that open.
    pub qkv_bias: bool,
    /// Experts, if it has them.
    pub experts: Option<Experts>,
    /// Positions that a token attends to, if not all before it.
    pub window: Option<u32>,
}
