//! Where every value of a RON text stands: path -> bytes.
//!
//! ron has no spanned values, so a rule that is checked after parsing would have no line to point
//! at. This tree holds the span of every value, read without knowing any types.
//! Names of structs and variants are transparent: in `policy: Adam(cut: shares(hbm: 0.3))` the
//! share has the path `policy.cut.hbm`, and `gib(80)` has the path of its field.
//! Invariant: nodes are in the order of their first byte, and a child lies within its parent.

use crate::text::ron_scan::{self, ScanProblem};
use std::ops::Range;

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// What a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number, string, word: nothing inside.
    Leaf,
    /// `(a: 1)`, `Name(a: 1)` or `()`: named fields.
    Struct,
    /// `(1, 2)`: positions.
    Tuple,
    /// `gib(80)`: a name around one value, which shares its path.
    Newtype,
    /// `[1, 2]`.
    List,
    /// `{"a": 1}`.
    Map,
}

#[derive(Clone, Debug)]
pub(crate) enum Label {
    Index(u32),
    Name(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Where the name or key before it starts; `start` without one.
    pub(crate) name_start: u32,
    pub(crate) parent: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) next: u32,
    pub(crate) shape: Shape,
    pub(crate) label: Label,
}

/// Every value of a text with its span.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// One value of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueId(u32);

impl Tree {
    /// Reads `text`, or lists what is wrong with it.
    pub fn scan(text: &str) -> Result<Tree, Vec<ScanProblem>> {
        ron_scan::nodes(text).map(|nodes| Tree { nodes })
    }

    /// The whole file.
    pub fn root(&self) -> ValueId {
        ValueId(0)
    }

    /// The bytes of a value.
    pub fn span(&self, id: ValueId) -> Range<usize> {
        let node = &self.nodes[id.0 as usize];
        node.start as usize..node.end as usize
    }

    /// What a value is made of.
    pub fn shape(&self, id: ValueId) -> Shape {
        self.nodes[id.0 as usize].shape
    }

    /// The values directly inside one.
    pub fn children(&self, id: ValueId) -> impl Iterator<Item = ValueId> + '_ {
        let mut next = self.nodes[id.0 as usize].first;
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
        match &self.nodes[id.0 as usize].label {
            Label::Name(name) => Some(name),
            Label::Index(_) => None,
        }
    }

    /// The first byte of the name or key of a value; of the value itself if it has none.
    pub fn name_start(&self, id: ValueId) -> usize {
        self.nodes[id.0 as usize].name_start as usize
    }

    /// The value at `path`, such as `policies.0.policy.cut.hbm`; the empty path is the file.
    ///
    /// In a list, a segment that is not a number finds the element whose field `name` it equals.
    pub fn find(&self, text: &str, path: &str) -> Option<ValueId> {
        let (id, rest) = self.descend(text, path);
        rest.is_empty().then_some(id)
    }

    /// The deepest value on the way to `path`, and the segments that do not exist.
    pub fn descend<'p>(&self, text: &str, path: &'p str) -> (ValueId, &'p str) {
        let (mut id, mut rest) = (self.root(), path);
        while !rest.is_empty() {
            let (segment, after) = rest.split_once('.').unwrap_or((rest, ""));
            let Some(child) = self.step(text, id, segment) else { break };
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
                    Label::Name(name) => name.clone(),
                });
            }
            at = node.parent;
        }
        segments.reverse();
        segments.join(".")
    }

    /// Every value, outer before inner.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.nodes.len() as u32).map(ValueId)
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

    fn step(&self, text: &str, id: ValueId, segment: &str) -> Option<ValueId> {
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
                    let named = self.step(text, child, "name").map(|name| &text[self.span(name)]);
                    let quoted = named.and_then(|n| n.strip_prefix('"')?.strip_suffix('"'));
                    quoted == Some(segment)
                }),
            },
        }
    }
}
