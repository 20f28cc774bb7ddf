//! Reads RON text into nodes without knowing any types.
//!
//! A loop with its own stack: nesting costs heap, never call stack, and is capped. The scanner
//! checks brackets, commas, strings and comments, refuses repeated names (ron would silently keep
//! the last value of a repeated key) and leaves the rest to ron.
//! Invariant: every byte is looked at a bounded number of times.

use crate::text::ron_lex::{blank_end, leaf_end, word_end};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Deepest nesting that a file may have.
pub const MAX_DEPTH: usize = 128;

/// Most repeated names that are listed: each costs a look at the text before it.
const MAX_PROBLEMS: usize = 20;

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

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Label {
    Index(u32),
    Name(Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Which of the tree's texts it stands in.
    pub(crate) source: u32,
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

impl Node {
    /// A value without anything in it, of no text yet.
    pub(crate) fn new(parent: u32, shape: Shape, label: Label) -> Node {
        let (source, start, end, name_start) = (0, 0, 0, 0);
        let (first, last, next) = (NONE, NONE, NONE);
        Node { source, start, end, name_start, parent, first, last, next, shape, label }
    }
}

/// A mistake that the scanner sees, at a byte of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanProblem {
    /// Byte offset.
    pub at: usize,
    /// The rule that is broken.
    pub rule: String,
    /// The text found; empty where there is none to show.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

/// The values of `text`, or what is wrong with it.
pub(crate) fn nodes(text: &str) -> Result<Vec<Node>, Vec<ScanProblem>> {
    let mut scanner = Scanner {
        text,
        at: 0,
        nodes: Vec::new(),
        stack: Vec::new(),
        pending: None,
        problems: Vec::new(),
    };
    if let Err(problem) = scanner.run() {
        scanner.problems.push(problem);
    }
    if scanner.problems.is_empty() { Ok(scanner.nodes) } else { Err(scanner.problems) }
}

/// What a container still needs.
#[derive(Default)]
struct Frame<'t> {
    node: u32,
    close: char,
    count: u32,
    named: Option<bool>,
    ident: bool,
    /// In a map: the key whose value comes next, and where it starts.
    key: Option<(String, usize)>,
    fields: BTreeSet<&'t str>,
    keys: BTreeSet<String>,
    after_item: bool,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Frame<'t>>,
    /// A field name that waits for its value, and where it starts.
    pending: Option<(&'t str, usize)>,
    problems: Vec<ScanProblem>,
}

impl<'t> Scanner<'t> {
    fn run(&mut self) -> Result<(), ScanProblem> {
        self.skip_blank()?;
        if self.text[self.at..].starts_with("#!") {
            let remedy = "remove the `#![enable(...)]` line; everything it could switch on is on";
            return Err(self.problem(self.at, "RON extensions cannot be chosen", remedy));
        }
        if self.at == self.text.len() {
            return Err(self.problem(self.at, "the file is empty", "write one value"));
        }
        self.value()?;
        loop {
            self.skip_blank()?;
            let Some(c) = self.peek() else { break };
            let Some(frame) = self.stack.last() else {
                let remedy = "remove it, or the bracket that closes the value too early";
                return Err(self.problem(self.at, "text after the end of the value", remedy));
            };
            let (after_item, close) = (frame.after_item, frame.close);
            match c {
                _ if c == close => self.close()?,
                ')' | ']' | '}' => {
                    let rule = format!("`{c}` closes what `{}` must close", close);
                    let opened = self.line_of(self.frame_start());
                    let remedy = format!("close the bracket that was opened in line {opened}");
                    return Err(self.problem(self.at, rule, remedy));
                }
                ',' if after_item => {
                    self.at += 1;
                    self.top().after_item = false;
                }
                _ if after_item => {
                    let rule = format!("`,` or `{close}` must follow a value");
                    return Err(self.problem(self.at, rule, "write a comma between values"));
                }
                _ => self.item()?,
            }
        }
        if let Some(frame) = self.stack.last() {
            let start = self.nodes[frame.node as usize].start as usize;
            let rule = "a bracket is never closed";
            let remedy = format!("write `{}` where the value ends", frame.close);
            return Err(self.problem(start, rule, remedy));
        }
        Ok(())
    }

    /// One element of the innermost container, with its name or key.
    fn item(&mut self) -> Result<(), ScanProblem> {
        match self.top().close {
            ')' => self.paren_item(),
            '}' => self.map_item(),
            _ => self.value(),
        }
    }

    fn paren_item(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        let mut name = None;
        if let Some(word) = self.word() {
            self.skip_blank()?;
            if self.peek() == Some(':') {
                self.at += 1;
                name = Some(word.strip_prefix("r#").unwrap_or(word));
            } else {
                self.at = start;
            }
        }
        let frame = self.top();
        if *frame.named.get_or_insert(name.is_some()) != name.is_some() {
            let rule = "fields with and without a name cannot be mixed";
            return Err(self.problem(start, rule, "write `name: value` for every field"));
        }
        if let Some(name) = name {
            if !self.top().fields.insert(name) {
                let rule = format!("field `{name}` is given twice");
                self.repeated(start, rule)?;
            }
            self.pending = Some((name, start));
        }
        self.skip_blank()?;
        self.value()
    }

    fn map_item(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        if matches!(self.peek(), Some('(' | '[' | '{')) {
            let rule = "the key of a map must be a word, a number or a string";
            return Err(self.problem(start, rule, "write `\"name\": value`"));
        }
        self.leaf()?;
        let raw = &self.text[start..self.at];
        let key = ron::from_str::<String>(raw).unwrap_or_else(|_| raw.to_string());
        self.skip_blank()?;
        if self.peek() != Some(':') {
            let rule = "`:` must follow the key of a map";
            return Err(self.problem(self.at, rule, "write `\"name\": value`"));
        }
        self.at += 1;
        if !self.top().keys.insert(key.clone()) {
            let rule = format!("key `{key}` is given twice");
            self.repeated(start, rule)?;
        }
        self.top().key = Some((key, start));
        self.skip_blank()?;
        self.value()
    }

    /// A value: opens a container or reads a leaf.
    fn value(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        let word = self.word();
        if word.is_some() {
            let after = self.at;
            self.skip_blank()?;
            if self.peek() == Some('(') {
                return self.open(start, ')', true);
            }
            self.at = after;
            self.add(start, Shape::Leaf);
            self.finish_item();
            return Ok(());
        }
        match self.peek() {
            Some('(') => self.open(start, ')', false),
            Some('[') => self.open(start, ']', false),
            Some('{') => self.open(start, '}', false),
            _ => {
                self.leaf()?;
                self.add(start, Shape::Leaf);
                self.finish_item();
                Ok(())
            }
        }
    }

    fn open(&mut self, start: usize, close: char, ident: bool) -> Result<(), ScanProblem> {
        if self.stack.len() >= MAX_DEPTH {
            let rule = format!("values are nested deeper than {MAX_DEPTH} levels");
            return Err(self.problem(start, rule, "no file of this kind needs that"));
        }
        self.at += 1;
        let shape = match close {
            ']' => Shape::List,
            '}' => Shape::Map,
            _ => Shape::Struct,
        };
        let node = self.add(start, shape);
        self.stack.push(Frame { node, close, ident, ..Frame::default() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), ScanProblem> {
        self.at += 1;
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let node = &mut self.nodes[frame.node as usize];
        node.end = self.at as u32;
        if frame.named == Some(false) {
            let newtype = frame.ident && frame.count == 1;
            node.shape = if newtype { Shape::Newtype } else { Shape::Tuple };
        }
        self.finish_item();
        Ok(())
    }

    fn finish_item(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.count += 1;
            frame.after_item = true;
        }
    }

    /// Adds the value that starts at `start` and ends here under the innermost container.
    fn add(&mut self, start: usize, shape: Shape) -> u32 {
        let (mut parent, mut label, mut name_start) = (NONE, Label::Index(0), start);
        if let Some(frame) = self.stack.last_mut() {
            parent = frame.node;
            let field = self.pending.take().map(|(name, at)| (name.to_owned(), at));
            (label, name_start) = match field.or(frame.key.take()) {
                Some((name, at)) => (Label::Name(name.into()), at),
                None => (Label::Index(frame.count), start),
            };
        }
        let (start, end, name_start) = (start as u32, self.at as u32, name_start as u32);
        let node = Node { start, end, name_start, ..Node::new(parent, shape, label) };
        append(&mut self.nodes, node)
    }

    /// Takes a word if one starts here.
    fn word(&mut self) -> Option<&'t str> {
        let start = self.at;
        self.at = word_end(self.text, start)?;
        Some(&self.text[start..self.at])
    }

    /// Takes a string, character, number or word.
    fn leaf(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        let end = leaf_end(self.text, start);
        self.at = end.map_err(|rule| {
            self.problem(start, rule, "write a value here, or close what is open")
        })?;
        Ok(())
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<(), ScanProblem> {
        let end = blank_end(self.text, self.at);
        self.at = end.map_err(|start| {
            self.problem(start, "a comment is never closed", "write `*/` where it ends")
        })?;
        Ok(())
    }

    /// Notes a repeated name and goes on, unless there are too many.
    fn repeated(&mut self, at: usize, rule: String) -> Result<(), ScanProblem> {
        let problem = self.problem(at, rule, "keep one of them");
        if self.problems.len() + 1 >= MAX_PROBLEMS {
            return Err(problem);
        }
        self.problems.push(problem);
        Ok(())
    }

    fn top(&mut self) -> &mut Frame<'t> {
        self.stack.last_mut().expect("only called inside a container")
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn frame_start(&self) -> usize {
        self.stack.last().map_or(0, |frame| self.nodes[frame.node as usize].start as usize)
    }

    fn line_of(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    fn problem(
        &self,
        at: usize,
        rule: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ScanProblem {
        let shown: String = self.text[at..].chars().take_while(|c| *c != '\n').take(24).collect();
        let found = if shown.trim().is_empty() { String::new() } else { format!("`{shown}`") };
        ScanProblem { at, rule: rule.into(), found, remedy: remedy.into() }
    }
}

/// Adds a node as the last one in its parent.
pub(crate) fn append(nodes: &mut Vec<Node>, node: Node) -> u32 {
    let id = nodes.len() as u32;
    if let Some(parent) = nodes.get_mut(node.parent as usize) {
        match std::mem::replace(&mut parent.last, id) {
            NONE => parent.first = id,
            previous => nodes[previous as usize].next = id,
        }
    }
    nodes.push(node);
    id
}
