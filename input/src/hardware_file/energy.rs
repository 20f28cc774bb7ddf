//! Reads what a machine draws and costs: optional numbers of tiers, links, device and host.
//!
//! Every one has its source, as all numbers have; they are listed apart, because no time rests on
//! them. Energy that is in the power of the device or of the host already must not be counted
//! twice, so a tier or a link says so (`included`) and its own numbers are then shown, not added.
//! Invariant: a device that works draws no less than one that does not.

use super::{RawCompute, RawLink, RawTier, Resolver};
use crate::text::quantity::{Dimension, Sourced, sourced};
use serde::Deserialize;
use tiersim_models::energy::{DeviceEconomics, HostEconomics, LinkEconomics, TierEconomics};
use tiersim_models::hardware::Fact;
use tiersim_models::units::written::{EnergyPerBit, Power, Price, PricePerSize, StandingPower};

/// What the numbers of the device or of the host hold already.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename = "Included", rename_all = "snake_case")]
pub(super) enum RawIncluded {
    Power,
    Price,
}

/// Processors, board, fans, losses of the power supplies.
#[derive(Debug, Deserialize)]
#[serde(rename = "Host", deny_unknown_fields)]
pub(super) struct RawHost {
    power: Option<Sourced<Power>>,
    price: Option<Sourced<Price>>,
}

impl Resolver<'_> {
    /// The numbers of the tier at `index`.
    pub(super) fn tier_economics(&mut self, index: usize, raw: &RawTier) {
        let (here, fact) = (format!("tiers.{index}"), format!("tiers.{}", raw.name));
        let read = self.energy(&raw.energy, &here, &fact, "energy");
        let write = match &raw.write_energy {
            Some(_) => self.energy(&raw.write_energy, &here, &fact, "write_energy"),
            None => read,
        };
        if raw.energy.is_none() && raw.write_energy.is_some() {
            let rule = "`write_energy` is for writes that differ from reads";
            self.check.fault(&format!("{here}.write_energy"), rule, "write `energy` too");
        }
        let idle = raw.idle.as_ref().and_then(|idle: &Sourced<StandingPower>| {
            let path = self.noted(idle, &here, &fact, "idle");
            idle.quantity.standby(&mut self.check, &path)
        });
        let price = raw.price.as_ref().and_then(|price: &Sourced<PricePerSize>| {
            let path = self.noted(price, &here, &fact, "price");
            price.quantity.nanodollars(&mut self.check, &path)
        });
        let included = |what| raw.included.contains(&what);
        self.economics.tiers.push(TierEconomics {
            read,
            write,
            idle,
            price,
            power_included: included(RawIncluded::Power),
            price_included: included(RawIncluded::Price),
        });
    }

    /// The numbers of the link at `index`.
    pub(super) fn link_economics(&mut self, index: usize, raw: &RawLink) {
        let (here, fact) = (format!("links.{index}"), format!("links.{}", raw.name));
        let energy = self.energy(&raw.energy, &here, &fact, "energy");
        if let Some(at) = raw.included.iter().position(|what| *what == RawIncluded::Price) {
            let rule = "a link has no price of its own";
            let remedy = "leave it out: what a link costs is part of the host's price";
            self.check.fault(&format!("{here}.included.{at}"), rule, remedy);
        }
        let power_included = raw.included.contains(&RawIncluded::Power);
        self.economics.links.push(LinkEconomics { energy, power_included });
    }

    /// The numbers of the device.
    pub(super) fn device_economics(&mut self, raw: &RawCompute) {
        let idle = self.power(&raw.idle, "compute", "idle");
        let active = self.power(&raw.active, "compute", "active");
        if active.zip(idle).is_some_and(|(active, idle)| active < idle) {
            let rule = "a device that computes draws no less than an idle one";
            self.check.fault("compute.active.0", rule, "raise `active`, or lower `idle`");
        }
        let price = self.whole_price(&raw.price, "compute");
        self.economics.device = DeviceEconomics { idle, active, price };
    }

    /// The numbers of the rest, once those of tiers and links are read.
    pub(super) fn host_economics(&mut self, raw: &Option<RawHost>) {
        self.economics.trim();
        let Some(raw) = raw else { return };
        let power = self.power(&raw.power, "host", "power");
        let price = self.whole_price(&raw.price, "host");
        self.economics.host = HostEconomics { power, price };
    }

    fn energy(
        &mut self,
        raw: &Option<Sourced<EnergyPerBit>>,
        here: &str,
        fact: &str,
        field: &str,
    ) -> Option<u64> {
        let raw = raw.as_ref()?;
        let path = self.noted(raw, here, fact, field);
        raw.quantity.attojoules(&mut self.check, &path)
    }

    fn power(&mut self, raw: &Option<Sourced<Power>>, place: &str, field: &str) -> Option<u64> {
        let raw = raw.as_ref()?;
        let path = self.noted(raw, place, place, field);
        raw.quantity.microwatts(&mut self.check, &path)
    }

    fn whole_price(&mut self, raw: &Option<Sourced<Price>>, place: &str) -> Option<u64> {
        let raw = raw.as_ref()?;
        let path = self.noted(raw, place, place, "price");
        raw.quantity.nanodollars(&mut self.check, &path)
    }

    /// Notes a number with its source, apart from those that times rest on; returns the path of
    /// its value in the file.
    fn noted<D: Dimension>(
        &mut self,
        raw: &Sourced<D>,
        here: &str,
        fact: &str,
        field: &str,
    ) -> String {
        let path = format!("{here}.{field}");
        let source = sourced(&raw.source, &mut self.check, &format!("{path}.1"));
        let value = format!("{path}.0");
        let written = self.check.document.value(&value).unwrap_or_default().to_string();
        self.economics.facts.push(Fact { path: format!("{fact}.{field}"), value: written, source });
        value
    }
}
