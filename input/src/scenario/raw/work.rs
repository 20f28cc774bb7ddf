//! What is done with a model, as written.

use crate::text::quantity::{Duration, Quantity, Size};
use serde::Deserialize;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::generation::AttentionOn;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Loader, Optimizer, Parallel,
};

/// What is done with a model, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Work", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawWork {
    Train {
        batch: u32,
        micro_batch: Option<u32>,
        sequence: u64,
        optimizer: Option<Optimizer>,
        checkpointing: Option<Checkpointing>,
        attention: Option<Attention>,
        dropout: Option<bool>,
        parallel: Option<Parallel>,
        zero: Option<RawZero>,
        router: Option<RawRouter>,
        loader: Option<Loader>,
    },
    Generate {
        batch: u32,
        batches: Option<u32>,
        prompt: u64,
        tokens: u32,
        prefill: Option<bool>,
        attention_on: Option<AttentionOn>,
        kv_block: Option<u64>,
        tensor: Option<u32>,
        router: Option<RawRouter>,
    },
    Semiseparable {
        size: u64,
        layers: u32,
        batch: u32,
        levels: Option<u32>,
        nested: Option<bool>,
        ranks: Option<u32>,
        overlap: Option<bool>,
    },
    Serve {
        requests: String,
        first: Option<u64>,
        until: Option<Quantity<Duration>>,
        block_tokens: Option<u32>,
        kv_blocks: u64,
        max_batch: Option<u32>,
        max_tokens_per_step: Option<u32>,
        layer_groups: Option<u32>,
        merge: Option<u32>,
    },
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
    pub(crate) weights: Option<Format>,
    pub(crate) gradients: Option<Format>,
    pub(crate) activations: Option<Format>,
    pub(crate) kv: Option<Format>,
}
