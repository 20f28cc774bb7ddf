//! What is done with a model, as written.
//!
//! Training, generation, serving, or structured operators in its place: one struct each.

use crate::text::quantity::{Duration, Quantity, Size};
use serde::Deserialize;
use tiersim_workloads::transformer::adapters::Lora;
use tiersim_workloads::transformer::generation::AttentionOn;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, OptimizerKernels, Parallel,
    UpdateTime,
};

/// What is done with a model, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Work", rename_all = "snake_case")]
pub(crate) enum RawWork {
    /// A training step.
    Train(RawTrain),
    /// Text generation: a prompt and the tokens that follow it.
    Generate(RawGenerate),
    /// A pass through structured operators, in the place of a model.
    Semiseparable(RawSemiseparable),
    /// [Requests](../howto/serving.md) that are served.
    Serve(RawServe),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "train", deny_unknown_fields)]
pub(crate) struct RawTrain {
    /// Sequences of one step of one replica.
    ///
    /// Values: 1 to 2^20.
    pub(crate) batch: u32,
    /// Sequences that go through the model at once; gradients of the others are added.
    ///
    /// Values: divides `batch`.
    /// Default: `batch`.
    pub(crate) micro_batch: Option<u32>,
    /// Tokens of a sequence.
    ///
    /// Values: 1 to 2^32 - 1.
    /// Default: required, or `sequences`.
    pub(crate) sequence: Option<u64>,
    /// Tokens per sequence of each step, in the place of `sequence`: the trace has a step for each.
    ///
    /// Values: 1 to 1000.
    pub(crate) sequences: Option<Vec<u32>>,
    /// What changes the weights.
    ///
    /// Default: `adam_w`.
    pub(crate) optimizer: Option<Optimizer>,
    /// When weights are updated: behind the last backward pass, or inside it, each module as soon
    /// as its gradient is complete.
    ///
    /// Default: `after`.
    pub(crate) update: Option<UpdateTime>,
    /// What is kept for the backward pass: everything; all but the core of attention; the input of
    /// every block; that of every k-th; that of the first n blocks of each virtual stage and
    /// everything of the others (Megatron-LM's `block` method).
    ///
    /// Default: `none`.
    pub(crate) checkpointing: Option<Checkpointing>,
    /// Whether scores are tensors of size heads x sequence^2.
    ///
    /// Default: `flash`.
    pub(crate) attention: Option<Attention>,
    /// Which kernels run, see [Kernels of a step](#kernels-of-a-step).
    ///
    /// Default: `compiled`.
    pub(crate) kernels: Option<Kernels>,
    /// Which kernels update weights on the device: `for_loop`, PyTorch's loop over parameters of
    /// AdamW, eight kernels or more for each; `fused`, one per module (`fused=True`); or
    /// `mixed_precision`, Megatron-LM's passes over gradients of 32 bits and a master copy.
    ///
    /// Default: `for_loop` with `kernels: eager`, `fused` otherwise.
    pub(crate) optimizer_kernels: Option<OptimizerKernels>,
    /// How head and loss are computed: with the logits of all tokens in fp32, or in chunks of
    /// tokens that make the gradients of the head's input and matrix on the way
    /// ([Liger](../howto/memory.md#activations)).
    ///
    /// Default: `eager`.
    pub(crate) loss: Option<Loss>,
    /// Whether masks of dropout are kept, 1 byte each.
    ///
    /// Default: `false`.
    pub(crate) dropout: Option<bool>,
    /// How ranks split the model.
    ///
    /// Default: one rank.
    pub(crate) parallel: Option<Parallel>,
    /// What is partitioned over the replicas.
    ///
    /// Default: stage 0.
    pub(crate) zero: Option<RawZero>,
    /// Which experts tokens choose.
    ///
    /// Default: all experts alike.
    pub(crate) router: Option<RawRouter>,
    /// The data pipeline's memory on the host.
    ///
    /// Default: left out.
    pub(crate) loader: Option<Loader>,
    /// Adapters of low rank, which alone are trained.
    ///
    /// Default: all is trained.
    pub(crate) lora: Option<Lora>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "generate", deny_unknown_fields)]
pub(crate) struct RawGenerate {
    /// Sequences that go through a layer at once.
    ///
    /// Values: 1 to 2^20.
    pub(crate) batch: u32,
    /// How many such batches go through a layer before the next layer's turn: FlexGen's block
    /// schedule, in which weights that come from afar serve all of them.
    ///
    /// Values: 1 and more.
    /// Default: 1.
    pub(crate) batches: Option<u32>,
    /// Tokens of each prompt.
    ///
    /// Values: 1 to 2^40.
    pub(crate) prompt: u64,
    /// Tokens that each sequence grows by.
    ///
    /// Values: 1 and more.
    pub(crate) tokens: u32,
    /// Whether the first step is the prompt's, which makes the first token; otherwise all steps
    /// decode, and the cache of the prompt is there from the start.
    ///
    /// Default: `true`.
    pub(crate) prefill: Option<bool>,
    /// Where decode steps attend: on the `host` the processors read the cache in memory of the
    /// host, and only queries and results cross the link.
    ///
    /// Default: `device`.
    pub(crate) attention_on: Option<AttentionOn>,
    /// As below `serve`. `eager` without `kv_block` makes keys and values anew in each step, by a
    /// copy of each, from those of past tokens and those of the new ones.
    ///
    /// Default: `compiled`.
    pub(crate) kernels: Option<Kernels>,
    /// Positions of one object of the cache, per layer and batch.
    ///
    /// Values: 1 and more.
    /// Default: all in one.
    pub(crate) kv_block: Option<u64>,
    /// Ranks that each matrix is split over. Where they are more than `kv_heads`, several have the
    /// same head of keys and values.
    ///
    /// Values: divides heads, `kv_heads` or is a multiple of these, `ffn` and `vocab`.
    /// Default: 1.
    pub(crate) tensor: Option<u32>,
    /// Ranks that each sequence is split over (context parallelism): each has its part of the
    /// cache and all weights. A prompt goes around a ring as in training; in decode steps each
    /// rank attends to its part, and the parts are put together by an all-gather of the softmax's
    /// sums and an all-reduce. Not with experts, a window, activations of 8 bits, `kernels: eager`
    /// or attention on the host.
    ///
    /// Values: 1 to 2^20; twice as many divide `prompt` where there is a prefill.
    /// Default: 1.
    pub(crate) context: Option<u32>,
    /// Which experts tokens choose.
    ///
    /// Default: all experts alike.
    pub(crate) router: Option<RawRouter>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "semiseparable", deny_unknown_fields)]
pub(crate) struct RawSemiseparable {
    /// N: rows and columns of each operator.
    ///
    /// Values: 1 to 2^48.
    pub(crate) size: u64,
    /// Operators, one behind the other.
    ///
    /// Values: 1 to 10,000.
    pub(crate) layers: u32,
    /// Vectors that go through at once; each counts as a token.
    ///
    /// Values: 1 to 2^20.
    pub(crate) batch: u32,
    /// Products U_k V_k^T, each of the whole size; as many as there are at most.
    ///
    /// Values: 1 to 2^32 - 1.
    /// Default: 1.
    pub(crate) levels: Option<u32>,
    /// The core of each level is an operator again; not with `levels`.
    ///
    /// Default: `false`.
    pub(crate) nested: Option<bool>,
    /// Ranks that U and V are split over, by columns; each has vectors of its own.
    ///
    /// Values: 1 to 2^20.
    /// Default: 1.
    pub(crate) ranks: Option<u32>,
    /// Whether factors are gathered on a stream of their own.
    ///
    /// Default: `true`.
    pub(crate) overlap: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "serve", deny_unknown_fields)]
pub(crate) struct RawServe {
    /// A trace of requests: `.jsonl` (Mooncake's objects) or `.csv` (columns of the Azure LLM
    /// inference traces, or of BurstGPT), `.gz` and `.zst` too, see [Paths](#paths).
    pub(crate) requests: String,
    /// Only so many requests, the first ones.
    ///
    /// Values: 1 or more.
    /// Default: all.
    pub(crate) first: Option<u64>,
    /// Only requests that arrive before; both may be written.
    ///
    /// Default: no end.
    pub(crate) until: Option<Quantity<Duration>>,
    /// Tokens of a block of keys and values; those of the requests' names if they have any.
    ///
    /// Values: 1 to 2^20.
    /// Default: 512.
    pub(crate) block_tokens: Option<u32>,
    /// Blocks that exist at most at a time, in all tiers together.
    ///
    /// Values: 1 to 2^31.
    pub(crate) kv_blocks: u64,
    /// Requests that run at most at a time.
    ///
    /// Values: 1 to 2^20.
    /// Default: 256.
    pub(crate) max_batch: Option<u32>,
    /// Tokens of an iteration, of prompts and answers together.
    ///
    /// Values: above `max_batch`, to 2^30.
    /// Default: 8192.
    pub(crate) max_tokens_per_step: Option<u32>,
    /// Ops of an iteration, and objects of a block: one per group of layers.
    ///
    /// Values: 1 to the model's layers.
    /// Default: 1.
    pub(crate) layer_groups: Option<u32>,
    /// Decode iterations of the same requests that one op stands for at most.
    ///
    /// Values: 1 to 2^20.
    /// Default: 1.
    pub(crate) merge: Option<u32>,
    /// `compiled`: one product per matrix; `fused`: one for matrices of the same rows (queries,
    /// keys and values; the two wide ones) and one kernel for all experts of a layer; `eager`: one
    /// per operation, see [Kernels of a step](#kernels-of-a-step).
    ///
    /// Default: `fused`.
    pub(crate) kernels: Option<Kernels>,
    /// Ranks that each matrix is split over, and that serve together; the sums over ranks are ops
    /// of the network. Where they are more than `kv_heads`, several have the same head of keys and
    /// values.
    ///
    /// Values: divides heads, `kv_heads` or is a multiple of these, `ffn` and `vocab`.
    /// Default: 1.
    pub(crate) tensor: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Zero", deny_unknown_fields)]
pub(crate) struct RawZero {
    /// 0: nothing is partitioned; 1: optimizer state; 2: gradients too; 3: weights too.
    pub(crate) stage: u8,
    /// Share of the optimizer state, 0 to 1, whose update runs on the host's processors; kept in
    /// parts per thousand. Without a master copy it is 0 or 1, and the host changes the weights
    /// themselves in its memory, as FSDP2 does.
    ///
    /// Default: 0.
    pub(crate) host_update: Option<f64>,
    /// Gradients are reduced in buckets of this size.
    ///
    /// Default: `mb(500)`.
    pub(crate) bucket: Option<Quantity<Size>>,
    /// Blocks whose weights are gathered ahead (stage 3).
    ///
    /// Default: 1.
    pub(crate) prefetch: Option<u32>,
    /// Whether gathered weights go behind each pass of a block (stage 3); with `false` those of a
    /// forward pass stay whole for the backward pass, as FSDP's `SHARD_GRAD_OP` and FSDP2's
    /// `reshard_after_forward: false` have it.
    ///
    /// Default: `true`.
    pub(crate) reshard: Option<bool>,
    /// Whether communication has a stream of its own.
    ///
    /// Default: `true`.
    pub(crate) overlap: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Router", deny_unknown_fields)]
pub(crate) struct RawRouter {
    /// Seed of the draws.
    ///
    /// Default: 0.
    pub(crate) seed: Option<u64>,
    /// How unequally experts are chosen: the exponent of Zipf's law, 0 to 10; kept in hundredths.
    ///
    /// Default: 0.
    pub(crate) skew: Option<f64>,
}
