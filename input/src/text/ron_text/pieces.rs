//! A document whose values stand in several files.
//!
//! A value that was put in from elsewhere keeps its place there, so a rule that it breaks is told
//! with the file, line and column where somebody can mend it, and its text is parsed and checked as
//! if it had been written in the one file.
//! Invariant: of the pieces around a path the innermost says where the path stands.

use super::{Document, is_name};
use crate::text::ron_tree::{Shape, ValueId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Values from elsewhere by their path here.
pub(super) type Pieces = Arc<BTreeMap<String, Origin>>;

/// Where a value stands.
#[derive(Clone, Debug)]
pub struct Origin {
    /// In this document.
    pub document: Document,
    /// At this path.
    pub path: String,
}

/// One value to put in.
#[derive(Debug)]
pub struct Edit {
    range: Range<usize>,
    text: String,
    path: String,
    origin: Origin,
}

impl Edit {
    /// The bytes that are replaced; none where a field is added.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The path of the value.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Document {
    /// `text` in the place of the value `id`.
    pub fn replace(&self, id: ValueId, text: &str, origin: Origin) -> Edit {
        let (range, path) = (self.tree().span(id), self.tree().path(id));
        Edit { range, text: text.to_string(), path, origin }
    }

    /// `text` as the value at `path`, of which only the last field may be missing; otherwise what
    /// is missing, and the names that stand there instead.
    pub fn put(&self, path: &str, text: &str, origin: Origin) -> Result<Edit, (String, Vec<&str>)> {
        let tree = self.tree();
        let (id, missing) = tree.descend(self.text(), path);
        if missing.is_empty() {
            return Ok(self.replace(id, text, origin));
        }
        let inside = tree.inside(id);
        if tree.shape(inside) != Shape::Struct || missing.contains('.') || !is_name(missing) {
            return Err((missing.to_string(), tree.names(id)));
        }
        let path = format!("{}.{missing}", tree.path(inside));
        let (end, comma) = match tree.children(inside).last() {
            Some(last) => (tree.span(last).end, ", "),
            None => (tree.span(inside).end - 1, "\n"),
        };
        Ok(Edit { range: end..end, text: format!("{comma}{missing}: {text}"), path, origin })
    }

    /// This document with `edits` made, which do not overlap.
    pub fn edited(&self, mut edits: Vec<Edit>) -> Result<Document, Diagnostics> {
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let (mut text, mut done) = (String::new(), 0);
        for edit in &edits {
            text += &self.text()[done..edit.range.start];
            text += &edit.text;
            done = edit.range.end;
        }
        text += &self.text()[done..];
        let mut pieces = BTreeMap::clone(&self.pieces);
        pieces.extend(edits.into_iter().map(|edit| (edit.path, edit.origin)));
        self.joined(text, pieces)
    }

    /// `text`, with the places of its `pieces`; what is in none of them stands where it stands
    /// here.
    pub fn joined(
        &self,
        text: String,
        pieces: BTreeMap<String, Origin>,
    ) -> Result<Document, Diagnostics> {
        let mut next = Document::from_text(&self.scanned.file, text)?;
        next.origin = Some(self.disk());
        next.changes.clone_from(&self.changes);
        next.pieces = Arc::new(pieces);
        Ok(next)
    }

    /// `line 7`, or `FILE:7` if `path` stands in another file than `from`.
    pub fn line_from(&self, path: &str, from: &str) -> String {
        let (file, line) = (self.file_of(path), self.place(path).line);
        if file == self.file_of(from) {
            return format!("line {line}");
        }
        format!("{}:{line}", file.display())
    }

    /// The file in which `path` stands.
    pub fn file_of(&self, path: &str) -> &Path {
        match self.home(path) {
            Some((origin, path)) => origin.document.file_of(&path),
            None => self.file(),
        }
    }

    /// The place of `path` if it stands elsewhere.
    pub(super) fn elsewhere(&self, path: &str) -> Option<Place> {
        self.home(path).map(|(origin, path)| origin.document.place(&path))
    }

    /// The innermost piece around `path`, and its path there.
    fn home(&self, path: &str) -> Option<(&Origin, String)> {
        if self.pieces.is_empty() {
            return None;
        }
        let mut outer = path;
        loop {
            if let Some(origin) = self.pieces.get(outer) {
                return Some((origin, format!("{}{}", origin.path, &path[outer.len()..])));
            }
            outer = outer.rsplit_once('.')?.0;
        }
    }
}
