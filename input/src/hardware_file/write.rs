//! Writes a machine: [`Hardware`] -> the text of a `hardware-specs/*.ron` file.
//!
//! The way back from [`super::resolve_hardware`]. A fact that knows how its number was written
//! keeps that; one without a value gets the unit that says the number exactly and in few digits.
//! The format's numbers are 64-bit floats, so one of more than 53 bits may be refused.
//! Invariant: what is returned reads back as a machine that is equal in everything: the text is
//! read before it is returned.

mod compute;
mod economics;

use crate::hardware_file::{SCHEMA, resolve_hardware};
use crate::text::quantity::{Bandwidth, Copies, Dimension, Duration, Outstanding, Size, Unit};
use crate::text::ron_text::Document;
use std::fmt::Write;
use std::path::Path;
use tiersim_models::hardware::{Fact, Hardware, Link, Source, Tier, TierKind};
use tiersim_models::service::Discipline;

/// Why a machine cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// Every number of a file has its source.
    #[error("{0} has no source: a spec's number needs one")]
    NoSource(String),
    /// A source of a number that no file has, or the sources of one number twice.
    #[error("{0} is not a number of this machine, or it has two sources")]
    Stray(String),
    /// The machine breaks a rule of the format; the problems of the text that was refused.
    #[error("the machine would not be read back: {0}")]
    Refused(String),
    /// The text would mean another machine.
    #[error("a value of the machine and what its source says was written differ: {0}")]
    Differs(String),
}

/// The text of the file that means `hardware`, with `comment` lines above it.
///
/// Links that the reader adds by itself (a tier's own, without sources) are left out.
pub fn hardware_text(hardware: &Hardware, comment: &str) -> Result<String, Unwritable> {
    let mut writer =
        Writer { hardware, text: String::new(), facts: Vec::new(), economics: Vec::new() };
    for line in comment.lines() {
        writer.line(0, format!("// {line}").trim_end());
    }
    writer.whole()?;
    let Writer { text, facts, economics: priced, .. } = writer;
    if let Some(stray) = economics::stray(hardware, &priced) {
        return Err(stray);
    }
    if facts.len() != hardware.facts.len() {
        let once =
            |of: &[Fact], path: &str| of.iter().filter(|fact| fact.path == path).count() == 1;
        let good = |fact: &&Fact| once(&facts, &fact.path) && once(&hardware.facts, &fact.path);
        let stray = hardware.facts.iter().find(|fact| !good(fact));
        return Err(Unwritable::Stray(stray.map_or_else(String::new, |fact| fact.path.clone())));
    }
    let path = Path::new("the written text");
    let document = Document::from_text(path, text.clone());
    let read = document.and_then(|document| resolve_hardware(&document, hardware.name.clone()));
    let read = read.map_err(|problems| Unwritable::Refused(problems.to_string()))?;
    let mut meant = Hardware { facts, ..hardware.clone() };
    // The order of facts is the file's.
    meant.economics.facts = priced;
    meant.economics.trim();
    if read == meant { Ok(text) } else { Err(Unwritable::Differs(difference(&read, &meant))) }
}

pub(super) struct Writer<'h> {
    pub(super) hardware: &'h Hardware,
    text: String,
    /// What was written, in the order of the file.
    pub(super) facts: Vec<Fact>,
    /// The same for what the machine draws and costs.
    economics: Vec<Fact>,
}

impl Writer<'_> {
    pub(super) fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", depth * 4);
    }

    fn whole(&mut self) -> Result<(), Unwritable> {
        let hardware = self.hardware;
        self.line(0, "Hardware(");
        self.line(1, &format!("schema: {SCHEMA},"));
        self.line(1, &format!("about: {},", quoted(&hardware.about)));
        self.line(1, "tiers: [");
        hardware.tiers.iter().enumerate().try_for_each(|(i, tier)| self.tier(i, tier))?;
        self.line(1, "],");
        self.nodes();
        self.line(1, "links: [");
        let own = |link: &&Link| self.source(&format!("links.{}.setup", link.name)).is_some();
        let links = hardware.links.iter().enumerate();
        let written: Vec<_> = links.filter(|(_, link)| own(link)).collect();
        written.into_iter().try_for_each(|(i, link)| self.link(i, link))?;
        self.line(1, "],");
        self.ways();
        self.server();
        if let Some(compute) = &hardware.compute {
            self.compute(compute)?;
        }
        self.cpu()?;
        self.hidden()?;
        self.line(1, &format!("chunk: {},", quantity(hardware.chunk.get(), Size::UNIT)));
        self.host()?;
        self.line(0, ")");
        Ok(())
    }

    fn hidden(&mut self) -> Result<(), Unwritable> {
        let hardware = self.hardware;
        if hardware.hidden.is_empty() {
            return Ok(());
        }
        self.line(1, "hidden: [");
        for entry in &hardware.hidden {
            let (tier, what) = (&hardware.tiers[entry.tier.index()].name, entry.what.word());
            self.line(2, "(");
            self.line(3, &format!("tier: {},", quoted(tier)));
            self.line(3, &format!("what: {what},"));
            let place = format!("hidden.{tier}.{what}");
            let sourced = self.sourced(place, entry.bytes.get(), Size::UNIT)?;
            self.line(3, &format!("bytes: {sourced},"));
            self.line(2, "),");
        }
        self.line(1, "],");
        Ok(())
    }

    fn tier(&mut self, index: usize, tier: &Tier) -> Result<(), Unwritable> {
        let drives = self.drives(tier);
        let kind = match tier.kind {
            TierKind::Hbm => "hbm",
            TierKind::Cxl => "cxl",
            TierKind::Dram => "dram",
            TierKind::Nvme => "nvme",
            TierKind::Remote => "remote",
        };
        let place = format!("tiers.{}", tier.name);
        self.line(2, "(");
        self.line(3, &format!("name: {},", quoted(&tier.name)));
        self.line(3, &format!("kind: {kind},"));
        if let Some(capacity) = tier.capacity.limit() {
            self.number(&place, "capacity", capacity.get() / drives, Size::UNIT)?;
        }
        self.number(&place, "setup", tier.access.setup.ps(), Duration::UNIT)?;
        self.number(&place, "bandwidth", tier.access.rate.get() / drives, Bandwidth::UNIT)?;
        self.tier_sharers(index);
        if let Some(loaded) = &tier.loaded {
            self.line(3, "loaded: [");
            for (index, curve) in loaded.curves.iter().enumerate() {
                let curve_of = self.curve(format!("{place}.loaded.{index}"))?;
                let reads = f64::from(curve.reads) / 100.0;
                self.line(4, &format!("(reads: {reads}, {curve_of}),"));
            }
            self.line(3, "],");
        }
        if let Some(granule) = tier.requests.granule {
            self.number(&place, "granule", granule.get(), Size::UNIT)?;
        }
        if let Some(depth) = tier.requests.depth {
            self.number(&place, "depth", depth.get().into(), Outstanding::UNIT)?;
        }
        let own = self.hardware.economics.tier(index);
        let included = [own.power_included, own.price_included];
        self.economics(&place, 3, &["energy", "write_energy", "idle", "price"], included)?;
        self.line(2, "),");
        Ok(())
    }

    fn link(&mut self, index: usize, link: &Link) -> Result<(), Unwritable> {
        let node = |id| quoted(self.hardware.node_name(id));
        let (near, far) = (node(link.near), node(link.far));
        let place = format!("links.{}", link.name);
        self.line(2, "(");
        self.line(3, &format!("name: {},", quoted(&link.name)));
        self.line(3, &format!("near: {near},"));
        self.line(3, &format!("far: {far},"));
        if let Some(kind) = link.kind {
            self.line(3, &format!("kind: {kind},"));
        }
        self.link_sharers(index);
        self.number(&place, "setup", link.fetch.setup.ps(), Duration::UNIT)?;
        let drives = link.raid0.map_or(1, |raid0| raid0.drives.get().into());
        self.number(&place, "fetch", link.fetch.rate.get() / drives, Bandwidth::UNIT)?;
        let own = self.source(&format!("{place}.evict_setup")).is_some();
        // With `half` they differ where the rates do.
        let half = self.source(&format!("{place}.half")).is_some();
        if own || (!half && link.evict.setup != link.fetch.setup) {
            self.number(&place, "evict_setup", link.evict.setup.ps(), Duration::UNIT)?;
        }
        self.number(&place, "evict", link.evict.rate.get() / drives, Bandwidth::UNIT)?;
        self.service(link, &place, drives)?;
        self.set_and_others(link, &place)?;
        let own = self.hardware.economics.link(index);
        self.economics(&place, 3, &["energy"], [own.power_included, false])?;
        self.line(2, "),");
        Ok(())
    }

    /// The optional fields of a link, in the order in which they are read. That its copies use
    /// pageable memory cannot be told from its laws, so such a machine is refused and not changed.
    fn service(&mut self, link: &Link, place: &str, drives: u64) -> Result<(), Unwritable> {
        let service = link.service.clone().unwrap_or_default();
        if service.discipline == Discipline::FairShare {
            self.line(3, "service: fair_share,");
        }
        self.group(place, "pageable", ["fetch", "evict"], [0, 0], [Bandwidth::UNIT; 2])?;
        if self.source(&format!("{place}.half")).is_some() {
            self.number(place, "half", 0, Size::UNIT)?;
        }
        if let Some(lanes) = service.lanes {
            self.number(place, "lanes", lanes.get().into(), Copies::UNIT)?;
        }
        if let Some(total) = service.total {
            self.number(place, "total", total.get() / drives, Bandwidth::UNIT)?;
        }
        for (word, detail) in [("fetch", &service.fetch), ("evict", &service.evict)] {
            self.points(place, &format!("{word}_sizes"), detail.sizes.is_empty())?;
            self.points(place, &format!("{word}_depths"), detail.depths.is_empty())?;
            let tail = detail.tail.map_or([0, 0], |tail| [tail.p50.ps(), tail.p99.ps()]);
            let field = format!("{word}_tail");
            self.group(place, &field, ["p50", "p99"], tail, [Duration::UNIT; 2])?;
        }
        let cache = service.evict.cache;
        let cache = cache.map_or([0, 0], |cache| [cache.size.get(), cache.drain.get()]);
        let units = [Size::UNIT, Bandwidth::UNIT];
        self.group(place, "write_cache", ["size", "drain"], cache, units)?;
        self.points(place, "mix", service.mix.is_empty())
    }

    /// A field of two numbers, if it is there.
    pub(super) fn group(
        &mut self,
        place: &str,
        field: &str,
        names: [&str; 2],
        values: [u64; 2],
        units: [&Unit; 2],
    ) -> Result<(), Unwritable> {
        let place = format!("{place}.{field}");
        let known = self.source(&format!("{place}.{}", names[0])).is_some();
        if !known && values == [0, 0] {
            return Ok(());
        }
        let one = self.sourced(format!("{place}.{}", names[0]), values[0], units[0])?;
        let other = self.sourced(format!("{place}.{}", names[1]), values[1], units[1])?;
        self.line(3, &format!("{field}: ({}: {one}, {}: {other}),", names[0], names[1]));
        Ok(())
    }

    /// A field that is a curve, if it is there.
    fn points(&mut self, place: &str, field: &str, empty: bool) -> Result<(), Unwritable> {
        if !empty {
            let curve = self.curve(format!("{place}.{field}"))?;
            self.line(3, &format!("{field}: ({curve}),"));
        }
        Ok(())
    }

    /// `points: [...], source: measured("...")`, the points as they were written.
    fn curve(&mut self, path: String) -> Result<String, Unwritable> {
        let Some(fact) = self.source(&path).cloned() else {
            return Err(Unwritable::NoSource(path));
        };
        let curve = format!("points: {}, source: {}", fact.value, source(&fact.source));
        self.facts.push(fact);
        Ok(curve)
    }

    fn number(
        &mut self,
        place: &str,
        field: &str,
        value: u64,
        unit: &Unit,
    ) -> Result<(), Unwritable> {
        let sourced = self.sourced(format!("{place}.{field}"), value, unit)?;
        self.line(3, &format!("{field}: {sourced},"));
        Ok(())
    }

    /// `(us(5), measured("..."))`
    pub(super) fn sourced(
        &mut self,
        path: String,
        value: u64,
        unit: &Unit,
    ) -> Result<String, Unwritable> {
        let Some(fact) = self.source(&path) else { return Err(Unwritable::NoSource(path)) };
        let mut fact = fact.clone();
        if fact.value.is_empty() {
            fact.value = quantity(value, unit);
        }
        let sourced = format!("({}, {})", fact.value, source(&fact.source));
        self.facts.push(fact);
        Ok(sourced)
    }

    pub(super) fn source(&self, path: &str) -> Option<&Fact> {
        self.hardware.facts.iter().find(|fact| fact.path == path)
    }
}

/// `measured("...")`
pub(super) fn source(source: &Source) -> String {
    let (word, text) = match source {
        Source::Datasheet(text) => ("datasheet", text),
        Source::Measured(text) => ("measured", text),
        Source::Announced(text) => ("announced", text),
        Source::Assumed(text) => ("assumed", text),
    };
    format!("{word}({})", quoted(text))
}

/// A whole number of base units in the largest unit that says it without loss, and shortest there.
pub(super) fn quantity(value: u64, unit: &Unit) -> String {
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

/// A string of the format; only what must be escaped is.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The first thing in which two machines differ, for the message.
fn difference(read: &Hardware, meant: &Hardware) -> String {
    let facts = read.facts.iter().zip(&meant.facts).find(|(one, other)| one != other);
    if let Some((one, other)) = facts {
        return format!("{one:?}, not {other:?}");
    }
    let tiers = read.tiers.iter().zip(&meant.tiers).find(|(one, other)| one != other);
    if let Some((one, other)) = tiers {
        return format!("{one:?}, not {other:?}");
    }
    let links = read.links.iter().zip(&meant.links).find(|(one, other)| one != other);
    links.map_or_else(String::new, |(one, other)| format!("{one:?}, not {other:?}"))
}
