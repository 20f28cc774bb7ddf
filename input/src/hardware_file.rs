//! Reads a machine: `hardware-specs/*.ron` -> [`Hardware`].
//!
//! Every number of the file is written with its source and becomes a [`Fact`]; a number without one
//! does not parse. The only numbers without a source are `chunk`, for how finely the simulator cuts
//! a copy is its own choice and no property of the machine, and how many `devices` a server has. A
//! machine may be put together from [`parts`]; the rules see one file all the same.
//! Invariant: a returned machine obeys every rule of this file, all of which are checked before
//! any problem is reported.

mod compute;
mod cpu;
mod drives;
mod energy;
mod hidden;
mod loaded;
mod nodes;
pub mod parts;
mod server;
mod service;
pub mod write;

use crate::file_kind::{FileKind, refused};
use crate::hardware_file::compute::RawCompute;
use crate::hardware_file::cpu::RawCpu;
use crate::hardware_file::drives::{RawOthers, RawRaid0};
use crate::hardware_file::energy::{RawHost, RawIncluded};
use crate::hardware_file::hidden::RawHidden;
use crate::hardware_file::loaded::RawLoaded;
use crate::hardware_file::nodes::{RawNode, RawWay};
use crate::hardware_file::parts::RawInclude;
use crate::hardware_file::server::RawServer;
use crate::hardware_file::service::{
    RawBuffers, RawCache, RawDepths, RawDiscipline, RawMix, RawPageable, RawSizes, RawTail,
};
use crate::project::Project;
use crate::text::check::Check;
use crate::text::quantity::{Bandwidth, CAPACITY, CHUNK, Copies, Dimension, Duration};
use crate::text::quantity::{HALF, Outstanding, Quantity, SETUP, Size, Sourced, sourced};
use crate::text::ron_text::Document;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::energy::Economics;
use tiersim_models::hardware::{Capacity, Fact, Hardware, Law, Link, MAX_TIERS, Tier, TierKind};
use tiersim_models::nodes::{LinkKind, MAX_LINKS};
use tiersim_models::server::Server;
use tiersim_models::units::written::{EnergyPerBit, PricePerSize, StandingPower};
use tiersim_models::units::{Bytes, Span};

/// Version of the file format.
pub const SCHEMA: u32 = 1;

/// Reads and checks a hardware file; the machine is called like the file.
pub fn read_hardware(path: &Path) -> Result<Hardware, Diagnostics> {
    let read = || resolve_hardware(&Document::read(path)?, name_of(path));
    read().map_err(|said| refused(path, &[FileKind::Hardware], said))
}

/// Reads and checks a machine that `project` names: one that ships may have parts of the project.
pub fn read_hardware_of(path: &Path, project: &Project) -> Result<Hardware, Diagnostics> {
    let read = || resolve(&Document::read(path)?, name_of(path), Some(project));
    read().map_err(|said| refused(path, &[FileKind::Hardware], said))
}

/// Checks a hardware document.
pub fn resolve_hardware(document: &Document, name: String) -> Result<Hardware, Diagnostics> {
    resolve(document, name, None)
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn resolve(
    document: &Document,
    name: String,
    project: Option<&Project>,
) -> Result<Hardware, Diagnostics> {
    parts::refuse(document, "Part")?;
    let parsed = document.parse::<RawHardware>();
    let parsed = parsed.map_err(|problems| parts::with_parts(document, problems, project))?;
    if parsed.raw.parts.is_some() {
        return parts::resolve(document, parsed, name, project);
    }
    parts::resolved(document, &parsed.raw, name, parsed.problems, true)
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Hardware", deny_unknown_fields)]
struct RawHardware {
    schema: u32,
    about: String,
    parts: Option<Vec<RawInclude>>,
    #[serde(default)]
    tiers: Vec<RawTier>,
    #[serde(default)]
    nodes: Vec<RawNode>,
    #[serde(default)]
    links: Vec<RawLink>,
    #[serde(default)]
    routes: Vec<RawWay>,
    compute: Option<RawCompute>,
    cpu: Option<RawCpu>,
    chunk: Option<Quantity<Size>>,
    host: Option<RawHost>,
    #[serde(default)]
    hidden: Vec<RawHidden>,
    server: Option<RawServer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tier", deny_unknown_fields)]
struct RawTier {
    name: String,
    kind: TierKind,
    capacity: Option<Sourced<Size>>,
    setup: Sourced<Duration>,
    bandwidth: Sourced<Bandwidth>,
    devices: Option<u32>,
    loaded: Option<Vec<RawLoaded>>,
    granule: Option<Sourced<Size>>,
    depth: Option<Sourced<Outstanding>>,
    energy: Option<Sourced<EnergyPerBit>>,
    write_energy: Option<Sourced<EnergyPerBit>>,
    idle: Option<Sourced<StandingPower>>,
    price: Option<Sourced<PricePerSize>>,
    #[serde(default)]
    included: Vec<RawIncluded>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Link", deny_unknown_fields)]
struct RawLink {
    name: String,
    near: String,
    far: String,
    kind: Option<LinkKind>,
    devices: Option<u32>,
    setup: Sourced<Duration>,
    fetch: Sourced<Bandwidth>,
    evict_setup: Option<Sourced<Duration>>,
    evict: Sourced<Bandwidth>,
    service: Option<RawDiscipline>,
    lanes: Option<Sourced<Copies>>,
    total: Option<Sourced<Bandwidth>>,
    mix: Option<RawMix>,
    half: Option<Sourced<Size>>,
    fetch_sizes: Option<RawSizes>,
    evict_sizes: Option<RawSizes>,
    fetch_depths: Option<RawDepths>,
    evict_depths: Option<RawDepths>,
    fetch_tail: Option<RawTail>,
    evict_tail: Option<RawTail>,
    write_cache: Option<RawCache>,
    buffers: Option<RawBuffers>,
    pageable: Option<RawPageable>,
    energy: Option<Sourced<EnergyPerBit>>,
    #[serde(default)]
    included: Vec<RawIncluded>,
    raid0: Option<RawRaid0>,
    others: Option<RawOthers>,
}

struct Resolver<'d> {
    check: Check<'d>,
    facts: Vec<Fact>,
    economics: Economics,
    /// Whether all tiers are here.
    whole: bool,
}

impl Resolver<'_> {
    /// The machine, or `None` if so much is wrong that there is none to speak of.
    fn hardware(&mut self, raw: &RawHardware, name: String) -> Option<Hardware> {
        if raw.schema != SCHEMA {
            let remedy = format!("this program reads schema {SCHEMA}");
            self.check.fault("schema", "unknown schema of a hardware file", remedy);
        }
        if raw.about.trim().is_empty() {
            self.check.fault("about", "`about` may not be empty", "say which machine this is");
        }
        self.tier_rules(raw);
        let raw_tiers = self.check.at_most("tiers", "tiers", &raw.tiers, MAX_TIERS);
        let tiers: Vec<Option<Tier>> =
            raw_tiers.iter().enumerate().map(|(i, tier)| self.tier(i, tier)).collect();
        let nodes = self.nodes(raw);
        let links = self.links(raw);
        let ways = self.ways(raw);
        let compute = raw.compute.as_ref().map(|compute| self.compute(compute));
        let cpu = self.cpu(raw.cpu.as_ref());
        self.host_economics(&raw.host);
        let chunk = match &raw.chunk {
            Some(size) => size.bytes(&mut self.check, "chunk", CHUNK),
            None => Some(Bytes::mib(4)),
        };
        let compute = compute.map_or(Some(None), |compute| compute.map(Some))?;
        let mut hardware = Hardware {
            name,
            about: raw.about.trim().to_string(),
            tiers: tiers.into_iter().collect::<Option<Vec<Tier>>>()?,
            nodes,
            links: links?,
            ways: ways?,
            compute,
            chunk: chunk?,
            hidden: Vec::new(),
            facts: Vec::new(),
            economics: std::mem::take(&mut self.economics),
            server: Server::default(),
            cpu: cpu?,
        };
        if hardware.tiers.is_empty() || hardware.tiers.len() > MAX_TIERS {
            return None;
        }
        if self.whole {
            self.join(&mut hardware);
            self.gather_drives(&mut hardware);
        }
        hardware.server = self.server(raw, &hardware);
        hardware.hidden = self.hidden(&raw.hidden, &raw.links, &hardware);
        hardware.facts = std::mem::take(&mut self.facts);
        Some(hardware)
    }

    fn tier_rules(&mut self, raw: &RawHardware) {
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
        let named = raw.tiers.iter().take(MAX_TIERS).enumerate();
        self.names("tier", named.map(|(i, tier)| (format!("tiers.{i}.name"), tier.name.as_str())));
    }

    /// Names may be used in paths, in file names and on charts, so they are plain; and unique.
    fn names<'r>(&mut self, what: &str, names: impl Iterator<Item = (String, &'r str)>) {
        let mut seen = BTreeMap::new();
        for (path, name) in names {
            if !parts::is_plain(name) {
                let rule = format!("the name of a {what} has 1 to 40 of a-z, 0-9 and `-`");
                self.check.fault(&path, rule, "choose another name");
            }
            if let Some(first) = seen.insert(name, path.clone()) {
                let line = self.check.document.line_from(&first, &path);
                let rule = format!("two {what}s have the same name (the other in {line})");
                self.check.fault(&path, rule, "choose another name");
            }
        }
    }

    fn tier(&mut self, index: usize, raw: &RawTier) -> Option<Tier> {
        let (here, fact) = (format!("tiers.{index}"), format!("tiers.{}", raw.name));
        let capacity = match &raw.capacity {
            Some(size) => {
                self.fact(size, &format!("{here}.capacity"), format!("{fact}.capacity"));
                let path = format!("{here}.capacity.0");
                size.quantity.bytes(&mut self.check, &path, CAPACITY).map(Capacity::Limited)
            }
            None => Some(Capacity::Unlimited),
        };
        let setup = self.span(&raw.setup, &format!("{here}.setup"), format!("{fact}.setup"));
        let rate =
            self.rate(&raw.bandwidth, &format!("{here}.bandwidth"), format!("{fact}.bandwidth"));
        self.tier_economics(index, raw);
        let access = Law { setup: setup?, rate: rate? };
        let loaded = raw.loaded.as_ref().and_then(|raw| self.loaded(raw, &here, &fact));
        let requests = self.requests(raw, &here, &fact);
        let (name, kind) = (raw.name.clone(), raw.kind);
        Some(Tier { name, kind, capacity: capacity?, access, loaded, requests })
    }

    fn links(&mut self, raw: &RawHardware) -> Option<Vec<Link>> {
        let raw_links = self.check.at_most("links", "links", &raw.links, MAX_LINKS);
        let named = raw_links.iter().enumerate();
        self.names("link", named.map(|(i, link)| (format!("links.{i}.name"), link.name.as_str())));
        let mut joined = BTreeMap::new();
        let mut links = Vec::new();
        for (index, link) in raw_links.iter().enumerate() {
            let resolved = self.link(index, link, raw);
            if let Some(link) = &resolved {
                let ends = (link.near.min(link.far), link.near.max(link.far));
                if let Some(first) = joined.insert(ends, index) {
                    // A copy takes the quickest link, so the other would never be used.
                    let rule = format!(
                        "links `{}` and `{}` join the same tiers",
                        raw.links[first].name, link.name
                    );
                    let remedy = "write one link with the rate of both together";
                    self.check.fault(&format!("links.{index}"), rule, remedy);
                }
            }
            links.push(resolved);
        }
        links.into_iter().collect()
    }

    fn link(&mut self, index: usize, raw: &RawLink, machine: &RawHardware) -> Option<Link> {
        let (here, fact) = (format!("links.{index}"), format!("links.{}", raw.name));
        let near = self.end(&format!("{here}.near"), &raw.near, machine);
        let far = self.end(&format!("{here}.far"), &raw.far, machine);
        if near.is_some() && near == far {
            let remedy = "name two different tiers";
            self.check.fault(&format!("{here}.far"), "a link joins two tiers", remedy);
        }
        let setup = self.span(&raw.setup, &format!("{here}.setup"), format!("{fact}.setup"));
        let fetch = self.rate(&raw.fetch, &format!("{here}.fetch"), format!("{fact}.fetch"));
        let evict_setup = match &raw.evict_setup {
            Some(own) => {
                let path = format!("{here}.evict_setup");
                self.span(own, &path, format!("{fact}.evict_setup"))
            }
            None => setup,
        };
        let evict = self.rate(&raw.evict, &format!("{here}.evict"), format!("{fact}.evict"));
        let [fetch, evict] = self.buffers(raw, &here, &fact, [fetch, evict]);
        self.link_economics(index, raw);
        let half = raw.half.as_ref().and_then(|half| {
            self.fact(half, &format!("{here}.half"), format!("{fact}.half"));
            half.quantity.bytes(&mut self.check, &format!("{here}.half.0"), HALF)
        });
        // b / (rate * b / (b + half)) = half / rate + b / rate: a set-up by another name.
        let half = half.unwrap_or(Bytes::ZERO).get();
        let (near, far, name) = (near?, far?, raw.name.clone());
        let law = |setup: Span, rate: Bandwidth| Law { setup: setup + rate.span_of(half), rate };
        let (fetch, evict) = (law(setup?, fetch?), law(evict_setup?, evict?));
        let service = self.service(raw, &here, &fact, [fetch, evict]);
        let kind = raw.kind.map(|kind| self.kind(kind, &here));
        let raid0 = self.raid0(raw, &here, &fact);
        let others = self.others(raw, &here, &fact, service.as_ref());
        let link = Link { name, near, far, kind, fetch, evict, service, raid0, others };
        (near != far).then_some(link)
    }

    fn span(&mut self, raw: &Sourced<Duration>, path: &str, fact: String) -> Option<Span> {
        self.fact(raw, path, fact);
        raw.quantity.span(&mut self.check, &format!("{path}.0"), SETUP)
    }

    fn rate(&mut self, raw: &Sourced<Bandwidth>, path: &str, fact: String) -> Option<Bandwidth> {
        self.fact(raw, path, fact);
        raw.quantity.rate(&mut self.check, &format!("{path}.0"))
    }

    fn fact<D: Dimension>(&mut self, raw: &Sourced<D>, path: &str, fact: String) {
        let source = sourced(&raw.source, &mut self.check, &format!("{path}.1"));
        let written = self.check.document.value(&format!("{path}.0")).unwrap_or_default();
        self.facts.push(Fact { path: fact, value: written.to_string(), source });
    }
}
