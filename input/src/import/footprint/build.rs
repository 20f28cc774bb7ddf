//! The trace of a footprint, event by event.
//!
//! An op stands for each event and takes until the next one. What was there before and is taken back
//! is written by ops that take no time and stand before all events, one for each, for no policy could
//! hold all of it at once in less room; what was there before and stays needs none.
//! Invariant: an object lives from the op that made it to the last op before it was taken back, so
//! what is alive during an op is what was there after its event.

use super::Account;
use crate::trace::tables::ReadBudget;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Known, Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Use};

/// Most bytes of one object: addresses have 57 bits at most.
pub(super) const MOST_BYTES: u64 = 1 << 57;

/// What ops are called that stand before all events.
const BEFORE: &str = "before the file begins";

/// The trace that is being made.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    objects: Vec<Object>,
    /// By object: behind how many events it was taken back, if it was.
    gone: Vec<Option<u32>>,
    ops: Vec<Op>,
    uses: Vec<Use>,
    /// When the first event was, in units of the file.
    first: Option<u64>,
    /// When the latest event was, in ps behind the first.
    now: u64,
    /// Bytes that are there now.
    alive: u64,
    /// What tables of the trace take is held against the text of the file.
    budget: ReadBudget,
    pub(super) account: Account,
}

type Done<T> = Result<T, String>;

impl Footprint {
    /// Takes notice of so many bytes of the file.
    pub(super) fn read(&mut self, bytes: usize) -> Done<()> {
        self.budget.take(bytes, 0)
    }

    /// An object that was there before the first event: all of these come first.
    pub(super) fn before(&mut self, name: &str, kind: ObjectKind, bytes: u64) -> Done<u32> {
        let id = self.object(name, kind, bytes)?;
        self.budget.take(0, size_of::<Op>() + BEFORE.len())?;
        self.account.before.0 += 1;
        self.account.before.1 = self.account.before.1.saturating_add(bytes);
        Ok(id)
    }

    /// The time of an event in ps behind the first, never falling.
    fn time(&mut self, at: Option<u64>, unit_ps: u64) -> Done<Option<Time>> {
        let Some(at) = at else {
            self.account.timeless += 1;
            return Ok(None);
        };
        let first = *self.first.get_or_insert(at);
        let since = at.checked_sub(first).map(|since| since.checked_mul(unit_ps));
        match since {
            Some(None) => return Err("all events lie within 213 days".to_owned()),
            Some(Some(since)) if since >= self.now => self.now = since,
            _ => self.account.backwards += 1,
        }
        Ok(Some(Time::from_ps(self.now)))
    }

    fn op(&mut self, name: &str, phase: Phase, at: Option<Time>) -> Done<()> {
        self.budget.take(0, size_of::<Op>() + name.len())?;
        let end = self.uses.len() as u32;
        self.ops.push(Op { at, ..Op::new(0, phase, name, end..end) });
        Ok(())
    }

    fn object(&mut self, name: &str, kind: ObjectKind, bytes: u64) -> Done<u32> {
        let id = self.objects.len() as u32;
        let name = format!("{} {id}", crate::import::names::cut(name));
        let name = if name.len() > 256 { format!("object {id}") } else { name };
        self.budget.take(0, size_of::<Object>() + name.len() + size_of::<Use>() + 1)?;
        self.objects.push(Object::new(name, kind, Bytes::new(bytes)));
        self.gone.push(None);
        self.alive = self.alive.saturating_add(bytes);
        self.account.peak = self.account.peak.max(self.alive);
        Ok(id)
    }

    fn used(&mut self, id: u32, mode: Mode, known: Known) -> Done<()> {
        self.budget.take(0, size_of::<Use>())?;
        self.uses.push(Use { known, ..Use::whole(ObjectId(id), mode) });
        let object = self.objects[id as usize].bytes;
        if let Some(op) = self.ops.last_mut() {
            op.uses.end = self.uses.len() as u32;
            op.bytes = object;
        }
        Ok(())
    }

    /// An event that makes an object.
    pub(super) fn made(
        &mut self,
        event: &Event<'_>,
        (name, kind): (&str, ObjectKind),
        bytes: u64,
    ) -> Done<u32> {
        let at = self.time(event.at, event.unit_ps)?;
        self.op(event.name, event.phase, at)?;
        let id = self.object(name, kind, bytes)?;
        self.used(id, Mode::Write, Known::Inferred)?;
        self.account.made.0 += 1;
        self.account.made.1 = self.account.made.1.saturating_add(bytes);
        Ok(id)
    }

    /// An event that changes what an object holds.
    pub(super) fn changed(&mut self, event: &Event<'_>, id: u32) -> Done<()> {
        let at = self.time(event.at, event.unit_ps)?;
        self.op(event.name, event.phase, at)?;
        self.account.changes += 1;
        self.used(id, Mode::ReadWrite, Known::Inferred)
    }

    /// An event behind which nothing needs an object; its memory may still not be free.
    pub(super) fn given_back(&mut self, event: &Event<'_>, id: u32) -> Done<()> {
        let at = self.time(event.at, event.unit_ps)?;
        self.op(event.name, event.phase, at)?;
        self.used(id, Mode::Read, Known::Inferred)
    }

    /// The memory of an object is free from now on.
    pub(super) fn freed(&mut self, id: u32) {
        let gone = &mut self.gone[id as usize];
        if gone.is_none() {
            *gone = Some(self.ops.len() as u32);
            self.alive = self.alive.saturating_sub(self.objects[id as usize].bytes.get());
        }
    }

    /// How many objects there are.
    pub(super) fn count(&self) -> usize {
        self.objects.len()
    }

    /// Says what an object turned out to be.
    pub(super) fn is_of(&mut self, id: u32, kind: ObjectKind) {
        self.objects[id as usize].kind = kind;
    }

    pub(super) fn kind(&self, id: u32) -> ObjectKind {
        self.objects[id as usize].kind
    }

    /// The trace, once all events are taken.
    pub(super) fn finish(mut self, meta: TraceMeta) -> (Trace, Account) {
        self.stay();
        let timed = self.account.timeless == 0;
        let ends: Vec<Time> = self.ops.iter().skip(1).map(|op| op.at.unwrap_or_default()).collect();
        let last = Time::from_ps(self.now);
        for (index, op) in self.ops.iter_mut().enumerate() {
            if timed {
                let at = *op.at.get_or_insert_default();
                let end = ends.get(index).copied().unwrap_or(last);
                op.duration = Some(Span::from_ps(end.ps().saturating_sub(at.ps())));
            } else {
                op.at = None;
            }
        }
        self.account.span = self.now;
        for kind in ObjectKind::ALL {
            let all = self.objects.iter().filter(|object| object.kind == kind);
            let (count, bytes) = all.fold((0, 0u64), |(count, bytes), object| {
                (count + 1, bytes.saturating_add(object.bytes.get()))
            });
            if count > 0 {
                self.account.kinds.push((kind, count, bytes));
            }
        }
        let Footprint { objects, ops, uses, account, .. } = self;
        (Trace { meta, modules: Vec::new(), objects, ops, uses }, account)
    }

    /// What is not taken back stays: what was there before outlives the trace, the rest lives to its
    /// end. Puts ops before all others that write what was there before and is taken back.
    fn stay(&mut self) {
        let before = self.account.before.0 as usize;
        let written: Vec<u32> =
            (0..before).filter(|&id| self.gone[id].is_some()).map(|id| id as u32).collect();
        let more = written.len() as u32;
        let last = OpId((more + self.ops.len() as u32).saturating_sub(1));
        for (id, (object, gone)) in self.objects.iter_mut().zip(&self.gone).enumerate() {
            if let Some(events) = gone {
                object.freed_after = Some(OpId((more + events).saturating_sub(1)));
                continue;
            }
            self.account.left.0 += 1;
            self.account.left.1 = self.account.left.1.saturating_add(object.bytes.get());
            match id < before {
                true => object.persistent = true,
                false => object.freed_after = Some(last),
            }
        }
        for op in &mut self.ops {
            op.uses = op.uses.start + more..op.uses.end + more;
        }
        let unknown =
            |&id: &u32| Use { known: Known::Unknown, ..Use::whole(ObjectId(id), Mode::Write) };
        self.uses.splice(0..0, written.iter().map(unknown));
        let op = |at: u32| Op {
            at: Some(Time::from_ps(0)),
            ..Op::new(0, Phase::Other, BEFORE, at..at + 1)
        };
        self.ops.splice(0..0, (0..more).map(op));
    }
}

/// An event of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) name: &'a str,
    pub(super) phase: Phase,
    /// When, in units of the file.
    pub(super) at: Option<u64>,
    /// Such a unit in ps.
    pub(super) unit_ps: u64,
}
