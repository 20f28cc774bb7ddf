//! Writes a measured machine: [`Hardware`] -> the text of a `hardware-specs/*.ron` file.
//!
//! The way back from [`resolve_hardware`], for what can be measured: tiers, nodes without memory,
//! links between them with what both directions reach together, a device, and the spreads of
//! numbers. The format's numbers are 64-bit floats, so
//! one of more than 53 bits may be refused.
//! Invariant: what is returned reads back as a machine that is equal in everything: the text is
//! read before it is returned.

use crate::hardware_file::{SCHEMA, resolve_hardware};
use crate::text::quantity::{Bandwidth, Copies, Dimension, Duration, FlopRate, Size, Unit};
use crate::text::ron_text::{Document, quoted};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tiersim_models::hardware::{Fact, Hardware, Link, Tier, Uncertainty};
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
    #[error("the machine has what is not written, or a number of too many digits")]
    Differs,
}

/// The text of the file that means `hardware`, with `comment` lines above it. Of its facts only the
/// sources and the spreads matter, as shares of their numbers.
pub fn hardware_text(hardware: &Hardware, comment: &str) -> Result<String, Unwritable> {
    let mut facts = BTreeMap::new();
    for fact in &hardware.facts {
        if facts.insert(fact.path.as_str(), fact).is_some() {
            return Err(Unwritable::Stray(fact.path.clone()));
        }
    }
    let mut writer = Writer { text: String::new(), facts };
    for line in comment.lines() {
        writer.line(0, format!("// {line}").trim_end());
    }
    writer.whole(hardware)?;
    let Writer { text, facts } = writer;
    if let Some(stray) = facts.into_keys().next() {
        return Err(Unwritable::Stray(stray.to_owned()));
    }
    let document = Document::from_text(Path::new("the written text"), text.clone());
    let read = document.and_then(|document| resolve_hardware(&document, hardware.name.clone()));
    let read = read.map_err(|problems| Unwritable::Refused(problems.to_string()))?;
    // The order of facts is the file's, and so are their values, units and places.
    let plain = |mut machine: Hardware| {
        for fact in machine.facts.all() {
            fact.value.clear();
            fact.uncertainty = fact.uncertainty.as_ref().and_then(spread).map(Uncertainty::share);
        }
        machine.facts.all().sort_by(|one, other| one.path.cmp(&other.path));
        machine
    };
    if plain(read) == plain(hardware.clone()) { Ok(text) } else { Err(Unwritable::Differs) }
}

struct Writer<'h> {
    text: String,
    /// What is known of numbers that are not written yet.
    facts: BTreeMap<&'h str, &'h Fact>,
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", depth * 4);
    }

    /// A list, unless it is empty; `each` writes one of its entries.
    fn list<T>(
        &mut self,
        name: &str,
        all: &[T],
        mut each: impl FnMut(&mut Self, &T) -> Result<(), Unwritable>,
    ) -> Result<(), Unwritable> {
        if all.is_empty() {
            return Ok(());
        }
        self.line(1, &format!("{name}: ["));
        all.iter().try_for_each(|one| each(self, one))?;
        self.line(1, "],");
        Ok(())
    }

    fn whole(&mut self, hardware: &Hardware) -> Result<(), Unwritable> {
        self.line(0, "Hardware(");
        self.line(1, &format!("schema: {SCHEMA},"));
        self.line(1, &format!("about: {},", quoted(&hardware.about)));
        self.list("tiers", &hardware.tiers, Self::tier)?;
        self.list("nodes", &hardware.nodes, |writer, node| {
            let (name, kind) = (quoted(&node.name), node.kind);
            writer.line(2, &format!("(name: {name}, kind: {}),", kind.word()));
            Ok(())
        })?;
        self.list("links", &hardware.links, |writer, link| writer.link(hardware, link))?;
        if let Some(compute) = &hardware.compute {
            self.line(1, "compute: (");
            self.line(2, &format!("name: {},", quoted(&compute.name)));
            self.line(2, "flops: [");
            for (precision, rate) in &compute.flops {
                let path = format!("compute.flops.{precision}");
                let rate = self.sourced(&path, rate.get(), FlopRate::UNIT)?;
                self.line(3, &format!("(precision: {}, rate: {rate}),", quoted(precision)));
            }
            self.line(2, "],");
            let mut number = |field, value, unit| self.number(2, "compute", field, value, unit);
            number("memory", compute.memory.get(), Bandwidth::UNIT)?;
            number("launch", compute.launch.ps(), Duration::UNIT)?;
            self.line(1, "),");
        }
        self.line(1, &format!("chunk: {},", quantity(hardware.chunk.get(), Size::UNIT)));
        self.line(0, ")");
        Ok(())
    }

    fn tier(&mut self, tier: &Tier) -> Result<(), Unwritable> {
        self.line(2, "(");
        self.line(3, &format!("name: {},", quoted(&tier.name)));
        self.line(3, &format!("kind: {},", tier.kind.word()));
        let place = format!("tiers.{}", tier.name);
        let mut number = |field, value, unit| self.number(3, &place, field, value, unit);
        if let Some(capacity) = tier.capacity.limit() {
            number("capacity", capacity.get(), Size::UNIT)?;
        }
        number("setup", tier.access.setup.ps(), Duration::UNIT)?;
        number("bandwidth", tier.access.rate.get(), Bandwidth::UNIT)?;
        self.line(2, "),");
        Ok(())
    }

    fn link(&mut self, hardware: &Hardware, link: &Link) -> Result<(), Unwritable> {
        self.line(2, "(");
        self.line(3, &format!("name: {},", quoted(&link.name)));
        self.line(3, &format!("near: {},", quoted(hardware.node_name(link.near))));
        self.line(3, &format!("far: {},", quoted(hardware.node_name(link.far))));
        if let Some(kind) = link.kind {
            self.line(3, &format!("kind: {kind},"));
        }
        let service = link.service.as_ref();
        if service.is_some_and(|service| service.discipline == Discipline::FairShare) {
            self.line(3, "service: fair_share,");
        }
        let place = format!("links.{}", link.name);
        let mut number = |field, value, unit| self.number(3, &place, field, value, unit);
        number("setup", link.read.setup.ps(), Duration::UNIT)?;
        number("read", link.read.rate.get(), Bandwidth::UNIT)?;
        number("write_setup", link.write.setup.ps(), Duration::UNIT)?;
        number("write", link.write.rate.get(), Bandwidth::UNIT)?;
        if let Some(copies) = service.and_then(|service| service.max_in_flight) {
            number("max_in_flight", copies.get().into(), Copies::UNIT)?;
        }
        if let Some(total) = service.and_then(|service| service.total) {
            number("total", total.get(), Bandwidth::UNIT)?;
        }
        self.line(2, "),");
        Ok(())
    }

    /// `setup: (us(5), measured("..."), spread(0.01)),`
    fn number(
        &mut self,
        depth: usize,
        place: &str,
        field: &str,
        value: u64,
        unit: &Unit,
    ) -> Result<(), Unwritable> {
        let number = self.sourced(&format!("{place}.{field}"), value, unit)?;
        self.line(depth, &format!("{field}: {number},"));
        Ok(())
    }

    /// `(us(5), measured("..."), spread(0.01))`
    fn sourced(&mut self, path: &str, value: u64, unit: &Unit) -> Result<String, Unwritable> {
        let fact = self.facts.remove(path);
        let Fact { source, uncertainty, .. } =
            fact.ok_or_else(|| Unwritable::NoSource(path.to_owned()))?;
        let (word, text) = (source.confidence().word(), quoted(source.text()));
        let spread = uncertainty.as_ref().and_then(Uncertainty::relative);
        let spread = spread.map(spread_text).unwrap_or_default();
        Ok(format!("({}, {word}({text}){spread})", quantity(value, unit)))
    }
}

/// A spread as a share of its number, to two digits: more than a spread is known to.
fn spread(of: &Uncertainty) -> Option<f64> {
    of.relative().and_then(two_digits)
}

fn two_digits(share: f64) -> Option<f64> {
    format!("{share:.1e}").parse().ok()
}

/// The same as it stands behind the source.
pub(super) fn spread_text(share: f64) -> String {
    two_digits(share).map_or_else(String::new, |share| format!(", spread({share})"))
}

/// A whole number of base units in the largest unit that says it without loss, and shortest there.
pub(crate) fn quantity(value: u64, unit: &Unit) -> String {
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
