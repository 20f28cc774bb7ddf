//! A machine with numbers of its own: what a scenario, `--set` or an axis says of it.
//!
//! The parts are put together first, so every number of the machine has one path whatever file it
//! stands in (`links.pcie.read`), the one that `hardware show` lists. A number alone takes the
//! place of the number and of its source, by whatever path it is reached: nobody says that the
//! machine has it, so it is assumed, unless its source is set as well.
//! Invariant: a changed machine obeys every rule that a file would.

use super::machine::resolved;
use super::parts::{Whole, whole};
use super::raw::RawHardware;
use super::read_times::ReadTimes;
use crate::project::Project;
use crate::text::ron_text::Document;
use crate::text::ron_tree::{Shape, ValueId};
use crate::text::typed::Parsed;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, Uncertainty};

/// What a machine has otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Where: the path of [`Fact`](tiersim_models::hardware::Fact)s, such as `links.pcie.read`;
    /// `*` stands for every element.
    pub path: String,
    /// The text of the value: `gb_per_s(60)`, `(gb_per_s(60), datasheet("..."))`, `times(1.18)`.
    pub value: String,
    /// Who says so, for messages.
    pub note: String,
}

/// Values of uncertain numbers by origin, each in the unit of its number.
pub type Drawn = BTreeMap<String, f64>;

/// A machine as text, its parts put together.
#[derive(Clone, Debug)]
pub struct MachineText {
    pub(super) whole: Whole,
    pub(super) project: Option<Project>,
    /// Read once, whatever is changed.
    times: ReadTimes,
}

/// Source of a number that comes without one.
const ASSUMED: &str = r#"assumed("set by the scenario")"#;

impl MachineText {
    /// Reads a machine that `project` names, if one does, and its parts.
    ///
    /// # Errors
    /// Lists what is wrong with the files.
    pub fn read(path: &Path, project: Option<&Project>) -> Result<MachineText, Diagnostics> {
        let own = Document::read(path)?;
        let (whole, times) = (whole(&own, project)?, ReadTimes::default());
        Ok(MachineText { whole, project: project.cloned(), times })
    }

    /// The machine with changes, made one after the other; it keeps its name.
    ///
    /// # Errors
    /// Lists the changes whose path does not exist, or the rules that the changed machine breaks.
    pub fn with(&self, changes: &[Change]) -> Result<Hardware, Diagnostics> {
        self.meaning(&self.changed(changes)?)
    }

    /// The machine with changes, and then with each uncertain number that `drawn` has a value for.
    ///
    /// # Errors
    /// As [`MachineText::with`]; a rule that the drawn values break names the number and its value.
    pub fn drawn(&self, changes: &[Change], drawn: &Drawn) -> Result<Hardware, Diagnostics> {
        let mut document = self.changed(changes)?;
        let nominal = self.meaning(&document)?;
        if drawn.is_empty() {
            return Ok(nominal);
        }
        for fact in nominal.facts.iter().chain(&nominal.economics.facts) {
            let Some(of) = &fact.uncertainty else { continue };
            let Some(&value) = drawn.get(&of.origin) else { continue };
            document = with_drawn(document, &fact.path, of, value)?;
        }
        self.meaning(&document)
    }

    fn changed(&self, changes: &[Change]) -> Result<Document, Diagnostics> {
        let mut sourced = BTreeSet::new();
        changes.iter().try_fold(self.whole.document.clone(), |document, change| {
            changed(document, change, &mut sourced)
        })
    }

    pub(super) fn meaning(&self, document: &Document) -> Result<Hardware, Diagnostics> {
        let problems = &self.whole.problems;
        let name = document.file().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Parsed { raw, problems: mut found } = document.parse::<RawHardware>()?;
        found.0.extend(problems.0.iter().cloned());
        resolved(document, &raw, name, found, (self.project.as_ref(), &self.times), true)
    }

    /// The text of the first number that `path` means, without its source.
    pub fn number(&self, path: &str) -> Option<String> {
        let document = &self.whole.document;
        let at = document.meant(&spelled(document, path), path).ok()?.into_iter().next()?;
        let id = document.tree().find(&at)?;
        let number = if is_pair(document, id) { format!("{at}.0") } else { at };
        document.value(&number).map(Cow::into_owned)
    }

    /// The paths by index that `path` means: two that lead to one value are equal here.
    ///
    /// # Errors
    /// The machine has no such number and no place for one; `note` says who asks.
    pub fn meant(&self, path: &str, note: &str) -> Result<Vec<String>, Diagnostics> {
        let document = &self.whole.document;
        let tree = document.tree();
        let meant = document.meant(&spelled(document, path), note)?.into_iter().map(|path| {
            let (id, missing) = tree.descend(&path);
            document.can_take(&path, note).map(|()| match pair_of(document, &path) {
                Some((pair, "" | "0", _)) => format!("{pair}."),
                _ => format!("{}.{missing}", tree.path(id)),
            })
        });
        meant.collect()
    }
}

/// A path as the tree has it: peaks stand in a list by precision, and each is a number.
pub(super) fn spelled(document: &Document, path: &str) -> String {
    let named = path.strip_prefix("compute.flops.").filter(|name| !name.contains('.'));
    let Some((list, name)) = document.tree().find("compute.flops").zip(named) else {
        return path.to_owned();
    };
    let tree = document.tree();
    let has = |&peak: &ValueId| {
        let precision =
            tree.children(tree.inside(peak)).find(|&of| tree.name(of) == Some("precision"));
        precision.is_some_and(|of| tree.written(of).trim_matches('"') == name)
    };
    match tree.children(list).position(|peak| has(&peak)) {
        Some(index) => format!("compute.flops.{index}.rate"),
        None => path.to_owned(),
    }
}

/// The document with a change; `sourced` are the numbers whose source was set by itself.
fn changed(
    document: Document,
    change: &Change,
    sourced: &mut BTreeSet<String>,
) -> Result<Document, Diagnostics> {
    let Change { path, value, note } = change;
    let path = &spelled(&document, path);
    let section = path.split('.').next().unwrap_or_default();
    if ["schema", "about", "parts"].contains(&section) {
        let rule = format!("`{path}` is no number of a machine [{note}]");
        let remedy = "`tiersim hardware show` lists the numbers with their paths";
        return Err(Diagnostics(vec![document.problem_found("", rule, "", remedy)]));
    }
    let mut document = document;
    for path in document.meant(path, note)? {
        document = match pair_of(&document, &path) {
            Some((pair, "", _)) if has_source(value) => {
                sourced.remove(&pair);
                document.with(&path, value, note)?
            }
            Some((pair, "" | "0", number)) => {
                let source = sourced.contains(&pair).then(|| format!("{pair}.1"));
                let source = source.and_then(|at| document.value(&at).map(Cow::into_owned));
                let source = source.unwrap_or_else(|| ASSUMED.to_owned());
                with_number(document.with(&number, value, note)?, &pair, source, note)?
            }
            Some((pair, "1", _)) => {
                sourced.insert(pair);
                document.with(&path, value, note)?
            }
            // Every number of a machine has a source but for these, which are no measurements.
            None if document.tree().find(&path).is_none()
                && is_quantity(value)
                && !["chunk", "devices"].contains(&last(&path)) =>
            {
                document.with(&path, &format!("({value}, {ASSUMED})"), note)?
            }
            _ => document.with(&path, value, note)?,
        };
    }
    Ok(document)
}

/// The document with the source of the new number of a pair. What is set is as it is set: how far
/// off the number of the file may be says nothing of another one.
fn with_number(
    document: Document,
    pair: &str,
    source: String,
    note: &str,
) -> Result<Document, Diagnostics> {
    let tree = document.tree();
    let parts = tree.find(pair).map_or(0, |id| tree.children(id).count());
    match (parts, document.value(&format!("{pair}.0"))) {
        (3, Some(number)) => document.put(pair, format!("({number}, {source})"), note),
        _ => document.put(&format!("{pair}.1"), source, note),
    }
}

/// The number with its source that a path leads to or into: where it stands, which of its parts the
/// path means (none for the whole), and the path of the number or of what is in it.
fn pair_of<'p>(document: &Document, path: &'p str) -> Option<(String, &'p str, String)> {
    let tree = document.tree();
    let ends = path.match_indices('.').map(|(at, _)| (&path[..at], &path[at + 1..]));
    let pair = |(at, inside)| Some((tree.find(at).filter(|&id| is_pair(document, id))?, inside));
    let (id, inside): (_, &str) = ends.chain([(path, "")]).find_map(pair)?;
    let part = inside.split('.').next().unwrap_or_default();
    let number = if part.is_empty() { format!("{path}.0") } else { path.to_owned() };
    Some((tree.path(id), part, number))
}

/// The document with a value for a number that is uncertain: nothing else is said of it then, so
/// that a value may be where its range ends. Rates by size or by number of copies are parts of the
/// law of their link, so they go along with its rate.
fn with_drawn(
    document: Document,
    path: &str,
    of: &Uncertainty,
    value: f64,
) -> Result<Document, Diagnostics> {
    let note = format!("{path} drawn as {}({value})", of.unit);
    let source = document.value(&format!("{}.1", of.place)).unwrap_or_default().into_owned();
    let mut next = document.put(&of.place, format!("({}({value}), {source})", of.unit), &note)?;
    let (at, field) = of.place.rsplit_once('.').unwrap_or(("", &of.place));
    if !at.starts_with("links.") || !["read", "write"].contains(&field) || of.value <= 0.0 {
        return Ok(next);
    }
    for curve in ["sizes", "depths"] {
        let points = format!("{at}.{field}_{curve}.points");
        let count = next.tree().find(&points).map_or(0, |id| next.tree().children(id).count());
        for index in 0..count {
            let factor = format!("times({})", value / of.value);
            next = next.with(&format!("{points}.{index}.1"), &factor, &note)?;
        }
    }
    Ok(next)
}

/// Whether a value is a number with its source, and perhaps how far off it may be.
fn is_pair(document: &Document, id: ValueId) -> bool {
    let tree = document.tree();
    tree.shape(id) == Shape::Tuple
        && (2..=3).contains(&tree.children(id).count())
        && tree.children(id).nth(1).is_some_and(|source| is_source(tree.written(source)))
}

fn is_source(text: &str) -> bool {
    let word = text.split('(').next().unwrap_or_default().trim();
    ["measured", "datasheet", "announced", "assumed"].contains(&word)
}

/// Whether a text is itself a number with its source.
fn has_source(value: &str) -> bool {
    let Ok(alone) = Document::from_text(Path::new(""), value.to_owned()) else { return false };
    is_pair(&alone, alone.tree().root())
}

/// Whether a text is a number in a unit.
fn is_quantity(value: &str) -> bool {
    let Ok(alone) = Document::from_text(Path::new(""), value.to_owned()) else { return false };
    alone.tree().shape(alone.tree().root()) == Shape::Newtype
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
