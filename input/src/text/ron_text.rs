//! A RON file as text, with a place for everything in it.
//!
//! `bytes -> size check -> UTF-8 -> spans -> substitutions -> typed values`. A substitution
//! (`--set`, a sweep's axis) replaces the text of one value and reads the result again, so that it
//! can do exactly what editing the file could do and no more. Places shown to people are always
//! places of the file on disk, found by path, whatever was substituted.
//! Invariant: `text` scans without a problem, and reading it costs time linear in its length.

pub mod pieces;

use crate::shipped;
use crate::text::choices::choices;
use crate::text::ron_tree::{Shape, Tree, ValueId};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics, Place};

/// Largest scenario, hardware or hint file in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// A RON file that scans; cheap to clone.
#[derive(Clone, Debug)]
pub struct Document {
    scanned: Arc<Scanned>,
    /// The file as it is on disk, if this text differs from it.
    origin: Option<Arc<Scanned>>,
    changes: Vec<Change>,
    /// Values that stand in other files, or elsewhere in this one.
    pieces: pieces::Pieces,
}

#[derive(Debug)]
struct Scanned {
    file: PathBuf,
    text: String,
    tree: Tree,
}

/// A substituted value.
#[derive(Clone, Debug)]
struct Change {
    path: String,
    note: String,
}

/// Reads a text file that is not too large, or one that ships.
///
/// Only regular files are read (links to them too: whoever names a file may link to it; for files
/// that a scenario names, see the scenario reader), so that a pipe cannot hang the reader.
pub fn read_text(path: &Path) -> Result<String, Diagnostics> {
    let bytes = match shipped::bytes(path) {
        Some(bytes) => bytes.to_vec(),
        None => read_bytes(path)?,
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_string(),
            None => text,
        }),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
            let place = Some(place_in(&text, text.len()));
            Err(Diagnostics::one(path, place, "the text is not UTF-8", "", "save it as UTF-8"))
        }
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    let fail = |rule: String, found: String, remedy: &str| {
        Err(Diagnostics::one(path, None, rule, found, remedy))
    };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => {
            return fail("the file cannot be read".into(), error.to_string(), "check the path");
        }
    };
    if !meta.is_file() {
        return fail("not a regular file".into(), String::new(), "name a file");
    }
    let limit = format!("a file may have at most {MAX_BYTES} bytes");
    let smaller = "put tables into CSV files beside it";
    if meta.len() > MAX_BYTES {
        return fail(limit, format!("{} bytes", meta.len()), smaller);
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return fail("the file cannot be read".into(), error.to_string(), "check the path");
    }
    if bytes.len() as u64 > MAX_BYTES {
        return fail(limit, "a file that grows".into(), smaller);
    }
    Ok(bytes)
}

impl Document {
    /// Reads and scans a file.
    pub fn read(path: &Path) -> Result<Document, Diagnostics> {
        Document::from_text(path, read_text(path)?)
    }

    /// Scans `text`, which is what `file` holds.
    pub fn from_text(file: &Path, text: String) -> Result<Document, Diagnostics> {
        if text.len() as u64 > MAX_BYTES {
            let rule = format!("a file may have at most {MAX_BYTES} bytes");
            let found = format!("{} bytes", text.len());
            return Err(Diagnostics::one(file, None, rule, found, "make it shorter"));
        }
        match Tree::scan(&text) {
            Ok(tree) => {
                let scanned = Arc::new(Scanned { file: file.to_path_buf(), text, tree });
                let (origin, changes, pieces) = Default::default();
                Ok(Document { scanned, origin, changes, pieces })
            }
            Err(problems) => {
                let mut all = Diagnostics::default();
                for problem in problems {
                    let place = Some(place_in(&text, problem.at));
                    all.push(file, place, problem.rule, problem.found, problem.remedy);
                }
                Err(all)
            }
        }
    }

    /// The file's path, as given.
    pub fn file(&self) -> &Path {
        &self.scanned.file
    }

    /// The text, substitutions included.
    pub fn text(&self) -> &str {
        &self.scanned.text
    }

    /// Every value of the text.
    pub fn tree(&self) -> &Tree {
        &self.scanned.tree
    }

    /// The text of the value at `path`.
    pub fn value(&self, path: &str) -> Option<&str> {
        self.tree().find(self.text(), path).map(|id| &self.text()[self.tree().span(id)])
    }

    /// Where `path`, or the nearest thing around it, stands in the file on disk, which is
    /// [`Document::file_of`] it.
    pub fn place(&self, path: &str) -> Place {
        if let Some(place) = self.elsewhere(path) {
            return place;
        }
        let disk = self.origin.as_deref().unwrap_or(&self.scanned);
        let (id, _) = disk.tree.descend(&disk.text, path);
        place_in(&disk.text, disk.tree.span(id).start)
    }

    /// Where a value stands in this text, which must be that of the file on disk.
    pub fn place_of(&self, value: ValueId) -> Place {
        place_in(self.text(), self.tree().span(value).start)
    }

    /// A problem of the value at `path`, which is shown shortened.
    pub fn problem(
        &self,
        path: &str,
        rule: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        let found = self.value(path).map(shorten).unwrap_or_default();
        self.problem_found(path, rule, found, remedy)
    }

    /// A problem at `path` that shows `found`.
    pub fn problem_found(
        &self,
        path: &str,
        rule: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        let mut rule = rule.into();
        let touches = |change: &&Change| {
            let within = |outer: &str, inner: &str| {
                inner == outer || inner.strip_prefix(outer).is_some_and(|r| r.starts_with('.'))
            };
            within(&change.path, path) || within(path, &change.path)
        };
        for change in self.changes.iter().filter(touches) {
            rule = format!("{rule} [{}]", change.note);
        }
        Diagnostic {
            file: self.file_of(path).to_path_buf(),
            place: Some(self.place(path)),
            rule,
            found: found.into(),
            remedy: remedy.into(),
        }
    }

    /// This document with the value at `path` replaced by `value`, or added if only the last field
    /// of the path is missing. `note` says who did it, such as `--set seed=2`.
    pub fn with(&self, path: &str, value: &str, note: &str) -> Result<Document, Diagnostics> {
        let (id, missing) = self.tree().descend(self.text(), path);
        let span = self.tree().span(id);
        if !missing.is_empty() {
            let id = self.tree().inside(id);
            return match self.tree().shape(id) {
                Shape::Struct | Shape::Map if !missing.contains('.') && is_name(missing) => {
                    self.insert(id, missing, value, note)
                }
                _ => Err(self.no_such_path(id, path, missing, note)),
            };
        }
        let old = &self.text()[span.clone()];
        let value = value.trim();
        let quoted = value.starts_with('"') || value.starts_with("r\"") || value.starts_with("r#");
        let value = if old.starts_with('"') && !quoted {
            // A shell eats quotes: where a string stood, a bare word means a string.
            format!("\"{}\"", value.escape_default())
        } else {
            self.one_value(value, note)?.to_string()
        };
        let mut text = self.text().to_string();
        text.replace_range(span, &value);
        self.changed(text, self.tree().path(id), note)
    }

    /// A problem of the value `id`, which is shown shortened.
    pub(super) fn problem_of(&self, id: ValueId, rule: String, remedy: String) -> Diagnostic {
        let found = shorten(&self.text()[self.tree().span(id)]);
        let problem = self.problem_found(&self.tree().path(id), rule, found, remedy);
        self.at_least(problem, self.tree().span(id).start)
    }

    /// A problem of the name under which `id` stands.
    pub(super) fn problem_of_name(
        &self,
        id: ValueId,
        rule: String,
        found: &str,
        remedy: &str,
    ) -> Diagnostic {
        let problem = self.problem_found(&self.tree().path(id), rule, shorten(found), remedy);
        self.at_least(problem, self.tree().name_start(id))
    }

    /// `problem`, at the byte `start` if this is the text on disk.
    fn at_least(&self, mut problem: Diagnostic, start: usize) -> Diagnostic {
        if self.origin.is_none() {
            problem.place = Some(place_in(self.text(), start));
        }
        problem
    }

    fn disk(&self) -> Arc<Scanned> {
        self.origin.clone().unwrap_or_else(|| self.scanned.clone())
    }

    fn insert(
        &self,
        id: ValueId,
        name: &str,
        value: &str,
        note: &str,
    ) -> Result<Document, Diagnostics> {
        let value = self.one_value(value.trim(), note)?;
        let name_text = match self.tree().shape(id) {
            Shape::Map => format!("\"{name}\""),
            _ => name.to_string(),
        };
        let mut text = self.text().to_string();
        match self.tree().children(id).last() {
            Some(last) => {
                let end = self.tree().span(last).end;
                text.insert_str(end, &format!(", {name_text}: {value}"));
            }
            None => {
                let end = self.tree().span(id).end - 1;
                text.insert_str(end, &format!("\n{name_text}: {value}"));
            }
        }
        let parent = self.tree().path(id);
        let path = if parent.is_empty() { name.to_string() } else { format!("{parent}.{name}") };
        self.changed(text, path, note)
    }

    /// `value` without comments around it; refused unless it is exactly one value.
    fn one_value<'v>(&self, value: &'v str, note: &str) -> Result<&'v str, Diagnostics> {
        match Tree::scan(value) {
            Ok(tree) => Ok(&value[tree.span(tree.root())]),
            Err(problems) => {
                let mut all = Diagnostics::default();
                for problem in problems {
                    let rule = format!("{} [{note}]", problem.rule);
                    all.push(self.file(), None, rule, problem.found, problem.remedy);
                }
                Err(all)
            }
        }
    }

    fn changed(&self, text: String, path: String, note: &str) -> Result<Document, Diagnostics> {
        let mut next = Document::from_text(self.file(), text)?;
        next.origin = Some(self.disk());
        next.pieces = self.pieces.clone();
        next.changes = self.changes.clone();
        next.changes.push(Change { path, note: note.to_string() });
        Ok(next)
    }

    fn no_such_path(&self, id: ValueId, path: &str, missing: &str, note: &str) -> Diagnostics {
        let segment = missing.split('.').next().unwrap_or(missing);
        let at = self.tree().path(id);
        let names = self.tree().names(id);
        let remedy = match self.tree().shape(id) {
            Shape::List | Shape::Tuple => {
                format!(
                    "the list has {} elements, counted from 0",
                    self.tree().children(id).count()
                )
            }
            _ if names.is_empty() => "nothing is inside that value".to_string(),
            _ => choices(segment, &names),
        };
        let remedy = self.beside(path).unwrap_or(remedy);
        let here = if at.is_empty() { "the file".to_string() } else { format!("`{at}`") };
        let rule = format!("there is no `{path}`: {here} has no `{segment}` [{note}]");
        Diagnostics(vec![self.problem_found(&at, rule, "", remedy)])
    }
}

impl Document {
    /// Where another element of a list has what `path` looks for in one: `policies.0` may have no
    /// `cut` where `policies.1` has.
    fn beside(&self, path: &str) -> Option<String> {
        let segments: Vec<&str> = path.split('.').collect();
        let list = (1..segments.len()).rev().find_map(|at| {
            let list = self.tree().find(self.text(), &segments[..at].join("."))?;
            (self.tree().shape(list) == Shape::List).then_some((at, list))
        });
        let (at, list) = list?;
        let (before, rest) = (segments[..at].join("."), segments[at + 1..].join("."));
        let path = |index: usize| format!("{before}.{index}.{rest}");
        let there = |index: &usize| self.tree().find(self.text(), &path(*index)).is_some();
        let mut have = (0..self.tree().children(list).count()).filter(there);
        let first = have.next().filter(|_| !rest.is_empty())?;
        Some(match have.count() {
            0 => format!("`{}` is there", path(first)),
            more => format!("`{}` is there, and the same in {more} other elements", path(first)),
        })
    }
}

/// A value's text on one line, cut where it gets long.
pub fn shorten(text: &str) -> String {
    let one_line = text.chars().take(200).collect::<String>();
    let mut words = one_line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() > 60 || text.len() > one_line.len() {
        words = words.chars().take(57).collect::<String>() + "...";
    }
    format!("`{words}`")
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && text.chars().all(|c| matches!(c, '_' | '-') || c.is_alphanumeric())
}

/// Line and column of a byte of a text.
pub fn place_in(text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line = before.matches('\n').count() as u64 + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Place { line, column: before[start..].chars().count() as u64 + 1 }
}
