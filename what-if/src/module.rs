//! The compiled module, and the stamp that says of which tiersim it is.
//!
//! A module is built by hand and may lie about for long, so whoever puts one into a page asks first
//! whether it is of the same version. The file is an empty module with three custom sections of
//! WebAssembly (core specification, 5.5.3), which engines pass over: the small module of
//! `what-if/unpack`, packed with gzip, which browsers unpack by themselves; the simulator, packed for
//! that module; and the stamp.
//! Invariant: what is stamped passes the check of the same version, and no other file does.

use crate::VERSION;

/// What a module of WebAssembly begins with: its magic number and version 1.
const HEAD: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];
/// The section of the stamp.
const NAME: &str = "tiersim-what-if";
/// The sections that the script of a page looks for.
const UNPACK: &str = "tiersim-unpack";
const SIMULATOR: &str = "tiersim-simulator";

/// An unpacking module, as gzip, with what it unpacks and the stamp.
pub fn stamped(unpack: &[u8], simulator: &[u8]) -> Vec<u8> {
    let mut all = HEAD.to_vec();
    for (name, bytes) in [(UNPACK, unpack), (SIMULATOR, simulator), (NAME, VERSION.as_bytes())] {
        // One byte holds lengths below 128.
        all.push(0);
        let length = 1 + name.len() + bytes.len();
        all.extend(leb128(length));
        all.push(name.len() as u8);
        all.extend(name.bytes());
        all.extend(bytes);
    }
    all
}

/// A module without custom sections, which no engine needs: names of functions are as large as they
/// are of no use to a page. What is no module stays as it is.
pub fn bare(module: &[u8]) -> Vec<u8> {
    let Some(sections) = sections(module) else { return module.to_vec() };
    let run = sections.into_iter().filter(|section| section[0] != 0);
    HEAD.into_iter().chain(run.flatten().copied()).collect()
}

/// A number in LEB128.
fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
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
            // What no engine needs is left out, and names of functions are large.
            let named = [&module[..], &[0, 5, 4], b"name"].concat();
            assert_eq!(bare(&named), module);
        }
        for unpack in [&[][..], &[31; 200]] {
            let simulator = vec![7; 300];
            let stamped = stamped(unpack, &simulator);
            assert_eq!(checked(&stamped), Ok(()));
            let last = sections(&stamped).expect("a module").into_iter().nth_back(1);
            let own = [&[0, 0xbe, 0x02, 17], SIMULATOR.as_bytes(), &simulator[..]].concat();
            assert_eq!(last, Some(&own[..]), "318 bytes and their kind");
            for end in 0..stamped.len() {
                assert!(checked(&stamped[..end]).is_err(), "cut off at {end}");
            }
            let mut other = stamped.clone();
            *other.last_mut().expect("it has bytes") ^= 1;
            let said = checked(&other).expect_err("another version");
            assert!(said.contains("this is"), "{said}");
        }
        assert!(checked(b"#!/bin/sh").is_err() && bare(b"#!/bin/sh") == b"#!/bin/sh");
    }
}
