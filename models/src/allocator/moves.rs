//! What a compaction has moved.
//!
//! A block may move more than once; who holds it only wants to know where it was and where it is.
//! Invariant: each block that was live before is listed at most once.

use crate::allocator::stats::AllocatorBlock;
use crate::units::Bytes;
use std::collections::BTreeMap;

/// Blocks that have moved, and what copying them cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Where it was, by where it is.
    was: BTreeMap<u64, (AllocatorBlock, AllocatorBlock)>,
    /// Bytes copied; a block that moved twice counts twice.
    pub bytes: Bytes,
}

impl Moves {
    /// Notes that the block at `from` is at `to` now. At that moment no live block is at `to`.
    pub(crate) fn note(&mut self, from: AllocatorBlock, to: AllocatorBlock) {
        self.bytes += from.bytes;
        let was = self.was.remove(&from.at).map_or(from, |(was, _)| was);
        self.was.insert(to.at, (was, to));
    }

    /// Each block as it was and as it is, by rising new address.
    pub fn iter(&self) -> impl Iterator<Item = (AllocatorBlock, AllocatorBlock)> + '_ {
        self.was.values().copied()
    }

    /// Whether nothing moved.
    pub fn is_empty(&self) -> bool {
        self.was.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_moves_twice_is_listed_once_and_paid_twice() {
        let block = |at| AllocatorBlock { at, bytes: Bytes::new(10) };
        let mut moves = Moves::default();
        moves.note(block(100), block(50));
        moves.note(block(200), block(100));
        moves.note(block(50), block(0));
        let listed: Vec<_> = moves.iter().map(|(was, is)| (was.at, is.at)).collect();
        assert_eq!(listed, [(100, 0), (200, 100)]);
        assert_eq!(moves.bytes, Bytes::new(30));
    }
}
