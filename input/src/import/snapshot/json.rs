//! The same plain data as JSON, which people make of snapshots to look at them.
//!
//! Read straight into a [`Tree`], for a file of a million actions has some ten million values.
//! Invariant: equal texts are stored once; depth is bounded by the JSON reader, memory by the
//! tree's room.

use crate::import::snapshot::tree::{Packed, Problem, Tree};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Reads one JSON text.
pub(super) fn read_json(bytes: Vec<u8>) -> Result<Tree, Problem> {
    let mut made = Made { tree: Tree::new(bytes.len()), texts: BTreeMap::new(), open: 0 };
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let root = Value(&mut made).deserialize(&mut reader);
    let root = root.and_then(|root| reader.end().map(|()| root)).map_err(|error| Problem {
        rule: format!("line {}: a snapshot is a pickle or JSON", error.line()),
        found: error.to_string(),
        remedy: "write it again with json.dump",
    })?;
    made.tree.set_root(root);
    Ok(made.tree)
}

struct Made {
    tree: Tree,
    texts: BTreeMap<String, Packed>,
    /// Items of containers that are not at their end.
    open: usize,
}

/// Bytes of a text's entry in the map, beside its letters.
const ENTRY: usize = 96;

impl Made {
    /// Is there room for one more value?
    fn check_room<E: serde::de::Error>(&self) -> Result<(), E> {
        let texts = self.tree.bytes.len() * 2 + self.texts.len() * ENTRY;
        if self.tree.has_room(texts + self.open * 2 * size_of::<Packed>()) {
            return Ok(());
        }
        let (length, room) = (self.tree.len(), self.tree.room());
        let rule = format!("the values of a text of {length} bytes take at most {room} bytes");
        Err(E::custom(rule))
    }

    fn text<E: serde::de::Error>(&mut self, text: &str) -> Result<Packed, E> {
        if let Some(&item) = self.texts.get(text) {
            return Ok(item);
        }
        let start = self.tree.bytes.len();
        let end = u32::try_from(start + text.len());
        let end = end.map_err(|_| E::custom("a snapshot has less than 4 GiB of text"))?;
        self.tree.bytes.extend_from_slice(text.as_bytes());
        let item = self.tree.text_at(start as u32, end);
        self.texts.insert(text.to_owned(), item);
        Ok(item)
    }
}

struct Value<'a>(&'a mut Made);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Packed;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Packed, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Packed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Packed, E> {
        Ok(Packed::NONE)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Packed, E> {
        Ok(Packed::bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Packed, E> {
        Ok(Packed::int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Packed, E> {
        Ok(i64::try_from(value).map_or(Packed::HUGE, Packed::int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Packed, E> {
        Ok(self.0.tree.float(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Packed, E> {
        self.0.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Packed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Value(self.0))? {
            list.push(item);
            self.0.open += 1;
            self.0.check_room()?;
        }
        self.0.open -= list.len();
        Ok(self.0.tree.new_list(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Packed, A::Error> {
        let mut dict = Vec::new();
        while let Some(key) = entries.next_key_seed(Value(self.0))? {
            dict.extend([key, entries.next_value_seed(Value(self.0))?]);
            self.0.open += 2;
            self.0.check_room()?;
        }
        self.0.open -= dict.len();
        Ok(self.0.tree.new_dict(dict))
    }
}
