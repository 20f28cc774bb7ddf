//! The tables of one type: fields, or variants and what stands in their brackets.

use super::homes::Homes;
use super::types::{Doc, Field, Inside, Made, Types, Unique, Variant, snake_case};
use super::words::words;
use std::fmt::Write;

/// What a table needs to know of where it stands.
pub(crate) struct Place<'p> {
    pub(crate) page: &'p str,
    pub(crate) homes: &'p Homes,
    pub(crate) types: &'p Types,
}

/// The tables of a type, without a line break at the end.
pub(crate) fn table(unique: &Unique, place: &Place<'_>) -> Result<String, String> {
    match &place.types.get(unique).made {
        Made::Fields(fields) => {
            let mut text = "| field | type | default | meaning |\n|---|---|---|---|\n".to_owned();
            for field in fields {
                let row = row(field, None, unique, place)?;
                text.push_str(&row);
            }
            Ok(text.trim_end().to_owned())
        }
        Made::Variants(variants) => choices(variants, unique, place),
    }
}

fn choices(variants: &[Variant], unique: &Unique, place: &Place<'_>) -> Result<String, String> {
    let mut text = "| one of | meaning |\n|---|---|\n".to_owned();
    let mut below = String::new();
    for variant in variants {
        let meaning = meaning(&variant.doc, &format!("{unique}: {}", variant.name))?;
        let name = &variant.name;
        let written = match &variant.inside {
            Inside::Nothing => format!("`{name}`"),
            Inside::Fields(fields) => {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                for field in fields {
                    below += &row(field, Some(name), unique, place)?;
                }
                format!("`{name}({})`", names.join(", "))
            }
            Inside::Values(values) => {
                let of = |of| words(of, &unique.file, place.page, place.homes, place.types);
                let all: Result<Vec<String>, String> = values.iter().map(of).collect();
                format!("`{name}(...)`: {}", all?.join(", "))
            }
        };
        let default = match (variant.is_default, meaning.ends_with('.')) {
            (false, _) => "",
            (true, true) => " The default.",
            (true, false) => "; the default",
        };
        let _ = writeln!(text, "| {written} | {meaning}{default} |");
    }
    if !below.is_empty() {
        text += "\n| field | of | type | default | meaning |\n|---|---|---|---|---|\n";
        text += &below;
    }
    Ok(text.trim_end().to_owned())
}

fn row(
    field: &Field,
    of: Option<&str>,
    unique: &Unique,
    place: &Place<'_>,
) -> Result<String, String> {
    let at = format!("{unique}: {}", field.name);
    let Doc { values, of: called, default, .. } = &field.doc;
    let mut is = match called {
        Some(called) => called.clone(),
        None => words(&field.is, &unique.file, place.page, place.homes, place.types)
            .map_err(|problem| format!("{at}: {problem}"))?,
    };
    if let Some(values) = values {
        let _ = write!(is, ", {values}");
    }
    let is = is.replace(" with source, ", " with source: ");
    let default = match default {
        Some(default) => default.clone(),
        None => left_out(field, unique, place.types).ok_or(format!("{at}: no default is said"))?,
    };
    let of = of.map(|of| format!(" `{of}` |")).unwrap_or_default();
    let meaning = meaning(&field.doc, &at)?;
    Ok(format!("| `{}` |{of} {is} | {default} | {meaning} |\n", field.name))
}

/// What holds where a field is not written, if its type says so.
fn left_out(field: &Field, unique: &Unique, types: &Types) -> Option<String> {
    let syn::Type::Path(path) = &field.is else { return Some("required".to_owned()) };
    let name = path.path.segments.last()?.ident.to_string();
    if name == "Option" {
        return Some("none".to_owned());
    }
    if !field.may_be_left_out {
        return Some("required".to_owned());
    }
    let known = [("Vec", "`[]`"), ("BTreeMap", "`{}`"), ("bool", "`false`")];
    if let Some((_, known)) = known.iter().find(|(known, _)| *known == name) {
        return Some((*known).to_owned());
    }
    let Made::Variants(variants) = &types.get(&types.resolve(&name, &unique.file)?).made else {
        return None;
    };
    let chosen = variants.iter().find(|variant| variant.is_default)?;
    Some(format!("`{}`", chosen.name))
}

/// A doc comment as a cell: links to Rust's items are the words of files.
fn meaning(doc: &Doc, at: &str) -> Result<String, String> {
    if doc.text.is_empty() {
        return Err(format!("{at} has no doc comment"));
    }
    let mut text = String::new();
    let mut rest = doc.text.as_str();
    while let Some((before, behind)) = rest.split_once("[`") {
        text.push_str(before);
        let Some((path, after)) = behind.split_once("`]") else { return Err(at.to_owned()) };
        match after.starts_with('(') {
            true => _ = write!(text, "[`{path}`]"),
            false => {
                let last = path.rsplit("::").next().unwrap_or(path);
                let _ = write!(text, "`{}`", snake_case(last));
            }
        }
        rest = after;
    }
    text.push_str(rest);
    let text = text.trim_end_matches('.');
    // One sentence needs no full stop in a table; several do.
    let stop = if text.contains(". ") { "." } else { "" };
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    // What begins with more than one capital, or is one, is a name.
    let is_word = text.starts_with("A ")
        || letters.clone().next().is_some_and(|second| second.is_lowercase());
    match stop.is_empty() && is_word {
        true => Ok(format!("{first}{}", letters.as_str())),
        false => Ok(format!("{text}{stop}")),
    }
}
