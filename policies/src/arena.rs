//! The addresses of a tier whose allocator is not exact.
//!
//! The ledger asks it for every allocation. It knows where each object lies, and which command gave
//! each free address back last: whoever gets the address next waits for that command, so no two
//! objects share an address under any timing. Memory that went back to the device may come again
//! under other addresses, so new allocations then wait for all that was under way, as `cudaFree`
//! does.
//! Invariant: an allocation has an edge to every command under way that used one of its addresses.

use crate::command::{Allocating, Edges, Hazard, Ticket, add_edge, add_edges};
use crate::fragmentation::{Meter, Moment};
use crate::tickets::Tickets;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::allocator::{Allocator, AllocatorBlock, AllocatorSpec, Calls, Full, Stats};
use tiersim_models::ids::ObjectId;
use tiersim_models::units::Bytes;

/// How many given-back pieces are kept before those of ended commands are forgotten.
const PRUNE: usize = 1024;

/// The addresses of one tier.
#[derive(Debug)]
pub(crate) struct Arena {
    spec: AllocatorSpec,
    model: Box<dyn Allocator>,
    held: BTreeMap<ObjectId, AllocatorBlock>,
    owners: BTreeMap<u64, ObjectId>,
    /// Pieces that were given back: end, and the command that ends their use; by start.
    pending: BTreeMap<u64, (u64, Ticket)>,
    prune_at: usize,
    /// What every allocation waits for, each command once.
    barrier: Vec<Ticket>,
    releases: u64,
    /// What of the allocator's work has been charged for.
    charged: Calls,
    /// Compaction found nothing to gain, and nothing has changed since.
    settled: bool,
    pub(crate) meter: Meter,
}

/// What one compaction has done.
#[derive(Debug)]
pub(crate) struct Compacted {
    /// Who lies elsewhere now, each with its bytes.
    pub(crate) moved: Vec<(ObjectId, Bytes)>,
    /// Bytes copied.
    pub(crate) bytes: Bytes,
    /// Commands that may still use what the objects move into.
    pub(crate) waits: Edges,
    /// Whether everything stops until the objects have moved.
    pub(crate) stops: bool,
    /// Addresses that are free once they have.
    vacated: Vec<(u64, u64)>,
}

impl Arena {
    /// Empty. The run plans `ops` ops.
    pub(crate) fn new(spec: &AllocatorSpec, capacity: Bytes, ops: u64) -> Arena {
        Arena {
            spec: spec.clone(),
            model: spec.build(capacity),
            held: BTreeMap::new(),
            owners: BTreeMap::new(),
            pending: BTreeMap::new(),
            prune_at: PRUNE,
            barrier: Vec::new(),
            releases: 0,
            charged: Calls::default(),
            settled: false,
            meter: Meter::new(ops),
        }
    }

    pub(crate) fn spec(&self) -> &AllocatorSpec {
        &self.spec
    }

    pub(crate) fn model(&self) -> &dyn Allocator {
        &*self.model
    }

    pub(crate) fn stats(&self) -> Stats {
        self.model.stats()
    }

    /// What it has taken since this was last asked.
    pub(crate) fn allocating(&mut self) -> Allocating {
        let calls = self.model.calls();
        let before = std::mem::replace(&mut self.charged, calls);
        let (thread, device) = self.spec.costs().of(calls.since(before));
        Allocating { thread, device }
    }

    pub(crate) fn fits(&self, bytes: Bytes, stream: u16) -> bool {
        bytes == Bytes::ZERO || self.model.fits(bytes, stream)
    }

    /// Where an object lies.
    pub(crate) fn block(&self, object: ObjectId) -> Option<AllocatorBlock> {
        self.held.get(&object).copied()
    }

    /// Takes memory for an object and adds edges to the commands that may still use it.
    pub(crate) fn allocate(
        &mut self,
        object: ObjectId,
        bytes: Bytes,
        stream: u16,
        tickets: &Tickets,
        after: &mut Edges,
    ) -> Result<(), Full> {
        if bytes == Bytes::ZERO {
            return Ok(()); // no memory, no address
        }
        let block = self.model.alloc(bytes, stream);
        self.await_releases();
        let block = block?;
        self.settled = false;
        self.reuse(block, tickets, after);
        self.barrier.retain(|&ticket| !tickets.ended(ticket));
        add_edges(after, &self.barrier, Hazard::Capacity);
        self.held.insert(object, block);
        self.owners.insert(block.at, object);
        self.meter.allocated(&self.model.stats());
        Ok(())
    }

    /// If memory went back to the device, every allocation from now on waits for all that is under
    /// way.
    fn await_releases(&mut self) {
        let releases = self.model.stats().releases;
        if releases != self.releases {
            self.releases = releases;
            self.barrier.extend(self.pending.values().map(|&(_, ticket)| ticket));
            self.barrier.sort_unstable();
            self.barrier.dedup();
        }
    }

    /// Gives back what the allocator keeps and no object uses.
    pub(crate) fn clean(&mut self) {
        self.model.clean();
        self.await_releases();
        self.settled = false;
    }

    fn reuse(&mut self, block: AllocatorBlock, tickets: &Tickets, after: &mut Edges) {
        loop {
            let last = self.pending.range(..block.end()).next_back();
            let Some((&start, &(end, ticket))) = last.filter(|(_, (end, _))| *end > block.at)
            else {
                return;
            };
            self.pending.remove(&start);
            if start < block.at {
                self.pending.insert(start, (block.at, ticket));
            }
            if end > block.end() {
                self.pending.insert(block.end(), (end, ticket));
            }
            if !tickets.ended(ticket) {
                add_edge(after, ticket, Hazard::Capacity);
            }
        }
    }

    /// Gives an object's memory back once `ticket` has ended.
    pub(crate) fn give_back(&mut self, object: ObjectId, ticket: Ticket, tickets: &Tickets) {
        let Some(block) = self.held.remove(&object) else { return };
        self.owners.remove(&block.at);
        self.model.free(block);
        self.settled = false;
        self.pending.insert(block.at, (block.end(), ticket));
        if self.pending.len() >= self.prune_at {
            self.pending.retain(|_, (_, ticket)| !tickets.ended(*ticket));
            self.prune_at = PRUNE.max(2 * self.pending.len());
        }
    }

    /// Moves objects together if too much is in pieces, or at any rate if `forced`.
    pub(crate) fn compact(&mut self, forced: bool, tickets: &Tickets) -> Option<Compacted> {
        let compaction = self.spec.compaction?;
        let fragmented = self.model.stats().of(compaction.by);
        let due = forced || fragmented > compaction.above;
        if !due || self.settled {
            return None;
        }
        let moves = self.model.compact(compaction.at_once.unwrap_or(Bytes::MAX));
        if moves.is_empty() {
            self.settled = true;
            return None;
        }
        let owner = |was: AllocatorBlock| *self.owners.get(&was.at).expect("only live blocks move");
        let moved: Vec<(ObjectId, AllocatorBlock, AllocatorBlock)> =
            moves.iter().map(|(was, is)| (owner(was), was, is)).collect();
        moved.iter().for_each(|(_, was, _)| {
            self.owners.remove(&was.at);
        });
        for &(object, _, is) in &moved {
            self.owners.insert(is.at, object);
            self.held.insert(object, is);
        }
        self.meter.compacted(moves.bytes, fragmented);
        let mut waits = SmallVec::new();
        moved.iter().for_each(|&(_, _, is)| self.reuse(is, tickets, &mut waits));
        let was = moved.iter().map(|(_, was, _)| (was.at, was.end())).collect();
        let is = moved.iter().map(|(_, _, is)| (is.at, is.end())).collect();
        Some(Compacted {
            moved: moved.into_iter().map(|(object, was, _)| (object, was.bytes)).collect(),
            bytes: moves.bytes,
            waits,
            stops: compaction.at_once.is_none(),
            vacated: without(was, is),
        })
    }

    /// What objects have left is free once `ticket`, which moves them, has ended.
    pub(crate) fn vacate(&mut self, compacted: &Compacted, ticket: Ticket) {
        self.pending.extend(compacted.vacated.iter().map(|&(at, end)| (at, (end, ticket))));
    }

    /// Notes how memory is used after an op of the run.
    pub(crate) fn sample(&mut self, moment: Moment) {
        let stats = self.model.stats();
        self.meter.sample(moment, &stats, || self.model.free_sizes());
    }
}

/// The addresses of `pieces` that lie in none of `others`, each a list of pieces that do not
/// overlap, as (start, end).
fn without(mut pieces: Vec<(u64, u64)>, mut others: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    pieces.sort_unstable();
    others.sort_unstable();
    let mut left = Vec::new();
    let mut first = 0;
    for (mut at, end) in pieces {
        while others.get(first).is_some_and(|other| other.1 <= at) {
            first += 1;
        }
        for &(start, stop) in others[first..].iter().take_while(|other| other.0 < end) {
            left.extend((at < start).then_some((at, start)));
            at = at.max(stop);
        }
        left.extend((at < end).then_some((at, end)));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::allocator::{CachingConfig, Compaction, Fragmentation, Model};

    const MIB: u64 = 1 << 20;

    fn arena(model: Model, compaction: Option<Compaction>, mib: u64) -> Arena {
        Arena::new(&AllocatorSpec { model, compaction }, Bytes::mib(mib), 10)
    }

    fn allocate(arena: &mut Arena, object: u32, mib: u64, tickets: &Tickets) -> Vec<Ticket> {
        let mut after = SmallVec::new();
        let bytes = Bytes::mib(mib);
        arena.allocate(ObjectId(object), bytes, 0, tickets, &mut after).expect("it fits");
        let mut on: Vec<Ticket> = after.iter().map(|edge| edge.ticket).collect();
        on.sort_unstable();
        on
    }

    #[test]
    fn whoever_gets_an_address_waits_for_its_last_user_and_for_nobody_else() {
        let mut tickets = Tickets::default();
        let [first, second, third] = [(); 3].map(|()| tickets.issue(None));
        let mut arena = arena(Model::Pool, None, 8);
        for object in 0..4 {
            allocate(&mut arena, object, 2, &tickets);
        }
        arena.give_back(ObjectId(0), first, &tickets);
        arena.give_back(ObjectId(1), second, &tickets);
        arena.give_back(ObjectId(3), third, &tickets);
        assert_eq!(allocate(&mut arena, 4, 1, &tickets), [third], "the smallest hole is the last");
        assert_eq!(allocate(&mut arena, 5, 3, &tickets), [first, second], "over both of them");
        assert_eq!(allocate(&mut arena, 6, 1, &tickets), [second], "the rest of the second");
        assert_eq!(allocate(&mut arena, 7, 1, &tickets), [third], "the rest of the third");
    }

    #[test]
    fn nobody_waits_for_commands_that_have_ended() {
        let mut tickets = Tickets::default();
        let ticket = tickets.issue(None);
        let mut arena = arena(Model::Pool, None, 2);
        allocate(&mut arena, 0, 2, &tickets);
        arena.give_back(ObjectId(0), ticket, &tickets);
        tickets.end(ticket);
        assert_eq!(allocate(&mut arena, 1, 2, &tickets), []);
    }

    #[test]
    fn memory_that_went_back_to_the_device_waits_for_all_that_is_under_way() {
        let mut tickets = Tickets::default();
        let [first, second] = [(); 2].map(|()| tickets.issue(None));
        let mut arena = arena(Model::Caching(CachingConfig::default()), None, 64);
        allocate(&mut arena, 0, 20, &tickets);
        allocate(&mut arena, 1, 30, &tickets);
        arena.give_back(ObjectId(0), first, &tickets);
        arena.give_back(ObjectId(1), second, &tickets);
        // 40 MiB fit after both segments have been released only.
        assert_eq!(allocate(&mut arena, 2, 40, &tickets), [first, second]);
        assert_eq!(allocate(&mut arena, 3, 1, &tickets), [first, second], "others wait too");
    }

    #[test]
    fn compaction_moves_objects_and_hands_over_what_is_under_way() {
        let mut tickets = Tickets::default();
        let [first, mover] = [(); 2].map(|()| tickets.issue(None));
        let by = Fragmentation::External;
        let compaction = Compaction { above: 0.3, by, at_once: None };
        let mut arena = arena(Model::Pool, Some(compaction), 8);
        for object in 0..4 {
            allocate(&mut arena, object, 2, &tickets);
        }
        assert!(arena.compact(false, &tickets).is_none(), "nothing is free");
        arena.give_back(ObjectId(0), first, &tickets);
        assert!(arena.compact(false, &tickets).is_none(), "one hole is not fragmented");
        arena.give_back(ObjectId(2), first, &tickets);
        assert!(!arena.fits(Bytes::mib(4), 0));
        let done = arena.compact(false, &tickets).expect("half is in pieces");
        let two = Bytes::mib(2);
        assert_eq!(done.moved, [(ObjectId(1), two), (ObjectId(3), two)]);
        assert_eq!(done.waits.iter().map(|edge| edge.ticket).collect::<Vec<_>>(), [first]);
        assert_eq!((done.bytes, done.stops), (Bytes::mib(4), true));
        assert_eq!(arena.block(ObjectId(3)).map(|block| block.at), Some(2 * MIB));
        arena.vacate(&done, mover);
        let both = allocate(&mut arena, 4, 4, &tickets);
        assert_eq!(both, [first, mover], "over what was given back and what was left");
        arena.give_back(ObjectId(3), mover, &tickets);
        assert_eq!(arena.stats().largest_free, Bytes::mib(2));
    }

    #[test]
    fn what_is_left_of_pieces_lies_in_none_of_the_others() {
        let left = without(vec![(10, 20), (30, 40), (0, 5)], vec![(12, 14), (18, 35), (4, 5)]);
        assert_eq!(left, [(0, 4), (10, 12), (14, 18), (35, 40)]);
        assert_eq!(without(vec![(0, 4)], vec![(0, 4)]), []);
        assert_eq!(without(vec![(0, 4), (6, 9)], vec![]), [(0, 4), (6, 9)]);
    }
}
