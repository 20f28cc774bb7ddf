//! JSON that other programs write: whole files, lines, and mistakes with their places.

use crate::shipped;
use crate::trace::tables::{Findings, Guard, Source, describe};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::{Diagnostics, Place};

/// A file that ships or is held, or a regular one, open, and its length.
pub(crate) fn open(path: &Path) -> Result<(u64, Box<dyn Read>), Diagnostics> {
    if let Some(bytes) = shipped::bytes(path) {
        return Ok((bytes.len() as u64, Box::new(bytes)));
    }
    let cannot = |error| cannot_read(path, &error);
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if !meta.is_file() {
        return Err(Diagnostics::one(path, None, "not a regular file", "", "name a file"));
    }
    Ok((meta.len(), Box::new(File::open(path).map_err(cannot)?)))
}

/// That a file cannot be read, and why.
pub(crate) fn cannot_read(path: &Path, error: &std::io::Error) -> Diagnostics {
    Diagnostics::one(path, None, "the file cannot be read", error.to_string(), "check the path")
}

/// The bytes of a regular file of at most `most` bytes; `remedy` for larger ones.
pub(crate) fn read(path: &Path, most: u64, remedy: &str) -> Result<Vec<u8>, Diagnostics> {
    let (length, file) = open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| cannot_read(path, &error))?;
    if bytes.len() as u64 > most {
        let rule = format!("a file may have at most {most} bytes");
        let found = format!("{length} bytes");
        return Err(Diagnostics::one(path, None, rule, found, remedy));
    }
    Ok(bytes)
}

/// A JSON object as `T`. An array would do for serde, whose fields it would take by their order.
pub(crate) fn object<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    remedy: &str,
) -> Result<T, Diagnostics> {
    // Some editors put a mark in front of UTF-8.
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if let Some(first) = bytes.trim_ascii_start().first().filter(|first| **first != b'{') {
        let place = Some(Place { line: 1, column: 1 });
        let found = (*first as char).escape_default().to_string();
        return Err(Diagnostics::one(path, place, "a JSON object is wanted", found, remedy));
    }
    serde_json::from_slice(bytes).map_err(|error| problem(path, 1, &error, remedy))
}

/// What serde_json says of a text that begins in line `first`, at its place.
pub(crate) fn problem(
    path: &Path,
    first: u64,
    error: &serde_json::Error,
    remedy: &str,
) -> Diagnostics {
    let line = first + (error.line() as u64).saturating_sub(1);
    let place = Place { line, column: error.column() as u64 };
    let place = Some(place).filter(|_| error.line() > 0);
    let mut rule = error.to_string();
    // The error's own text ends with a place that counts from the start of what was read.
    if let Some(end) = rule.rfind(" at line ") {
        rule.truncate(end);
    }
    // It quotes what it found, of whatever length.
    let rule: String = rule.chars().take(200).collect();
    Diagnostics::one(path, place, rule, "", remedy)
}

/// What some editors put in front of UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of one JSON object per line, of which one line is in memory at a time.
pub(crate) struct Lines<T> {
    pub(crate) path: PathBuf,
    reader: BufReader<Guard>,
    buffer: Vec<u8>,
    /// Lines read so far.
    pub(crate) count: u64,
    remedy: &'static str,
    object: PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<T> {
    pub(crate) fn of(source: Source, remedy: &'static str) -> Lines<T> {
        let Source { path, text } = source;
        let (reader, buffer) = (BufReader::new(text), Vec::new());
        Lines { path, reader, buffer, count: 0, remedy, object: PhantomData }
    }

    /// The next line that can be read, and how long it is; none at the end of the file or once
    /// there are `enough` findings.
    pub(crate) fn next(&mut self, enough: u64, findings: &mut Findings) -> Option<(T, usize)> {
        while findings.count() < enough {
            self.buffer.clear();
            match self.reader.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return None,
                Ok(_) => self.count += 1,
                Err(error) => {
                    findings.extend(describe(&self.path, &error));
                    return None;
                }
            }
            let line = self.buffer.trim_ascii_end();
            let line =
                line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.count == 1).unwrap_or(line);
            match serde_json::from_slice(line) {
                Ok(object) => return Some((object, self.buffer.len())),
                Err(error) => {
                    findings.extend(problem(&self.path, self.count, &error, self.remedy));
                }
            }
        }
        None
    }
}

/// Most entries of an object: five times what the largest model has tensors. An entry of ten bytes
/// takes ten times that in memory.
pub(crate) const MAX_ENTRIES: usize = 1 << 19;

/// That an object has more than [`MAX_ENTRIES`].
pub(crate) fn too_many<E: Error>() -> E {
    E::custom(format!("a file lists at most {MAX_ENTRIES} entries"))
}

/// Texts by name in the order of the file, repeated names included; a whole number is its digits.
#[derive(Debug, Default)]
pub(crate) struct Texts(pub(crate) Vec<(String, String)>);

/// A text, or a whole number.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
        from.deserialize_any(Text(String::new()))
    }
}

impl Visitor<'_> for Text {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Texts, D::Error> {
        from.deserialize_map(Texts::default())
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts by name")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Texts, A::Error> {
        while let Some((name, Text(text))) = map.next_entry()? {
            self.0.push((name, text));
            if self.0.len() > MAX_ENTRIES {
                return Err(too_many());
            }
        }
        Ok(self)
    }
}
