//! Reads the device that computes: its rates, and which share of them small work reaches.
//!
//! Invariant: a device without `efficiency` behaves, prints and hashes as if that field did not
//! exist.

use super::Resolver;
use crate::text::quantity::{BYTES, Bandwidth, Dimension, Duration, FlopRate, Limits, Quantity};
use crate::text::quantity::{FlopCount, Size, Sourced, WORK, sourced};
use serde::Deserialize;
use std::collections::BTreeMap;
use tiersim_models::efficiency::{Between, Efficiency, Shares, WHOLE};
use tiersim_models::hardware::{Compute, Fact, Source};
use tiersim_models::units::written::{Power, Price};

/// More than any device has.
const MAX_PRECISIONS: usize = 32;
/// More points than any measured table has.
const MAX_POINTS: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(rename = "Compute", deny_unknown_fields)]
pub(super) struct RawCompute {
    name: String,
    flops: Vec<RawPeak>,
    memory: Sourced<Bandwidth>,
    launch: Sourced<Duration>,
    efficiency: Option<RawEfficiency>,
    pub(super) idle: Option<Sourced<Power>>,
    pub(super) active: Option<Sourced<Power>>,
    pub(super) price: Option<Sourced<Price>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Peak", deny_unknown_fields)]
struct RawPeak {
    precision: String,
    rate: Sourced<FlopRate>,
}

/// Shares of the rates by size.
#[derive(Debug, Deserialize)]
#[serde(rename = "Efficiency", deny_unknown_fields)]
struct RawEfficiency {
    products: Option<RawShares<FlopCount>>,
    memory: Option<RawShares<Size>>,
}

/// One table, with one source for all its points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Shares", deny_unknown_fields, bound(deserialize = ""))]
struct RawShares<D: Dimension> {
    points: Vec<(Quantity<D>, f64)>,
    between: Option<RawBetween>,
    source: Source,
}

/// What holds between two points, as written.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Between", rename_all = "snake_case")]
enum RawBetween {
    Interpolated,
    Steps,
}

impl Resolver<'_> {
    /// The device, if enough of it is right.
    pub(super) fn compute(&mut self, raw: &RawCompute) -> Option<Compute> {
        if raw.name.trim().is_empty() {
            self.check.fault("compute.name", "a device has a name", "name it");
        }
        let mut flops: Vec<Option<(String, FlopRate)>> = Vec::new();
        let mut seen = BTreeMap::new();
        let peaks = self.check.at_most("compute.flops", "precisions", &raw.flops, MAX_PRECISIONS);
        for (index, peak) in peaks.iter().enumerate() {
            let path = format!("compute.flops.{index}");
            if seen.insert(&peak.precision, index).is_some() {
                let rule = format!("`{}` is given twice", peak.precision);
                self.check.fault(&path, rule, "keep one of them");
            }
            let fact = format!("compute.flops.{}", peak.precision);
            self.fact(&peak.rate, &format!("{path}.rate"), fact);
            let rate = peak.rate.quantity.rate(&mut self.check, &format!("{path}.rate.0"));
            flops.push(rate.map(|rate| (peak.precision.clone(), rate)));
        }
        let memory = self.rate(&raw.memory, "compute.memory", "compute.memory".into());
        let launch = self.span(&raw.launch, "compute.launch", "compute.launch".into());
        let efficiency = match &raw.efficiency {
            Some(raw) => self.efficiency(raw),
            None => Some(Efficiency::default()),
        };
        self.device_economics(raw);
        Some(Compute {
            name: raw.name.trim().to_string(),
            flops: flops.into_iter().collect::<Option<Vec<_>>>()?,
            memory: memory?,
            launch: launch?,
            efficiency: efficiency?,
        })
    }

    fn efficiency(&mut self, raw: &RawEfficiency) -> Option<Efficiency> {
        if raw.products.is_none() && raw.memory.is_none() {
            let remedy = "write products or memory, or leave `efficiency` out";
            self.check.fault("compute.efficiency", "`efficiency` has at least one table", remedy);
        }
        let products = raw.products.as_ref().map(|raw| self.shares(raw, "products", WORK));
        let memory = raw.memory.as_ref().map(|raw| self.shares(raw, "memory", BYTES));
        let given = |shares: Option<Option<Shares>>| shares.unwrap_or(Some(Shares::default()));
        Some(Efficiency { products: given(products)?, memory: given(memory)? })
    }

    fn shares<D: Dimension>(
        &mut self,
        raw: &RawShares<D>,
        what: &str,
        limits: Limits,
    ) -> Option<Shares> {
        let path = format!("compute.efficiency.{what}");
        let places = format!("{path}.points");
        let source = sourced(&raw.source, &mut self.check, &format!("{path}.source"));
        let value = self.check.document.value(&places).unwrap_or_default().to_string();
        self.facts.push(Fact { path: path.clone(), value, source });
        let between = match raw.between {
            Some(RawBetween::Steps) => Between::Steps,
            Some(RawBetween::Interpolated) | None => Between::Interpolated,
        };
        let points = self.check.at_most(&places, "points", &raw.points, MAX_POINTS);
        let mut read = Vec::new();
        for (index, (size, share)) in points.iter().enumerate() {
            let here = format!("{places}.{index}");
            let size = size.resolve(&mut self.check, &format!("{here}.0"), limits);
            let least = 1.0 / f64::from(WHOLE);
            let share = self.check.number(&format!("{here}.1"), "a share", *share, least, 1.0);
            // Shares are kept to parts per million: none is measured more finely.
            let share = share.map(|share| (share * f64::from(WHOLE)).round() as u32);
            read.push(size.zip(share));
        }
        let points: Vec<_> = read.into_iter().collect::<Option<_>>()?;
        if points.is_empty() {
            let remedy = "add one, or leave the table out";
            self.check.fault(&places, "a table has at least one point", remedy);
        }
        if between == Between::Interpolated && points.first().is_some_and(|&(size, _)| size == 0) {
            let rule = "shares move with the logarithm of the size, and 0 has none";
            let remedy = "begin above 0, or write between: steps";
            self.check.fault(&format!("{places}.0.0"), rule, remedy);
        }
        for (index, pair) in points.windows(2).enumerate() {
            if pair[0].0 >= pair[1].0 {
                let rule = "sizes rise along a table, each once";
                self.check.fault(&format!("{places}.{}", index + 1), rule, "put them in order");
            }
        }
        Some(Shares { points, between })
    }
}
