//! The compiled module, and the stamp that says of which tiersim it is.
//!
//! A module is built by hand and may lie about for long, so whoever puts one into a page asks first
//! whether it is of the same version. The stamp is a custom section of WebAssembly (core
//! specification, 5.5.3), which engines pass over.
//! Invariant: what is stamped passes the check of the same version, and no other file does.

use crate::VERSION;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// What a module of WebAssembly begins with: its magic number and version 1.
const HEAD: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];
/// The section's name.
const NAME: &str = "tiersim-what-if";

/// A module with its stamp, and without other custom sections: names of functions are as large as
/// they are of no use to a page. What is no module is only stamped.
pub fn stamped(module: &[u8]) -> Vec<u8> {
    let mut section = vec![NAME.len() as u8];
    section.extend(NAME.bytes());
    section.extend(VERSION.bytes());
    // One byte holds sizes below 128.
    assert!(section.len() < 128, "the stamp is short");
    let mut all = match sections(module) {
        Some(sections) => {
            let run = sections.into_iter().filter(|section| section[0] != 0);
            HEAD.into_iter().chain(run.flatten().copied()).collect()
        }
        None => module.to_vec(),
    };
    all.extend([0, section.len() as u8]);
    all.extend(section);
    all
}

/// A module as a page holds it, packed with gzip.
pub fn packed_module(module: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(module).and_then(|()| gzip.finish()).expect("a vector takes all")
}

/// That a file is a module of this version.
///
/// # Errors
/// In words, what it is instead.
pub fn checked(module: &[u8]) -> Result<(), String> {
    let stamp = |section: &[u8]| {
        let own = [&[NAME.len() as u8], NAME.as_bytes()].concat();
        // The kind of a custom section, and the size of a short one.
        let held = section.strip_prefix(&[0])?.get(1..)?;
        held.strip_prefix(&own[..]).map(<[u8]>::to_vec)
    };
    let all = sections(module).unwrap_or_default();
    match all.into_iter().find_map(stamp) {
        Some(version) if version == VERSION.as_bytes() => Ok(()),
        Some(version) => {
            let of = String::from_utf8_lossy(&version).into_owned();
            Err(format!("it is of tiersim {of:?}, and this is {VERSION}"))
        }
        None => Err("it is no module of `cargo xtask what-if`".to_owned()),
    }
}

/// The sections of a module, each with its kind and size before it; none of what is no module.
fn sections(module: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut rest, mut all) = (module.strip_prefix(&HEAD)?, Vec::new());
    while let Some((_, after)) = rest.split_first() {
        let (length, held) = unsigned(after)?;
        let whole = rest.len() - held.len() + length;
        let (section, after) = rest.split_at_checked(whole)?;
        all.push(section);
        rest = after;
    }
    Some(all)
}

/// A number in LEB128 of at most 32 bits, and what follows it.
fn unsigned(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stamped_module_of_this_version_passes() {
        // An empty module, and one with a section that is passed over: 200 bytes of kind 10.
        let large = [&HEAD[..], &[10, 0xc8, 0x01], &[0; 200]].concat();
        for module in [HEAD.to_vec(), large] {
            assert!(checked(&module).is_err(), "it has no stamp");
            let stamped = stamped(&module);
            assert_eq!(checked(&stamped), Ok(()));
            for end in 0..stamped.len() {
                assert!(checked(&stamped[..end]).is_err(), "cut off at {end}");
            }
            let mut other = stamped.clone();
            *other.last_mut().expect("it has bytes") ^= 1;
            let said = checked(&other).expect_err("another version");
            assert!(said.contains("this is"), "{said}");
        }
        assert!(checked(b"#!/bin/sh").is_err());
    }
}
