//! The auditor: an independent account of the same run, kept event by event.
//!
//! It believes neither planner nor machine. From the order of submission alone it knows which
//! version of an object every command must meet; it follows every byte of room and every piece on
//! every channel, and it checks after every event: capacity, hazards, bytes conserved per channel,
//! time never backwards, and Little's law as an equality of integers. Flows over shared links have
//! an account of their own (`flows`). Of several devices of a server each has objects of its own,
//! and tiers and channels are counted by instance (`ranks`).

macro_rules! rule {
    ($holds:expr, $($words:tt)*) => {
        if !$holds {
            return Err(Breach(format!($($words)*)));
        }
    };
}

mod flows;
mod packed;
mod ranks;
#[cfg(test)]
pub(crate) mod tests;

use crate::audit::flows::Flows;
pub(crate) use crate::audit::flows::Used;
use crate::audit::packed::Packing;
use crate::fair_share::ClassId;
use crate::station::Station;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::instances::Instances;
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::{Allocation, Command, ObjectAccess, Ticket, Work};

/// A rule that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(String);

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One object's room in one tier, as it really is at this moment.
#[derive(Clone, Copy, Debug)]
struct Residency {
    tier: TierId,
    /// How many writes the contents have seen.
    version: u64,
    /// Bytes that these wrote together; nothing of room that is new.
    seen: Option<u128>,
    bytes: Bytes,
    readers: u32,
    writers: u32,
    /// Copies on their way into it.
    filling: u32,
}

/// What a command must meet when it starts.
#[derive(Debug, Default)]
struct Expected {
    /// Version of each touched object, or of a copy's source, and the bytes written up to it.
    versions: SmallVec<[(u64, u128); 4]>,
    /// The op whose end a copy has to wait for.
    turn: Option<Ticket>,
    /// Where a copy or a compaction goes from and to, and of which rank.
    way: Option<(TierId, TierId, u32)>,
    started: bool,
}

/// The auditor of one run.
#[derive(Debug)]
pub struct Audit {
    now: Time,
    capacities: Vec<Bytes>,
    used: Vec<Bytes>,
    objects: Vec<SmallVec<[Residency; 2]>>,
    /// Writes submitted so far, by object, and their bytes: what the order of the trace makes the
    /// truth.
    written: Vec<(u64, u128)>,
    open: BTreeMap<Ticket, Expected>,
    last_op: Vec<Option<Ticket>>,
    /// Copies submitted since the last op: their turn is that of the op that comes next.
    undated: Vec<Ticket>,
    channels: Vec<Station>,
    /// Whether a channel serves one after the other.
    in_order: Vec<bool>,
    flows: Flows,
    /// What tiers store packed, if they do.
    packing: Option<Packing>,
    instances: Instances,
}

impl Audit {
    /// An auditor that knows where everything is before the first command.
    pub fn new(
        hardware: &Hardware,
        memory: &Memory,
        objects: usize,
        start: &[Allocation],
    ) -> Result<Audit, Breach> {
        Audit::of_ranks(1, hardware, memory, objects, start)
    }

    /// The auditor of as many devices of one server as ranks; memory and start are those of
    /// each.
    pub fn of_ranks(
        ranks: u32,
        one: &Hardware,
        memory: &Memory,
        objects: usize,
        start: &[Allocation],
    ) -> Result<Audit, Breach> {
        let instances = Instances::new(one, ranks);
        let (start, hardware) = (ranks::rooms(&instances, start), instances.hardware());
        let capacities = ranks::capacities(&instances, memory);
        let objects = objects * ranks as usize;
        let in_order = ranks::in_order(hardware);
        let mut audit = Audit {
            now: Time::ZERO,
            used: vec![Bytes::ZERO; capacities.len()],
            capacities,
            objects: vec![SmallVec::new(); objects],
            written: vec![(0, 0); objects],
            open: BTreeMap::new(),
            last_op: Vec::new(),
            undated: Vec::new(),
            channels: in_order.iter().map(|_| Station::new()).collect(),
            in_order,
            flows: Flows::new(one, &instances),
            packing: Packing::new(one, memory),
            instances,
        };
        start.iter().try_for_each(|room| audit.allocate(room))?;
        audit.objects.iter_mut().flatten().for_each(|held| held.seen = Some(0));
        Ok(audit)
    }

    /// A command has been handed to the machine.
    pub(crate) fn submitted(&mut self, command: &Command, now: Time) -> Result<(), Breach> {
        self.tick(now)?;
        let command = &*ranks::renamed(&self.instances, command);
        let mut expected = Expected::default();
        match &command.work {
            Work::Compute { stream, touches, .. } => {
                for touch in touches {
                    let written = &mut self.written[touch.object.index()];
                    expected.versions.push(*written);
                    written.0 += u64::from(touch.mode.writes());
                    written.1 += u128::from(touch.written.get());
                }
                let stream = ranks::stream(&self.instances, *stream, command.ticket);
                self.date_copies(stream, command.ticket)?;
                self.last_op[stream] = Some(command.ticket);
            }
            Work::Copy { object, from, to, .. } => {
                expected.versions.push(self.written[object.index()]);
                let rank = ranks::rank_of(&self.instances, command.ticket);
                expected.way = Some((*from, *to, rank));
                self.undated.push(command.ticket);
            }
            Work::Compact { tier, .. } => {
                let rank = ranks::rank_of(&self.instances, command.ticket);
                expected.way = Some((*tier, *tier, rank));
            }
            Work::Release => {}
        }
        self.open.insert(command.ticket, expected);
        Ok(())
    }

    /// Copies decided before an op must not start before the op ahead of it has ended.
    fn date_copies(&mut self, stream: usize, op: Ticket) -> Result<(), Breach> {
        if self.last_op.len() <= stream {
            self.last_op.resize(stream + 1, None);
        }
        let ahead = self.last_op[stream].filter(|op| self.open.contains_key(op));
        let same_rank = |copy: &mut Ticket| ranks::are_of_one(&self.instances, *copy, op);
        for copy in self.undated.extract_if(.., same_rank) {
            if let (Some(expected), Some(ahead)) = (self.open.get_mut(&copy), ahead) {
                rule!(!expected.started, "copy {copy:?} started before its turn, {ahead:?}");
                expected.turn = Some(ahead);
            }
        }
        Ok(())
    }

    /// A command starts.
    pub(crate) fn starts(&mut self, command: &Command, now: Time) -> Result<(), Breach> {
        self.tick(now)?;
        let command = &*ranks::renamed(&self.instances, command);
        let ticket = command.ticket;
        command.allocates.iter().try_for_each(|room| self.allocate(room))?;
        let open = self.open.get_mut(&ticket);
        let expected = open.ok_or_else(|| Breach(format!("{ticket:?} was not submitted")))?;
        rule!(!expected.started, "{ticket:?} started twice");
        expected.started = true;
        let (versions, turn) = (expected.versions.clone(), expected.turn);
        if let Some(turn) = turn {
            rule!(!self.open.contains_key(&turn), "copy {ticket:?} started before {turn:?}");
        }
        match &command.work {
            Work::Compute { touches, .. } => touches
                .iter()
                .zip(versions)
                .try_for_each(|(touch, (version, _))| self.op_starts(ticket, touch, version)),
            Work::Copy { object, bytes, from, to } => {
                self.copy_starts(ticket, *object, (*from, *to), versions[0])?;
                self.copy_suffices(ticket, *object, *to, *bytes, versions[0].1)
            }
            Work::Compact { tier, objects, .. } => {
                objects.iter().try_for_each(|&object| self.move_starts(ticket, object, *tier))
            }
            Work::Release => Ok(()),
        }
    }

    fn op_starts(&mut self, op: Ticket, touch: &ObjectAccess, version: u64) -> Result<(), Breach> {
        let &ObjectAccess { object, tier, mode, written } = touch;
        let whole = self.packing.as_ref().map(|packing| packing.whole(&self.instances, object));
        let held = self.held(object, tier, op)?;
        rule!(held.filling == 0, "op {op:?} uses {object:?} before it has arrived in {tier:?}");
        rule!(held.writers == 0, "op {op:?} uses {object:?} while another writes it");
        if mode.reads() {
            let found = held.version;
            rule!(found == version, "op {op:?} reads {object:?} v{found}, not v{version}");
        }
        let bytes = whole.unwrap_or(held.bytes);
        rule!(written <= bytes, "op {op:?} writes {written} of {object:?}, which has {bytes}");
        rule!(mode.writes() || written == Bytes::ZERO, "op {op:?} reads {object:?} and writes it");
        if mode.writes() {
            rule!(held.readers == 0, "op {op:?} writes {object:?} while it is being read");
            held.writers += 1;
        } else {
            held.readers += 1;
        }
        Ok(())
    }

    fn copy_starts(
        &mut self,
        copy: Ticket,
        object: ObjectId,
        (from, to): (TierId, TierId),
        (version, _): (u64, u128),
    ) -> Result<(), Breach> {
        let source = self.held(object, from, copy)?;
        rule!(source.filling == 0, "copy {copy:?} reads {object:?} before it arrived in {from:?}");
        rule!(source.writers == 0, "copy {copy:?} reads {object:?} while it is written");
        let found = source.version;
        rule!(found == version, "copy {copy:?} takes {object:?} v{found}, not v{version}");
        source.readers += 1;
        let target = self.held(object, to, copy)?;
        let idle = target.readers + target.writers + target.filling == 0;
        rule!(idle, "copy {copy:?} overwrites {object:?} in {to:?} while it is in use");
        target.filling += 1;
        Ok(())
    }

    /// A copy brings all of the object, or, where its target had the contents before, as much as the
    /// writes since then wrote together: no less, and no more. Where the target has them still, it
    /// brings all of them once more.
    fn copy_suffices(
        &mut self,
        copy: Ticket,
        object: ObjectId,
        to: TierId,
        bytes: Bytes,
        written: u128,
    ) -> Result<(), Breach> {
        let own = self.packing.as_ref().map(|packing| packing.whole(&self.instances, object));
        let target = self.held(object, to, copy)?;
        let whole = u128::from(own.unwrap_or(target.bytes).get());
        let since = target.seen.map_or(whole, |seen| written.saturating_sub(seen));
        let lacks = if since == 0 { whole } else { since.min(whole) };
        let brings = u128::from(bytes.get());
        rule!(brings == lacks, "copy {copy:?} brings {brings} of {object:?}: {to:?} lacks {lacks}");
        Ok(())
    }

    fn move_starts(&mut self, by: Ticket, object: ObjectId, tier: TierId) -> Result<(), Breach> {
        let held = self.held(object, tier, by)?;
        let idle = held.readers + held.writers + held.filling == 0;
        rule!(idle, "{by:?} moves {object:?} within {tier:?} while it is in use");
        held.filling += 1;
        Ok(())
    }

    /// A command has ended.
    pub(crate) fn ends(&mut self, command: &Command, now: Time) -> Result<(), Breach> {
        self.tick(now)?;
        let command = &*ranks::renamed(&self.instances, command);
        let ticket = command.ticket;
        let expected = self.open.remove(&ticket);
        let expected = expected.filter(|expected| expected.started);
        let expected = expected.ok_or_else(|| Breach(format!("{ticket:?} ends unstarted")))?;
        match &command.work {
            Work::Compute { touches, charges, .. } => {
                self.flows.op_ends(ticket, charges)?;
                for (touch, (version, bytes)) in touches.iter().zip(expected.versions) {
                    let held = self.held(touch.object, touch.tier, ticket)?;
                    if touch.mode.writes() {
                        held.writers -= 1;
                        held.version = version + 1;
                        held.seen = Some(bytes + u128::from(touch.written.get()));
                    } else {
                        held.readers -= 1;
                    }
                }
            }
            Work::Copy { object, bytes, from, to } => {
                if let Some(packing) = &mut self.packing {
                    let brought = (*object, *bytes);
                    packing.copied(&self.instances, ticket, brought, (*from, *to))?;
                }
                self.held(*object, *from, ticket)?.readers -= 1;
                let target = self.held(*object, *to, ticket)?;
                target.filling -= 1;
                let (version, bytes) = expected.versions[0];
                (target.version, target.seen) = (version, Some(bytes));
            }
            Work::Compact { tier, objects, .. } => {
                self.packing.iter_mut().for_each(|packing| packing.ended(ticket));
                for &object in objects {
                    self.held(object, *tier, ticket)?.filling -= 1;
                }
            }
            Work::Release => {}
        }
        command.frees.iter().try_for_each(|room| self.free(room, ticket))
    }

    /// A piece of a copy enters a channel's queue.
    pub(crate) fn piece_arrives(
        &mut self,
        channel: usize,
        copy: Ticket,
        bytes: Bytes,
        now: Time,
    ) -> Result<(), Breach> {
        self.tick(now)?;
        self.channels[channel].arrive(copy.0, bytes, now);
        Ok(())
    }

    /// A piece of a copy has crossed a channel: where one is served at a time, none stays behind
    /// that was there before it, goes the same way and was submitted earlier.
    pub(crate) fn piece_leaves(
        &mut self,
        channel: usize,
        copy: Ticket,
        bytes: Bytes,
        now: Time,
    ) -> Result<(), Breach> {
        self.tick(now)?;
        let way = |copy: Ticket| self.open.get(&copy).map(|expected| expected.way);
        let own = way(copy);
        let overtaken = |&name: &u32| name < copy.0 && way(Ticket(name)) == own;
        let overtaken = self.channels[channel].before(copy.0).find(overtaken);
        if let Some(overtaken) = overtaken.filter(|_| self.in_order[channel]) {
            rule!(
                false,
                "{copy:?} leaves channel {channel} before {overtaken}, which goes the same way"
            );
        }
        if let Some(packing) = &mut self.packing {
            packing.leaves(channel, copy, bytes);
        }
        let brought = self.channels[channel].leave(copy.0, now);
        rule!(brought == Some(bytes), "channel {channel} let out {bytes}, not {brought:?}");
        Ok(())
    }

    /// The bytes of a piece, or of what an op sends or uses in a tier, begin to go over shared
    /// channels; with them the bytes of the whole charge.
    pub(crate) fn flow_begins(
        &mut self,
        (ticket, class): (Ticket, ClassId),
        channels: &[usize],
        used: Option<Used>,
        bytes: [Bytes; 2],
        now: Time,
    ) -> Result<(), Breach> {
        self.tick(now)?;
        self.flows.begins((ticket, class), channels, used, bytes)
    }

    /// Flows came or went, and these are the rates of each flow of a class from now on.
    pub(crate) fn flows_retimed(
        &mut self,
        rates: impl Iterator<Item = (ClassId, u128)>,
        now: Time,
    ) -> Result<(), Breach> {
        self.tick(now)?;
        self.flows.retimed(rates)
    }

    /// The bytes of a flow have gone over the channels of its class.
    pub(crate) fn flow_ends(
        &mut self,
        of: Ticket,
        class: ClassId,
        now: Time,
    ) -> Result<(), Breach> {
        self.tick(now)?;
        self.flows.ends(of, class)
    }

    /// Nothing is under way any more.
    pub(crate) fn idle(&mut self, now: Time) -> Result<(), Breach> {
        self.tick(now)?;
        rule!(self.open.is_empty(), "{} commands never ended", self.open.len());
        for (channel, station) in self.channels.iter().enumerate() {
            rule!(station.in_system() == 0, "bytes are left on channel {channel}");
        }
        rule!(self.flows.is_empty(), "a flow never ended");
        let busy = self.objects.iter().flatten().any(|h| h.readers + h.writers + h.filling > 0);
        rule!(!busy, "an object is still in use");
        Ok(())
    }

    /// What must hold after every event, whatever it was.
    fn tick(&mut self, now: Time) -> Result<(), Breach> {
        rule!(now >= self.now, "time ran backwards from {} to {now}", self.now);
        self.now = now;
        self.flows.tick(now);
        for (tier, (used, capacity)) in self.used.iter().zip(&self.capacities).enumerate() {
            rule!(used <= capacity, "tier {tier} holds {used} of {capacity}");
        }
        for (channel, station) in self.channels.iter().enumerate() {
            rule!(station.obeys_little(now), "Little's law does not hold on channel {channel}");
            rule!(station.conserves_bytes(), "bytes are lost on channel {channel}");
        }
        Ok(())
    }

    fn allocate(&mut self, room: &Allocation) -> Result<(), Breach> {
        if let Some(packing) = &self.packing {
            packing.room(&self.instances, room)?;
        }
        let Allocation { object, tier, bytes } = *room;
        let slots = &mut self.objects[object.index()];
        rule!(slots.iter().all(|held| held.tier != tier), "{object:?} is in {tier:?} already");
        // The age of new room does not matter: a read before a write is caught by its version.
        let (version, seen, readers, writers, filling) = Default::default();
        slots.push(Residency { tier, version, seen, bytes, readers, writers, filling });
        let used = &mut self.used[tier.index()];
        *used += bytes;
        let capacity = self.capacities[tier.index()];
        rule!(*used <= capacity, "{object:?} takes {bytes}: {tier:?} holds {used} of {capacity}");
        Ok(())
    }

    fn free(&mut self, room: &Allocation, by: Ticket) -> Result<(), Breach> {
        let Allocation { object, tier, bytes } = *room;
        let held = *self.held(object, tier, by)?;
        let idle = held.readers + held.writers + held.filling == 0;
        rule!(idle, "{by:?} gives {object:?} in {tier:?} back while it is in use");
        self.objects[object.index()].retain(|held| held.tier != tier);
        self.used[tier.index()] -= bytes;
        Ok(())
    }

    fn held(
        &mut self,
        object: ObjectId,
        tier: TierId,
        by: Ticket,
    ) -> Result<&mut Residency, Breach> {
        let slots = &mut self.objects[object.index()];
        let held = slots.iter_mut().find(|held| held.tier == tier);
        held.ok_or_else(|| Breach(format!("{by:?} needs {object:?} in {tier:?}, it is not there")))
    }
}
