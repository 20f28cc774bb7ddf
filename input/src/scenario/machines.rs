//! The machine of a scenario: named, or named and changed.
//!
//! `hardware: "h100-sxm-pcie5"`, or `hardware: (machine: "h100-sxm-pcie5", set: [(path:
//! "links.pcie.read", value: gb_per_s(60))])`. `--set hardware.links.pcie.read=...` and the axes of
//! sweeps add to that list, so whatever they can do a file can say.
//! Invariant: a machine with changes is not called like the one without.

use crate::hardware_file::changed::Change;
use crate::scenario::raw::Elsewhere;
use crate::scenario::resolver::Resolver;
use crate::text::ron_text::{Document, quoted};
use crate::text::ron_tree::Shape;
use crate::text::value::{Reading, Value};
use serde::Deserialize;
use std::sync::Arc;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;

/// Where a scenario names its machine.
pub(crate) const PATH: &str = "hardware";
/// Most values that a scenario changes in its machine.
const MAX_CHANGES: usize = 64;

/// A machine with changes, as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "Machine", deny_unknown_fields)]
struct RawMachine {
    machine: String,
    name: Option<String>,
    #[serde(default)]
    set: Vec<RawChange>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Set", deny_unknown_fields)]
struct RawChange {
    path: String,
    /// It is put into the machine, and is read there.
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

/// The document with a value of its machine changed.
pub(crate) fn with(
    document: &Document,
    path: &str,
    value: &str,
    note: &str,
) -> Result<Document, Diagnostics> {
    // A value that does not scan is told by itself.
    Document::from_text(document.file(), value.to_owned()).map_err(|mut problems| {
        for problem in &mut problems.0 {
            problem.rule += &format!(" [{note}]");
            problem.place = Some(document.place(PATH));
        }
        problems
    })?;
    let mut next = document.clone();
    if let Some(name) = leaf(document) {
        next = next.put(PATH, format!("(machine: {name})"), "")?;
    }
    let list = format!("{PATH}.set");
    if next.tree().find(&list).is_none() {
        next = next.put(&list, "[]".to_owned(), "")?;
    }
    let count = next.tree().find(&list).map_or(0, |id| next.tree().children(id).count());
    let change = format!("(path: {}, value: {})", quoted(path), value.trim());
    next.put(&format!("{list}.{count}"), change, note)
}

/// The machine's name as written, if nothing else is said of it.
fn leaf(document: &Document) -> Option<&str> {
    let tree = document.tree();
    let id = tree.find(PATH)?;
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
            let rule = "the name of a machine has 1 to 80 printable characters";
            self.check.fault(&format!("{PATH}.name"), rule, "choose another name");
        }
        let text = self.files.machine_text(&machine);
        let text = self.good(PATH, text)?;
        match text.with(&changes) {
            Ok(mut hardware) => {
                hardware.name = name.unwrap_or_else(|| format!("{} (changed)", hardware.name));
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
