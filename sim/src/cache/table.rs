//! From an object's 64-bit name to a 32-bit number: open addressing in 12 bytes a slot.
//!
//! A replay asks this table once per request, at a random place, so one slot holds name and number
//! beside each other and the table is as dense as linear probing bears. Slots are at most three
//! quarters full; with doubling that is 16 to 32 bytes per object, and 48 while it grows. The
//! hash is keyed with a number drawn per process: names that all fall onto one slot cannot be
//! prepared. No result depends on it, since nobody sees the order of the slots.
//! Invariant: one slot at least is free, so that every search ends.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The number of a slot that holds no object; never the number of one.
pub(crate) const FREE: u32 = u32::MAX;
/// 2^64 over the golden ratio: an odd number without a pattern in its bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Slots of an empty table.
const FIRST: usize = 1 << 10;

/// Names and their numbers.
pub(crate) struct Table {
    /// Low half and high half of the name, and the number.
    slots: Vec<[u32; 3]>,
    /// The slot is the hash without so many low bits.
    shift: u32,
    used: usize,
    key: u64,
}

impl Table {
    pub(crate) fn new() -> Table {
        let key = RandomState::new().build_hasher().finish();
        Table { slots: vec![[0, 0, FREE]; FIRST], shift: shift(FIRST), used: 0, key }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// The hash of a name: both halves of a product of 128 bits, so that each bit of the name
    /// moves each bit of the slot.
    pub(crate) fn hash(&self, name: u64) -> u64 {
        let product = u128::from(name ^ self.key) * u128::from(ODD);
        (product as u64) ^ ((product >> 64) as u64)
    }

    /// Looks at the slot where a search would start, which brings it near for the search to come.
    pub(crate) fn touch(&self, hash: u64) -> u32 {
        self.slots[(hash >> self.shift) as usize][2]
    }

    /// The number of an object; [`FREE`] for one that was not there. It is now, and the caller
    /// gives it a number.
    pub(crate) fn number(&mut self, name: u64, hash: u64) -> &mut u32 {
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let (low, high) = (name as u32, (name >> 32) as u32);
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[0] == low && slot[1] == high && slot[2] != FREE {
                break;
            }
            if slot[2] == FREE {
                self.slots[at] = [low, high, FREE];
                self.used += 1;
                break;
            }
            at = (at + 1) & mask;
        }
        &mut self.slots[at][2]
    }

    /// Every number, in no order that means anything.
    pub(crate) fn numbers(&mut self) -> impl Iterator<Item = &mut u32> {
        self.slots.iter_mut().map(|slot| &mut slot[2]).filter(|number| **number != FREE)
    }

    fn grow(&mut self) {
        let larger = vec![[0, 0, FREE]; self.slots.len() * 2];
        let before = std::mem::replace(&mut self.slots, larger);
        self.shift = shift(self.slots.len());
        let mask = self.slots.len() - 1;
        for slot in before.into_iter().filter(|slot| slot[2] != FREE) {
            let name = u64::from(slot[0]) | u64::from(slot[1]) << 32;
            let mut at = (self.hash(name) >> self.shift) as usize;
            while self.slots[at][2] != FREE {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

fn shift(slots: usize) -> u32 {
    u64::BITS - slots.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_keeps_its_number_while_the_table_grows() {
        let mut table = Table::new();
        // Names that differ in high bits only, in low bits only, and both ends of the range.
        let names = (0..5000u64).flat_map(|n| [n, n << 40, u64::MAX - n]);
        let names: std::collections::BTreeSet<u64> = names.collect();
        for (number, &name) in names.iter().enumerate() {
            let hash = table.hash(name);
            let at = table.number(name, hash);
            assert_eq!(*at, FREE, "{name} is new");
            *at = number as u32;
        }
        assert_eq!(table.len(), names.len());
        for (number, &name) in names.iter().enumerate() {
            let hash = table.hash(name);
            assert_eq!(*table.number(name, hash), number as u32, "{name}");
        }
        assert_eq!(table.numbers().count(), names.len());
        assert!(table.slots.len() * 12 <= 32 * names.len());
    }
}
