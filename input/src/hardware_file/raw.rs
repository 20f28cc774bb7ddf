//! A machine as written: mirrors the `.ron` file field by field.
//!
//! Nothing is checked here but form. Unknown fields are errors everywhere.

mod compute;
mod links;

pub(super) use compute::{RawCompute, RawCpu, RawEfficiency, RawOpTimesOf, RawShares};
pub(super) use links::{
    Buffers, Included, RawBackground, RawCache, RawCurve, RawLink, RawNode, RawRaid0, RawRoute,
    RawTail,
};

use crate::text::quantity::{
    Bandwidth, Duration, EnergyPerBit, Outstanding, Power, Price, PricePerSize, Quantity, Size,
    Sourced, StandingPower,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Profile, Source, TierKind};
use tiersim_models::hidden::What;

#[derive(Debug, Default, Deserialize)]
#[serde(rename = "Hardware", deny_unknown_fields)]
pub(super) struct RawHardware {
    /// Version of the format.
    ///
    /// Values: 2.
    pub(super) schema: u32,
    /// Which machine this is; not empty.
    pub(super) about: String,
    /// Files that the machine is put together from.
    ///
    /// Values: up to 32.
    pub(super) parts: Option<Vec<RawInclude>>,
    /// Memories; the first is the device's own, of kind `hbm`.
    ///
    /// Values: 1 to 8 with those of parts.
    #[serde(default)]
    pub(super) tiers: Vec<RawTier>,
    /// What copies pass and are not stored in.
    ///
    /// Values: up to 56.
    #[serde(default)]
    pub(super) nodes: Vec<RawNode>,
    /// What joins tiers and nodes.
    ///
    /// Values: up to 96.
    #[serde(default)]
    pub(super) links: Vec<RawLink>,
    /// Ways that are prescribed; all others are found.
    ///
    /// Values: up to 56.
    #[serde(default)]
    pub(super) routes: Vec<RawRoute>,
    /// The device; needed for `roofline`.
    pub(super) compute: Option<RawCompute>,
    /// What ops with `unit` cpu run on; needed for these.
    pub(super) cpu: Option<RawCpu>,
    /// Piece size of copies over several links, and where a copy over one link lets [others
    /// pass](#routes-and-chunks); the simulator's choice, so without a source.
    ///
    /// Default: 4 MiB.
    pub(super) chunk: Option<Quantity<Size>>,
    /// Processors, board, fans, losses: see [Power and price](#power-and-price).
    pub(super) host: Option<RawHost>,
    /// Memory that no object can have.
    #[serde(default)]
    pub(super) hidden: Vec<RawHidden>,
    /// How many devices a server has, and where their collectives meet; of the machine's own file,
    /// not of a part.
    ///
    /// Default: one device.
    pub(super) server: Option<RawServer>,
    /// Which thresholds a case has that watches [memory pressure](scenario.md#memory-pressure) and
    /// names none; of the machine's own file, not of a part, and without a source: a choice.
    ///
    /// Default: `balanced`.
    pub(super) pressure: Option<Profile>,
}

/// A part of a machine: what a machine says of itself alone is not there.
#[derive(Debug, Deserialize)]
#[serde(rename = "Part", deny_unknown_fields)]
pub(super) struct RawPart {
    /// Version of the format.
    ///
    /// Values: 2.
    pub(super) schema: u32,
    /// Which part this is; not empty.
    pub(super) about: String,
    /// Memories, as of a machine.
    #[serde(default)]
    pub(super) tiers: Vec<RawTier>,
    /// What copies pass, as of a machine.
    #[serde(default)]
    pub(super) nodes: Vec<RawNode>,
    /// What joins them; they may join what only the machine has.
    #[serde(default)]
    pub(super) links: Vec<RawLink>,
    /// Ways that are prescribed.
    #[serde(default)]
    pub(super) routes: Vec<RawRoute>,
    /// The device.
    pub(super) compute: Option<RawCompute>,
    /// What ops with `unit` cpu run on.
    pub(super) cpu: Option<RawCpu>,
    /// Processors, board, fans, losses.
    pub(super) host: Option<RawHost>,
    /// Memory that no object can have.
    #[serde(default)]
    pub(super) hidden: Vec<RawHidden>,
}

/// One part that a machine has.
#[derive(Debug, Deserialize)]
#[serde(rename = "Include", deny_unknown_fields)]
pub(super) struct RawInclude {
    /// The part's file without `.ron`, looked for in the machine's own folder, then in the
    /// project's `hardware-specs`, then among the embedded; plain words with `/` between.
    pub(super) file: String,
    /// New names of tiers, nodes and links of the part, and of those that its links and routes
    /// name; one part may so be there twice.
    #[serde(default)]
    pub(super) rename: BTreeMap<String, String>,
    /// Values that this machine has otherwise, or that the part leaves open.
    ///
    /// Values: up to 64.
    #[serde(default)]
    pub(super) set: Vec<RawSet>,
}

/// A value of a part that this machine has otherwise, or that the part leaves open.
#[derive(Debug, Deserialize)]
#[serde(rename = "Set", deny_unknown_fields)]
pub(super) struct RawSet {
    /// Which value, as in [`--set`](#--set), by the part's own names: `tiers.nvme.capacity`,
    /// `links.nvme-bus.read`, `compute.flops.0.rate`.
    pub(super) path: String,
    /// With its source where the part's has one; takes the place of both.
    ///
    /// Type: what stands there in a part.
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tier", deny_unknown_fields)]
pub(super) struct RawTier {
    /// Name in scenarios and charts; unique.
    ///
    /// Values: 1 to 40 of a-z, 0-9, `-`.
    pub(super) name: String,
    /// For colours, hint files and defaults of policies; implies no numbers.
    pub(super) kind: TierKind,
    /// Room for objects, in exact bytes.
    ///
    /// Default: no limit.
    pub(super) capacity: Option<Sourced<Size>>,
    /// What an op pays per use in place, whatever the size.
    pub(super) setup: Sourced<Duration>,
    /// Bytes per second after that.
    pub(super) bandwidth: Sourced<Bandwidth>,
    /// How many devices share it: see [Server](#server).
    ///
    /// Values: divisor of the server's `devices`.
    /// Default: 1.
    pub(super) devices: Option<u32>,
    /// How latency grows with the bandwidth in use: see [Latency under load](#latency-under-load).
    ///
    /// Values: up to 16.
    pub(super) loaded: Option<Vec<RawLoaded>>,
    /// What one request brings: a cache line, a page, a block.
    ///
    /// Values: 1 B to 1 MiB.
    /// Default: `b(128)`; `kib(4)` for `nvme` and `remote`: assumed.
    pub(super) granule: Option<Sourced<Size>>,
    /// Requests of one device that are under way at once: see [Requests under
    /// way](#requests-under-way).
    ///
    /// Values: up to 1048576.
    /// Default: as many as `bandwidth` needs at `setup`: assumed.
    pub(super) depth: Option<Sourced<Outstanding>>,
    /// What a bit read and a bit written take: see [Power and price](#power-and-price).
    ///
    /// Default: none; `energy`.
    pub(super) energy: Option<Sourced<EnergyPerBit>>,
    /// What a bit read and a bit written take: see [Power and price](#power-and-price).
    ///
    /// Default: none; `energy`.
    pub(super) write_energy: Option<Sourced<EnergyPerBit>>,
    /// What it draws whether it is used or not.
    pub(super) idle: Option<Sourced<StandingPower>>,
    /// Of its capacity.
    pub(super) price: Option<Sourced<PricePerSize>>,
    /// What the numbers of device or host hold already.
    #[serde(default)]
    pub(super) included: Vec<Included>,
}

/// Latency under load, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Curve", deny_unknown_fields)]
pub(super) struct RawLoaded {
    /// Share of reads in the traffic of this curve.
    ///
    /// Values: 0 to 1, to the per cent.
    pub(super) reads: f64,
    /// Latency at so much bandwidth, `[(gb_per_s(1), ns(112)), (gb_per_s(833.9), ns(157.2))]`:
    /// bandwidth rises, latency never falls.
    ///
    /// Values: up to 64.
    pub(super) points: Vec<(Quantity<Bandwidth>, Quantity<Duration>)>,
    /// One for all points.
    pub(super) source: Source,
}

/// Processors, board, fans, losses of the power supplies.
#[derive(Debug, Deserialize)]
#[serde(rename = "Host", deny_unknown_fields)]
pub(super) struct RawHost {
    /// What everything else draws while the device works.
    pub(super) power: Option<Sourced<Power>>,
    /// What everything else costs.
    pub(super) price: Option<Sourced<Price>>,
}

/// Memory that no object can have.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(super) struct RawHidden {
    /// The tier.
    pub(super) tier: String,
    /// What the memory is for; once per tier and list.
    pub(super) what: What,
    /// How much.
    pub(super) bytes: Sourced<Size>,
}

/// The devices of one server.
#[derive(Debug, Deserialize)]
#[serde(rename = "Server", deny_unknown_fields)]
pub(super) struct RawServer {
    /// Devices of one server.
    ///
    /// Values: 1 to 16.
    pub(super) devices: u32,
    /// Where collectives of devices of one server meet: a switch between devices, or a node of the
    /// host.
    ///
    /// Values: name of a node.
    pub(super) within: Option<String>,
    /// Where those of several servers meet: the network.
    ///
    /// Values: name of another node.
    pub(super) between: Option<String>,
}
