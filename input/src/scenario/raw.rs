//! A scenario as written: mirrors the `.ron` file field by field.
//!
//! Nothing is checked here but form. Unknown fields are errors everywhere; a field that may be left
//! out is an `Option`, so that its default is chosen in one place, where it is resolved.

pub(crate) mod work;

use crate::text::quantity::{Budget, Duration, Quantity, Size};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use tiersim_models::hidden::What;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::pressure::Response;
use tiersim_workloads::transformer::format::Format;
use work::{RawCard, RawFormats, RawWork};

/// What [`crate::scenario::spelling`] reads.
pub(crate) type Elsewhere = IgnoredAny;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(rename = "Scenario", deny_unknown_fields)]
pub struct RawScenario {
    pub(crate) schema: u32,
    pub(crate) about: String,
    #[serde(rename = "hardware")]
    pub(crate) _hardware: Elsewhere,
    #[serde(default)]
    pub(crate) capacity: BTreeMap<String, Quantity<Size>>,
    pub(crate) workload: RawWorkload,
    #[serde(default)]
    pub(crate) allocators: Vec<RawAllocator>,
    #[serde(default)]
    pub(crate) hidden: Vec<RawHidden>,
    pub(crate) numa: Option<RawNuma>,
    pub(crate) pins: Option<Vec<RawPin>>,
    pub(crate) runtime: Option<RawRuntime>,
    pub(crate) policies: Vec<RawCase>,
    pub(crate) sweep: Option<RawSweep>,
    pub(crate) seed: Option<u64>,
    #[serde(default)]
    pub(crate) expect: Vec<Elsewhere>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Workload")]
pub(crate) enum RawWorkload {
    Trace(RawTrace),
    Model(Box<RawModelled>),
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Trace", deny_unknown_fields)]
pub(crate) struct RawTrace {
    pub(crate) path: String,
    pub(crate) time: RawTime,
    pub(crate) repeat: Option<u32>,
    pub(crate) warmup: Option<u32>,
    pub(crate) jitter: Option<f64>,
    pub(crate) ranks: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Model", deny_unknown_fields)]
pub(crate) struct RawModelled {
    pub(crate) model: Option<String>,
    pub(crate) card: Option<RawCard>,
    pub(crate) weights: Option<String>,
    pub(crate) precision: Option<Format>,
    pub(crate) formats: Option<RawFormats>,
    pub(crate) tied: Option<bool>,
    pub(crate) mode: RawWork,
    pub(crate) time: RawTime,
    pub(crate) repeat: Option<u32>,
    pub(crate) warmup: Option<u32>,
    pub(crate) jitter: Option<f64>,
    pub(crate) statistics: Option<RawStatistics>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename = "Statistics", rename_all = "snake_case")]
pub(crate) enum RawStatistics {
    Csv(String),
    Synthetic(u64),
    None,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "OpTime", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawTime {
    Roofline { device: Option<String>, precision: String },
    OpTimes { device: Option<String>, precision: String },
    Recorded { scale: Option<f64> },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Case", deny_unknown_fields)]
pub(crate) struct RawCase {
    pub(crate) name: String,
    #[serde(rename = "policy")]
    pub(crate) _policy: Elsewhere,
    pub(crate) hbm: Option<Quantity<Budget>>,
    #[serde(default)]
    pub(crate) allocators: Vec<RawAllocator>,
    #[serde(default)]
    pub(crate) hidden: Vec<RawHidden>,
    pub(crate) chunk: Option<Quantity<Size>>,
    pub(crate) micro_batch: Option<u32>,
    pub(crate) pressure: Option<RawPressure>,
    pub(crate) numa: Option<RawNuma>,
    pub(crate) pins: Option<Vec<RawPin>>,
    pub(crate) runtime: Option<RawRuntime>,
}

/// What a framework adds.
#[derive(Debug, Deserialize)]
#[serde(rename = "Runtime", deny_unknown_fields)]
pub(crate) struct RawRuntime {
    pub(crate) per_op: Option<Quantity<Duration>>,
    pub(crate) per_object: Option<Quantity<Duration>>,
    pub(crate) passes: Option<u32>,
    pub(crate) blocking: Option<bool>,
    pub(crate) copies: Option<RawCopies>,
    pub(crate) source: Option<String>,
}

/// Which memory of the host copies name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename = "HostMemory", rename_all = "snake_case")]
pub(crate) enum RawCopies {
    Pinned,
    Pageable,
}

/// Memory that no object can have.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(crate) struct RawHidden {
    pub(crate) tier: String,
    pub(crate) what: What,
    pub(crate) bytes: Quantity<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Numa", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawNuma {
    NearGpu,
    Interleave,
    FirstTouch { node: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Pin", deny_unknown_fields)]
pub(crate) struct RawPin {
    pub(crate) kinds: Option<Vec<ObjectKind>>,
    pub(crate) module: Option<String>,
    pub(crate) node: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Pressure", deny_unknown_fields)]
pub(crate) struct RawPressure {
    pub(crate) tier: String,
    pub(crate) profile: Option<RawProfile>,
    pub(crate) thresholds: Option<RawThresholds>,
    pub(crate) hysteresis: Option<f64>,
    pub(crate) actions: Option<RawResponses>,
    pub(crate) spill: Option<Vec<String>>,
    pub(crate) micro_batch: Option<RawMicroBatch>,
    pub(crate) clear_cache_frequency: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Profile", rename_all = "snake_case")]
pub(crate) enum RawProfile {
    Aggressive,
    Balanced,
    Conservative,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Thresholds", deny_unknown_fields)]
pub(crate) struct RawThresholds {
    pub(crate) target: f64,
    pub(crate) warning: f64,
    pub(crate) critical: f64,
    pub(crate) emergency: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Actions", deny_unknown_fields)]
pub(crate) struct RawResponses {
    pub(crate) target: Option<Vec<Response>>,
    pub(crate) warning: Option<Vec<Response>>,
    pub(crate) critical: Option<Vec<Response>>,
    pub(crate) emergency: Option<Vec<Response>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "MicroBatch", deny_unknown_fields)]
pub(crate) struct RawMicroBatch {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) target_utilisation: Option<f64>,
    pub(crate) adjustment_frequency: Option<u32>,
    pub(crate) smooth: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Allocator", deny_unknown_fields)]
pub(crate) struct RawAllocator {
    pub(crate) tier: String,
    pub(crate) model: RawModel,
    pub(crate) compaction: Option<RawCompaction>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Model", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawModel {
    Exact,
    Pool,
    Caching {
        expandable_segments: Option<bool>,
        max_split: Option<Quantity<Size>>,
        roundup_power2_divisions: Option<u32>,
        garbage_collection_threshold: Option<f64>,
        costs: Option<RawCosts>,
    },
    Buckets {
        adaptive: Option<bool>,
    },
    Buddy {
        least: Option<Quantity<Size>>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Costs", deny_unknown_fields)]
pub(crate) struct RawCosts {
    pub(crate) hit: Option<Quantity<Duration>>,
    pub(crate) split: Option<Quantity<Duration>>,
    pub(crate) take: Option<Quantity<Duration>>,
    pub(crate) give: Option<Quantity<Duration>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Compaction", deny_unknown_fields)]
pub(crate) struct RawCompaction {
    pub(crate) above: Option<f64>,
    pub(crate) at_once: Option<Quantity<Size>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Sweep", deny_unknown_fields)]
pub(crate) struct RawSweep {
    pub(crate) axes: Vec<RawAxis>,
    #[serde(default)]
    pub(crate) zip: Vec<Vec<String>>,
    #[serde(default)]
    pub(crate) constraints: Vec<String>,
    pub(crate) sample: Option<RawSample>,
    #[serde(default)]
    pub(crate) skip_invalid: bool,
}

/// Points drawn in place of the grid.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Sample", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawSample {
    LatinHypercube { points: u32, seed: Option<u64> },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Axis", deny_unknown_fields)]
pub(crate) struct RawAxis {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) values: RawValues,
    pub(crate) unit: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "AxisValues", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawValues {
    Range { from: f64, to: f64, step: f64 },
    LogRange { from: f64, to: f64, points: u32 },
    Between { from: f64, to: f64, log: Option<bool> },
    List(Vec<f64>),
    Factors(Vec<f64>),
    Choices(Vec<(String, String)>),
}
