//! Streams: in-order queues of a device, and the ops on them.
//!
//! Invariant: of a stream at most one op runs, and they start in the order of submission.

use super::{ENDS, Event, Fault, SimMachine, timeline};
use std::collections::VecDeque;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::{Ticket, Work};

#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) waiting: VecDeque<Ticket>,
    pub(super) running: bool,
    /// Whether an event is to come that lets its first op start.
    pub(super) awaits_release: bool,
    /// When its last op ended.
    pub(super) idle_since: Time,
}

impl SimMachine<'_> {
    /// Starts the op at the head of a stream, if it may; `cause` is what has just ended. One that
    /// all ranks do together waits for all of them.
    pub(super) fn try_stream(&mut self, stream: usize, cause: Option<Ticket>) -> Result<(), Fault> {
        let queue = &self.streams[stream];
        let Some(&ticket) = queue.waiting.front() else { return Ok(()) };
        if queue.running || self.entries.get(ticket).indegree > 0 {
            return Ok(());
        }
        if !self.is_released(stream, ticket) {
            return Ok(());
        }
        if self.ranks.count() > 1 && self.is_collective(ticket) {
            return self.start_together(stream, ticket, cause);
        }
        self.start_op(stream, cause)
    }

    pub(super) fn start_op(&mut self, stream: usize, cause: Option<Ticket>) -> Result<(), Fault> {
        let now = self.engine.now();
        let queue = &mut self.streams[stream];
        let ticket = queue.waiting.pop_front().expect("an op is first in its stream");
        queue.running = true;
        queue.awaits_release = false;
        let idle_since = queue.idle_since;
        let release = self.release(ticket);
        let idle_since = idle_since.max(release);
        self.sets_out(ticket, release);
        let is_first = self.ranks.is_first(ticket);
        if is_first {
            let under_way = |ticket| self.entries.under_way(ticket);
            let stall = |lane: usize, span| self.meters.stall[self.ranks.kind(lane)] += span;
            self.blame.charge((idle_since, now), cause, under_way, stall);
            self.meters.op_starts(now);
        }
        self.begin(ticket, cause)?;
        let Work::Compute { allocating, .. } = self.entries.get(ticket).command.work else {
            unreachable!("streams run ops only")
        };
        let allocating = self.allocate(ticket, allocating);
        let entry = self.entries.get_mut(ticket);
        entry.allocating = allocating;
        let Work::Compute { occurrence, ref charges, delay, .. } = entry.command.work else {
            unreachable!("streams run ops only")
        };
        entry.compute = self.durations.of(occurrence);
        let computes = allocating + entry.compute + delay;
        let flows = self.uses.as_ref().is_some_and(|uses| uses.any_flows(charges));
        let costs = self.costs(ticket, computes);
        if flows {
            return self.start_uses(ticket, costs);
        }
        let total = computes + costs.iter().map(|cost| cost.setup + cost.bytes).sum();
        if self.is_on_host(ticket) {
            return self.start_on_host(ticket, total, allocating);
        }
        self.engine.schedule_in(total, ENDS, Event::Op(ticket));
        Ok(())
    }

    /// The device has done its part of an op; what it does with others is still to come.
    pub(super) fn computed(&mut self, ticket: Ticket) -> Result<(), Fault> {
        match self.is_collective(ticket) {
            true => self.meet(ticket),
            false => self.finish(ticket),
        }
    }

    /// Counts a command of the first device at its end, so that figures of a stretch of ops are
    /// those ops' own; `beyond` is what its use of tiers took beyond their laws.
    pub(super) fn count(&mut self, ticket: Ticket, beyond: &[(usize, Span)]) {
        let in_place = self.in_place(ticket, beyond);
        let (now, entry) = (self.engine.now(), self.entries.get(ticket));
        if let Work::Compute { ref touches, delay, .. } = entry.command.work {
            self.meters.compute += entry.compute;
            self.meters.delay += delay;
            self.meters.allocating += entry.allocating;
            let objects = &self.workload.trace.objects;
            let used = touches.iter().map(|touch| (*touch, objects[touch.object.index()].bytes));
            self.meters.op_ends(now, used);
            in_place.iter().for_each(|&(tier, span)| self.meters.in_place[tier] += span);
        }
        for room in &entry.command.frees {
            self.meters.free(room);
            timeline::holds(&mut self.timeline, now, room.tier, &self.meters);
        }
    }
}
