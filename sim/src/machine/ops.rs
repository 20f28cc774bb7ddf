//! How ops run: on streams, when they are released, with their memory, on the device or on the
//! host, and what use in place costs them.
//!
//! Invariant: the time in which a stream waits for a release is nobody's stall.

use super::in_place::{Use, charges, flows};
use super::loads::{Cost, Costs, Load, loads_of, over, plus};
use super::sharing::{Cargo, Channels, Flight};
use super::timed::ENDS;
use super::{Event, Fault, SimMachine, timeline};
use crate::audit::Used;
use smallvec::SmallVec;
use tiersim_models::ids::TierId;
use tiersim_models::outstanding::Traffic;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Op, Unit};
use tiersim_policies::asked::TierTraffic;
use tiersim_policies::command::{Allocating, Ticket, Work};

impl<'a> SimMachine<'a> {
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
            let stall = |channel: usize, span| self.meters.stall[self.ranks.kind(channel)] += span;
            self.blame.charge((idle_since, now), cause, under_way, stall);
            self.meters.op_starts(now, self.is_of_device(ticket));
        }
        self.begin(ticket, cause)?;
        let Work::Compute { occurrence, delay, allocating, .. } =
            self.entries.get(ticket).command.work
        else {
            unreachable!("streams run ops only")
        };
        let allocating = self.allocate(ticket, allocating);
        let host = self.host_time(ticket, idle_since);
        let entry = self.entries.get_mut(ticket);
        (entry.allocating, entry.host) = (allocating, host);
        entry.compute = self.durations.of(occurrence);
        let computes = allocating + host + entry.compute + delay;
        let charges = charges(&entry.command.work);
        let flows = self.uses.as_ref().is_some_and(|uses| uses.any_flows(charges));
        let costs = self.costs(ticket, computes);
        if flows {
            let (began, excess) = (now, SmallVec::new());
            let uses = self.uses.as_mut().expect("a machine on which charges flow");
            uses.under_way.insert(ticket, Use { costs, next: 0, began, open: 0, excess });
            return self.next_use(ticket, computes);
        }
        let total = computes + costs.iter().map(|cost| cost.setup + cost.bytes).sum();
        if self.is_on_host(ticket) {
            let (far, waits) = self.far_memory(ticket);
            let longer = far.iter().map(|&(_, span)| span).sum();
            return self.start_on_host(ticket, total + longer, allocating + host + waits);
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
    /// those ops' own; `in_place` is what it paid for its use of tiers.
    pub(super) fn count(&mut self, ticket: Ticket, in_place: &[(usize, Span)]) {
        let (now, entry) = (self.engine.now(), self.entries.get(ticket));
        if let Work::Compute { ref touches, delay, .. } = entry.command.work {
            self.meters.op_stops(now, self.is_of_device(ticket));
            self.meters.compute += entry.compute;
            self.meters.delay += delay;
            self.meters.allocating += entry.allocating;
            let objects = &self.workload.trace.objects;
            let used = touches.iter().map(|touch| (*touch, objects[touch.object.index()].bytes));
            self.meters.uses(used);
            in_place.iter().for_each(|&(tier, span)| self.meters.in_place[tier] += span);
        }
        for room in &entry.command.frees {
            self.meters.free(room);
            timeline::holds(&mut self.timeline, now, room.tier, &self.meters);
        }
    }

    /// The earliest start of an op.
    pub(super) fn release(&self, ticket: Ticket) -> Time {
        self.op(ticket).and_then(|op| op.release).unwrap_or(Time::ZERO)
    }

    /// The op of the trace that an entry runs; `None` for what is no op.
    pub(super) fn op(&self, entry: Ticket) -> Option<&'a Op> {
        Some(&self.workload.trace.ops[self.entries.get(entry).op? as usize])
    }

    /// Whether the op at the head of a stream may start; if not, the stream is looked at again when
    /// it may: once, however often something else makes it look before.
    pub(super) fn is_released(&mut self, stream: usize, ticket: Ticket) -> bool {
        let release = self.release(ticket);
        if release <= self.engine.now() {
            return true;
        }
        self.held(ticket);
        if !std::mem::replace(&mut self.streams[stream].awaits_release, true) {
            let stream = u32::try_from(stream).expect("fewer streams than ranks times 2^16");
            self.engine.schedule_at(release, ENDS, Event::Released(stream));
        }
        false
    }

    /// What an op that could start now waits for its memory.
    pub(super) fn allocate(&mut self, op: Ticket, asked: Allocating) -> Span {
        if self.placed_elsewhere {
            return Span::ZERO;
        }
        self.threads.wait(self.ranks.rank(op) as usize, asked, self.engine.now())
    }

    /// Whether an op is one of the host's.
    pub(super) fn is_on_host(&self, op: Ticket) -> bool {
        self.processors.is_some() && self.op(op).is_some_and(|op| op.unit == Unit::Cpu)
    }

    /// What an op of the host takes longer because of bytes in memory beyond DRAM, by tier; and how
    /// much of that it waits for memory that no other device's op uses.
    pub(super) fn far_memory(&self, op: Ticket) -> (SmallVec<[(usize, Span); 4]>, Span) {
        let (mut all, mut alone) = (SmallVec::new(), Span::ZERO);
        let Some(processors) = self.processors.as_ref().filter(|_| self.is_on_host(op)) else {
            return (all, alone);
        };
        let Work::Compute { occurrence, ref touches, .. } = self.entries.get(op).command.work
        else {
            return (all, alone);
        };
        for (tier, far) in &processors.far {
            if touches.iter().all(|touch| touch.tier != *tier) {
                continue;
            }
            let trace = &self.workload.trace;
            let asked = TierTraffic::of(trace, occurrence, touches, *tier, Bytes::new(1));
            let most = u64::MAX / 2;
            let span =
                far.excess(asked.ways.map(|way| u64::try_from(way).unwrap_or(most).min(most)));
            if !far.is_shared {
                alone += span;
            }
            all.push((tier.index(), span));
        }
        (all, alone)
    }

    /// An op starts that takes `total` alone, of which it waits `waits` first, without any
    /// processor.
    pub(super) fn start_on_host(
        &mut self,
        op: Ticket,
        total: Span,
        waits: Span,
    ) -> Result<(), Fault> {
        let processors = self.processors.as_ref().expect("an op of the CPU has processors");
        let launch = (waits + processors.launch).min(total);
        let work = Span::from_ps(total.ps() - launch.ps());
        if launch > Span::ZERO || work == Span::ZERO {
            self.engine.schedule_in(launch, ENDS, Event::Launched { op, work });
            return Ok(());
        }
        self.launched(op, work)
    }

    /// The launch is paid, and the work begins.
    pub(super) fn launched(&mut self, op: Ticket, work: Span) -> Result<(), Fault> {
        if work == Span::ZERO {
            return self.finish(op);
        }
        let now = self.engine.now();
        let processors = self.processors.as_mut().expect("an op of the CPU has processors");
        processors.time.fair.join(processors.class, Bytes::new(work.ps()), op, now);
        Ok(())
    }

    /// One or several ops have ended.
    pub(super) fn worked(&mut self) -> Result<(), Fault> {
        let processors = self.processors.as_mut().expect("an op of the CPU has processors");
        let ended = processors.time.ended(self.engine.now());
        ended.iter().try_for_each(|&op| self.finish(op))?;
        if let Some(processors) = &mut self.processors {
            processors.time.give_back(ended);
        }
        Ok(())
    }

    /// The op goes on with its next charge after `span`, or ends.
    fn next_use(&mut self, op: Ticket, mut span: Span) -> Result<(), Fault> {
        let uses = self.uses.as_mut().expect("a machine on which charges flow");
        let used = uses.under_way.get_mut(&op).expect("it has charges that flow");
        let mut next = used.next;
        let mut flows = false;
        while let Some(&charge) = charges(&self.entries.get(op).command.work).get(next) {
            let cost = used.costs[next];
            span += cost.setup;
            flows = self::flows(&uses.ways, charge.0, charge.1);
            if flows {
                break;
            }
            span += cost.bytes;
            next += 1;
        }
        used.next = next;
        match (flows, span > Span::ZERO) {
            (true, true) => self.engine.schedule_in(span, ENDS, Event::Uses(op)),
            (true, false) => return self.use_flows(op),
            (false, true) => self.engine.schedule_in(span, ENDS, Event::Op(op)),
            (false, false) => return self.computed(op),
        };
        Ok(())
    }

    /// The bytes of a charge begin to go.
    pub(super) fn use_flows(&mut self, op: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let all = self.uses.as_mut().expect("a machine on which charges flow");
        let used = all.under_way.get_mut(&op).expect("it has charges that flow");
        used.began = now;
        let (tier, bytes) = charges(&self.entries.get(op).command.work)[used.next];
        let asked = self.asked(op, tier);
        let rate = self.accesses[tier.index()].rate;
        for (away, bytes) in [false, true].into_iter().zip(asked.split(bytes)) {
            if bytes == Bytes::ZERO {
                continue;
            }
            // What is written goes beside what is read.
            let back = away && !asked.only_writes();
            let all = self.uses.as_mut().expect("a machine on which charges flow");
            all.under_way.get_mut(&op).expect("it has charges that flow").open += 1;
            let way = all.ways[tier.index()].as_ref().expect("its charges flow");
            let channels: Channels = self.ranks.channels(op, &way[usize::from(away)]);
            let used = Used { tier: self.ranks.tier(op, tier), back };
            let class = self.sharing().class(&channels, Some((used, rate)));
            self.flow(Flight { cargo: Cargo::Use { op, bytes }, class })?;
        }
        Ok(())
    }

    /// The charge whose bytes go.
    pub(super) fn charge_under_way(&self, op: Ticket) -> (TierId, Bytes) {
        let uses = self.uses.as_ref().expect("a machine on which charges flow");
        charges(&self.entries.get(op).command.work)[uses.under_way[&op].next]
    }

    /// Bytes of a charge have gone one way.
    pub(super) fn use_landed(&mut self, op: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let uses = self.uses.as_mut().expect("a machine on which charges flow");
        let used = uses.under_way.get_mut(&op).expect("it has charges that flow");
        used.open -= 1;
        if used.open > 0 {
            return Ok(());
        }
        let (tier, bytes) = charges(&self.entries.get(op).command.work)[used.next];
        let gone = now.since(used.began);
        let takes = gone.max(used.costs[used.next].bytes).ps();
        let law = self.accesses[tier.index()].rate.span_of(bytes.get());
        used.excess.push((tier.index(), Span::from_ps(takes - law.ps())));
        used.next += 1;
        self.next_use(op, Span::from_ps(takes - gone.ps()))
    }

    /// What an op asks of a tier.
    pub(super) fn asked(&self, op: Ticket, tier: TierId) -> TierTraffic {
        let Work::Compute { occurrence, ref touches, .. } = self.entries.get(op).command.work
        else {
            unreachable!("ops only have charges")
        };
        let granule = match &self.loads {
            Some(loads) => loads.tiers[self.ranks.tier(op, tier).index()].granule(),
            None => Bytes::new(1),
        };
        TierTraffic::of(&self.workload.trace, occurrence, touches, tier, granule)
    }

    /// An op starts that computes for `span`; what its charges take.
    pub(super) fn costs(&mut self, op: Ticket, span: Span) -> Costs {
        let charges = charges(&self.entries.get(op).command.work);
        let mut costs = Costs::new();
        for &(tier, bytes) in charges {
            let law = self.accesses[tier.index()];
            costs.push(Cost { setup: law.setup, bytes: law.rate.span_of(bytes.get()) });
        }
        if self.loads.is_none() || charges.is_empty() {
            return costs;
        }
        let charges = charges.to_vec();
        let span = span + costs.iter().map(|cost| cost.setup + cost.bytes).sum();
        let mut own: SmallVec<[Load; 2]> = SmallVec::new();
        for (&(tier, bytes), cost) in charges.iter().zip(&mut costs) {
            let (index, asked) = (self.ranks.tier(op, tier).index(), self.asked(op, tier));
            let others = self.traffic(index);
            let flows = self.uses.as_ref().is_some_and(|uses| uses.any_flows(&[(tier, bytes)]));
            let loads = loads_of(&self.loads);
            let tier = &loads.tiers[index];
            let pace = tier.pace(others, asked.ways, asked.charged);
            let average = over(bytes, span, &asked, pace);
            let idle = tier.latency(Traffic::default());
            let rise = tier.latency(plus(others, average)).ps() - idle.ps();
            let (law, rise) = (cost.bytes, Span::from_ps(rise));
            cost.setup += rise;
            cost.bytes = asked.span(tier, bytes, pace);
            // What flows is measured when it has gone.
            let longer = if flows { Span::ZERO } else { Span::from_ps(cost.bytes.ps() - law.ps()) };
            own.push(Load { tier: index, own: average, excess: rise + longer });
        }
        let loads = self.loads.as_mut().expect("looked at above");
        for load in &own {
            loads.used[load.tier] = plus(loads.used[load.tier], load.own);
        }
        loads.under_way.insert(op, own);
        costs
    }

    /// What a piece of a copy over `channels` takes beyond their laws because others use the memory
    /// where it comes from or goes to.
    pub(super) fn slowed(&mut self, channels: &[usize], bytes: Bytes) -> Span {
        let Some(loads) = &self.loads else { return Span::ZERO };
        let rate = channels.iter().map(|&channel| self.channels[channel].law.rate).min();
        let rate = rate.expect("a piece crosses a channel");
        let ends = channels.iter().filter_map(|&channel| loads.ends.get(channel)).copied();
        let mut least = rate;
        for [from, to] in ends.collect::<SmallVec<[_; 4]>>() {
            for (tier, reading) in [(from, true), (to, false)] {
                let Some(tier) = tier else { continue };
                let others = self.traffic(tier);
                let loads = loads_of(&self.loads);
                least = least.min(loads.tiers[tier].copied(rate, others, reading));
            }
        }
        Span::from_ps(least.span_of(bytes.get()).ps() - rate.span_of(bytes.get()).ps())
    }

    /// What is read from a tier and written to it now, if that matters to anybody.
    fn traffic(&mut self, tier: usize) -> Traffic {
        let loads = loads_of(&self.loads);
        let (mut traffic, channels) = (loads.used[tier], loads.ends.len());
        if loads.tiers[tier].loaded.is_none() {
            return Traffic::default();
        }
        for channel in 0..channels {
            let [from, to] = loads_of(&self.loads).ends[channel];
            if from == Some(tier) {
                traffic.read += self.rate_in_use(channel);
            }
            if to == Some(tier) {
                traffic.written += self.rate_in_use(channel);
            }
        }
        // Objects that are moved within it.
        let within = self.rate_in_use(channels + tier);
        traffic.read += within;
        traffic.written += within;
        traffic
    }

    /// Bytes per second that go over a channel now.
    fn rate_in_use(&mut self, channel: usize) -> u64 {
        let found = &self.channels[channel];
        if !found.shared {
            let most = u64::from(u32::MAX) << 28;
            return found.law.rate.get().saturating_mul(found.busy.into()).min(most);
        }
        self.shared_rate(channel)
    }
}
