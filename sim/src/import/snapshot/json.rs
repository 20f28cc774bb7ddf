//! The same plain data as JSON, which people make of snapshots to look at them.
//!
//! Read straight into a [`Tree`], for a file of a million actions has some ten million values.
//! Invariant: equal texts are stored once; depth is bounded by the JSON reader.

use crate::import::snapshot::Problem;
use crate::import::snapshot::tree::{Container, Item, Tree};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Reads one JSON text.
pub(super) fn read_json(bytes: Vec<u8>) -> Result<Tree, Problem> {
    let mut made = Made::default();
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let root = Value(&mut made).deserialize(&mut reader);
    let root = root.and_then(|root| reader.end().map(|()| root)).map_err(|error| Problem {
        rule: format!("line {}: a snapshot is a pickle or JSON", error.line()),
        found: error.to_string(),
        remedy: "write it again with json.dump",
    })?;
    // Rows are counted against the file's length, which the texts alone do not have.
    made.bytes.resize(made.bytes.len().max(bytes.len()), 0);
    Ok(Tree { bytes: made.bytes, containers: made.containers, root })
}

#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    texts: BTreeMap<String, Item>,
    containers: Vec<Container>,
}

impl Made {
    fn container(&mut self, container: Container) -> Item {
        self.containers.push(container);
        Item::Node(self.containers.len() as u32 - 1)
    }

    fn text<E: serde::de::Error>(&mut self, text: &str) -> Result<Item, E> {
        if let Some(&item) = self.texts.get(text) {
            return Ok(item);
        }
        let start = self.bytes.len();
        let end = u32::try_from(start + text.len());
        let end = end.map_err(|_| E::custom("a snapshot has less than 4 GiB of text"))?;
        self.bytes.extend_from_slice(text.as_bytes());
        let item = Item::Text(start as u32, end);
        self.texts.insert(text.to_owned(), item);
        Ok(item)
    }
}

struct Value<'a>(&'a mut Made);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Item, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Item, E> {
        Ok(Item::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Item, E> {
        Ok(Item::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Item, E> {
        Ok(Item::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Item, E> {
        Ok(i64::try_from(value).map_or(Item::Huge, Item::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Item, E> {
        Ok(Item::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Item, E> {
        self.0.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Item, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Value(self.0))? {
            list.push(item);
        }
        Ok(self.0.container(Container::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Item, A::Error> {
        let mut dict = Vec::new();
        while let Some(key) = entries.next_key_seed(Value(self.0))? {
            dict.push((key, entries.next_value_seed(Value(self.0))?));
        }
        Ok(self.0.container(Container::Dict(dict)))
    }
}
