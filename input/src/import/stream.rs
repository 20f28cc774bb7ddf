//! JSON of any size as a stream, whatever packs it.
//!
//! Invariant: of the file one buffer is held at a time.

use super::repaired::{Passed, Repaired, TooMuch};
use crate::trace::tables::{LIMITS, Limits, describe, unpacked_by_magic, unpacked_file};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};

/// Files of more text than this are refused: traces of gigabytes are read.
pub(super) const MOST_TEXT: u64 = 256 << 30;

/// The text of a file, mended where it is no JSON.
///
/// # Errors
/// That it cannot be opened.
pub(super) fn open(path: &Path) -> Result<(impl Read + use<>, Passed), Diagnostics> {
    opened(path, None)
}

/// The same of a file that was opened, if it was, with its length.
pub(super) fn opened(
    path: &Path,
    file: Option<(u64, Box<dyn BufRead>)>,
) -> Result<(impl Read + use<>, Passed), Diagnostics> {
    let limits = Limits { expanded: MOST_TEXT, ..LIMITS };
    let (text, limit) = match file {
        Some(file) => unpacked_file(path, file, limits)?,
        None => unpacked_by_magic(path, limits)?,
    };
    let passed = Passed::default();
    let text = Repaired::new(text, limit, passed.clone());
    Ok((BufReader::with_capacity(1 << 16, text), passed))
}

/// What an error of the parser means, after what it read whole.
pub(super) fn refused(path: &Path, error: serde_json::Error, last: &str) -> Diagnostics {
    let place = Place { line: error.line() as u64, column: error.column() as u64 };
    let place = (place.line > 0).then_some(place);
    let behind = format!("behind {last}");
    if error.is_io() {
        let error = io::Error::from(error);
        if let Some(TooMuch(rule)) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            let remedy = "check what the file is";
            return Diagnostics::one(path, place, *rule, behind, remedy);
        }
        let mut said = describe(path, &error);
        for one in &mut said.0 {
            one.found = format!("{} ({behind})", one.found);
        }
        return said;
    }
    if error.is_eof() {
        let remedy = "copy the file again: it was cut off";
        return Diagnostics::one(path, place, "the file ends too early", behind, remedy);
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text).to_owned();
    let remedy = "export the trace again, or correct the file there";
    Diagnostics::one(path, place, text, behind, remedy)
}
