//! What each action means: the commands and edges of fetch, prefetch, evict and drop.

use crate::action::{Action, refusal};
use crate::command::{Command, Edge, Hazard, Ticket, Work, add_edge};
use crate::ledger::{Filled, Slot, User};
use crate::plan_error::{PlanError, out_of_memory};
use crate::planner::Planner;
use smallvec::SmallVec;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::Span;
use tiersim_models::workload::Use;

impl Planner<'_> {
    /// From now on, a fetch takes the copy with the quickest route for its size, the lowest tier of
    /// several; without this always the lowest tier.
    pub fn fetch_the_quickest(&mut self, times: CopyTimes) {
        self.times = Some(times);
    }

    /// Where a fetch to `to` takes its object from.
    fn source(&self, object: ObjectId, to: TierId) -> Option<TierId> {
        let copies = self.ledger.tiers_of(object);
        let bytes = self.workload.trace.objects[object.index()].bytes;
        let time = |&from: &TierId| {
            self.times.as_ref().map_or(Span::ZERO, |times| times.span(from, to, bytes))
        };
        copies.into_iter().min_by_key(|from| (time(from), *from))
    }

    /// Carries out one action of the policy before the op that uses `uses`.
    pub(super) fn act(
        &mut self,
        action: Action,
        uses: &[Use],
        turn: Option<Ticket>,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        if let Action::Prefetch { object, to } = action
            && self.gives_up(object, to)
        {
            return Ok(());
        }
        let has_room = |object, tier| self.ledger.has_room(object, tier);
        let holders = |object| self.ledger.tiers_of(object);
        if let Some(why) = refusal(&action, uses, has_room, holders) {
            return Err(self.refused(why));
        }
        match action {
            Action::Fetch { object, to } => self.fetch(object, to, turn, out),
            Action::Prefetch { object, to } => self.fetch(object, to, turn, out),
            Action::Evict { object, from, to } => {
                if !self.ledger.holds(object, from) || self.ledger.holds(object, to) {
                    self.give_up(object, from, out)
                } else {
                    self.write_back(object, from, to, turn, out)
                }
            }
            Action::Drop { object, tier } => self.give_up(object, tier, out),
            Action::InPlace { object } => {
                self.in_place.push(object);
                Ok(())
            }
            Action::Charge { tier, bytes } => {
                self.charges.push((tier, bytes));
                Ok(())
            }
            Action::Delay { span } => {
                self.delay += span;
                Ok(())
            }
        }
    }

    /// Copies an object to a tier; nothing to do if it is there.
    fn fetch(
        &mut self,
        object: ObjectId,
        to: TierId,
        turn: Option<Ticket>,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        if self.ledger.holds(object, to) {
            return Ok(());
        }
        let from = self.source(object, to).expect("what is fetched exists");
        self.copy(object, from, to, turn, false, out)
    }

    /// Copies an object's new contents out of a tier and gives its room there back.
    fn write_back(
        &mut self,
        object: ObjectId,
        from: TierId,
        to: TierId,
        turn: Option<Ticket>,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        self.copy(object, from, to, turn, true, out)
    }

    fn copy(
        &mut self,
        object: ObjectId,
        from: TierId,
        to: TierId,
        turn: Option<Ticket>,
        leave: bool,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        if !self.ledger.has_room(object, to) {
            self.make_room(object, to, turn, out)?;
        }
        let mut after = SmallVec::new();
        let mut claims = SmallVec::new();
        let mut frees = SmallVec::new();
        let source = self.ledger.slot(object, from).expect("the source has room");
        if let Some(filled) = source.filled {
            // What made the source valid: a write-back, the op that wrote it, or a fetch.
            let hazard = match (filled.by_copy, leave) {
                (true, false) => Hazard::WriteBack,
                (false, true) => Hazard::LastUse,
                (_, _) => Hazard::Arrival,
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
            self.wait(filled.ticket, Hazard::LastUse, &mut after);
        }
        // Data first, then room, then turn: an edge is named for the worst that it prevents.
        if !self.ledger.has_room(object, to) {
            let claimed = self.claim(object, to, &mut after);
            claimed.map_err(|full| out_of_memory(full, object, Some(self.next)))?;
            claims.push(self.room(object, to));
        }
        self.await_turn(turn, &mut after);
        let ticket = self.tickets.issue(None);
        let filled = Some(Filled { ticket, by_copy: true });
        match self.ledger.slot_mut(object, to) {
            Some(slot) => {
                slot.valid = true;
                slot.filled = filled;
                slot.users.clear();
            }
            None => self.ledger.slots_mut(object).push(Slot::new(to, filled)),
        }
        let room = self.room(object, from);
        if leave {
            frees.push(room);
            self.ledger.remove(object, from);
            self.ledger.give_back(room, ticket, &self.tickets);
            self.observe();
        } else {
            let tickets = &self.tickets;
            let slot = self.ledger.slot_mut(object, from).expect("the source has room");
            slot.add_user(ticket, None, tickets);
        }
        let work = Work::Copy { object, bytes: room.bytes, from, to };
        out.push(Command { ticket, work, after, claims, frees });
        Ok(())
    }

    /// Gives the room of one copy back without moving anything.
    pub(super) fn give_up(
        &mut self,
        object: ObjectId,
        tier: TierId,
        out: &mut Vec<Command>,
    ) -> Result<(), PlanError> {
        let mut after = SmallVec::new();
        let slot = self.ledger.remove(object, tier);
        if let Some(filled) = slot.filled {
            self.wait(filled.ticket, Hazard::Arrival, &mut after);
        }
        for User { ticket, .. } in slot.users {
            self.wait(ticket, Hazard::LastUse, &mut after);
        }
        let room = self.room(object, tier);
        let ticket = self.tickets.issue(None);
        self.ledger.give_back(room, ticket, &self.tickets);
        self.observe();
        let (claims, frees) = (SmallVec::new(), SmallVec::from_iter([room]));
        out.push(Command { ticket, work: Work::Release, after, claims, frees });
        Ok(())
    }

    fn await_turn(&self, turn: Option<Ticket>, after: &mut SmallVec<[Edge; 6]>) {
        if let Some(op) = turn {
            self.wait(op, Hazard::Turn, after);
        }
    }

    fn await_users(&self, object: ObjectId, tier: TierId, after: &mut SmallVec<[Edge; 6]>) {
        if let Some(slot) = self.ledger.slot(object, tier) {
            slot.users.iter().for_each(|user| self.wait(user.ticket, Hazard::LastUse, after));
        }
    }

    fn wait(&self, on: Ticket, hazard: Hazard, after: &mut SmallVec<[Edge; 6]>) {
        if !self.tickets.ended(on) {
            add_edge(after, on, hazard);
        }
    }
}
