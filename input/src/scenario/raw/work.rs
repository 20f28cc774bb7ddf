//! What is done with a model, as written.

use crate::text::quantity::{Duration, Quantity, Size};
use serde::Deserialize;
use tiersim_workloads::transformer::adapters::Lora;
use tiersim_workloads::transformer::card::Family;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::generation::AttentionOn;
use tiersim_workloads::transformer::packed::{self, Packed};
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, Parallel, UpdateTime,
};

/// A model card, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Card", deny_unknown_fields)]
pub(crate) struct RawCard {
    pub(crate) name: Option<String>,
    pub(crate) family: Family,
    pub(crate) layers: u32,
    pub(crate) hidden: u32,
    pub(crate) ffn: u32,
    pub(crate) heads: u32,
    pub(crate) kv_heads: Option<u32>,
    pub(crate) head_dim: Option<u32>,
    pub(crate) vocab: u32,
    pub(crate) positions: Option<u32>,
    pub(crate) tied: Option<bool>,
    pub(crate) qkv_bias: Option<bool>,
    pub(crate) experts: Option<RawExperts>,
    pub(crate) window: Option<u32>,
}

/// Experts of a card, as written.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Experts", deny_unknown_fields)]
pub(crate) struct RawExperts {
    pub(crate) count: u32,
    pub(crate) active: u32,
    pub(crate) shared: Option<u32>,
}

/// What is done with a model, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Work", rename_all = "snake_case")]
pub(crate) enum RawWork {
    Train(RawTrain),
    Generate(RawGenerate),
    Semiseparable(RawSemiseparable),
    Serve(RawServe),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "train", deny_unknown_fields)]
pub(crate) struct RawTrain {
    pub(crate) batch: u32,
    pub(crate) micro_batch: Option<u32>,
    pub(crate) sequence: Option<u64>,
    pub(crate) sequences: Option<Vec<u32>>,
    pub(crate) optimizer: Option<Optimizer>,
    pub(crate) update: Option<UpdateTime>,
    pub(crate) checkpointing: Option<Checkpointing>,
    pub(crate) attention: Option<Attention>,
    pub(crate) kernels: Option<Kernels>,
    pub(crate) loss: Option<Loss>,
    pub(crate) dropout: Option<bool>,
    pub(crate) parallel: Option<Parallel>,
    pub(crate) zero: Option<RawZero>,
    pub(crate) router: Option<RawRouter>,
    pub(crate) loader: Option<Loader>,
    pub(crate) lora: Option<Lora>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "generate", deny_unknown_fields)]
pub(crate) struct RawGenerate {
    pub(crate) batch: u32,
    pub(crate) batches: Option<u32>,
    pub(crate) prompt: u64,
    pub(crate) tokens: u32,
    pub(crate) prefill: Option<bool>,
    pub(crate) attention_on: Option<AttentionOn>,
    pub(crate) kernels: Option<Kernels>,
    pub(crate) kv_block: Option<u64>,
    pub(crate) tensor: Option<u32>,
    pub(crate) router: Option<RawRouter>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "semiseparable", deny_unknown_fields)]
pub(crate) struct RawSemiseparable {
    pub(crate) size: u64,
    pub(crate) layers: u32,
    pub(crate) batch: u32,
    pub(crate) levels: Option<u32>,
    pub(crate) nested: Option<bool>,
    pub(crate) ranks: Option<u32>,
    pub(crate) overlap: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "serve", deny_unknown_fields)]
pub(crate) struct RawServe {
    pub(crate) requests: String,
    pub(crate) first: Option<u64>,
    pub(crate) until: Option<Quantity<Duration>>,
    pub(crate) block_tokens: Option<u32>,
    pub(crate) kv_blocks: u64,
    pub(crate) max_batch: Option<u32>,
    pub(crate) max_tokens_per_step: Option<u32>,
    pub(crate) layer_groups: Option<u32>,
    pub(crate) merge: Option<u32>,
    pub(crate) kernels: Option<Kernels>,
    pub(crate) tensor: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Zero", deny_unknown_fields)]
pub(crate) struct RawZero {
    pub(crate) stage: u8,
    pub(crate) host_update: Option<f64>,
    pub(crate) bucket: Option<Quantity<Size>>,
    pub(crate) prefetch: Option<u32>,
    pub(crate) overlap: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Router", deny_unknown_fields)]
pub(crate) struct RawRouter {
    pub(crate) seed: Option<u64>,
    pub(crate) skew: Option<f64>,
}

/// The format of each kind of object; those left out have the precision of all.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename = "Formats", deny_unknown_fields)]
pub(crate) struct RawFormats {
    pub(crate) weights: Option<RawWeights>,
    pub(crate) gradients: Option<Format>,
    pub(crate) activations: Option<Format>,
    pub(crate) kv: Option<Format>,
}

/// Numbers as products use them, or packed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Format", rename_all = "snake_case")]
pub(crate) enum RawWeights {
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
    #[serde(rename = "nf4")]
    Nf4 {
        #[serde(default = "packed::block")]
        group: u32,
        #[serde(default)]
        double: bool,
    },
    #[serde(rename = "int4")]
    Int4 {
        #[serde(default = "packed::group")]
        group: u32,
    },
}

impl RawWeights {
    /// The format, if it is one, and how they are packed, if they are.
    pub(crate) const fn parts(self) -> (Option<Format>, Option<Packed>) {
        let format = match self {
            RawWeights::Fp32 => Format::Fp32,
            RawWeights::Tf32 => Format::Tf32,
            RawWeights::Fp16 => Format::Fp16,
            RawWeights::Bf16 => Format::Bf16,
            RawWeights::Fp8 => Format::Fp8,
            RawWeights::Int8 => Format::Int8,
            RawWeights::Nf4 { group, double } => {
                return (None, Some(Packed::Nf4 { group, double }));
            }
            RawWeights::Int4 { group } => return (None, Some(Packed::Int4 { group })),
        };
        (Some(format), None)
    }
}
