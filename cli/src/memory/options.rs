//! What can be typed behind `tiersim memory`: options only, none with a value of its own.
//!
//! Invariant: a value that nobody typed is absent, so that what does not go together can be
//! refused.

use crate::output::Format as Output;
use crate::typed::{
    Millionths, attention, checkpointing, count, family, format, kernels, levels, loss, millionths,
    optimizer, optimizer_kernels, packed, place, size, targets, update,
};
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tiersim_models::results::memory_account::Place;
use tiersim_workloads::memory::semiseparable::Shape;
use tiersim_workloads::transformer::adapters::Targets;
use tiersim_workloads::transformer::card::Family;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, OptimizerKernels, UpdateTime,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Convention {
    /// The formulas of docs/howto/memory.md.
    Tiersim,
    /// DeepSpeed's own estimators.
    Deepspeed,
}

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Parameters of the model, such as 7.5e9, 7.5B or 7500000000.
    #[arg(long, value_name = "P", value_parser = count)]
    pub(crate) params: Option<u64>,
    /// The model: a config.json of Hugging Face, or the name of a known one such as llama-2-7b; in
    /// the place of --params and the options of its shape.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<String>,
    /// Its weights' own list of tensors: .safetensors or model.safetensors.index.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// GPUs that run the model [default: 1, or --gpus-per-node times --nodes].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) gpus: Option<u64>,
    /// GPUs of one node [default: all of them, 8 at most; 1 for DeepSpeed's estimators].
    #[arg(long, value_name = "G", value_parser = count)]
    pub(crate) gpus_per_node: Option<u64>,
    /// Nodes [default: GPUs over GPUs per node].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) nodes: Option<u64>,
    /// Stage of ZeRO [default: 0].
    #[arg(long, value_name = "0..3", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) stage: Option<u8>,
    /// Optimizer state per parameter, K [default: that of --optimizer].
    #[arg(long, value_name = "K", value_parser = millionths)]
    pub(crate) optimizer_bytes: Option<Millionths>,
    /// Optimizer: adamw, adam-without-master, adam-8bit, adam-mini, adafactor, lion, sgd or
    /// sgd-momentum [default: adamw].
    #[arg(long, value_name = "NAME", value_parser = optimizer)]
    pub(crate) optimizer: Option<Optimizer>,
    /// Format of weights, gradients, activations, keys and values: fp32, tf32, fp16, bf16, fp8 or
    /// int8 [default: that of the model's config.json, or else bf16]; of the factors of a
    /// structured operator [default: fp16].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) precision: Option<Format>,
    /// How the matrices of a --model's blocks are stored: nf4, nf4-double or int4, with :G for G
    /// weights per scale, or mxfp4, fp8 or int8 [default: as --precision says, or else the model's
    /// config.json]; in training with --lora and of 4 bits only.
    #[arg(long, value_name = "HOW", value_parser = packed)]
    pub(crate) quantize: Option<Packed>,
    /// Format of gradients [default: that of --precision].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) gradients: Option<Format>,
    /// Format of what is kept for the backward pass; int8 compresses it [default: --precision].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) activations: Option<Format>,
    /// Format of keys and values [default: that of --precision].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) kv: Option<Format>,
    /// Family of the model, as a scenario's card has it, such as gpt2, llama, falcon or bert
    /// [default: gpt2].
    #[arg(long, value_name = "NAME", value_parser = family)]
    pub(crate) family: Option<Family>,
    /// Blocks of the model.
    #[arg(long, value_name = "L", value_parser = count)]
    pub(crate) layers: Option<u64>,
    /// Width of the model.
    #[arg(long, value_name = "H", value_parser = count)]
    pub(crate) hidden: Option<u64>,
    /// Attention heads.
    #[arg(long, value_name = "A", value_parser = count)]
    pub(crate) heads: Option<u64>,
    /// Heads of keys and values [default: --heads].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) kv_heads: Option<u64>,
    /// Width between the matrices of the feed-forward part [default: four times --hidden].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) ffn: Option<u64>,
    /// Logits per token; without it the head is left out.
    #[arg(long, value_name = "V", value_parser = count)]
    pub(crate) vocab: Option<u64>,
    /// Sequences of one replica and step, or served at once [default: --micro-batch, or 1].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) batch: Option<u64>,
    /// Sequences that go through the model at once [default: --batch].
    #[arg(long, value_name = "B", value_parser = count)]
    pub(crate) micro_batch: Option<u64>,
    /// Tokens of a sequence; with --inference of prompt and answer.
    #[arg(long, value_name = "S", value_parser = count)]
    pub(crate) sequence: Option<u64>,
    /// What is kept for the backward pass: none (everything), selective, full, every:K
    /// or layers:N [default: none].
    #[arg(long, value_name = "WHAT", value_parser = checkpointing)]
    pub(crate) checkpointing: Option<Checkpointing>,
    /// When weights are updated: after the backward pass, or in-backward, each module of a --model
    /// as soon as its gradient is complete [default: after].
    #[arg(long, value_name = "WHEN", value_parser = update)]
    pub(crate) update: Option<UpdateTime>,
    /// How attention is computed: eager or flash [default: eager; flash where keys and values are
    /// compressed].
    #[arg(long, value_name = "HOW", value_parser = attention)]
    pub(crate) attention: Option<Attention>,
    /// Which kernels run: compiled, eager or fused; eager ones of a --model only [default:
    /// compiled].
    #[arg(long, value_name = "WHICH", value_parser = kernels)]
    pub(crate) kernels: Option<Kernels>,
    /// Which kernels update weights by AdamW: for-loop or fused [default: for-loop with --kernels
    /// eager, fused otherwise].
    #[arg(long, value_name = "WHICH", value_parser = optimizer_kernels)]
    pub(crate) optimizer_kernels: Option<OptimizerKernels>,
    /// How head and loss are computed: eager, or fused in chunks of tokens that keep no logits
    /// [default: eager].
    #[arg(long, value_name = "HOW", value_parser = loss)]
    pub(crate) loss: Option<Loss>,
    /// Rank of adapters (LoRA), which alone are trained of a --model [default: all is trained].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32))]
    pub(crate) lora: Option<u32>,
    /// Matrices that have adapters, of q, k, v, o, gate, up and down [default: q,v].
    #[arg(long, value_name = "LIST", value_parser = targets)]
    pub(crate) lora_targets: Option<Targets>,
    /// Whether there is dropout [default: true for families with biases: gpt2, opt,
    /// bloom, bert, roberta].
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    pub(crate) dropout: Option<bool>,
    /// Ranks that each matrix is split over [default: 1].
    #[arg(long, value_name = "T", value_parser = count)]
    pub(crate) tensor: Option<u64>,
    /// Ranks that each sequence is split over, whose keys and values go around a ring [default: 1].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) context_parallel: Option<u64>,
    /// Splits by sequence over the same ranks what --tensor leaves whole.
    #[arg(long)]
    pub(crate) sequence_parallel: bool,
    /// Stages of the pipeline [default: 1].
    #[arg(long, value_name = "P", value_parser = count)]
    pub(crate) pipeline: Option<u64>,
    /// Stretches of blocks per stage [default: 1].
    #[arg(long, value_name = "M", value_parser = count)]
    pub(crate) interleave: Option<u64>,
    /// Data-parallel ranks that the experts of a block are spread over [default: 1].
    #[arg(long, value_name = "E", value_parser = count)]
    pub(crate) expert: Option<u64>,
    /// Where optimizer state goes: none, cpu or nvme [default: none].
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub(crate) offload_optimizer: Option<Place>,
    /// Where weights go: none, cpu or nvme [default: none].
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub(crate) offload_param: Option<Place>,
    /// Where keys and values go: none, cpu or nvme [default: none].
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub(crate) offload_kv: Option<Place>,
    /// Share of the optimizer state that is offloaded, 0 to 1 [default: 1].
    #[arg(long, value_name = "SHARE", value_parser = millionths)]
    pub(crate) offload_ratio: Option<Millionths>,
    /// Buckets for communication on each GPU, such as 1GB [default: left out; 500MB with --model
    /// and --sequence from stage 2 on].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) bucket: Option<u64>,
    /// Pinned buffers of each rank on the host [default: left out].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) pinned: Option<u64>,
    /// Memory of each GPU that nothing else can have: contexts, workspaces [default: left out].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) reserve: Option<u64>,
    /// Parameters of the largest layer, which stage 3 gathers [default: left out; with --model
    /// and --sequence of its own blocks and tables].
    #[arg(long, value_name = "L", value_parser = count)]
    pub(crate) largest_layer: Option<u64>,
    /// Layers gathered ahead beside that [default: 1 with --model and --sequence, as in a scenario; else
    /// 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) prefetch_layers: Option<u32>,
    /// Processes of each rank that prepare batches [default: left out].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) workers: Option<u64>,
    /// Batches that each of them has ready [default: 2].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) prefetch: Option<u64>,
    /// Bytes of a token there [default: 8].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) token_bytes: Option<u64>,
    /// Serving instead of training: weights, keys and values.
    #[arg(long)]
    pub(crate) inference: bool,
    /// Tokens of a page of keys and values [default: 16].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) kv_block: Option<u64>,
    /// Whose formulas [default: tiersim].
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub(crate) convention: Option<Convention>,
    /// Whether the model is built in parts; DeepSpeed's estimators [default: true].
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    pub(crate) zero_init: Option<bool>,
    /// What host memory is multiplied by; DeepSpeed's estimators [default: 1.5].
    #[arg(long, value_name = "X")]
    pub(crate) buffer_factor: Option<f64>,
    /// Size of a structured operator T + U V^T, in the place of a model.
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) semiseparable: Option<u64>,
    /// Levels of a structured operator T + sum of U_k V_k^T, each of the whole size, of rank log2
    /// of the rank before; or nested, where the core of each level is an operator again [default:
    /// 1].
    #[arg(long, value_name = "K|nested", value_parser = levels)]
    pub(crate) levels: Option<Shape>,
    /// One level only, as --levels 1.
    #[arg(long, conflicts_with = "levels")]
    pub(crate) flat: bool,
    /// Format of the dense matrix beside a structured operator [default: fp32].
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) dense: Option<Format>,
    /// A machine of the project, or a size such as gib(24): which changes make the job fit, and
    /// what a step takes then.
    #[arg(long, value_name = "GPU")]
    pub(crate) fit: Option<String>,
    /// A machine of the project, or a size: what every optimisation of training saves and costs,
    /// alone and behind those before it.
    #[arg(long, value_name = "GPU", conflicts_with = "fit")]
    pub(crate) table: Option<String>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,
    /// Names of the options that were typed, with `_` for `-`.
    #[arg(skip)]
    pub(crate) typed: BTreeSet<String>,
}
