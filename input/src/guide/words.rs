//! A command line's words as keys and values, as a shell would hand them over.
//!
//! Quotes, `\` and continued lines are understood, nothing is expanded.
//! Invariant: every word behind the program's name is in one entry, with its place.

use super::yaml::{Entry, MAX_BYTES};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Most words.
const MAX_WORDS: usize = 1000;

struct Word {
    text: String,
    place: Place,
}

/// What a program takes: how it may be called, and which flags have no value.
pub(super) struct Grammar {
    /// The words that start it, its longest calls first.
    pub(super) calls: &'static [&'static [&'static str]],
    /// How flags without a value begin.
    pub(super) alone: &'static [&'static str],
}

/// Flags with their values. Words without a flag are `model`.
pub(super) fn entries(
    file: &Path,
    text: &str,
    grammar: &Grammar,
) -> Result<Vec<Entry>, Diagnostics> {
    let words = split(file, text)?;
    // `CUDA_VISIBLE_DEVICES=0 vllm serve ...`: variables are the shell's.
    let mut entries = Vec::new();
    let variables = words.iter().take_while(|word| is_variable(&word.text)).count();
    for word in &words[..variables] {
        let (name, value) = word.text.split_once('=').expect("a variable");
        entries.push(entry(format!("${name}"), value, word.place));
    }
    let words = &words[variables..];
    let called = |call: &&&[&str]| {
        words.len() >= call.len() && call.iter().zip(words).all(|(a, b)| *a == b.text)
    };
    let skip = grammar.calls.iter().find(called).map_or(0, |call| call.len());
    let mut rest = words[skip..].iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = flag(&word.text) else {
            entries.push(entry("model".to_owned(), &word.text, word.place));
            continue;
        };
        if let Some((name, value)) = flag.split_once('=') {
            entries.push(entry(name.to_owned(), value, word.place));
            continue;
        }
        let plain = flag.replace('_', "-");
        let is_alone = grammar.alone.iter().any(|start| plain.starts_with(start));
        let mut values = Vec::new();
        while let Some(next) = rest.next_if(|next| !is_alone && self::flag(&next.text).is_none()) {
            values.push(next.text.as_str());
        }
        let value = if values.is_empty() { "true".to_owned() } else { values.join(" ") };
        entries.push(entry(flag.to_owned(), &value, word.place));
    }
    Ok(entries)
}

fn entry(key: String, value: &str, place: Place) -> Entry {
    Entry { path: vec![key], value: Some(value.to_owned()), place }
}

/// A flag without its dashes; negative numbers are values.
fn flag(word: &str) -> Option<&str> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    bare.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(bare)
}

fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        !name.is_empty() && name.chars().all(plain)
    })
}

fn split(file: &Path, text: &str) -> Result<Vec<Word>, Diagnostics> {
    let wrong = |place, rule: &str, found: &str, remedy: &str| {
        Err(Diagnostics::one(file, place, rule, found, remedy))
    };
    if text.len() > MAX_BYTES {
        return wrong(None, "a command line has at most 64 KiB", "", "leave out what is no flag");
    }
    let mut words: Vec<Word> = Vec::new();
    let mut open: Option<Word> = None;
    let mut quote: Option<(char, Place)> = None;
    let mut at = Place { line: 1, column: 1 };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let place = at;
        let step = |at: &mut Place, c: char| match c {
            '\n' => *at = Place { line: at.line + 1, column: 1 },
            _ => at.column += 1,
        };
        step(&mut at, c);
        let is_open = open.is_some();
        let mut push = |c: char| {
            open.get_or_insert_with(|| Word { text: String::new(), place }).text.push(c);
        };
        match (quote, c) {
            (Some((with, _)), _) if c == with => quote = None,
            (Some(('\'', _)), _) => push(c),
            (_, '\\') => {
                if let Some(next) = rest.next() {
                    step(&mut at, next);
                    match next {
                        '\n' => {}
                        // Between double quotes most characters keep their backslash.
                        _ if quote.is_some() && !"\"\\$`".contains(next) => {
                            push('\\');
                            push(next);
                        }
                        _ => push(next),
                    }
                }
            }
            (Some(_), _) => push(c),
            (None, '"' | '\'') => {
                quote = Some((c, place));
                open.get_or_insert_with(|| Word { text: String::new(), place });
            }
            (None, '#') if !is_open => {
                while let Some(next) = rest.next_if(|&next| next != '\n') {
                    step(&mut at, next);
                }
            }
            (None, '|' | '&' | ';' | '<' | '>' | '`') => {
                let remedy = "write the one command, without pipes and what stands behind it";
                return wrong(Some(place), "this is one command line", &c.to_string(), remedy);
            }
            (None, _) if c.is_whitespace() => words.extend(open.take()),
            (None, _) => push(c),
        }
        if words.len() > MAX_WORDS {
            return wrong(Some(at), "a command line has at most 1000 words", "", "leave some out");
        }
    }
    if let Some((_, place)) = quote {
        return wrong(Some(place), "a quote has its end", "none", "write it");
    }
    words.extend(open);
    Ok(words)
}
