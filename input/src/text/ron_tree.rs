//! Where every value of a RON text stands: path -> file and bytes.
//!
//! ron has no spanned values, so a rule that is checked after parsing would have no line to point
//! at. This tree holds the span of every value, read without knowing any types. A tree may hold
//! values of several texts: a value is put in from another tree and keeps the place that it has
//! there.
//! Names of structs and variants are transparent: in `policy: Adam(cut: shares(hbm: 0.3))` the
//! share has the path `policy.cut.hbm`, and `gib(80)` has the path of its field.
//! Invariant: a child of the same text lies within its parent.

use crate::text::ron_lex::word_end;
use crate::text::ron_scan::{Label, NONE, Node, ScanProblem, append, nodes};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::diagnostic::{Diagnostics, Place};

pub use crate::text::ron_scan::Shape;

/// A text that values stand in.
#[derive(Debug)]
pub struct Source {
    /// The file that it is of.
    pub file: PathBuf,
    /// All of it.
    pub text: String,
    /// The place in the file of what it is put in for, if it is not the file's own text.
    pub instead_of: Option<Place>,
}

/// Every value of a text, or of several, with its place.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The first is that of the file.
    sources: Vec<Arc<Source>>,
    nodes: Vec<Node>,
}

/// One value of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueId(u32);

impl Tree {
    /// Reads a text, or lists what is wrong with it.
    pub fn scan(source: Source) -> Result<Tree, Diagnostics> {
        match nodes(&source.text) {
            Ok(nodes) => Ok(Tree { sources: vec![Arc::new(source)], nodes }),
            Err(problems) => {
                let mut all = Diagnostics::default();
                for ScanProblem { at, rule, found, remedy } in problems {
                    let own = source.instead_of.is_none();
                    let place = own.then(|| place_in(&source.text, at));
                    all.push(&source.file, place, rule, found, remedy);
                }
                Err(all)
            }
        }
    }

    /// The whole file.
    pub fn root(&self) -> ValueId {
        ValueId(0)
    }

    /// The text of the file.
    pub fn source(&self) -> &Source {
        &self.sources[0]
    }

    /// The file in which a value stands.
    pub fn file(&self, id: ValueId) -> &Path {
        &self.source_of(id).file
    }

    /// Where a value stands.
    pub fn place(&self, id: ValueId) -> Place {
        self.place_at(id, self.node(id).start)
    }

    /// Where the name or key of a value stands; the value itself if it has none.
    pub fn place_of_name(&self, id: ValueId) -> Place {
        self.place_at(id, self.node(id).name_start)
    }

    /// What was written for a value, or for one that values were put into since.
    pub fn written(&self, id: ValueId) -> &str {
        let node = self.node(id);
        &self.source_of(id).text[node.start as usize..node.end as usize]
    }

    /// What was written before a value and names it, if something does, and the value.
    pub fn written_with_name(&self, id: ValueId) -> &str {
        let node = self.node(id);
        &self.source_of(id).text[node.name_start as usize..node.end as usize]
    }

    /// The text of a value, with what was put into it.
    pub fn text(&self, id: ValueId) -> Cow<'_, str> {
        if self.is_of_one(id) {
            return self.written(id).into();
        }
        let mut text = String::new();
        self.show(id, &mut text);
        text.into()
    }

    /// What a value is made of.
    pub fn shape(&self, id: ValueId) -> Shape {
        self.node(id).shape
    }

    /// The values directly inside one.
    pub fn children(&self, id: ValueId) -> impl Iterator<Item = ValueId> + '_ {
        let mut next = self.node(id).first;
        std::iter::from_fn(move || {
            let id = (next != NONE).then_some(ValueId(next))?;
            next = self.nodes[next as usize].next;
            Some(id)
        })
    }

    /// Names of the fields or keys of a value, looking through newtypes.
    pub fn names(&self, id: ValueId) -> Vec<&str> {
        self.children(self.inside(id)).filter_map(|child| self.name(child)).collect()
    }

    /// The name under which a value stands in its struct or map.
    pub fn name(&self, id: ValueId) -> Option<&str> {
        match &self.node(id).label {
            Label::Name(name) => Some(name),
            Label::Index(_) => None,
        }
    }

    /// The value at `path`, such as `policies.0.policy.cut.hbm`; the empty path is the file.
    ///
    /// In a list, a segment that is not a number finds the element whose field `name` it equals.
    pub fn find(&self, path: &str) -> Option<ValueId> {
        let (id, rest) = self.descend(path);
        rest.is_empty().then_some(id)
    }

    /// The deepest value on the way to `path`, and the segments that do not exist.
    pub fn descend<'p>(&self, path: &'p str) -> (ValueId, &'p str) {
        let (mut id, mut rest) = (self.root(), path);
        while !rest.is_empty() {
            let (segment, after) = rest.split_once('.').unwrap_or((rest, ""));
            let Some(child) = self.step(id, segment) else { break };
            (id, rest) = (child, after);
        }
        (id, rest)
    }

    /// The path of a value, by index where the parent is a list.
    pub fn path(&self, id: ValueId) -> String {
        let mut segments = Vec::new();
        let mut at = id.0;
        while at != NONE {
            let node = &self.nodes[at as usize];
            let hidden = node.parent == NONE
                || (self.nodes[node.parent as usize].shape == Shape::Newtype
                    && node.shape != Shape::Leaf);
            if !hidden {
                segments.push(match &node.label {
                    Label::Index(index) => index.to_string(),
                    Label::Name(name) => name.to_string(),
                });
            }
            at = node.parent;
        }
        segments.reverse();
        segments.join(".")
    }

    /// Every value, outer before inner.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.below(self.root())
    }

    /// How many values lie around one.
    pub fn depth(&self, id: ValueId) -> usize {
        std::iter::successors(self.parent(id), |&outer| self.parent(outer)).count()
    }

    /// Looks through newtypes to the value that has fields or positions.
    pub fn inside(&self, mut id: ValueId) -> ValueId {
        while self.shape(id) == Shape::Newtype {
            match self.children(id).next() {
                Some(child) if self.shape(child) != Shape::Leaf => id = child,
                _ => break,
            }
        }
        id
    }

    fn step(&self, id: ValueId, segment: &str) -> Option<ValueId> {
        let id = self.inside(id);
        let index = segment.parse::<usize>().ok();
        match self.shape(id) {
            Shape::Leaf => None,
            Shape::Struct | Shape::Map => {
                self.children(id).find(|&child| self.name(child) == Some(segment))
            }
            Shape::Newtype => self.children(id).next().filter(|_| index == Some(0)),
            Shape::List | Shape::Tuple => match index {
                Some(index) => self.children(id).nth(index),
                None => self.children(id).find(|&child| {
                    let named = self.step(child, "name").map(|name| self.written(name));
                    let quoted = named.and_then(|n| n.strip_prefix('"')?.strip_suffix('"'));
                    quoted == Some(segment)
                }),
            },
        }
    }

    fn parent(&self, id: ValueId) -> Option<ValueId> {
        let parent = self.node(id).parent;
        (parent != NONE).then_some(ValueId(parent))
    }

    fn node(&self, id: ValueId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn source_of(&self, id: ValueId) -> &Source {
        &self.sources[self.node(id).source as usize]
    }

    fn place_at(&self, id: ValueId, start: u32) -> Place {
        let source = self.source_of(id);
        source.instead_of.unwrap_or_else(|| place_in(&source.text, start as usize))
    }

    /// A value and all inside it.
    fn below(&self, id: ValueId) -> impl Iterator<Item = ValueId> + '_ {
        let mut open = vec![id];
        std::iter::from_fn(move || {
            let id = open.pop()?;
            let inner = open.len();
            open.extend(self.children(id));
            open[inner..].reverse();
            Some(id)
        })
    }

    fn is_of_one(&self, id: ValueId) -> bool {
        let source = self.node(id).source;
        self.sources.len() == 1 || self.below(id).all(|inner| self.node(inner).source == source)
    }

    /// Recursion: nesting is capped, also of what is put in.
    pub(super) fn show(&self, id: ValueId, text: &mut String) {
        let written = self.written(id);
        let [open, close] = match self.shape(id) {
            Shape::Leaf => return *text += written,
            Shape::List => ['[', ']'],
            Shape::Map => ['{', '}'],
            Shape::Struct | Shape::Tuple | Shape::Newtype => ['(', ')'],
        };
        *text += &written[..word_end(written, 0).unwrap_or(0)];
        text.push(open);
        for (index, child) in self.children(id).enumerate() {
            *text += if index == 0 { "" } else { ", " };
            match self.name(child) {
                Some(name) if self.shape(id) == Shape::Map => *text += &format!("{name:?}: "),
                Some(name) => *text += &format!("{name}: "),
                None => {}
            }
            self.show(child, text);
        }
        text.push(close);
    }
}

impl Tree {
    /// The outermost value of `of` with nothing in it.
    pub(crate) fn begin(of: &Tree) -> Tree {
        let root = Node { first: NONE, last: NONE, ..of.node(of.root()).clone() };
        Tree { sources: of.sources[..1].to_vec(), nodes: vec![root] }
    }

    /// Adds an empty list called `name` behind what is in `parent`.
    pub(crate) fn add_list(&mut self, parent: ValueId, name: &str) -> ValueId {
        let id = self.add(parent, Label::Name(name.into()));
        let (source, start) = (self.node(parent).source, self.node(parent).start);
        let node = &mut self.nodes[id.0 as usize];
        (node.source, node.start, node.end, node.name_start) = (source, start, start, start);
        node.shape = Shape::List;
        id
    }

    /// Adds the value `from` of another tree behind what is in `parent`: under `name`, or as the
    /// next element of a list.
    pub(crate) fn put(
        &mut self,
        parent: ValueId,
        name: Option<&str>,
        other: &Tree,
        from: ValueId,
    ) -> ValueId {
        let count = self
            .nodes
            .get(self.node(parent).last as usize)
            .map_or(0, |last| if let Label::Index(index) = last.label { index + 1 } else { 0 });
        let label = name.map_or(Label::Index(count), |name| Label::Name(name.into()));
        let id = self.add(parent, label);
        self.replace(id, other, from);
        id
    }

    /// Puts the value `from` of another tree in the place of `id`, which keeps its name.
    pub(crate) fn replace(&mut self, id: ValueId, other: &Tree, from: ValueId) {
        let mut open = vec![(id, from)];
        while let Some((id, from)) = open.pop() {
            self.stand(id, other, from);
            for child in other.children(from) {
                open.push((self.add(id, other.node(child).label.clone()), child));
            }
        }
    }

    /// Lets `id` stand where the value `from` of another tree does, with nothing in it.
    pub(crate) fn stand(&mut self, id: ValueId, other: &Tree, from: ValueId) {
        let source = &other.sources[other.node(from).source as usize];
        let known = self.sources.iter().position(|known| Arc::ptr_eq(known, source));
        let at = known.unwrap_or_else(|| {
            self.sources.push(source.clone());
            self.sources.len() - 1
        });
        let Node { start, end, name_start, shape, ref label, .. } = *other.node(from);
        let node = &mut self.nodes[id.0 as usize];
        // A value that stands under another name here has no name there.
        let name_start = if node.label == *label { name_start } else { start };
        let Node { parent, next, label, .. } = node.clone();
        let new = Node::new(parent, shape, label);
        *node = Node { source: at as u32, start, end, name_start, next, ..new };
    }

    /// A new leaf behind what is in `parent`, of no text yet.
    fn add(&mut self, parent: ValueId, label: Label) -> ValueId {
        ValueId(append(&mut self.nodes, Node::new(parent.0, Shape::Leaf, label)))
    }
}

/// Line and column of a byte of a text.
pub fn place_in(text: &str, offset: usize) -> Place {
    let before = &text[..offset];
    let line = before.matches('\n').count() as u64 + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Place { line, column: before[start..].chars().count() as u64 + 1 }
}
