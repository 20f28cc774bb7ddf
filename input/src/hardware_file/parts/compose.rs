//! One text from the texts of a machine and its parts.
//!
//! Names of a part are changed and its values set by changing its text, and the result is parsed as
//! a part again: what `set` can do is what editing the part's file could do. The new values keep
//! their place in the machine's file.

use super::{
    LISTS, MAX_PARTS, MAX_SETS, NAMES, RawInclude, SINGLES, is_plain, parse_part, part_rules,
};
use crate::project::{self, Project};
use crate::text::check::Check;
use crate::text::choices::choices;
use crate::text::ron_text::pieces::{Edit, Origin};
use crate::text::ron_text::{Document, MAX_BYTES};
use crate::text::ron_tree::{Shape, ValueId};
use std::collections::BTreeMap;
use tiersim_models::diagnostic::Diagnostics;

/// A machine and its parts as one document.
pub(super) struct Composed {
    /// With the places of all values; wrong where it would be too large.
    pub(super) document: Result<Document, Diagnostics>,
    /// Whether every part is in it.
    pub(super) whole: bool,
    /// What is wrong with the parts, and with how they are included.
    pub(super) problems: Diagnostics,
}

/// Puts the machine `own` together with the parts that it includes.
pub(super) fn compose(
    own: &Document,
    includes: &[RawInclude],
    project: Option<&Project>,
) -> Composed {
    let mut composer = Composer::of(own, project);
    let cut = composer.check.at_most("parts", "parts", includes, MAX_PARTS);
    let mut whole = cut.len() == includes.len();
    let mut documents = Vec::new();
    let mut bytes = own.text().len() as u64;
    for (index, include) in cut.iter().enumerate() {
        let here = format!("parts.{index}");
        let Some(part) = composer.part(&here, &include.file) else {
            whole = false;
            continue;
        };
        bytes += part.text().len() as u64;
        if bytes > MAX_BYTES {
            let rule = format!("a machine and its parts have at most {MAX_BYTES} bytes together");
            composer.check.fault(&format!("{here}.file"), rule, "leave some out");
            whole = false;
            break;
        }
        match composer.changed(&here, include, part) {
            Some(part) => documents.push(part),
            None => whole = false,
        }
    }
    documents.push(own.clone());
    for section in SINGLES {
        composer.one_of(section, &documents);
    }
    let Composer { check, mut problems, .. } = composer;
    problems.0.extend(check.problems.0);
    Composed { document: written(own, &documents), whole, problems }
}

/// What is wrong with the parts of a machine that itself cannot be read.
pub(super) fn parts_alone(own: &Document, project: Option<&Project>) -> Diagnostics {
    let mut composer = Composer::of(own, project);
    for index in 0..entries(own, "parts").take(MAX_PARTS).count() {
        let here = format!("parts.{index}");
        let name = own.value(&format!("{here}.file"));
        if let Some(name) = name.and_then(|name| name.strip_prefix('"')?.strip_suffix('"')) {
            composer.part(&here, name);
        }
    }
    let Composer { check, mut problems, .. } = composer;
    problems.0.extend(check.problems.0);
    problems
}

struct Composer<'d> {
    own: &'d Document,
    /// The project that names the machine, if another file does.
    project: Option<&'d Project>,
    check: Check<'d>,
    /// Parts by name, as they are on disk; `None` if not readable.
    read: BTreeMap<String, Option<Document>>,
    /// Of the parts' files.
    problems: Diagnostics,
}

impl<'d> Composer<'d> {
    fn of(own: &'d Document, project: Option<&'d Project>) -> Composer<'d> {
        let (check, read, problems) = (Check::new(own), BTreeMap::new(), Diagnostics::default());
        Composer { own, project, check, read, problems }
    }

    /// The part called `name`, read once.
    fn part(&mut self, here: &str, name: &str) -> Option<Document> {
        if let Some(known) = self.read.get(name) {
            return known.clone();
        }
        let part = match project::part(self.project, self.own.file(), name) {
            Ok(path) => match Document::read(&path).and_then(|document| self.checked(document)) {
                Ok(document) => Some(document),
                Err(mut problems) => {
                    self.problems.0.append(&mut problems.0);
                    None
                }
            },
            Err((rule, remedy)) => {
                self.check.fault(&format!("{here}.file"), rule, remedy);
                None
            }
        };
        self.read.insert(name.to_string(), part.clone());
        part
    }

    /// A part that can be read, with what is wrong with it noted.
    fn checked(&mut self, document: Document) -> Result<Document, Diagnostics> {
        let mut parsed = parse_part(&document)?;
        self.problems.0.append(&mut parsed.problems.0);
        let mut check = Check::new(&document);
        part_rules(&mut check, &parsed.raw);
        self.problems.0.append(&mut check.problems.0);
        Ok(document)
    }

    /// The part with the names and values that the machine gives it.
    fn changed(&mut self, here: &str, include: &RawInclude, part: Document) -> Option<Document> {
        let mut edits = Vec::new();
        self.renames(here, include, &part, &mut edits);
        self.sets(here, include, &part, &mut edits);
        if edits.is_empty() {
            return Some(part);
        }
        let edited = part.edited(edits).and_then(|document| {
            let mut parsed = parse_part(&document)?;
            self.problems.0.append(&mut parsed.problems.0);
            Ok(document)
        });
        edited.map_err(|mut problems| self.problems.0.append(&mut problems.0)).ok()
    }

    fn renames(
        &mut self,
        here: &str,
        include: &RawInclude,
        part: &Document,
        edits: &mut Vec<Edit>,
    ) {
        if include.rename.is_empty() {
            return;
        }
        let names = names(part);
        for (old, new) in &include.rename {
            let path = format!("{here}.rename.{old}");
            let Some(places) = names.get(old.as_str()) else {
                let known: Vec<&str> = names.keys().copied().collect();
                self.check.unknown(&path, &format!("the part has no name `{old}`"), old, &known);
                continue;
            };
            if !is_plain(new) {
                let rule = "the name of a tier, node or link has 1 to 40 of a-z, 0-9 and `-`";
                self.check.fault(&path, rule, "choose another name");
                continue;
            }
            let text = format!("\"{new}\"");
            for &place in places {
                let origin = Origin { document: self.own.clone(), path: path.clone() };
                edits.push(part.replace(place, &text, origin));
            }
        }
    }

    fn sets(&mut self, here: &str, include: &RawInclude, part: &Document, edits: &mut Vec<Edit>) {
        let sets = self.check.at_most(&format!("{here}.set"), "values", &include.set, MAX_SETS);
        for (index, set) in sets.iter().enumerate() {
            let here = format!("{here}.set.{index}");
            let value = format!("{here}.value");
            let mut depth = set.path.split('.');
            let section = depth.next().unwrap_or_default();
            let (single, list) = (SINGLES.contains(&section), LISTS.contains(&section));
            let deep = depth.count() >= if single { 1 } else { 2 };
            if !deep || !(single || list) {
                let rule = "`set` changes one value of a tier, of another entry or of `compute`";
                let remedy = "write a path such as \"tiers.dram.capacity\"";
                self.check.fault(&format!("{here}.path"), rule, remedy);
                continue;
            }
            let Some(text) = self.own.value(&value).map(str::to_string) else { continue };
            let origin = Origin { document: self.own.clone(), path: value };
            match part.put(&set.path, &text, origin) {
                Ok(edit) if edits.iter().any(|other| overlap(&edit, other)) => {
                    let rule = "this value is changed twice";
                    self.check.fault(&format!("{here}.path"), rule, "keep one of them");
                }
                Ok(edit) => edits.push(edit),
                Err((missing, names)) => {
                    let first = missing.split('.').next().unwrap_or_default();
                    let rule = format!("the part has no `{first}` on this path");
                    self.check.fault(&format!("{here}.path"), rule, choices(first, &names));
                }
            }
        }
    }

    fn one_of(&mut self, section: &str, documents: &[Document]) {
        let mut with = documents.iter().filter(|document| single(document, section).is_some());
        let Some(first) = with.next() else { return };
        for other in with {
            let line = first.place(section).line;
            let place = format!("{}:{line}", first.file().display());
            let rule = format!("a machine has one `{section}` (the other in {place})");
            let problem = other.problem_found(section, rule, "", "leave out one of them");
            self.problems.0.push(problem);
        }
    }
}

fn overlap(one: &Edit, other: &Edit) -> bool {
    let (a, b) = (one.range(), other.range());
    one.path() == other.path() || (a.start < b.end && b.start < a.end)
}

fn single<'d>(document: &'d Document, section: &str) -> Option<&'d str> {
    document.value(section).filter(|value| *value != "None")
}

/// The entries of a section.
fn entries<'d>(document: &'d Document, section: &str) -> impl Iterator<Item = ValueId> + 'd {
    let list = document.tree().find(document.text(), section);
    let list = list.filter(|&id| document.tree().shape(id) == Shape::List);
    list.into_iter().flat_map(|id| document.tree().children(id))
}

/// Where the names of a part's entries stand, by name.
fn names(part: &Document) -> BTreeMap<&str, Vec<ValueId>> {
    let (tree, mut names) = (part.tree(), BTreeMap::<&str, Vec<ValueId>>::new());
    for entry in LISTS.iter().flat_map(|section| entries(part, section)) {
        for field in tree.children(tree.inside(entry)) {
            if !tree.name(field).is_some_and(|name| NAMES.contains(&name)) {
                continue;
            }
            let list = (tree.shape(field) == Shape::List).then(|| tree.children(field));
            let one = list.is_none().then_some(field);
            for value in list.into_iter().flatten().chain(one) {
                let text = &part.text()[tree.span(value)];
                if let Some(name) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    names.entry(name).or_default().push(value);
                }
            }
        }
    }
    names
}

/// All entries of all documents, the machine's own last, with everything else that it says.
fn written(own: &Document, documents: &[Document]) -> Result<Document, Diagnostics> {
    let (mut text, mut pieces) = (String::from("Hardware(\n"), BTreeMap::new());
    let tree = own.tree();
    for field in tree.children(tree.inside(tree.root())) {
        let Some(name) = tree.name(field) else { continue };
        if name != "parts" && !SINGLES.contains(&name) && !LISTS.contains(&name) {
            text += &format!("{name}: {},\n", &own.text()[tree.span(field)]);
        }
    }
    for section in LISTS {
        let mut count = 0;
        text += &format!("{section}: [\n");
        for document in documents {
            for (index, entry) in entries(document, section).enumerate() {
                text += &document.text()[document.tree().span(entry)];
                text += ",\n";
                let path = format!("{section}.{index}");
                let origin = Origin { document: document.clone(), path };
                pieces.insert(format!("{section}.{count}"), origin);
                count += 1;
            }
        }
        text += "],\n";
    }
    for section in SINGLES {
        let first = documents.iter().find_map(|one| single(one, section).map(|text| (one, text)));
        if let Some((document, value)) = first {
            text += &format!("{section}: {value},\n");
            let origin = Origin { document: document.clone(), path: section.to_string() };
            pieces.insert(section.to_string(), origin);
        }
    }
    text.push(')');
    own.joined(text, pieces)
}
