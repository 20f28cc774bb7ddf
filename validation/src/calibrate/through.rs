//! Probes that go through a machine: short plans written by hand, and the ends that it reports.
//!
//! Any [`crate::real::RealMachine`] is measured like this, so what a law is fitted to is what a
//! plan meets: queues, edges, waking, checks of arrivals. Everything is submitted behind a first op
//! that lasts until it has been, so that no copy waits for the thread that plans.
//! A copy's time is its own, from its start to its end, as `validate` compares it; what passes
//! between an op and a copy that it waits for is measured apart.
//! Repeats go round over several objects and several rooms, since a plan rarely copies what the
//! last copy has left in the nearest cache.
//! Invariant: the first time round is never counted; contents are checked, and a mismatch
//! is a fault.

use crate::calibrate::probe::Start;
use crate::fault::{Fault, Result};
use crate::host::room::is_file;
use crate::options::Options;
use crate::real::{Kind, RealMachine, Report, Setup};
use smallvec::{SmallVec, smallvec};
use std::path::Path;
use tiersim_models::hardware::{Channel, Hardware};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta};
use tiersim_policies::command::{
    Allocating, Allocation, Command, Edge, Hazard, ObjectAccess, Ticket, Work,
};

/// Bytes of all objects that take turns, and most of them: more than a core's own cache holds.
const TURNS: (u64, u64) = (8 << 20, 32);
/// The same between a device's memory and the host's, where copies find what was copied last in the
/// last cache of either.
const DEVICE_TURNS: (u64, u64) = (128 << 20, 64);
/// The first op lasts this long per command submitted behind it: some ten times what that takes.
const PER_COMMAND: Span = Span::from_us(20);
/// Long enough for a driver to give memory.
const ROOM: Span = Span::from_us(10_000);
/// Long enough for an idle thread to be parked.
const PAUSE: Span = Span::from_us(300);

/// A machine that is opened anew for every point.
#[derive(Clone, Copy, Debug)]
pub struct Through<'a> {
    /// Which.
    pub machine: Kind,
    /// Which device of it, counted from 0; a host has no choice.
    pub device: usize,
    /// Its tiers and links.
    pub skeleton: &'a Hardware,
    /// Where tiers that are files lie.
    pub scratch: &'a Path,
}

/// Commands under construction, with how long each op lasts.
#[derive(Default)]
struct Plan {
    commands: Vec<Command>,
    spans: Vec<Span>,
}

impl Plan {
    fn push(
        &mut self,
        work: Work,
        after: SmallVec<[Edge; 6]>,
        (allocates, frees): (Option<Allocation>, Option<Allocation>),
    ) -> Ticket {
        let ticket = Ticket(u32::try_from(self.commands.len()).expect("a short plan"));
        let (allocates, frees) = (allocates.into_iter().collect(), frees.into_iter().collect());
        self.commands.push(Command { ticket, work, after, allocates, frees });
        ticket
    }

    fn op(&mut self, span: Span, after: Option<Ticket>, touch: Option<ObjectAccess>) -> Ticket {
        let occurrence = self.spans.len() as u64;
        self.spans.push(span);
        let (touches, charges) = (touch.into_iter().collect(), SmallVec::new());
        let (delay, allocating) = (Span::ZERO, Allocating::default());
        let work = Work::Compute { occurrence, stream: 0, touches, charges, delay, allocating };
        let edge = |ticket| Edge { ticket, hazard: Hazard::ReadAfterWrite };
        self.push(work, after.map(edge).into_iter().collect(), (None, None))
    }

    /// Copies an object, and gives back the room of the `free`d object there: an earlier copy's.
    fn copy(
        &mut self,
        (object, free): (ObjectId, Option<ObjectId>),
        bytes: Bytes,
        (from, to): (TierId, TierId),
        after: Ticket,
    ) -> Ticket {
        let work = Work::Copy { object, bytes, from, to };
        let after = smallvec![Edge { ticket: after, hazard: Hazard::IssueOrder }];
        let room = |object| Allocation { object, tier: to, bytes };
        self.push(work, after, (Some(room(object)), free.map(room)))
    }
}

/// How many objects of a size take turns.
fn turns(size: Bytes, (bytes, most): (u64, u64)) -> usize {
    (bytes / size.get().max(1)).clamp(1, most) as usize
}

/// The object of the n-th copy, and the one whose room that copy gives back: the room is needed
/// again a whole round later, less one.
fn turn(n: usize, turns: usize) -> (ObjectId, Option<ObjectId>) {
    let free = (n + 1).checked_sub(turns).map(|earlier| ObjectId::at(earlier % turns));
    (ObjectId::at(n % turns), free)
}

impl Through<'_> {
    /// How many objects of a size take turns in these tiers.
    fn turns(&self, size: Bytes, tiers: &[TierId]) -> usize {
        let files = tiers.iter().any(|tier| is_file(self.skeleton.tiers[tier.index()].kind));
        let caches = self.machine == Kind::Cuda && !files;
        turns(size, if caches { DEVICE_TURNS } else { TURNS })
    }

    /// See [`crate::calibrate::probe::Kind::Channel`].
    pub fn channel(
        &self,
        channel: Channel,
        start: Start,
        size: Bytes,
        repeats: usize,
    ) -> Result<Vec<Span>> {
        let (from, to) = ends(self.skeleton, channel);
        let turns = self.turns(size, &[from, to]);
        let room = |object, tier| Allocation { object: ObjectId::at(object), tier, bytes: size };
        let mut rooms: Vec<Allocation> = (0..turns).map(|object| room(object, from)).collect();
        let mut plan = Plan::default();
        if start == Start::Idle {
            let mut before = plan.op(PAUSE, None, None);
            for n in 0..turns + repeats {
                let copy = plan.copy(turn(n, turns), size, (from, to), before);
                before = plan.op(PAUSE, Some(copy), None);
            }
            let (_, report) = self.carry_out(plan, rooms, usize::MAX)?;
            let gap = |pair: &[(Time, Time)]| pair[1].0.since(pair[0].1);
            return Ok(times(&report).windows(2).skip(turns).map(gap).collect());
        }
        let others = if start == Start::Both { 2 } else { 0 };
        let other = ObjectId::at(turns);
        if start == Start::Both {
            rooms.push(room(turns, to));
        }
        let gate = plan.op(behind((1 + others) * (turns + repeats)), None, None);
        let mut ours = Vec::new();
        for n in 0..turns + repeats {
            ours.push(plan.copy(turn(n, turns), size, (from, to), gate));
            // Twice as many, so that the other channel is still busy when ours has ended, unless it
            // is more than twice as fast.
            for _ in 0..others {
                plan.copy((other, Some(other)), size, (to, from), gate);
            }
        }
        let (_, report) = self.carry_out(plan, rooms, usize::MAX)?;
        let time = |ticket: &Ticket| {
            let copy = report.copies_run.iter().find(|copy| copy.ticket == *ticket);
            copy.map(|copy| copy.end.since(copy.start))
        };
        Ok(ours.iter().skip(turns).filter_map(time).collect())
    }

    /// See [`crate::calibrate::probe::Kind::Launch`].
    pub fn launch(&self, repeats: usize) -> Result<Vec<Span>> {
        let times = self.chain(Span::ZERO, repeats, usize::MAX)?;
        Ok(times.windows(2).map(|pair| pair[1].1.since(pair[0].1)).collect())
    }

    /// See [`crate::calibrate::probe::Kind::Between`].
    pub fn between(&self, repeats: usize) -> Result<Vec<Span>> {
        // Who plans a run submits a command for each that has ended.
        let times = self.chain(PAUSE, repeats, 4)?;
        Ok(times.windows(2).map(|pair| pair[1].0.since(pair[0].1)).collect())
    }

    /// One op after the other, each of the same length: start and end of all but the first.
    fn chain(&self, length: Span, repeats: usize, ahead: usize) -> Result<Vec<(Time, Time)>> {
        let mut plan = Plan::default();
        plan.op(behind(repeats + 1), None, None);
        for _ in 0..=repeats {
            plan.op(length, None, None);
        }
        let (_, report) = self.carry_out(plan, Vec::new(), ahead)?;
        Ok(times(&report).split_off(1))
    }

    /// See [`crate::calibrate::probe::Kind::InPlace`].
    pub fn in_place(
        &self,
        tier: TierId,
        writes: bool,
        size: Bytes,
        repeats: usize,
    ) -> Result<Vec<Span>> {
        let (mode, written) = if writes { (Mode::Write, size) } else { (Mode::Read, Bytes::ZERO) };
        let turns = self.turns(size, &[tier]);
        let mut plan = Plan::default();
        for n in 0..turns + repeats {
            plan.op(
                Span::ZERO,
                None,
                Some(ObjectAccess { object: ObjectId::at(n % turns), tier, mode, written }),
            );
        }
        let room = |object| Allocation { object: ObjectId::at(object), tier, bytes: size };
        let (_, report) = self.carry_out(plan, (0..turns).map(room).collect(), usize::MAX)?;
        Ok(times(&report).iter().skip(turns).map(|&(start, end)| end.since(start)).collect())
    }

    /// Fetches `count` objects over a channel, each used by an op that lasts `op`, with room for
    /// two at a time: the copy of the next goes on beside the op. From the start of the first copy
    /// to the end of the last op.
    pub fn double_buffered(
        &self,
        channel: Channel,
        size: Bytes,
        op: Span,
        count: usize,
    ) -> Result<Span> {
        let (from, to) = ends(self.skeleton, Channel { evicting: false, ..channel });
        let room = |index, tier| Allocation { object: ObjectId::at(index), tier, bytes: size };
        let mut plan = Plan::default();
        // A device's memory may be taken behind it, which takes its time as well.
        let gate = plan.op(behind(2 * count) + ROOM, None, None);
        let mut ops: Vec<Ticket> = Vec::with_capacity(count);
        for index in 0..count {
            let work = Work::Copy { object: ObjectId::at(index), bytes: size, from, to };
            let turn = Edge { ticket: gate, hazard: Hazard::IssueOrder };
            let before = index.checked_sub(2).map(|index| ops[index]);
            let capacity_edge = before.map(|ticket| Edge { ticket, hazard: Hazard::Capacity });
            let after = capacity_edge.into_iter().chain([turn]).collect();
            let copy = plan.push(work, after, (Some(room(index, to)), None));
            let (object, mode, written) = (ObjectId::at(index), Mode::Read, Bytes::ZERO);
            let touch = ObjectAccess { object, tier: to, mode, written };
            let ticket = plan.op(op, Some(copy), Some(touch));
            plan.commands[ticket.0 as usize].frees.push(room(index, to));
            ops.push(ticket);
        }
        let start = (0..count).map(|index| room(index, from)).collect();
        let (ends, _) = self.carry_out(plan, start, usize::MAX)?;
        let last = ops.last().map_or(gate, |ticket| *ticket);
        Ok(ends[last.0 as usize].since(ends[gate.0 as usize]))
    }

    /// Runs a plan, of which at most so many commands are under way at once; the end of every
    /// command, by ticket, and the machine's report.
    fn carry_out(
        &self,
        plan: Plan,
        start: Vec<Allocation>,
        ahead: usize,
    ) -> Result<(Vec<Time>, Report)> {
        let workload = workload(&start);
        let Plan { commands, spans } = plan;
        let routes = self.skeleton.routes().expect("a skeleton's tiers are joined");
        let spans = Box::new(|occurrence: u64| spans[occurrence as usize]);
        let setup = Setup { hardware: self.skeleton, routes, workload: &workload, spans, start };
        let device = self.device;
        let options = Options { emulate: false, device, ..Options::new(self.scratch) };
        let mut machine = self.machine.open(setup, &options)?;
        let mut ends = vec![Time::ZERO; commands.len()];
        let mut commands = commands.into_iter();
        for command in commands.by_ref().take(ahead) {
            machine.submit(command)?;
        }
        while let Some((time, ticket)) = machine.next()? {
            ends[ticket.0 as usize] = time;
            commands.next().map_or(Ok(()), |command| machine.submit(command))?;
        }
        let report = RealMachine::report(&*machine);
        match report.truth.first.first() {
            Some(mismatch) => Err(Fault::Contents(mismatch.to_string())),
            None => Ok((ends, report)),
        }
    }
}

/// The tiers that a channel leads from and to.
pub(super) fn ends(skeleton: &Hardware, channel: Channel) -> (TierId, TierId) {
    let (from, to) = skeleton.channel_ends(channel);
    let tier = |node| skeleton.tier_of(node).expect("a skeleton has tiers only");
    (tier(from), tier(to))
}

/// Start and end of every op, in the order of the plan.
fn times(report: &Report) -> Vec<(Time, Time)> {
    let mut ops = report.ops.clone();
    ops.sort_unstable_by_key(|op| op.occurrence);
    ops.iter().map(|op| (op.start, op.end)).collect()
}

/// How long the first op lasts when so many commands are submitted behind it.
fn behind(commands: usize) -> Span {
    Span::from_ps(PER_COMMAND.ps() * (commands as u64 + 20))
}

/// As many objects as there are rooms, and one op, for its stream.
fn workload(rooms: &[Allocation]) -> Workload {
    let object = |room: &Allocation| Object {
        dtype: "uint8".to_owned(),
        persistent: true,
        ..Object::new(format!("object {}", room.object.0), ObjectKind::Buffer, room.bytes)
    };
    let op = Op::new(0, Phase::Other, "probe", 0..0);
    Workload::new(Trace {
        meta: TraceMeta { name: "calibration".to_owned(), ..TraceMeta::default() },
        modules: Vec::new(),
        objects: rooms.iter().map(object).collect(),
        ops: vec![op],
        uses: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_taken_twice_before_it_is_given_back() {
        for turns in [1, 2, 5, 64] {
            let mut held = std::collections::BTreeSet::new();
            for n in 0..3 * turns {
                let (object, free) = turn(n, turns);
                assert!(held.insert(object), "{turns}: object {object:?} is there at copy {n}");
                if let Some(free) = free {
                    assert!(held.remove(&free), "{turns}: {free:?} is not there at copy {n}");
                }
                assert!(held.len() <= turns);
            }
        }
    }

    #[test]
    fn small_objects_take_turns_and_large_ones_do_not() {
        let sizes = [1, 4096, 1 << 20, 8 << 20, 1 << 30].map(Bytes::new);
        assert_eq!(sizes.map(|size| turns(size, TURNS)), [32, 32, 8, 1, 1]);
        assert_eq!(sizes.map(|size| turns(size, DEVICE_TURNS)), [64, 64, 64, 16, 1]);
    }
}
