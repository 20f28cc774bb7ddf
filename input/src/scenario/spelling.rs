//! Reads what tables spell: a word with named values in brackets, such as a policy.
//!
//! The list of policies and the table of metrics say which words there are, which values each has
//! and of what form, so that a new policy or metric needs no line here. Values are read one by one
//! at their place in the document's tree: a wrong one is told with its place and hides no other.

use crate::scenario::resolver::MAX_ENTRIES;
use crate::text::quantity::{Duration, Quantity, Size};
use crate::text::ron_text::Document;
use crate::text::value::{Fault, Reading, Value};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::access::Access;
use tiersim_policies::entry::Every;
use tiersim_policies::zoo::adam_state::Cut;

/// A word and what it takes in brackets: nothing, one value, or fields.
pub(crate) struct Spelling {
    pub(crate) word: &'static str,
    pub(crate) fields: Vec<Field>,
}

/// A value in brackets.
pub(crate) struct Field {
    /// [`ONLY`] where the value stands without a name.
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) required: bool,
}

/// The name of a value that stands alone in its brackets, as in `fits("lru")`.
pub(crate) const ONLY: &str = "0";

/// How a value is written.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Count,
    Number,
    Flag,
    Size,
    Duration,
    Word(&'static [&'static str]),
    Name,
    Names,
    Kinds,
    Access,
    Cut,
    Every,
}

/// A value as written, of the form that its field has.
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
    Access(Access),
    Cut(Cut),
    Every(Every),
}

/// What was written: one of the spellings, and its values by name.
#[derive(Debug)]
pub(crate) struct Spelled {
    /// Which of the spellings.
    pub(crate) index: usize,
    pub(crate) values: BTreeMap<&'static str, RawValue>,
}

impl Spelled {
    /// What was written of form [`Form::Name`].
    pub(crate) fn name(&self, field: &str) -> Option<&str> {
        match self.values.get(field)? {
            RawValue::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// Every element of the list at `list`, or its part called `part`; `None` for those with problems,
/// which are added to `problems`. `noun` is what one is, with its article.
pub(crate) fn read_all(
    document: &Document,
    (list, part): (&str, &str),
    noun: &str,
    spellings: &[Spelling],
    problems: &mut Diagnostics,
) -> Vec<Option<Spelled>> {
    let (tree, reading) = (document.tree(), Reading::of(document));
    let Some(list) = tree.find(list) else { return Vec::new() };
    let read = |element| {
        let mut parts = tree.children(tree.inside(element));
        let id = match part {
            "" => element,
            part => parts.find(|&child| tree.name(child) == Some(part))?,
        };
        spelled(Value { reading: &reading, id }, noun, spellings).ok()
    };
    let all = tree.children(list).take(MAX_ENTRIES).map(read).collect();
    problems.0.append(&mut reading.problems.into_inner().0);
    all
}

fn spelled(value: Value<'_>, noun: &str, spellings: &[Spelling]) -> Result<Spelled, Fault> {
    let words: Vec<&str> = spellings.iter().map(|known| known.word).collect();
    let index = value.known_word(noun, &words)?;
    let Spelling { word, fields } = &spellings[index];
    let values = match &fields[..] {
        [] => value.without_brackets().map(|()| BTreeMap::new())?,
        [Field { name: ONLY, form, .. }] => {
            let only = value.content(word)?;
            form.read(only)?.into_iter().map(|read| (ONLY, read)).collect()
        }
        fields => values(value, word, fields)?,
    };
    Ok(Spelled { index, values })
}

/// The values in the brackets of `outer`; those that say that they are left out are.
fn values(
    outer: Value<'_>,
    word: &str,
    fields: &[Field],
) -> Result<BTreeMap<&'static str, RawValue>, Fault> {
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    outer.with_fields(&names)?;
    let (mut values, mut wrong) = (BTreeMap::new(), BTreeMap::new());
    let known = outer.fields(word, &names);
    let all_known = known.len() == outer.children().count();
    for value in known {
        for field in fields.iter().filter(|field| field.name == value.name()) {
            match field.form.read(value) {
                Ok(read) => values.extend(read.map(|read| (field.name, read))),
                Err(fault) => _ = wrong.insert(field.name, fault),
            }
        }
    }
    let there = |name| values.contains_key(name) || wrong.contains_key(name);
    if let Some(field) = fields.iter().find(|field| field.required && !there(field.name)) {
        return Err(outer.told_of(&format!("`{word}`"), Fault::Missing(field.name)));
    }
    match wrong.pop_first() {
        Some((_, fault)) => Err(fault),
        None if all_known => Ok(values),
        None => Err(Fault::Noted),
    }
}

impl Form {
    /// The value, none if it says that it is left out.
    fn read(self, value: Value<'_>) -> Result<Option<RawValue>, Fault> {
        match self {
            Form::Count => read(value, RawValue::Count),
            Form::Number => read(value, RawValue::Number),
            Form::Flag => read(value, RawValue::Flag),
            Form::Size => read(value, RawValue::Size),
            Form::Duration => read(value, RawValue::Duration),
            Form::Name => read(value, RawValue::Name),
            Form::Names => read(value, RawValue::Names),
            Form::Kinds => read(value, RawValue::Kinds),
            Form::Access => read(value, RawValue::Access),
            Form::Cut => read(value, RawValue::Cut),
            Form::Every => read(value, RawValue::Every),
            Form::Word(words) => {
                let text = value.text();
                let found = words.iter().find(|word| **word == text);
                found.map(|word| Some(RawValue::Word(word))).ok_or_else(|| {
                    let rule = format!("`{}` cannot be `{text}`", value.name());
                    value.fault(rule, value.choices(text, words))
                })
            }
        }
    }
}

/// A stand-in for a quantity that cannot be read is none here: nothing else rests on the value.
fn read<T: DeserializeOwned>(
    value: Value<'_>,
    make: fn(T) -> RawValue,
) -> Result<Option<RawValue>, Fault> {
    let reading = Reading::of(value.reading.document);
    let alone = Value { reading: &reading, ..value };
    let read = alone.placed(Option::<T>::deserialize(alone));
    let problems = reading.problems.into_inner().0;
    let good = problems.is_empty();
    value.reading.problems.borrow_mut().0.extend(problems);
    read.ok().filter(|_| good).map(|read| read.map(make)).ok_or(Fault::Noted)
}
