//! Writes a machine: [`Hardware`] -> the text of a `hardware-specs/*.ron` file.
//!
//! The way back from [`resolve_hardware`]. Numbers are written by their facts, whose paths say
//! where they stand: a fact that knows how its number was written keeps that, for one without a
//! value `values` has the unit that says the number exactly and in few digits. The format's
//! numbers are 64-bit floats, so one of more than 53 bits may be refused.
//! Invariant: what is returned reads back as a machine that is equal in everything: the text is
//! read before it is returned.

mod values;

use crate::hardware_file::{SCHEMA, resolve_hardware};
use crate::text::ron_text::{Document, quoted};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::Path;
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares};
use tiersim_models::hardware::{Compute, Fact, Hardware, Link, Source, Tier, TierKind};
use tiersim_models::ids::{LinkId, NodeId, TierId};
use tiersim_models::nodes::{Node, PrescribedRoute};
use tiersim_models::server::Server;
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
    let mut meant = hardware.clone();
    let mut values = values::values(hardware);
    for fact in &mut meant.facts {
        let value = values.remove(&fact.path).unwrap_or_default();
        if fact.value.is_empty() {
            fact.value = value;
        }
    }
    if let Some((path, _)) = values.pop_first() {
        return Err(Unwritable::NoSource(path));
    }
    let facts = || meant.facts.iter().chain(&meant.economics.facts);
    if let Some(fact) = facts().find(|fact| fact.value.is_empty()) {
        return Err(Unwritable::NoSource(fact.path.clone()));
    }
    let mut writer = Writer { hardware: &meant, text: String::new(), left: BTreeMap::new() };
    for fact in facts() {
        if writer.left.insert(&fact.path, fact).is_some() {
            return Err(Unwritable::Stray(fact.path.clone()));
        }
    }
    for line in comment.lines() {
        writer.line(0, format!("// {line}").trim_end());
    }
    writer.whole();
    let Writer { text, left, .. } = writer;
    if let Some(stray) = left.keys().next() {
        return Err(Unwritable::Stray((*stray).to_owned()));
    }
    let path = Path::new("the written text");
    let document = Document::from_text(path, text.clone());
    let read = document.and_then(|document| resolve_hardware(&document, hardware.name.clone()));
    let mut read = read.map_err(|problems| Unwritable::Refused(problems.to_string()))?;
    // The order of facts is the file's.
    for machine in [&mut read, &mut meant] {
        machine.facts.sort_by(|one, other| one.path.cmp(&other.path));
        machine.economics.facts.sort_by(|one, other| one.path.cmp(&other.path));
        machine.economics.trim();
    }
    if read == meant { Ok(text) } else { Err(Unwritable::Differs(difference(&read, &meant))) }
}

struct Writer<'h> {
    hardware: &'h Hardware,
    text: String,
    /// Facts that are not written yet.
    left: BTreeMap<&'h str, &'h Fact>,
}

impl<'h> Writer<'h> {
    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", depth * 4);
    }

    /// A list, unless it is empty; `each` writes one of its entries.
    fn list<T>(&mut self, name: &str, all: &[T], mut each: impl FnMut(&mut Self, usize, &T)) {
        if !all.is_empty() {
            self.line(1, &format!("{name}: ["));
            all.iter().enumerate().for_each(|(index, one)| each(self, index, one));
            self.line(1, "],");
        }
    }

    fn whole(&mut self) {
        let hardware = self.hardware;
        self.line(0, "Hardware(");
        self.line(1, &format!("schema: {SCHEMA},"));
        self.line(1, &format!("about: {},", quoted(&hardware.about)));
        self.list("tiers", &hardware.tiers, Self::tier);
        self.list("nodes", &hardware.nodes, |writer, _, Node { name, kind }| {
            writer.line(2, &format!("(name: {}, kind: {}),", quoted(name), kind.word()));
        });
        self.list("links", &hardware.links, Self::link);
        self.list("routes", &hardware.routes, |writer, _, PrescribedRoute { from, to, via }| {
            let (from, to) = (writer.node((*from).into()), writer.node((*to).into()));
            let via: Vec<String> = via.iter().map(|&node| writer.node(node)).collect();
            writer.line(2, &format!("(from: {from}, to: {to}, via: [{}]),", via.join(", ")));
        });
        let Server { devices, within, between, .. } = &hardware.server;
        if (*devices, *within, *between) != (1, None, None) {
            let mut text = format!("devices: {devices}");
            for (field, node) in [("within", within), ("between", between)] {
                text +=
                    &node.map_or_else(String::new, |id| format!(", {field}: {}", self.node(id)));
            }
            self.line(1, &format!("server: ({text}),"));
        }
        if let Some(compute) = &hardware.compute {
            self.compute(compute);
        }
        if let Some(cpu) = &hardware.cpu {
            self.line(1, "cpu: (");
            self.line(2, &format!("name: {},", quoted(&cpu.name)));
            self.fields(2, "cpu");
            self.line(1, "),");
        }
        self.list("hidden", &hardware.hidden, |writer, _, entry| {
            let tier = &hardware.tiers[entry.tier.index()].name;
            let what = entry.what.word();
            if let Some(bytes) = writer.number(&format!("hidden.{tier}.{what}")) {
                let tier = quoted(tier);
                writer.line(2, &format!("(tier: {tier}, what: {what}, bytes: {bytes}),"));
            }
        });
        self.line(1, &format!("chunk: {},", values::chunk(hardware)));
        if self.left.keys().any(|path| path.starts_with("host.")) {
            self.line(1, "host: (");
            self.fields(2, "host");
            self.line(1, "),");
        }
        self.line(0, ")");
    }

    fn node(&self, id: NodeId) -> String {
        quoted(self.hardware.node_name(id))
    }

    fn tier(&mut self, index: usize, tier: &Tier) {
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
        self.sharers(self.hardware.server.sharers_of_tier(TierId::at(index)));
        if let Some(loaded) = &tier.loaded {
            self.line(3, "loaded: [");
            for (index, curve) in loaded.curves.iter().enumerate() {
                let points = self.number(&format!("{place}.loaded.{index}")).unwrap_or_default();
                let reads = f64::from(curve.reads) / 100.0;
                self.line(4, &format!("(reads: {reads}, {},", points.trim_start_matches('(')));
            }
            self.line(3, "],");
        }
        self.fields(3, &place);
        let own = self.hardware.economics.tier(index);
        self.included(own.power_included, own.price_included);
        self.line(2, "),");
    }

    fn link(&mut self, index: usize, link: &Link) {
        let place = format!("links.{}", link.name);
        if !self.left.contains_key(&*format!("{place}.setup")) {
            return;
        }
        self.line(2, "(");
        self.line(3, &format!("name: {},", quoted(&link.name)));
        self.line(3, &format!("near: {},", self.node(link.near)));
        self.line(3, &format!("far: {},", self.node(link.far)));
        if let Some(kind) = link.kind {
            self.line(3, &format!("kind: {kind},"));
        }
        self.sharers(self.hardware.server.sharers_of_link(LinkId::at(index)));
        let discipline = link.service.as_ref().map(|service| service.discipline);
        if discipline == Some(Discipline::FairShare) {
            self.line(3, "service: fair_share,");
        }
        self.fields(3, &place);
        self.included(self.hardware.economics.link(index).power_included, false);
        self.line(2, "),");
    }

    fn compute(&mut self, compute: &Compute) {
        self.line(1, "compute: (");
        self.line(2, &format!("name: {},", quoted(&compute.name)));
        self.line(2, "flops: [");
        for (precision, _) in &compute.flops {
            if let Some(rate) = self.number(&format!("compute.flops.{precision}")) {
                self.line(3, &format!("(precision: {}, rate: {rate}),", quoted(precision)));
            }
        }
        self.line(2, "],");
        let Efficiency { products, memory } = &compute.efficiency;
        let mut shares = |what: &str, shares: &Shares| {
            let table = self.number(&format!("compute.efficiency.{what}")).unwrap_or_default();
            let between = match shares.interpolation {
                Interpolation::Steps => "between: steps, ",
                Interpolation::Interpolated => "",
            };
            (!table.is_empty())
                .then(|| format!("{what}: ({between}{}", table.trim_start_matches('(')))
        };
        let tables: Vec<String> = [shares("products", products), shares("memory", memory)]
            .into_iter()
            .flatten()
            .collect();
        if !tables.is_empty() {
            self.line(2, &format!("efficiency: ({}),", tables.join(", ")));
        }
        self.fields(2, "compute");
        self.line(1, "),");
    }

    /// `devices: 4` of a tier or link that several share.
    fn sharers(&mut self, by: u32) {
        if by != 1 {
            self.line(3, &format!("devices: {by},"));
        }
    }

    /// What is in the numbers of the device or of the host already.
    fn included(&mut self, power: bool, price: bool) {
        let words = [("power", power), ("price", price)].into_iter();
        let words: Vec<&str> = words.filter_map(|(word, is)| is.then_some(word)).collect();
        if !words.is_empty() {
            self.line(3, &format!("included: [{}],", words.join(", ")));
        }
    }

    /// The numbers of `place` that are left: `links.pcie.setup` is a field, and what is one deeper,
    /// such as `links.pcie.read_tail.p50`, is in a field of that field.
    fn fields(&mut self, depth: usize, place: &str) {
        let below = format!("{place}.");
        let all: Vec<&str> =
            self.left.keys().copied().filter(|path| path.starts_with(&below)).collect();
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for path in all {
            let number = self.number(path).unwrap_or_default();
            match path[below.len()..].split_once('.') {
                Some((group, field)) => {
                    groups.entry(group).or_default().push(format!("{field}: {number}"));
                }
                None => self.line(depth, &format!("{}: {number},", &path[below.len()..])),
            }
        }
        for (group, fields) in groups {
            self.line(depth, &format!("{group}: ({}),", fields.join(", ")));
        }
    }

    /// `(us(5), measured("..."))`, or `(points: [...], source: measured("..."))` of a curve.
    fn number(&mut self, path: &str) -> Option<String> {
        let Fact { value, source, .. } = self.left.remove(path)?;
        let word = match source {
            Source::Datasheet(_) => "datasheet",
            Source::Measured(_) => "measured",
            Source::Announced(_) => "announced",
            Source::Assumed(_) => "assumed",
        };
        let source = format!("{word}({})", quoted(source.text()));
        Some(match value.starts_with('[') {
            true => format!("(points: {value}, source: {source})"),
            false => format!("({value}, {source})"),
        })
    }
}

/// The first thing in which two machines differ, for the message.
fn difference(read: &Hardware, meant: &Hardware) -> String {
    fn first<T: Debug + PartialEq>(read: &[T], meant: &[T]) -> Option<String> {
        let (one, other) = read.iter().zip(meant).find(|(one, other)| one != other)?;
        Some(format!("{one:?}, not {other:?}"))
    }
    first(&read.facts, &meant.facts)
        .or_else(|| first(&read.tiers, &meant.tiers))
        .or_else(|| first(&read.links, &meant.links))
        .unwrap_or_default()
}
