//! Where headings and the tables of types are, and links that lead there.
//!
//! Texts and doc comments link to `#heading` wherever it is: which page has it is found here, so
//! that a section can move without anybody looking for its links.
//! Invariant: a heading that links name stands once in all pages of the reference.

use super::types::{Types, Unique};
use std::collections::BTreeMap;

/// A page, or the text of one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Page {
    /// Its file name.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Where headings and the tables of types are.
pub(crate) struct Homes {
    /// Pages by anchor: those of texts, and those that are written by hand.
    anchors: [BTreeMap<String, Vec<String>>; 2],
    /// Page and anchor of the table of a type.
    pub(crate) types: BTreeMap<Unique, (String, String)>,
}

/// What stands between the braces of a mark.
pub(super) fn mark(line: &str) -> Option<&str> {
    line.strip_prefix("{{")?.strip_suffix("}}")
}

/// The anchor of a heading, as GitHub makes it.
pub(crate) fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The headings of a text outside of code.
fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    })
}

pub(crate) fn homes(texts: &[Page], others: &[Page], types: &Types) -> Result<Homes, String> {
    let mut homes = Homes { anchors: Default::default(), types: BTreeMap::new() };
    for (pages, anchors) in [texts, others].into_iter().zip(&mut homes.anchors) {
        for Page { name, text } in pages {
            for heading in headings(text) {
                anchors.entry(anchor(heading)).or_default().push(name.clone());
            }
        }
    }
    for Page { name, text } in texts {
        let mut heading = String::new();
        for line in text.lines() {
            if line.starts_with('#') {
                heading = anchor(line);
            }
            let Some(type_mark) = mark(line).filter(|mark| !mark.starts_with("columns ")) else {
                continue;
            };
            let unique = types.named(type_mark)?;
            let home = (name.clone(), heading.clone());
            if homes.types.insert(unique, home).is_some() {
                return Err(format!("{name}: {type_mark} has two tables"));
            }
        }
    }
    Ok(homes)
}

impl Homes {
    /// The link from a page to the table of a type.
    pub(crate) fn link(&self, unique: &Unique, page: &str) -> Result<String, String> {
        let (home, anchor) =
            self.types.get(unique).ok_or(format!("{unique} is linked to and on no page"))?;
        Ok(if home == page { format!("#{anchor}") } else { format!("{home}#{anchor}") })
    }

    /// A line of a page with its links to headings leading there.
    pub(super) fn linked(&self, line: &str, page: &str) -> Result<String, String> {
        let mut pieces = line.split("](#");
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (anchor, rest) = piece.split_once(')').ok_or(format!("{page}: {line}"))?;
            let mut found = self.anchors.iter().filter_map(|anchors| anchors.get(anchor));
            let home = match found.next().map(Vec::as_slice).unwrap_or_default() {
                pages if pages.iter().any(|known| known == page) => "",
                [only] => only.as_str(),
                [] => return Err(format!("{page}: no heading is #{anchor}: {line}")),
                _ => return Err(format!("{page}: several pages have #{anchor}: name one")),
            };
            text += &format!("]({home}#{anchor}){rest}");
        }
        Ok(text)
    }
}
