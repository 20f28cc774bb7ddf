//! Reads tiers: their laws, what a device asks for at once in them, latency under load, and what
//! they draw and cost.
//!
//! Energy that is in the power of the device or of the host already must not be counted twice, so
//! a tier says so (`included`) and its own numbers are then shown, not added.

use super::raw::{Included, RawHardware, RawLoaded, RawTier};
use super::resolver::{At, Resolver};
use crate::text::quantity::economics::{ENERGY, PER_SIZE, POWER};
use crate::text::quantity::{CAPACITY, DEPTH, GRANULE, RATE, SETUP};
use tiersim_models::energy::TierEconomics;
use tiersim_models::hardware::{Capacity, DeviceRequests, Law, MAX_TIERS, Tier, TierKind};
use tiersim_models::loaded::{Curve, Loaded};

/// More curves than anybody has measured.
const MAX_CURVES: usize = 16;

impl Resolver<'_> {
    /// The tiers of a file; the first of a machine is the device's own memory.
    pub(super) fn tiers(&mut self, raw: &RawHardware) -> Option<Vec<Tier>> {
        match raw.tiers.first() {
            _ if !self.whole => {}
            None => {
                let remedy = "write at least the device's own memory";
                self.check.fault("tiers", "a machine has at least one tier", remedy);
            }
            Some(tier) if tier.kind != TierKind::Hbm => {
                let remedy = "list the device's own memory first, with kind: hbm";
                self.check.fault("tiers.0.kind", "the first tier must be of kind hbm", remedy);
            }
            Some(_) => {}
        }
        let names = raw.tiers.iter().take(MAX_TIERS).map(|tier| &tier.name);
        self.names(("tiers", "tier"), names);
        let tiers = self.check.at_most("tiers", "tiers", &raw.tiers, MAX_TIERS).iter();
        let tiers =
            tiers.enumerate().map(|(i, tier)| self.tier(tier, At::entry("tiers", i, &tier.name)));
        let tiers: Vec<Option<Tier>> = tiers.collect();
        tiers.into_iter().collect()
    }

    fn tier(&mut self, raw: &RawTier, at: At) -> Option<Tier> {
        let capacity = self.optional(&raw.capacity, at.field("capacity"), CAPACITY);
        let setup = self.number(&raw.setup, at.field("setup"), SETUP);
        let rate = self.number(&raw.bandwidth, at.field("bandwidth"), RATE);
        self.tier_economics(raw, &at);
        let access = Law { setup: setup?, rate: rate? };
        let loaded = raw.loaded.as_ref().and_then(|raw| self.loaded(raw, at.field("loaded")));
        let requests = DeviceRequests {
            granule: self.optional(&raw.granule, at.field("granule"), GRANULE),
            depth: self.optional(&raw.depth, at.field("depth"), DEPTH),
        };
        let (name, kind) = (raw.name.clone(), raw.kind);
        let capacity = capacity.map_or(Capacity::Unlimited, Capacity::Limited);
        Some(Tier { name, kind, capacity, access, loaded, requests })
    }

    fn tier_economics(&mut self, raw: &RawTier, at: &At) {
        let read = self.priced(&raw.energy, at.field("energy"), ENERGY);
        let write = self.priced(&raw.write_energy, at.field("write_energy"), ENERGY);
        if raw.energy.is_none() && raw.write_energy.is_some() {
            let rule = "`write_energy` is for writes that differ from reads";
            self.check.fault(&at.field("write_energy").path, rule, "write `energy` too");
        }
        let idle = self.priced(&raw.idle, at.field("idle"), POWER);
        let price = self.priced(&raw.price, at.field("price"), PER_SIZE);
        self.economics.tiers.push(TierEconomics {
            read,
            write: write.or(read),
            idle,
            price,
            power_included: raw.included.contains(&Included::Power),
            price_included: raw.included.contains(&Included::Price),
        });
    }

    fn loaded(&mut self, raw: &[RawLoaded], at: At) -> Option<Loaded> {
        let raw = self.check.at_most(&at.path, "curves", raw, MAX_CURVES).iter();
        let curves = raw.enumerate().map(|(i, raw)| self.curve_of(raw, at.field(&i.to_string())));
        let curves: Vec<Option<Curve>> = curves.collect();
        let curves: Vec<Curve> = curves.into_iter().collect::<Option<_>>()?;
        if curves.is_empty() {
            let remedy = "add a curve, or leave `loaded` out";
            self.check.fault(&at.path, "a loaded tier has at least one curve", remedy);
        }
        for (index, pair) in curves.windows(2).enumerate() {
            if pair[0].reads >= pair[1].reads {
                let rule = "curves come by rising share of reads, each share once";
                let path = format!("{}.{}.reads", at.path, index + 1);
                self.check.fault(&path, rule, "put them in order");
            }
        }
        Some(Loaded { curves })
    }

    fn curve_of(&mut self, raw: &RawLoaded, at: At) -> Option<Curve> {
        let path = at.path.clone();
        let reads = self.check.number(&format!("{path}.reads"), "a share", raw.reads, 0.0, 1.0);
        let points = (&raw.points[..], &raw.source);
        let points = self.curve(points, at, "curve", |check, (rate, span), [first, second]| {
            let rate = rate.value(check, first, RATE);
            rate.zip(span.value(check, second, SETUP))
        })?;
        let rule = "bandwidth rises along a curve, and latency never falls";
        let remedy = "put the points in order, and cut the curve where bandwidth falls";
        self.in_order(&format!("{path}.points"), &points, (rule, remedy), |one, next| {
            one.0 >= next.0 || one.1 > next.1
        });
        // Shares are kept to the per cent: curves are not measured more finely.
        Some(Curve { reads: (reads? * 100.0).round() as u8, points })
    }
}
