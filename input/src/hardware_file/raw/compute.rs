//! What computes, as written: the device, what small work reaches of it, the host's processors.
//!
//! Every number is a pair of the value and its source.

use crate::text::quantity::{
    Bandwidth, Dimension, Duration, FlopCount, FlopRate, Power, Price, Quantity, Size, Sourced,
};
use serde::Deserialize;
use tiersim_models::efficiency::Interpolation;
use tiersim_models::hardware::Source;

#[derive(Debug, Deserialize)]
#[serde(rename = "Compute", deny_unknown_fields)]
pub(crate) struct RawCompute {
    /// The device's name, shown in results.
    pub(crate) name: String,
    /// FLOP per second that large products reach, by precision.
    ///
    /// Values: up to 32.
    pub(crate) flops: Vec<RawPeak>,
    /// Bytes per second that a large kernel reaches in the device's own memory.
    ///
    /// Default: the `bandwidth` of the first tier.
    pub(crate) memory: Option<Sourced<Bandwidth>>,
    /// Fixed cost of one op.
    pub(crate) launch: Sourced<Duration>,
    /// Which share of these rates small work reaches: see [Efficiency](#efficiency).
    pub(crate) efficiency: Option<RawEfficiency>,
    /// What its kernels take by measurement: see [Op times of a device](#op-times-of-a-device).
    pub(crate) op_times: Option<RawOpTimesOf>,
    /// What it draws while no op of it runs, and while some do: see [Power and price](#power-and-price).
    pub(crate) idle: Option<Sourced<Power>>,
    /// What it draws while no op of it runs, and while some do: see [Power and price](#power-and-price).
    pub(crate) active: Option<Sourced<Power>>,
    /// Of the device.
    pub(crate) price: Option<Sourced<Price>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Peak", deny_unknown_fields)]
pub(crate) struct RawPeak {
    /// Such as `tf32`; each once.
    pub(crate) precision: String,
    /// Its peak.
    pub(crate) rate: Sourced<FlopRate>,
}

/// The device whose kernels were measured, and in what this one differs from it.
#[derive(Debug, Deserialize)]
#[serde(rename = "OpTimesOf", deny_unknown_fields)]
pub(crate) struct RawOpTimesOf {
    /// A file of op times without `.ron`, looked for as [parts](#parts) are; by custom in
    /// `hardware-specs/op-times`.
    pub(crate) of: String,
    /// Streaming multiprocessors of this device.
    ///
    /// Values: 1 to 65536.
    /// Default: the file's.
    pub(crate) processors: Option<u32>,
    /// Its last cache.
    ///
    /// Default: the file's.
    pub(crate) cache: Option<Quantity<Size>>,
    /// Whether several of this device have links between them like those of the measured one.
    #[serde(default = "yes")]
    pub(crate) collectives: bool,
}

fn yes() -> bool {
    true
}

/// Shares of the rates by size.
#[derive(Debug, Deserialize)]
#[serde(rename = "Efficiency", deny_unknown_fields)]
pub(crate) struct RawEfficiency {
    /// By the FLOPs of an op, in every precision.
    pub(crate) products: Option<RawShares<FlopCount>>,
    /// By the bytes of an op.
    pub(crate) memory: Option<RawShares<Size>>,
}

/// One table, with one source for all its points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Shares", deny_unknown_fields, bound(deserialize = ""))]
pub(crate) struct RawShares<D: Dimension> {
    /// Sizes by rising order, in FLOPs (`products`) or bytes (`memory`); shares above 0 and at most
    /// 1, kept to parts per million.
    ///
    /// Values: up to 64.
    pub(crate) points: Vec<(Quantity<D>, f64)>,
    /// What holds between two sizes: a share that moves with the logarithm of the size, or that of
    /// the smaller size. Below the first size its share holds, above the last size its share.
    ///
    /// Default: `interpolated`.
    #[serde(default)]
    pub(crate) between: Interpolation,
    /// Of all points.
    pub(crate) source: Source,
}

/// What ops on the CPU run on.
#[derive(Debug, Deserialize)]
#[serde(rename = "Cpu", deny_unknown_fields)]
pub(crate) struct RawCpu {
    /// The processors' name.
    pub(crate) name: String,
    /// FLOP per second that kernels reach.
    pub(crate) flops: Sourced<FlopRate>,
    /// Bytes per second that kernels reach in memory of the host.
    pub(crate) memory: Sourced<Bandwidth>,
    /// Fixed cost of one op.
    pub(crate) launch: Sourced<Duration>,
}
