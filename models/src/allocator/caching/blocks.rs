//! The blocks of the caching allocator and the lists of those that are free.
//!
//! Blocks of a segment are a doubly linked list in order of address; here they live in one vector
//! and are named by their index. Invariant: `next` of a block starts where the block ends.

use crate::allocator::caching::Request;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// Names a block.
pub(super) type Id = u32;

/// One block: `struct AllocatorBlock`.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: u64,
    pub(super) size: u64,
    pub(super) requested: u64,
    pub(super) stream: u16,
    pub(super) small: bool,
    pub(super) allocated: bool,
    /// Whether memory lies behind its addresses: always, outside expandable segments.
    pub(super) mapped: bool,
    pub(super) prev: Option<Id>,
    pub(super) next: Option<Id>,
    /// The expandable segment that it is part of.
    pub(super) segment: Option<u32>,
    /// Searches of its pool up to when it became free: `gc_count_base`.
    pub(super) born: u64,
}

impl Node {
    /// A block that is a whole segment.
    pub(super) fn segment(at: u64, size: u64, request: &Request) -> Node {
        Node {
            at,
            size,
            requested: 0,
            stream: request.stream,
            small: request.small,
            allocated: false,
            mapped: true,
            prev: None,
            next: None,
            segment: None,
            born: 0,
        }
    }

    pub(super) fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }
}

/// All blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    nodes: Vec<Node>,
    unused: Vec<Id>,
}

impl Index<Id> for Blocks {
    type Output = Node;

    fn index(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }
}

impl IndexMut<Id> for Blocks {
    fn index_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}

impl Blocks {
    pub(super) fn add(&mut self, node: Node) -> Id {
        if let Some(id) = self.unused.pop() {
            self[id] = node;
            return id;
        }
        self.nodes.push(node);
        Id::try_from(self.nodes.len() - 1).expect("fewer than 2^32 blocks")
    }

    pub(super) fn forget(&mut self, id: Id) {
        self.unused.push(id);
    }

    /// Cuts a new block of `size` bytes from the front of `id`, which keeps the rest.
    pub(super) fn split_front(&mut self, id: Id, size: u64) -> Id {
        let rest = self[id].clone();
        let front = self.add(Node { size, next: Some(id), ..rest });
        if let Some(prev) = self[front].prev {
            self[prev].next = Some(front);
        }
        let rest = &mut self[id];
        rest.prev = Some(front);
        rest.at += size;
        rest.size -= size;
        front
    }

    /// Cuts all behind the first `size` bytes of `id` off as a new block.
    pub(super) fn split_back(&mut self, id: Id, size: u64) -> Id {
        let front = self[id].clone();
        let (at, rest) = (front.at + size, front.size - size);
        let back = self.add(Node { at, size: rest, prev: Some(id), ..front });
        if let Some(next) = self[back].next {
            self[next].prev = Some(back);
        }
        let front = &mut self[id];
        front.next = Some(back);
        front.size = size;
        back
    }

    /// `id` takes in its neighbour `other`.
    pub(super) fn join(&mut self, id: Id, other: Id) {
        let near = self[other].clone();
        let block = &mut self[id];
        block.size += near.size;
        if block.prev == Some(other) {
            block.at = near.at;
            block.prev = near.prev;
            if let Some(prev) = near.prev {
                self[prev].next = Some(id);
            }
        } else {
            block.next = near.next;
            if let Some(next) = near.next {
                self[next].prev = Some(id);
            }
        }
        self.forget(other);
    }
}

/// Order of free blocks, `BlockComparatorSize`; with size 0, of unmapped ones,
/// `BlockComparatorAddress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) stream: u16,
    pub(super) size: u64,
    pub(super) at: u64,
    pub(super) id: Id,
}

impl Key {
    pub(super) fn free(node: &Node, id: Id) -> Key {
        Key { stream: node.stream, size: node.size, at: node.at, id }
    }

    pub(super) fn unmapped(node: &Node, id: Id) -> Key {
        Key { size: 0, ..Key::free(node, id) }
    }

    pub(super) fn least(stream: u16, size: u64) -> Key {
        Key { stream, size, at: 0, id: 0 }
    }
}

/// One pool: `BlockPool`.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeList {
    pub(super) free: BTreeSet<Key>,
    pub(super) unmapped: BTreeSet<Key>,
    /// Searches so far: `get_free_blocks_call_count`.
    pub(super) calls: u64,
}

impl FreeList {
    /// Free blocks of a stream of at least `size` bytes, best fit first.
    pub(super) fn from(&self, stream: u16, size: u64) -> impl Iterator<Item = Id> + '_ {
        let all = self.free.range(Key::least(stream, size)..);
        all.take_while(move |key| key.stream == stream).map(|key| key.id)
    }

    /// Size of the largest free block of any stream.
    pub(super) fn largest(&self) -> u64 {
        let mut largest = 0;
        let mut last = self.free.last();
        while let Some(key) = last {
            largest = largest.max(key.size);
            last = self.free.range(..Key::least(key.stream, 0)).next_back();
        }
        largest
    }
}
