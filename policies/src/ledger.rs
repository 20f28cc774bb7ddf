//! The ledger: the only place where capacity is counted.
//!
//! It knows, in planning order, how much of each tier is spoken for and which tiers hold which
//! object. Room that a command gives back is a *credit* that names the command: whoever allocates
//! the room waits for it, so a tier cannot overflow under any timing.
//! A tier whose allocator is not exact has an arena instead of credits: there an allocation needs
//! one free piece that is large enough, and waits for the last users of its addresses.
//! Invariant: in an exact tier `used + free == capacity`, and `free` is never-used room plus
//! credits.

use crate::arena::{Arena, Compacted};
use crate::command::{Allocating, Allocation, Edges, Hazard, Ticket, add_edge};
use crate::fragmentation::{MemoryUse, Moment};
use crate::state::{OfCommand, Remembered, State, remember};
use crate::tickets::Tickets;
use smallvec::SmallVec;
use std::collections::VecDeque;
use tiersim_models::allocator::{AllocatorBlock, histogram};
use tiersim_models::compression::Storing;
use tiersim_models::hardware::{Capacity, Memory};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Capacity and holdings of every tier, in planning order.
#[derive(Debug)]
pub struct Ledger {
    tiers: Vec<Account>,
    objects: Vec<SmallVec<[Slot; 2]>>,
    /// Rooms that objects have given up, each with the command that ends it, while that is under
    /// way: an object has at most one room in a tier at any moment.
    leaving: Vec<SmallVec<[(TierId, Ticket); 1]>>,
    /// What tiers store packed.
    storing: Option<Storing>,
    /// Whether free bytes are all that counts in every tier.
    exact: bool,
}

/// Bytes of a tier that are not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// In objects' rooms, as the tier's allocator rounds them.
    pub allocated: Bytes,
    /// What the allocator keeps from others; in an exact tier the same.
    pub reserved: Bytes,
}

/// An allocation that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoesNotFit {
    pub(crate) tier: TierId,
    pub(crate) capacity: Capacity,
    pub(crate) hidden: Bytes,
    pub(crate) need: Bytes,
    pub(crate) free: Bytes,
    /// The largest free piece, where that is not all that is free.
    pub(crate) largest: Option<Bytes>,
}

/// An allocation of room for one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationRequest {
    pub(crate) allocation: Allocation,
    /// The stream of the op that it is for.
    pub(crate) stream: u16,
}

#[derive(Debug)]
struct Account {
    /// What objects can have, and what the tier has beside hidden memory.
    allocation: Capacity,
    capacity: Capacity,
    hidden: Bytes,
    used: Bytes,
    /// Room that nobody has to wait for.
    ready: Bytes,
    /// Room that is free once the command has ended, oldest first.
    credits: VecDeque<(Bytes, Ticket)>,
    /// Addresses, unless bytes are all that counts.
    arena: Option<Box<Arena>>,
}

/// One object's room in one tier.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) tier: TierId,
    /// Whether it holds the object's present contents; room of stale contents is kept for the
    /// write-back.
    pub(crate) valid: bool,
    /// Bytes that were written elsewhere since it held them: what a copy into it brings. Never
    /// more than the object, and none where it is valid.
    pub(crate) behind: Bytes,
    /// The command that filled it, unless it was full before the first op.
    pub(crate) filled: Option<Filled>,
    /// Commands that use it and may still be under way.
    pub(crate) users: SmallVec<[User; 3]>,
}

/// What put the present contents into a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) ticket: Ticket,
    pub(crate) by_copy: bool,
}

/// A command that uses a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) ticket: Ticket,
    /// The op's stream; `None` for copies.
    pub(crate) stream: Option<u16>,
}

impl Ledger {
    /// Empty tiers and room for `objects` objects; the run plans `ops` ops.
    pub(crate) fn new(memory: &Memory, objects: usize, ops: u64) -> Ledger {
        let account = |(tier, &allocation): (usize, &Capacity)| {
            let (tier, ready) = (TierId::at(tier), allocation.most());
            let arena = memory.allocator(tier);
            Account {
                allocation,
                capacity: memory.capacity(tier),
                hidden: memory.hidden_in(tier),
                used: Bytes::ZERO,
                ready,
                credits: VecDeque::new(),
                arena: arena.map(|spec| Box::new(Arena::new(spec, ready, ops))),
            }
        };
        let tiers: Vec<Account> = memory.all_usable().iter().enumerate().map(account).collect();
        Ledger {
            exact: tiers.iter().all(|account| account.arena.is_none()),
            tiers,
            objects: vec![SmallVec::new(); objects],
            leaving: vec![SmallVec::new(); objects],
            storing: memory.stores().cloned(),
        }
    }

    /// What an object of `whole` bytes takes in a tier.
    #[inline]
    pub fn room_of(&self, object: ObjectId, tier: TierId, whole: Bytes) -> Bytes {
        self.storing.as_ref().map_or(whole, |storing| storing.stored(object, tier, whole))
    }

    /// Which objects tiers store packed, if they store any.
    pub(crate) fn stores(&self) -> Option<&Storing> {
        self.storing.as_ref()
    }

    /// Bytes in no object's room, as the tier's allocator counts them. In an exact tier all of them
    /// can be allocated; in others [`Ledger::fits`] says what can.
    pub fn free(&self, tier: TierId) -> Bytes {
        let account = &self.tiers[tier.index()];
        match &account.arena {
            Some(arena) => arena.stats().free,
            None => account.allocation.most() - account.used,
        }
    }

    /// Bytes of a tier that are not free.
    pub fn held(&self, tier: TierId) -> Occupancy {
        let account = &self.tiers[tier.index()];
        match &account.arena {
            Some(arena) => {
                let stats = arena.stats();
                Occupancy { allocated: stats.allocated, reserved: stats.reserved }
            }
            None => Occupancy { allocated: account.used, reserved: account.used },
        }
    }

    /// Whether one object of `bytes` can be allocated for an op of `stream`.
    pub fn fits(&self, tier: TierId, bytes: Bytes, stream: u16) -> bool {
        match &self.tiers[tier.index()].arena {
            Some(arena) => arena.fits(bytes, stream),
            None => bytes <= self.free(tier),
        }
    }

    /// Whether free bytes are all that counts in the tier.
    pub fn is_exact(&self, tier: TierId) -> bool {
        self.tiers[tier.index()].arena.is_none()
    }

    /// The same of every tier.
    pub(crate) fn is_exact_throughout(&self) -> bool {
        self.exact
    }

    /// Where an object lies in a tier that is not exact.
    pub fn block(&self, object: ObjectId, tier: TierId) -> Option<AllocatorBlock> {
        self.tiers[tier.index()].arena.as_ref()?.block(object)
    }

    /// How the memory of a tier was used so far; `None` for an exact tier.
    pub fn memory_use(&self, tier: TierId) -> Option<MemoryUse> {
        let arena = self.tiers[tier.index()].arena.as_ref()?;
        Some(MemoryUse {
            allocator: arena.spec().to_string(),
            end: arena.stats(),
            free_pieces: histogram(&arena.model().free_sizes()).to_vec(),
            buckets: arena.model().buckets(),
            ..arena.meter.found()
        })
    }

    /// What allocators have taken since this was last asked.
    pub(crate) fn allocating(&mut self) -> Allocating {
        if self.exact {
            return Allocating::default();
        }
        let arenas = self.tiers.iter_mut().filter_map(|account| account.arena.as_mut());
        arenas.map(|arena| arena.allocating()).fold(Allocating::default(), |sum, one| Allocating {
            thread: sum.thread + one.thread,
            device: sum.device + one.device,
        })
    }

    pub(crate) fn arena(&mut self, tier: TierId) -> Option<&mut Arena> {
        self.tiers[tier.index()].arena.as_deref_mut()
    }

    /// Notes how memory is used after an op of the run.
    pub(crate) fn sample(&mut self, moment: Moment) {
        let arenas = self.tiers.iter_mut().filter_map(|account| account.arena.as_mut());
        arenas.for_each(|arena| arena.sample(moment));
    }

    /// Moves objects together in every tier where too much is in pieces, and at any rate in
    /// `forced`.
    pub(crate) fn compact(
        &mut self,
        forced: Option<TierId>,
        tickets: &Tickets,
    ) -> Vec<(TierId, Compacted)> {
        let tiers = self.tiers.iter_mut().enumerate();
        let arenas =
            tiers.filter_map(|(tier, account)| Some((TierId::at(tier), account.arena.as_mut()?)));
        arenas
            .filter(|(tier, _)| forced.is_none_or(|forced| forced == *tier))
            .filter_map(|(tier, arena)| Some((tier, arena.compact(forced.is_some(), tickets)?)))
            .collect()
    }

    /// How many tiers there are.
    pub(crate) fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Bytes of the tier that objects can have.
    pub fn capacity(&self, tier: TierId) -> Capacity {
        self.tiers[tier.index()].allocation
    }

    /// Whether the tier holds the object's present contents.
    pub fn holds(&self, object: ObjectId, tier: TierId) -> bool {
        self.slot(object, tier).is_some_and(|slot| slot.valid)
    }

    /// Whether the object has room in the tier, be its contents present or stale.
    pub fn is_allocated(&self, object: ObjectId, tier: TierId) -> bool {
        self.slot(object, tier).is_some()
    }

    /// Whether the object exists anywhere.
    pub fn exists(&self, object: ObjectId) -> bool {
        !self.objects[object.index()].is_empty()
    }

    /// The tiers that hold the object's present contents, nearest (lowest id) first.
    pub fn tiers_of(&self, object: ObjectId) -> SmallVec<[TierId; 2]> {
        let slots = &self.objects[object.index()];
        let mut tiers: SmallVec<[TierId; 2]> =
            slots.iter().filter(|slot| slot.valid).map(|slot| slot.tier).collect();
        tiers.sort_unstable();
        tiers
    }

    /// The first of them; `None` if the object is nowhere.
    pub(crate) fn nearest(&self, object: ObjectId) -> Option<TierId> {
        self.slots(object).iter().filter(|slot| slot.valid).map(|slot| slot.tier).min()
    }

    /// Whether a tier beside this one holds the object's present contents.
    pub(crate) fn is_held_beside(&self, object: ObjectId, tier: Option<TierId>) -> bool {
        self.slots(object).iter().any(|slot| slot.valid && Some(slot.tier) != tier)
    }

    pub(crate) fn slot(&self, object: ObjectId, tier: TierId) -> Option<&Slot> {
        self.objects[object.index()].iter().find(|slot| slot.tier == tier)
    }

    pub(crate) fn slot_mut(&mut self, object: ObjectId, tier: TierId) -> Option<&mut Slot> {
        self.objects[object.index()].iter_mut().find(|slot| slot.tier == tier)
    }

    pub(crate) fn slots(&self, object: ObjectId) -> &[Slot] {
        &self.objects[object.index()]
    }

    pub(crate) fn slots_mut(&mut self, object: ObjectId) -> &mut SmallVec<[Slot; 2]> {
        &mut self.objects[object.index()]
    }

    /// Takes room and adds edges to the commands that give it back.
    pub(crate) fn allocate(
        &mut self,
        request: AllocationRequest,
        tickets: &Tickets,
        after: &mut Edges,
    ) -> Result<(), DoesNotFit> {
        let Allocation { object, tier, bytes: need } = request.allocation;
        let free = self.free(tier);
        let account = &mut self.tiers[tier.index()];
        let (capacity, hidden) = (account.capacity, account.hidden);
        if account.arena.is_none() && free < need {
            return Err(DoesNotFit { tier, capacity, hidden, need, free, largest: None });
        }
        self.leaving[object.index()].retain(|&mut (_, ticket)| !tickets.ended(ticket));
        for &(_, ticket) in self.leaving[object.index()].iter().filter(|(left, _)| *left == tier) {
            add_edge(after, ticket, Hazard::Capacity);
        }
        if let Some(arena) = &mut account.arena {
            let allocated = arena.allocate(object, need, request.stream, tickets, after);
            return allocated.map_err(|full| {
                let (free, largest) = (full.free, Some(full.largest));
                DoesNotFit { tier, capacity, hidden, need, free, largest }
            });
        }
        account.used += need;
        account.settle(tickets);
        let mut missing = need;
        let ready = missing.min(account.ready);
        account.ready -= ready;
        missing -= ready;
        while missing > Bytes::ZERO {
            let credit = account.credits.front_mut().expect("free room is ready or credited");
            let part = missing.min(credit.0);
            if !tickets.ended(credit.1) {
                add_edge(after, credit.1, Hazard::Capacity);
            }
            credit.0 -= part;
            missing -= part;
            if credit.0 == Bytes::ZERO {
                account.credits.pop_front();
            }
        }
        Ok(())
    }

    /// Gives an object's room back once `ticket` has ended.
    pub(crate) fn give_back(&mut self, allocation: Allocation, ticket: Ticket, seen: &Tickets) {
        let Allocation { object, tier, bytes } = allocation;
        if let Some(arena) = self.arena(tier) {
            arena.give_back(object, ticket, seen);
        }
        let leaving = &mut self.leaving[object.index()];
        leaving.retain(|&mut (left, ticket)| left != tier && !seen.ended(ticket));
        leaving.push((tier, ticket));
        let account = &mut self.tiers[tier.index()];
        if account.arena.is_some() {
            return;
        }
        account.used -= bytes;
        account.settle(seen);
        account.credits.push_back((bytes, ticket));
    }

    /// Writes what is where; `false` if an allocator is not exact: what it does is not known here.
    pub(crate) fn state(&self, out: &mut State) -> bool {
        remember!(out, self as Ledger { tiers, objects, leaving => each_under_way }
            skip { storing, exact });
        self.exact
    }

    /// Removes an object's slot from a tier.
    pub(crate) fn remove(&mut self, object: ObjectId, tier: TierId) -> Slot {
        let slots = &mut self.objects[object.index()];
        let index = slots.iter().position(|slot| slot.tier == tier).expect("the slot exists");
        slots.remove(index)
    }
}

impl Account {
    /// Credits of commands that have ended are ready room; without this an unlimited tier would
    /// collect credits for ever.
    fn settle(&mut self, tickets: &Tickets) {
        while self.credits.front().is_some_and(|&(_, ticket)| tickets.ended(ticket)) {
            let (bytes, _) = self.credits.pop_front().expect("there is a first credit");
            self.ready += bytes;
        }
    }
}

impl Remembered for Account {
    fn state(&self, out: &mut State) {
        remember!(out, self as Account { used }
            skip { allocation, capacity, hidden, ready, credits, arena });
        // As they will be settled before they are looked at.
        let ended = |credit: &&(Bytes, Ticket)| !out.is_under_way(credit.1);
        let settled = self.credits.iter().take_while(ended).count();
        let ready: Bytes = self.credits.iter().take(settled).map(|&(bytes, _)| bytes).sum();
        out.bytes(self.ready + ready);
        out.list(self.credits.iter().skip(settled), |out, credit| credit.state(out));
    }
}

remember! {
    Slot { tier, valid, behind, filled => under_way, users => under_way };
    Filled { ticket, by_copy };
    User { ticket, stream };
}

impl OfCommand for Filled {
    fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl OfCommand for User {
    fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl Slot {
    pub(crate) fn new(tier: TierId, filled: Option<Filled>) -> Slot {
        Slot { tier, valid: true, behind: Bytes::ZERO, filled, users: SmallVec::new() }
    }

    /// So many bytes of an object of `whole` bytes were written in another tier.
    ///
    /// What an op writes in part is new beside what others wrote, as tokens are that are appended
    /// to a cache: bytes add up until they are the whole object.
    pub(crate) fn falls_behind(&mut self, written: Bytes, whole: Bytes) {
        self.valid = false;
        self.behind = Bytes::new(self.behind.get().saturating_add(written.get())).min(whole);
    }

    /// A copy brings what it is behind by.
    pub(crate) fn catches_up(&mut self, by: Filled) {
        (self.valid, self.behind, self.filled) = (true, Bytes::ZERO, Some(by));
        self.users.clear();
    }

    /// Notes a user. Ops of one stream end in order, so only the latest of each stream matters.
    pub(crate) fn add_user(&mut self, ticket: Ticket, stream: Option<u16>, seen: &Tickets) {
        if stream.is_some()
            && let Some(user) = self.users.iter_mut().find(|user| user.stream == stream)
        {
            user.ticket = ticket;
            return;
        }
        if self.users.len() >= 3 {
            self.users.retain(|user| !seen.ended(user.ticket));
        }
        self.users.push(User { ticket, stream });
    }
}
