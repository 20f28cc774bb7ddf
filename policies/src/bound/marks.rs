//! A set of small numbers that finds its largest below a limit in a few steps.
//!
//! A tree of words with 64 branches: a bit of a word says that the word below it is not zero.
//! Invariant: every bit above the lowest level says exactly that.

/// Numbers below a fixed size.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// The numbers themselves, then which words of the level before are not zero.
    levels: Vec<Vec<u64>>,
}

impl Marks {
    /// None of the numbers below `size`.
    pub(crate) fn new(size: usize) -> Marks {
        let mut levels = Vec::new();
        let mut words = size.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Marks { levels };
            }
            words = words.div_ceil(64);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn add(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let before = *word;
            *word |= 1 << (at % 64);
            if before != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Takes a number out that is in it.
    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// The largest number below `limit`, or else the largest of all.
    pub(crate) fn last_before(&self, limit: usize) -> Option<usize> {
        self.below(limit).or_else(|| {
            let top = self.levels.len() - 1;
            let word = self.levels[top][0];
            (word != 0).then(|| self.down(top, word.ilog2() as usize))
        })
    }

    fn below(&self, limit: usize) -> Option<usize> {
        let mut limit = limit;
        for (height, level) in self.levels.iter().enumerate() {
            let (word, bit) = (limit / 64, limit % 64);
            let part = level.get(word).copied().unwrap_or(0) & ((1 << bit) - 1);
            if part != 0 {
                return Some(self.down(height, 64 * word + part.ilog2() as usize));
            }
            limit = word;
        }
        None
    }

    /// The largest number below a bit of a level.
    fn down(&self, height: usize, bit: usize) -> usize {
        let levels = self.levels[..height].iter().rev();
        levels.fold(bit, |at, level| 64 * at + level[at].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn finds_what_a_sorted_set_finds() {
        for size in [1usize, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut marks, mut known) = (Marks::new(size), BTreeSet::new());
            let mut draw = 12_345u64;
            for _ in 0..4000 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = (draw >> 33) as usize % size;
                if known.remove(&number) {
                    marks.remove(number);
                } else {
                    known.insert(number);
                    marks.add(number);
                }
                let limit = (draw >> 13) as usize % (size + 1);
                let before = known.range(..limit).next_back().or(known.last());
                assert_eq!(marks.last_before(limit), before.copied(), "{limit} of {size}");
            }
            marks.clear();
            assert_eq!(marks.last_before(size), None);
        }
    }
}
