//! What joins memories, as written: nodes, links, how they serve, and prescribed routes.
//!
//! Every number of a link is a pair of the value and its source.

use crate::text::quantity::{
    Bandwidth, Copies, Drives, Duration, EnergyPerBit, Quantity, Size, Sourced,
};
use serde::Deserialize;
use tiersim_models::hardware::Source;
use tiersim_models::nodes::{LinkKind, NodeKind};
use tiersim_models::service::Discipline;

/// A node without memory.
#[derive(Debug, Deserialize)]
#[serde(rename = "Node", deny_unknown_fields)]
pub(crate) struct RawNode {
    /// Name in links, routes and drawings; no tier has it; at least one link names it.
    ///
    /// Values: 1 to 40 of a-z, 0-9, `-`.
    pub(crate) name: String,
    /// For drawings and for what routes pass; implies no numbers.
    pub(crate) kind: NodeKind,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Link", deny_unknown_fields)]
pub(crate) struct RawLink {
    /// Name in charts; unique.
    ///
    /// Values: 1 to 40 of a-z, 0-9, `-`.
    pub(crate) name: String,
    /// The end nearer to the device.
    pub(crate) near: String,
    /// The other end.
    pub(crate) far: String,
    /// What the link is made of: for drawings and the [lint](lint.md); implies no numbers.
    pub(crate) kind: Option<LinkKind>,
    /// How many devices share it: see [Server](#server).
    ///
    /// Values: divisor of the server's `devices`.
    /// Default: 1.
    pub(crate) devices: Option<u32>,
    /// Cost of one copy (or chunk), in either direction.
    pub(crate) setup: Sourced<Duration>,
    /// Copies from `far` to `near`.
    pub(crate) read: Sourced<Bandwidth>,
    /// Cost of one copy from `near` to `far`, where it differs.
    ///
    /// Default: `setup`.
    pub(crate) write_setup: Option<Sourced<Duration>>,
    /// Copies from `near` to `far`.
    pub(crate) write: Sourced<Bandwidth>,
    /// Who is served when several copies want the link: see [Service](#service).
    ///
    /// Default: `fifo`.
    #[serde(default)]
    pub(crate) service: Discipline,
    /// How many copies of one direction are under way at once.
    ///
    /// Default: `fifo`: 1; `fair_share`: no limit.
    pub(crate) max_in_flight: Option<Sourced<Copies>>,
    /// What both directions together reach; `fair_share` only.
    ///
    /// Default: no limit.
    pub(crate) total: Option<Sourced<Bandwidth>>,
    /// What both directions together reach by the share of fetches; needs `total`.
    pub(crate) mix: Option<RawCurve<f64>>,
    /// Rate that a copy of so many bytes reaches.
    pub(crate) read_sizes: Option<RawCurve<Quantity<Size>>>,
    /// Rate that a copy of so many bytes reaches.
    pub(crate) write_sizes: Option<RawCurve<Quantity<Size>>>,
    /// Rate that so many copies at once reach together; `fair_share` only.
    pub(crate) read_depths: Option<RawCurve<Quantity<Copies>>>,
    /// Rate that so many copies at once reach together; `fair_share` only.
    pub(crate) write_depths: Option<RawCurve<Quantity<Copies>>>,
    /// A random delay of each copy or chunk.
    pub(crate) read_tail: Option<RawTail>,
    /// A random delay of each copy or chunk.
    pub(crate) write_tail: Option<RawTail>,
    /// What takes copies from `near` to `far` in; `fifo` with one copy in flight only.
    pub(crate) write_cache: Option<RawCache>,
    /// The host memory that copies use; with `pageable` its rates replace `read` and `write`.
    ///
    /// Default: `pinned`.
    #[serde(default)]
    pub(crate) buffers: Buffers,
    /// What copies from and to memory that is not pinned reach.
    pub(crate) pageable: Option<RawPageable>,
    /// What a bit carried takes, either way: see [Power and price](#power-and-price).
    pub(crate) energy: Option<Sourced<EnergyPerBit>>,
    /// The power of device or host holds it already.
    #[serde(default)]
    pub(crate) included: Vec<Included>,
    /// The far end is a set of equal drives: see [Sets of drives](#sets-of-drives).
    pub(crate) raid0: Option<RawRaid0>,
    /// What background traffic sends all the time; `fair_share` only.
    ///
    /// Values: one of the two may be left out.
    pub(crate) background: Option<RawBackground>,
}

/// Rates by size, by number of copies or by share of fetches, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Curve", deny_unknown_fields)]
pub(crate) struct RawCurve<X> {
    /// In rising order: a size, a number of copies or a share of fetches, and the rate there. No
    /// rate is above that of the link.
    ///
    /// Values: up to 64.
    pub(crate) points: Vec<(X, Quantity<Bandwidth>)>,
    /// One for all points.
    pub(crate) source: Source,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tail", deny_unknown_fields)]
pub(crate) struct RawTail {
    /// The 50th percentile of the delay.
    ///
    /// Values: 0 to 10 s.
    pub(crate) p50: Sourced<Duration>,
    /// Its 99th percentile.
    ///
    /// Values: 0 to 10 s.
    pub(crate) p99: Sourced<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Cache", deny_unknown_fields)]
pub(crate) struct RawCache {
    /// How much it takes in.
    pub(crate) size: Sourced<Size>,
    /// The rate at which it is emptied.
    pub(crate) drain: Sourced<Bandwidth>,
}

/// The host's memory that copies start from or end in.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Buffers {
    /// Memory that the host has locked.
    #[default]
    Pinned,
    /// Any memory of the host.
    Pageable,
}

/// What copies reach from and to memory that is not pinned.
#[derive(Debug, Deserialize)]
#[serde(rename = "Pageable", deny_unknown_fields)]
pub(crate) struct RawPageable {
    /// Copies from `far` to `near`.
    pub(crate) read: Sourced<Bandwidth>,
    /// Copies from `near` to `far`.
    pub(crate) write: Sourced<Bandwidth>,
}

/// A set of equal drives.
#[derive(Debug, Deserialize)]
#[serde(rename = "Raid0", deny_unknown_fields)]
pub(crate) struct RawRaid0 {
    /// How many.
    pub(crate) drives: Sourced<Drives>,
    /// Bytes that lie on one drive before the next one follows.
    pub(crate) stripe: Sourced<Size>,
}

/// What others send over a link.
#[derive(Debug, Deserialize)]
#[serde(rename = "Background", deny_unknown_fields)]
pub(crate) struct RawBackground {
    /// From `far` to `near`.
    pub(crate) read: Option<Sourced<Bandwidth>>,
    /// From `near` to `far`.
    pub(crate) write: Option<Sourced<Bandwidth>>,
}

/// A prescribed route.
#[derive(Debug, Deserialize)]
#[serde(rename = "Route", deny_unknown_fields)]
pub(crate) struct RawRoute {
    /// Where copies start and end; counts for the way back too, unless that is given as well.
    pub(crate) from: String,
    /// Where copies start and end; counts for the way back too, unless that is given as well.
    pub(crate) to: String,
    /// What they pass, in order; the stretches between are found. A tier is passed once, a node
    /// once between two tiers, a link once in each direction.
    ///
    /// Values: 1 to 16 names of tiers or nodes.
    pub(crate) via: Vec<String>,
}

/// What the numbers of the device or of the host hold already.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Included {
    /// The power of the device or of the host holds that of this tier or link.
    Power,
    /// The price of the device or of the host holds that of this tier.
    Price,
}
