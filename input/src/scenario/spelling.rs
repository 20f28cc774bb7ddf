//! Reads a policy as a scenario spells it: a variant of the registry with its parameters.
//!
//! The registry of policies ([`tiersim_policies::zoo`]) says which names there are and of what kind
//! each parameter is, so that a new policy needs no line here. Every value is read with the type
//! of its kind, which keeps places in error messages.

use crate::scenario::raw::pieces::{RawAccess, RawCut};
use crate::text::quantity::{Duration, Quantity, Size};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, VariantAccess,
    Visitor,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::entry::{Entry, Kind, Need, Parameter};
use tiersim_policies::zoo;

/// A policy as written.
#[derive(Debug)]
pub(crate) struct RawPolicy {
    pub(crate) entry: &'static Entry,
    /// What was written, by the name of the parameter.
    pub(crate) values: BTreeMap<&'static str, RawValue>,
}

/// A value as written, of the kind that its parameter has.
#[derive(Debug)]
pub(crate) enum RawValue {
    Count(u64),
    Number(f64),
    Flag(bool),
    Size(Quantity<Size>),
    Duration(Quantity<Duration>),
    Word(&'static str),
    Name(String),
    Names(Vec<String>),
    Kinds(Vec<ObjectKind>),
    Access(RawAccess),
    Cut(RawCut),
}

/// The names that can be written, as serde wants them for its messages.
struct Spellings {
    entries: Vec<&'static Entry>,
    policies: Vec<&'static str>,
    /// By entry.
    parameters: Vec<Vec<&'static str>>,
}

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| {
    let entries: Vec<&Entry> = zoo::all().collect();
    let names = |entry: &&Entry| entry.parameters.iter().map(|parameter| parameter.name).collect();
    Spellings {
        policies: entries.iter().map(|entry| entry.spelling).collect(),
        parameters: entries.iter().map(names).collect(),
        entries,
    }
});

impl<'de> Deserialize<'de> for RawPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawPolicy, D::Error> {
        deserializer.deserialize_enum("Policy", &SPELLINGS.policies, PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = RawPolicy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<RawPolicy, A::Error> {
        let (index, variant) = data.variant_seed(OneOf(&SPELLINGS.policies))?;
        let entry = SPELLINGS.entries[index];
        if entry.parameters.is_empty() {
            variant.unit_variant()?;
            return Ok(RawPolicy { entry, values: BTreeMap::new() });
        }
        let fields = &SPELLINGS.parameters[index];
        let values = variant.struct_variant(fields, FieldsVisitor { entry, fields })?;
        Ok(RawPolicy { entry, values })
    }
}

/// One of some words; which.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for OneOf {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<usize, E> {
        let found = self.0.iter().position(|known| *known == word);
        found.ok_or_else(|| E::unknown_variant(word, self.0))
    }
}

struct FieldsVisitor {
    entry: &'static Entry,
    fields: &'static [&'static str],
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = BTreeMap<&'static str, RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the parameters of {}", self.entry.spelling)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(index) = map.next_key_seed(FieldName(self.fields))? {
            let parameter = &self.entry.parameters[index];
            let value = map.next_value_seed(OfKind(parameter.kind))?;
            if values.insert(parameter.name, value).is_some() {
                return Err(A::Error::duplicate_field(parameter.name));
            }
        }
        let missing = |parameter: &&Parameter| {
            parameter.need == Need::Required && !values.contains_key(parameter.name)
        };
        match self.entry.parameters.iter().find(missing) {
            Some(parameter) => Err(A::Error::missing_field(parameter.name)),
            None => Ok(values),
        }
    }
}

/// The name of a parameter; which.
struct FieldName(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a parameter")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let found = self.0.iter().position(|known| *known == name);
        found.ok_or_else(|| E::unknown_field(name, self.0))
    }
}

/// A value of this kind.
struct OfKind(Kind);

impl<'de> DeserializeSeed<'de> for OfKind {
    type Value = RawValue;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<RawValue, D::Error> {
        Ok(match self.0 {
            Kind::Count { .. } => RawValue::Count(u64::deserialize(from)?),
            Kind::Number { .. } => RawValue::Number(f64::deserialize(from)?),
            Kind::Flag => RawValue::Flag(bool::deserialize(from)?),
            Kind::Size => RawValue::Size(Quantity::deserialize(from)?),
            Kind::Duration => RawValue::Duration(Quantity::deserialize(from)?),
            Kind::Word(words) => from.deserialize_enum("word", words, WordVisitor(words))?,
            Kind::Tier | Kind::Hints | Kind::Weights(_) => {
                RawValue::Name(String::deserialize(from)?)
            }
            Kind::Spill | Kind::HostTiers | Kind::MoreTiers | Kind::ThreeTiers => {
                RawValue::Names(Vec::deserialize(from)?)
            }
            Kind::Kinds => RawValue::Kinds(Vec::deserialize(from)?),
            Kind::Access => RawValue::Access(RawAccess::deserialize(from)?),
            Kind::Cut => RawValue::Cut(RawCut::deserialize(from)?),
        })
    }
}

struct WordVisitor(&'static [&'static str]);

impl<'de> Visitor<'de> for WordVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<RawValue, A::Error> {
        let (index, variant) = data.variant_seed(OneOf(self.0))?;
        variant.unit_variant()?;
        Ok(RawValue::Word(self.0[index]))
    }
}
