//! Plain data as a pickle or a JSON text holds it: numbers, text, lists and dicts.
//!
//! Containers lie in one vector and are named by their index, so that they may be shared, nested
//! to any depth or even hold themselves: nothing here recurses, neither to read nor to drop them.
//! A byte of a file can make a container, so values are kept packed and their room is counted: a
//! reader asks `Tree::has_room` after each step.
//! Invariant: every [`Item::Node`] names a container of the tree, every [`Item::Text`] its bytes.

/// What is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The rule that is broken, and where.
    pub rule: String,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: &'static str,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item {
    /// `None`, `null`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that 64 bits do not hold.
    Huge,
    /// Any other number.
    Float(f64),
    /// Text or bytes, by where they start and end.
    Text(u32, u32),
    /// A container.
    Node(Node),
}

/// A container, by its number in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Items in order: a list or a tuple.
    List(u32),
    /// Keys and values.
    Dict(u32),
}

/// A value in 8 bytes: three bits say what it is, the others hold it or where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packed(u64);

const NONE: u64 = 0;
const BOOL: u64 = 1;
const INT: u64 = 2;
const HUGE: u64 = 3;
const FLOAT: u64 = 4;
const TEXT: u64 = 5;
const LIST: u64 = 6;
const DICT: u64 = 7;
const KIND_BITS: u32 = 3;

impl Packed {
    pub(super) const NONE: Packed = Packed(NONE);
    pub(super) const HUGE: Packed = Packed(HUGE);

    pub(super) fn bool(value: bool) -> Packed {
        Packed::new(BOOL, u64::from(value))
    }

    /// A whole number; one of more than 61 bits, which nothing here needs, becomes [`Item::Huge`].
    pub(super) fn int(value: i64) -> Packed {
        let shifted = value << KIND_BITS;
        if shifted >> KIND_BITS == value { Packed(shifted as u64 | INT) } else { Packed::HUGE }
    }

    fn new(kind: u64, at: u64) -> Packed {
        Packed(at << KIND_BITS | kind)
    }

    /// What it is, and where its rest lies.
    fn parts(self) -> (u64, usize) {
        (self.0 & ((1 << KIND_BITS) - 1), (self.0 >> KIND_BITS) as usize)
    }
}

/// Bytes of live values that any file may take, and how many more for each of its own bytes.
///
/// Snapshots as PyTorch writes them take three to a little above four. With the file itself and the
/// rows that are made of its values, nothing takes more than 64 MiB and eight times its bytes.
const FREE_BYTES: usize = 16 << 20;
const BYTES_PER_BYTE: usize = 5;
/// What the heap adds to a piece of memory, at most.
const OVERHEAD: usize = 24;

/// A whole file.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// What texts are parts of.
    pub(super) bytes: Vec<u8>,
    /// Bytes of the file.
    length: usize,
    /// Items of lists; keys and values of dicts in turn, of equal keys the last one counts.
    containers: Vec<Vec<Packed>>,
    texts: Vec<(u32, u32)>,
    floats: Vec<f64>,
    root: Item,
    /// Bytes that all of it takes, `bytes` apart.
    held: usize,
}

impl Tree {
    /// A tree without a value, of a file of so many bytes.
    pub(super) fn new(length: usize) -> Tree {
        let (bytes, containers, texts, floats) = Default::default();
        Tree { bytes, length, containers, texts, floats, root: Item::None, held: 0 }
    }

    /// The most bytes that its values, and what else a reader holds, may take.
    pub(super) fn room(&self) -> usize {
        self.length.saturating_mul(BYTES_PER_BYTE).saturating_add(FREE_BYTES)
    }

    /// Bytes that its values take.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Is there room for all of it, and for so many bytes that the reader holds beside it?
    pub(super) fn has_room(&self, beside: usize) -> bool {
        self.held.saturating_add(beside) <= self.room()
    }

    pub(super) fn float(&mut self, value: f64) -> Packed {
        self.floats.push(value);
        self.held += size_of::<f64>();
        Packed::new(FLOAT, self.floats.len() as u64 - 1)
    }

    /// A text that lies between two positions of `bytes`.
    pub(super) fn text_at(&mut self, start: u32, end: u32) -> Packed {
        self.texts.push((start, end));
        self.held += size_of::<(u32, u32)>();
        Packed::new(TEXT, self.texts.len() as u64 - 1)
    }

    pub(super) fn new_list(&mut self, items: Vec<Packed>) -> Packed {
        Packed::new(LIST, self.container(items))
    }

    /// A dict of keys and values in turn.
    pub(super) fn new_dict(&mut self, pairs: Vec<Packed>) -> Packed {
        Packed::new(DICT, self.container(pairs))
    }

    fn container(&mut self, items: Vec<Packed>) -> u64 {
        self.held += size_of::<Vec<Packed>>() + cost(&items);
        self.containers.push(items);
        self.containers.len() as u64 - 1
    }

    /// Adds to a list; false for anything else.
    pub(super) fn append(&mut self, list: Packed, items: &[Packed]) -> bool {
        self.add(LIST, list, items)
    }

    /// Adds keys and values to a dict; false for anything else.
    pub(super) fn set(&mut self, dict: Packed, pairs: &[Packed]) -> bool {
        self.add(DICT, dict, pairs)
    }

    fn add(&mut self, kind: u64, to: Packed, items: &[Packed]) -> bool {
        let (found, id) = to.parts();
        if found != kind {
            return false;
        }
        let container = &mut self.containers[id];
        let before = cost(container);
        if container.is_empty() {
            // Most are filled at once, and a vector would take four places for one item.
            container.reserve_exact(items.len());
        }
        container.extend_from_slice(items);
        self.held += cost(container) - before;
        true
    }

    pub(super) fn set_root(&mut self, root: Packed) {
        self.root = self.item(root);
    }

    fn item(&self, packed: Packed) -> Item {
        match packed.parts() {
            (NONE, _) => Item::None,
            (BOOL, value) => Item::Bool(value != 0),
            (INT, _) => Item::Int(packed.0 as i64 >> KIND_BITS),
            (HUGE, _) => Item::Huge,
            (FLOAT, at) => Item::Float(self.floats[at]),
            (TEXT, at) => Item::Text(self.texts[at].0, self.texts[at].1),
            (LIST, id) => Item::Node(Node::List(id as u32)),
            (_, id) => Item::Node(Node::Dict(id as u32)),
        }
    }

    /// The outermost value.
    pub(super) fn root(&self) -> Item {
        self.root
    }

    /// Bytes of the file: what is made of it is measured by them.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Text, if it is UTF-8.
    pub(super) fn text(&self, item: Item) -> Option<&str> {
        let Item::Text(start, end) = item else { return None };
        std::str::from_utf8(&self.bytes[start as usize..end as usize]).ok()
    }

    /// Items of a list or tuple.
    pub(super) fn list(&self, item: Item) -> Option<impl ExactSizeIterator<Item = Item> + '_> {
        let Item::Node(Node::List(id)) = item else { return None };
        Some(self.containers[id as usize].iter().map(|&packed| self.item(packed)))
    }

    /// Whether an item is a dict.
    pub(super) fn is_dict(&self, item: Item) -> bool {
        matches!(item, Item::Node(Node::Dict(_)))
    }

    /// How many keys a dict has, each time that it is given one; 0 for anything else.
    pub(super) fn keys(&self, item: Item) -> usize {
        let Item::Node(Node::Dict(id)) = item else { return 0 };
        self.containers[id as usize].len() / 2
    }

    /// The value of a dict's key; [`None`] if it is no dict or has no such key.
    pub(super) fn get(&self, item: Item, key: &str) -> Option<Item> {
        let Item::Node(Node::Dict(id)) = item else { return None };
        let pairs = self.containers[id as usize].chunks_exact(2).rev();
        let same = |pair: &&[Packed]| match self.item(pair[0]) {
            Item::Text(start, end) => &self.bytes[start as usize..end as usize] == key.as_bytes(),
            _ => false,
        };
        pairs.into_iter().find(same).map(|pair| self.item(pair[1]))
    }

    /// What an item is, in words for messages.
    pub(super) fn describe(&self, item: Item) -> String {
        match item {
            Item::None => "None".to_owned(),
            Item::Bool(value) => value.to_string(),
            Item::Int(value) => value.to_string(),
            Item::Huge => "a number of more than 64 bits".to_owned(),
            Item::Float(value) => value.to_string(),
            Item::Text(..) => match self.text(item) {
                Some(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
                None => "bytes".to_owned(),
            },
            Item::Node(Node::List(_)) => "a list".to_owned(),
            Item::Node(Node::Dict(_)) => "a dict".to_owned(),
        }
    }
}

/// Bytes of the heap that a container's items take.
fn cost(items: &Vec<Packed>) -> usize {
    match items.capacity() {
        0 => 0,
        places => places * size_of::<Packed>() + OVERHEAD,
    }
}
