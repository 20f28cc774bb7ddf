//! A command line's words as keys and values, as a shell would hand them over.
//!
//! Invariant: every word behind the program's name is in one entry, with its place.

use super::shell::{Word, command, line};
use super::yaml::Entry;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// What a program takes: how it may be called, and which flags have no value.
pub(super) struct Grammar {
    /// The words that start it, its longest calls first.
    pub(super) calls: &'static [&'static [&'static str]],
    /// How flags without a value begin.
    pub(super) alone: &'static [&'static str],
    /// Which command of a shell script it is; none where text is one command line.
    pub(super) script: Option<fn(&[Word]) -> bool>,
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
    let words = match grammar.script {
        Some(wanted) => command(file, text, wanted)?,
        None => line(file, text)?,
    };
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
    let program = grammar.script.and_then(|_| words.iter().position(is_program));
    let skip = program.map_or(skip, |at| at + 1);
    launcher(&words[..program.unwrap_or(0)], &mut entries);
    let mut rest = words[skip..].iter().peekable();
    while let Some(word) = rest.next() {
        let Some(flag) = flag(&word.text) else {
            if word.text.starts_with('$') && grammar.script.is_some() {
                // What it stands for, the script does not say.
                entries.push(entry(UNKNOWN.to_owned(), &word.text, word.place));
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
        let (mut values, mut unknown) = (Vec::new(), Vec::new());
        while let Some(next) = rest.next_if(|next| !is_alone && self::flag(&next.text).is_none()) {
            let last = rest.peek().is_none_or(|word| self::flag(&word.text).is_some());
            if !values.is_empty() && last && next.text.starts_with('$') && grammar.script.is_some()
            {
                unknown.push(entry(UNKNOWN.to_owned(), &next.text, next.place));
                continue;
            }
            values.push(next.text.as_str());
        }
        let value = if values.is_empty() { "true".to_owned() } else { values.join(" ") };
        entries.push(entry(flag.to_owned(), &value, word.place));
        entries.append(&mut unknown);
    }
    Ok(entries)
}

/// The file of a program, or its module behind `-m`.
fn is_program(word: &Word) -> bool {
    [".py", ".flex_opt", ".flex_llama"].iter().any(|end| word.text.ends_with(end))
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
