//! Reads what tables spell: a word with named values in brackets, such as a policy.
//!
//! The list of policies and the table of metrics say which words there are, which values each has
//! and of what form, so that a new policy or metric needs no line here. Values are read one by one
//! at their place in the document's tree: a wrong one is told with its place and hides no other.

use crate::scenario::raw::pieces::{RawAccess, RawCut};
use crate::scenario::resolver::MAX_ENTRIES;
use crate::text::check::MAX_PROBLEMS;
use crate::text::choices::choices;
use crate::text::quantity::{Duration, Quantity, Size};
use crate::text::ron_lex::word_end;
use crate::text::ron_text::Document;
use crate::text::ron_tree::{Shape, ValueId};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};
use tiersim_models::workload::ObjectKind;

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
    Access(RawAccess),
    Cut(RawCut),
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
    let tree = document.tree();
    let Some(list) = tree.find(list) else { return Vec::new() };
    let mut reader = Reader { document, problems };
    let elements = tree.children(list).take(MAX_ENTRIES);
    let mut read = |element| match part {
        "" => reader.spelled(element, noun, spellings),
        part => {
            let inside = tree.inside(element);
            let part = tree.children(inside).find(|&child| tree.name(child) == Some(part))?;
            reader.spelled(part, noun, spellings)
        }
    };
    elements.map(&mut read).collect()
}

struct Reader<'d, 'p> {
    document: &'d Document,
    problems: &'p mut Diagnostics,
}

impl Reader<'_, '_> {
    fn spelled(&mut self, id: ValueId, noun: &str, spellings: &[Spelling]) -> Option<Spelled> {
        let tree = self.document.tree();
        let text = tree.written(id);
        let Some(end) = word_end(text, 0) else {
            return self.fault(id, "a word must stand here", String::new());
        };
        let word = &text[..end];
        let Some(index) = spellings.iter().position(|known| known.word == word) else {
            let known: Vec<&str> = spellings.iter().map(|known| known.word).collect();
            return self.fault(id, format!("`{word}` is not {noun}"), choices(word, &known));
        };
        let fields = &spellings[index].fields;
        let wrong = match (&fields[..], tree.shape(id)) {
            ([], Shape::Leaf) => return Some(Spelled { index, values: BTreeMap::new() }),
            ([], _) => (format!("`{word}` takes no brackets"), format!("write `{word}`")),
            ([Field { name: ONLY, form, .. }], Shape::Newtype) => {
                let value = self.value(tree.children(id).next()?, *form)?;
                return Some(Spelled { index, values: BTreeMap::from([(ONLY, value?)]) });
            }
            ([Field { name: ONLY, .. }], _) => {
                (format!("`{word}` takes one value"), format!("write `{word}(\"...\")`"))
            }
            (_, Shape::Struct) => {
                let values = self.values(id, word, fields)?;
                return Some(Spelled { index, values });
            }
            (_, Shape::Leaf) => {
                let remedy = format!("write `{word}(...)`, or `{word}()` for the defaults");
                (format!("`{word}` needs its brackets"), remedy)
            }
            _ => {
                let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
                let remedy = format!("write `name: value`; known: {}", known.join(", "));
                (format!("values of `{word}` are named"), remedy)
            }
        };
        self.fault(id, wrong.0, wrong.1)
    }

    fn values(
        &mut self,
        id: ValueId,
        word: &str,
        fields: &[Field],
    ) -> Option<BTreeMap<&'static str, RawValue>> {
        let tree = self.document.tree();
        let (mut values, mut good) = (BTreeMap::new(), true);
        let mut left: Vec<&Field> = fields.iter().collect();
        for child in tree.children(id) {
            let name = tree.name(child).unwrap_or_default();
            let Some(at) = left.iter().position(|field| field.name == name) else {
                let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
                let rule = format!("`{word}` has no field `{name}`");
                let (found, remedy) = (tree.written(child), choices(name, &known));
                self.push(self.document.problem_of_name(child, rule, found, remedy));
                good = false;
                continue;
            };
            let field = left[at];
            match self.value(child, field.form) {
                Some(Some(value)) => _ = values.insert(left.remove(at).name, value),
                Some(None) => {}
                None => (_, good) = (left.remove(at), false),
            }
        }
        if let Some(field) = left.iter().find(|field| field.required) {
            let name = field.name;
            let rule = format!("the field `{name}` is missing");
            return self.fault(id, rule, format!("`{word}` needs it: write `{name}: ...`"));
        }
        good.then_some(values)
    }

    /// The value, `Some(None)` if it says that it is left out.
    fn value(&mut self, id: ValueId, form: Form) -> Option<Option<RawValue>> {
        match form {
            Form::Count => self.typed(id, RawValue::Count),
            Form::Number => self.typed(id, RawValue::Number),
            Form::Flag => self.typed(id, RawValue::Flag),
            Form::Size => self.typed(id, RawValue::Size),
            Form::Duration => self.typed(id, RawValue::Duration),
            Form::Name => self.typed(id, RawValue::Name),
            Form::Names => self.typed(id, RawValue::Names),
            Form::Kinds => self.typed(id, RawValue::Kinds),
            Form::Access => self.typed(id, RawValue::Access),
            Form::Cut => self.typed(id, RawValue::Cut),
            Form::Word(words) => {
                let tree = self.document.tree();
                let text = tree.written(id);
                if let Some(word) = words.iter().find(|word| **word == text) {
                    return Some(Some(RawValue::Word(word)));
                }
                let name = tree.name(id).unwrap_or_default();
                self.fault(id, format!("`{name}` cannot be `{text}`"), choices(text, words))
            }
        }
    }

    fn typed<T: DeserializeOwned>(
        &mut self,
        id: ValueId,
        make: fn(T) -> RawValue,
    ) -> Option<Option<RawValue>> {
        match self.document.typed::<Option<T>>(id) {
            Ok(value) => Some(value.map(make)),
            Err(problems) => {
                problems.0.into_iter().for_each(|problem| self.push(problem));
                None
            }
        }
    }

    fn fault<T>(&mut self, id: ValueId, rule: impl Into<String>, remedy: String) -> Option<T> {
        self.push(self.document.problem_of(id, rule.into(), remedy));
        None
    }

    fn push(&mut self, problem: Diagnostic) {
        if self.problems.0.len() < MAX_PROBLEMS {
            self.problems.0.push(problem);
        }
    }
}
