//! A RON file, with a place for everything in it.
//!
//! `bytes -> size check -> UTF-8 -> tree -> substitutions -> typed values`. A substitution
//! (`--set`, a sweep's axis) puts another value into the tree, read from its own text, so that it
//! can do exactly what editing the file could do and no more. Places shown to people are always
//! places of files on disk, whatever was substituted.
//! Invariant: the text scans without a problem, and reading it costs time linear in its length.

use crate::json;
use crate::text::ron_tree::{Source, Tree, ValueId, place_in};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics, Place};

/// Largest scenario, hardware or hint file in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// A RON file that scans; cheap to clone.
#[derive(Clone, Debug)]
pub struct Document {
    pub(super) tree: Arc<Tree>,
    pub(super) changes: Vec<Change>,
}

/// A substituted value.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) note: String,
}

/// Reads a text file that is not too large, or one that ships.
///
/// Only regular files are read (links to them too: whoever names a file may link to it; for files
/// that a scenario names, see the scenario reader), so that a pipe cannot hang the reader.
pub fn read_text(path: &Path) -> Result<String, Diagnostics> {
    let bytes = json::read(path, MAX_BYTES, "put tables into CSV files beside it")?;
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
        let source = Source { file: file.to_path_buf(), text, instead_of: None };
        Ok(Document { tree: Arc::new(Tree::scan(source)?), changes: Vec::new() })
    }

    /// This document with the values of `tree`.
    pub(crate) fn with_tree(&self, tree: Tree) -> Document {
        Document { tree: Arc::new(tree), changes: self.changes.clone() }
    }

    /// The file's path, as given.
    pub fn file(&self) -> &Path {
        &self.tree.source().file
    }

    /// The text of the file, without substitutions.
    pub fn text(&self) -> &str {
        &self.tree.source().text
    }

    /// Every value.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The text of the value at `path`.
    pub fn value(&self, path: &str) -> Option<Cow<'_, str>> {
        self.tree.find(path).map(|id| self.tree.text(id))
    }

    /// Where `path`, or the nearest thing around it, stands in its file, which is
    /// [`Document::file_of`] it.
    pub fn place(&self, path: &str) -> Place {
        self.tree.place(self.tree.descend(path).0)
    }

    /// The file in which `path` stands.
    pub fn file_of(&self, path: &str) -> &Path {
        self.tree.file(self.tree.descend(path).0)
    }

    /// `line 7`, or `FILE:7` if `path` stands in another file than `from`.
    pub fn line_from(&self, path: &str, from: &str) -> String {
        let (file, line) = (self.file_of(path), self.place(path).line);
        if file == self.file_of(from) {
            return format!("line {line}");
        }
        format!("{}:{line}", file.display())
    }

    /// Who put in what stands at `path`, in it or around it, if not the file did.
    pub(crate) fn notes(&self, path: &str) -> impl Iterator<Item = &str> {
        let touches = move |change: &&Change| {
            let within = |outer: &str, inner: &str| {
                inner == outer || inner.strip_prefix(outer).is_some_and(|r| r.starts_with('.'))
            };
            within(&change.path, path) || within(path, &change.path)
        };
        self.changes.iter().filter(touches).map(|change| change.note.as_str())
    }

    /// A problem of the value at `path`, which is shown shortened.
    pub fn problem(
        &self,
        path: &str,
        rule: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        let found = self.value(path).map(|text| shorten(&text)).unwrap_or_default();
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
        for note in self.notes(path) {
            // A number and its source are put in together.
            let note = format!(" [{note}]");
            if !rule.ends_with(&note) {
                rule.push_str(&note);
            }
        }
        Diagnostic {
            file: self.file_of(path).to_path_buf(),
            place: Some(self.place(path)),
            rule,
            found: found.into(),
            remedy: remedy.into(),
        }
    }

    /// A problem of the value `id`, which is shown shortened.
    pub(crate) fn problem_of(&self, id: ValueId, rule: String, remedy: String) -> Diagnostic {
        let found = shorten(&self.tree.text(id));
        self.problem_at(id, self.tree.place(id), rule, found, remedy)
    }

    /// A problem of the name under which `id` stands.
    pub(crate) fn problem_of_name(
        &self,
        id: ValueId,
        rule: String,
        found: &str,
        remedy: String,
    ) -> Diagnostic {
        self.problem_at(id, self.tree.place_of_name(id), rule, shorten(found), remedy)
    }

    fn problem_at(
        &self,
        id: ValueId,
        place: Place,
        rule: String,
        found: String,
        remedy: String,
    ) -> Diagnostic {
        let problem = self.problem_found(&self.tree.path(id), rule, found, remedy);
        Diagnostic { file: self.tree.file(id).to_owned(), place: Some(place), ..problem }
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

/// A string of the format; only what must be escaped is.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.extend(letter.escape_unicode()),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && text.chars().all(|c| matches!(c, '_' | '-') || c.is_alphanumeric())
}
