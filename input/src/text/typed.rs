//! Typed values from the tree of a document: what serde asks for, with the place of every mistake.
//!
//! A `Value` is a `Deserializer`, so that reading goes on behind an unknown field, behind a
//! quantity that cannot be read (a harmless one stands in), and at the next entry of a list or a
//! map.
//! Invariant: recursion follows the types that are asked for, and one reading looks at each value
//! a bounded number of times.

use crate::text::ron_text::Document;
use crate::text::ron_tree::Shape;
use crate::text::value::{Fault, Reading, Value};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess,
    IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::path::Path;
use std::vec::IntoIter;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::units::written::by_name;

/// What a document says, and what is wrong with how it says it.
#[derive(Debug)]
pub struct Parsed<T> {
    /// The values; quantities that could not be read are stood in for by harmless ones.
    pub raw: T,
    /// Mistakes of form. If there are any, `raw` only serves to find more mistakes.
    pub problems: Diagnostics,
}

impl Document {
    /// Reads typed values; goes on after mistakes where it can, to find them all.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Parsed<T>, Diagnostics> {
        let reading = Reading::of(self);
        let root = Value { reading: &reading, id: self.tree().root() };
        let raw = root.placed(T::deserialize(root));
        let (lost, problems) = (reading.lost.get(), reading.problems.into_inner());
        match raw {
            Ok(raw) if !lost => Ok(Parsed { raw, problems }),
            _ => Err(problems),
        }
    }
}

/// Reads `sample` in the place of what could not be read.
fn stand_in<T>(sample: &str, read: impl FnOnce(Value<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    let document = sampled(sample)?;
    read(Value { reading: &Reading::of(&document), id: document.tree().root() })
}

fn sampled(sample: &str) -> Result<Document, Fault> {
    let document = Document::from_text(Path::new(""), sample.to_owned());
    document.map_err(|problems| Fault::Said(problems.to_string()))
}

/// The rule of a place where a whole number stands and something else is written.
pub const WHOLE: &str = "a whole number must stand here";

/// What to write where a whole number must stand and something else that is one does.
fn as_whole(text: &str) -> String {
    let inner = text.trim_matches('"');
    match inner.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            let quotes = if inner == text { "" } else { ", without quotation marks" };
            format!("write {number:.0}{quotes}")
        }
        Ok(_) => "write it without a fraction".to_owned(),
        Err(_) => String::new(),
    }
}

/// `TierKind` is how Rust says it; people say `a tier kind`.
fn with_article(name: &str) -> String {
    let mut words = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }.to_owned();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

impl Value<'_> {
    fn integer<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let read = match (self.plain::<u64>(), self.plain::<i64>()) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_i64(number),
            (Err(ron::Error::IntegerOutOfBounds), _) => Err(Fault::OutOfRange),
            _ => return Err(self.fault(WHOLE, as_whole(self.text()))),
        };
        self.placed(read)
    }

    fn needs_source(self, what: &str, sample: &str) {
        let rule = format!("{what} of a hardware file needs its source");
        self.fault(rule, format!("write ({sample}, datasheet(\"where it stands\"))"));
    }

    fn map<'de, V: Visitor<'de>>(
        self,
        outer: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let next = self.fields(outer, fields).into_iter();
        let read = visitor.visit_map(Entries { next, value: None, keys: false });
        read.map_err(|fault| self.told_of(outer, fault))
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.placed(Err(de::Error::invalid_type(Unexpected::Other("a value"), &visitor)))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.plain() {
            Ok(flag) => visitor.visit_bool(flag),
            Err(_) => Err(self.fault("`true` or `false` must stand here", "")),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.plain() {
            Ok(text) => self.placed(visitor.visit_string(text)),
            Err(error) if self.text().starts_with('"') => {
                Err(self.fault(format!("the string cannot be read: {error}"), ""))
            }
            Err(_) => Err(self.fault("a string in double quotes must stand here", "")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.word(), self.shape()) {
            (Some("None"), Shape::Leaf) => visitor.visit_none(),
            (Some("Some"), Shape::Newtype) => visitor.visit_some(self.content("Some")?),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let next = self.inside(Shape::List, "list must stand here: [ ... ]")?;
        self.placed(visitor.visit_seq(Items { next, list: true }))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let next = self.values(len)?;
        self.placed(visitor.visit_seq(Items { next, list: false }))
    }

    /// Only a quantity with its source is one; `name` is that of its unit.
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let pair = self.shape() == Shape::Tuple && self.word().is_none();
        let parts = self.children().count();
        let (what, sample) = by_name(name).map_or((name, ""), |unit| (unit.what, unit.sample));
        // Behind the source may stand how far off the number may be.
        if pair && (len..=len + 1).contains(&parts) {
            return self.deserialize_tuple(parts, visitor);
        }
        if pair && parts > len {
            let rule =
                format!("{what} has its source and how far off it may be behind it, no more");
            self.fault(rule, "leave the rest out");
        } else {
            self.needs_source(what, sample);
        }
        stand_in(&format!("({sample}, assumed(\"-\"))"), |value| {
            value.deserialize_tuple(len, visitor)
        })
    }

    /// Only a deviation is one; `name` is that of the unit of its number.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.shape() {
            Shape::Leaf => visitor.visit_f64(self.number()?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let next = self.inside(Shape::Map, "map must stand here: { ... }")?;
        self.placed(visitor.visit_map(Entries { next, value: None, keys: true }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.is_struct(name, fields)?;
        self.map(name, fields, visitor)
    }

    /// A quantity is one whose `name` is that of its unit.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if let Some(unit) = by_name(name) {
            return match self.has_unit(unit) {
                Ok(()) => visitor.visit_enum(self),
                Err(_) => stand_in(unit.sample, |value| visitor.visit_enum(value)),
            };
        }
        self.known_word(&with_article(name), variants)?;
        self.placed(visitor.visit_enum(self))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u16 u128 f32 char str bytes byte_buf unit unit_struct identifier
    }
}

impl<'de> EnumAccess<'de> for Value<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        Ok((seed.deserialize(key(self.word().unwrap_or_default()))?, self))
    }
}

impl<'de> VariantAccess<'de> for Value<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        self.without_brackets()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        match self.only_child() {
            Some(only) => seed.deserialize(only),
            None => seed.deserialize(Content(self)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let next = self.children().collect::<Vec<_>>().into_iter();
        if !matches!(self.shape(), Shape::Tuple | Shape::Newtype) || next.len() != len {
            let word = self.word().unwrap_or_default();
            let remedy = format!("write `{word}(...)` with {len} values and a comma between them");
            return Err(self.fault(format!("`{word}` takes {len} values"), remedy));
        }
        self.placed(visitor.visit_seq(Items { next, list: false }))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.with_fields(fields)?;
        self.map(self.word().unwrap_or_default(), fields, visitor)
    }
}

/// What a word with brackets takes, if that is not one value without a name: fields are a
/// structure, and anything else must be one value.
struct Content<'r>(Value<'r>);

impl<'de> Deserializer<'de> for Content<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.0.content(self.0.word().unwrap_or_default())?.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.with_fields(fields)?;
        self.0.map(self.0.word().unwrap_or_default(), fields, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A name as serde reads one.
fn key(name: &str) -> StrDeserializer<'_, Fault> {
    name.into_deserializer()
}

/// The values of a list, without those that cannot be read, or of a tuple.
struct Items<'r> {
    next: IntoIter<Value<'r>>,
    list: bool,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(value) = self.next.next() else { return Ok(None) };
        value.placed(seed.deserialize(value)).map(Some)
    }

    fn next_element<T: Deserialize<'de>>(&mut self) -> Result<Option<T>, Fault> {
        for value in self.next.by_ref() {
            let read = value.placed(T::deserialize(value));
            if read.is_ok() || !self.list {
                return read.map(Some);
            }
            value.reading.lost.set(true);
        }
        Ok(None)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.next.len())
    }
}

/// The entries of a map, or the fields of a struct.
struct Entries<'r> {
    next: IntoIter<Value<'r>>,
    value: Option<Value<'r>>,
    /// Whether the names are keys, which are strings in quotation marks.
    keys: bool,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        self.value = self.next.next();
        let Some(value) = self.value else { return Ok(None) };
        if self.keys {
            value.has_key()?;
        }
        seed.deserialize(key(value.name())).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        match self.value.take() {
            Some(value) => value.placed(seed.deserialize(value)),
            None => Err(de::Error::custom("a value comes after its name")),
        }
    }

    fn next_entry<K: Deserialize<'de>, V: Deserialize<'de>>(
        &mut self,
    ) -> Result<Option<(K, V)>, Fault> {
        while let Some(value) = self.next.as_slice().first().copied() {
            let name = self.next_key::<K>();
            let content = self.next_value::<V>();
            match (name, content) {
                (Ok(Some(name)), Ok(content)) => return Ok(Some((name, content))),
                _ => value.reading.lost.set(true),
            }
        }
        Ok(None)
    }
}
