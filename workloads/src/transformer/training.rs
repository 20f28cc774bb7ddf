//! How a transformer is trained: batch, formats, optimizer, checkpointing, and how ranks split it;
//! and the trace of one rank's step.
//!
//! The trace is that of the first pipeline stage, which keeps the most micro-batches. Its
//! parts: [`Training::problems`] refuses (`limits`), `schedule` orders passes, `step` carries them
//! out, `forward`, `backward` and `experts` are a block's ops, `beside` what exchange runs beside, `head` what is behind the blocks,
//! `last_stage` what the first stage waits for the last one,
//! `state` is what persists, `zero`
//! what ranks share, `network` where they are, `update` the optimizer, `working` what ops need
//! beside it all, `computing` what they take.
//! Invariant: a training without problems makes a trace without `Trace::problems`.

mod backward;
mod begin;
mod beside;
mod block;
mod compression;
mod computing;
mod eager;
mod experts;
mod head;
mod kept;
mod last_stage;
mod latent;
mod limits;
mod optimizer;
mod run;
mod schedule;
mod step;
mod tables;
mod update;
mod working;
mod zero;

use super::adapters::Lora;
use super::card::Card;
use super::format::{Format, Formats};
use serde::Deserialize;
use tiersim_models::units::Bytes;
use tiersim_models::workload::Trace;

pub use crate::limits::MAX_OPS;
pub use crate::limits::ShapeProblem;
pub use kept::KeptActivations;
pub use run::{MAX_STEPS, TrainingRun};
pub use schedule::split;

/// What changes the weights, and what it keeps per parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Two fp32 moments and, unless weights are fp32, an fp32 master copy: K = 12.
    AdamW,
    /// Two moments in the weights' own format and no master copy: K = 4 in 16 bits.
    AdamWithoutMaster,
    /// Two moments of 8 bits with a scale per block of 256, and an fp32 master copy.
    #[serde(rename = "adam_8bit")]
    Adam8Bit,
    /// One fp32 moment, a second moment per block of parameters, and an fp32 master copy.
    AdamMini,
    /// Second moments by row and column, no first moment, and an fp32 master copy.
    Adafactor,
    /// One fp32 moment and an fp32 master copy.
    Lion,
    /// An fp32 master copy and, with momentum, one fp32 moment.
    Sgd {
        /// Whether it has momentum.
        #[serde(default)]
        momentum: bool,
    },
}

impl Optimizer {
    /// As scenarios write it.
    pub const fn word(self) -> &'static str {
        match self {
            Optimizer::AdamW => "adam_w",
            Optimizer::AdamWithoutMaster => "adam_without_master",
            Optimizer::Adam8Bit => "adam_8bit",
            Optimizer::AdamMini => "adam_mini",
            Optimizer::Adafactor => "adafactor",
            Optimizer::Lion => "lion",
            Optimizer::Sgd { momentum: false } => "sgd()",
            Optimizer::Sgd { momentum: true } => "sgd(momentum: true)",
        }
    }
}

/// What of the forward pass is kept for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// Everything.
    None,
    /// All but the core of attention, which is computed again (Korthikanti et al., 2022).
    Selective,
    /// Only the input of every block.
    Full,
    /// Only the input of every k-th block.
    Every(u32),
    /// Only the input of the first n blocks of a virtual stage, and all that the others keep
    /// (Megatron-LM's `--recompute-method block` with `--recompute-num-layers` n).
    Layers(u32),
}

impl Checkpointing {
    /// As scenarios write it.
    pub fn word(self) -> String {
        match self {
            Checkpointing::None => "none".to_owned(),
            Checkpointing::Selective => "selective".to_owned(),
            Checkpointing::Full => "full".to_owned(),
            Checkpointing::Every(each) => format!("every({each})"),
            Checkpointing::Layers(first) => format!("layers({first})"),
        }
    }
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// In one kernel that keeps nothing of size sequence^2 (Dao et al., 2022).
    Flash,
    /// Scores, softmax and dropout are tensors of size heads x sequence^2.
    Eager,
}

/// How the head and the loss are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Logits of all tokens in fp32, which the loss turns into their gradient.
    #[default]
    Eager,
    /// In chunks of tokens, with the gradients of the head's input and of its matrix made on the
    /// way: logits are never all there (Liger's fused linear cross-entropy).
    Fused,
}

/// When weights are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateTime {
    /// All modules behind the last backward pass.
    #[default]
    After,
    /// Each module as soon as its gradient is complete, inside the last backward pass, so that
    /// gradients are given back at once.
    InBackward,
}

/// Which kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// One product per matrix; what lies between products is one kernel each: a norm, rotary
    /// positions, an activation, a residual, the update of a module.
    #[default]
    Compiled,
    /// Every operation of the makers' code is a kernel, as PyTorch runs it without a compiler, and
    /// keeps what its backward pass asks for.
    Eager,
    /// As [`Kernels::Compiled`], with one product for matrices of the same rows, such as queries,
    /// keys and values, as serving engines do. In training the gate's SiLU is computed again and not
    /// kept, and gradients of an activation's inputs take the place of these inputs, as in
    /// `liger_swiglu` and `liger_geglu` (github:linkedin/Liger-Kernel@00eba63).
    Fused,
}

impl Kernels {
    /// Every choice.
    pub const ALL: [Kernels; 3] = [Kernels::Compiled, Kernels::Eager, Kernels::Fused];

    /// The word used in scenarios, on the command line and in accounts.
    pub const fn word(self) -> &'static str {
        match self {
            Kernels::Compiled => "compiled",
            Kernels::Eager => "eager",
            Kernels::Fused => "fused",
        }
    }
}

/// Which kernels update weights on the device. PyTorch's third way, `foreach`, moves what its loop
/// moves, of all parameters at once; it is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKernels {
    /// PyTorch's loop over parameters: each operation of AdamW is a kernel.
    ForLoop,
    /// One per module, which reads and writes everything once (`fused=True`).
    Fused,
    /// Passes of Megatron-LM's optimizer of mixed precision: gradients of 16 bits are copied to 32,
    /// with fp16 weights the scale of the loss is taken out of them, their norm is taken and they are
    /// clipped to it; one kernel updates the master copy, and the weights are copied from that.
    MixedPrecision,
}

impl OptimizerKernels {
    /// Every choice.
    pub const ALL: [OptimizerKernels; 3] =
        [OptimizerKernels::ForLoop, OptimizerKernels::Fused, OptimizerKernels::MixedPrecision];

    /// The word used on the command line and in accounts.
    pub const fn word(self) -> &'static str {
        match self {
            OptimizerKernels::ForLoop => "for-loop",
            OptimizerKernels::Fused => "fused",
            OptimizerKernels::MixedPrecision => "mixed-precision",
        }
    }
}

/// How ranks split the model. Ranks = data x context x tensor x pipeline; experts are spread over
/// `expert` of the data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct Parallel {
    /// Replicas of the model, over which ZeRO partitions.
    ///
    /// Default: 1.
    pub data: u32,
    /// Ranks that each sequence is split over, whose keys and values go around a ring; ZeRO
    /// partitions over them too.
    ///
    /// Default: 1.
    pub context: u32,
    /// Ranks that each matrix is split over.
    ///
    /// Default: 1.
    pub tensor: u32,
    /// Whether what tensor parallelism leaves whole (norms, dropout) is split by sequence.
    ///
    /// Default: `false`.
    pub sequence: bool,
    /// Whether what tensor ranks exchange for the gradients of matrices that are split by outputs
    /// runs beside the products of these gradients, as Megatron-LM does it: the sum of the gradient
    /// of their input beside the gradient of weights, and with `sequence` the gather of that input
    /// beside the gradient of the input. Eager kernels, adapters and experts exchange with nothing
    /// beside.
    ///
    /// Default: `true`.
    pub overlap: bool,
    /// Stages.
    ///
    /// Default: 1.
    pub pipeline: u32,
    /// Stretches of layers per stage (m of Korthikanti et al.); 1 for plain 1F1B.
    ///
    /// Default: 1.
    pub interleave: u32,
    /// Ranks that the experts of a block are spread over.
    ///
    /// Default: 1.
    pub expert: u32,
}

impl Default for Parallel {
    fn default() -> Parallel {
        Parallel {
            data: 1,
            context: 1,
            tensor: 1,
            sequence: false,
            overlap: true,
            pipeline: 1,
            interleave: 1,
            expert: 1,
        }
    }
}

impl Parallel {
    /// All ranks.
    pub const fn ranks(&self) -> u64 {
        self.data as u64 * self.context as u64 * self.tensor as u64 * self.pipeline as u64
    }

    /// Ranks with the same part of the model, which ZeRO partitions over.
    pub const fn replicas(&self) -> u32 {
        self.data.saturating_mul(self.context)
    }
}

/// Tokens of a sequence that one of so many ranks has.
pub(crate) const fn own_sequence(sequence: u64, ranks: u64) -> u64 {
    sequence.div_ceil(if ranks == 0 { 1 } else { ranks })
}

/// ZeRO (Rajbhandari et al., 2020): what is partitioned over the data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zero {
    /// 0: nothing; 1: optimizer state; 2: gradients too; 3: weights too.
    pub stage: u8,
    /// Parts per thousand of the optimizer state whose update runs on the host's processors
    /// (ZeRO-Offload; less than 1000 is twin-flow). The state lives where the policy puts it.
    pub host_update: u16,
    /// Gradients are reduced in buckets of so many bytes.
    pub bucket: Bytes,
    /// Layers whose weights are gathered ahead (stage 3).
    pub prefetch: u32,
    /// Whether gathered weights go behind each visit (stage 3); otherwise what a forward pass has
    /// gathered stays for the backward pass (PyTorch's `SHARD_GRAD_OP`, or
    /// `reshard_after_forward=False`).
    pub reshard: bool,
    /// Whether communication has a stream of its own.
    pub overlap: bool,
}

impl Default for Zero {
    fn default() -> Zero {
        Zero {
            stage: 0,
            host_update: 0,
            bucket: Bytes::new(500_000_000),
            prefetch: 1,
            reshard: true,
            overlap: true,
        }
    }
}

/// Which experts tokens choose, of a model that has some; see [`crate::transformer::routing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Router {
    /// Seed of its draws.
    pub seed: u64,
    /// How unequally it chooses: the exponent of Zipf's law in hundredths, 0 for equally.
    pub skew: u32,
}

/// What feeds the model: memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Processes that prepare batches, per rank.
    pub workers: u32,
    /// Batches that each of them has ready; PyTorch's `prefetch_factor` unless said otherwise.
    ///
    /// Default: 2.
    #[serde(default = "prefetch")]
    pub prefetch: u32,
    /// Bytes of one token: 8 for an int64 id, more for labels and masks.
    ///
    /// Default: 8.
    #[serde(default = "token_bytes")]
    pub token_bytes: u32,
}

fn prefetch() -> u32 {
    2
}

fn token_bytes() -> u32 {
    8
}

/// A training step of one rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Training {
    /// The model.
    pub card: Card,
    /// Sequences of one step of one data-parallel replica.
    pub batch: u32,
    /// Sequences that go through the model at once; `batch / micro_batch` are accumulated.
    pub micro_batch: u32,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// The format of each kind of object.
    pub formats: Formats,
    /// What changes the weights.
    pub optimizer: Optimizer,
    /// When it does so.
    pub update: UpdateTime,
    /// What is kept for the backward pass.
    pub checkpointing: Checkpointing,
    /// How attention is computed.
    pub attention: Attention,
    /// Which kernels run.
    pub kernels: Kernels,
    /// Which of them update weights, if not those that go with the others: a loop
    /// where they are eager, one kernel otherwise.
    pub optimizer_kernels: Option<OptimizerKernels>,
    /// How the head and the loss are computed.
    pub loss: Loss,
    /// Whether there is dropout, whose masks are kept (1 byte each).
    pub dropout: bool,
    /// How ranks split the model.
    pub parallel: Parallel,
    /// What is partitioned.
    pub zero: Zero,
    /// Devices of one server: the ranks that are neighbours.
    pub devices: u32,
    /// Which experts tokens choose.
    pub router: Router,
    /// The data pipeline, if its memory counts.
    pub loader: Option<Loader>,
    /// What alone is trained, if not all of the model is.
    pub lora: Option<Lora>,
}

impl Training {
    /// Whether the device updates weights operation by operation: AdamW where kernels are eager,
    /// unless it is said otherwise.
    pub(crate) fn loops_over_parameters(&self) -> bool {
        let by_default = match self.kernels {
            Kernels::Eager => OptimizerKernels::ForLoop,
            Kernels::Compiled | Kernels::Fused => OptimizerKernels::Fused,
        };
        self.optimizer_kernels.unwrap_or(by_default) == OptimizerKernels::ForLoop
            && matches!(self.optimizer, Optimizer::AdamW | Optimizer::AdamWithoutMaster)
    }

    /// Whether the device updates weights in the passes of Megatron-LM's mixed precision.
    pub(crate) fn has_passes(&self) -> bool {
        self.optimizer_kernels == Some(OptimizerKernels::MixedPrecision)
    }

    /// Tokens of a sequence that this rank has.
    pub(crate) fn own_sequence(&self) -> u64 {
        own_sequence(self.sequence, self.parallel.context.into())
    }

    /// Micro-batches of a step.
    pub(crate) fn micro_batches(&self) -> u32 {
        self.batch.div_ceil(self.micro_batch.max(1))
    }

    /// One rank, one micro-batch of one sequence, bf16, AdamW, everything kept, no dropout, in
    /// servers of eight devices.
    pub fn new(card: Card, sequence: u64) -> Training {
        Training {
            card,
            batch: 1,
            micro_batch: 1,
            sequence,
            formats: Formats::all(Format::Bf16),
            optimizer: Optimizer::AdamW,
            update: UpdateTime::After,
            checkpointing: Checkpointing::None,
            attention: Attention::Flash,
            kernels: Kernels::Compiled,
            optimizer_kernels: None,
            loss: Loss::Eager,
            dropout: false,
            parallel: Parallel::default(),
            zero: Zero::default(),
            devices: 8,
            router: Router::default(),
            loader: None,
            lora: None,
        }
    }

    /// The trace of one step of one rank; the same for the same training.
    ///
    /// Panics if there are [`Training::problems`].
    pub fn trace(&self) -> Trace {
        match self.made() {
            Ok(made) => made.trace,
            Err(problems) => panic!("a training with problems: {problems:?}"),
        }
    }
}
