//! A scenario's document, with what is set from outside, before it means anything.

use crate::scenario::files::{Files, Taken};
use crate::scenario::machines;
use crate::text::ron_text::{Document, is_name};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;

/// The document with its overrides, and the files that it may name.
pub(crate) fn open(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<(Document, Files), Diagnostics> {
    let mut document = Document::read(path)?;
    let name = name_of(path);
    if matches!(name.as_str(), "." | "..") {
        let rule = "a scenario's name is that of its folder of results";
        return Err(Diagnostics::one(path, None, rule, name, "give the file another name"));
    }
    let mut taken = None;
    for (at, value) in overrides {
        let shown: String = value.chars().take(60).collect();
        let note = format!("--set {at}={shown}");
        match at == machines::PATH {
            true => document = instead(&document, value, &note, &mut taken)?,
            false => document = with(&document, at, value, &note)?,
        }
    }
    let mut files = Files::around(path, registry)?;
    files.taken = taken;
    Ok((document, files))
}

/// The document with another machine, or others; one that stands for several is noted.
fn instead(
    document: &Document,
    value: &str,
    note: &str,
    taken: &mut Option<Taken>,
) -> Result<Document, Diagnostics> {
    // A list that is wrong can be replaced like any other.
    let several = machines::listed(document).unwrap_or_default();
    let own = machines::meant(&several, value);
    let next = match own {
        Some(own) => machines::alone(document, &several[own]),
        None => with(document, machines::PATH, value, note)?,
    };
    if !several.is_empty() {
        let labels = several.into_iter().map(|machine| machine.label).collect();
        *taken = machines::is_one(&next).then_some(Taken { labels, own });
    }
    Ok(next)
}

/// The document with another value at `path`, which may lead into its machine.
pub(crate) fn with(
    document: &Document,
    path: &str,
    value: &str,
    note: &str,
) -> Result<Document, Diagnostics> {
    match machines::path_within(path) {
        Some(within) => machines::with(document, within, value, note),
        // A shell eats quotes: a bare word names a machine whatever stood there.
        None if path == machines::PATH && is_name(value.trim()) => {
            document.with(path, &format!("\"{}\"", value.trim()), note)
        }
        None => document.with(path, value, note),
    }
}

/// The file's name without `.ron`.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
