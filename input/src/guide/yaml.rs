//! YAML as far as settings need it: mappings of scalars, in sections, one document.
//!
//! The parser tells one event after the other, and none of them is kept: anchors, and so aliases
//! that multiply, are refused, and depth, size and number of keys are bounded.
//! Invariant: memory is that of the text.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Most bytes of a file.
pub const MAX_BYTES: usize = 64 << 10;
/// Most sections inside each other.
const MAX_DEPTH: usize = 8;
/// Most keys.
const MAX_KEYS: usize = 1000;

/// A value with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The sections that it is in, and its key.
    pub(super) path: Vec<String>,
    /// As written, without quotes; `None` for a list.
    pub(super) value: Option<String>,
    pub(super) place: Place,
}

/// Where it begins.
pub(super) fn place(span: Span) -> Place {
    Place { line: span.start.line() as u64, column: span.start.col() as u64 + 1 }
}

/// That a text is no YAML, and where.
pub(super) fn no_yaml(file: &Path, error: &ScanError) -> Diagnostics {
    let marker = error.marker();
    let place = Place { line: marker.line() as u64, column: marker.col() as u64 + 1 };
    let remedy = "mend it there, or before";
    Diagnostics::one(file, Some(place), "this is no YAML", error.info(), remedy)
}

/// Every value of a file with its keys, in the order of the file.
pub(super) fn entries(file: &Path, text: &str) -> Result<Vec<Entry>, Diagnostics> {
    let wrong = |place, rule: &str, found: &str, remedy: &str| {
        Err(Diagnostics::one(file, place, rule, found, remedy))
    };
    if text.len() > MAX_BYTES {
        let remedy = "leave out what is no setting";
        return wrong(None, "a file of settings has at most 64 KiB", "", remedy);
    }
    let mut entries: Vec<Entry> = Vec::new();
    // Keys of the sections that are open; the last one waits for its value.
    let mut open: Vec<Option<(String, Place)>> = Vec::new();
    let (mut in_list, mut documents) = (0usize, 0);
    // How many values there were when each of them was opened.
    let mut begun: Vec<usize> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => return Err(no_yaml(file, &error)),
        };
        let at = Some(place(span));
        let anchor = match &event {
            Event::Alias(_) => true,
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _) => *anchor > 0,
            _ => false,
        };
        if anchor {
            let remedy = "write the value where it is meant";
            return wrong(at, "settings have no anchors and no aliases", "", remedy);
        }
        if entries.len() > MAX_KEYS {
            return wrong(at, "a file of settings has at most 1000 keys", "", "leave some out");
        }
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    let remedy = "write one file for each";
                    return wrong(at, "a file of settings has one document", "", remedy);
                }
            }
            Event::SequenceStart(..) => {
                in_list += 1;
                if in_list + open.len() > MAX_DEPTH {
                    return wrong(at, "sections are at most 8 deep", "", "write them flat");
                }
                if in_list == 1 {
                    match open.last_mut().map(Option::take) {
                        Some(Some((key, place))) => {
                            let path = path(&open, key);
                            entries.push(Entry { path, value: None, place });
                        }
                        _ => {
                            let rule = "a file of settings is a mapping of keys to values";
                            return wrong(at, rule, "a list", "write `key: value`");
                        }
                    }
                }
            }
            Event::SequenceEnd => in_list -= 1,
            Event::MappingStart(..) if in_list > 0 => {
                in_list += 1;
                if in_list + open.len() > MAX_DEPTH {
                    return wrong(at, "sections are at most 8 deep", "", "write them flat");
                }
            }
            Event::MappingEnd if in_list > 0 => in_list -= 1,
            Event::MappingStart(..) => {
                if open.last().is_some_and(Option::is_none) {
                    return wrong(at, "a key is a word", "a mapping", "write `key: value`");
                }
                open.push(None);
                begun.push(entries.len());
                if open.len() > MAX_DEPTH {
                    return wrong(at, "sections are at most 8 deep", "", "write them flat");
                }
            }
            Event::MappingEnd => {
                open.pop();
                let empty = begun.pop() == Some(entries.len());
                if let Some(Some((key, place))) = open.last_mut().map(Option::take)
                    && empty
                {
                    // Also a section that says nothing is accounted for.
                    let value = Some("{}".to_owned());
                    entries.push(Entry { path: path(&open, key), value, place });
                }
            }
            Event::Scalar(text, style, ..) if in_list == 0 => {
                let Some(last) = open.last_mut() else {
                    // An empty file is one empty word.
                    if text.is_empty() || style == ScalarStyle::Plain && text == "~" {
                        continue;
                    }
                    let rule = "a file of settings is a mapping of keys to values";
                    return wrong(at, rule, &text, "write `key: value`");
                };
                match last.take() {
                    None => *last = Some((text.into_owned(), place(span))),
                    Some((key, place)) => {
                        let value = Some(text.into_owned());
                        entries.push(Entry { path: path(&open, key), value, place });
                    }
                }
            }
            _ => {}
        }
    }
    let mut known: Vec<&[String]> = entries.iter().map(|entry| entry.path.as_slice()).collect();
    known.sort_unstable();
    if let Some(twice) = known.windows(2).find(|pair| pair[0] == pair[1]) {
        let second = entries.iter().rfind(|entry| entry.path == twice[0]).expect("it is there");
        let key = second.path.join(".");
        return wrong(Some(second.place), "a key is given twice", &key, "leave one out");
    }
    Ok(entries)
}

/// The keys of all open sections, and this one.
fn path(open: &[Option<(String, Place)>], key: String) -> Vec<String> {
    let sections = open.iter().flatten().map(|(section, _)| section.clone());
    sections.chain([key]).collect()
}
