//! What ron says, in words that tell what to write instead.
//!
//! ron stops at its first error. [`explain`] therefore also says how the text could be mended, so
//! that the reader can go on and find the other mistakes of the file in the same run.

use crate::text::quantity::{self, SOURCED, UNIT_MISSING};
use crate::text::ron_lex::blank_end;
use crate::text::ron_text::{Document, place_in, shorten};
use crate::text::ron_tree::{Shape, ValueId};
use ron::error::{Error, SpannedError};
use std::ops::Range;
use tiersim_models::diagnostic::Diagnostic;

/// Most names that one message lists.
const MAX_LISTED: usize = 40;
/// Most names that are searched for a near one.
const MAX_SEARCHED: usize = 200;

/// How to make a text readable for the search for further mistakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Put this text there.
    Replace(Range<usize>, String),
    /// Take this field away, with its comma.
    Remove(Range<usize>),
}

/// The problem that `error` stands for, and how to go on after it if that is possible. What was
/// read starts at byte `from` of the document.
pub fn explain(
    document: &Document,
    from: usize,
    error: &SpannedError,
) -> (Diagnostic, Option<Repair>) {
    let reported = document.offset(from, error.span.start.line, error.span.start.col);
    // ron points at the white space before a value that it did not like from the first letter on.
    let start = blank_end(document.text(), reported).unwrap_or(reported);
    let value = document.tree().around(start);
    match &error.code {
        Error::NoSuchStructField { expected, found, outer } => {
            unknown_field(document, value, start, expected, found, outer.as_deref())
        }
        Error::NoSuchEnumVariant { expected, found, outer } => {
            let outer = outer.as_deref().unwrap_or("value");
            if let Some(unit) = quantity::by_name(outer) {
                let rule = if found.parse::<f64>().is_ok() || found == "NaN" || found == "inf" {
                    format!("{} needs its unit", unit.what)
                } else {
                    format!("`{found}` is not a unit of {}", unit.what)
                };
                let remedy = written_small(document, value, found, expected);
                let remedy = remedy.unwrap_or_else(|| unit.remedy.to_string());
                return mended(document, value, rule, remedy, unit.sample);
            }
            let outer = spaced(outer);
            let article = if outer.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            let rule = format!("`{found}` is not {article} {outer}");
            (at_value(document, value, start, rule, choices(found, expected)), None)
        }
        Error::MissingStructField { field, outer } => {
            let value = document.tree().around(reported);
            let value = enclosing_struct(document, value, reported);
            let outer = outer.as_deref().map(|o| format!("{o} ")).unwrap_or_default();
            let rule = format!("the field `{field}` is missing");
            let remedy = format!("{outer}needs it: write `{field}: ...`");
            (at_value(document, value, document.tree().span(value).start, rule, remedy), None)
        }
        Error::Message(message) if message.starts_with(UNIT_MISSING) => {
            let name = &message[UNIT_MISSING.len()..];
            match quantity::by_name(name) {
                Some(unit) => {
                    let rule = format!("{} needs its unit", unit.what);
                    mended(document, value, rule, unit.remedy.to_string(), unit.sample)
                }
                None => (at_value(document, value, start, message.clone(), String::new()), None),
            }
        }
        Error::Message(message) if message.starts_with(SOURCED) => {
            let unit = quantity::by_name(&message[SOURCED.len()..]);
            let (what, sample) = unit.map_or(("a number", "1"), |unit| (unit.what, unit.sample));
            let rule = format!("{what} of a hardware file needs its source");
            let remedy = format!("write ({sample}, datasheet(\"where it stands\"))");
            let repair = format!("({sample}, assumed(\"-\"))");
            mended(document, value, rule, remedy, &repair)
        }
        Error::IntegerOutOfBounds => {
            let span = document.tree().span(value);
            let negative = document.text()[span.clone()].starts_with('-');
            let remedy = if negative { "write a number from 0 up" } else { "write a smaller one" };
            // ron points behind the sign.
            (at_value(document, value, span.start, form(&error.code), remedy.to_string()), None)
        }
        other => (other_form(document, value, start, reported, other), None),
    }
}

/// `Write one of ...`, with the nearest name first if there is a near one.
pub fn choices(found: &str, known: &[&str]) -> String {
    let mut list = known[..known.len().min(MAX_LISTED)].join(", ");
    if known.len() > MAX_LISTED {
        list.push_str(", ...");
    }
    match nearest(found, known) {
        Some(near) => format!("did you mean `{near}`? known: {list}"),
        None => format!("known: {list}"),
    }
}

/// The known word that differs from `found` by the fewest letters, if that is not most of them, or
/// the only one that begins with it.
pub fn nearest<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let known = &known[..known.len().min(MAX_SEARCHED)];
    let mut longer = known.iter().filter(|word| found.len() >= 3 && word.starts_with(found));
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    let limit = (found.chars().count() / 3).max(1);
    known
        .iter()
        .map(|word| (distance(&found.to_lowercase(), &word.to_lowercase()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// `MiB(128)` is `mib(128)`: how a value is written whose unit is only written large.
fn written_small(
    document: &Document,
    value: ValueId,
    found: &str,
    units: &[&str],
) -> Option<String> {
    let small = units.iter().find(|unit| unit.eq_ignore_ascii_case(found))?;
    let text = &document.text()[document.tree().span(value)];
    let rest = text.strip_prefix(found)?;
    Some(format!("units are written small: {}", shorten(&format!("{small}{rest}"))))
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

/// An error of form that only needs better words.
fn other_form(
    document: &Document,
    value: ValueId,
    start: usize,
    reported: usize,
    error: &Error,
) -> Diagnostic {
    let tree = document.tree();
    let text = &document.text()[tree.span(value)];
    let before = tree.around(reported.saturating_sub(1));
    let word = &document.text()[tree.span(before)];
    match error {
        Error::ExpectedStructLike if word.chars().all(|c| c == '_' || c.is_alphanumeric()) => {
            let rule = format!("`{word}` needs its brackets");
            let remedy = format!("write `{word}(...)`, or `{word}()` for the defaults");
            at_value(document, before, tree.span(before).start, rule, remedy)
        }
        Error::ExpectedComma if text.ends_with("()") => {
            let word = text.trim_end_matches("()").trim_end();
            let rule = format!("`{word}` takes no brackets");
            at_value(document, value, tree.span(value).start, rule, format!("write `{word}`"))
        }
        // ron reads `1.5` as the whole number 1 and then wants a comma, or the end.
        Error::ExpectedComma | Error::TrailingCharacters
            if text.contains('.') && text.parse::<f64>().is_ok() =>
        {
            at_value(document, value, start, form(&Error::ExpectedInteger), as_whole(text))
        }
        Error::ExpectedInteger | Error::InvalidIntegerDigit { .. } => {
            at_value(document, value, start, form(error), as_whole(text))
        }
        Error::ExpectedStructLikeEnd
            if tree.parent(value).is_some_and(|call| is_call(document, call)) =>
        {
            let call = tree.parent(value).expect("it was just asked for");
            let word = &document.text()[tree.span(call)];
            let word = word.split('(').next().unwrap_or(word).trim_end();
            let first = tree.children(call).next().map(|first| &document.text()[tree.span(first)]);
            let rule = format!("`{word}` takes one value");
            let first = shorten(first.unwrap_or("..."));
            let remedy = format!("write `{word}({})`", first.trim_matches('`'));
            at_value(document, call, tree.span(call).start, rule, remedy)
        }
        _ => at_value(document, value, start, form(error), String::new()),
    }
}

pub(crate) fn unknown_field(
    document: &Document,
    value: ValueId,
    start: usize,
    expected: &[&str],
    found: &str,
    outer: Option<&str>,
) -> (Diagnostic, Option<Repair>) {
    let tree = document.tree();
    let parent = enclosing_struct(document, value, start);
    let field = tree.children(parent).find(|&child| tree.name(child) == Some(found));
    let outer = outer.map_or("this".to_string(), |name| format!("`{name}`"));
    let rule = format!("{outer} has no field `{found}`");
    let Some(field) = field else {
        return (at_value(document, value, start, rule, choices(found, expected)), None);
    };
    let span = tree.span(field);
    // The name stands before the value; only white space and a colon lie between, or comments,
    // and then the search below may fail, which only costs the search for further mistakes.
    let name = document.text()[..span.start].rfind(found);
    let repair = name.map(|name| Repair::Remove(name..span.end));
    let place = name.unwrap_or(span.start);
    (at_value(document, field, place, rule, choices(found, expected)), repair)
}

fn mended(
    document: &Document,
    value: ValueId,
    rule: String,
    remedy: String,
    sample: &str,
) -> (Diagnostic, Option<Repair>) {
    let span = document.tree().span(value);
    let diagnostic = at_value(document, value, span.start, rule, remedy);
    (diagnostic, Some(Repair::Replace(span, sample.to_string())))
}

/// A problem with `value`: at `start` in a file as it is on disk, else where the path is there.
pub(crate) fn at_value(
    document: &Document,
    value: ValueId,
    start: usize,
    rule: String,
    remedy: String,
) -> Diagnostic {
    let path = document.tree().path(value);
    let found = shorten(&document.text()[document.tree().span(value)]);
    let mut diagnostic = document.problem_found(&path, rule, found, remedy);
    if !document.is_changed() {
        diagnostic.place = Some(place_in(document.text(), start));
    }
    diagnostic
}

/// A word with values in brackets that have no names, such as `mib(128, 4)`.
fn is_call(document: &Document, value: ValueId) -> bool {
    let tree = document.tree();
    let text = &document.text()[tree.span(value)];
    let named = tree.children(value).any(|child| tree.name(child).is_some());
    text.starts_with(|c: char| c == '_' || c.is_alphabetic()) && text.ends_with(')') && !named
}

/// The struct that ends at or lies around `start`.
fn enclosing_struct(document: &Document, value: ValueId, start: usize) -> ValueId {
    let tree = document.tree();
    if tree.shape(value) == Shape::Struct {
        return value;
    }
    // ron reports a missing field just behind the closing bracket.
    let inner = tree.around(start.saturating_sub(1));
    if tree.shape(inner) == Shape::Struct { inner } else { tree.parent(inner).unwrap_or(inner) }
}

/// ron's own words, without its opinions on Rust.
fn form(error: &Error) -> String {
    let said = match error {
        Error::ExpectedDifferentStructName { expected, found } => {
            return format!("`{expected}` must stand here, not `{found}`");
        }
        Error::ExpectedFloat => return "a number must stand here".to_string(),
        Error::ExpectedInteger | Error::InvalidIntegerDigit { .. } => {
            return "a whole number must stand here".to_string();
        }
        Error::IntegerOutOfBounds => {
            return "a whole number within range must stand here".to_string();
        }
        Error::ExpectedString => return "a string in double quotes must stand here".to_string(),
        Error::ExpectedArray => return "a list must stand here: [ ... ]".to_string(),
        Error::ExpectedMap => return "a map must stand here: { ... }".to_string(),
        Error::ExpectedIdentifier => return "a word must stand here".to_string(),
        other => other.to_string(),
    };
    let mut letters = said.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => said,
    }
}

/// `RawPolicy` is how Rust says it; people say `policy`.
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

/// How many letters are missing, extra, different or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    // Row i + 1 is the distance of a[..=i] to every beginning of b.
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = rows[i][j] + usize::from(a[i] != b[j]);
            let mut least = changed.min(row[j] + 1).min(rows[i][j + 1] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
