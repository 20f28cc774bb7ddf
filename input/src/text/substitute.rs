//! Puts other values into a document: `--set`, the axes of a sweep, what a scenario sets of a
//! machine.
//!
//! A value is read from its own text and can do what editing the file could do. A path may hold
//! `*`, which stands for every element or field that has the rest of the path, and a value may be
//! `times(1.18)`, which scales the number that stands there and keeps its unit.
//! Invariant: a document is returned whole with all its values in place, or not at all.

use crate::text::choices::choices;
use crate::text::ron_scan::MAX_DEPTH;
use crate::text::ron_text::{Change, Document, is_name, shorten};
use crate::text::ron_tree::{Shape, Source, Tree, ValueId};
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};

impl Document {
    /// This document with the value at `path` replaced by `value`, or added if only the last field
    /// of the path is missing; with `*` in the path at every place that it means. `note` says who
    /// did it, such as `--set seed=2`.
    pub fn with(&self, path: &str, value: &str, note: &str) -> Result<Document, Diagnostics> {
        let mut next = self.clone();
        for path in self.meant(path, note)? {
            next = next.with_one(&path, value, note)?;
        }
        Ok(next)
    }

    /// The paths that `path` means: itself, or with `*` in it those of every place that can take a
    /// value, of which there is at least one.
    pub(crate) fn meant(&self, path: &str, note: &str) -> Result<Vec<String>, Diagnostics> {
        let star = |path: &str| {
            let (id, missing) = self.tree.descend(path);
            let at = path.len() - missing.len();
            let (first, rest) = missing.split_once('.').unwrap_or((missing, ""));
            (first == "*").then(|| (id, path[..at].to_owned(), rest.to_owned()))
        };
        if star(path).is_none() {
            return Ok(vec![path.to_owned()]);
        }
        let (mut open, mut found) = (vec![path.to_owned()], Vec::new());
        while let Some(path) = open.pop() {
            let Some((id, _, rest)) = star(&path) else {
                // An element that lacks more than the last field is not meant.
                let (id, missing) = self.tree.descend(&path);
                if missing.is_empty() || self.takes(id, missing) {
                    found.push(path);
                }
                continue;
            };
            let inside = self.tree.children(self.tree.inside(id));
            let paths: Vec<String> = inside.map(|child| self.tree.path(child)).collect();
            let below = |path: String| match rest.as_str() {
                "" => path,
                rest => format!("{path}.{rest}"),
            };
            open.extend(paths.into_iter().rev().map(below));
        }
        if found.is_empty() {
            let rule = format!("nothing has the path `{path}` [{note}]");
            let remedy = "`*` stands for every element that has the rest of the path";
            return Err(Diagnostics(vec![self.problem_found("", rule, "", remedy)]));
        }
        Ok(found)
    }

    /// Whether a field called `missing` can be added to a value.
    fn takes(&self, id: ValueId, missing: &str) -> bool {
        let inside = self.tree.inside(id);
        matches!(self.tree.shape(inside), Shape::Struct | Shape::Map) && is_name(missing)
    }

    /// That a value stands at `path`, or that only the last field of it is missing.
    pub(crate) fn can_take(&self, path: &str, note: &str) -> Result<(), Diagnostics> {
        let (id, missing) = self.tree.descend(path);
        if missing.is_empty() || self.takes(id, missing) {
            return Ok(());
        }
        let problem = self.no_such_path(self.tree.inside(id), path, missing, note);
        Err(Diagnostics(vec![problem]))
    }

    fn with_one(&self, path: &str, value: &str, note: &str) -> Result<Document, Diagnostics> {
        self.can_take(path, note)?;
        let (id, missing) = self.tree.descend(path);
        let value = value.trim();
        if let Some(factor) = factor(value) {
            return self.scaled(path, factor, note);
        }
        let quoted = value.starts_with('"') || value.starts_with("r\"") || value.starts_with("r#");
        let for_string = missing.is_empty() && self.tree.written(id).starts_with('"');
        if for_string && !quoted {
            // A shell eats quotes: where a string stood, a bare word means a string.
            return self.put(path, format!("\"{}\"", value.escape_default()), note);
        }
        self.put(path, value.to_owned(), note)
    }

    /// This document with `text` at `path`, where something stands or could; the number behind the
    /// last of a list adds to it. Messages name `note`, if it is one.
    pub(crate) fn put(
        &self,
        path: &str,
        text: String,
        note: &str,
    ) -> Result<Document, Diagnostics> {
        let (id, missing) = self.tree.descend(path);
        let (file, instead_of) = (self.tree.file(id).to_owned(), Some(self.tree.place(id)));
        let given = Tree::scan(Source { file, text, instead_of }).map_err(|mut problems| {
            problems.0.iter_mut().for_each(|problem| problem.rule += &format!(" [{note}]"));
            problems
        })?;
        let deepest = given.values().map(|inner| given.depth(inner)).max().unwrap_or(0);
        if self.tree.depth(id) + deepest > MAX_DEPTH {
            let rule = format!("values are nested deeper than {MAX_DEPTH} levels [{note}]");
            let remedy = "no file of this kind needs that";
            return Err(Diagnostics::one(self.file(), None, rule, "", remedy));
        }
        let mut tree = Tree::clone(&self.tree);
        let changed = if missing.is_empty() {
            tree.replace(id, &given, given.root());
            id
        } else {
            let inside = self.tree.inside(id);
            let name = (self.tree.shape(inside) != Shape::List).then_some(missing);
            tree.put(inside, name, &given, given.root())
        };
        let mut next = self.with_tree(tree);
        if !note.is_empty() {
            next.changes.push(Change { path: next.tree.path(changed), note: note.to_string() });
        }
        Ok(next)
    }

    /// This document with the number at `path` multiplied; its unit stays.
    fn scaled(&self, path: &str, factor: &str, note: &str) -> Result<Document, Diagnostics> {
        let found = self.tree.find(path);
        // `gib(80)` has its number inside.
        let number = found.map(|id| match self.tree.shape(id) {
            Shape::Newtype => self.tree.children(id).next().unwrap_or(id),
            _ => id,
        });
        let written = number.map_or("", |id| self.tree.written(id));
        let (Some(id), Ok(number)) = (found, written.replace('_', "").parse::<f64>()) else {
            let rule = format!("`times` scales a number, and `{path}` has none [{note}]");
            return Err(Diagnostics(vec![self.problem(path, rule, "write the value itself")]));
        };
        let Some(factor) = factor.parse::<f64>().ok().filter(|f| f.is_finite() && *f > 0.0) else {
            let rule = format!("a factor is a number above 0 [{note}]");
            let found = shorten(factor);
            let remedy = "write times(1.1) for a tenth more";
            return Err(Diagnostics(vec![self.problem_found(path, rule, found, remedy)]));
        };
        let product = format!("{}", number * factor);
        let text = match self.tree.shape(id) {
            Shape::Leaf => product,
            _ => self.tree.text(id).replacen(written, &product, 1),
        };
        self.put(path, text, note)
    }

    fn no_such_path(&self, id: ValueId, path: &str, missing: &str, note: &str) -> Diagnostic {
        let segment = missing.split('.').next().unwrap_or(missing);
        let at = self.tree.path(id);
        let names = self.tree.names(id);
        let remedy = match self.tree.shape(id) {
            Shape::List | Shape::Tuple => {
                format!("the list has {} elements, counted from 0", self.tree.children(id).count())
            }
            _ if names.is_empty() => "nothing is inside that value".to_string(),
            _ => choices(segment, &names),
        };
        let remedy = self.beside(path).unwrap_or(remedy);
        let here = if at.is_empty() { "the file".to_string() } else { format!("`{at}`") };
        let rule = format!("there is no `{path}`: {here} has no `{segment}` [{note}]");
        self.problem_found(&at, rule, "", remedy)
    }

    /// Where another element of a list has what `path` looks for in one: `policies.0` may have no
    /// `cut` where `policies.1` has.
    fn beside(&self, path: &str) -> Option<String> {
        let segments: Vec<&str> = path.split('.').collect();
        let list = (1..segments.len()).rev().find_map(|at| {
            let list = self.tree.find(&segments[..at].join("."))?;
            (self.tree.shape(list) == Shape::List).then_some((at, list))
        });
        let (at, list) = list?;
        let (before, rest) = (segments[..at].join("."), segments[at + 1..].join("."));
        let path = |index: usize| format!("{before}.{index}.{rest}");
        let there = |index: &usize| self.tree.find(&path(*index)).is_some();
        let mut have = (0..self.tree.children(list).count()).filter(there);
        let first = have.next().filter(|_| !rest.is_empty())?;
        Some(match have.count() {
            0 => format!("`{}` is there", path(first)),
            more => format!("`{}` is there, and the same in {more} other elements", path(first)),
        })
    }
}

/// The number in `times(...)`.
fn factor(value: &str) -> Option<&str> {
    Some(value.strip_prefix("times")?.trim().strip_prefix('(')?.strip_suffix(')')?.trim())
}
