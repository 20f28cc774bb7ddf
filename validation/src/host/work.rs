//! What a worker really does: kernels over an op's objects, and copies of bytes.
//!
//! An op reads (and so checks) what it reads, runs half of its kernel, writes what it writes, and
//! runs the other half: a fixed amount of work, whatever time that takes. Only an emulated delay of
//! use in place is kept by the clock; it comes first, as the far data would come late. A copy
//! carries pages from slot to slot, or through the bounce buffers between two channels.
//! Invariant: what is not there when it should be is a mismatch, never a panic.

use crate::clock::Clock;
use crate::contents::{ObjectContents, Runs};
use crate::fault::{Fault, Result};
use crate::host::kernels::{self, BLOCK, blocks};
use crate::host::pace::OpPlan;
use crate::host::room::{Buffer, Slot};
use crate::host::state::Piece;
use crate::host::store::Store;
use crate::options::{Delay, lateness};
use crate::pattern::{self, Key, PAGE};
use crate::truth::{Contents, Meeting, Mismatch};
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Time;
use tiersim_policies::command::{Command, ObjectAccess, Ticket, Work};

/// What the workers need besides the shared state.
pub(crate) struct Floor {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Pages of each object.
    pub(crate) pages: Vec<usize>,
    pub(crate) arrival_stride: usize,
    pub(crate) delay: Option<Delay>,
}

/// When a job started, and what its checks met: a mismatch, or none, each.
pub(crate) type Worked = Result<(Time, Vec<Option<Mismatch>>)>;

/// Who works on a floor, with a buffer of its own.
pub(crate) struct Worker<'f> {
    floor: &'f Floor,
    buffer: Buffer,
}

impl Worker<'_> {
    pub(crate) fn new(floor: &Floor) -> Worker<'_> {
        Worker { floor, buffer: Buffer::new(BLOCK * PAGE) }
    }

    /// Starts late, if a test asks for it: when.
    fn start(&self, ticket: Ticket, hop: usize) -> Time {
        self.floor.clock.delay(lateness(self.floor.delay, ticket, hop));
        self.floor.clock.now()
    }

    /// Runs an op; returns when it started and what it met.
    pub(crate) fn op(
        &mut self,
        command: &Command,
        met: &[ObjectContents],
        plan: &OpPlan,
    ) -> Worked {
        let start = self.start(command.ticket, 0);
        let Floor { store, clock, .. } = self.floor;
        clock.delay(plan.planned.delay);
        command.allocates.iter().try_for_each(|room| store.allocate(room))?;
        let Work::Compute { touches, .. } = &command.work else { unreachable!("streams run ops") };
        let touches = || touches.iter().zip(met);
        let mut checks = Vec::new();
        for (touch, met) in touches().filter(|(touch, _)| touch.mode.reads()) {
            let &ObjectAccess { object, tier, .. } = touch;
            self.check_all((command.ticket, object, tier), met, 1, &mut checks)?;
        }
        // Half before the writes and half after, so that a neighbour without its edge meets either.
        plan.run_half(false);
        for (touch, met) in touches().filter(|(touch, _)| touch.mode.writes()) {
            let &ObjectAccess { object, tier, .. } = touch;
            if !self.write(object, tier, met.version + 1, &met.fresh())? {
                let place = (command.ticket, object, tier);
                checks.push(Some(Mismatch::new(place, met.version, Contents::NotAllocated)));
            }
        }
        plan.run_half(true);
        Ok((start, checks))
    }

    /// Fills pages of an object's room; `false` if it has none.
    pub(crate) fn write(
        &mut self,
        object: ObjectId,
        tier: TierId,
        version: u64,
        runs: &[Range<usize>],
    ) -> Result<bool> {
        let Some(slot) = self.floor.store.get(object, tier) else { return Ok(false) };
        for run in runs {
            let key = Key { object, version };
            let filled = kernels::fill(&slot, run.clone(), key, &mut self.buffer);
            filled.map_err(io("writes", tier))?;
        }
        Ok(true)
    }

    /// Copies a piece over one channel; the last one on the last channel is checked. Returns when
    /// it started.
    pub(crate) fn piece(
        &mut self,
        piece: &Piece,
        command: &Command,
        met: &ObjectContents,
    ) -> Worked {
        let part = piece.part;
        let start = self.start(command.ticket, part.hop);
        let Floor { store, arrival_stride, .. } = self.floor;
        let Work::Copy { object, from, to, .. } = command.work else {
            unreachable!("channels run copies")
        };
        let mut checks = Vec::new();
        if part.hop == 0 && part.number == 0 {
            store.failing.copy()?;
            command.allocates.iter().try_for_each(|room| store.allocate(room))?;
            if store.get(object, from).is_none() {
                let place = (command.ticket, object, from);
                checks.push(Some(Mismatch::new(place, met.version, Contents::NotAllocated)));
            }
        }
        let pages = met.carried(part.from, part.bytes);
        let (source, target) = (store.get(object, from), store.get(object, to));
        self.carry(piece, pages, (source.as_deref(), from), (target.as_deref(), to))?;
        if piece.ends {
            let place = (command.ticket, object, to);
            self.check_all(place, met, *arrival_stride, &mut checks)?;
        }
        Ok((start, checks))
    }

    fn carry(
        &mut self,
        piece: &Piece,
        pages: Runs,
        (source, from): (Option<&Slot>, TierId),
        (target, to): (Option<&Slot>, TierId),
    ) -> Result<()> {
        let slot = piece.part.number as usize % tiersim_policies::transit::BOUNCE as usize;
        let len = pages.iter().map(|run| run.len() * PAGE).sum();
        let load = |at: usize, into: &mut [u8]| match source {
            Some(source) => source.load(at, into).map_err(io("reads", from)),
            None => Ok(()),
        };
        let store = |at: usize, bytes: &[u8]| match target {
            Some(target) => target.store(at, bytes).map_err(io("writes", to)),
            None => Ok(()),
        };
        match (&piece.source, &piece.target) {
            (None, None) => pages.into_iter().flat_map(blocks).try_for_each(|block| {
                let bytes = self.buffer.first(block.len() * PAGE);
                load(block.start, bytes)?;
                store(block.start, bytes)
            }),
            (None, Some(bounce)) => {
                let mut bounce = locked(&bounce[slot]);
                let mut bytes = bounce.first(len);
                pages.into_iter().try_for_each(|run| {
                    let (now, rest) = std::mem::take(&mut bytes).split_at_mut(run.len() * PAGE);
                    bytes = rest;
                    load(run.start, now)
                })
            }
            (Some(bounce), None) => {
                let mut bounce = locked(&bounce[slot]);
                let mut bytes = &*bounce.first(len);
                pages.into_iter().try_for_each(|run| {
                    let (now, rest) = bytes.split_at(run.len() * PAGE);
                    bytes = rest;
                    store(run.start, now)
                })
            }
            (Some(before), Some(after)) => {
                let mut before = locked(&before[slot]);
                locked(&after[slot]).first(len).copy_from_slice(before.first(len));
                Ok(())
            }
        }
    }

    /// Compares what a command meets of an object: every `stride`-th page of each layer.
    fn check_all(
        &mut self,
        place: Meeting,
        met: &ObjectContents,
        stride: usize,
        checks: &mut Vec<Option<Mismatch>>,
    ) -> Result<()> {
        for layer in met.layers.iter() {
            checks.push(self.check(place, layer.version, layer.pages.clone(), stride)?);
        }
        Ok(())
    }

    /// Compares every `stride`-th page, the first and the last with a version's pattern.
    fn check(
        &mut self,
        place: Meeting,
        version: u64,
        pages: Range<usize>,
        stride: usize,
    ) -> Result<Option<Mismatch>> {
        let (_, object, tier) = place;
        let Some(slot) = self.floor.store.get(object, tier) else {
            return Ok(Some(Mismatch::new(place, version, Contents::NotAllocated)));
        };
        let found = kernels::check(&slot, pages, stride, Key { object, version }, &mut self.buffer);
        let found = found.map_err(io("reads", tier))?;
        Ok(found.map(|found| Mismatch::new(place, version, found)))
    }

    /// The writes that an object's room in a tier has seen: those of its present contents, or the
    /// version that it holds throughout; `None` if it is neither.
    pub(crate) fn version(
        &mut self,
        (object, tier): (ObjectId, TierId),
        now: &ObjectContents,
    ) -> Result<Option<u64>> {
        let Some(slot) = self.floor.store.get(object, tier) else { return Ok(None) };
        let mut checks = Vec::new();
        self.check_all((Ticket(u32::MAX), object, tier), now, 1, &mut checks)?;
        if checks.iter().all(Option::is_none) {
            return Ok(Some(now.version));
        }
        let first = self.buffer.first(PAGE);
        slot.load(0, first).map_err(io("reads", tier))?;
        let (_, version) = pattern::decode(pattern::read(&first[..8]), 0);
        let place = (Ticket(u32::MAX), object, tier);
        let wrong = self.check(place, version, 0..slot.pages, 1)?;
        Ok(wrong.is_none().then_some(version))
    }
}

/// A buffer is bytes; half-written ones show in the pattern.
fn locked(buffer: &std::sync::Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io(what: &'static str, tier: TierId) -> impl FnOnce(std::io::Error) -> Fault {
    Fault::io(what, format!("tier {}", tier.0))
}
