//! A simulator on a page: the module and its files as text that no browser runs or shows, and the
//! place that the script fills with sliders.
//!
//! Blocks of data are `script` elements of a type that is no script's, which browsers leave alone.
//! Their bytes are written in base 91, which is a thirteenth shorter than base 64: megabytes.
//! Invariant: what stands in them has no sign that HTML or XML could take for markup.

use crate::words::escaped;
use std::fmt::Write;

/// The signs of base 91: those of ASCII that print, but for a space and `&<>`.
const SIGNS: &[u8; 91] = b"!\"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`\
abcdefghijklmnopqrstuvwxyz{|}~";

/// Two signs for 13 bits, the lower ones first: 91 times 91 is just above 2 to the power of 13. Of
/// what is left, 6 bits are one sign.
fn base91(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((bytes.len() * 16).div_ceil(13) + 1);
    let mut put = |value: u32| text.push(char::from(SIGNS[(value % 91) as usize]));
    let (mut kept, mut bits) = (0, 0);
    for &byte in bytes {
        kept |= u32::from(byte) << bits;
        bits += 8;
        if bits >= 13 {
            let value = kept & 0x1fff;
            put(value);
            put(value / 91);
            kept >>= 13;
            bits -= 13;
        }
    }
    if bits > 0 {
        put(kept);
    }
    if bits > 6 {
        put(kept / 91);
    }
    text
}

/// What the script is given.
pub(crate) struct WhatIf<'w> {
    /// The module and the files, both packed; none on the page of a server, which has them.
    pub(crate) inside: Option<(&'w [u8], &'w [u8])>,
    /// The page's own figures as JSON, a list for each case.
    pub(crate) nominal: &'w str,
}

impl WhatIf<'_> {
    /// The place and the data behind it.
    pub(super) fn write(&self, out: &mut String) {
        let nominal = escaped(self.nominal);
        let wasm = if self.inside.is_some() { " and WebAssembly" } else { "" };
        let _ = writeln!(
            out,
            "<div class=\"what-if\" data-nominal=\"{nominal}\">\n<p class=\"said note\">Note: the \
             sliders need a browser that runs scripts{wasm}.</p>\n<svg \
             xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-hidden=\"true\" width=\"0\" \
             height=\"0\"/>\n</div>"
        );
        let Some((module, files)) = self.inside else { return };
        for (id, bytes) in [("what-if-module", module), ("what-if-files", files)] {
            let text = base91(bytes);
            let _ = writeln!(out, "<script type=\"text/plain\" id=\"{id}\">{text}</script>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the script reads it.
    fn read(text: &str) -> Vec<u8> {
        let digit =
            |sign: u8| SIGNS.iter().position(|known| *known == sign).expect("a sign") as u32;
        let (mut bytes, mut kept, mut bits) = (Vec::new(), 0, 0);
        for two in text.as_bytes().chunks(2) {
            let (value, more) = match *two {
                [low, high] => (digit(low) + 91 * digit(high), 13),
                _ => (digit(two[0]), 6),
            };
            kept |= value << bits;
            bits += more;
            while bits >= 8 {
                bytes.push(kept as u8);
                kept >>= 8;
                bits -= 8;
            }
        }
        bytes
    }

    #[test]
    fn bytes_of_every_length_and_value_are_read_back() {
        assert_eq!(base91(&[92]), "\"\"", "one, and one times 91");
        assert_eq!(base91(&[0, 0]), "!!!", "13 bits and 3");
        assert!(SIGNS.is_sorted() && !SIGNS.iter().any(|sign| b" &<>".contains(sign)));
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).chain([255; 13]).collect();
        for length in 0..bytes.len() {
            let text = base91(&bytes[..length]);
            assert!(text.len() * 13 <= length * 16 + 12, "{length}");
            assert_eq!(read(&text), &bytes[..length]);
        }
    }

    #[test]
    fn the_script_reads_the_same_signs() {
        let signs = std::str::from_utf8(SIGNS).expect("ASCII");
        let script = include_str!("../../assets/what-if/engine.js");
        assert!(script.contains(&format!("{signs:?}")), "with the same escapes as here");
    }
}
