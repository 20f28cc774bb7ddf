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

use self::compose::Composed;
use super::machine::{head, resolved};
use super::raw::{RawHardware, RawNode, RawPart, RawTier};
use super::read_times::ReadTimes;
use super::resolver::is_plain;
use crate::project::Project;
use crate::text::check::Check;
use crate::text::choices::SCHEMA;
use crate::text::ron_text::Document;
use crate::text::typed::Parsed;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, MAX_TIERS};
use tiersim_models::nodes::{MAX_LINKS, MAX_NODES, NodeKind};

/// Whether the file calls itself a part, and not a machine.
pub fn is_part(document: &Document) -> bool {
    compose::word(document) == "Part"
}

/// Reads and checks a part by itself: what it leaves open, and names that only the machine has, are
/// no mistakes.
pub fn read_part(path: &Path) -> Result<(), Diagnostics> {
    resolve_part(&Document::read(path)?)
}

/// Checks the document of a part.
pub fn resolve_part(document: &Document) -> Result<(), Diagnostics> {
    let Parsed { raw, mut problems } = compose::parse_part(document)?;
    let mut check = Check::new(document);
    head(&mut check, raw.schema, &raw.about, "part");
    problems.0.append(&mut check.problems.0);
    let RawPart { tiers, nodes, links, routes, compute, cpu, host, hidden, .. } = raw;
    let whole = RawHardware { schema: SCHEMA, about: "a part".into(), ..RawHardware::default() };
    let mut raw = RawHardware { tiers, nodes, links, routes, compute, cpu, host, hidden, ..whole };
    stand_in(&mut raw);
    match resolved(document, &raw, String::new(), problems, (None, &ReadTimes::default()), false) {
        Err(problems) if !problems.0.is_empty() => Err(problems),
        _ => Ok(()),
    }
}

/// A machine and its parts as one document.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    /// With every value of all files.
    pub(super) document: Document,
    /// What is wrong with the files.
    pub(super) problems: Diagnostics,
}

/// A machine's file put together with its parts, if it has any.
pub(super) fn whole(own: &Document, project: Option<&Project>) -> Result<Whole, Diagnostics> {
    let (Parsed { problems, .. }, composed) = composed(own, project)?;
    let Some(composed) = composed else { return Ok(Whole { document: own.clone(), problems }) };
    let Composed { document, whole, problems: mut found } = composed;
    found.0.splice(0..0, problems.0);
    if whole {
        return Ok(Whole { document, problems: found });
    }
    Err(once(found))
}

/// The machine that a file means, with its parts if it has any.
pub(super) fn resolve(
    own: &Document,
    name: String,
    project: Option<&Project>,
) -> Result<Hardware, Diagnostics> {
    let (Parsed { raw, mut problems }, composed) = composed(own, project)?;
    let Some(Composed { document, whole, problems: mut found }) = composed else {
        return resolved(own, &raw, name, problems, (project, &ReadTimes::default()), true);
    };
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
    resolved(&document, &raw, name, problems, (project, &ReadTimes::default()), whole).map_err(once)
}

/// A machine's own file as read, and put together with its parts if it has any.
fn composed(
    own: &Document,
    project: Option<&Project>,
) -> Result<(Parsed<RawHardware>, Option<Composed>), Diagnostics> {
    compose::refuse(own, "Part")?;
    let parsed = own.parse::<RawHardware>().map_err(|mut problems| {
        // A machine that cannot be read has parts that can be looked at.
        problems.0.append(&mut compose::parts_alone(own, project).0);
        once(problems)
    })?;
    let includes = parsed.raw.parts.as_deref();
    let composed = includes.map(|includes| compose::compose(own, includes, project));
    Ok((parsed, composed))
}

/// Adds tiers and nodes for the names of those that are elsewhere, so that the links to them can be
/// checked.
fn stand_in(raw: &mut RawHardware) {
    const TIER: &str = r#"(name: "-", kind: dram, setup: (us(1), assumed("-")), bandwidth: (gb_per_s(1), assumed("-")))"#;
    let ends = raw.routes.iter().flat_map(|route| [&route.from, &route.to]);
    let ends = ends.chain(raw.hidden.iter().map(|entry| &entry.tier));
    let ends: Vec<String> = ends.take(2 * MAX_TIERS * MAX_TIERS).cloned().collect();
    for name in ends {
        let known = raw.tiers.iter().take(MAX_TIERS).any(|tier| tier.name == name);
        if !known && raw.tiers.len() < MAX_TIERS && is_plain(&name) {
            let tier = Document::from_text(Path::new(""), TIER.to_owned()).expect("it scans");
            let tier: RawTier = tier.parse().expect("it has the form").raw;
            raw.tiers.push(RawTier { name, ..tier });
        }
    }
    let most = MAX_NODES - MAX_TIERS;
    let passed = raw.routes.iter().flat_map(|route| &route.via);
    let joined = raw.links.iter().flat_map(|link| [&link.near, &link.far]);
    let names: Vec<String> = joined.take(2 * MAX_LINKS).chain(passed.take(most)).cloned().collect();
    for name in names {
        let known = raw.tiers.iter().take(MAX_TIERS).any(|tier| tier.name == name)
            || raw.nodes.iter().take(most).any(|node| node.name == name);
        if !known && raw.nodes.len() < most && is_plain(&name) {
            raw.nodes.push(RawNode { name, kind: NodeKind::Host });
        }
    }
}

/// Each problem once, however often its part is included.
fn once(problems: Diagnostics) -> Diagnostics {
    let mut kept = Vec::new();
    for problem in problems.0 {
        if !kept.contains(&problem) {
            kept.push(problem);
        }
    }
    Diagnostics(kept)
}
