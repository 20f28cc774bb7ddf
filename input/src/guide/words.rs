//! A command line's words as keys and values, as a shell would hand them over.
//!
//! Invariant: every word behind the program's name is in one entry, with its place.

use super::containers;
use super::shell::{Word, command};
use super::yaml::Entry;
use std::ops::Range;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// What a program takes: how it is called, and which flags have no value.
pub(super) struct Grammar {
    /// The words that start it, among those of a command; none where it is no such command, and an
    /// empty range before flags that stand alone.
    pub(super) call: fn(&[Word]) -> Option<Range<usize>>,
    /// Whether the word behind the call is a model, also where the script does not say which.
    pub(super) names_model: bool,
    /// How flags without a value begin.
    pub(super) alone: &'static [&'static str],
}

/// The section of flags that are the launcher's, such as `torchrun`.
pub(super) const LAUNCHER: &str = "launcher";
/// The key of words that may be flags, and that a script does not say.
pub(super) const UNKNOWN: &str = "$flags";

/// Flags with their values. Words without a flag are `model`.
pub(super) fn entries(
    file: &Path,
    text: &str,
    grammar: &Grammar,
) -> Result<Vec<Entry>, Diagnostics> {
    let started = containers::script(file, text)?;
    let text = started.as_deref().unwrap_or(text);
    let bare = |words: &[Word]| words.iter().take_while(|word| is_variable(&word.text)).count();
    let words = command(file, text, |words| (grammar.call)(&words[bare(words)..]).is_some())?;
    // `CUDA_VISIBLE_DEVICES=0 vllm serve ...`: variables are the shell's.
    let mut entries = Vec::new();
    let (variables, words) = words.split_at(bare(&words));
    for word in variables {
        let (name, value) = word.text.split_once('=').expect("a variable");
        entries.push(entry(format!("${name}"), value, word.place));
    }
    let call = (grammar.call)(words).expect("it was found by it");
    launcher(&words[..call.start], &mut entries);
    if let Some(program) = words[call.clone()].iter().find(|word| word.text.ends_with(".py")) {
        let path = [LAUNCHER, "program"].map(str::to_owned).to_vec();
        entries.push(Entry { path, ..entry(String::new(), &program.text, program.place) });
    }
    let words = &words[call.end..];
    let named = words.first().filter(|_| grammar.names_model && !call.is_empty());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = flag(&word.text) else {
            if word.text.starts_with('$') && named != Some(word) {
                entries.push(unknown(word));
                continue;
            }
            entries.push(entry("model".to_owned(), &word.text, word.place));
            continue;
        };
        if let Some((name, value)) = flag.split_once('=') {
            entries.push(entry(name.to_owned(), value, word.place));
            continue;
        }
        let plain = flag.replace('_', "-");
        let is_alone = grammar.alone.iter().any(|start| plain.starts_with(start));
        let (mut values, mut behind) = (Vec::new(), Vec::new());
        while let Some(next) = rest.next_if(|next| !is_alone && self::flag(&next.text).is_none()) {
            let last = rest.peek().is_none_or(|word| self::flag(&word.text).is_some());
            if !values.is_empty() && last && next.text.starts_with('$') {
                behind.push(unknown(next));
                continue;
            }
            values.push(next.text.as_str());
        }
        let value = if values.is_empty() { "true".to_owned() } else { values.join(" ") };
        entries.push(entry(flag.to_owned(), &value, word.place));
        entries.append(&mut behind);
    }
    Ok(entries)
}

/// The word that names a program, by how it ends.
pub(super) fn program(words: &[Word], ends: &[&str]) -> Option<Range<usize>> {
    let at = words.iter().position(|word| ends.iter().any(|end| word.text.ends_with(end)))?;
    Some(at..at + 1)
}

/// Flags alone, which some program takes.
pub(super) fn flags_alone(words: &[Word]) -> Option<Range<usize>> {
    words.first().is_some_and(|word| word.text.starts_with('-')).then_some(0..0)
}

/// What a word stands for, the script does not say: flags that it may hold are behind the key.
fn unknown(word: &Word) -> Entry {
    let mut entry = entry(UNKNOWN.to_owned(), &word.text, word.place);
    let flags = word.may.iter().filter_map(|word| flag(word));
    entry.path.extend(flags.map(|flag| flag.split('=').next().unwrap_or(flag).replace('_', "-")));
    entry
}

/// Flags that stand before the program, in a section of their own.
fn launcher(words: &[Word], entries: &mut Vec<Entry>) {
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = flag(&word.text).filter(|&flag| flag != "m") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value),
            None => match rest.next_if(|next| self::flag(&next.text).is_none()) {
                Some(next) => (flag, next.text.as_str()),
                None => (flag, "true"),
            },
        };
        let mut entry = entry(name.to_owned(), value, word.place);
        entry.path.insert(0, LAUNCHER.to_owned());
        entries.push(entry);
    }
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
