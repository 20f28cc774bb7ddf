//! Where every value of a RON text stands: path -> bytes.
//!
//! ron has no spanned values, so a rule that is checked after parsing would have no line to point
//! at. This scanner reads the same text without knowing any types and keeps the span of every
//! value. It is a loop with its own stack: nesting costs heap, never call stack, and is capped.
//! Names of structs and variants are transparent: in `policy: Adam(cut: shares(hbm: 0.3))` the
//! share has the path `policy.cut.hbm`, and `gib(80)` has the path of its field.
//! Invariant: nodes are in the order of their first byte, and a child lies within its parent.

use std::collections::BTreeSet;
use std::ops::Range;

/// Deepest nesting that a file may have.
pub const MAX_DEPTH: usize = 128;

/// Most repeated names that are listed: each costs a look at the text before it.
const MAX_PROBLEMS: usize = 20;

const NONE: u32 = u32::MAX;

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
enum Label {
    Index(u32),
    Name(String),
}

#[derive(Clone, Debug)]
struct Node {
    start: u32,
    end: u32,
    parent: u32,
    first: u32,
    last: u32,
    next: u32,
    shape: Shape,
    label: Label,
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
        if scanner.problems.is_empty() {
            Ok(Tree { nodes: scanner.nodes })
        } else {
            Err(scanner.problems)
        }
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

    /// The smallest value around a byte of the text.
    pub fn around(&self, offset: usize) -> ValueId {
        let mut id = self.root();
        while let Some(child) = self.children(id).find(|&child| {
            let span = self.span(child);
            span.contains(&offset)
        }) {
            id = child;
        }
        id
    }

    /// The value around one.
    pub fn parent(&self, id: ValueId) -> Option<ValueId> {
        let parent = self.nodes[id.0 as usize].parent;
        (parent != NONE).then_some(ValueId(parent))
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

/// What a container still needs.
struct Frame<'t> {
    node: u32,
    close: char,
    count: u32,
    named: Option<bool>,
    ident: bool,
    /// In a map: the key whose value comes next.
    key: Option<String>,
    fields: BTreeSet<&'t str>,
    keys: BTreeSet<String>,
    after_item: bool,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Frame<'t>>,
    /// A field name that waits for its value.
    pending: Option<&'t str>,
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
            self.pending = Some(name);
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
        self.top().key = Some(key);
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
        self.stack.push(Frame {
            node,
            close,
            count: 0,
            named: None,
            ident,
            key: None,
            fields: BTreeSet::new(),
            keys: BTreeSet::new(),
            after_item: false,
        });
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
        let id = self.nodes.len() as u32;
        let mut parent = NONE;
        let mut label = Label::Index(0);
        if let Some(frame) = self.stack.last_mut() {
            parent = frame.node;
            label = match (self.pending.take(), frame.key.take()) {
                (Some(name), _) => Label::Name(name.to_string()),
                (None, Some(key)) => Label::Name(key),
                (None, None) => Label::Index(frame.count),
            };
            let node = &mut self.nodes[parent as usize];
            let previous = std::mem::replace(&mut node.last, id);
            if previous == NONE {
                node.first = id;
            } else {
                self.nodes[previous as usize].next = id;
            }
        }
        self.nodes.push(Node {
            start: start as u32,
            end: self.at as u32,
            parent,
            first: NONE,
            last: NONE,
            next: NONE,
            shape,
            label,
        });
        id
    }

    /// A word if one starts here; strings with a letter in front are none.
    fn word(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let mut prefix = 0;
        if rest.starts_with("r#") && !rest[2..].starts_with(['"', '#']) {
            prefix = 2;
        }
        let first = rest[prefix..].chars().next()?;
        if !(first == '_' || first.is_alphabetic()) {
            return None;
        }
        let is_part = |c: char| c == '_' || c.is_alphanumeric();
        let end = rest[prefix..].find(|c| !is_part(c)).map_or(rest.len(), |end| prefix + end);
        let word = &rest[..end];
        if matches!(word, "r" | "b" | "br") && rest[end..].starts_with(['"', '#', '\'']) {
            return None;
        }
        self.at += end;
        Some(word)
    }

    /// A string, character, number or word.
    fn leaf(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        let rest = &self.text[start..];
        let prefix = rest.len() - rest.trim_start_matches(['b', 'r']).len();
        let raw = rest[..prefix.min(2)].contains('r');
        match rest[prefix..].chars().next() {
            Some('"' | '#') if raw && prefix <= 2 => self.raw_string(start, start + prefix),
            Some('"') if prefix <= 1 => self.quoted(start, start + prefix + 1, '"'),
            Some('\'') if prefix <= 1 => self.quoted(start, start + prefix + 1, '\''),
            _ => {
                let is_part = |c: char| matches!(c, '_' | '.' | '+' | '-') || c.is_alphanumeric();
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                if length == 0 {
                    let rule = "a value is expected here";
                    return Err(self.problem(start, rule, "write a value or remove what is here"));
                }
                self.at += length;
                Ok(())
            }
        }
    }

    fn quoted(&mut self, start: usize, from: usize, quote: char) -> Result<(), ScanProblem> {
        let mut escaped = false;
        for (offset, c) in self.text[from..].char_indices() {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                self.at = from + offset + 1;
                return Ok(());
            }
        }
        let rule = "a string is never closed";
        Err(self.problem(start, rule, format!("write `{quote}` where it ends")))
    }

    fn raw_string(&mut self, start: usize, from: usize) -> Result<(), ScanProblem> {
        let rest = &self.text[from..];
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let body = from + hashes + 1;
        // A file of hashes must not cost a search per hash: 255 are more than anybody writes.
        if hashes <= 255 && rest[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            if let Some(found) = self.text[body..].find(&end) {
                self.at = body + found + end.len();
                return Ok(());
            }
        }
        Err(self.problem(start, "a raw string is never closed", "close it as it was opened"))
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<(), ScanProblem> {
        loop {
            let rest = &self.text[self.at..];
            let blank = |c: char| {
                matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C' | '\u{85}')
                    || matches!(c, '\u{200E}' | '\u{200F}' | '\u{2028}' | '\u{2029}')
            };
            let trimmed = rest.trim_start_matches(blank);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.block_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn block_comment(&mut self) -> Result<(), ScanProblem> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (start, 0usize);
        while at + 1 < bytes.len() {
            match &bytes[at..at + 2] {
                b"/*" => (at, depth) = (at + 2, depth + 1),
                b"*/" => (at, depth) = (at + 2, depth - 1),
                _ => at += 1,
            }
            if depth == 0 {
                self.at = at;
                return Ok(());
            }
        }
        Err(self.problem(start, "a comment is never closed", "write `*/` where it ends"))
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
