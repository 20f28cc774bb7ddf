//! Machines put together from parts: an H100, this host, four of those drives.
//!
//! `files -> typed parts -> renamed and set -> one tree -> the rules of every machine`. A part is
//! read and checked by itself, then the entries of all files are put one behind the other, so that
//! a composed machine is what the same text in one file would be and no more. Every value keeps the
//! file, line and column where it was written.
//! Invariant: a machine and its parts have at most
//! [`crate::text::ron_text::MAX_BYTES`] together, each time that one is
//! included counted, and a part includes nothing: work and memory are linear in that.

mod compose;

use super::cpu::RawCpu;
use super::energy::RawHost;
use super::hidden::RawHidden;
use super::nodes::{RawNode, RawWay};
use super::{RawCompute, RawHardware, RawLink, RawTier, Resolver, SCHEMA};
use crate::project::Project;
use crate::text::check::Check;
use crate::text::ron_text::Document;
use crate::text::typed::Parsed;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::energy::Economics;
use tiersim_models::hardware::{Hardware, MAX_TIERS};
use tiersim_models::nodes::{MAX_LINKS, MAX_NODES};

/// Most parts of one machine: as many as it may have tiers and links.
pub const MAX_PARTS: usize = 32;

/// Most values that a machine sets in one part.
const MAX_SETS: usize = 64;

/// Sections of a file that are lists; those of parts and machine are put one behind the other.
const LISTS: &[&str] = &["tiers", "nodes", "links", "routes", "hidden"];
/// Sections of a file that only one of all files has.
const SINGLES: &[&str] = &["compute", "cpu", "host"];
/// Fields of the lists' entries that hold names of the machine, or lists of such.
const NAMES: &[&str] = &["name", "near", "far", "from", "to", "via", "tier"];

/// One part that a machine has, as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "Include", deny_unknown_fields)]
pub(super) struct RawInclude {
    file: String,
    #[serde(default)]
    rename: BTreeMap<String, String>,
    #[serde(default)]
    set: Vec<RawSet>,
}

/// A value of a part that this machine has otherwise, or that the part leaves open.
#[derive(Debug, Deserialize)]
#[serde(rename = "Set", deny_unknown_fields)]
struct RawSet {
    path: String,
    /// It is put into the part, and is read there.
    #[serde(rename = "value")]
    _value: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Part", deny_unknown_fields)]
struct RawPart {
    schema: u32,
    about: String,
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
    host: Option<RawHost>,
    #[serde(default)]
    hidden: Vec<RawHidden>,
}

/// Whether a tier, a node or a link may have this name.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 40 && name.chars().all(plain)
}

/// Whether the file calls itself a part, and not a machine.
pub fn is_part(document: &Document) -> bool {
    word(document) == "Part"
}

/// Reads and checks a part by itself: what it leaves open, and names that only the machine has, are
/// no mistakes.
pub fn read_part(path: &Path) -> Result<(), Diagnostics> {
    resolve_part(&Document::read(path)?)
}

/// Checks the document of a part.
pub fn resolve_part(document: &Document) -> Result<(), Diagnostics> {
    let Parsed { raw, mut problems } = parse_part(document)?;
    let mut check = Check::new(document);
    part_rules(&mut check, &raw);
    let RawPart { schema: _, about: _, tiers, nodes, links, routes, compute, cpu, host, hidden } =
        raw;
    problems.0.append(&mut check.problems.0);
    let (schema, about, parts) = (SCHEMA, "a part".to_string(), None);
    let (chunk, server) = (None, None);
    let mut raw = RawHardware {
        schema,
        about,
        parts,
        tiers,
        nodes,
        links,
        routes,
        compute,
        cpu,
        host,
        hidden,
        chunk,
        server,
    };
    stand_in(&mut raw);
    match resolved(document, &raw, String::new(), problems, false) {
        Err(problems) if !problems.0.is_empty() => Err(problems),
        _ => Ok(()),
    }
}

/// The machine that a file with parts means.
pub(super) fn resolve(
    own: &Document,
    parsed: Parsed<RawHardware>,
    name: String,
    project: Option<&Project>,
) -> Result<Hardware, Diagnostics> {
    let Parsed { raw, mut problems } = parsed;
    let compose::Composed { document, whole, problems: mut found } =
        compose::compose(own, raw.parts.as_deref().unwrap_or_default(), project);
    problems.0.append(&mut found.0);
    let Parsed { mut raw, problems: mut found } = match document.parse::<RawHardware>() {
        Ok(parsed) => parsed,
        Err(mut found) => {
            problems.0.append(&mut found.0);
            return Err(once(problems));
        }
    };
    problems.0.append(&mut found.0);
    if !whole {
        stand_in(&mut raw);
    }
    resolved(&document, &raw, name, problems, whole).map_err(once)
}

/// `problems` of a machine that cannot be read, with those of its parts.
pub(super) fn with_parts(
    document: &Document,
    mut problems: Diagnostics,
    project: Option<&Project>,
) -> Diagnostics {
    problems.0.append(&mut compose::parts_alone(document, project).0);
    once(problems)
}

/// The machine that `raw`, read from `document`, means; `problems` are those found before. Unless
/// it is `whole`, other tiers stand elsewhere.
pub(super) fn resolved(
    document: &Document,
    raw: &RawHardware,
    name: String,
    mut problems: Diagnostics,
    whole: bool,
) -> Result<Hardware, Diagnostics> {
    let (check, facts) = (Check::new(document), Vec::new());
    let mut resolver = Resolver { check, facts, economics: Economics::default(), whole };
    let hardware = resolver.hardware(raw, name);
    problems.0.append(&mut resolver.check.problems.0);
    match hardware {
        Some(hardware) => problems.into_result(hardware),
        None => Err(problems),
    }
}

/// Refuses a file that calls itself `wrong`.
pub(super) fn refuse(document: &Document, wrong: &str) -> Result<(), Diagnostics> {
    if word(document) != wrong {
        return Ok(());
    }
    let (rule, remedy) = if wrong == "Part" {
        let remedy = "name it in the `parts` of a file that begins with Hardware(";
        ("this is a part of a machine, and a machine must stand here", remedy)
    } else {
        let remedy = "name a file that begins with Part(, or copy from this one";
        ("this is a machine, and a part of one must stand here", remedy)
    };
    Err(Diagnostics(vec![document.problem_found("", rule, "", remedy)]))
}

/// The name of the struct that the file is.
fn word(document: &Document) -> &str {
    let text = document.tree().written(document.tree().root());
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

fn parse_part(document: &Document) -> Result<Parsed<RawPart>, Diagnostics> {
    refuse(document, "Hardware")?;
    document.parse::<RawPart>()
}

fn part_rules(check: &mut Check<'_>, raw: &RawPart) {
    if raw.schema != SCHEMA {
        let remedy = format!("this program reads schema {SCHEMA}");
        check.fault("schema", "unknown schema of a hardware file", remedy);
    }
    if raw.about.trim().is_empty() {
        check.fault("about", "`about` may not be empty", "say which part this is");
    }
}

/// Adds tiers and nodes for the names of those that are elsewhere, so that the links to them can be
/// checked.
fn stand_in(raw: &mut RawHardware) {
    const TIER: &str = r#"(name: "-", kind: dram, setup: (us(1), assumed("-")), bandwidth: (gb_per_s(1), assumed("-")))"#;
    const NODE: &str = r#"(name: "-", kind: host)"#;
    let ends = raw.routes.iter().flat_map(|way| [&way.from, &way.to]);
    let ends = ends.chain(raw.hidden.iter().map(|entry| &entry.tier));
    let ends: Vec<String> = ends.take(2 * MAX_TIERS * MAX_TIERS).cloned().collect();
    for name in ends {
        let known = raw.tiers.iter().take(MAX_TIERS).any(|tier| tier.name == name);
        if !known && raw.tiers.len() < MAX_TIERS && is_plain(&name) {
            let tier: RawTier = stood_in(TIER);
            raw.tiers.push(RawTier { name, ..tier });
        }
    }
    let most = MAX_NODES - MAX_TIERS;
    let passed = raw.routes.iter().flat_map(|way| &way.via);
    let joined = raw.links.iter().flat_map(|link| [&link.near, &link.far]);
    let names: Vec<String> = joined.take(2 * MAX_LINKS).chain(passed.take(most)).cloned().collect();
    for name in names {
        let known = raw.tiers.iter().take(MAX_TIERS).any(|tier| tier.name == name)
            || raw.nodes.iter().take(most).any(|node| node.name == name);
        if !known && raw.nodes.len() < most && is_plain(&name) {
            let mut node: RawNode = stood_in(NODE);
            node.name = name;
            raw.nodes.push(node);
        }
    }
}

fn stood_in<T: DeserializeOwned>(text: &str) -> T {
    let document = Document::from_text(Path::new(""), text.to_owned()).expect("it scans");
    document.parse().expect("it has the form").raw
}

/// Each problem once, however often its part is included.
fn once(problems: Diagnostics) -> Diagnostics {
    let mut kept = Diagnostics::default();
    for problem in problems.0 {
        if !kept.0.contains(&problem) {
            kept.0.push(problem);
        }
    }
    kept
}
