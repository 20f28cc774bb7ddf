//! Addresses from 0 on, and which of them are free: holes by address and by size.
//!
//! Invariant: holes neither touch nor overlap, and both orders list the same ones.

use std::collections::{BTreeMap, BTreeSet};

/// A range of addresses with holes.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    size: u64,
    free: u64,
    holes: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Space {
    /// All free.
    pub(crate) fn new(size: u64) -> Space {
        let mut space = Space { size, free: 0, holes: BTreeMap::new(), by_size: BTreeSet::new() };
        if size > 0 {
            space.insert(0, size);
            space.free = size;
        }
        space
    }

    /// Free but for `used`, pieces as (address, size) in order of address.
    pub(crate) fn around(size: u64, used: impl Iterator<Item = (u64, u64)>) -> Space {
        let mut space = Space { size, free: 0, holes: BTreeMap::new(), by_size: BTreeSet::new() };
        let mut end = 0;
        for (at, bytes) in used.chain([(size, 0)]) {
            if at > end {
                space.insert(end, at - end);
                space.free += at - end;
            }
            end = at + bytes;
        }
        space
    }

    /// Takes the smallest hole that is large enough, the lowest of equals.
    pub(crate) fn take_best(&mut self, bytes: u64) -> Option<u64> {
        let &(size, at) = self.by_size.range((bytes, 0)..).next()?;
        self.cut(at, size, bytes);
        Some(at)
    }

    /// Takes the lowest hole that is large enough.
    pub(crate) fn take_lowest(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &size) = self.holes.iter().find(|&(_, &size)| size >= bytes)?;
        self.cut(at, size, bytes);
        Some(at)
    }

    /// Takes a piece at an address of the caller's choice, if it is free.
    pub(crate) fn take_at(&mut self, at: u64, bytes: u64) -> Option<u64> {
        let (&start, &size) = self.holes.range(..=at).next_back()?;
        let (before, left) = (at - start, size.checked_sub(at - start)?);
        let after = left.checked_sub(bytes)?;
        self.remove(start, size);
        if before > 0 {
            self.insert(start, before);
        }
        if after > 0 {
            self.insert(at + bytes, after);
        }
        self.free -= bytes;
        Some(at)
    }

    fn cut(&mut self, at: u64, size: u64, bytes: u64) {
        self.remove(at, size);
        if size > bytes {
            self.insert(at + bytes, size - bytes);
        }
        self.free -= bytes;
    }

    /// Makes a piece free again; it joins holes that it touches.
    pub(crate) fn give(&mut self, at: u64, bytes: u64) {
        let (mut start, mut end) = (at, at + bytes);
        self.free += bytes;
        if let Some((&before, &size)) = self.holes.range(..at).next_back() {
            assert!(before + size <= at, "freed twice");
            if before + size == at {
                self.remove(before, size);
                start = before;
            }
        }
        if let Some(&size) = self.holes.get(&end) {
            self.remove(end, size);
            end += size;
        }
        self.insert(start, end - start);
    }

    fn insert(&mut self, at: u64, size: u64) {
        self.holes.insert(at, size);
        self.by_size.insert((size, at));
    }

    fn remove(&mut self, at: u64, size: u64) {
        self.holes.remove(&at);
        self.by_size.remove(&(size, at));
    }

    /// Bytes in all holes.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Bytes in the largest hole.
    pub(crate) fn largest(&self) -> u64 {
        self.by_size.last().map_or(0, |&(size, _)| size)
    }

    /// Address behind the last byte that is not free.
    pub(crate) fn used_end(&self) -> u64 {
        match self.holes.last_key_value() {
            Some((&at, &size)) if at + size == self.size => at,
            _ => self.size,
        }
    }

    /// Size of every hole, lowest first.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.holes.values().copied()
    }

    /// Address of the lowest hole.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.holes.first_key_value().map(|(&at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hole_that_fits_is_taken_and_the_lowest_of_equals() {
        let mut space = Space::around(100, [(0, 10), (30, 10), (45, 15), (65, 35)].into_iter());
        let holes: Vec<u64> = space.sizes().collect();
        assert_eq!(holes, [20, 5, 5]);
        assert_eq!(space.take_best(5), Some(40));
        assert_eq!(space.take_best(5), Some(60));
        assert_eq!(space.take_best(6), Some(10));
        assert_eq!((space.take_best(15), space.largest()), (None, 14));
    }

    #[test]
    fn a_piece_is_taken_where_it_is_wanted_if_it_is_free() {
        let mut space = Space::new(100);
        assert_eq!(space.take_at(40, 20), Some(40));
        assert_eq!(space.sizes().collect::<Vec<_>>(), [40, 40]);
        assert_eq!((space.take_at(30, 20), space.take_at(90, 20), space.free()), (None, None, 80));
        assert_eq!((space.take_at(0, 40), space.take_at(60, 40)), (Some(0), Some(60)));
        assert_eq!((space.free(), space.take_at(5, 1)), (0, None));
    }

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut space = Space::new(30);
        for _ in 0..3 {
            space.take_lowest(10).expect("room for three");
        }
        assert_eq!((space.free(), space.used_end()), (0, 30));
        space.give(0, 10);
        space.give(20, 10);
        assert_eq!((space.largest(), space.used_end()), (10, 20));
        space.give(10, 10);
        assert_eq!((space.largest(), space.free(), space.used_end()), (30, 30, 0));
    }
}
