//! What each action means: the commands and edges of fetch, prefetch, evict and drop.

use crate::action::{Action, refusal};
use crate::command::{Edges, Hazard, Ticket, Work, add_edge};
use crate::ledger::{Filled, Slot, User};
use crate::plan_error::{PlanError, out_of_memory};
use crate::planner::Planner;
use crate::recorded::{Choice, quickest};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::Bytes;

impl Planner<'_> {
    /// From now on, a fetch takes the copy with the quickest route for its size, the lowest tier of
    /// several; without this always the lowest tier.
    pub fn fetch_the_quickest(&mut self, times: CopyTimes) {
        self.times = Some(times);
    }

    /// Bytes that a copy of an object to a tier carries: all of it, or what was written since the
    /// tier had it.
    fn lacking(&self, object: ObjectId, to: TierId) -> Bytes {
        let whole = self.workload.trace.objects[object.index()].bytes;
        self.ledger.slot(object, to).map_or(whole, |slot| slot.behind)
    }

    /// Where a fetch to `to` takes its object from.
    fn source(&mut self, object: ObjectId, to: TierId) -> Option<TierId> {
        let copies = self.ledger.tiers_of(object);
        let bytes = self.lacking(object, to);
        let from = quickest(&copies, (to, bytes), self.times.as_ref());
        if let Some(choices) = self.choices.as_mut().filter(|_| copies.len() > 1) {
            choices.insert(Choice { copies, to, bytes, from });
        }
        from
    }

    /// Carries out one action of the policy before the op that is planned.
    pub(super) fn act(&mut self, action: Action) -> Result<(), PlanError> {
        if let Action::Prefetch { object, to } = action
            && self.gives_up(object, to)
        {
            return Ok(());
        }
        let is_allocated = |object, tier| self.ledger.is_allocated(object, tier);
        let beside = |object, tier| self.ledger.is_held_beside(object, tier);
        if let Some(why) = refusal(&action, self.uses(), is_allocated, beside) {
            return Err(self.refused(why));
        }
        // The charge of a use stands directly behind the use.
        let before = self.used.take();
        match action {
            // Nothing to do if it is there.
            Action::Fetch { object, to } | Action::Prefetch { object, to } => {
                if !self.ledger.holds(object, to) {
                    let from = self.source(object, to).expect("what is fetched exists");
                    self.copy(object, from, to, false)?;
                }
            }
            Action::Evict { object, from, to } => {
                if !self.ledger.holds(object, from) || self.ledger.holds(object, to) {
                    self.give_up(object, from);
                } else {
                    self.copy(object, from, to, true)?;
                }
            }
            Action::Drop { object, tier } => self.give_up(object, tier),
            Action::InPlace { object } => {
                self.in_place.push(object);
                self.used = Some(object);
            }
            Action::Charge { tier, bytes } => {
                let charged = |object| self.ledger.room_of(object, tier, bytes);
                let bytes = before.map_or(bytes, charged);
                self.charges.push((tier, bytes));
            }
            Action::Delay { span } => self.delay += span,
        }
        Ok(())
    }

    /// Copies an object to another tier; with `leave` it gives its room in the old one back.
    fn copy(
        &mut self,
        object: ObjectId,
        from: TierId,
        to: TierId,
        leave: bool,
    ) -> Result<(), PlanError> {
        if !self.ledger.is_allocated(object, to) {
            self.make_room(object, to)?;
        }
        let mut after = Edges::new();
        let mut allocates = None;
        let source = self.ledger.slot(object, from).expect("the source has room");
        if let Some(filled) = source.filled {
            // What made the source valid: a write-back, the op that wrote it, or a fetch.
            let hazard = match (filled.by_copy, leave) {
                (true, false) => Hazard::WriteBack,
                (false, true) => Hazard::WriteAfterRead,
                (_, _) => Hazard::ReadAfterWrite,
            };
            self.wait(filled.ticket, hazard, &mut after);
        }
        if leave {
            self.await_users(object, from, &mut after);
        }
        // Somebody may still read the stale contents that the copy overwrites.
        self.await_users(object, to, &mut after);
        // And the copy that brought them may be under way: from a third tier, so that the op that
        // made them stale did not wait for it.
        let stale = self.ledger.slot(object, to).and_then(|slot| slot.filled);
        if let Some(filled) = stale.filter(|filled| filled.by_copy) {
            self.wait(filled.ticket, Hazard::WriteAfterRead, &mut after);
        }
        // Data first, then room, then turn: an edge is named for the worst that it prevents.
        if !self.ledger.is_allocated(object, to) {
            let allocated = self.allocate(object, to, &mut after);
            allocated.map_err(|full| out_of_memory(full, object, Some(self.next)))?;
            allocates = Some(self.allocation(object, to));
        }
        self.await_turn(&mut after);
        let allocation = self.allocation(object, from);
        let work = Work::Copy { object, bytes: self.lacking(object, to), from, to };
        let ticket = self.issue(work, after, allocates, leave.then_some(allocation));
        let filled = Filled { ticket, by_copy: true };
        match self.ledger.slot_mut(object, to) {
            Some(slot) => slot.catches_up(filled),
            None => self.ledger.slots_mut(object).push(Slot::new(to, Some(filled))),
        }
        if leave {
            self.ledger.remove(object, from);
            self.ledger.give_back(allocation, ticket, &self.tickets);
            self.observe();
        } else {
            let tickets = &self.tickets;
            let slot = self.ledger.slot_mut(object, from).expect("the source has room");
            slot.add_user(ticket, None, tickets);
        }
        Ok(())
    }

    /// Gives the room of one copy back without moving anything.
    pub(super) fn give_up(&mut self, object: ObjectId, tier: TierId) {
        let mut after = Edges::new();
        let slot = self.ledger.remove(object, tier);
        if let Some(filled) = slot.filled {
            self.wait(filled.ticket, Hazard::ReadAfterWrite, &mut after);
        }
        for User { ticket, .. } in slot.users {
            self.wait(ticket, Hazard::WriteAfterRead, &mut after);
        }
        let allocation = self.allocation(object, tier);
        let ticket = self.issue(Work::Release, after, None, Some(allocation));
        self.ledger.give_back(allocation, ticket, &self.tickets);
        self.observe();
    }

    /// Waits for the op before on the stream of the op that is planned.
    pub(super) fn await_turn(&self, after: &mut Edges) {
        if let Some(op) = self.last_op[usize::from(self.stream)] {
            self.wait(op, Hazard::IssueOrder, after);
        }
    }

    fn await_users(&self, object: ObjectId, tier: TierId, after: &mut Edges) {
        if let Some(slot) = self.ledger.slot(object, tier) {
            slot.users
                .iter()
                .for_each(|user| self.wait(user.ticket, Hazard::WriteAfterRead, after));
        }
    }

    pub(super) fn wait(&self, on: Ticket, hazard: Hazard, after: &mut Edges) {
        if !self.tickets.ended(on) {
            add_edge(after, on, hazard);
        }
    }
}
