//! How memory of tiers is used, as written: allocators, what no object can have, nodes, pressure.
//!
//! The scenario says it for every case, and a case for itself, in the same words.

use crate::text::quantity::{Bandwidth, Duration, Quantity, Size, Sourced};
use serde::Deserialize;
use tiersim_models::allocator::Fragmentation;
use tiersim_models::compression::Packer;
use tiersim_models::hardware::{Profile, Source};
use tiersim_models::hidden::What;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::pressure::Response;

/// Memory that no object can have.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(crate) struct RawHidden {
    /// The tier.
    pub(crate) tier: String,
    /// What the memory is for; once per tier and list.
    pub(crate) what: What,
    /// How much.
    pub(crate) bytes: Quantity<Size>,
}

/// One way in which tiers store objects in fewer bytes.
#[derive(Debug, Deserialize)]
#[serde(rename = "Compression", deny_unknown_fields)]
pub(crate) struct RawCompression {
    /// Its name, and that of its link in tables and charts: `pack-NAME` and `unpack-NAME`.
    ///
    /// Values: 1 to 40 of a-z, 0-9, `-`; no link of the machine has it.
    pub(crate) name: String,
    /// Tiers that store objects so. With `by: device` every tier but the device's own.
    ///
    /// Values: names of tiers, see `hardware`.
    pub(crate) tiers: Vec<String>,
    /// Which objects.
    ///
    /// Values: at least one.
    pub(crate) kinds: Vec<ObjectKind>,
    /// Of which element types, in PyTorch's spelling, such as `float32`.
    ///
    /// Values: up to 32.
    /// Default: any.
    #[serde(default)]
    pub(crate) dtypes: Vec<String>,
    /// Bytes of an object per stored byte; an object is stored in `ceil(bytes / ratio)`.
    ///
    /// Values: 1 to 1000, in steps of 10^-6.
    pub(crate) ratio: f64,
    /// Where the ratio comes from.
    pub(crate) ratio_source: Source,
    /// Bytes of objects, not stored bytes, that are packed per second.
    pub(crate) pack: Sourced<Bandwidth>,
    /// Bytes of objects, not stored bytes, that are unpacked per second.
    pub(crate) unpack: Sourced<Bandwidth>,
    /// Cost of one copy (or chunk), in either direction.
    ///
    /// Default: none.
    pub(crate) setup: Option<Sourced<Duration>>,
    /// Who packs and unpacks: `device`, or the host's processors, `cpu`, which all devices of a
    /// server share.
    ///
    /// Default: `cpu`.
    pub(crate) by: Option<Packer>,
}

/// The formats of one case.
#[derive(Debug, Deserialize)]
#[serde(rename = "Compress", rename_all = "snake_case")]
pub(crate) enum RawCompress {
    /// Every object that these formats take is stored so.
    All(Vec<String>),
    /// Only objects for which it pays: bringing them to HBM, and back where an op writes them, takes
    /// less time, with nobody in the way. Of several formats the one that saves the most.
    IfItPays(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Numa", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawNuma {
    /// An object that goes to DRAM lies on the node with the fewest links to the device, among
    /// these the widest; on the next one when it is full.
    NearGpu,
    /// An object that goes to DRAM lies on the node that was given the fewest bytes so far, the
    /// nearest of several; on another when it is full.
    Interleave,
    /// An object that goes to DRAM lies on this `node`, where the thread runs that writes it first;
    /// on the others, nearest first, when it is full.
    FirstTouch {
        /// A tier of kind `dram`.
        node: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Pin", deny_unknown_fields)]
pub(crate) struct RawPin {
    /// Which objects.
    ///
    /// Default: all.
    pub(crate) kinds: Option<Vec<ObjectKind>>,
    /// Of which modules, by name; `*` stands for any text; a pattern that no module of the trace
    /// matches is an error.
    ///
    /// Values: 1 to 200 bytes.
    /// Default: all.
    pub(crate) module: Option<String>,
    /// Where they lie.
    ///
    /// Values: name of a tier of kind `dram`.
    pub(crate) node: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Pressure", deny_unknown_fields)]
pub(crate) struct RawPressure {
    /// The tier that is watched.
    pub(crate) tier: String,
    /// Thresholds, see below.
    ///
    /// Default: the machine's [`pressure`](hardware.md#hardware), or `balanced`.
    pub(crate) profile: Option<Profile>,
    /// Shares above 0 and up to 1, each above the one before; instead of `profile`.
    ///
    /// Default: the profile's.
    pub(crate) thresholds: Option<RawThresholds>,
    /// How far below its threshold a level is left.
    ///
    /// Values: 0 to below `target`.
    /// Default: 0.02, or half of `target` if that is less.
    pub(crate) hysteresis: Option<f64>,
    /// What is done when a level is entered; `[]` for nothing.
    ///
    /// Default: see below.
    pub(crate) actions: Option<RawResponses>,
    /// Where evicted objects go that the policy has no place for: the first with room.
    ///
    /// Default: all others, nearer kinds first.
    pub(crate) spill: Option<Vec<String>>,
    /// Bounds of the micro-batch, and how it changes.
    ///
    /// Default: it does not change.
    pub(crate) micro_batch: Option<RawMicroBatch>,
    /// `clean`s after every so many steps of the run, warm-up included.
    ///
    /// Values: 1 or more.
    /// Default: only actions clean.
    pub(crate) clear_cache_frequency: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Thresholds", deny_unknown_fields)]
pub(crate) struct RawThresholds {
    /// Share at which the level `target` is entered.
    ///
    /// Values: above 0, to 1, below the others.
    pub(crate) target: f64,
    /// Share at which the level `warning` is entered.
    ///
    /// Values: above 0, to 1, above the one before.
    pub(crate) warning: f64,
    /// Share at which the level `critical` is entered.
    ///
    /// Values: above 0, to 1, above the one before.
    pub(crate) critical: f64,
    /// Share at which the level `emergency` is entered.
    ///
    /// Values: above 0, to 1, above the one before.
    pub(crate) emergency: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Actions", deny_unknown_fields)]
pub(crate) struct RawResponses {
    /// What is done when this level is entered.
    pub(crate) target: Option<Vec<Response>>,
    /// The same of this level.
    ///
    /// Default: `[warn]`.
    pub(crate) warning: Option<Vec<Response>>,
    /// The same of this level.
    ///
    /// Default: `[clean]`, and `shrink` if there is a `micro_batch`.
    pub(crate) critical: Option<Vec<Response>>,
    /// The same of this level.
    ///
    /// Default: `[evict]`.
    pub(crate) emergency: Option<Vec<Response>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "MicroBatch", deny_unknown_fields)]
pub(crate) struct RawMicroBatch {
    /// The smallest micro-batch.
    ///
    /// Values: 1 or more.
    pub(crate) min: u32,
    /// The largest; the first step has it.
    ///
    /// Values: up to the batch.
    /// Default: the workload's `micro_batch`.
    pub(crate) max: Option<u32>,
    /// The share of the tier that steps are to allocate at most: above it the micro-batch becomes
    /// smaller, and it becomes larger up to it.
    ///
    /// Values: share above 0, below the threshold of the lowest level with `shrink`.
    pub(crate) target_utilisation: Option<f64>,
    /// The micro-batch may change after every so many steps, by the most that these steps took.
    ///
    /// Values: 1 or more.
    /// Default: 1.
    pub(crate) adjustment_frequency: Option<u32>,
    /// One notch at a time; else as many as are needed, or as fit, at once.
    ///
    /// Default: `true`.
    pub(crate) smooth: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Allocator", deny_unknown_fields)]
pub(crate) struct RawAllocator {
    /// The tier; once per list.
    pub(crate) tier: String,
    /// How objects are placed.
    pub(crate) model: RawModel,
    /// When they are moved together; for `pool`, `buckets` and `buddy`.
    pub(crate) compaction: Option<RawCompaction>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Model", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawModel {
    /// Places objects nowhere: bytes are counted and nothing else.
    Exact,
    /// Places objects in one pool: multiples of 512 B, best fit, neighbours join.
    Pool,
    /// Places objects as PyTorch's caching allocator for CUDA.
    Caching {
        /// One segment per stream and pool that grows.
        ///
        /// Default: `false`.
        expandable_segments: Option<bool>,
        /// Blocks from this size on are not split (`max_split_size_mb`).
        ///
        /// Values: above 20 MiB.
        max_split: Option<Quantity<Size>>,
        /// Rounds sizes up to so many steps between powers of two.
        ///
        /// Values: 0 or a power of two up to 65536.
        /// Default: 0.
        roundup_power2_divisions: Option<u32>,
        /// Share of the capacity above which old segments are released first; 0 never.
        ///
        /// Values: 0 to 1.
        /// Default: 0.
        garbage_collection_threshold: Option<f64>,
        /// What its work takes; `us(0)` for nothing.
        ///
        /// Default: as measured, below.
        costs: Option<RawCosts>,
    },
    /// Places objects in slots of fixed sizes, and what is above 1 MiB in a pool.
    Buckets {
        /// Adds closer buckets where slots are filled badly.
        ///
        /// Default: `false`.
        adaptive: Option<bool>,
    },
    /// Places objects in powers of two that split and join.
    Buddy {
        /// The smallest block.
        ///
        /// Values: power of two, up to 1 GiB.
        /// Default: `b(512)`.
        least: Option<Quantity<Size>>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Costs", deny_unknown_fields)]
pub(crate) struct RawCosts {
    /// A request that a cached block meets.
    ///
    /// Default: as measured, below.
    pub(crate) hit: Option<Quantity<Duration>>,
    /// What it costs beyond that where the block is split.
    ///
    /// Default: as measured, below.
    pub(crate) split: Option<Quantity<Duration>>,
    /// A segment that is taken.
    ///
    /// Default: as measured, below.
    pub(crate) take: Option<Quantity<Duration>>,
    /// A segment that is given back.
    ///
    /// Default: as measured, below.
    pub(crate) give: Option<Quantity<Duration>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Compaction", deny_unknown_fields)]
pub(crate) struct RawCompaction {
    /// Fragmentation above which objects are moved.
    ///
    /// Values: 0 to 1.
    /// Default: 0.3.
    pub(crate) above: Option<f64>,
    /// Which fragmentation: `external`, or `total`, the mean of external and internal.
    ///
    /// Default: `external`.
    pub(crate) by: Option<Fragmentation>,
    /// Compaction is incremental: bytes after which moving stops until the next op; without it the
    /// world stops until all is moved.
    ///
    /// Values: from 1 B.
    /// Default: no limit.
    pub(crate) at_once: Option<Quantity<Size>>,
}
