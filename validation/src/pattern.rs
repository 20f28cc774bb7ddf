//! What objects are filled with: every word says whose it is, of which version, and where.
//!
//! Word i of version v of object o is `(o << 32 | v) ^ (i * ODD)`. From any word and its position
//! object and version can be read back, so a wrong pattern says what was found instead.
//! Invariant: two words of different objects, versions or positions within 2^32 differ.

use crate::truth::Contents;
use tiersim_models::ids::ObjectId;

/// Slots are multiples of this: what O_DIRECT and page tables want.
pub(crate) const PAGE: usize = 4096;

const WORD: usize = 8;
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// One version of one object. Versions beyond 32 bits wrap, which no run reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) object: ObjectId,
    pub(crate) version: u64,
}

impl Key {
    /// What its first word is.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.object.0) << 32 | self.version & 0xFFFF_FFFF
    }
}

/// Fills whole words from byte `from` of the object on.
pub(crate) fn fill(bytes: &mut [u8], from: usize, key: Key) {
    let (key, mut mask) = (key.word(), mask(from));
    for word in bytes.chunks_exact_mut(WORD) {
        word.copy_from_slice(&(key ^ mask).to_le_bytes());
        mask = mask.wrapping_add(ODD);
    }
}

/// What is there instead, if the bytes are not the pattern.
pub(crate) fn check(bytes: &[u8], from: usize, key: Key) -> Option<Contents> {
    let (word, mut mask) = (key.word(), mask(from));
    let mut wrong = 0;
    for found in bytes.chunks_exact(WORD) {
        wrong |= read(found) ^ mask ^ word;
        mask = mask.wrapping_add(ODD);
    }
    if wrong == 0 {
        return None;
    }
    let at = bytes.chunks_exact(WORD).enumerate();
    let found = at.map(|(index, found)| decode(read(found), from + index * WORD));
    found
        .into_iter()
        .find(|&found| found != (key.object, key.version & 0xFFFF_FFFF))
        .map(|(object, version)| Contents::Version { object: object.0, version })
}

/// The object and version that a word at byte `at` claims to be of.
pub(crate) fn decode(word: u64, at: usize) -> (ObjectId, u64) {
    let word = word ^ mask(at);
    (ObjectId((word >> 32) as u32), word & 0xFFFF_FFFF)
}

pub(crate) fn read(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("eight bytes"))
}

fn mask(from: usize) -> u64 {
    (from as u64 / WORD as u64).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { object: ObjectId(7), version: 3 };

    #[test]
    fn words_are_what_the_kernels_of_a_device_write_and_compare() {
        let mut bytes = vec![0; 24];
        fill(&mut bytes, PAGE, KEY);
        let words: Vec<u64> = bytes.chunks_exact(8).map(read).collect();
        let word = |index: u64| (7 << 32 | 3) ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        assert_eq!(words, [word(512), word(513), word(514)]);
    }

    #[test]
    fn a_pattern_is_recognised_at_its_place_only() {
        let mut bytes = vec![0; PAGE];
        fill(&mut bytes, PAGE, KEY);
        assert_eq!(check(&bytes, PAGE, KEY), None);
        assert!(check(&bytes, 0, KEY).is_some());
    }

    #[test]
    fn a_single_stale_word_is_found_and_named() {
        let mut bytes = vec![0; PAGE];
        fill(&mut bytes, 0, KEY);
        let old = Key { version: 2, ..KEY };
        fill(&mut bytes[800..808], 800, old);
        assert_eq!(check(&bytes, 0, KEY), Some(Contents::Version { object: 7, version: 2 }));
    }
}
