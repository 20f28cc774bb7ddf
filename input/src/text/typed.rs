//! Typed values from the tree of a document: what serde asks for, with the place of every mistake.
//!
//! The tree is a `Deserializer`, so that a mistake is told where it stands when it is met, and
//! reading goes on wherever that can be done: behind an unknown field, behind a quantity that
//! cannot be read (a harmless one stands in), and at the next entry of a list or a map. `ron` reads
//! strings and numbers.
//! Invariant: recursion follows the types that are asked for, and one reading looks at each value
//! a bounded number of times.

use crate::text::check::MAX_PROBLEMS;
use crate::text::choices::choices;
use crate::text::ron_lex::{leaf_end, word_end};
use crate::text::ron_text::{Document, shorten};
use crate::text::ron_tree::{Shape, ValueId};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected,
    IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
use std::vec::IntoIter;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::units::written::{Unit, by_name};

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

impl Document {
    /// Reads the value at a place of the tree, without standing in for what cannot be read.
    pub(crate) fn typed<T: DeserializeOwned>(&self, id: ValueId) -> Result<T, Diagnostics> {
        let reading = Reading::of(self);
        let value = Value { reading: &reading, id };
        let read = value.placed(T::deserialize(value));
        let problems = reading.problems.into_inner();
        read.ok().filter(|_| problems.0.is_empty()).ok_or(problems)
    }
}

/// What serde's visitors find wrong; the value that they look at is known to their caller.
#[derive(Debug)]
enum Fault {
    /// It is among the problems already.
    Noted,
    Missing(&'static str),
    OutOfRange,
    Said(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(said: T) -> Fault {
        Fault::Said(said.to_string())
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::Missing(field)
    }

    fn invalid_value(_: Unexpected<'_>, _: &dyn Expected) -> Fault {
        Fault::OutOfRange
    }
}

struct Reading<'d> {
    document: &'d Document,
    problems: RefCell<Diagnostics>,
    /// Whether an entry of a list or a map was left out.
    lost: Cell<bool>,
}

impl<'d> Reading<'d> {
    fn of(document: &'d Document) -> Reading<'d> {
        Reading { document, problems: RefCell::default(), lost: Cell::new(false) }
    }
}

/// One value of the tree, to be read as what its place asks for.
#[derive(Clone, Copy)]
struct Value<'r> {
    reading: &'r Reading<'r>,
    id: ValueId,
}

impl<'r> Value<'r> {
    /// What was written; all there is to a plain value.
    fn text(self) -> &'r str {
        self.reading.document.tree().written(self.id)
    }

    fn shape(self) -> Shape {
        self.reading.document.tree().shape(self.id)
    }

    /// The word that it is, or that stands before its brackets.
    fn word(self) -> Option<&'r str> {
        let text = self.text();
        word_end(text, 0).map(|end| text[..end].strip_prefix("r#").unwrap_or(&text[..end]))
    }

    fn children(self) -> impl Iterator<Item = Value<'r>> {
        let tree = self.reading.document.tree();
        tree.children(self.id).map(move |id| Value { id, ..self })
    }

    fn only_child(self) -> Option<Value<'r>> {
        (self.shape() == Shape::Newtype).then(|| self.children().next()).flatten()
    }

    /// Notes that this value breaks `rule`.
    fn fault(self, rule: impl Into<String>, remedy: impl Into<String>) -> Fault {
        let mut problems = self.reading.problems.borrow_mut();
        if problems.0.len() < MAX_PROBLEMS {
            let document = self.reading.document;
            problems.0.push(document.problem_of(self.id, rule.into(), remedy.into()));
        }
        Fault::Noted
    }

    /// As [`Value::fault`], of the name under which this value stands.
    fn fault_of_name(self, rule: String, found: &str, remedy: String) -> Fault {
        let mut problems = self.reading.problems.borrow_mut();
        if problems.0.len() < MAX_PROBLEMS {
            let document = self.reading.document;
            problems.0.push(document.problem_of_name(self.id, rule, found, remedy));
        }
        Fault::Noted
    }

    /// [`choices`], unless nobody sees them.
    fn choices(self, found: &str, known: &[&str]) -> String {
        let full = self.reading.problems.borrow().0.len() >= MAX_PROBLEMS;
        if full { String::new() } else { choices(found, known) }
    }

    /// `result`, with what a visitor found wrong noted of this value.
    fn placed<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.map_err(|fault| match fault {
            Fault::Noted => Fault::Noted,
            Fault::Missing(field) => self.fault(format!("the field `{field}` is missing"), ""),
            Fault::OutOfRange => {
                let negative = self.text().starts_with('-');
                let remedy = if negative { "a number from 0 up" } else { "a smaller one" };
                let rule = "a whole number within range must stand here";
                self.fault(rule, format!("write {remedy}"))
            }
            Fault::Said(said) => self.fault(said, ""),
        })
    }

    /// The value as ron reads it, if it is a plain one.
    fn plain<T: DeserializeOwned>(self) -> Result<T, ron::Error> {
        match self.shape() {
            Shape::Leaf => ron::from_str(self.text()).map_err(|error| error.code),
            _ => Err(ron::Error::ExpectedIdentifier),
        }
    }

    fn number(self) -> Result<f64, Fault> {
        self.plain().map_err(|_| self.fault("a number must stand here", ""))
    }

    fn integer<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let read = match (self.plain::<u64>(), self.plain::<i64>()) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_i64(number),
            (Err(ron::Error::IntegerOutOfBounds), _) => Err(Fault::OutOfRange),
            _ => return Err(self.fault("a whole number must stand here", as_whole(self.text()))),
        };
        self.placed(read)
    }

    /// Fields with names: those of `fields`, whatever else there is.
    fn fields<'de, V: Visitor<'de>>(
        self,
        outer: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let tree = self.reading.document.tree();
        let mut known = Vec::new();
        for child in self.children() {
            let name = tree.name(child.id).unwrap_or_default();
            if fields.contains(&name) {
                known.push(child);
            } else {
                let rule = format!("`{outer}` has no field `{name}`");
                child.fault_of_name(rule, child.text(), self.choices(name, fields));
            }
        }
        let entries = Entries { next: known.into_iter(), value: None, keys: false };
        self.placed(visitor.visit_map(entries).map_err(|fault| match fault {
            Fault::Missing(field) => {
                let remedy = format!("{outer} needs it: write `{field}: ...`");
                self.fault(format!("the field `{field}` is missing"), remedy)
            }
            other => other,
        }))
    }

    /// The one value of a word with brackets.
    fn content(self, word: &str) -> Result<Value<'r>, Fault> {
        self.only_child().ok_or_else(|| match self.shape() {
            Shape::Leaf => {
                let remedy = format!("write `{word}(...)`");
                self.fault(format!("`{word}` needs its brackets"), remedy)
            }
            _ => {
                let first = self.children().next().map_or("...", Value::text);
                let first = shorten(first);
                let remedy = format!("write `{word}({})`", first.trim_matches('`'));
                self.fault(format!("`{word}` takes one value"), remedy)
            }
        })
    }

    /// Whether this is a number with one of `unit`'s words.
    fn has_unit(self, unit: &Unit) -> Result<(), Fault> {
        let Some(word) = self.word().filter(|word| !matches!(*word, "NaN" | "inf")) else {
            return Err(self.fault(format!("{} needs its unit", unit.what), unit.remedy));
        };
        if unit.words.contains(&word) {
            return self.content(word)?.number().map(drop);
        }
        let small = unit.words.iter().find(|known| known.eq_ignore_ascii_case(word));
        let small = small.zip(self.text().strip_prefix(word)).map(|(small, rest)| {
            format!("units are written small: {}", shorten(&format!("{small}{rest}")))
        });
        let remedy = small.unwrap_or_else(|| unit.remedy.to_owned());
        Err(self.fault(format!("`{word}` is not a unit of {}", unit.what), remedy))
    }
}

/// Reads `sample` in the place of what could not be read.
fn stand_in<T>(sample: &str, read: impl FnOnce(Value<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    let document = Document::from_text(Path::new(""), sample.to_owned());
    let document = document.map_err(|problems| Fault::Said(problems.to_string()))?;
    read(Value { reading: &Reading::of(&document), id: document.tree().root() })
}

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

/// `TierKind` is how Rust says it; people say `tier kind`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
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
        if self.shape() != Shape::List {
            return Err(self.fault("a list must stand here: [ ... ]", ""));
        }
        let next = self.children().collect::<Vec<_>>().into_iter();
        self.placed(visitor.visit_seq(Items { next, list: true }))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let next = self.children().collect::<Vec<_>>().into_iter();
        if self.shape() != Shape::Tuple || self.word().is_some() || next.len() != len {
            return Err(self.fault(format!("{len} values in brackets must stand here"), ""));
        }
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
        let (what, sample) = by_name(name).map_or((name, ""), |unit| (unit.what, unit.sample));
        if pair && self.children().count() == len {
            return self.deserialize_tuple(len, visitor);
        }
        let rule = format!("{what} of a hardware file needs its source");
        self.fault(rule, format!("write ({sample}, datasheet(\"where it stands\"))"));
        stand_in(&format!("({sample}, assumed(\"-\"))"), |value| {
            value.deserialize_tuple(len, visitor)
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.shape() != Shape::Map {
            return Err(self.fault("a map must stand here: { ... }", ""));
        }
        let next = self.children().collect::<Vec<_>>().into_iter();
        self.placed(visitor.visit_map(Entries { next, value: None, keys: true }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match (self.word(), self.shape()) {
            (Some(word), _) if word != name => {
                Err(self.fault(format!("`{name}` must stand here, not `{word}`"), ""))
            }
            (Some(word), Shape::Leaf) => {
                let rule = format!("`{word}` needs its brackets");
                Err(self.fault(rule, format!("write `{word}(...)`")))
            }
            (_, Shape::Struct) => self.fields(name, fields, visitor),
            _ => {
                let rule = "fields with names must stand here: (name: value, ...)";
                Err(self.fault(rule, format!("known: {}", fields.join(", "))))
            }
        }
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
        match self.word() {
            Some(word) if variants.contains(&word) => self.placed(visitor.visit_enum(self)),
            Some(word) => {
                let name = spaced(name);
                let vowel = name.starts_with(['a', 'e', 'i', 'o', 'u']);
                let article = if vowel { "an" } else { "a" };
                let rule = format!("`{word}` is not {article} {name}");
                Err(self.fault(rule, self.choices(word, variants)))
            }
            None => {
                let remedy = self.choices(self.text().trim_matches('"'), variants);
                Err(self.fault("a word must stand here", remedy))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u16 u128 f32 char str bytes byte_buf unit unit_struct newtype_struct
        identifier
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
        let word = self.word().unwrap_or_default();
        match self.shape() {
            Shape::Leaf => Ok(()),
            _ => Err(self.fault(format!("`{word}` takes no brackets"), format!("write `{word}`"))),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(self.content(self.word().unwrap_or_default())?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let word = self.word().unwrap_or_default();
        match self.shape() {
            Shape::Struct => self.fields(word, fields, visitor),
            Shape::Leaf => {
                let remedy = format!("write `{word}(...)`, or `{word}()` for the defaults");
                Err(self.fault(format!("`{word}` needs its brackets"), remedy))
            }
            _ => {
                let rule = format!("what `{word}` takes needs its name: {word}(name: value)");
                Err(self.fault(rule, format!("known: {}", fields.join(", "))))
            }
        }
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
        let document = value.reading.document;
        let name = document.tree().name(value.id).unwrap_or_default();
        if self.keys {
            let written = document.tree().written_with_name(value.id);
            // An entry that was put in has no key in any text.
            let has_key = written.len() > value.text().len();
            let written = &written[..leaf_end(written, 0).unwrap_or(written.len())];
            if has_key && ron::from_str::<String>(written).is_err() {
                let rule = "a string in double quotes must stand here".to_owned();
                return Err(value.fault_of_name(rule, written, format!("write \"{written}\"")));
            }
        }
        seed.deserialize(key(name)).map(Some)
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
