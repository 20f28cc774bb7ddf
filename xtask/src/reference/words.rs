//! Types in words: `Option<Vec<RawPin>>` is a list of pins that may be left out.
//!
//! People who write files read units and shapes, not Rust. A type that has a table is a link to it;
//! one of a few words is those words.

use super::homes::Homes;
use super::types::{Made, Types, Unique};
use syn::{GenericArgument, PathArguments, Type};

/// Most words that stand in a cell.
const MAX_WORDS: usize = 9;

/// Types of one name that are the same everywhere, and what they are called.
const KNOWN: [(&str, &str); 23] = [
    ("String", "text"),
    ("bool", "`true` or `false`"),
    ("u8", "whole number"),
    ("u32", "whole number"),
    ("u64", "whole number"),
    ("f64", "number"),
    ("Size", "size"),
    ("Duration", "time"),
    ("Bandwidth", "rate"),
    ("FlopRate", "FLOP rate"),
    ("FlopCount", "number of FLOPs"),
    ("Copies", "number of copies"),
    ("Outstanding", "number of requests"),
    ("Drives", "number of drives"),
    ("Budget", "size"),
    ("EnergyPerBit", "energy per bit"),
    ("Power", "power"),
    ("StandingPower", "standing power"),
    ("Price", "price"),
    ("PricePerSize", "price per size"),
    ("Targets", "list of `q`, `k`, `v`, `o`, `gate`, `up`, `down`"),
    ("D", "size"),
    ("X", "size or copies or share"),
];

/// Whether a name in Rust is said in words of its own.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, _)| *known == name)
}

/// A type as a cell of a table on a page says it; `file` is where it stands.
pub(crate) fn words(
    of: &Type,
    file: &str,
    page: &str,
    homes: &Homes,
    types: &Types,
) -> Result<String, String> {
    let inside = |of: &Type| words(of, file, page, homes, types);
    if let Type::Tuple(tuple) = of {
        let all: Result<Vec<String>, String> = tuple.elems.iter().map(inside).collect();
        return Ok(format!("({})", all?.join(", ")));
    }
    let Type::Path(path) = of else { return Err(format!("{file}: a type that is no path")) };
    let last = path.path.segments.last().ok_or("a path without an end")?;
    let name = last.ident.to_string();
    let arguments: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|one| if let GenericArgument::Type(of) = one { Some(of) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    match (name.as_str(), arguments.as_slice()) {
        ("Option" | "Box" | "Quantity", [of]) => inside(of),
        ("Sourced", [of]) => Ok(format!("{} with source", inside(of)?)),
        ("Vec", [of]) => Ok(format!("list of {}", plural(&inside(of)?))),
        ("BTreeMap", [_, of]) => Ok(format!("map of names to {}", inside(of)?)),
        _ => named(&name, file, page, homes, types),
    }
}

/// More than one of what a cell says: of a link, its text.
fn plural(one: &str) -> String {
    match one.split_once("](") {
        Some((text, link)) if text.ends_with("axis") => {
            format!("{}es]({link}", text.trim_end_matches("is"))
        }
        Some((text, link)) if one.starts_with('[') && !text.ends_with(['s', 'y']) => {
            format!("{text}s]({link}")
        }
        None if one.starts_with("list of") => one.replacen("list", "lists", 1),
        None if ["text", "number"].iter().any(|end| one.ends_with(end)) => format!("{one}s"),
        _ => one.to_owned(),
    }
}

fn named(
    name: &str,
    file: &str,
    page: &str,
    homes: &Homes,
    types: &Types,
) -> Result<String, String> {
    if let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return Ok((*known).to_owned());
    }
    let unique = types.resolve(name, file);
    let Some(unique) = unique else {
        return Err(format!("{file}: nothing says what {name} is: write `Type: ...` in its doc"));
    };
    let found = types.get(&unique);
    let written = written(&unique, types);
    if let Made::Variants(variants) = &found.made
        && found.is_words()
        && variants.len() <= MAX_WORDS
    {
        let all: Vec<String> =
            variants.iter().map(|variant| format!("`{}`", variant.name)).collect();
        let (last, before) = all.split_last().ok_or("a choice of nothing")?;
        return Ok(match before {
            [] => last.clone(),
            before => format!("{} or {last}", before.join(", ")),
        });
    }
    Ok(format!("[{written}]({})", homes.link(&unique, page)?))
}

/// What a type is called in files: in lower case, words apart.
pub(crate) fn written(unique: &Unique, types: &Types) -> String {
    if types.get(unique).name == "Hidden" {
        return "hidden memory".to_owned();
    }
    let mut words = String::new();
    for (index, letter) in types.get(unique).name.trim_start_matches("Raw").char_indices() {
        if letter.is_uppercase() && index > 0 {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
