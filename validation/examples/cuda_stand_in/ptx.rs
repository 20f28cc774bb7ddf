//! What PTX text says: its version, its target, and its kernels with the widths of what they take.
//!
//! Invariant: only what `.visible .entry` defines can be launched, and only with its parameters.

use crate::codes::{Code, INVALID_IMAGE, INVALID_PTX, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION};
use std::collections::BTreeMap;

/// CUDA 12.0's driver reads PTX up to this.
const NEWEST: (u32, u32) = (8, 0);
/// The device's compute capability, times ten.
pub(crate) const CAPABILITY: u32 = 75;

/// By kernel, the width of each of its parameters in bytes; none for what is no plain number.
pub(crate) type Entries = BTreeMap<String, Vec<Option<usize>>>;

/// The kernels of a module.
pub(crate) fn entries(text: &str) -> Result<Entries, Code> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let directive = |name: &str| lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let version = directive(".version").ok_or(INVALID_IMAGE)?;
    let (major, minor) = version.split_once('.').ok_or(INVALID_PTX)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| INVALID_PTX);
    if (number(major)?, number(minor)?) > NEWEST {
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    let target = directive(".target").and_then(|target| target.strip_prefix("sm_"));
    let target = target.and_then(|target| target.split([',', ' ']).next()).ok_or(INVALID_PTX)?;
    if number(target)? > CAPABILITY {
        return Err(NO_BINARY_FOR_GPU);
    }
    let code: String = lines().collect::<Vec<_>>().join("\n");
    let mut entries = Entries::new();
    for entry in code.split(".visible .entry ").skip(1) {
        let (head, body) = entry.split_once('{').ok_or(INVALID_PTX)?;
        if body.matches('}').count() == 0 {
            return Err(INVALID_PTX);
        }
        let (name, rest) = head.split_once('(').ok_or(INVALID_PTX)?;
        let (parameters, _) = rest.split_once(')').ok_or(INVALID_PTX)?;
        let parameters = parameters.split(',').filter(|text| !text.trim().is_empty());
        let widths = parameters.map(width).collect();
        entries.insert(name.trim().to_owned(), widths);
    }
    Ok(entries)
}

fn width(parameter: &str) -> Option<usize> {
    let mut words = parameter.trim().strip_prefix(".param")?.split_whitespace();
    let mut kind = words.next()?;
    if kind == ".align" {
        // A structure: bytes, as many as its name says in brackets.
        words.next()?.parse::<usize>().ok()?;
        kind = words.next()?;
        let bytes = words.next()?.split_once('[')?.1.strip_suffix(']')?;
        return bytes.parse().ok().filter(|bytes| kind == ".b8" && bytes % 8 == 0);
    }
    match kind {
        ".u64" | ".s64" | ".b64" | ".f64" => Some(8),
        ".u32" | ".s32" | ".b32" | ".f32" => Some(4),
        ".u16" | ".s16" | ".b16" => Some(2),
        ".u8" | ".s8" | ".b8" => Some(1),
        _ => None,
    }
}
