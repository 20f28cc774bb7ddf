//! `cargo xtask reference`: the pages on file formats, written from the types that read the files.
//!
//! A page is a text in `xtask/reference` in which `{{RawTier}}` on a line of its own stands for the
//! table of that type: fields or variants with their types, defaults and doc comments, taken from
//! the source. What a field is called, whether it must be written and what it means is therefore
//! said once, where it is read.
//! Invariant: every type that can stand in a file, found by following the fields of [`ROOTS`], is on
//! exactly one page, and every field of it has a doc comment; otherwise nothing is written.

mod homes;
mod page;
mod table;
mod types;
mod words;
mod wrap;

use homes::{Page, homes};
use std::collections::BTreeSet;
use std::fs;
use tiersim_tests::files::root;
use types::{Types, Unique};
use words::is_known;

/// The folder of the texts.
const TEXTS: &str = "xtask/reference";
/// The folder of the pages.
const PAGES: &str = "docs/reference";
/// What each kind of file is read as.
const ROOTS: [&str; 6] = [
    "RawScenario",
    "RawMachine",
    "RawHardware",
    "RawPart",
    "RawOpTimes",
    "RawWeights in scenario/weights.rs",
];
/// What the header of a trace is read as; its tables are texts of columns.
const HEADER: &str = "Header in trace/header.rs";

/// The pages by their file names, as the types say today.
///
/// Errors name the field without a doc comment, the type that stands on no page, or the mark that
/// no type has.
pub(crate) fn pages() -> Result<Vec<(String, String)>, String> {
    let types = Types::read(&root())?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(root().join(TEXTS)).map_err(|error| format!("{TEXTS}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        texts.push(Page { name, text });
    }
    texts.sort();
    let homes = homes(&texts, &hand_written()?, &types)?;
    let shown: BTreeSet<&Unique> = homes.types.keys().collect();
    let mut roots = ROOTS.to_vec();
    roots.push(HEADER);
    for name in roots {
        for found in types.reachable(&types.named(name)?)? {
            let in_words = types.get(&found).is_words() || is_known(&found.name);
            if !shown.contains(&found) && !in_words {
                return Err(format!("{found} can stand in a file and is on no page"));
            }
        }
    }
    texts.iter().map(|page| Ok((page.name.clone(), page.written(&homes, &types)?))).collect()
}

/// The pages of the reference that no text is for, so that links to them are found.
fn hand_written() -> Result<Vec<Page>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(PAGES)).map_err(|error| format!("{PAGES}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".md") && !root().join(TEXTS).join(&name).exists() {
            let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            found.push(Page { name, text });
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the pages; how many there are.
pub(crate) fn reference() -> Result<String, String> {
    let pages = pages()?;
    for (name, text) in &pages {
        let path = root().join(PAGES).join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(format!("{} pages of {PAGES} are written", pages.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_say_what_the_types_say() {
        if std::env::var_os("TIERSIM_RENEW").is_some() {
            reference().unwrap_or_else(|problem| panic!("{problem}"));
        }
        for (name, text) in pages().unwrap_or_else(|problem| panic!("{problem}")) {
            let path = root().join(PAGES).join(&name);
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == text, "{PAGES}/{name} is old: run `cargo xtask reference`");
        }
    }
}
