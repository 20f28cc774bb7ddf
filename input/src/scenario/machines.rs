//! The machine of a scenario: named, or named and changed.
//!
//! `hardware: "h100-sxm-pcie5"`, or `hardware: (machine: "h100-sxm-pcie5", set: [(path:
//! "links.pcie.read", value: gb_per_s(60))])`. `--set hardware.links.pcie.read=...` and the axes of
//! sweeps add to that list, so whatever they can do a file can say. A list of machines is an axis
//! of its own, the slowest of all; a path into `hardware` then means each of them.
//! Invariant: a machine with changes is not called like the one without.

use crate::hardware_file::changed::Change;
use crate::scenario::raw::Elsewhere;
use crate::scenario::resolver::Resolver;
use crate::text::check::Check;
use crate::text::ron_text::{Document, quoted, shorten};
use crate::text::ron_tree::{Shape, ValueId};
use crate::text::value::{Reading, Value};
use serde::Deserialize;
use std::sync::Arc;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;

/// Where a scenario names its machine.
pub(crate) const PATH: &str = "hardware";
/// Longest listing of changes in a machine's name.
const MAX_SAID: usize = 80;
/// Most machines that one scenario compares.
const MAX_MACHINES: usize = 16;
/// Most values that a scenario changes in its machine.
const MAX_CHANGES: usize = 64;

/// A machine with changes, as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "Machine", deny_unknown_fields)]
struct RawMachine {
    /// Its name or file, see [Paths](#paths).
    machine: String,
    /// What tables and charts call it; unique.
    ///
    /// Default: the machine's name and what is set.
    name: Option<String>,
    /// Numbers that it has otherwise, one after the other.
    ///
    /// Values: up to 64.
    #[serde(default)]
    set: Vec<RawChange>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Set", deny_unknown_fields)]
struct RawChange {
    /// A path of `tiersim hardware show`, such as `links.pcie.read`; `*` as for [`--set`](#--set).
    path: String,
    /// With its source, or alone: then it is assumed; or `times(factor)`.
    ///
    /// Type: as in the [hardware file](#hardware).
    #[serde(rename = "value")]
    _value: Elsewhere,
}

/// A machine that is named, and what is changed in it.
pub(crate) struct Named {
    pub(crate) machine: String,
    pub(crate) name: Option<String>,
    pub(crate) changes: Vec<Change>,
}

/// What the value `path` means for a machine, where it leads into one: the path in it.
pub(crate) fn path_within(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(PATH)?.strip_prefix('.')?;
    let first = rest.split('.').next().unwrap_or_default();
    (!["machine", "name", "set"].contains(&first)).then_some(rest)
}

/// A machine of several that a scenario names.
pub(crate) struct Listed {
    /// What it is called in tables and charts.
    pub(crate) label: String,
    /// Its machine, if nothing is changed in that.
    plain: Option<String>,
    /// Its element of the list.
    pub(crate) id: ValueId,
}

/// The machines of a document that lists several; none where it names one.
pub(crate) fn listed(document: &Document) -> Result<Vec<Listed>, Diagnostics> {
    let tree = document.tree();
    let Some(list) = tree.find(PATH).filter(|&id| tree.shape(id) == Shape::List) else {
        return Ok(Vec::new());
    };
    let mut check = Check::new(document);
    let ids: Vec<ValueId> = tree.children(list).collect();
    let ids = check.at_most(PATH, "machines", &ids, MAX_MACHINES);
    if ids.is_empty() {
        check.fault(PATH, "a scenario has at least one machine", "name one");
    }
    let mut all: Vec<Listed> = Vec::new();
    for (index, &id) in ids.iter().enumerate() {
        let inside = tree.inside(id);
        let field =
            |name: &str| tree.children(inside).find(|&child| tree.name(child) == Some(name));
        let text = |id| ron::from_str::<String>(tree.written(id)).unwrap_or_default();
        let machine = field("machine").unwrap_or(id);
        let label = text(field("name").unwrap_or(machine));
        let plain = field("set").is_none().then(|| text(machine));
        // What is no machine at all is told where it is read.
        if !label.is_empty() && !super::resolve::is_name(&label) {
            let rule = "the name of a machine has 1 to 80 bytes, all printable";
            check.fault(&format!("{PATH}.{index}"), rule, "give it a `name`");
        } else if all.iter().any(|known| known.label == label) {
            let rule = "two machines are called alike";
            let remedy = "write (machine: \"...\", name: \"...\", set: [...])";
            check.fault(&format!("{PATH}.{index}"), rule, remedy);
        }
        all.push(Listed { label, plain, id });
    }
    check.problems.into_result(all)
}

/// Which of several machines `--set hardware=` means: one as tables call it, or by its machine
/// where nothing is changed in that.
pub(crate) fn meant(several: &[Listed], name: &str) -> Option<usize> {
    let name = name.trim().trim_matches('"');
    let own = several.iter().position(|machine| machine.label == name);
    own.or_else(|| several.iter().position(|machine| machine.plain.as_deref() == Some(name)))
}

/// Whether a document names one machine.
pub(crate) fn is_one(document: &Document) -> bool {
    let tree = document.tree();
    tree.find(PATH).is_some_and(|id| tree.shape(id) != Shape::List)
}

/// The document with one of its machines in the place of the list.
pub(crate) fn alone(document: &Document, machine: &Listed) -> Document {
    let mut tree = document.tree().clone();
    if let Some(list) = tree.find(PATH) {
        tree.replace(list, document.tree(), machine.id);
    }
    document.with_tree(tree)
}

/// The document with a value of its machine changed; of several, that of those which the path
/// begins with, and of all where it begins with none.
pub(crate) fn with(
    document: &Document,
    path: &str,
    value: &str,
    note: &str,
) -> Result<Document, Diagnostics> {
    let tree = document.tree();
    let list = tree.find(PATH).filter(|&id| tree.shape(id) == Shape::List);
    let Some(list) = list else { return with_one(document, PATH, path, value, note) };
    let count = tree.children(list).count();
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let by_name = listed(document)?.iter().position(|machine| machine.label == first);
    let (of, path) = match (by_name, first.parse::<usize>()) {
        (Some(index), _) => (index..index + 1, rest),
        (None, Ok(index)) if index < count => (index..index + 1, rest),
        _ if first == "*" => (0..count, rest),
        _ => (0..count, path),
    };
    let mut next = document.clone();
    for index in of {
        next = with_one(&next, &format!("{PATH}.{index}"), path, value, note)?;
    }
    Ok(next)
}

fn with_one(
    document: &Document,
    machine: &str,
    path: &str,
    value: &str,
    note: &str,
) -> Result<Document, Diagnostics> {
    if ["machine", "name", "set"].contains(&path.split('.').next().unwrap_or_default()) {
        return document.with(&format!("{machine}.{path}"), value, note);
    }
    // A value that does not scan is told by itself.
    Document::from_text(document.file(), value.to_owned()).map_err(|mut problems| {
        for problem in &mut problems.0 {
            problem.rule += &format!(" [{note}]");
            problem.place = Some(document.place(machine));
        }
        problems
    })?;
    let mut next = document.clone();
    if let Some(name) = leaf(document, machine) {
        next = next.put(machine, format!("(machine: {name})"), "")?;
    }
    let list = format!("{machine}.set");
    if next.tree().find(&list).is_none() {
        next = next.put(&list, "[]".to_owned(), "")?;
    }
    let count = next.tree().find(&list).map_or(0, |id| next.tree().children(id).count());
    let change = format!("(path: {}, value: {})", quoted(path), value.trim());
    next.put(&format!("{list}.{count}"), change, note)
}

/// The machine's name as written, if nothing else is said of it.
fn leaf<'d>(document: &'d Document, machine: &str) -> Option<&'d str> {
    let tree = document.tree();
    let id = tree.find(machine)?;
    (tree.shape(id) == Shape::Leaf).then(|| tree.written(id))
}

/// Reads the machine that a document names; what is wrong is added to `problems`.
pub(crate) fn named(document: &Document, problems: &mut Diagnostics) -> Option<Named> {
    let id = document.tree().find(PATH)?;
    let reading = Reading::of(document);
    let value = Value { reading: &reading, id };
    let read = match value.shape() {
        Shape::Leaf => value.placed(String::deserialize(value)).map(|machine| RawMachine {
            machine,
            name: None,
            set: Vec::new(),
        }),
        _ => value.placed(RawMachine::deserialize(value)),
    };
    problems.0.append(&mut reading.problems.into_inner().0);
    let raw = read.ok()?;
    let change = |(index, set): (usize, RawChange)| {
        let at = format!("{PATH}.set.{index}");
        let said = document.notes(&at).last().map(str::to_owned);
        let place = || {
            let line = document.place(&at).line;
            format!("set in {}:{line}", document.file_of(&at).display())
        };
        let value = document.value(&format!("{at}.value"))?.into_owned();
        Some(Change { path: set.path, value, note: said.unwrap_or_else(place) })
    };
    let changes = raw.set.into_iter().take(MAX_CHANGES + 1).enumerate().filter_map(change);
    Some(Named { machine: raw.machine, name: raw.name, changes: changes.collect() })
}

/// What a changed machine is called that nobody named: by its changes, if they are few and short.
fn called(machine: &str, changes: &[Change]) -> String {
    let say = |change: &Change| format!("{} = {}", change.path, shorten(&change.value));
    let said = changes.iter().map(|change| say(change).replace('`', "")).collect::<Vec<_>>();
    let said = said.join(", ");
    if said.chars().count() <= MAX_SAID {
        return format!("{machine} with {said}");
    }
    format!("{machine} with {} changes", changes.len())
}

/// Whether a document changes values in the machine called `name`.
pub(crate) fn changes(document: &Document, name: &str) -> bool {
    let named = named(document, &mut Diagnostics::default());
    named.is_some_and(|named| named.machine == name && !named.changes.is_empty())
}

impl Resolver<'_, '_> {
    /// The machine of the scenario.
    pub(crate) fn machine(&mut self) -> Option<Arc<Hardware>> {
        let Named { machine, name, changes } = named(self.check.document, &mut self.outside)?;
        if changes.is_empty() && name.is_none() {
            return self.hardware(PATH, &machine);
        }
        if changes.len() > MAX_CHANGES {
            let rule = format!("a scenario changes at most {MAX_CHANGES} values of its machine");
            self.check.fault(&format!("{PATH}.set"), rule, "write a hardware file");
            return None;
        }
        if name.as_deref().is_some_and(|name| !super::resolve::is_name(name)) {
            let rule = "the name of a machine has 1 to 80 bytes, all printable";
            self.check.fault(&format!("{PATH}.name"), rule, "choose another name");
        }
        let text = self.files.machine_text(&machine);
        let text = self.good(PATH, text)?;
        match text.drawn(&changes, &self.files.drawn) {
            Ok(mut hardware) => {
                hardware.name = name.unwrap_or_else(|| called(&hardware.name, &changes));
                Some(Arc::new(hardware))
            }
            // The value is at fault, and not a file.
            Err(problems) => {
                self.check.problems.0.extend(problems.0);
                None
            }
        }
    }
}
