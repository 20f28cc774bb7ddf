//! A simulator on a page: the module and its files as text that no browser runs or shows, and the
//! place that the script fills with sliders.
//!
//! Blocks of data are `script` elements of a type that is no script's, which browsers leave alone.
//! Their bytes are written in base 85, which is a sixteenth shorter than base 64: megabytes.
//! Invariant: what stands in them has no sign that HTML or XML could take for markup.

use crate::words::escaped;
use std::fmt::Write;

/// The signs of base 85: those of ASCII that print, but for a space and `"&'-<>\]` and a backtick.
const SIGNS: &[u8; 85] =
    b"!#$%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[^_abcdefghijklmnopqrstuvwxyz{|}~";

/// Five signs for four bytes, the first digit first; of n bytes at the end n + 1 signs.
fn base85(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for four in bytes.chunks(4) {
        let byte = |index: usize| four.get(index).copied().unwrap_or(0);
        let value = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
        for power in [52_200_625, 614_125, 7_225, 85, 1].into_iter().take(four.len() + 1) {
            text.push(char::from(SIGNS[(value / power % 85) as usize]));
        }
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
            let text = base85(bytes);
            let _ = writeln!(out, "<script type=\"text/plain\" id=\"{id}\">{text}</script>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the script reads it: missing digits are the largest.
    fn read(text: &str) -> Vec<u8> {
        let digit =
            |sign: u8| SIGNS.iter().position(|known| *known == sign).expect("a sign") as u64;
        let mut bytes = Vec::new();
        for five in text.as_bytes().chunks(5) {
            let digits = (0..5).map(|at| five.get(at).map_or(84, |&sign| digit(sign)));
            let value = digits.fold(0, |sum, digit| sum * 85 + digit);
            bytes.extend(&(value as u32).to_be_bytes()[..five.len() - 1]);
        }
        bytes
    }

    #[test]
    fn bytes_of_every_length_and_value_are_read_back() {
        assert_eq!(base85(&[0, 0, 0, 0]), "!!!!!");
        assert_eq!(base85(&[0, 0, 0, 86]), "!!!##", "one times 85 and one");
        assert!(SIGNS.is_sorted() && !SIGNS.iter().any(|sign| b"\"&'<>]".contains(sign)));
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).chain([255; 9]).collect();
        for length in 0..bytes.len() {
            let text = base85(&bytes[..length]);
            assert_eq!(text.len(), length + length.div_ceil(4));
            assert_eq!(read(&text), &bytes[..length]);
        }
    }

    #[test]
    fn the_script_reads_the_same_signs() {
        let signs = std::str::from_utf8(SIGNS).expect("ASCII");
        assert!(include_str!("../../assets/what-if/engine.js").contains(signs));
    }
}
