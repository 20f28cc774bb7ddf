//! The workload: objects, ops that use them in a recorded order.
//!
//! A [`Trace`] mirrors the trace folder table by table; [`Trace::problems`] lists the rules that
//! one breaks. What follows from the order (births, releases, passes) is worked out
//! in [`crate::lifetime`].
//! Invariant: ops are in trace order, an op's uses name an object once, and every use of an object
//! that does not persist lies between its birth and its release.

pub use crate::collective::{Collective, CollectiveKind};
use crate::ids::{ModuleId, ObjectId, OpId, RankId};
use crate::kernel::Kernel;
use crate::units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// A name: short ones need no memory of their own, copies of long ones share theirs.
pub type Name = smol_str::SmolStr;

crate::words! {
    /// What an object holds, in the field's terms.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ObjectKind {
        /// A parameter.
        Weight = "weight",
        /// The gradient of a parameter.
        Gradient = "gradient",
        /// Optimizer state, such as Adam's two moments.
        Optimizer = "optimizer",
        /// A full-precision copy of a parameter.
        Master = "master",
        /// An output of the forward pass.
        Activation = "activation",
        /// Keys and values of past tokens.
        Kv = "kv",
        /// Anything else: inputs, temporaries, gradients of activations, workspace.
        Buffer = "buffer",
        /// Memory that was there before a recording began, of which only the size is known.
        State = "state",
    }

    /// Which part of a step an op belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// Forward pass of training.
        Forward = "forward",
        /// Backward pass of training.
        Backward = "backward",
        /// Parameter update.
        Optimizer = "optimizer",
        /// Inference over the prompt.
        Prefill = "prefill",
        /// Inference of one token.
        Decode = "decode",
        /// Anything else.
        Other = "other",
    }

    /// How an op touches an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// `r`: the old contents are read and kept.
        Read = "r",
        /// `w`: the whole object is overwritten; the old contents are not needed.
        Write = "w",
        /// `rw`: the old contents are read and changed.
        ReadWrite = "rw",
    }

    /// What becomes of the time in which a recorded device waited for its host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Gaps {
        /// The device waits as long as it did: every op starts no earlier, behind what it waits
        /// for, than it did.
        #[default]
        Keep = "keep",
        /// Time in which nothing ran is left out, as if the host were never late.
        Drop = "drop",
    }

    /// How it is known that an op uses an object.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Known {
        /// The recording says so, or a generator made it so.
        #[default]
        Seen = "seen",
        /// It follows from what the recording says, by a rule that may err.
        Inferred = "inferred",
        /// Nothing says so: it stands in for what cannot be known.
        Unknown = "unknown",
    }
}

impl Phase {
    /// Whether modules compute their outputs in this phase.
    pub const fn is_forward(self) -> bool {
        matches!(self, Phase::Forward | Phase::Prefill | Phase::Decode)
    }
}

impl Mode {
    /// Whether the old contents are needed.
    pub const fn reads(self) -> bool {
        !matches!(self, Mode::Write)
    }

    /// Whether the contents change.
    pub const fn writes(self) -> bool {
        !matches!(self, Mode::Read)
    }
}

/// Training statistics of one parameter, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Mean of |exp_avg|, Adam's first moment.
    pub adam_m: Option<f64>,
    /// Mean of sqrt(exp_avg_sq), the root of Adam's second moment.
    pub adam_v: Option<f64>,
    /// Norm of the gradient.
    pub grad_norm: Option<f64>,
}

/// One storage: the unit that is placed and moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Unique name; for a parameter its name in the model.
    pub name: Name,
    /// What it holds.
    pub kind: ObjectKind,
    /// Size.
    pub bytes: Bytes,
    /// Element type in PyTorch's spelling, such as `float32`.
    pub dtype: String,
    /// Exists before the first op and after the last one.
    pub persistent: bool,
    /// The module that owns it.
    pub module: Option<ModuleId>,
    /// Recorded statistics, if any.
    pub statistics: Statistics,
    /// The same as training goes on: what is known when each step of a run begins, the first one
    /// first. After the last of them it stays what it is; `None` if nobody recorded any.
    pub history: Option<Arc<[Statistics]>>,
    /// The op after which the recorded program gave the memory back; without it, the last use.
    pub freed_after: Option<OpId>,
}

impl Object {
    /// One of which nothing else is known: made by the step that uses it, of no module, without a
    /// dtype or statistics, and alive until its last use.
    pub fn new(name: impl Into<Name>, kind: ObjectKind, bytes: Bytes) -> Object {
        let (dtype, statistics) = (String::new(), Statistics::default());
        let (persistent, module, history, freed_after) = (false, None, None, None);
        let name = name.into();
        Object { name, kind, bytes, dtype, persistent, module, statistics, history, freed_after }
    }
}

/// What an op runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The device: its objects are in HBM, or used in place.
    #[default]
    Device,
    /// The host's processors: its objects are in memory of the host.
    Cpu,
    /// Links between devices: its objects are in HBM, and all ranks of the group take part.
    Network(Collective),
    /// Nothing: the stream waits for as long as the device would take for such FLOPs and bytes, as
    /// a stage of a pipeline waits for the others.
    Idle,
}

impl Unit {
    /// Whether the device is at work meanwhile; while the host computes or the stream only waits it
    /// is not.
    #[inline]
    pub fn is_of_device(self) -> bool {
        matches!(self, Unit::Device | Unit::Network(_))
    }
}

/// One kernel: the unit of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Which step of the recording it belongs to.
    pub step: u32,
    /// Which part of the step.
    pub phase: Phase,
    /// The kernel's name. Whatever shows or keeps it shares it.
    pub name: Name,
    /// The module it works for.
    pub module: Option<ModuleId>,
    /// In-order queue of the device that it runs on.
    pub stream: u16,
    /// The process that issues it.
    pub rank: RankId,
    /// How long it took on the recording device.
    pub duration: Option<Span>,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read plus bytes written in the device's own memory.
    pub bytes: Bytes,
    /// When it started on the recording device.
    pub at: Option<Time>,
    /// It may not start before, counted from the start of the run: what it works for arrives then.
    pub release: Option<Time>,
    /// Ops of other streams that must end first, beyond what data already demands.
    pub after: Vec<OpId>,
    /// What it runs on.
    pub unit: Unit,
    /// The kernels that it stands for, if they are known; their FLOPs and bytes are its own.
    pub kernels: Option<Arc<[Kernel]>>,
    /// Its rows in [`Trace::uses`].
    pub uses: Range<u32>,
}

/// What the names of ops begin with that run again, in generated traces and under policies that
/// drop what can be made again.
pub const AGAIN: &str = "recompute";

impl Op {
    /// Whether it makes again what had been dropped.
    #[inline]
    pub fn runs_again(&self) -> bool {
        self.name.starts_with(AGAIN)
    }

    /// An op on the first stream of the first rank of which nothing else is said: no FLOPs, no
    /// bytes, no times, no module.
    pub fn new(step: u32, phase: Phase, name: impl Into<Name>, uses: Range<u32>) -> Op {
        let (stream, rank, flops, bytes) = (0, RankId(0), 0, Bytes::ZERO);
        let (name, module, after, kernels) = (name.into(), None, Vec::new(), None);
        let (duration, at, release, unit) = (None, None, None, Unit::Device);
        Op {
            step,
            phase,
            name,
            module,
            stream,
            rank,
            duration,
            flops,
            bytes,
            at,
            release,
            after,
            unit,
            kernels,
            uses,
        }
    }
}

/// An op touches an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which object.
    pub object: ObjectId,
    /// How.
    pub mode: Mode,
    /// Which part of it; `None` for all of it, from one end to the other.
    pub part: Option<PartialUse>,
    /// How that is known; for people, no run depends on it.
    pub known: Known,
}

/// Pieces of an object that lie anywhere in it, such as the rows of a table that a batch looks up.
///
/// Of a use that reads, it is what is read; of one that reads and writes, what is written: it reads
/// all. What is written so is appended: other bytes than the uses before it wrote, as a token's
/// keys and values are. A copy over older contents brings what was appended since these were the
/// present ones; every other copy is of the whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialUse {
    /// How many.
    pub pieces: NonZeroU32,
    /// Bytes of one that lie beside each other.
    pub piece: NonZeroU32,
}

impl PartialUse {
    /// `pieces` of `piece` bytes each, no more than an object of `whole` bytes has; `None` where
    /// that is nothing, or more than is counted.
    pub fn of(pieces: u128, piece: u128, whole: Bytes) -> Option<PartialUse> {
        let pieces = pieces.min(u128::from(whole.get()).checked_div(piece)?);
        let narrow = |number| u32::try_from(number).ok().and_then(NonZeroU32::new);
        Some(PartialUse { pieces: narrow(pieces)?, piece: narrow(piece)? })
    }

    /// All of them.
    pub fn bytes(self) -> Bytes {
        Bytes::new(u64::from(self.pieces.get()) * u64::from(self.piece.get()))
    }
}

impl Use {
    /// All of an object.
    pub const fn whole(object: ObjectId, mode: Mode) -> Use {
        Use { object, mode, part: None, known: Known::Seen }
    }

    /// Bytes read of an object of `whole` bytes.
    pub fn read(&self, whole: Bytes) -> Bytes {
        match (self.mode, self.part) {
            (Mode::Write, _) => Bytes::ZERO,
            (Mode::Read, Some(part)) => part.bytes().min(whole),
            (Mode::Read, None) | (Mode::ReadWrite, _) => whole,
        }
    }

    /// Bytes written of it.
    pub fn written(&self, whole: Bytes) -> Bytes {
        match (self.mode, self.part) {
            (Mode::Read, _) => Bytes::ZERO,
            (Mode::ReadWrite, Some(part)) => part.bytes().min(whole),
            (Mode::ReadWrite, None) | (Mode::Write, _) => whole,
        }
    }

    /// Bytes of it that use in place is charged for: the more of the two, as they go at the same
    /// time.
    pub fn charged(&self, whole: Bytes) -> Bytes {
        self.read(whole).max(self.written(whole))
    }

    /// Requests of at most `granule` bytes that this takes: none of them is of two pieces.
    pub fn requests(&self, whole: Bytes, granule: Bytes) -> u64 {
        let streamed = self.charged(whole).get().div_ceil(granule.get());
        let Some(PartialUse { pieces, piece }) = self.part else { return streamed };
        let scattered = u64::from(pieces.get()) * u64::from(piece.get()).div_ceil(granule.get());
        streamed.max(scattered)
    }
}

/// Where a trace comes from and what it recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceMeta {
    /// Short name.
    pub name: String,
    /// What it holds; what the durations are.
    pub about: String,
    /// Numeric format of the recorded run, such as `fp32`.
    pub precision: String,
    /// Sequences per step.
    pub batch: u32,
    /// Tokens per sequence.
    pub sequence: u32,
    /// How, when and on what.
    pub recorded: Recorded,
}

/// The circumstances of a recording, in words; all empty for a trace that was generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "recorded", deny_unknown_fields)]
pub struct Recorded {
    /// With which program and settings.
    pub how: String,
    /// The date.
    pub when: String,
    /// The machine whose durations these are.
    pub on: String,
}

/// A recorded access trace, table by table.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The header.
    pub meta: TraceMeta,
    /// Module names, by [`ModuleId`].
    pub modules: Vec<Name>,
    /// By [`ObjectId`].
    pub objects: Vec<Object>,
    /// By [`OpId`], in the order in which the program issued them.
    pub ops: Vec<Op>,
    /// Grouped by op; see [`Op::uses`].
    pub uses: Vec<Use>,
}

/// A table of the trace, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// `objects.csv`.
    Objects,
    /// `ops.csv`.
    Ops,
    /// `uses.csv`.
    Uses,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Table::Objects => "objects.csv",
            Table::Ops => "ops.csv",
            Table::Uses => "uses.csv",
        })
    }
}

/// A rule that a trace breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceProblem {
    /// Where.
    pub table: Table,
    /// The row, counted from zero without the header.
    pub row: usize,
    /// What is wrong, with the value found.
    pub found: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Trace {
    /// The uses of one op.
    #[inline]
    pub fn uses_of(&self, op: OpId) -> &[Use] {
        let range = &self.ops[op.index()].uses;
        &self.uses[range.start as usize..range.end as usize]
    }

    /// Tokens of one step.
    pub fn tokens_per_step(&self) -> u64 {
        u64::from(self.meta.batch) * u64::from(self.meta.sequence)
    }

    /// Leaves modules out that neither an object nor an op names, and numbers the others in the
    /// order in which objects and then ops name them: as they are when a trace that was written is
    /// read. So a recording and the folder that is imported from it have the same modules.
    pub fn number_modules(&mut self) {
        let mut numbers: Vec<Option<ModuleId>> = vec![None; self.modules.len()];
        let mut names: Vec<Name> = Vec::new();
        let of_objects = self.objects.iter_mut().map(|object| &mut object.module);
        let of_ops = self.ops.iter_mut().map(|op| &mut op.module);
        for module in of_objects.chain(of_ops).flatten() {
            // A number without a name is a problem of the trace, and stays one.
            let Some(number) = numbers.get_mut(module.index()) else { continue };
            let name = &self.modules[module.index()];
            *module = *number.get_or_insert_with(|| {
                names.push(name.clone());
                ModuleId::at(names.len() - 1)
            });
        }
        self.modules = names;
    }
}
