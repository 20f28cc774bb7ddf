//! One tree from the trees of a machine and its parts.
//!
//! Names of a part are changed and its values set by putting values of the machine's file into the
//! part's tree, and the result is read as a part again: what `set` can do is what editing the
//! part's file could do. Every value keeps its place in the file where it was written.

use crate::hardware_file::machine::head;
use crate::hardware_file::raw::{RawInclude, RawPart};
use crate::hardware_file::resolver::is_plain;
use crate::project::{self, Named, Project};
use crate::text::check::Check;
use crate::text::choices::choices;
use crate::text::ron_text::{Document, MAX_BYTES, is_name};
use crate::text::ron_tree::{Shape, Tree, ValueId};
use crate::text::typed::Parsed;
use std::collections::BTreeMap;
use tiersim_models::diagnostic::Diagnostics;

/// Most parts of one machine: as many as it may have tiers and links.
const MAX_PARTS: usize = 32;

/// Most values that a machine sets in one part.
const MAX_SETS: usize = 64;

/// Sections of a file that are lists; those of parts and machine are put one behind the other.
const LISTS: &[&str] = &["tiers", "nodes", "links", "routes", "hidden"];
/// Sections of a file that only one of all files has.
const SINGLES: &[&str] = &["compute", "cpu", "host"];
/// Fields of the lists' entries that hold names of the machine, or lists of such.
const NAMES: &[&str] = &["name", "near", "far", "from", "to", "via", "tier"];

/// A machine and its parts as one document.
pub(super) struct Composed {
    /// With the places of all values.
    pub(super) document: Document,
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
    Composed { document: merged(own, &documents), whole, problems }
}

/// What is wrong with the parts of a machine that itself cannot be read.
pub(super) fn parts_alone(own: &Document, project: Option<&Project>) -> Diagnostics {
    let mut composer = Composer::of(own, project);
    for index in 0..entries(own, "parts").take(MAX_PARTS).count() {
        let here = format!("parts.{index}");
        let name = own.tree().find(&format!("{here}.file")).map(|name| own.tree().written(name));
        if let Some(name) = name.and_then(|name| name.strip_prefix('"')?.strip_suffix('"')) {
            composer.part(&here, name);
        }
    }
    let Composer { check, mut problems, .. } = composer;
    problems.0.extend(check.problems.0);
    problems
}

/// A part with values of the machine's file, and the paths where they are.
struct Changed {
    tree: Tree,
    paths: Vec<String>,
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
        let part = match project::part(self.project, self.own.file(), Named::Part, name) {
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
        head(&mut check, parsed.raw.schema, &parsed.raw.about, "part");
        self.problems.0.append(&mut check.problems.0);
        Ok(document)
    }

    /// The part with the names and values that the machine gives it.
    fn changed(&mut self, here: &str, include: &RawInclude, part: Document) -> Option<Document> {
        let mut changed = Changed { tree: part.tree().clone(), paths: Vec::new() };
        self.renames(here, include, &part, &mut changed);
        self.sets(here, include, &part, &mut changed);
        if changed.paths.is_empty() {
            return Some(part);
        }
        let part = part.with_tree(changed.tree);
        match parse_part(&part) {
            Ok(mut parsed) => {
                self.problems.0.append(&mut parsed.problems.0);
                Some(part)
            }
            Err(mut problems) => {
                self.problems.0.append(&mut problems.0);
                None
            }
        }
    }

    fn renames(
        &mut self,
        here: &str,
        include: &RawInclude,
        part: &Document,
        changed: &mut Changed,
    ) {
        if include.rename.is_empty() {
            return;
        }
        let (names, own) = (names(part), self.own.tree());
        let written = own.find(&format!("{here}.rename"));
        for new in written.into_iter().flat_map(|map| own.children(own.inside(map))) {
            let old = own.name(new).unwrap_or_default();
            let path = format!("{here}.rename.{old}");
            let Some(places) = names.get(old) else {
                let known: Vec<&str> = names.keys().copied().collect();
                self.check.unknown(&path, &format!("the part has no name `{old}`"), old, &known);
                continue;
            };
            if !include.rename.get(old).is_some_and(|new| is_plain(new)) {
                let rule = "the name of a tier, node or link has 1 to 40 of a-z, 0-9 and `-`";
                self.check.fault(&path, rule, "choose another name");
                continue;
            }
            for &place in places {
                changed.tree.replace(place, own, new);
                changed.paths.push(part.tree().path(place));
            }
        }
    }

    fn sets(&mut self, here: &str, include: &RawInclude, part: &Document, changed: &mut Changed) {
        let (tree, own) = (part.tree(), self.own.tree());
        let sets = self.check.at_most(&format!("{here}.set"), "values", &include.set, MAX_SETS);
        for (index, set) in sets.iter().enumerate() {
            let here = format!("{here}.set.{index}");
            let at = format!("{here}.path");
            let mut depth = set.path.split('.');
            let section = depth.next().unwrap_or_default();
            let (single, list) = (SINGLES.contains(&section), LISTS.contains(&section));
            let deep = depth.count() >= if single { 1 } else { 2 };
            if !deep || !(single || list) {
                let rule = "`set` changes one value of a tier, of another entry or of `compute`";
                let remedy = "write a path such as \"tiers.dram.capacity\"";
                self.check.fault(&at, rule, remedy);
                continue;
            }
            let Some(value) = own.find(&format!("{here}.value")) else { continue };
            let (id, missing) = tree.descend(&set.path);
            let (inside, mut path) = (tree.inside(id), tree.path(id));
            if !missing.is_empty() {
                if tree.shape(inside) != Shape::Struct || !is_name(missing) {
                    let first = missing.split('.').next().unwrap_or_default();
                    let rule = format!("the part has no `{first}` on this path");
                    self.check.fault(&at, rule, choices(first, &tree.names(id)));
                    continue;
                }
                path = format!("{}.{missing}", tree.path(inside));
            }
            if changed.paths.iter().any(|other| overlap(&path, other)) {
                self.check.fault(&at, "this value is changed twice", "keep one of them");
                continue;
            }
            if missing.is_empty() {
                changed.tree.replace(id, own, value);
            } else {
                changed.tree.put(inside, Some(missing), own, value);
            }
            changed.paths.push(path);
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

/// Whether one of two paths leads into the other.
fn overlap(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(one, other) || within(other, one)
}

fn single(document: &Document, section: &str) -> Option<ValueId> {
    let tree = document.tree();
    tree.find(section).filter(|&value| tree.written(value) != "None")
}

/// The entries of a section.
fn entries<'d>(document: &'d Document, section: &str) -> impl Iterator<Item = ValueId> + 'd {
    let list = document.tree().find(section);
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
                let text = tree.written(value);
                if let Some(name) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    names.entry(name).or_default().push(value);
                }
            }
        }
    }
    names
}

/// All entries of all documents, the machine's own last, with everything else that it says.
fn merged(own: &Document, documents: &[Document]) -> Document {
    let (from, mut tree) = (own.tree(), Tree::begin(own.tree()));
    let root = tree.root();
    for field in from.children(from.inside(from.root())) {
        let Some(name) = from.name(field) else { continue };
        if name != "parts" && !SINGLES.contains(&name) && !LISTS.contains(&name) {
            tree.put(root, Some(name), from, field);
        }
    }
    for section in LISTS {
        let list = tree.add_list(root, section);
        if let Some(own) = from.find(section) {
            tree.stand(list, from, own);
        }
        for document in documents {
            for entry in entries(document, section) {
                tree.put(list, None, document.tree(), entry);
            }
        }
    }
    for section in SINGLES {
        let first = documents.iter().find_map(|one| single(one, section).map(|value| (one, value)));
        if let Some((document, value)) = first {
            tree.put(root, Some(section), document.tree(), value);
        }
    }
    own.with_tree(tree)
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
pub(super) fn word(document: &Document) -> &str {
    let text = document.tree().written(document.tree().root());
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

pub(super) fn parse_part(document: &Document) -> Result<Parsed<RawPart>, Diagnostics> {
    refuse(document, "Hardware")?;
    document.parse::<RawPart>()
}
