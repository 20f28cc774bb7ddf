//! LIRS: low inter-reference recency set (Jiang and Zhang, SIGMETRICS 2002).
//!
//! Ninety-nine hundredths of the cache hold objects of low inter-reference recency (LIR), which
//! leave only by turning into the others (HIR). Stack S orders by recency all LIR objects and what
//! was used since the oldest of them, held or not; queue Q orders the HIR objects that are held.
//! What S remembers without holding it is bounded: S has at most two caches.
//!
//! [`Lirs::new`] is the paper. [`Lirs::of_libcachesim`] is what libCacheSim 0.3 does, to compare
//! counts with it. There Q is trimmed before a LIR object enters it, room is made by turning LIR
//! objects only, and where an object of Q that is not in S is used, LIR objects turn too. If that
//! object is itself trimmed, it leaves, but its next use counts as a hit; and from then on its size
//! is read where the object that took its place in Q lies, so that one's size counts.

use super::Replacement;
use super::links::Links;
use crate::state::{State, remember};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Neither held nor remembered.
    Out,
    Low,
    /// Held, in Q, and perhaps in S.
    High,
    /// In S, not held.
    Ghost,
    /// In S, not held, and taken for held: only in libCacheSim's rule.
    Phantom,
}

/// LIRS; 33 bytes per object. Where it is not the paper's, only [`super::Cache`] can own it.
#[derive(Debug)]
pub struct Lirs {
    capacity: u64,
    low_limit: u64,
    high_limit: u64,
    low: u64,
    high: u64,
    /// Bytes of all that is in S.
    stacked: u64,
    stack: Links<1>,
    queue: Links<1>,
    /// What is remembered, in the order in which it left.
    ghosts: Links<1>,
    status: Vec<Status>,
    bytes: Vec<u64>,
    /// Whether the rule is libCacheSim's.
    theirs: bool,
    /// What has left, by libCacheSim's rule, and the owner has not heard of.
    leaving: Vec<u32>,
}

impl Lirs {
    /// Empty, by libCacheSim's rule.
    pub fn of_libcachesim(capacity: u64) -> Lirs {
        Lirs { theirs: true, ..Lirs::new(capacity) }
    }

    /// Empty, for a cache of so many bytes.
    pub fn new(capacity: u64) -> Lirs {
        let high_limit = (capacity / 100).max(1);
        Lirs {
            capacity,
            low_limit: capacity.saturating_sub(high_limit),
            high_limit,
            low: 0,
            high: 0,
            stacked: 0,
            stack: Links::default(),
            queue: Links::default(),
            ghosts: Links::default(),
            status: Vec::new(),
            bytes: Vec::new(),
            theirs: false,
            leaving: Vec::new(),
        }
    }

    fn size(&self, id: u32) -> u64 {
        self.bytes[id as usize]
    }

    fn unstack(&mut self, id: u32) {
        if self.stack.contains(id) {
            self.stack.remove(id);
            self.stacked -= self.size(id);
        }
    }

    /// To the top of S.
    fn stack_up(&mut self, id: u32) {
        self.unstack(id);
        self.stack.push(0, id);
        self.stacked += self.size(id);
    }

    fn unqueue(&mut self, id: u32) {
        self.queue.remove(id);
        self.high -= self.size(id);
    }

    fn queue_up(&mut self, id: u32) {
        self.queue.push(0, id);
        self.high += self.size(id);
    }

    fn forget(&mut self, id: u32) {
        self.ghosts.remove(id);
        self.unstack(id);
        self.status[id as usize] = Status::Out;
    }

    /// What is older than the oldest LIR object leaves S.
    fn prune(&mut self) {
        while let Some(id) = self.stack.oldest(0) {
            match self.status[id as usize] {
                Status::Low => return,
                Status::Ghost => self.forget(id),
                Status::High | Status::Out => self.unstack(id),
                Status::Phantom => {
                    self.unstack(id);
                    self.status[id as usize] = Status::Out;
                }
            }
        }
    }

    /// The oldest LIR object, which is at the bottom of S, turns into a HIR object.
    fn demote(&mut self) -> Option<u32> {
        let id = self.stack.oldest(0)?;
        self.unstack(id);
        self.low -= self.size(id);
        self.status[id as usize] = Status::High;
        if self.theirs {
            self.trim(self.size(id));
        }
        self.queue_up(id);
        self.prune();
        Some(id)
    }

    /// Makes room in Q for so many bytes.
    fn trim(&mut self, bytes: u64) {
        while self.high + bytes > self.high_limit
            && let Some(gone) = self.evict_high(&|_| false)
        {
            self.leaving.push(gone);
        }
    }

    /// What libCacheSim does where an object of Q is used that is not in S.
    fn demote_for(&mut self, id: u32) {
        let mut bytes = self.size(id);
        while self.low > 0 && self.low + bytes > self.low_limit {
            let held = self.holds(id);
            let demoted = self.demote();
            if held && !self.holds(id) {
                bytes = demoted.map_or(bytes, |other| self.size(other));
            }
        }
        if !self.holds(id) {
            self.status[id as usize] = Status::Phantom;
        }
    }

    /// Of what is at the top of S.
    fn promote(&mut self, id: u32) {
        // First of all, or pruning might take it for something to be forgotten.
        self.status[id as usize] = Status::Low;
        while self.low > 0 && self.low + self.size(id) > self.low_limit {
            self.demote();
        }
        self.low += self.size(id);
        self.prune();
    }

    fn limit(&mut self) {
        while self.stacked > self.capacity.saturating_mul(2)
            && let Some(id) = self.ghosts.oldest(0)
        {
            self.forget(id);
        }
    }

    fn evict_high(&mut self, keep: &impl Fn(u32) -> bool) -> Option<u32> {
        let gone = self.queue.oldest_where(0, |id| !keep(id))?;
        self.unqueue(gone);
        if self.stack.contains(gone) {
            self.status[gone as usize] = Status::Ghost;
            self.ghosts.push(0, gone);
        } else {
            self.status[gone as usize] = Status::Out;
        }
        Some(gone)
    }
}

impl Replacement for Lirs {
    fn grow(&mut self, ids: usize) {
        self.stack.grow(ids);
        self.queue.grow(ids);
        self.ghosts.grow(ids);
        self.status.resize(ids, Status::Out);
        self.bytes.resize(ids, 0);
    }

    #[inline]
    fn holds(&self, id: u32) -> bool {
        matches!(self.status[id as usize], Status::Low | Status::High | Status::Phantom)
    }

    fn admits(&self, bytes: u64) -> bool {
        bytes <= self.low_limit.min(self.high_limit)
    }

    #[inline]
    fn is_uncounted(&self, id: u32) -> bool {
        self.status[id as usize] == Status::Phantom
    }

    fn hit(&mut self, id: u32) {
        let in_stack = self.stack.contains(id);
        match (self.status[id as usize], in_stack) {
            (Status::Low, _) => {
                self.stack_up(id);
                self.prune();
            }
            (status, true) => {
                self.stack_up(id);
                if status == Status::High {
                    self.unqueue(id);
                }
                self.promote(id);
            }
            (_, false) => {
                self.unqueue(id);
                self.queue_up(id);
                if self.theirs {
                    self.demote_for(id);
                }
                self.stack_up(id);
            }
        }
        self.limit();
    }

    /// By libCacheSim's rule whatever is in the way leaves here, before the owner looks for room.
    fn miss(&mut self, id: u32, bytes: u64) {
        if !self.theirs || !self.admits(bytes) {
            return;
        }
        if self.status[id as usize] == Status::Ghost {
            self.forget(id);
            // It enters as one of these, and pruning stops at it.
            self.status[id as usize] = Status::Low;
            self.bytes[id as usize] = bytes;
            self.stack_up(id);
            while self.low > 0 && self.low + self.size(id) > self.low_limit {
                self.demote();
            }
        } else if self.low + bytes > self.low_limit {
            self.trim(bytes);
        }
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(gone) = self.leaving.pop() {
            return Some(gone);
        }
        if let Some(gone) = self.evict_high(&keep) {
            return Some(gone);
        }
        let gone = self
            .stack
            .oldest_where(0, |id| self.status[id as usize] == Status::Low && !keep(id))?;
        self.remove(gone);
        Some(gone)
    }

    fn insert(&mut self, id: u32, bytes: u64) {
        let status = self.status[id as usize];
        let remembered = matches!(status, Status::Ghost | Status::Low);
        match status {
            Status::Ghost => self.forget(id),
            _ => self.unstack(id),
        }
        self.bytes[id as usize] = bytes;
        let roomy = self.low + bytes <= self.low_limit;
        self.stack_up(id);
        if remembered || roomy {
            self.promote(id);
        } else {
            self.status[id as usize] = Status::High;
            self.queue_up(id);
        }
        self.limit();
    }

    /// The HIR objects have a share of their own.
    fn shed(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(gone) = self.leaving.pop() {
            return Some(gone);
        }
        if self.high <= self.high_limit { None } else { self.evict_high(&keep) }
    }

    fn remove(&mut self, id: u32) {
        match self.status[id as usize] {
            Status::Out => return,
            Status::Low => {
                self.low -= self.size(id);
                self.unstack(id);
            }
            Status::High => {
                self.unqueue(id);
                self.unstack(id);
            }
            Status::Ghost => return self.forget(id),
            Status::Phantom => self.unstack(id),
        }
        self.status[id as usize] = Status::Out;
        self.prune();
    }

    fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Lirs { low, high, stacked, stack, queue, ghosts, leaving }
            skip { capacity, low_limit, high_limit, status, bytes, theirs });
        self.status.iter().for_each(|&status| out.word(status as u64));
        true
    }
}
