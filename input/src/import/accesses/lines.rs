//! Lines of text of any number, one at a time.
//!
//! Invariant: of the file one buffer and one line are held, and every line but none ends.

use super::group::Groups;
use crate::trace::tables::{Limits, describe, unpacked_by_magic};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::{Diagnostics, Place};

/// The longest line.
const MAX_LINE: u64 = 64 << 10;
/// Traces of hours are hundreds of gigabytes; lines of addresses pack well.
const LIMITS: Limits = Limits { expanded: 1 << 50, ratio: 200, free: 16 << 20 };

/// The lines of a file, packed or not.
pub(super) struct Lines {
    path: PathBuf,
    from: BufReader<Box<dyn Read>>,
    /// Bytes that may still come.
    left: u64,
    line: Vec<u8>,
    /// Lines read so far.
    number: u64,
    /// Bytes of the latest line.
    pub(super) length: usize,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Lines, Diagnostics> {
        let (from, left) = unpacked_by_magic(path, LIMITS)?;
        let (line, number, length) = (Vec::new(), 0, 0);
        let from = BufReader::with_capacity(1 << 16, from);
        Ok(Lines { path: path.to_owned(), from, left, line, number, length })
    }

    /// Reads the next line; whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool, Diagnostics> {
        self.line.clear();
        let most = MAX_LINE.min(self.left) + 1;
        let read = (&mut self.from).take(most).read_until(b'\n', &mut self.line);
        let count = read.map_err(|error| describe(&self.path, &error))?;
        self.length = count;
        if count == 0 {
            return Ok(false);
        }
        self.number += 1;
        if count as u64 > self.left {
            let remedy = "unpack it and check what it is, or split it";
            return Err(self.refuse("the file unpacks to more than is allowed", "", remedy));
        }
        if count as u64 > MAX_LINE {
            return Err(self.refuse("a line of more than 64 KiB", "", "check what the file is"));
        }
        self.left -= count as u64;
        if self.line.pop() != Some(b'\n') {
            let remedy = "copy the file again: it was cut off";
            return Err(self.refuse("the last line has no line break", "", remedy));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }

    /// The line that was read.
    pub(super) fn text(&self) -> Result<&str, Diagnostics> {
        std::str::from_utf8(&self.line).map_err(|error| {
            let found = format!("a byte {:#04x}", self.line[error.valid_up_to()]);
            self.refuse("a line is text", found, "check what the file is")
        })
    }

    /// That the line is refused.
    pub(super) fn refuse(
        &self,
        rule: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostics {
        let place = Some(Place { line: self.number, column: 0 });
        Diagnostics::one(&self.path, place, rule, found, remedy)
    }

    /// That with this line a rule of what is made of the file is broken.
    pub(super) fn broken(&self, rule: String, groups: &Groups) -> Diagnostics {
        let remedy = groups.remedy(&rule);
        self.refuse(rule, "", remedy)
    }

    /// The same of a line that is not what is wanted, as far as a message shows it.
    pub(super) fn no_such(&self, rule: &str, remedy: &str) -> Diagnostics {
        let text = String::from_utf8_lossy(&self.line);
        let shown: String = text.chars().take(60).collect();
        self.refuse(rule, format!("{shown:?}"), remedy)
    }
}

/// A number of hexadecimal digits, at most 16 of them.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// A number of decimal digits.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Seconds with up to nine decimals, in ps.
pub(super) fn seconds(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 {
        return None;
    }
    let part = u128::from(decimal(part)?) * 10u128.pow(12 - part.len() as u32);
    Some(u128::from(decimal(whole)?) * 1_000_000_000_000 + part)
}
