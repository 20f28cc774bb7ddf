//! How a file is damaged: bits, pieces, numbers, and words that readers know.

use rand::RngExt;
use rand::rngs::ChaCha12Rng;
use std::collections::BTreeMap;

/// Words that mean something to one reader or another.
const WORDS: [&[u8]; 34] = [
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\"",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"Some(",
    b"None",
    b"null",
    b"true",
    b"NaN",
    b"inf",
    b"/*",
    b"//",
    b"r#\"",
    b"\\u{1b}",
    b"gib(",
    b"0x",
    b"_",
    b";",
    b"\x94",
    b"h\x00",
    b"(l",
    b"\x8c\x00",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"..",
];
/// Numbers at the edge of something.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "1152921504606846976",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "0.000",
];
/// Longest file that is made.
const LONGEST: usize = 1 << 20;

/// A file and what it holds after one to four changes.
pub(super) fn changed<'f>(
    rng: &mut ChaCha12Rng,
    files: &'f BTreeMap<String, Vec<Vec<u8>>>,
) -> (&'f str, Vec<u8>) {
    let index = rng.random_range(0..files.len());
    let (name, all) = files.iter().nth(index).expect("an index below the length");
    let mut bytes = all[rng.random_range(0..all.len())].clone();
    for _ in 0..rng.random_range(1..=4) {
        change(rng, &mut bytes, all);
        bytes.truncate(LONGEST);
    }
    (name, bytes)
}

fn change(rng: &mut ChaCha12Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = rng.random_range(0..=bytes.len());
    let end = bytes.len().min(at + rng.random_range(0..=64));
    match rng.random_range(0..9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = rng.random_range(0..=255),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let times = 1 << rng.random_range(0..14);
            let piece = bytes[at..end].repeat(times);
            bytes.splice(at..at, piece);
        }
        5 => {
            let other = &others[rng.random_range(0..others.len())];
            let from = rng.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        6 => number(rng, bytes, at),
        7 => {
            let word = WORDS[rng.random_range(0..WORDS.len())];
            bytes.splice(at..end.min(at + 1), word.iter().copied());
        }
        _ => {
            let word = WORDS[rng.random_range(0..WORDS.len())];
            bytes.splice(at..at, word.repeat(1 << rng.random_range(0..16)));
        }
    }
}

/// Puts another number in the place of the next one.
fn number(rng: &mut ChaCha12Rng, bytes: &mut Vec<u8>, at: usize) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[at..].iter().position(digit).map(|ahead| at + ahead) else { return };
    let length = bytes[start..].iter().take_while(|byte| digit(byte)).count();
    let new = NUMBERS[rng.random_range(0..NUMBERS.len())];
    bytes.splice(start..start + length, new.bytes());
}
