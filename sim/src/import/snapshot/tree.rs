//! Plain data as a pickle or a JSON text holds it: numbers, text, lists and dicts.
//!
//! Containers lie in one vector and are named by their index, so that they may be shared, nested
//! to any depth or even hold themselves: nothing here recurses, neither to read nor to drop them.
//! Invariant: every [`Item::Node`] names a container of the tree, every [`Item::Text`] its bytes.

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
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
    Node(u32),
}

/// A list or tuple, or a dict.
#[derive(Clone, Debug, PartialEq)]
pub enum Container {
    /// Items in order.
    List(Vec<Item>),
    /// Keys and values in the order in which they were set; of equal keys the last one counts.
    Dict(Vec<(Item, Item)>),
}

/// A whole file.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) bytes: Vec<u8>,
    pub(super) containers: Vec<Container>,
    pub(super) root: Item,
}

impl Tree {
    /// The outermost value.
    pub fn root(&self) -> Item {
        self.root
    }

    /// Bytes of the file: no honest file holds more rows than bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the file holds no byte. It never does, once it is read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Text, if it is UTF-8.
    pub fn text(&self, item: Item) -> Option<&str> {
        let Item::Text(start, end) = item else { return None };
        std::str::from_utf8(&self.bytes[start as usize..end as usize]).ok()
    }

    /// Items of a list or tuple.
    pub fn list(&self, item: Item) -> Option<&[Item]> {
        let Item::Node(id) = item else { return None };
        match &self.containers[id as usize] {
            Container::List(items) => Some(items),
            Container::Dict(_) => None,
        }
    }

    /// Pairs of a dict.
    pub fn dict(&self, item: Item) -> Option<&[(Item, Item)]> {
        let Item::Node(id) = item else { return None };
        match &self.containers[id as usize] {
            Container::Dict(pairs) => Some(pairs),
            Container::List(_) => None,
        }
    }

    /// The value of a dict's key; [`None`] if it is no dict or has no such key.
    pub fn get(&self, item: Item, key: &str) -> Option<Item> {
        let same = |&&(found, _): &&(Item, Item)| match found {
            Item::Text(start, end) => &self.bytes[start as usize..end as usize] == key.as_bytes(),
            _ => false,
        };
        self.dict(item)?.iter().rev().find(same).map(|&(_, value)| value)
    }

    /// What an item is, in words for messages.
    pub fn describe(&self, item: Item) -> String {
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
            Item::Node(_) if self.list(item).is_some() => "a list".to_owned(),
            Item::Node(_) => "a dict".to_owned(),
        }
    }
}
