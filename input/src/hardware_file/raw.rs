//! A machine as written: mirrors the `.ron` file field by field.
//!
//! Nothing is checked here but form. Unknown fields are errors everywhere.

use crate::text::quantity::{
    Bandwidth, Copies, Dimension, Drives, Duration, EnergyPerBit, FlopCount, FlopRate, Outstanding,
    Power, Price, PricePerSize, Quantity, Size, Sourced, StandingPower,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use tiersim_models::efficiency::Interpolation;
use tiersim_models::hardware::{Source, TierKind};
use tiersim_models::hidden::What;
use tiersim_models::nodes::{LinkKind, NodeKind};
use tiersim_models::service::Discipline;

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Hardware", deny_unknown_fields)]
pub(super) struct RawHardware {
    pub(super) schema: u32,
    pub(super) about: String,
    pub(super) parts: Option<Vec<RawInclude>>,
    #[serde(default)]
    pub(super) tiers: Vec<RawTier>,
    #[serde(default)]
    pub(super) nodes: Vec<RawNode>,
    #[serde(default)]
    pub(super) links: Vec<RawLink>,
    #[serde(default)]
    pub(super) routes: Vec<RawRoute>,
    pub(super) compute: Option<RawCompute>,
    pub(super) cpu: Option<RawCpu>,
    pub(super) chunk: Option<Quantity<Size>>,
    pub(super) host: Option<RawHost>,
    #[serde(default)]
    pub(super) hidden: Vec<RawHidden>,
    pub(super) server: Option<RawServer>,
}

/// A part of a machine: what a machine says of itself alone is not there.
#[derive(Debug, Deserialize)]
#[serde(rename = "Part", deny_unknown_fields)]
pub(super) struct RawPart {
    pub(super) schema: u32,
    pub(super) about: String,
    #[serde(default)]
    pub(super) tiers: Vec<RawTier>,
    #[serde(default)]
    pub(super) nodes: Vec<RawNode>,
    #[serde(default)]
    pub(super) links: Vec<RawLink>,
    #[serde(default)]
    pub(super) routes: Vec<RawRoute>,
    pub(super) compute: Option<RawCompute>,
    pub(super) cpu: Option<RawCpu>,
    pub(super) host: Option<RawHost>,
    #[serde(default)]
    pub(super) hidden: Vec<RawHidden>,
}

/// One part that a machine has.
#[derive(Debug, Deserialize)]
#[serde(rename = "Include", deny_unknown_fields)]
pub(super) struct RawInclude {
    pub(super) file: String,
    #[serde(default)]
    pub(super) rename: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) set: Vec<RawSet>,
}

/// A value of a part that this machine has otherwise, or that the part leaves open.
#[derive(Debug, Deserialize)]
#[serde(rename = "Set", deny_unknown_fields)]
pub(super) struct RawSet {
    pub(super) path: String,
    /// It is put into the part, and is read there.
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tier", deny_unknown_fields)]
pub(super) struct RawTier {
    pub(super) name: String,
    pub(super) kind: TierKind,
    pub(super) capacity: Option<Sourced<Size>>,
    pub(super) setup: Sourced<Duration>,
    pub(super) bandwidth: Sourced<Bandwidth>,
    pub(super) devices: Option<u32>,
    pub(super) loaded: Option<Vec<RawLoaded>>,
    pub(super) granule: Option<Sourced<Size>>,
    pub(super) depth: Option<Sourced<Outstanding>>,
    pub(super) energy: Option<Sourced<EnergyPerBit>>,
    pub(super) write_energy: Option<Sourced<EnergyPerBit>>,
    pub(super) idle: Option<Sourced<StandingPower>>,
    pub(super) price: Option<Sourced<PricePerSize>>,
    #[serde(default)]
    pub(super) included: Vec<Included>,
}

/// Latency under load, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Curve", deny_unknown_fields)]
pub(super) struct RawLoaded {
    pub(super) reads: f64,
    pub(super) points: Vec<(Quantity<Bandwidth>, Quantity<Duration>)>,
    pub(super) source: Source,
}

/// What the numbers of the device or of the host hold already.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Included {
    Power,
    Price,
}

/// A node without memory.
#[derive(Debug, Deserialize)]
#[serde(rename = "Node", deny_unknown_fields)]
pub(super) struct RawNode {
    pub(super) name: String,
    pub(super) kind: NodeKind,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Link", deny_unknown_fields)]
pub(super) struct RawLink {
    pub(super) name: String,
    pub(super) near: String,
    pub(super) far: String,
    pub(super) kind: Option<LinkKind>,
    pub(super) devices: Option<u32>,
    pub(super) setup: Sourced<Duration>,
    pub(super) read: Sourced<Bandwidth>,
    pub(super) write_setup: Option<Sourced<Duration>>,
    pub(super) write: Sourced<Bandwidth>,
    #[serde(default)]
    pub(super) service: Discipline,
    pub(super) max_in_flight: Option<Sourced<Copies>>,
    pub(super) total: Option<Sourced<Bandwidth>>,
    pub(super) mix: Option<RawCurve<f64>>,
    pub(super) read_sizes: Option<RawCurve<Quantity<Size>>>,
    pub(super) write_sizes: Option<RawCurve<Quantity<Size>>>,
    pub(super) read_depths: Option<RawCurve<Quantity<Copies>>>,
    pub(super) write_depths: Option<RawCurve<Quantity<Copies>>>,
    pub(super) read_tail: Option<RawTail>,
    pub(super) write_tail: Option<RawTail>,
    pub(super) write_cache: Option<RawCache>,
    #[serde(default)]
    pub(super) buffers: Buffers,
    pub(super) pageable: Option<RawPageable>,
    pub(super) energy: Option<Sourced<EnergyPerBit>>,
    #[serde(default)]
    pub(super) included: Vec<Included>,
    pub(super) raid0: Option<RawRaid0>,
    pub(super) background: Option<RawBackground>,
}

/// Rates by size, by number of copies or by share of fetches, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Curve", deny_unknown_fields)]
pub(super) struct RawCurve<X> {
    pub(super) points: Vec<(X, Quantity<Bandwidth>)>,
    pub(super) source: Source,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tail", deny_unknown_fields)]
pub(super) struct RawTail {
    pub(super) p50: Sourced<Duration>,
    pub(super) p99: Sourced<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Cache", deny_unknown_fields)]
pub(super) struct RawCache {
    pub(super) size: Sourced<Size>,
    pub(super) drain: Sourced<Bandwidth>,
}

/// The host's memory that copies start from or end in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Buffers {
    #[default]
    Pinned,
    Pageable,
}

/// What copies reach from and to memory that is not pinned.
#[derive(Debug, Deserialize)]
#[serde(rename = "Pageable", deny_unknown_fields)]
pub(super) struct RawPageable {
    pub(super) read: Sourced<Bandwidth>,
    pub(super) write: Sourced<Bandwidth>,
}

/// A set of equal drives.
#[derive(Debug, Deserialize)]
#[serde(rename = "Raid0", deny_unknown_fields)]
pub(super) struct RawRaid0 {
    pub(super) drives: Sourced<Drives>,
    pub(super) stripe: Sourced<Size>,
}

/// What others send over a link.
#[derive(Debug, Deserialize)]
#[serde(rename = "Background", deny_unknown_fields)]
pub(super) struct RawBackground {
    pub(super) read: Option<Sourced<Bandwidth>>,
    pub(super) write: Option<Sourced<Bandwidth>>,
}

/// A prescribed route.
#[derive(Debug, Deserialize)]
#[serde(rename = "Route", deny_unknown_fields)]
pub(super) struct RawRoute {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) via: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Compute", deny_unknown_fields)]
pub(super) struct RawCompute {
    pub(super) name: String,
    pub(super) flops: Vec<RawPeak>,
    pub(super) memory: Option<Sourced<Bandwidth>>,
    pub(super) launch: Sourced<Duration>,
    pub(super) efficiency: Option<RawEfficiency>,
    pub(super) op_times: Option<RawOpTimesOf>,
    pub(super) idle: Option<Sourced<Power>>,
    pub(super) active: Option<Sourced<Power>>,
    pub(super) price: Option<Sourced<Price>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Peak", deny_unknown_fields)]
pub(super) struct RawPeak {
    pub(super) precision: String,
    pub(super) rate: Sourced<FlopRate>,
}

/// The device whose kernels were measured, and in what this one differs from it.
#[derive(Debug, Deserialize)]
#[serde(rename = "OpTimesOf", deny_unknown_fields)]
pub(super) struct RawOpTimesOf {
    pub(super) of: String,
    pub(super) processors: Option<u32>,
    pub(super) cache: Option<Quantity<Size>>,
}

/// Shares of the rates by size.
#[derive(Debug, Deserialize)]
#[serde(rename = "Efficiency", deny_unknown_fields)]
pub(super) struct RawEfficiency {
    pub(super) products: Option<RawShares<FlopCount>>,
    pub(super) memory: Option<RawShares<Size>>,
}

/// One table, with one source for all its points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Shares", deny_unknown_fields, bound(deserialize = ""))]
pub(super) struct RawShares<D: Dimension> {
    pub(super) points: Vec<(Quantity<D>, f64)>,
    #[serde(default)]
    pub(super) between: Interpolation,
    pub(super) source: Source,
}

/// What ops on the CPU run on.
#[derive(Debug, Deserialize)]
#[serde(rename = "Cpu", deny_unknown_fields)]
pub(super) struct RawCpu {
    pub(super) name: String,
    pub(super) flops: Sourced<FlopRate>,
    pub(super) memory: Sourced<Bandwidth>,
    pub(super) launch: Sourced<Duration>,
}

/// Processors, board, fans, losses of the power supplies.
#[derive(Debug, Deserialize)]
#[serde(rename = "Host", deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) power: Option<Sourced<Power>>,
    pub(super) price: Option<Sourced<Price>>,
}

/// Memory that no object can have.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(super) struct RawHidden {
    pub(super) tier: String,
    pub(super) what: What,
    pub(super) bytes: Sourced<Size>,
}

/// The devices of one server.
#[derive(Debug, Deserialize)]
#[serde(rename = "Server", deny_unknown_fields)]
pub(super) struct RawServer {
    pub(super) devices: u32,
    pub(super) within: Option<String>,
    pub(super) between: Option<String>,
}
