//! A machine that is watched from outside: what it is told, what ends, and when.
//!
//! It keeps an account apart from planner, machine and auditor. Each rule is said where it is
//! checked; [`Watch::finished`] checks what can be told only at the end.

use super::Trial;
use super::steps::Steps;
use crate::prelude::*;
use tiersim_models::compression::Stage;
use tiersim_models::hardware::Channel;
use tiersim_models::routes::Routes;
use tiersim_policies::asked::TierTraffic;
use tiersim_policies::command::ObjectAccess;
use tiersim_sim::machine::meters::Meters;

/// What does not hold, and after how many events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event}: {what}")]
pub struct Breach {
    /// Events processed so far.
    pub event: u64,
    /// The rule and what was found.
    pub what: String,
}

/// The watched machine of one run.
pub(super) struct Watch<'a> {
    trial: &'a Trial,
    machine: SimMachine<'a>,
    routes: &'a Routes,
    without: Option<Hazard>,
    /// Commands that were submitted and have not ended.
    open: BTreeSet<Ticket>,
    submitted: u64,
    copies: u64,
    /// When each op of the run ended.
    pub(super) ends: Vec<Option<Time>>,
    /// No op can end earlier: durations along streams, releases, stated order, reads after writes.
    earliest: Vec<u64>,
    streams: Vec<u64>,
    /// By object: when its last write can have ended at the earliest.
    written: Vec<u64>,
    /// Bytes that the plan sends over each channel, and moves within each tier.
    sent: Vec<u128>,
    /// Bytes that ops use in place over each channel, and of each tier, where these flow.
    used: Vec<u128>,
    used_of: Vec<u128>,
    /// No run takes longer, in picoseconds: after the last release, everything after everything
    /// else.
    latest: f64,
    /// No run has more events.
    budget: u64,
    last: Time,
    /// What was measured by the end of each replay, and when that was.
    marks: Vec<(Time, Meters)>,
    steps: Steps,
    memory: Memory,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        trial: &'a Trial,
        machine: SimMachine<'a>,
        routes: &'a Routes,
        without: Option<Hazard>,
    ) -> Watch<'a> {
        let trace = &trial.workload.trace;
        let ops = trace.ops.len() * trial.repeat as usize;
        let released = trace.ops.iter().filter_map(|op| op.release).max();
        let before = machine.so_far();
        Watch {
            machine,
            routes,
            without,
            open: BTreeSet::new(),
            submitted: 0,
            copies: 0,
            ends: vec![None; ops],
            earliest: vec![0; ops],
            streams: vec![0; trace.ops.iter().map(|op| op.stream + 1).max().unwrap_or(0).into()],
            written: vec![0; trace.objects.len()],
            sent: vec![0; trial.hardware.links.len() * 2 + trial.hardware.tiers.len()],
            used: vec![0; trial.hardware.links.len() * 2],
            used_of: vec![0; trial.hardware.tiers.len()],
            latest: released.map_or(0.0, |released| released.ps() as f64),
            budget: 16,
            last: Time::ZERO,
            marks: vec![(Time::ZERO, before)],
            steps: Steps::new(trial),
            memory: trial.memory(),
            trial,
        }
    }

    pub(super) fn copies(&self) -> u64 {
        self.copies
    }

    pub(super) fn machine(&self) -> &SimMachine<'a> {
        &self.machine
    }

    pub(super) fn breach(&self, what: impl Into<String>) -> Breach {
        Breach { event: self.machine.events(), what: what.into() }
    }

    fn ensure(&self, holds: bool, what: impl FnOnce() -> String) -> Result<(), Breach> {
        if holds { Ok(()) } else { Err(self.breach(what())) }
    }

    fn op(
        &mut self,
        (occurrence, stream, delay): (u64, u16, Span),
        touches: &[ObjectAccess],
        charges: &[(TierId, Bytes)],
    ) {
        let trial = self.trial;
        let ops = trial.workload.trace.ops.len() as u64;
        let duration = trial.durations.least(occurrence).ps() + delay.ps();
        let stream = &mut self.streams[usize::from(stream)];
        let mut start = *stream;
        let op = (occurrence % ops) as usize;
        if let Some(release) = trial.workload.trace.ops[op].release {
            start = start.max(release.ps());
            // Its stream is told once to look again.
            self.budget += 1;
        }
        for before in &trial.workload.trace.ops[op].after {
            let before = occurrence - (op - before.index()) as u64;
            start = start.max(self.earliest[before as usize]);
        }
        // A later life of an object has nothing to do with an earlier one; and readers of one copy
        // do not keep a writer of another waiting.
        let births = trial.workload.births(OpId::at(op));
        births.iter().for_each(|object| self.written[object.index()] = 0);
        for touch in touches {
            start = start.max(self.written[touch.object.index()]);
        }
        let end = start + duration;
        *stream = end;
        self.earliest[occurrence as usize] = end;
        for touch in touches.iter().filter(|touch| touch.mode.writes()) {
            self.written[touch.object.index()] = end;
        }
        let tier = |tier: TierId| &trial.hardware.tiers[tier.index()];
        let rise = |of: TierId| tier(of).loaded.as_ref().map_or(0, |loaded| loaded.most().ps());
        let trace = &trial.workload.trace;
        let delays = charges.iter().map(|&(of, bytes)| {
            let used = tier(of);
            let asked = TierTraffic::of(trace, occurrence, touches, of, used.granule());
            let takes = asked.span(used, bytes, used.least_pace()).ps();
            rise(of) + used.access.setup.ps() + takes
        });
        let rises: u64 = touches.iter().map(|touch| rise(touch.tier)).sum();
        self.latest += (duration + delays.sum::<u64>() + rises) as f64;
        for &(of, bytes) in charges {
            let asked = TierTraffic::of(trace, occurrence, touches, of, Bytes::new(1));
            self.charge(of, bytes, &asked);
        }
        match trial.workload.trace.ops[op].unit {
            Unit::Network(collective) => self.together(collective),
            Unit::Cpu => touches.iter().for_each(|touch| self.far(touch)),
            _ => {}
        }
    }

    /// What the host's processors use in CXL memory crosses every link to DRAM, there and back, one
    /// after the other.
    fn far(&mut self, touch: &ObjectAccess) {
        let hardware = &self.trial.hardware;
        let is = |tier: TierId, kind| hardware.tiers[tier.index()].kind == kind;
        let near = hardware.tier_ids().find(|&tier| is(tier, TierKind::Dram));
        let Some(near) = near.filter(|_| is(touch.tier, TierKind::Cxl)) else { return };
        let bytes = self.trial.workload.trace.objects[touch.object.index()].bytes.get() as f64;
        let takes = |rate: Bandwidth| PS_PER_S as f64 * bytes / rate.get() as f64;
        for (from, to) in [(touch.tier, near), (near, touch.tier)] {
            for &channel in self.routes.between(from, to) {
                let service = hardware.links[channel.link.index()].service.as_ref();
                let total = service.and_then(Service::least_total).map_or(0.0, takes);
                self.latest += takes(hardware.channel_law(channel).rate) + total + 4.0;
            }
        }
    }

    /// The device sends and receives as much as every other does.
    fn together(&mut self, collective: Collective) {
        let hardware = &self.trial.hardware;
        let laws = hardware.collective_laws(self.trial.spec.ranks);
        let exchange = collective.exchange(laws);
        for (way, node) in hardware.meetings().into_iter().enumerate() {
            let out = node.and_then(|node| hardware.way_out(node)).unwrap_or_default();
            for channel in out
                .into_iter()
                .flat_map(|channel| [false, true].map(|evicting| Channel { evicting, ..channel }))
            {
                self.sent[channel.index()] += u128::from(exchange.bytes[way].get());
                self.latest += (exchange.steps[way] * laws.ways[way].setup.ps()) as f64;
                self.crosses(channel, exchange.bytes[way], 1.0);
            }
        }
        self.budget += 16;
    }

    /// What it takes to send so much over a channel and wait for everything else there, where
    /// others make it so many times as slow.
    fn crosses(&mut self, channel: Channel, bytes: Bytes, worst: f64) {
        let hardware = &self.trial.hardware;
        let link = &hardware.links[channel.link.index()];
        let total = link.service.as_ref().and_then(|service| service.least_total());
        let total = total.map(|total| link.left_by_background(total));
        let seconds = |rate: Bandwidth| bytes.get() as f64 / rate.get() as f64;
        let slowest = seconds(hardware.slowest(channel).rate) * worst + total.map_or(0.0, seconds);
        self.latest += PS_PER_S as f64 * slowest + 4.0;
    }

    /// What is used in place flows where one hop of shared links leads from the tier to the device:
    /// what is written away from it, the rest towards it.
    fn charge(&mut self, tier: TierId, bytes: Bytes, asked: &TierTraffic) {
        let hardware = &self.trial.hardware;
        if !hardware.uses_flow(self.routes, tier) {
            return;
        }
        for (away, bytes) in [false, true].into_iter().zip(asked.split(bytes)) {
            if away == asked.only_writes() {
                self.used_of[tier.index()] += u128::from(bytes.get());
            }
            let (from, to) = if away { (HBM, tier) } else { (tier, HBM) };
            for &channel in self.routes.between(from, to) {
                self.used[channel.index()] += u128::from(bytes.get());
                self.crosses(channel, bytes, 1.0);
            }
        }
        self.budget += 8;
    }

    fn copy(&mut self, object: ObjectId, bytes: Bytes, from: TierId, to: TierId) {
        let hardware = &self.trial.hardware;
        let size = self.trial.workload.trace.objects[object.index()].bytes;
        debug_assert!(bytes <= size, "no more than the object is copied");
        let pieces = bytes.get().div_ceil(hardware.chunk.get());
        self.copies += 1;
        // Others in a memory slow what comes from it or goes to it.
        let worst = hardware.tiers.iter().map(|tier| tier.worst()).fold(1.0, f64::max);
        for (channel, bytes) in self.way(object, bytes, (from, to)) {
            self.sent[channel.index()] += u128::from(bytes.get());
            let setup = hardware.slowest(channel).setup;
            self.latest += pieces as f64 * (setup.ps() + 4) as f64;
            self.crosses(channel, bytes, worst);
            self.budget += 4 * pieces + 4;
        }
    }

    /// The channels that a copy crosses, and how many bytes cross each. Whether these are right the
    /// auditor says.
    fn way(&self, object: ObjectId, bytes: Bytes, ends: (TierId, TierId)) -> Vec<(Channel, Bytes)> {
        let stages = self.memory.stores().and_then(|s| s.way(object, self.routes, ends, bytes));
        let Some(stages) = stages else {
            return self.routes.between(ends.0, ends.1).iter().map(|&way| (way, bytes)).collect();
        };
        let crossed = |stage: &Stage<'_>| {
            stage.channels.iter().map(|&way| (way, stage.bytes)).collect::<Vec<_>>()
        };
        stages.iter().flat_map(crossed).collect()
    }

    /// Each byte of a compaction is read and written by its tier.
    fn compact(&mut self, tier: TierId, bytes: Bytes) {
        let hardware = &self.trial.hardware;
        self.sent[hardware.links.len() * 2 + tier.index()] += u128::from(bytes.get());
        let Law { setup, rate } = hardware.tiers[tier.index()].access;
        // Within the device it is a kernel, which is launched.
        let launch = hardware.compute.as_ref().filter(|_| tier == HBM).map(|own| own.launch);
        let setup = setup.max(launch.unwrap_or_default());
        self.latest += (setup.ps() + 4) as f64;
        self.latest += PS_PER_S as f64 * 2.0 * bytes.get() as f64 / rate.get() as f64;
        // Those of several ranks take turns in a tier that they share.
        self.budget += 8 + 4 * bytes.get().div_ceil(hardware.chunk.get());
    }

    /// Time that a channel needs for all its bytes, rounded down.
    fn needed(bytes: u128, rate: u64, at_once: u32) -> u128 {
        bytes * u128::from(PS_PER_S) / u128::from(rate) / u128::from(at_once)
    }

    /// A channel carried all that was sent, in the time of the run.
    fn channel_rules(&self, channel: Channel, end: Time) -> Result<(), Breach> {
        let (meters, index) = (self.machine.meters(), channel.index());
        let (sent, moved) = (self.sent[index], u128::from(meters.moved[index].get()));
        let name = || self.trial.hardware.channel_name(channel);
        self.ensure(moved == sent, || format!("{} carried {moved} bytes of {sent}", name()))?;
        let sent = |index: usize| self.sent[index] + self.used[index];
        // Flows end at whole picoseconds, the earliest of them up to one early.
        let slack = if self.service(channel).0 { self.machine.events() } else { 0 };
        let span = end.since(Time::ZERO);
        self.paid(channel, sent, (meters.busy[index], span, slack))
    }

    /// What a channel carried between two moments was paid between them.
    fn paid_between(
        &self,
        channel: Channel,
        (from, before): &(Time, Meters),
        (to, after): &(Time, Meters),
    ) -> Result<(), Breach> {
        // What is under way at either moment is counted in whole bytes.
        let rounded = 2 * u128::from(self.submitted);
        let carried = |index: usize| {
            let moved = after.moved[index].get() - before.moved[index].get();
            u128::from(moved).saturating_sub(rounded)
        };
        let busy = after.busy[channel.index()].ps() - before.busy[channel.index()].ps();
        let times = (Span::from_ps(busy), to.since(*from), self.machine.events());
        self.paid(channel, carried, times)
    }

    /// Whether flows share the link of a channel, and how many copies it carries at once.
    fn service(&self, channel: Channel) -> (bool, u32) {
        let service = self.trial.hardware.links[channel.link.index()].service.as_ref();
        let fair = service.is_some_and(|service| service.discipline == Discipline::FairShare);
        (fair, if fair { 1 } else { service.map_or(1, |service| service.at_once()) })
    }

    /// The bytes that a channel carried, and those of both directions of its link, were paid in
    /// `span` and `slack` picoseconds, and it was busy for no longer.
    fn paid(
        &self,
        channel: Channel,
        carried: impl Fn(usize) -> u128,
        (busy, span, slack): (Span, Span, u64),
    ) -> Result<(), Breach> {
        let (hardware, name) = (&self.trial.hardware, || self.trial.hardware.channel_name(channel));
        let (own, other) = (carried(channel.index()), carried(channel.index() ^ 1));
        let most = u128::from(span.ps()) + u128::from(slack);
        let (_, at_once) = self.service(channel);
        let needed = Self::needed(own, hardware.channel_law(channel).rate.get(), at_once);
        self.ensure(most >= needed, || {
            format!("{} carried {own} bytes in {span}, it needs {needed} ps", name())
        })?;
        self.ensure(busy <= span, || format!("{} was busy {busy} of {span}", name()))?;
        let service = hardware.links[channel.link.index()].service.as_ref();
        let Some(total) = service.and_then(|service| service.total) else { return Ok(()) };
        let needed = Self::needed(own + other, total.get(), 1);
        self.ensure(most >= needed, || {
            format!("both ways of {} in {span}, they need {needed} ps", name())
        })
    }

    /// What must hold once nothing is under way.
    pub(super) fn finished(&mut self, memory: &Memory, used: &[Bytes]) -> Result<(), Breach> {
        let events = self.machine.events();
        let more = self.machine.next().map_err(|fault| self.breach(fault.to_string()))?;
        self.ensure(more.is_none(), || format!("{more:?} ends after the end"))?;
        self.ensure(self.machine.events() == events, || "an event after the end".to_owned())?;
        let open = self.open.len();
        self.ensure(open == 0, || format!("{open} of {} commands never ended", self.submitted))?;
        let missing = self.ends.iter().position(Option::is_none);
        self.ensure(missing.is_none(), || format!("op {missing:?} of the run never ended"))?;
        // What ranks share may serve one after the other.
        let (end, latest) = (self.last, self.latest * f64::from(self.trial.spec.ranks));
        let most = latest * 1.000_001 + 4.0 * events as f64;
        self.ensure(end.ps() as f64 <= most, || {
            format!("the run took {} ps, all of it in turn would take {latest}", end.ps())
        })?;
        self.trial.hardware.channels().try_for_each(|channel| self.channel_rules(channel, end))?;
        let pairs = self.marks.windows(2).chain([&self.marks[..]]);
        for pair in pairs.filter(|pair| pair.len() > 1) {
            let (from, to) = (&pair[0], &pair[pair.len() - 1]);
            self.trial
                .hardware
                .channels()
                .try_for_each(|channel| self.paid_between(channel, from, to))?;
        }
        let meters = self.machine.meters();
        let tiers = self.trial.hardware.tiers.iter().enumerate();
        for (index, tier) in tiers {
            let within = self.trial.hardware.links.len() * 2 + index;
            let (moved, sent) = (u128::from(meters.moved[within].get()), self.sent[within]);
            self.ensure(moved == sent, || {
                format!("{} moved {moved} bytes of {sent} together", tier.name)
            })?;
            let (peak, room) = (meters.peak[index], memory.usable(TierId::at(index)));
            let holds = room.holds(peak);
            self.ensure(holds, || format!("{} held {peak} of {room}", tier.name))?;
            let needed = Self::needed(self.used_of[index], tier.access.rate.get(), 1);
            let holds = u128::from(end.ps() + events) >= needed;
            self.ensure(holds, || {
                format!("{} was used in {end}, it needs {needed} ps", tier.name)
            })?;
            let (found, wanted) = (meters.used[index], used[index]);
            let holds = found == wanted;
            self.ensure(holds, || format!("{} holds {found}, planned {wanted}", tier.name))?;
        }
        Ok(())
    }

    fn ended(&mut self, at: Time, ticket: Ticket) -> Result<(), Breach> {
        let last = self.last;
        self.ensure(at >= last, || format!("{ticket:?} ends at {at}, after {last}"))?;
        self.last = at;
        let known = self.open.remove(&ticket);
        self.ensure(known, || format!("{ticket:?} ends, and is not under way"))?;
        let budget = self.budget * u64::from(self.trial.spec.ranks);
        let events = self.machine.events();
        self.ensure(events <= budget, || format!("{events} events where {budget} are enough"))
    }

    /// An op of the run has ended.
    pub(super) fn op_ended(&mut self, occurrence: u64, at: Time) -> Result<(), Breach> {
        let before = self.ends[occurrence as usize].replace(at);
        self.ensure(before.is_none(), || format!("op {occurrence} of the run ran twice"))?;
        if (occurrence + 1).is_multiple_of(self.trial.workload.trace.ops.len() as u64) {
            self.marks.push((self.machine.now(), self.machine.so_far()));
        }
        let split = self.steps.op_ended(self.trial, occurrence, at, &mut self.machine);
        split.map_err(|what| self.breach(what))?;
        let earliest = self.earliest[occurrence as usize];
        self.ensure(at.ps() >= earliest, || {
            format!(
                "op {occurrence} ends at {} ps, the ops before it alone take {earliest}",
                at.ps()
            )
        })
    }
}

impl Machine for Watch<'_> {
    type Fault = Breach;

    fn submit(&mut self, mut command: Command) -> Result<(), Breach> {
        let ticket = command.ticket;
        let later = command.after.iter().find(|edge| edge.ticket >= ticket);
        self.ensure(later.is_none(), || format!("{ticket:?} waits for {later:?}"))?;
        command.after.retain(|edge| Some(edge.hazard) != self.without);
        let new = self.open.insert(ticket);
        self.ensure(new, || format!("{ticket:?} is planned twice"))?;
        self.submitted += 1;
        self.budget += 2;
        match &command.work {
            Work::Compute { occurrence, stream, touches, charges, delay, allocating } => {
                // What the thread does may have been done long before.
                self.latest += allocating.thread.ps() as f64;
                self.op((*occurrence, *stream, *delay + allocating.device), touches, charges);
            }
            Work::Copy { object, bytes, from, to } => self.copy(*object, *bytes, *from, *to),
            Work::Compact { tier, bytes, .. } => self.compact(*tier, *bytes),
            Work::Release => {}
        }
        self.machine.submit(command).map_err(|fault| self.breach(fault.to_string()))
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Breach> {
        let next = self.machine.next().map_err(|fault| self.breach(fault.to_string()))?;
        if let Some((at, ticket)) = next {
            self.ended(at, ticket)?;
        }
        Ok(next)
    }
}
