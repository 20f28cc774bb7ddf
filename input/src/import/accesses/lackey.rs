//! What `valgrind --tool=lackey --trace-mem=yes` prints: one line per access.
//!
//! `I  addr,size` is an instruction, ` L`, ` S` and ` M` are a load, a store and both; addresses are
//! hexadecimal, sizes decimal. Lines that begin with `==1114==` are valgrind's own. Nothing says when.
//! Invariant: every other line is an access, or the file is refused.

use super::group::Groups;
use super::lines::{Lines, decimal, hex};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Known, Mode};

/// The largest access: no instruction reads or writes more.
const MOST_BYTES: u64 = 4096;

/// Whether a line is valgrind's own: `==1114==` of any run, `--1114--` of `-v`, `**1114**` of the
/// program's through valgrind.
pub(super) fn is_own(text: &str) -> bool {
    ["==", "--", "**"].iter().any(|mark| {
        let number = text.strip_prefix(mark).and_then(|rest| rest.split_once(mark));
        number.is_some_and(|(number, _)| decimal(number).is_some())
    })
}

/// The kind, address and size of a line.
pub(super) fn line(text: &str) -> Option<(char, u64, u64)> {
    let kind = match text.as_bytes() {
        [b'I', b' ', b' ', ..] => 'I',
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', ..] => char::from(*kind),
        _ => return None,
    };
    let (address, size) = text[3..].split_once(',')?;
    Some((kind, hex(address)?, decimal(size)?))
}

pub(super) fn read(path: &Path, groups: &mut Groups) -> Result<(), Diagnostics> {
    let mut lines = Lines::open(path)?;
    while lines.advance()? {
        let text = lines.text()?;
        if text.is_empty() || is_own(text) {
            continue;
        }
        let Some((kind, address, size)) = line(text) else {
            let rule = "a line is such as ` L 1fff000688,8`";
            let remedy =
                "record with `valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM`";
            return Err(lines.no_such(rule, remedy));
        };
        if !(1..=MOST_BYTES).contains(&size) {
            let rule = "a size is from 1 to 4096 bytes";
            return Err(lines.refuse(rule, size.to_string(), "check what wrote the file"));
        }
        if address.checked_add(size).is_none() {
            let rule = "an access ends below 2^64";
            return Err(lines.refuse(
                rule,
                format!("{address:x},{size}"),
                "check what wrote the file",
            ));
        }
        let mode = match kind {
            'I' => {
                groups.account.instructions += 1;
                continue;
            }
            'L' => Mode::Read,
            'S' => Mode::Write,
            _ => Mode::ReadWrite,
        };
        groups.read(lines.length).map_err(|rule| lines.broken(rule, groups))?;
        let done = groups.access(None, (0, address, size), mode, Known::Seen);
        done.map_err(|rule| lines.broken(rule, groups))?;
    }
    Ok(())
}
