//! Ops: what they touch, and kernels of calibrated length for the rest of their time.
//!
//! An op works for half of what its touches leave of its time, compares everything that it reads
//! with its pattern and fills what it writes in one pass, as kernels do, and works for the other
//! half: a neighbour without its edge meets either. All of it is enqueued at once, unless the op
//! uses files in place: then a thread uses them first, and the op is enqueued when that is done.
//!
//! Use in place of pinned memory really crosses the bus. Without emulation that is what it costs,
//! on top of the op's time. With emulation the tier's law is what counts: what is read in place is
//! only sampled, as an arrival is, what is written is filled whole because contents have to stay
//! true, and the delay kernel waits for what the law leaves after that. Backing such tiers with the
//! device's memory would be nearer to a law that is faster than the bus, but a machine cannot know
//! whether the plan will copy from them, and a copy has to cross the bus.
//! Invariant: nothing here waits; what cannot be enqueued yet stays at the head of its stream.

use crate::contents::{Layer, ObjectContents, Runs, inside, outside};
use crate::cuda::Parts;
use crate::cuda::allocations::{DeviceAllocation, Place};
use crate::cuda::entry::Files;
use crate::cuda::kernels::Range;
use crate::cuda::pace::{Filler, Touched};
use crate::cuda::worker::{Job, Look, Task};
use crate::fault::Result;
use crate::pattern::Key;
use crate::real::{OpRun, Planned};
use crate::truth::{Contents, Mismatch};
use std::rc::Rc;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::{Command, ObjectAccess, Ticket, Work};

/// Where a touch of an op is, and what it meets there.
type Touch = (Option<Rc<DeviceAllocation>>, ObjectContents);

/// What an op compares and fills.
#[derive(Default)]
struct Passes {
    ranges: Vec<Range>,
    touched: Touched,
}

impl Passes {
    fn add(&mut self, near: bool, range: Range) {
        let row = match (range.held, range.next) {
            (Some(_), None) => 0,
            (Some(_), Some(_)) => 1,
            (None, _) => 2,
        };
        self.touched[row][usize::from(!near)] += range.bytes / range.stride.max(1);
        self.ranges.push(range);
    }
}

impl Parts<'_> {
    /// Enqueues ops at the head of a stream that nothing holds back.
    pub(super) fn try_stream(&mut self, stream: usize) -> Result<()> {
        while let Some(&ticket) = self.streams[stream].waiting.front() {
            let entry = self.book.entry(ticket);
            match entry.own.files {
                Files::None | Files::Done(_) if entry.unqueued > 0 => return Ok(()),
                Files::None | Files::Done(_) => self.enqueue_op(ticket, stream)?,
                Files::Asked => return Ok(()),
                Files::ToDo => {
                    // A thread cannot wait for the device: everything before must have ended.
                    if entry.unended == 0 && self.streams[stream].running.is_empty() {
                        self.ask_for_files(ticket, stream)?;
                    }
                    return Ok(());
                }
            }
            self.streams[stream].waiting.pop_front();
            self.streams[stream].running.push_back(ticket);
        }
        Ok(())
    }

    /// Has an op's files used in place.
    fn ask_for_files(&mut self, ticket: Ticket, stream: usize) -> Result<()> {
        let entry = self.book.entry_mut(ticket);
        entry.own.files = Files::Asked;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let places = entry.own.places.iter().zip(&entry.met);
        for (&ObjectAccess { object, tier, mode, .. }, (held, met)) in
            touches(&entry.command).zip(places)
        {
            let Some(Place::File(slot)) = held.as_ref().map(|held| &held.place) else { continue };
            if mode.writes() {
                let key = Key { object, version: met.version + 1 };
                writes.extend(met.fresh().into_iter().map(|run| (slot.clone(), key, run)));
            }
            for layer in met.layers.iter().filter(|_| mode.reads()) {
                let (slot, pages, version) = (slot.clone(), layer.pages.clone(), layer.version);
                reads.push(Look { slot, pages, object, tier, version, stride: 1 });
            }
        }
        let task = Task::Use { reads, writes };
        let late = self.floor.lateness(ticket, 0);
        let job = Job { ticket, queue: stream, late, task, checks: Vec::new() };
        let thread = self.in_place.expect("there is a thread where there are files");
        self.workers.send(thread, job)
    }

    /// Enqueues an op that nothing holds back on the host.
    fn enqueue_op(&mut self, ticket: Ticket, number: usize) -> Result<()> {
        let (waits, guards) = (self.book.waits(ticket), self.guards(ticket)?);
        let entry = self.book.entry(ticket);
        let (command, planned, files) = (entry.command.clone(), entry.own.planned, entry.own.files);
        let places: Vec<_> = entry.own.places.iter().cloned().zip(entry.met.clone()).collect();
        let mut held_up = self.floor.hold_up(number, &waits)?;
        for (touch, (held, _)) in touches(&command).zip(&places) {
            let Some(held) = held.as_ref().filter(|_| touch.mode.writes()) else { continue };
            let guard = self.guard(held)?;
            held_up |= self.floor.hold_up(number, &guard)?;
        }
        if files == Files::None {
            held_up |= self.floor.dawdle(number, ticket, 0)?;
        }
        let start = self.floor.start(number, held_up)?;
        let files = if let Files::Done(span) = files { span } else { Span::ZERO };
        let Passes { ranges, touched } = self.passes(ticket, &command, &places)?;
        let (fillers, delay) = self.filling(&command, planned, files, &touched);
        let stream = &self.floor.streams[number];
        self.floor.kernels.delay(stream, delay)?;
        let fillers = fillers.map(|filler| self.floor.scratch.filler(filler));
        self.floor.kernels.op(stream, &fillers, &ranges)?;
        let end = self.floor.end(number)?;
        self.book.entry_mut(ticket).own.start = Some(start);
        self.book.marked(ticket, [end].into_iter().chain(guards).collect());
        Ok(())
    }

    /// What an op compares and fills where it lies, as far as the device reaches it.
    fn passes(&mut self, ticket: Ticket, command: &Command, places: &[Touch]) -> Result<Passes> {
        let mut passes = Passes::default();
        let mut missing = Vec::new();
        for (touch, (held, met)) in touches(command).zip(places) {
            let place = (ticket, touch.object, touch.tier);
            let Some(held) = held else {
                missing.push(Some(Mismatch::new(place, met.version, Contents::NotAllocated)));
                continue;
            };
            let Some(address) = held.place.address() else { continue };
            let (near, stride) = (matches!(held.place, Place::Device(_)), self.stride(&held.place));
            let of = |run: &std::ops::Range<usize>| Range::of((address, held.bytes), run);
            let fresh = if touch.mode.writes() { met.fresh() } else { Runs::new() };
            let next = Key { object: touch.object, version: met.version + 1 };
            let mut check = |passes: &mut Passes, layer: &Layer, pages, next: Option<Key>| {
                let range = of(&pages);
                let (watch, finding) =
                    self.floor.findings.watch(place, (layer.version, range.from))?;
                self.book.entry_mut(ticket).own.watches.push(watch);
                let held = Some((Key { object: touch.object, version: layer.version }, finding));
                let stride = if next.is_some() { 1 } else { stride };
                passes.add(near, Range { held, next, stride, ..range });
                Ok(())
            };
            if !touch.mode.reads() {
                fresh
                    .iter()
                    .for_each(|run| passes.add(near, Range { next: Some(next), ..of(run) }));
                continue;
            }
            // Pages that are compared and filled are so in one pass.
            for layer in met.layers.iter() {
                let both = inside(&layer.pages, &fresh).into_iter().map(|run| (run, Some(next)));
                let read = outside(&layer.pages, &fresh).into_iter().map(|run| (run, None));
                both.chain(read)
                    .try_for_each(|(run, next)| check(&mut passes, layer, run, next))?;
            }
        }
        self.book.note(missing);
        Ok(passes)
    }

    /// Every how many pages a place is compared by an op.
    fn stride(&self, place: &Place) -> u64 {
        let sampled = self.run.emulate && matches!(place, Place::Pinned(..));
        if sampled { self.arrival_stride as u64 } else { 1 }
    }

    /// What fills an op's time besides its touches: work before them and behind, and a delay.
    fn filling(
        &self,
        command: &Command,
        planned: Planned,
        files: Span,
        touched: &Touched,
    ) -> ([Filler; 2], u64) {
        let paces = &self.floor.paces;
        let [near, far] = paces.touches(touched);
        let far = far + files.ps() as f64 / 1000.0;
        let Work::Compute { occurrence, delay: stated, .. } = command.work else {
            unreachable!("an op")
        };
        let (op, precision) = (self.run.op(occurrence), &self.run.workload.trace.meta.precision);
        let compute = self.run.hardware.compute.as_deref();
        let ns = planned.span.ps() as f64 / 1000.0 - near;
        let touches = *touched != Touched::default();
        // What is touched far away takes a part of the law's delay, and none of what is stated.
        let law = Span::from_ps(planned.delay.ps() - stated.ps());
        let law = (law.ps() as f64 / 1000.0 - far).max(0.0) as u64;
        (
            paces.fillers((ns, touches), op, precision, compute),
            paces.delay(law + stated.ps() / 1000),
        )
    }

    /// Ends the op at the head of a stream, if the device has passed its end.
    pub(super) fn op_passed(&mut self, stream: usize) -> Result<bool> {
        let Some(&ticket) = self.streams[stream].running.front() else { return Ok(false) };
        let entry = self.book.entry(ticket);
        if entry.unended > 0 {
            return Ok(false);
        }
        for mark in &entry.own.marks {
            if !mark.passed()? {
                return Ok(false);
            }
        }
        self.streams[stream].running.pop_front();
        let entry = self.book.entry_mut(ticket);
        let (start, end) =
            (entry.own.start.take().expect("it is queued"), entry.own.marks[0].clone());
        let watches = std::mem::take(&mut entry.own.watches);
        let (began, ready, planned) = (entry.began, entry.ready, entry.own.planned);
        let Work::Compute { occurrence, .. } = entry.command.work else { unreachable!("an op") };
        let start = self.floor.timeline.time(&start)?;
        let end = self.floor.timeline.time(&end)?.max(start);
        let start = began.unwrap_or(start).min(start);
        for watch in watches {
            let found = self.floor.findings.read(watch);
            self.book.truth.note(found);
        }
        // The two clocks agree to some microseconds only, and nothing starts before it may.
        let ready = ready.max(self.streams[stream].last).min(start);
        let planned = planned.span + planned.delay;
        self.book.ops.push(OpRun { occurrence, planned, ready, start, end });
        self.streams[stream].last = end;
        self.finish(ticket, end);
        Ok(true)
    }

    /// An op's files have been used.
    pub(super) fn files_used(&mut self, ticket: Ticket, start: Time, end: Time) -> Result<()> {
        let entry = self.book.entry_mut(ticket);
        (entry.own.files, entry.began) = (Files::Done(end.since(start)), Some(start));
        let Work::Compute { stream, .. } = entry.command.work else { unreachable!("an op") };
        self.try_stream(usize::from(stream))
    }
}

fn touches(command: &Command) -> impl Iterator<Item = &ObjectAccess> {
    let Work::Compute { touches, .. } = &command.work else { unreachable!("streams run ops only") };
    touches.iter()
}
