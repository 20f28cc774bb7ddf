//! Samples of memory as `perf script` prints them, a line each.
//!
//! What counts of a line is its time (`1234.567890:`), the event behind it where one is printed
//! (`cpu/mem-loads,ldlat=30/P:`), the address behind that, and `|OP LOAD|` or `|OP STORE|` of a data
//! source. What stands before the time (command, process, processor) is left alone. A sample says where
//! memory was touched, and not how much of it: it counts as a line of 64 bytes.
//! Invariant: a line with a time has an address, or the file is refused.

use super::group::Groups;
use super::lines::{Lines, decimal, hex, seconds};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Known, Mode};

/// What a sample counts as.
const LINE: u64 = 64;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at_ps: u128,
    pub(super) address: u64,
    /// Where the line says it.
    pub(super) mode: Option<Mode>,
}

/// A line of a sample, if it is one.
pub(super) fn sample(text: &str) -> Option<Sample> {
    let mut words = text.split_ascii_whitespace();
    let at_ps = words.by_ref().find_map(|word| word.strip_suffix(':').and_then(seconds))?;
    let mut event = "";
    let mut word = words.next()?;
    // A period may stand before an event.
    let mut ahead = words.clone();
    if decimal(word).is_some() && ahead.next().is_some_and(|next| next.ends_with(':')) {
        word = words.next()?;
    }
    if let Some(name) = word.strip_suffix(':') {
        event = name;
        word = words.next()?;
    }
    let address = hex(word.strip_prefix("0x").unwrap_or(word))?;
    let source = text.split_once("|OP ").map_or("", |(_, source)| source);
    let mode = if source.starts_with("LOAD|") {
        Some(Mode::Read)
    } else if source.starts_with("STORE|") || event.contains("store") {
        Some(Mode::Write)
    } else if event.contains("load") {
        Some(Mode::Read)
    } else {
        None
    };
    Some(Sample { at_ps, address, mode })
}

/// Whether a line is one of the callers that `perf record -g` lists below a sample: an address and a
/// place, indented, without a time.
fn is_caller(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let address = words.next().is_some_and(|word| hex(word).is_some());
    let timeless = !text
        .split_ascii_whitespace()
        .any(|word| word.strip_suffix(':').and_then(seconds).is_some());
    text.starts_with([' ', '\t']) && address && words.next().is_some() && timeless
}

pub(super) fn read(path: &Path, groups: &mut Groups) -> Result<(), Diagnostics> {
    let mut lines = Lines::open(path)?;
    while lines.advance()? {
        let text = lines.text()?;
        if text.trim_ascii().is_empty() || text.starts_with('#') {
            continue;
        }
        if is_caller(text) {
            continue;
        }
        let Some(sample) = sample(text) else {
            let rule = "a sample has a time and behind it an address, such as \
                        `1234.567890: cpu/mem-loads/P: 7f5e5c0a3010`";
            let remedy =
                "record with `perf mem record` and print with `perf script -F time,event,addr`";
            return Err(lines.no_such(rule, remedy));
        };
        if sample.address == 0 {
            // Perf prints 0 where the processor gave none.
            groups.account.placeless += 1;
            continue;
        }
        groups.account.modeless += u64::from(sample.mode.is_none());
        groups.read(lines.length).map_err(|rule| lines.broken(rule, groups))?;
        let place = (0, sample.address / LINE * LINE, LINE);
        let mode = sample.mode.unwrap_or(Mode::Read);
        let done = groups.access(Some(sample.at_ps), place, mode, Known::Seen);
        done.map_err(|rule| lines.broken(rule, groups))?;
    }
    Ok(())
}
