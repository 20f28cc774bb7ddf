//! Transformer-shaped traces, generated from a handful of numbers.
//!
//! For plans that must be tried at the size of a known model where nobody has recorded it. Order,
//! sizes and lifetimes follow the architecture exactly: parameters count as published, mixed
//! precision keeps 16 bytes per parameter (Rajbhandari et al., "ZeRO", 2020, section 3), and what a
//! layer keeps for its backward pass is Korthikanti et al., "Reducing Activation Recomputation in
//! Large Transformer Models", 2022, section 4, without dropout masks and without the s^2 term, as
//! fused attention has it. Time is left to the roofline; Adam's statistics are made up by a stated
//! formula.
//! Invariant: a shape without [`Layered::problems`] makes a trace without `Trace::problems`, and of
//! at most [`MAX_OPS`] ops.

mod backward;
mod build;
mod limits;
mod model;
mod parts;
mod passes;
pub mod training;

use crate::transformer::format::Format;
use serde::Deserialize;
use tiersim_models::workload::Trace;

pub use limits::{MAX_OPS, ShapeProblem};
pub(crate) use limits::{Range, outside};

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Learned positions, LayerNorm with bias, biases everywhere, one wide matrix and GELU.
    Gpt2,
    /// Rotary positions, RMSNorm, no biases, two wide matrices and SwiGLU.
    Llama,
}

/// The numeric format of weights, gradients, activations and the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 4 bytes; Adam changes the weights themselves.
    Fp32,
    /// 2 bytes, beside an fp32 master copy in training.
    Bf16,
    /// As [`Precision::Bf16`].
    Fp16,
}

/// What the model is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// One step: forward, backward and Adam over `batch` sequences.
    Train {
        /// Tokens per sequence.
        sequence: u32,
    },
    /// One step per token that each of `batch` sequences grows by.
    Decode {
        /// Positions that the KV cache has room for.
        context: u32,
        /// How many of them, the last ones, are generated.
        tokens: u32,
    },
}

/// The shape of a decoder-only transformer and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layered {
    /// What a block is made of.
    pub family: Family,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width between the matrices of the feed-forward part.
    pub ffn: u32,
    /// Query heads; each is `hidden / heads` wide.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Rows of the embedding.
    pub vocab: u32,
    /// Rows of the learned positions; 0 for a family without.
    pub positions: u32,
    /// Whether the head uses the embedding's matrix.
    pub tied: bool,
    /// Numeric format.
    pub precision: Precision,
    /// Sequences.
    pub batch: u32,
    /// What it does.
    pub mode: Mode,
}

impl Layered {
    /// Llama 3 8B in bf16 at a batch of one.
    ///
    /// Source: `config.json` of meta-llama/Meta-Llama-3-8B, as published with the weights.
    pub fn llama_3_8b(mode: Mode) -> Layered {
        Layered {
            family: Family::Llama,
            layers: 32,
            hidden: 4096,
            ffn: 14_336,
            heads: 32,
            kv_heads: 8,
            vocab: 128_256,
            positions: 0,
            tied: false,
            precision: Precision::Bf16,
            batch: 1,
            mode,
        }
    }

    /// Every parameter of the model, biases and norms included; a tied head counts once.
    pub fn parameters(&self) -> u64 {
        let layer: u64 = parts::layer(self, 0).modules().map(|module| module.parameters()).sum();
        let around = parts::EmbeddingAndHead::new(self);
        let ends: u64 = around.modules().map(|module| module.parameters()).sum();
        u64::from(self.layers) * layer + ends
    }

    /// Parameters that every token is multiplied with: the matrices of the blocks and the head.
    pub fn matrix_parameters(&self) -> u64 {
        let layer: u64 = parts::layer(self, 0).modules().map(|module| module.matrix).sum();
        u64::from(self.layers) * layer + u64::from(self.vocab) * u64::from(self.hidden)
    }

    /// The trace; the same for the same shape.
    ///
    /// Panics if the shape has [`Layered::problems`].
    pub fn trace(&self) -> Trace {
        let problems = self.problems();
        assert!(problems.is_empty(), "a shape with problems: {problems:?}");
        match self.mode {
            Mode::Train { sequence } => passes::train(self, sequence),
            Mode::Decode { context, tokens } => passes::decode(self, context, tokens),
        }
    }

    /// Width of all keys, or all values, of one token.
    fn kv_width(&self) -> u64 {
        u64::from(self.hidden / self.heads) * u64::from(self.kv_heads)
    }
}

impl Family {
    /// The word used in scenarios.
    pub const fn word(self) -> &'static str {
        match self {
            Family::Gpt2 => "gpt2",
            Family::Llama => "llama",
        }
    }
}

impl Precision {
    /// The same as the format of a card's objects.
    pub(crate) const fn format(self) -> Format {
        match self {
            Precision::Fp32 => Format::Fp32,
            Precision::Bf16 => Format::Bf16,
            Precision::Fp16 => Format::Fp16,
        }
    }

    /// The word used in scenarios.
    pub const fn word(self) -> &'static str {
        self.format().word()
    }

    /// Bytes of one number.
    pub const fn bytes(self) -> u64 {
        self.format().bytes()
    }
}
