//! The planner: from a policy's actions to commands with `after` edges.
//!
//! For each op it asks the policy, checks every action against the ledger, allocates memory, and
//! emits the copies and the op with edges for every hazard ([`Hazard`]).
//! Invariant: an action that the ledger does not allow ends the plan with an error; it is never
//! mended silently. Decisions depend on the order of ops only, never on when commands end.

pub mod again;
mod compaction;
mod make_room;
mod moves;
mod on_cpu;
mod paying;
mod relief;
mod reuse;
mod steady;

use crate::action::Refusal;
use crate::command::{Allocation, Command, Edges, Hazard, ObjectAccess, Ticket, Work, add_edge};
use crate::fragmentation::Moment;
use crate::ledger::{AllocationRequest, DoesNotFit, Filled, Ledger, Slot};
pub use crate::plan_error::PlanError;
use crate::plan_error::out_of_memory;
use crate::policy::{Lookahead, Policy};
use crate::pressure::Monitor;
use crate::recorded::{Again, Choice};
use crate::step::{Buffers, Step};
use crate::tickets::Tickets;
use crate::view::View;
use crate::visits::streams;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tiersim_models::hardware::{HBM, Memory};
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::served::PrefixHits;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;

/// What the plan has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Uses of objects that were in HBM when the op came; ops on the CPU do not
    /// count.
    pub hits: u64,
    /// Uses of objects that were not (objects that the op creates do not count).
    pub misses: u64,
}

/// Turns a workload and a policy into commands, one op at a time.
pub struct Planner<'a> {
    workload: &'a Workload,
    policy: Box<dyn Policy>,
    lookahead: Lookahead,
    ledger: Ledger,
    tickets: Tickets,
    next: u64,
    /// Ops of the run as the policy knows it.
    total: u64,
    /// Ops that are planned of them.
    until: u64,
    last_op: Vec<Option<Ticket>>,
    /// By stream: the compaction that its next op waits for, whatever it uses.
    stopped: Vec<Option<Ticket>>,
    counts: Counts,
    count_from: u64,
    buffers: Buffers,
    in_place: Vec<ObjectId>,
    /// The object of the action that was carried out last, if that let the op use it in place.
    used: Option<ObjectId>,
    charges: SmallVec<[(TierId, Bytes); 2]>,
    /// Whether an op of the device used objects outside HBM and did not pay for all of that.
    unpaid: bool,
    /// What the op is delayed by beside its charges.
    delay: Span,
    /// The stream of the op that is planned.
    stream: u16,
    /// The commands of the op that is planned.
    out: Vec<Command>,
    /// How long copies take, if that is known.
    times: Option<CopyTimes>,
    /// Tiers in which room is made, the innermost last.
    making_room: SmallVec<[TierId; 2]>,
    /// The tier that is watched, if one is.
    pressure: Option<Box<Monitor>>,
    /// Where requests found what had been computed for others.
    found: PrefixHits,
    /// The next reuse of the serving plan.
    next_reuse: usize,
    /// Memory of the host: where ops on its processors use their objects.
    host: Vec<TierId>,
    /// Which of several copies fetches took, where that is noted.
    choices: Option<BTreeSet<Choice>>,
    /// What is carried out again, in the place of what the policy decides.
    again: Option<Again<'a>>,
}

impl<'a> Planner<'a> {
    /// Places every persistent object; the trace is replayed `repeat` times.
    pub fn new(
        workload: &'a Workload,
        policy: Box<dyn Policy>,
        memory: &Memory,
        repeat: u32,
    ) -> Result<Planner<'a>, PlanError> {
        let total = workload.trace.ops.len() as u64 * u64::from(repeat);
        let ledger = Ledger::new(memory, workload.trace.objects.len(), total);
        let mut planner = Planner::empty(workload, policy, ledger, total);
        for (index, object) in workload.trace.objects.iter().enumerate() {
            if object.persistent {
                let object = ObjectId::at(index);
                let tier = planner.ask(|policy, view| policy.initial_tier(object, view));
                let allocated = planner.allocate(object, tier, &mut SmallVec::new());
                allocated.map_err(|full| out_of_memory(full, object, None))?;
                planner.ledger.slots_mut(object).push(Slot::new(tier, None));
            }
        }
        // What is there from the start was there before the run.
        planner.ledger.allocating();
        Ok(planner)
    }

    /// Nothing is anywhere yet.
    fn empty(
        workload: &'a Workload,
        policy: Box<dyn Policy>,
        ledger: Ledger,
        total: u64,
    ) -> Planner<'a> {
        let streams = streams(&workload.trace);
        Planner {
            lookahead: policy.lookahead(),
            host: policy.host().to_vec(),
            ledger,
            workload,
            policy,
            tickets: Tickets::default(),
            next: 0,
            total,
            until: total,
            last_op: vec![None; streams],
            stopped: vec![None; streams],
            counts: Counts::default(),
            count_from: 0,
            buffers: Buffers::default(),
            in_place: Vec::new(),
            used: None,
            charges: SmallVec::new(),
            unpaid: false,
            delay: Span::ZERO,
            out: Vec::new(),
            stream: workload.trace.ops.first().map_or(0, |op| op.stream),
            times: None,
            making_room: SmallVec::new(),
            pressure: None,
            found: PrefixHits::default(),
            next_reuse: 0,
            choices: None,
            again: None,
        }
    }

    /// Where everything is before the first op, for machines to set up. Call it before planning.
    pub fn start(&self) -> Vec<Allocation> {
        assert_eq!(self.next, 0, "the start is known only before the first op is planned");
        if let Some(start) = self.start_again() {
            return start;
        }
        let objects = (0..self.workload.trace.objects.len()).map(ObjectId::at);
        let held = |object| self.ledger.tiers_of(object).into_iter().map(move |t| (object, t));
        objects.flat_map(held).map(|(object, tier)| self.allocation(object, tier)).collect()
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Capacity and residency after the ops planned so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Counts from this op of the run on only; the ops before it are warm-up.
    pub fn count_from(&mut self, occurrence: u64) {
        self.count_from = occurrence;
    }

    /// The same, and forgets what it has counted.
    pub fn count_anew(&mut self, occurrence: u64) {
        (self.count_from, self.counts) = (occurrence, Counts::default());
    }

    /// Plans only so many replays of the run that the policy knows: what is planned is the
    /// beginning of a run that goes on.
    ///
    /// Panics if the run has fewer.
    pub fn stop_after(&mut self, replays: u64) {
        self.until = replays * self.workload.trace.ops.len() as u64;
        assert!(self.until <= self.total, "the policy knows of all that is planned");
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many ops have been planned.
    pub fn planned(&self) -> u64 {
        self.next
    }

    /// Plans one op: appends its commands, the op's own the last but for releases, to `out`, unless
    /// they were planned once ([`Planner::again`]). `false` at the end of the run.
    pub fn plan_next(&mut self, out: &mut Vec<Command>) -> Result<bool, PlanError> {
        if self.next == self.until {
            return Ok(false);
        }
        std::mem::swap(&mut self.out, out);
        let planned = match self.again.take() {
            None => self.plan(),
            Some(mut again) => {
                let planned = self.plan_again(&mut again);
                self.again = Some(again);
                planned
            }
        };
        std::mem::swap(&mut self.out, out);
        planned.map(|()| true)
    }

    fn plan(&mut self) -> Result<(), PlanError> {
        self.has_names()?;
        let op = self.op_planned();
        let counted = self.next >= self.count_from && !self.is_on_host(op);
        let known = self.uses().iter().filter(|touched| self.ledger.exists(touched.object));
        for touched in known.filter(|_| counted) {
            match self.ledger.holds(touched.object, HBM) {
                true => self.counts.hits += 1,
                false => self.counts.misses += 1,
            }
        }
        self.find_reuses(op);
        let buffers = std::mem::take(&mut self.buffers);
        let (buffers, refused) = self.ask(|policy, view| {
            let mut step = Step::over(view, buffers);
            policy.plan_op(&mut step);
            step.done()
        });
        if let Some(why) = refused {
            return Err(self.refused(why));
        }
        self.in_place.clear();
        self.used = None;
        self.charges.clear();
        self.delay = Span::ZERO;
        self.stream = self.workload.trace.ops[op.index()].stream;
        for action in &buffers.actions {
            if !self.overtaken(action) {
                self.act(*action)?;
            }
        }
        self.buffers = buffers;
        self.bring_back()?;
        self.compute(op)?;
        if !self.ledger.is_exact_throughout() {
            self.compact();
            self.ledger.sample(self.moment(op));
        }
        self.next += 1;
        if self.workload.step_ends().binary_search(&op).is_ok() {
            self.step_ended();
        }
        Ok(())
    }

    fn moment(&self, op: OpId) -> Moment {
        let ends = self.workload.step_ends();
        let within = ends.partition_point(|&end| end < op);
        let replay = self.next / self.workload.trace.ops.len() as u64;
        let step = replay * ends.len() as u64 + within as u64;
        Moment { occurrence: self.next, step, ends_step: ends[within] == op }
    }

    /// Notes that a command has ended; returns which op of the run it was, if it was one.
    pub fn ended(&mut self, ticket: Ticket) -> Option<u64> {
        self.tickets.end(ticket)
    }

    /// The op itself: room for what it creates, its edges, and what ends with it.
    fn compute(&mut self, op: OpId) -> Result<(), PlanError> {
        let record = &self.workload.trace.ops[op.index()];
        let stream = record.stream;
        let mut after = SmallVec::new();
        let mut allocates: SmallVec<[Allocation; 2]> = SmallVec::new();
        let overwritten = self.overwritten(op);
        for &object in &overwritten {
            self.forget(object, &mut after);
        }
        for &object in self.workload.births(op).iter().chain(&overwritten) {
            let tier = self.ask(|policy, view| policy.allocate_in(object, view));
            self.compact_for(object, tier, &allocates, &mut after);
            self.make_room(object, tier)?;
            let allocated = self.allocate(object, tier, &mut after);
            allocated.map_err(|full| out_of_memory(full, object, Some(self.next)))?;
            allocates.push(self.allocation(object, tier));
            self.ledger.slots_mut(object).push(Slot::new(tier, None));
        }
        self.relieve(None)?;
        let ticket = self.tickets.issue(Some((self.next, stream)));
        for allocation in &allocates {
            let slot =
                self.ledger.slot_mut(allocation.object, allocation.tier).expect("just allocated");
            slot.filled = Some(Filled { ticket, by_copy: false });
        }
        if let Some(stop) = self.stopped[usize::from(stream)].take() {
            add_edge(&mut after, stop, Hazard::WriteAfterRead);
        }
        let mut touches = SmallVec::new();
        for used in self.workload.trace.uses_of(op) {
            let &Use { object, mode, .. } = used;
            let tier = self.tier_of_use(op, object)?;
            let whole = self.workload.trace.objects[object.index()].bytes;
            let written = used.written(whole);
            if let Some(storing) = self.ledger.stores() {
                // The op waits for what it reads to be unpacked, and packs what it writes.
                self.delay += storing.used_there((object, tier), [used.read(whole), written]);
            }
            let access = ObjectAccess { object, tier, mode, written };
            touches.push(access);
            self.use_slot(ticket, stream, access, &mut after);
        }
        for &before in &record.after {
            self.await_op(before, op, stream, &mut after);
        }
        for edge in &after {
            self.tickets.cover(edge.ticket, stream);
        }
        self.last_op[usize::from(stream)] = Some(ticket);
        self.unpaid = self.unpaid || !self.pays(op, &touches);
        let charges = std::mem::take(&mut self.charges);
        let (occurrence, delay) = (self.next, self.delay);
        let allocating = self.ledger.allocating();
        let work = Work::Compute { occurrence, stream, touches, charges, delay, allocating };
        let at = self.out.len();
        self.out.push(Command { ticket, work, after, allocates, frees: SmallVec::new() });
        for &object in self.workload.releases(op) {
            self.release(object, ticket, stream, at);
        }
        Ok(())
    }

    /// Edges for one use, and what the use means for every copy of the object.
    fn use_slot(&mut self, ticket: Ticket, stream: u16, access: ObjectAccess, after: &mut Edges) {
        let ObjectAccess { object, tier, mode, written } = access;
        let (writes, whole) = (mode.writes(), self.workload.trace.objects[object.index()].bytes);
        let tickets = &self.tickets;
        let mut wait = |on: Ticket, hazard| {
            if on != ticket && !tickets.covered(on, stream) {
                add_edge(after, on, hazard);
            }
        };
        for slot in self.ledger.slots_mut(object) {
            if slot.tier != tier {
                // A write leaves every other copy stale; its room is kept for the write-back.
                if writes {
                    slot.falls_behind(written, whole);
                }
                continue;
            }
            if let Some(filled) = slot.filled {
                wait(filled.ticket, Hazard::ReadAfterWrite);
            }
            if writes {
                slot.users.iter().for_each(|user| wait(user.ticket, Hazard::WriteAfterRead));
                slot.users.clear();
                slot.filled = Some(Filled { ticket, by_copy: false });
            }
            slot.add_user(ticket, Some(stream), tickets);
        }
    }

    /// An edge for order that the trace states beyond its data.
    fn await_op(&mut self, before: OpId, op: OpId, stream: u16, after: &mut Edges) {
        // The waited-for op comes earlier in the same replay, so it is the latest of its stream
        // or an older one; waiting for the latest planned of that stream would be too much, so
        // its ticket is looked up.
        let occurrence = self.next - u64::from(op.0 - before.0);
        if let Some(ticket) = self.tickets.of_op(occurrence)
            && !self.tickets.covered(ticket, stream)
        {
            add_edge(after, ticket, Hazard::ReadAfterWrite);
        }
    }

    /// Gives back all room of an object that is used no more after the op `ticket`.
    fn release(&mut self, object: ObjectId, ticket: Ticket, stream: u16, op_at: usize) {
        for slot in std::mem::take(self.ledger.slots_mut(object)) {
            let allocation = self.allocation(object, slot.tier);
            let filled = slot.filled.map(|filled| filled.ticket);
            let tickets = || filled.into_iter().chain(slot.users.iter().map(|user| user.ticket));
            // Usually the op ends last, and gives the room back itself.
            let giver = if tickets().all(|t| t == ticket || self.tickets.covered(t, stream)) {
                self.out[op_at].frees.push(allocation);
                ticket
            } else {
                let mut after = Edges::new();
                add_edge(&mut after, ticket, Hazard::WriteAfterRead);
                tickets().for_each(|on| self.wait(on, Hazard::WriteAfterRead, &mut after));
                self.issue(Work::Release, after, None, Some(allocation))
            };
            self.ledger.give_back(allocation, giver, &self.tickets);
            self.observe();
        }
    }

    /// A command that is no op, with the room that it takes and the room that it gives back.
    fn issue(
        &mut self,
        work: Work,
        after: Edges,
        allocates: Option<Allocation>,
        frees: Option<Allocation>,
    ) -> Ticket {
        let ticket = self.tickets.issue(None);
        let (allocates, frees) = (SmallVec::from_iter(allocates), SmallVec::from_iter(frees));
        self.out.push(Command { ticket, work, after, allocates, frees });
        ticket
    }

    /// The op that is planned.
    fn op_planned(&self) -> OpId {
        OpId::at((self.next % self.workload.trace.ops.len() as u64) as usize)
    }

    /// What it uses.
    fn uses(&self) -> &'a [Use] {
        self.workload.trace.uses_of(self.op_planned())
    }

    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Policy, &View<'_>) -> T) -> T {
        let Planner { workload, ledger, next: occurrence, total, lookahead, .. } = self;
        let (occurrence, total, lookahead) = (*occurrence, *total, *lookahead);
        question(&mut *self.policy, &View { workload, ledger, occurrence, total, lookahead })
    }

    fn allocate(
        &mut self,
        object: ObjectId,
        tier: TierId,
        after: &mut Edges,
    ) -> Result<(), DoesNotFit> {
        let request =
            AllocationRequest { allocation: self.allocation(object, tier), stream: self.stream };
        let allocated = self.ledger.allocate(request, &self.tickets, after);
        self.observe();
        allocated
    }

    fn allocation(&self, object: ObjectId, tier: TierId) -> Allocation {
        let whole = self.workload.trace.objects[object.index()].bytes;
        Allocation { object, tier, bytes: self.ledger.room_of(object, tier, whole) }
    }

    fn refused(&self, why: Refusal) -> PlanError {
        PlanError::Refused { policy: self.policy.name(), occurrence: self.next, why }
    }
}
