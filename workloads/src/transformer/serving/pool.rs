//! Blocks of keys and values: who uses them, what they are called, and which go when room is
//! needed.
//!
//! A block with a name stays when nobody uses it, until room is needed: then the one that has been
//! unused longest goes, of one request the last first, so that what is kept is always the start of
//! a prompt. A block without a name goes with its request.
//! Invariant: live blocks and blocks that are promised are never more than there is room for.

use std::collections::BTreeMap;

/// Names a block that lives.
pub(super) type BlockId = u32;

/// A block that has been made.
#[derive(Clone, Copy, Debug)]
struct KvBlock {
    name: Option<u64>,
    users: u32,
    /// When it was last given back.
    unused_since: u64,
}

/// All blocks.
#[derive(Debug)]
pub(super) struct Pool {
    blocks: Vec<KvBlock>,
    by_name: BTreeMap<u64, BlockId>,
    /// Those with a name that nobody uses, the first to go first.
    unused: BTreeMap<u64, BlockId>,
    clock: u64,
    live: u64,
    /// Blocks that will be made for answers.
    promised: u64,
    room: u64,
}

impl Pool {
    pub(super) fn new(room: u64) -> Pool {
        Pool {
            blocks: Vec::new(),
            by_name: BTreeMap::new(),
            unused: BTreeMap::new(),
            clock: 0,
            live: 0,
            promised: 0,
            room,
        }
    }

    /// The blocks that exist of those at the start of a prompt.
    pub(super) fn found(&self, names: &[u64]) -> Vec<BlockId> {
        names.iter().map_while(|name| self.by_name.get(name).copied()).collect()
    }

    /// Whether so many new blocks have room beside `kept` ones, once others have gone.
    pub(super) fn fits(&self, kept: &[BlockId], new: u64) -> bool {
        let idle = kept.iter().filter(|&&id| self.blocks[id as usize].users == 0).count();
        let leaving = (self.unused.len() - idle) as u64;
        self.live - leaving + self.promised + new <= self.room
    }

    /// Uses blocks that exist.
    pub(super) fn keep(&mut self, kept: &[BlockId]) {
        for &id in kept {
            let block = &mut self.blocks[id as usize];
            if block.users == 0 {
                self.unused.remove(&block.unused_since);
            }
            block.users += 1;
        }
    }

    /// Makes room for `new` blocks and `promised` ones; the blocks that go for it.
    ///
    /// They fit: see [`Pool::fits`].
    pub(super) fn reserve(&mut self, new: u64, promised: u64) -> Vec<BlockId> {
        self.promised += promised;
        let mut gone = Vec::new();
        while self.live + self.promised + new > self.room {
            let (_, id) = self.unused.pop_first().expect("it was asked whether they fit");
            if let Some(name) = self.blocks[id as usize].name {
                self.by_name.remove(&name);
            }
            self.live -= 1;
            gone.push(id);
        }
        gone
    }

    /// Makes a block; it has its name unless another one has it.
    pub(super) fn make(&mut self, name: Option<u64>) -> BlockId {
        let id = BlockId::try_from(self.blocks.len()).expect("fewer blocks than uses of objects");
        let name = name.filter(|name| !self.by_name.contains_key(name));
        if let Some(name) = name {
            self.by_name.insert(name, id);
        }
        self.blocks.push(KvBlock { name, users: 1, unused_since: 0 });
        self.live += 1;
        id
    }

    /// Makes a block that was promised.
    pub(super) fn make_promised(&mut self) -> BlockId {
        self.promised -= 1;
        self.make(None)
    }

    /// A request uses its blocks no more.
    pub(super) fn give_back(&mut self, blocks: &[BlockId]) {
        for &id in blocks.iter().rev() {
            let block = &mut self.blocks[id as usize];
            block.users -= 1;
            if block.users > 0 {
                continue;
            }
            if block.name.is_none() {
                self.live -= 1;
                continue;
            }
            self.clock += 1;
            block.unused_since = self.clock;
            self.unused.insert(self.clock, id);
        }
    }

    /// Blocks that nobody uses and that are kept for their names.
    pub(super) fn kept(&self) -> impl Iterator<Item = BlockId> {
        self.unused.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits a prompt as the scheduler does: found blocks, new ones, and those that went.
    fn admit(pool: &mut Pool, names: &[u64]) -> Option<(Vec<BlockId>, usize, Vec<BlockId>)> {
        let mut blocks = pool.found(names);
        let found = blocks.len();
        let new = (names.len() - found) as u64;
        if !pool.fits(&blocks, new) {
            return None;
        }
        pool.keep(&blocks);
        let gone = pool.reserve(new, 0);
        blocks.extend(names[found..].iter().map(|&name| pool.make(Some(name))));
        Some((blocks, found, gone))
    }

    #[test]
    fn what_is_unused_longest_goes_first_and_of_one_prompt_its_end() {
        let mut pool = Pool::new(4);
        let (first, ..) = admit(&mut pool, &[1, 2]).expect("room");
        let (second, ..) = admit(&mut pool, &[3]).expect("room");
        assert_eq!(admit(&mut pool, &[4, 5]), None, "all others are in use");
        pool.give_back(&first);
        pool.give_back(&second);
        let (third, found, gone) = admit(&mut pool, &[4, 5]).expect("room");
        assert_eq!((found, gone), (0, vec![first[1]]), "the end of the first prompt");
        pool.give_back(&third);
        // The start of the first prompt is still there, and now used last.
        let (again, found, gone) = admit(&mut pool, &[1, 6]).expect("room");
        assert_eq!((again[0], found, gone), (first[0], 1, second.clone()));
        assert_eq!(pool.kept().collect::<Vec<_>>(), [third[1], third[0]]);
    }

    #[test]
    fn a_block_that_several_use_stays_until_the_last_has_ended() {
        let mut pool = Pool::new(2);
        let (first, ..) = admit(&mut pool, &[1, 2]).expect("room");
        let (second, found, _) = admit(&mut pool, &[1, 2]).expect("nothing new is needed");
        assert_eq!((&first, found), (&second, 2));
        pool.give_back(&first);
        assert!(admit(&mut pool, &[3]).is_none());
        pool.give_back(&second);
        assert_eq!(admit(&mut pool, &[3]).expect("room").2, [first[1]]);
    }

    #[test]
    fn what_is_promised_is_kept_free() {
        let mut pool = Pool::new(3);
        assert!(pool.fits(&[], 3) && !pool.fits(&[], 4));
        assert!(pool.reserve(1, 2).is_empty());
        let prompt = pool.make(Some(7));
        assert!(!pool.fits(&[], 1));
        let answer = pool.make_promised();
        assert!(!pool.fits(&[], 1));
        let rest = pool.make_promised();
        pool.give_back(&[prompt, answer, rest]);
        assert!(pool.fits(&[], 3) && pool.fits(&[prompt], 2) && !pool.fits(&[prompt], 3));
    }
}
