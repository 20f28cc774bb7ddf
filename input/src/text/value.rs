//! One value of a document's tree, and what is said where it has not the form that its place asks
//! for.
//!
//! A mistake is told where it stands when it is met, and reading goes on wherever that can be done.
//! `ron` reads strings and numbers.

use crate::text::check::MAX_PROBLEMS;
use crate::text::choices::choices;
use crate::text::ron_lex::{leaf_end, word_end};
use crate::text::ron_text::{Document, shorten};
use crate::text::ron_tree::{Shape, ValueId};
use serde::de::{self, DeserializeOwned, Expected, Unexpected};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::vec::IntoIter;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::units::written::Unit;

/// How the note of a value that an axis of a sweep put in begins.
pub(crate) const AXIS: &str = "axis `";

/// What serde's visitors find wrong; the value that they look at is known to their caller.
#[derive(Debug)]
pub(crate) enum Fault {
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

/// A document being read, and what is wrong with it so far.
pub(crate) struct Reading<'d> {
    pub(crate) document: &'d Document,
    pub(crate) problems: RefCell<Diagnostics>,
    /// Whether an entry of a list or a map was left out.
    pub(crate) lost: Cell<bool>,
}

impl<'d> Reading<'d> {
    pub(crate) fn of(document: &'d Document) -> Reading<'d> {
        Reading { document, problems: RefCell::default(), lost: Cell::new(false) }
    }
}

/// One value of the tree, to be read as what its place asks for.
#[derive(Clone, Copy)]
pub(crate) struct Value<'r> {
    pub(crate) reading: &'r Reading<'r>,
    pub(crate) id: ValueId,
}

impl<'r> Value<'r> {
    /// What was written; all there is to a plain value.
    pub(crate) fn text(self) -> &'r str {
        self.reading.document.tree().written(self.id)
    }

    pub(crate) fn shape(self) -> Shape {
        self.reading.document.tree().shape(self.id)
    }

    /// The word that it is, or that stands before its brackets.
    pub(crate) fn word(self) -> Option<&'r str> {
        let text = self.text();
        word_end(text, 0).map(|end| text[..end].strip_prefix("r#").unwrap_or(&text[..end]))
    }

    pub(crate) fn children(self) -> impl Iterator<Item = Value<'r>> {
        let tree = self.reading.document.tree();
        tree.children(self.id).map(move |id| Value { id, ..self })
    }

    pub(crate) fn only_child(self) -> Option<Value<'r>> {
        (self.shape() == Shape::Newtype).then(|| self.children().next()).flatten()
    }

    /// Notes that this value breaks `rule`.
    pub(crate) fn fault(self, rule: impl Into<String>, remedy: impl Into<String>) -> Fault {
        self.note(rule.into(), remedy.into())
    }

    fn note(self, rule: String, remedy: String) -> Fault {
        let mut problems = self.reading.problems.borrow_mut();
        if problems.0.len() < MAX_PROBLEMS {
            let document = self.reading.document;
            problems.0.push(document.problem_of(self.id, rule, remedy));
        }
        Fault::Noted
    }

    /// As [`Value::fault`], of the name under which this value stands.
    pub(crate) fn fault_of_name(self, rule: String, found: &str, remedy: String) -> Fault {
        let mut problems = self.reading.problems.borrow_mut();
        if problems.0.len() < MAX_PROBLEMS {
            let document = self.reading.document;
            problems.0.push(document.problem_of_name(self.id, rule, found, remedy));
        }
        Fault::Noted
    }

    /// [`choices`], unless nobody sees them.
    pub(crate) fn choices(self, found: &str, known: &[&str]) -> String {
        let full = self.reading.problems.borrow().0.len() >= MAX_PROBLEMS;
        if full { String::new() } else { choices(found, known) }
    }

    /// `result`, with what a visitor found wrong noted of this value.
    pub(crate) fn placed<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.map_err(|fault| self.told(fault))
    }

    /// Apart from `placed`, which is compiled once more for each type that is read.
    fn told(self, fault: Fault) -> Fault {
        match fault {
            Fault::Noted => Fault::Noted,
            Fault::Missing(field) => self.fault(format!("the field `{field}` is missing"), ""),
            Fault::OutOfRange => {
                let negative = self.text().starts_with('-');
                let remedy = if negative { "a number from 0 up" } else { "a smaller one" };
                let rule = "a whole number within range must stand here";
                self.fault(rule, format!("write {remedy}"))
            }
            Fault::Said(said) => self.fault(said, ""),
        }
    }

    /// The value as ron reads it, if it is a plain one.
    pub(crate) fn plain<T: DeserializeOwned>(self) -> Result<T, ron::Error> {
        match self.shape() {
            Shape::Leaf => ron::from_str(self.text()).map_err(|error| error.code),
            _ => Err(ron::Error::ExpectedIdentifier),
        }
    }

    pub(crate) fn number(self) -> Result<f64, Fault> {
        self.plain().map_err(|_| self.fault("a number must stand here", self.bare_number()))
    }

    /// What to write in the place of a number with a word before it, where it stands alone.
    fn bare_number(self) -> String {
        let number = self.only_child().filter(|number| number.plain::<f64>().is_ok());
        let Some((word, number)) = self.word().zip(number.map(Value::text)) else {
            return String::new();
        };
        if !self.is_of_axis() {
            return format!("write {number}");
        }
        match word {
            "times" => format!("write `factors([{number}])` for multiples of what stands there"),
            _ => format!("write {number}, and `unit: \"{word}\"` beside `values`"),
        }
    }

    /// Whether it stands among the values of a sweep's axis.
    fn is_of_axis(self) -> bool {
        self.reading.document.tree().path(self.id).starts_with("sweep.axes.")
    }

    /// Its name in a struct or a map.
    pub(crate) fn name(self) -> &'r str {
        self.reading.document.tree().name(self.id).unwrap_or_default()
    }

    /// Where its word, one of `noun`, is among those that are known.
    pub(crate) fn known_word(self, noun: &str, known: &[&str]) -> Result<usize, Fault> {
        let Some(word) = self.word() else {
            let mut remedy = self.choices(self.text().trim_matches('"'), known);
            if self.is_of_axis() && self.text().starts_with('[') {
                remedy = format!("write `list({})`", shorten(self.text()).trim_matches('`'));
            }
            return Err(self.fault("a word must stand here", remedy));
        };
        known
            .iter()
            .position(|one| *one == word)
            .ok_or_else(|| self.fault(format!("`{word}` is not {noun}"), self.choices(word, known)))
    }

    /// Refuses brackets behind a word that takes none.
    pub(crate) fn without_brackets(self) -> Result<(), Fault> {
        let word = self.word().unwrap_or_default();
        match self.shape() {
            Shape::Leaf => Ok(()),
            _ => Err(self.fault(format!("`{word}` takes no brackets"), format!("write `{word}`"))),
        }
    }

    /// Refuses what is no word with named values in brackets.
    pub(crate) fn with_fields(self, fields: &[&str]) -> Result<(), Fault> {
        let word = self.word().unwrap_or_default();
        match self.shape() {
            Shape::Struct => Ok(()),
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

    /// Fields with names: those of `fields`, whatever else there is; that is noted.
    pub(crate) fn fields(self, outer: &str, fields: &[&str]) -> Vec<Value<'r>> {
        let (known, unknown) =
            self.children().partition::<Vec<_>, _>(|child| fields.contains(&child.name()));
        for child in unknown {
            let name = child.name();
            let rule = format!("`{outer}` has no field `{name}`");
            child.fault_of_name(rule, child.text(), self.choices(name, fields));
        }
        known
    }

    /// As [`Value::placed`], of one of the fields of `outer`.
    pub(crate) fn told_of(self, outer: &str, fault: Fault) -> Fault {
        let Fault::Missing(field) = fault else { return self.told(fault) };
        let remedy = format!("{outer} needs it: write `{field}: ...`");
        self.fault(format!("the field `{field}` is missing"), remedy)
    }

    /// Refuses what is not a structure `name` of `fields`.
    pub(crate) fn is_struct(self, name: &str, fields: &[&str]) -> Result<(), Fault> {
        match (self.word(), self.shape()) {
            (Some(word), _) if word != name => {
                Err(self.fault(format!("`{name}` must stand here, not `{word}`"), ""))
            }
            (Some(word), Shape::Leaf) => {
                let rule = format!("`{word}` needs its brackets");
                Err(self.fault(rule, format!("write `{word}(...)`")))
            }
            (_, Shape::Struct) => Ok(()),
            _ => {
                let rule = "fields with names must stand here: (name: value, ...)";
                Err(self.fault(rule, format!("known: {}", fields.join(", "))))
            }
        }
    }

    /// What is in brackets of `shape`; `what` says it in words.
    pub(crate) fn inside(self, shape: Shape, what: &str) -> Result<IntoIter<Value<'r>>, Fault> {
        if self.shape() != shape {
            return Err(self.fault(format!("a {what}"), ""));
        }
        Ok(self.children().collect::<Vec<_>>().into_iter())
    }

    /// The values of a tuple of `len`.
    pub(crate) fn values(self, len: usize) -> Result<IntoIter<Value<'r>>, Fault> {
        let next = self.children().collect::<Vec<_>>().into_iter();
        if self.shape() != Shape::Tuple || self.word().is_some() || next.len() != len {
            return Err(self.fault(format!("{len} values in brackets must stand here"), ""));
        }
        Ok(next)
    }

    /// Refuses a name in a map that is no string in quotation marks.
    pub(crate) fn has_key(self) -> Result<(), Fault> {
        let written = self.reading.document.tree().written_with_name(self.id);
        // An entry that was put in has no key in any text.
        let has_key = written.len() > self.text().len();
        let written = &written[..leaf_end(written, 0).unwrap_or(written.len())];
        if has_key && ron::from_str::<String>(written).is_err() {
            let rule = "a string in double quotes must stand here".to_owned();
            return Err(self.fault_of_name(rule, written, format!("write \"{written}\"")));
        }
        Ok(())
    }

    /// The one value of a word with brackets.
    pub(crate) fn content(self, word: &str) -> Result<Value<'r>, Fault> {
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
    pub(crate) fn has_unit(self, unit: &Unit) -> Result<(), Fault> {
        let Some(word) = self.word().filter(|word| !matches!(*word, "NaN" | "inf")) else {
            let mut remedy = unit.remedy.to_owned();
            let document = self.reading.document;
            if document.notes(&document.tree().path(self.id)).any(|note| note.starts_with(AXIS)) {
                let word = unit.sample.split('(').next().unwrap_or_default();
                remedy += &format!(", or give the axis its unit: `unit: \"{word}\"`");
            }
            return Err(self.fault(format!("{} needs its unit", unit.what), remedy));
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
