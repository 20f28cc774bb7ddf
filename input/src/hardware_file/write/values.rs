//! How the numbers of a machine are written where nobody has said it.

use crate::text::quantity::{
    Bandwidth, Copies, Dimension, Drives, Duration, FlopCount, FlopRate, Outstanding, Size, Unit,
};
use std::collections::BTreeMap;
use tiersim_models::efficiency::{Shares, WHOLE};
use tiersim_models::hardware::{Hardware, Link, Tier};

/// Every number that a file of this machine has, by its path in listings; empty where it is written
/// as it was alone, as curves are. That copies use pageable memory cannot be told from the laws of
/// their link, so such a machine is refused and not changed.
pub(super) fn values(hardware: &Hardware) -> BTreeMap<String, String> {
    let mut values = Values(BTreeMap::new());
    for tier in &hardware.tiers {
        values.tier(tier, drives(hardware, tier));
    }
    let said = |path: String| hardware.facts.iter().any(|fact| fact.path == path);
    // Links without sources are added by the reader.
    for link in hardware.links.iter().filter(|link| said(format!("links.{}.setup", link.name))) {
        // With `half` set-ups differ where the rates do.
        let half = said(format!("links.{}.half", link.name));
        let own = said(format!("links.{}.write_setup", link.name));
        values.link(link, own || !half && link.write.setup != link.read.setup);
    }
    if let Some(compute) = &hardware.compute {
        for (precision, rate) in &compute.flops {
            values.say("compute.flops", precision, rate.get(), FlopRate::UNIT);
        }
        values.say("compute", "memory", compute.memory.get(), Bandwidth::UNIT);
        values.say("compute", "launch", compute.launch.ps(), Duration::UNIT);
        values.table("products", &compute.efficiency.products, FlopCount::UNIT);
        values.table("memory", &compute.efficiency.memory, Size::UNIT);
    }
    if let Some(cpu) = &hardware.cpu {
        values.say("cpu", "flops", cpu.flops.get(), FlopRate::UNIT);
        values.say("cpu", "memory", cpu.memory.get(), Bandwidth::UNIT);
        values.say("cpu", "launch", cpu.launch.ps(), Duration::UNIT);
    }
    for entry in &hardware.hidden {
        let place = format!("hidden.{}", hardware.tiers[entry.tier.index()].name);
        values.say(&place, entry.what.word(), entry.bytes.get(), Size::UNIT);
    }
    values.0
}

/// How finely copies are cut.
pub(super) fn chunk(hardware: &Hardware) -> String {
    quantity(hardware.chunk.get(), Size::UNIT)
}

/// How many drives a tier is; its numbers are written for one.
fn drives(hardware: &Hardware, tier: &Tier) -> u64 {
    let node = hardware.node(&tier.name);
    let mut links = hardware.links.iter().filter(|link| Some(link.far) == node);
    links.find_map(|link| link.raid0).map_or(1, |raid0| raid0.drives.get().into())
}

struct Values(BTreeMap<String, String>);

impl Values {
    fn say(&mut self, place: &str, field: &str, value: u64, unit: &Unit) {
        self.0.insert(format!("{place}.{field}"), quantity(value, unit));
    }

    /// A curve, if it is there, whose points only its fact has as they were written.
    fn curve(&mut self, place: &str, field: &str, there: bool) {
        if there {
            self.0.insert(format!("{place}.{field}"), String::new());
        }
    }

    fn tier(&mut self, tier: &Tier, drives: u64) {
        let place = format!("tiers.{}", tier.name);
        if let Some(capacity) = tier.capacity.limit() {
            self.say(&place, "capacity", capacity.get() / drives, Size::UNIT);
        }
        self.say(&place, "setup", tier.access.setup.ps(), Duration::UNIT);
        self.say(&place, "bandwidth", tier.access.rate.get() / drives, Bandwidth::UNIT);
        if let Some(granule) = tier.requests.granule {
            self.say(&place, "granule", granule.get(), Size::UNIT);
        }
        if let Some(depth) = tier.requests.depth {
            self.say(&place, "depth", depth.get().into(), Outstanding::UNIT);
        }
        for index in 0..tier.loaded.as_ref().map_or(0, |loaded| loaded.curves.len()) {
            self.curve(&place, &format!("loaded.{index}"), true);
        }
    }

    fn link(&mut self, link: &Link, own_setup: bool) {
        let place = format!("links.{}", link.name);
        let drives = link.raid0.map_or(1, |raid0| raid0.drives.get().into());
        self.say(&place, "setup", link.read.setup.ps(), Duration::UNIT);
        self.say(&place, "read", link.read.rate.get() / drives, Bandwidth::UNIT);
        if own_setup {
            self.say(&place, "write_setup", link.write.setup.ps(), Duration::UNIT);
        }
        self.say(&place, "write", link.write.rate.get() / drives, Bandwidth::UNIT);
        if let Some(service) = &link.service {
            if let Some(max_in_flight) = service.max_in_flight {
                self.say(&place, "max_in_flight", max_in_flight.get().into(), Copies::UNIT);
            }
            if let Some(total) = service.total {
                self.say(&place, "total", total.get() / drives, Bandwidth::UNIT);
            }
            for (word, detail) in [("read", &service.read), ("write", &service.write)] {
                self.curve(&place, &format!("{word}_sizes"), !detail.sizes.is_empty());
                self.curve(&place, &format!("{word}_depths"), !detail.depths.is_empty());
                if let Some(tail) = detail.tail {
                    let place = format!("{place}.{word}_tail");
                    self.say(&place, "p50", tail.p50.ps(), Duration::UNIT);
                    self.say(&place, "p99", tail.p99.ps(), Duration::UNIT);
                }
            }
            if let Some(cache) = service.write.cache {
                let place = format!("{place}.write_cache");
                self.say(&place, "size", cache.size.get(), Size::UNIT);
                self.say(&place, "drain", cache.drain.get(), Bandwidth::UNIT);
            }
            self.curve(&place, "mix", !service.mix.is_empty());
        }
        if let Some(raid0) = link.raid0 {
            let place = format!("{place}.raid0");
            self.say(&place, "drives", raid0.drives.get().into(), Drives::UNIT);
            self.say(&place, "stripe", raid0.stripe.get(), Size::UNIT);
        }
        for (word, rate) in ["read", "write"].into_iter().zip(link.background) {
            if let Some(rate) = rate {
                self.say(&format!("{place}.background"), word, rate.get(), Bandwidth::UNIT);
            }
        }
    }

    /// A table of what small work reaches, if there is one.
    fn table(&mut self, what: &str, shares: &Shares, unit: &Unit) {
        if !shares.points.is_empty() {
            let point = |&(size, share): &(u64, u32)| {
                format!("({}, {})", quantity(size, unit), f64::from(share) / f64::from(WHOLE))
            };
            let points: Vec<String> = shares.points.iter().map(point).collect();
            let path = format!("compute.efficiency.{what}");
            self.0.insert(path, format!("[{}]", points.join(", ")));
        }
    }
}

/// A whole number of base units in the largest unit that says it without loss, and shortest there.
fn quantity(value: u64, unit: &Unit) -> String {
    let say = |(word, factor): (&&str, &f64)| {
        let number = value as f64 / factor;
        let exact = (number * factor).round() as u64 == value;
        // A power of two only where it is a whole number: mib(1), never gib(0.0009765625).
        let binary = word.contains("ib") && !word.starts_with('b');
        let fits = number >= 1.0 && (!binary || number.fract() == 0.0);
        (exact && fits).then(|| format!("{word}({number})"))
    };
    let all: Vec<String> = unit.words.iter().zip(unit.factors).filter_map(say).collect();
    let shortest = all.iter().map(String::len).min().unwrap_or(0);
    // The largest unit that costs no more than a decimal point: us(3.45), not ns(3450).
    let best = all.into_iter().rev().find(|said| said.len() <= shortest + 1);
    best.unwrap_or_else(|| format!("{}({})", unit.words[0], value as f64 / unit.factors[0]))
}
