//! The dimensions of a model and the formats of its numbers, as written.
//!
//! A card stands in the place of a model's own files; formats stand beside either.

use serde::Deserialize;
use tiersim_workloads::transformer::card::Family;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::packed::{self, Packed};

/// A model card, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Card", deny_unknown_fields)]
pub(crate) struct RawCard {
    /// What results call it.
    ///
    /// Default: such as `"llama-32x4096"`.
    pub(crate) name: Option<String>,
    /// What a block is made of and what its modules are called, see [models.md](models.md).
    pub(crate) family: Family,
    /// Blocks.
    ///
    /// Values: 1 to 10,000.
    pub(crate) layers: u32,
    /// Width of the residual stream.
    ///
    /// Values: 1 to 2^20.
    pub(crate) hidden: u32,
    /// Width between the matrices of the feed-forward part, or of one expert where all blocks have
    /// experts.
    ///
    /// Values: 1 to 2^22.
    pub(crate) ffn: u32,
    /// Query heads.
    ///
    /// Values: 1 to 2^14.
    pub(crate) heads: u32,
    /// Heads of keys and values.
    ///
    /// Values: 1 to 2^14, divides `heads`.
    /// Default: `heads`.
    pub(crate) kv_heads: Option<u32>,
    /// Width of a head; even where queries and keys are turned by position.
    ///
    /// Values: 1 to 2^14.
    /// Default: `hidden` / `heads`.
    pub(crate) head_dim: Option<u32>,
    /// Rows of the embedding.
    ///
    /// Values: 1 to 2^26.
    pub(crate) vocab: u32,
    /// Rows of the learned positions; of these only, and no less than the sequence.
    ///
    /// Values: 1 to 2^26.
    /// Default: 1024 for `gpt2`, 2048 for `opt`, 512 for `bert`, 514 for `roberta`.
    pub(crate) positions: Option<u32>,
    /// Whether the head uses the embedding's matrix.
    ///
    /// Default: `true` for `gpt2`, `opt`, `bloom`, `bert`, `roberta`, `falcon`, `falcon40b`,
    /// `cohere`, `cohere_normed`, `starcoder2`, `mpt`.
    pub(crate) tied: Option<bool>,
    /// Whether queries, keys and values have biases.
    ///
    /// Default: `true` for `gpt2`, `opt`, `bloom`, `bert`, `roberta`, `gpt_oss`, `gpt_neox`,
    /// `phi`, `starcoder2`.
    pub(crate) qkv_bias: Option<bool>,
    /// Experts of each block, those that a token goes through, and those that every token goes
    /// through beside them (0).
    pub(crate) experts: Option<RawExperts>,
    /// Positions that a token attends to.
    ///
    /// Values: 1 and more.
    pub(crate) window: Option<u32>,
    /// With `window`: every so many-th block attends to all nonetheless, such as 2 in gpt-oss (the
    /// second, the fourth and so on) and 6 in Gemma 3.
    ///
    /// Values: 1 to 10,000.
    pub(crate) full_attention_every: Option<u32>,
    /// Keys and values that follow from one compressed row per token (multi-head latent attention);
    /// of `deepseek` only.
    pub(crate) latent: Option<RawLatent>,
}

/// Compressed keys and values of a card, as written.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Latent", deny_unknown_fields)]
pub(crate) struct RawLatent {
    /// Numbers that a token is compressed to for its queries.
    ///
    /// Values: 1 to 2^20.
    /// Default: they are not compressed.
    pub(crate) queries: Option<u32>,
    /// Numbers that a token is compressed to for its keys and values.
    ///
    /// Values: 1 to 2^20.
    pub(crate) rank: u32,
    /// Numbers of a head, of its `head_dim`, that are turned by position; those of keys are the same
    /// in all heads.
    ///
    /// Values: 2 and more, even, below `head_dim`.
    pub(crate) rotary: u32,
    /// Numbers of a value of a head.
    ///
    /// Values: 1 to 2^14.
    pub(crate) value: u32,
}

/// Experts of a card, as written.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Experts", deny_unknown_fields)]
pub(crate) struct RawExperts {
    /// Experts of each block.
    pub(crate) count: u32,
    /// Those that a token goes through.
    pub(crate) active: u32,
    /// Those that every token goes through beside them.
    ///
    /// Default: 0.
    pub(crate) shared: Option<u32>,
    /// Blocks in front that have one feed-forward part as wide as the card's `ffn` instead; of
    /// `deepseek` only.
    ///
    /// Default: 0.
    pub(crate) dense_first: Option<u32>,
    /// Width between the matrices of one expert.
    ///
    /// Values: 1 to 2^22; other than the card's `ffn` with `dense_first` only.
    /// Default: the card's `ffn`.
    pub(crate) ffn: Option<u32>,
}

/// The format of each kind of object; those left out have the precision of all.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename = "Formats", deny_unknown_fields)]
pub(crate) struct RawFormats {
    /// Of weights, as products use them, or packed.
    ///
    /// Type: a [format](#model), packed ones too.
    /// Default: `precision`.
    pub(crate) weights: Option<RawWeights>,
    /// Of the gradients of weights.
    ///
    /// Default: `precision`.
    pub(crate) gradients: Option<Format>,
    /// Of what is kept for the backward pass; `int8` stands for compressed ones.
    ///
    /// Default: `precision`.
    pub(crate) activations: Option<Format>,
    /// Of keys and values of past tokens.
    ///
    /// Default: `precision`.
    pub(crate) kv: Option<Format>,
}

/// Numbers as products use them, or packed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Format", rename_all = "snake_case")]
pub(crate) enum RawWeights {
    /// 4 bytes per number.
    Fp32,
    /// 4 bytes per number; products have 10 bits of mantissa.
    Tf32,
    /// 2 bytes per number.
    Fp16,
    /// 2 bytes per number.
    Bf16,
    /// 1 byte per number; where a model is served the matrices of its blocks alone have it, and
    /// tables, head, norms and biases are in `precision`.
    Fp8,
    /// As `fp8`.
    Int8,
    /// Packed: n numbers of a matrix take ceil(n / 2) + 4 ceil(n / group) bytes, two in a byte and
    /// a 32-bit constant per group (bitsandbytes); with `double` ceil(n / 2) + g + 4 ceil(g / 256)
    /// for g = ceil(n / group), constants of 8 bits and a 32-bit one for every 256 of them.
    #[serde(rename = "nf4")]
    Nf4 {
        /// Numbers that share a constant.
        ///
        /// Values: 1 to 2^20.
        /// Default: 64.
        #[serde(default = "packed::block")]
        group: u32,
        /// Whether constants are quantized too.
        #[serde(default)]
        double: bool,
    },
    /// Packed: n numbers of a matrix take ceil(n / 2) + 2 ceil(n / group) bytes: a 16-bit scale per
    /// group, without zero points.
    #[serde(rename = "int4")]
    Int4 {
        /// Numbers that share a scale.
        ///
        /// Values: 1 to 2^20.
        /// Default: 128.
        #[serde(default = "packed::group")]
        group: u32,
    },
    /// Packed: n numbers of a matrix take ceil(n / 2) + ceil(n / 32) bytes: floats of 4 bits with an
    /// 8-bit scale for every 32 of them; of gpt-oss the experts alone.
    #[serde(rename = "mxfp4")]
    Mxfp4,
}

impl RawWeights {
    /// The format, if it is one, and how they are packed, if they are.
    pub(crate) const fn parts(self) -> (Option<Format>, Option<Packed>) {
        let format = match self {
            RawWeights::Fp32 => Format::Fp32,
            RawWeights::Tf32 => Format::Tf32,
            RawWeights::Fp16 => Format::Fp16,
            RawWeights::Bf16 => Format::Bf16,
            RawWeights::Fp8 => return (None, Some(Packed::Fp8)),
            RawWeights::Int8 => return (None, Some(Packed::Int8)),
            RawWeights::Nf4 { group, double } => {
                return (None, Some(Packed::Nf4 { group, double }));
            }
            RawWeights::Int4 { group } => return (None, Some(Packed::Int4 { group })),
            RawWeights::Mxfp4 => return (None, Some(Packed::Mxfp4)),
        };
        (Some(format), None)
    }
}
