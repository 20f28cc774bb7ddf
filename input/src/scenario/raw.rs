//! A scenario as written: mirrors the `.ron` file field by field.
//!
//! Nothing is checked here but form. Unknown fields are errors everywhere; a field that may be left
//! out is an `Option`, so that its default is chosen in one place, where it is resolved.

pub(crate) mod card;
mod memory;
mod sweep;
pub(crate) mod work;

pub(crate) use memory::{
    RawAllocator, RawCompaction, RawCompress, RawCompression, RawCosts, RawHidden, RawMicroBatch,
    RawModel, RawNuma, RawPin, RawPressure, RawResponses, RawThresholds,
};
pub(crate) use sweep::{RawAxis, RawSample, RawSweep, RawValues};

use crate::text::quantity::{Budget, Duration, Quantity, Size};
use card::{RawCard, RawFormats};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use tiersim_models::op_times::AttentionKernel;
use tiersim_models::workload::Gaps;
use tiersim_workloads::transformer::format::Format;
use work::RawWork;

/// What [`crate::scenario::spelling`] reads.
pub(crate) type Elsewhere = IgnoredAny;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(rename = "Scenario", deny_unknown_fields)]
pub struct RawScenario {
    /// Version of the format.
    ///
    /// Values: 2.
    pub(crate) schema: u32,
    /// The question that it answers.
    ///
    /// Values: 1 to 1000 bytes.
    pub(crate) about: String,
    /// The machine, see [Paths](#paths); of several each runs every case.
    ///
    /// Type: text, [machine](#machines-of-a-scenario), or a list of up to 16 of these.
    #[serde(rename = "hardware")]
    pub(crate) _hardware: Elsewhere,
    /// Replaces capacities of the machine; counted as assumed numbers.
    #[serde(default)]
    pub(crate) capacity: BTreeMap<String, Quantity<Size>>,
    /// What runs.
    pub(crate) workload: RawWorkload,
    /// How tiers place objects, for every case.
    ///
    /// Values: one per tier.
    #[serde(default)]
    pub(crate) allocators: Vec<RawAllocator>,
    /// Memory that no object can have, for every case.
    #[serde(default)]
    pub(crate) hidden: Vec<RawHidden>,
    /// On which node of DRAM objects lie, for every case.
    ///
    /// Default: policies name tiers.
    pub(crate) numa: Option<RawNuma>,
    /// Objects that are bound to a node, for every case.
    ///
    /// Values: up to 100.
    /// Default: `[]`.
    pub(crate) pins: Option<Vec<RawPin>>,
    /// What a framework adds, for every case.
    pub(crate) runtime: Option<RawRuntime>,
    /// Formats in which cases may have tiers store objects.
    ///
    /// Values: up to 8; a case names each.
    #[serde(default)]
    pub(crate) compression: Vec<RawCompression>,
    /// What is compared, in this order.
    ///
    /// Values: 1 to 1000.
    pub(crate) policies: Vec<RawCase>,
    /// What varies; used by `tiersim sweep` only.
    pub(crate) sweep: Option<RawSweep>,
    /// Seed of every draw (jitter).
    ///
    /// Values: 64 bits.
    /// Default: 1.
    pub(crate) seed: Option<u64>,
    /// What must hold after the run.
    ///
    /// Type: list of [expectations](#expectations), up to 1000.
    #[serde(default)]
    pub(crate) expect: Vec<Elsewhere>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Workload")]
pub(crate) enum RawWorkload {
    /// Read from a folder, see [Traces](#traces).
    Trace(RawTrace),
    /// Generated from a model and what is done with it, see [Model](#model).
    Model(Box<RawModelled>),
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Trace", deny_unknown_fields)]
pub(crate) struct RawTrace {
    /// The [trace](#traces)'s folder, or a [file that becomes
    /// one](../howto/import-a-profiler-trace.md), see [Paths](#paths).
    pub(crate) path: String,
    /// Of such a file: whether idle ops stand for the time in which the device waited for its host.
    ///
    /// Default: `keep`.
    pub(crate) gaps: Option<Gaps>,
    /// How long each op takes.
    pub(crate) time: RawTime,
    /// How often all steps of the trace are replayed, back to back; up to 1000000 with `jitter` or
    /// a tier that is watched. See [Long runs](../explanation/steady-state.md#long-runs).
    ///
    /// Values: 1 to 1000000000.
    /// Default: 3.
    pub(crate) repeat: Option<u32>,
    /// Replays at the start that are left out of the figures; more are added until the run is in
    /// its [steady state](../explanation/steady-state.md#steady-state).
    ///
    /// Values: 0 to `repeat` - 1.
    /// Default: 1 (0 if `repeat` is 1).
    pub(crate) warmup: Option<u32>,
    /// Replays of a long run, warm-up included, that this run is the beginning of: the mean of all
    /// its steps is predicted with an error, see [Long runs that
    /// vary](../explanation/steady-state.md#long-runs-that-vary).
    ///
    /// Values: `repeat` to 1000000000000.
    /// Default: none.
    pub(crate) horizon: Option<u64>,
    /// Relative standard deviation of op times.
    ///
    /// Values: 0 to 1.
    /// Default: 0.
    pub(crate) jitter: Option<f64>,
    /// Of `Trace` only: how many devices of one server run the trace together.
    ///
    /// Values: 1 to the `devices` of the hardware's [server](#server).
    /// Default: 1.
    pub(crate) ranks: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Model", deny_unknown_fields)]
pub(crate) struct RawModelled {
    /// The name of a known model, or the path of a `config.json` (any name that ends in `.json`),
    /// see [Paths](#paths).
    ///
    /// Default: required, but for `card` and `semiseparable`.
    pub(crate) model: Option<String>,
    /// The dimensions of a model, in the place of `model` and `weights`.
    pub(crate) card: Option<RawCard>,
    /// The model's `.safetensors` file, its header as `.json`, or its `.index.json`: the truth
    /// about sizes, and about formats that are not written.
    pub(crate) weights: Option<String>,
    /// The format of every kind of object.
    ///
    /// Default: what the model's files say; required where they do not.
    pub(crate) precision: Option<Format>,
    /// Formats of single kinds.
    ///
    /// Default: `precision` for each.
    pub(crate) formats: Option<RawFormats>,
    /// Whether the output layer's matrix is the table of tokens; `false` stands for a framework
    /// that fetches the one matrix twice per pass: two objects.
    ///
    /// Default: the model's.
    pub(crate) tied: Option<bool>,
    /// What is done: a training step, text generation, [requests](../howto/serving.md) that are
    /// served, or a pass through structured operators in the place of a model.
    pub(crate) mode: RawWork,
    /// How long each op takes.
    pub(crate) time: RawTime,
    /// As of `Trace`: how often all steps are replayed, back to back.
    ///
    /// Default: 3.
    pub(crate) repeat: Option<u32>,
    /// As of `Trace`: replays at the start that are left out of the figures.
    ///
    /// Default: 1 (0 if `repeat` is 1).
    pub(crate) warmup: Option<u32>,
    /// As of `Trace`: replays of the long run that this is the beginning of.
    ///
    /// Default: none.
    pub(crate) horizon: Option<u64>,
    /// As of `Trace`: relative standard deviation of op times.
    ///
    /// Values: 0 to 1.
    /// Default: 0.
    pub(crate) jitter: Option<f64>,
    /// Where statistics of modules come from, see [Statistics](#statistics).
    ///
    /// Default: made up, in training only.
    pub(crate) statistics: Option<RawStatistics>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Statistics", rename_all = "snake_case")]
pub(crate) enum RawStatistics {
    /// Given: a table with the columns `module`, and `adam_m`, `adam_v`, `grad_norm` as far as they
    /// are known. `module` is a module's name, in which `*` stands for any text; the first row that
    /// matches counts, and every module with weights needs one.
    Csv(String),
    /// Drawn: each of the three evenly between 0 and 1, from the seed and the module's name.
    Synthetic(u64),
    /// There are none: a policy that ranks by any is an error.
    None,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "OpTime", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawTime {
    /// `launch + max(ceil(flops * 10^12 / peak), ceil(bytes * 10^12 / memory))` ps, of `peak` and
    /// `memory` the share that [Efficiency](#efficiency) says.
    Roofline {
        /// The *spec* whose `compute` is used, named as in [Paths](#paths).
        ///
        /// Default: the scenario's `hardware`.
        device: Option<String>,
        /// Which peak of that `compute`, such as `tf32`.
        precision: String,
    },
    /// The sum of the times of the op's kernels, each by the formulas that the device's [op
    /// times](#op-times-of-a-device) have numbers for, and by the roofline where they have none.
    OpTimes {
        /// The *spec* whose `compute` is used, named as in [Paths](#paths).
        ///
        /// Default: the scenario's `hardware`.
        device: Option<String>,
        /// Which peak of that `compute`, such as `tf32`.
        precision: String,
        /// The kernels that attention to many new tokens and its gradients run on, of those that the
        /// device's op times have [numbers](op-times.md) for.
        ///
        /// Default: in training `cudnn`, which PyTorch runs on an H200 from 2.11 on, if the device has
        /// numbers for it (older ones run `flash_attention_2`); in all other work the kernels of the
        /// engine that attention was measured with.
        attention: Option<AttentionKernel>,
    },
    /// `ceil(duration * scale)` ps; every op of the trace must have a `duration_ns`.
    Recorded {
        /// Factor on the recorded time.
        ///
        /// Values: 10^-6 to 10^6.
        /// Default: 1.
        scale: Option<f64>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Case", deny_unknown_fields)]
pub(crate) struct RawCase {
    /// Label in tables and charts; unique.
    ///
    /// Values: 1 to 80 bytes, printable.
    pub(crate) name: String,
    /// What decides.
    ///
    /// Type: one of the [policies](policies.md).
    #[serde(rename = "policy")]
    pub(crate) _policy: Elsewhere,
    /// How much of the first tier it may use.
    ///
    /// Values: or `share_of_peak(x)`.
    /// Default: the machine's (or `capacity`'s).
    pub(crate) hbm: Option<Quantity<Budget>>,
    /// Replaces what the scenario's list says of these tiers.
    ///
    /// Values: one per tier.
    #[serde(default)]
    pub(crate) allocators: Vec<RawAllocator>,
    /// Replaces what the scenario's list says of these tiers and kinds.
    #[serde(default)]
    pub(crate) hidden: Vec<RawHidden>,
    /// Objects larger than this are placed and moved in pieces of this size, see below.
    ///
    /// Default: whole objects.
    pub(crate) chunk: Option<Quantity<Size>>,
    /// Most sequences of a micro-batch in this case; for `train_steps` only.
    ///
    /// Values: 1 to `batch`.
    /// Default: the workload's.
    pub(crate) micro_batch: Option<u32>,
    /// Which tier is watched, and what is done when it runs full.
    ///
    /// Default: nobody watches.
    pub(crate) pressure: Option<RawPressure>,
    /// Replaces it.
    ///
    /// Default: the scenario's.
    pub(crate) numa: Option<RawNuma>,
    /// Replaces the whole list.
    ///
    /// Values: up to 100.
    /// Default: the scenario's.
    pub(crate) pins: Option<Vec<RawPin>>,
    /// Stands in its place; `()` for none.
    ///
    /// Default: the scenario's.
    pub(crate) runtime: Option<RawRuntime>,
    /// The formats of `compression` in which its tiers store objects, by name.
    ///
    /// Default: tiers store objects as they are.
    pub(crate) compress: Option<RawCompress>,
}

/// What a framework adds.
#[derive(Debug, Deserialize)]
#[serde(rename = "Runtime", deny_unknown_fields)]
pub(crate) struct RawRuntime {
    /// The host's work before each op (Python, launch). Unless the thread runs `ahead` it is in
    /// series with the device: the op's stream stands still meanwhile. Ops that only wait have none.
    ///
    /// Values: 0 to 10 s.
    /// Default: `us(0)`.
    pub(crate) per_op: Option<Quantity<Duration>>,
    /// The host's work for each object that comes into HBM, before its copy may begin. A device's
    /// thread sees to one object after the other, in the order in which nothing else keeps them.
    ///
    /// Values: 0 to 10 s.
    /// Default: `us(0)`.
    pub(crate) per_object: Option<Quantity<Duration>>,
    /// How often the device reads or writes what has come before it may be used, at the rate of
    /// HBM; a copy within the device is two. One object after the other, beside ops and copies.
    ///
    /// Values: 0 to 64.
    /// Default: 0.
    pub(crate) passes: Option<u32>,
    /// The thread waits for each copy into HBM, passes included: ops and fetches that the plan has
    /// behind it begin no sooner. With nothing fetched ahead this changes nothing, as such a fetch
    /// stands alone anyway.
    ///
    /// Default: `false`.
    pub(crate) blocking: Option<bool>,
    /// The same of each copy that leaves HBM.
    ///
    /// Default: `false`.
    pub(crate) blocking_out: Option<bool>,
    /// The thread runs ahead of the device, as PyTorch's does: `per_op` and `per_object` are its own
    /// time, and an op or a copy begins once it has asked for it. It stands still until copies have
    /// ended that are `blocking`, carries out ops of the CPU itself, one after the other, and waits
    /// for the device before each step.
    ///
    /// Default: `false`.
    pub(crate) ahead: Option<bool>,
    /// `pageable` gives each link that has `pageable` rates these; no staging buffers are taken off
    /// memory for it.
    ///
    /// Default: `pinned`.
    pub(crate) copies: Option<RawCopies>,
    /// Where each number comes from, and how many of the rows that are predicted it was taken from.
    ///
    /// Values: up to 1000 bytes.
    /// Default: required where anything is added.
    pub(crate) source: Option<String>,
}

/// Which memory of the host copies name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename = "HostMemory", rename_all = "snake_case")]
pub(crate) enum RawCopies {
    /// Memory that the host has locked.
    Pinned,
    /// Any memory of the host: each link that has `pageable` rates takes these.
    Pageable,
}
