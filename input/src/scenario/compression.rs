//! From what a scenario says of compression to formats, links and facts.
//!
//! The scenario lists formats with their sources; each becomes a link of the machine from a tier to
//! itself. A case names those that it uses, or those that it may use where they pay.
//! Invariant: a format that is returned has a place to work in between any two tiers.

use crate::scenario::raw::{RawCase, RawCompress, RawCompression};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::{Limits, Meaning, RATE, SETUP, Sourced};
use std::sync::Arc;
use tiersim_models::compression::{
    Choice, Format, MAX_FORMATS, MOST_RATIO, NoPlace, Packer, RATIO_UNIT, problem,
};
use tiersim_models::hardware::{Fact, HBM, Hardware, Law, Link, Source};
use tiersim_models::ids::{LinkId, TierId};
use tiersim_models::units::{Bandwidth, Span};

/// Longest name of a format, and of an element type.
const MAX_NAME: usize = 40;
/// Most element types of one format.
const MAX_DTYPES: usize = 32;

/// The formats of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    right: Vec<Format>,
    /// Those too with which something is wrong: a case that names one is not at fault.
    names: Vec<String>,
}

/// The formats of a scenario, which become links of its machine.
pub(crate) fn add(
    resolver: &mut Resolver<'_, '_>,
    hardware: &mut Arc<Hardware>,
    raw: &[RawCompression],
) -> Formats {
    let raw = resolver.check.at_most("compression", "formats", raw, MAX_FORMATS);
    let names = raw.iter().map(|format| format.name.clone()).collect();
    let mut formats = Formats { right: Vec::new(), names };
    for (index, raw) in raw.iter().enumerate() {
        let at = format!("compression.{index}");
        let before = resolver.check.problems.0.len();
        let Some(format) = resolver.format(&at, raw, hardware) else { continue };
        if resolver.check.problems.0.len() == before {
            formats.right.push(format);
        }
    }
    formats
}

/// What a case says at `at`.
pub(crate) fn choose(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: Option<&RawCompress>,
    known: &Formats,
) -> Choice {
    let Some(raw) = raw else { return Choice::default() };
    let (names, only_if_it_pays) = match raw {
        RawCompress::All(names) => (names, false),
        RawCompress::IfItPays(names) => (names, true),
    };
    let mut choice = Choice { formats: Vec::new(), only_if_it_pays };
    if names.is_empty() {
        resolver.check.fault(at, "`compress` names at least one format", "leave it out for none");
    }
    let names = resolver.check.at_most(at, "formats", names, MAX_FORMATS);
    for (index, name) in names.iter().enumerate() {
        let path = format!("{at}.0.{index}");
        let Some(format) = known.right.iter().find(|format| format.name == *name) else {
            if known.names.contains(name) {
                continue;
            }
            let names: Vec<&str> = known.names.iter().map(String::as_str).collect();
            let rule = "the scenario's `compression` has no format of this name";
            resolver.check.unknown(&path, rule, name, &names);
            continue;
        };
        if choice.formats.contains(format) {
            resolver.check.fault(&path, "a format is named twice", "leave it out");
            continue;
        }
        choice.formats.push(format.clone());
    }
    let overlap = choice.overlap().filter(|_| !only_if_it_pays);
    if let Some([first, second]) = overlap {
        let [first, second] = [first, second].map(|index| &choice.formats[index].name);
        let rule = format!("`{first}` and `{second}` take the same objects in the same tier");
        let remedy = "write if_it_pays([..]) for the better of them, or narrow their kinds, dtypes \
                      or tiers";
        resolver.check.fault(at, rule, remedy);
    }
    choice
}

/// That cases use every format: its numbers would count among those that the result rests on.
pub(crate) fn used(resolver: &mut Resolver<'_, '_>, raw: &[RawCompression], cases: &[RawCase]) {
    let chosen: Vec<&String> = cases
        .iter()
        .filter_map(|case| case.compress.as_ref())
        .flat_map(|(RawCompress::All(names) | RawCompress::IfItPays(names))| names)
        .collect();
    for (index, format) in raw.iter().enumerate().take(MAX_FORMATS) {
        if !chosen.contains(&&format.name) {
            let rule = "no policy uses this format";
            let remedy = "write compress: all([..]) in a policy, or leave the format out";
            resolver.check.fault(&format!("compression.{index}.name"), rule, remedy);
        }
    }
}

impl Resolver<'_, '_> {
    /// The format at `at`, with its link and its facts in `hardware`; `None` if something is wrong.
    fn format(
        &mut self,
        at: &str,
        raw: &RawCompression,
        hardware: &mut Arc<Hardware>,
    ) -> Option<Format> {
        self.format_name(at, &raw.name, hardware);
        let tiers = self.packed_tiers(at, &raw.tiers, hardware);
        if raw.kinds.is_empty()
            || (1..raw.kinds.len()).any(|i| raw.kinds[..i].contains(&raw.kinds[i]))
        {
            let rule = "`kinds` names at least one kind, each once";
            self.check.fault(&format!("{at}.kinds"), rule, "write [optimizer, master]");
        }
        let dtypes = self.check.at_most(&format!("{at}.dtypes"), "dtypes", &raw.dtypes, MAX_DTYPES);
        if dtypes.iter().any(|dtype| dtype.is_empty() || dtype.len() > MAX_NAME) {
            let rule = format!("a dtype has 1 to {MAX_NAME} bytes");
            self.check.fault(&format!("{at}.dtypes"), rule, "write [\"float32\"]");
        }
        let ratio = self.ratio(at, raw.ratio);
        let mut facts = Vec::new();
        self.packing_fact(at, "ratio", &raw.ratio_source, "ratio_source", &raw.name, &mut facts);
        let setup = match &raw.setup {
            None => Some(Span::ZERO),
            Some(setup) => self.stated(at, "setup", setup, SETUP, &raw.name, &mut facts),
        };
        let pack: Option<Bandwidth> =
            self.stated(at, "pack", &raw.pack, RATE, &raw.name, &mut facts);
        let unpack: Option<Bandwidth> =
            self.stated(at, "unpack", &raw.unpack, RATE, &raw.name, &mut facts);
        let by = raw.by.unwrap_or(Packer::Cpu);
        let works = |tier: &TierId| by.works_in(hardware.tiers[tier.index()].kind);
        let Some(there) = hardware.tier_ids().find(works) else {
            let rule = "the hardware has no memory of the host in which processors could pack";
            self.lacks(&format!("{at}.by"), rule, "write `by: device`, or choose other hardware");
            return None;
        };
        let link = LinkId::at(hardware.links.len());
        let (name, tiers) = (raw.name.clone(), tiers?);
        let kinds = raw.kinds.clone();
        let (dtypes, channels) = (dtypes.to_vec(), Format::channels(link));
        let format = Format { name, tiers, kinds, dtypes, ratio: ratio?, by, channels };
        let routes = hardware.routes().ok()?;
        if let Some(NoPlace { from, to }) = problem(&format, hardware, &routes) {
            self.no_place(at, (from, to), by, hardware);
            return None;
        }
        let laws = [unpack?, pack?].map(|rate| Law { setup: setup.unwrap_or_default(), rate });
        let machine = Arc::make_mut(hardware);
        machine.links.push(Link::new(format.name.clone(), (there, there), laws));
        if by == Packer::Cpu && machine.server.devices > 1 {
            // All devices of the server have the same processors.
            machine.server.links.push((link, machine.server.devices));
        }
        machine.facts.all().extend(facts);
        Some(format)
    }

    fn format_name(&mut self, at: &str, name: &str, hardware: &Hardware) {
        let path = format!("{at}.name");
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(letter) {
            let rule = format!("the name of a format has 1 to {MAX_NAME} of a-z, 0-9 and `-`");
            self.check.fault(&path, rule, "choose another name");
        } else if hardware.links.iter().any(|link| link.name == name) {
            let rule = "a link of the hardware, or another format, has this name";
            self.check.fault(&path, rule, "choose another name");
        }
    }

    fn packed_tiers(
        &mut self,
        at: &str,
        names: &[String],
        hardware: &Hardware,
    ) -> Option<Vec<TierId>> {
        let mut tiers = Vec::new();
        if names.is_empty() {
            let rule = "a format names at least one tier";
            self.check.fault(&format!("{at}.tiers"), rule, "write tiers: [\"nvme\"]");
            return None;
        }
        for (index, name) in names.iter().enumerate().take(hardware.tiers.len() + 1) {
            let path = format!("{at}.tiers.{index}");
            let tier = self.tier(&path, name, hardware)?;
            if tier == HBM {
                let rule = "objects in the device's own memory are used there, not stored packed";
                let remedy = "say it of the model instead: `formats`, or `activations: int8`";
                self.check.fault(&path, rule, remedy);
                return None;
            }
            if tiers.contains(&tier) {
                self.check.fault(&path, "a tier is listed twice", "leave it out");
                return None;
            }
            tiers.push(tier);
        }
        Some(tiers)
    }

    fn ratio(&mut self, at: &str, ratio: f64) -> Option<u64> {
        let (unit, most) = (RATIO_UNIT as f64, MOST_RATIO as f64);
        let what = "bytes per stored byte";
        let ratio = self.check.number(&format!("{at}.ratio"), what, ratio, 1.0, most)?;
        Some((ratio * unit).round() as u64)
    }

    /// A number with its source.
    fn stated<D: Meaning>(
        &mut self,
        at: &str,
        field: &str,
        raw: &Sourced<D>,
        limits: Limits,
        name: &str,
        facts: &mut Vec<Fact>,
    ) -> Option<D::Value> {
        let path = format!("{at}.{field}");
        if raw.doubt.is_some() {
            let rule = "a number of a scenario has no range";
            self.check.fault(&format!("{path}.2"), rule, "vary it with --set or an axis");
        }
        self.packing_fact(
            at,
            &format!("{field}.0"),
            &raw.source,
            &format!("{field}.1"),
            name,
            facts,
        );
        raw.quantity.value(&mut self.check, &format!("{path}.0"), limits)
    }

    fn packing_fact(
        &mut self,
        at: &str,
        value: &str,
        source: &Source,
        source_at: &str,
        name: &str,
        facts: &mut Vec<Fact>,
    ) {
        let (Source::Datasheet(words)
        | Source::Measured(words)
        | Source::Announced(words)
        | Source::Assumed(words)) = source;
        if words.trim().is_empty() {
            let rule = "a source says who, or why";
            self.check.fault(&format!("{at}.{source_at}"), rule, "write it between the quotes");
        }
        let written = self.check.document.value(&format!("{at}.{value}"));
        let field = value.trim_end_matches(".0");
        let path = format!("compression.{name}.{field}");
        facts.push(Fact::new(path, written.unwrap_or_default().to_string(), source.clone()));
    }

    fn no_place(
        &mut self,
        at: &str,
        (from, to): (TierId, TierId),
        by: Packer,
        hardware: &Hardware,
    ) {
        let [from, to] = [from, to].map(|tier| &hardware.tiers[tier.index()].name);
        let (who, remedy) = match by {
            Packer::Cpu => (
                "memory of the host, where processors pack and unpack",
                "write `by: device`, or choose hardware in which copies bounce through it",
            ),
            Packer::Device => (
                "the device, which packs and unpacks",
                "name every tier but the device's own: packed objects go between them as they are",
            ),
        };
        let rule = format!("copies from `{from}` to `{to}` do not pass {who}");
        self.check.fault(&format!("{at}.tiers"), rule, remedy);
    }
}
