//! A training job, as accounts and searches are asked about it, and what a rank of it holds.

use crate::memory::activations::{OfStage, of_stage};
use crate::memory::optimizer::of_numbers;
use crate::memory::rank::{Bytes, Rank};
use crate::memory::streamed::Passes;
use crate::memory::zero::{MILLION, Offload, State};
use crate::memory::{Overflow, product, share};
use crate::transformer::adapters::Lora;
use crate::transformer::card::Card;
use crate::transformer::format::{Format, Formats};
use crate::transformer::packed::Packed;
use crate::transformer::training::{
    self, Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, OptimizerKernels, Parallel,
    UpdateTime, Zero,
};

/// What the optimizer keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// So many millionths of a byte per parameter (K).
    PerParameter(u64),
    /// What this optimizer does.
    Named(Optimizer),
}

/// How the model is split, beside ZeRO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Ranks that each matrix is split over.
    pub tensor: u64,
    /// Ranks that each sequence is split over.
    pub context: u64,
    /// Whether what that leaves whole is split by sequence.
    pub by_sequence: bool,
    /// Whether tensor ranks exchange beside gradients of products.
    pub overlap: bool,
    /// Stages.
    pub stages: u64,
    /// Stretches of blocks per stage.
    pub interleave: u64,
    /// Data-parallel ranks that the experts of a block are spread over.
    pub expert: u64,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        let (by_sequence, overlap) = (false, true);
        Pipeline {
            tensor: 1,
            context: 1,
            by_sequence,
            overlap,
            stages: 1,
            interleave: 1,
            expert: 1,
        }
    }
}

/// What goes through the model in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its blocks, and logits per token: a vocabulary of 0 is a model without a head.
    pub shape: Card,
    /// Sequences of one replica and step.
    pub batch: u64,
    /// Those that go through at once.
    pub micro_batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Format of what is kept.
    pub format: Format,
    /// How attention is computed.
    pub attention: Attention,
    /// Which kernels run.
    pub kernels: Kernels,
    /// Which of them update weights, if not those that go with the others.
    pub optimizer_kernels: Option<OptimizerKernels>,
    /// How the head and the loss are computed.
    pub loss: Loss,
    /// Whether there is dropout.
    pub dropout: bool,
    /// What is kept.
    pub checkpointing: Checkpointing,
    /// When weights are updated.
    pub update: UpdateTime,
    /// The data pipeline of each rank.
    pub loader: Option<Loader>,
}

/// A training job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Training {
    /// Parameters of the model (P).
    pub params: u64,
    /// Its card, if it has one: what a rank has is counted module by module then.
    pub card: Option<Card>,
    /// Format of weights.
    pub weights: Format,
    /// How the matrices of the blocks of a model with a card are stored, if not in it.
    pub packed: Option<Packed>,
    /// Format of gradients.
    pub gradients: Format,
    /// What the optimizer keeps.
    pub optimizer: Keeps,
    /// All GPUs.
    pub gpus: u64,
    /// Those of one node.
    pub gpus_per_node: u64,
    /// ZeRO's stage, 0 to 3.
    pub stage: u8,
    /// What is offloaded.
    pub offload: Offload,
    /// How the model is split beside ZeRO.
    pub split: Pipeline,
    /// Bytes of buckets for communication, on the GPU. Where it is not said it is left out, but for
    /// a model with a card, whose steps have the default one.
    pub bucket: Option<u64>,
    /// Bytes of pinned buffers per rank, on the host.
    pub pinned: u64,
    /// Bytes of the GPU that nothing of this can have: contexts, workspaces, fragments.
    pub reserved: u64,
    /// Parameters of the largest layer that stage 3 gathers; 0 if they do not count, or follow from
    /// the card.
    pub largest_layer: u64,
    /// Layers that are gathered ahead beside it.
    pub prefetch: u64,
    /// Whether gathered weights go behind each visit, as [`training::Zero::reshard`] says.
    pub reshard: bool,
    /// What goes through.
    pub step: Option<Step>,
    /// What alone is trained of a model with a card, if not all of it is.
    pub lora: Option<Lora>,
}

impl Training {
    /// Model state alone, in 16 bits with AdamW: so many parameters on so many GPUs, eight in a
    /// node.
    pub fn new(params: u64, gpus: u64) -> Training {
        Training {
            params,
            card: None,
            weights: Format::Bf16,
            packed: None,
            gradients: Format::Bf16,
            optimizer: Keeps::Named(Optimizer::AdamW),
            gpus,
            gpus_per_node: gpus.min(8),
            stage: 0,
            offload: Offload::default(),
            split: Pipeline::default(),
            bucket: None,
            pinned: 0,
            reserved: 0,
            largest_layer: 0,
            prefetch: 0,
            reshard: true,
            step: None,
            lora: None,
        }
    }

    /// What a generated step of a model is, with what is offloaded.
    pub fn of(job: &training::Training, offload: Offload) -> Training {
        let training::Training { card, parallel, formats, zero, .. } = job;
        let split = Pipeline {
            tensor: parallel.tensor.into(),
            context: parallel.context.into(),
            by_sequence: parallel.sequence,
            overlap: parallel.overlap,
            stages: parallel.pipeline.into(),
            interleave: parallel.interleave.into(),
            expert: parallel.expert.into(),
        };
        let step = Step {
            shape: card.clone(),
            batch: job.batch.into(),
            micro_batch: job.micro_batch.into(),
            sequence: job.sequence,
            format: formats.activations,
            attention: job.attention,
            kernels: job.kernels,
            optimizer_kernels: job.optimizer_kernels,
            loss: job.loss,
            dropout: job.dropout,
            checkpointing: job.checkpointing,
            update: job.update,
            loader: None,
        };
        Training {
            card: Some(card.clone()),
            weights: formats.weights,
            packed: formats.packed,
            gradients: formats.gradients,
            optimizer: Keeps::Named(job.optimizer),
            stage: zero.stage,
            offload,
            split,
            bucket: Some(zero.bucket.get()),
            prefetch: zero.prefetch.into(),
            reshard: zero.reshard,
            step: Some(step),
            lora: job.lora,
            ..Training::new(card.parameters(), parallel.ranks())
        }
    }

    /// Replicas of the model: what ZeRO partitions over (N).
    pub fn data(&self) -> u64 {
        (self.gpus / (self.split.tensor * self.split.stages)).max(1)
    }

    /// The last stage of a pipeline by itself: its blocks, of which the first stages have one more
    /// where they do not divide, and one table, which is the head's matrix or the copy of the
    /// embedding that the head uses. One micro-batch is in flight. `None` without a card, and of
    /// stages whose blocks are interleaved: the last of them keeps several micro-batches as well.
    pub(super) fn last_stage(&self) -> Option<Training> {
        let Pipeline { stages, interleave, .. } = self.split;
        let card = self.card.as_ref().filter(|_| stages > 1 && interleave == 1)?;
        let layers = card.layers / u32::try_from(stages).ok()?;
        let card = Card { layers, tied: true, ..card.clone() };
        let step = self.step.as_ref().map(|step| Step { shape: card.clone(), ..step.clone() });
        let split = Pipeline { stages: 1, ..self.split };
        let gpus = self.gpus / stages;
        (layers > 0).then(|| Training { card: Some(card), step, split, gpus, ..self.clone() })
    }

    /// What a rank has of a model that has a card.
    pub fn rank(&self) -> Option<Rank> {
        self.card.as_ref().map(|card| Rank::of(card, self.lora, &self.split, self.data()))
    }

    /// Parameters of one rank, before ZeRO partitions them: of the first stage, or a share where
    /// modules are not known.
    pub(super) fn params_of_rank(&self) -> Result<u128, Overflow> {
        let split = u128::from(self.split.tensor) * u128::from(self.split.stages);
        self.rank().map_or(Ok(share(self.params.into(), split)), |rank| rank.params())
    }

    /// Those of them that are trained.
    pub fn trained(&self) -> Result<u128, Overflow> {
        self.rank().map_or_else(|| self.params_of_rank(), |rank| rank.trained())
    }

    /// The state of one rank at a stage of ZeRO; 0 for what it would have without.
    pub fn state(&self, stage: u8) -> Result<State, Overflow> {
        let Training { weights, packed, gradients, optimizer, .. } = *self;
        if let Some(rank) = self.rank() {
            return rank.state(&Bytes { weights, packed, gradients, optimizer }, stage);
        }
        let params = self.params_of_rank()?;
        let optimizer = match optimizer {
            Keeps::PerParameter(millionths) => {
                share(product(&[params, millionths.into()])?, MILLION.into())
            }
            Keeps::Named(named) => of_numbers(named, weights, params)?.sum()?,
        };
        let state = State::of(params, weights.bytes().into(), gradients.bytes().into(), 0)?;
        Ok(State { optimizer, ..state }.of_rank(stage, self.data().into()))
    }

    /// The most gradients of one rank at once, where its modules are known and updated inside the
    /// backward pass.
    pub(super) fn streamed_gradients(&self) -> Result<Option<u128>, Overflow> {
        let step = self.step.as_ref().filter(|step| step.update == UpdateTime::InBackward);
        let (Some(step), Some(rank)) = (step, self.rank()) else { return Ok(None) };
        let passes = Passes {
            format: self.gradients,
            stage: self.stage,
            bucket: self.bucket.unwrap_or(Zero::default().bucket.get()),
            micro_batches: step.batch.div_ceil(step.micro_batch.max(1)),
            pipeline: self.split.stages,
            interleave: self.split.interleave,
        };
        rank.streamed(&passes).map(Some)
    }

    /// Activations of the first stage.
    pub(crate) fn activations(&self, step: &Step) -> Result<OfStage, Overflow> {
        of_stage(&self.shaped(step).ok_or(Overflow)?)
    }

    /// The same job as traces are generated from, with no more replicas than experts need; `None`
    /// for a model without a card and for what does not fit such a job's numbers.
    pub fn generated(&self) -> Option<training::Training> {
        self.card.as_ref()?;
        self.shaped(self.step.as_ref()?)
    }

    /// A step of this job, whose shape stands for the model's.
    fn shaped(&self, step: &Step) -> Option<training::Training> {
        let small = |number: u64| u32::try_from(number).ok();
        let expert = small(self.split.expert)?;
        let parallel = Parallel {
            data: expert,
            context: small(self.split.context)?,
            tensor: small(self.split.tensor)?,
            sequence: self.split.by_sequence,
            overlap: self.split.overlap,
            pipeline: small(self.split.stages)?,
            interleave: small(self.split.interleave)?,
            expert,
        };
        let formats = Formats {
            weights: self.weights,
            packed: self.packed,
            gradients: self.gradients,
            activations: step.format,
            kv: Format::Bf16,
        };
        Some(training::Training {
            batch: small(step.batch)?,
            micro_batch: small(step.micro_batch)?,
            formats,
            checkpointing: step.checkpointing,
            attention: step.attention,
            kernels: step.kernels,
            optimizer_kernels: step.optimizer_kernels,
            loss: step.loss,
            dropout: step.dropout,
            parallel,
            lora: self.lora,
            // Where ranks are does not change what they hold.
            devices: 1,
            ..training::Training::new(step.shape.clone(), step.sequence)
        })
    }

    /// What the ops of the same job's step need beside what they keep, and by which kernels: where
    /// no such step is made of those that were asked for, what compiled ones need is the least.
    /// `None` where none is made.
    pub(super) fn working(&self) -> Option<(u64, Kernels)> {
        let step = self.generated()?;
        let of = |kernels| {
            let step = training::Training { kernels, ..step.clone() };
            Some((step.working()?, kernels))
        };
        let compiled = (step.kernels != Kernels::Compiled).then_some(Kernels::Compiled);
        of(step.kernels).or_else(|| of(compiled?))
    }
}
