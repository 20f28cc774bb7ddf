//! Copies: pieces over channels, by the rules of [`Transit`], and checks of what has arrived.
//!
//! A channel whose two ends the device reaches is a stream of its own; every other channel is a
//! thread. Over one channel a copy is enqueued as soon as what it waits for is. Over several, a
//! piece goes on when the host has heard of its arrival.
//! Invariant: what arrives in memory that the device reaches is checked, see `arrivals`.

use crate::contents::{Layer, ObjectContents, Runs};
use crate::cuda::allocations::Place;
use crate::cuda::worker::{Done, End, Job, Look, Task};
use crate::cuda::{Flight, Parts};
use crate::fault::Result;
use crate::pattern::PAGE;
use crate::truth::{Contents, Mismatch};
use smallvec::SmallVec;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::{Command, Ticket, Work};
use tiersim_policies::transit::{BOUNCE, HopPiece, Transit};

/// What is copied, from where and to where.
fn ends(command: &Command) -> (ObjectId, Bytes, TierId, TierId) {
    let Work::Copy { object, bytes, from, to } = command.work else {
        unreachable!("channels run copies only")
    };
    (object, bytes, from, to)
}

/// Bytes of the buffers of a copy.
fn buffer(transit: &Transit, met: &ObjectContents) -> u64 {
    met.most_of(transit.chunk())
}

/// One side of a piece: what it is in, and where each of its rows starts.
type Side = Option<(Place, SmallVec<[u64; 2]>)>;

/// Bytes of whole pages.
fn bytes_of(run: &std::ops::Range<usize>) -> u64 {
    (run.len() * PAGE) as u64
}

/// What is copied from where to where; nothing where one of the ends is not there.
fn rows(runs: &Runs, from: Side, to: Side) -> Vec<(End, End, u64)> {
    let (Some((source, from)), Some((target, to))) = (from, to) else { return Vec::new() };
    let ends = from.into_iter().zip(to).zip(runs);
    let row = |((from, to), run)| ((source.clone(), from), (target.clone(), to), bytes_of(run));
    ends.map(row).collect()
}

impl Parts<'_> {
    /// Starts copies at the head of a channel that nothing holds back.
    pub(super) fn try_gate(&mut self, channel: usize) -> Result<()> {
        while let Some(&ticket) = self.channels[channel].gate.front() {
            let entry = self.book.entry(ticket);
            let held_back = if self.channels[channel].thread.is_some() {
                entry.unended
            } else {
                entry.unqueued
            };
            if held_back > 0 {
                return Ok(());
            }
            // A thread cannot wait for a check on the device, so the copy waits here.
            let transit = entry.transit.as_ref().expect("a copy has a route");
            let by_thread =
                transit.channels().any(|channel| self.channels[channel].thread.is_some());
            let target = entry.own.places[1].clone();
            if let Some(held) = target.filter(|_| by_thread)
                && let Some(guard) = self.guard(&held)?
                && !guard.passed()?
            {
                return Ok(());
            }
            let entry = self.book.entry(ticket);
            self.channels[channel].gate.pop_front();
            self.rooms.failing.copy()?;
            let (object, _, from, _) = ends(&entry.command);
            if entry.own.places[0].is_none() {
                let missing = Mismatch::new(
                    (ticket, object, from),
                    entry.met[0].version,
                    Contents::NotAllocated,
                );
                self.book.truth.note(Some(missing));
            }
            self.offer(ticket, 0)?;
        }
        Ok(())
    }

    /// Puts the next piece of a copy on one of its channels, if it may go there.
    fn offer(&mut self, ticket: Ticket, hop: usize) -> Result<()> {
        let Some(part) = self.book.entry_mut(ticket).transit().next(hop) else {
            return Ok(());
        };
        let runs = self.book.entry(ticket).met[0].carried(part.from, part.bytes);
        let from = self.end_of(ticket, &part, &runs, false)?;
        let to = self.end_of(ticket, &part, &runs, true)?;
        let rows = rows(&runs, from, to);
        let transit = self.book.entry_mut(ticket).transit();
        let (channel, last_hop) = (transit.channel(hop), transit.is_last_hop(hop));
        let last = last_hop && transit.is_last_piece(&part);
        let Some(thread) = self.channels[channel].thread else {
            return self.enqueue_piece(ticket, (part, channel, last), &rows);
        };
        let checks = if last { self.looks(ticket) } else { Vec::new() };
        let task = Task::Carry(rows);
        let late = self.floor.lateness(ticket, hop);
        self.channels[channel].sent.push_back(part);
        self.workers.send(thread, Job { ticket, queue: channel, late, task, checks })
    }

    /// Where a piece comes from or goes to on one of its channels: the copy's own end, or a buffer.
    fn end_of(&mut self, ticket: Ticket, part: &HopPiece, runs: &Runs, far: bool) -> Result<Side> {
        let Parts { book, floor, channels, rooms, .. } = self;
        let entry = book.entry_mut(ticket);
        let between = if far { part.hop } else { part.hop.wrapping_sub(1) };
        if between >= entry.own.bounces.len() {
            let held = entry.own.places[usize::from(far)].as_ref();
            let starts = runs.iter().map(|run| (run.start * PAGE) as u64).collect();
            return Ok(held.map(|held| (held.place.clone(), starts)));
        }
        let mut next = 0;
        let starts = runs.iter().map(|run| {
            let start = next;
            next += bytes_of(run);
            start
        });
        let starts: SmallVec<[u64; 2]> = starts.collect();
        let transit = entry.transit.as_ref().expect("a copy has a route");
        let (bytes, number) = (buffer(transit, &entry.met[0]), (part.number % BOUNCE) as usize);
        let on_device = channels[entry.transit().channel(between)].to_device;
        let buffer = &mut entry.own.bounces[between][number];
        if buffer.is_none() {
            let (place, taken) = floor.bounces.take(on_device, bytes)?;
            *buffer = Some(place);
            if taken {
                rooms.meter()?;
            }
        }
        Ok(buffer.clone().map(|place| (place, starts)))
    }

    /// Enqueues a piece on a channel that is a stream.
    fn enqueue_piece(
        &mut self,
        ticket: Ticket,
        (part, channel, last): (HopPiece, usize, bool),
        rows: &[(End, End, u64)],
    ) -> Result<()> {
        let number = self.channels[channel].stream;
        let mut held_up = false;
        if part.hop == 0 && part.number == 0 {
            let waits = self.book.waits(ticket);
            held_up |= self.floor.hold_up(number, &waits)?;
        }
        if let Some(target) = self.book.entry(ticket).own.places[1].clone() {
            let guard = self.guard(&target)?;
            held_up |= self.floor.hold_up(number, &guard)?;
        }
        held_up |= self.floor.dawdle(number, ticket, part.hop)?;
        let start = self.floor.start(number, held_up)?;
        let address = |(place, at): &End| Some(place.address()? + at);
        for (from, to, bytes) in rows.iter().filter(|(_, _, bytes)| *bytes > 0) {
            if let (Some(from), Some(to)) = (address(from), address(to)) {
                self.floor.streams[number].copy(to, from, *bytes)?;
            }
        }
        let end = self.floor.end(number)?;
        if last {
            let guards = self.guards(ticket)?;
            self.check_arrival(ticket, channel, Some(&end))?;
            self.book.marked(ticket, [end.clone()].into_iter().chain(guards).collect());
        }
        self.channels[channel].flights.push_back(Flight { ticket, part, last, start, end });
        Ok(())
    }

    /// The check of what a copy brings to a file.
    fn looks(&self, ticket: Ticket) -> Vec<Look> {
        let entry = self.book.entry(ticket);
        let (object, _, _, tier) = ends(&entry.command);
        let place = entry.own.places[1].as_ref().map(|held| &held.place);
        let Some(Place::File(slot)) = place else { return Vec::new() };
        let stride = self.arrival_stride;
        let look = |layer: &Layer| {
            let (slot, pages, version) = (slot.clone(), layer.pages.clone(), layer.version);
            Look { slot, pages, object, tier, version, stride }
        };
        entry.met[0].layers.iter().map(look).collect()
    }

    /// Hears of a piece on a channel that is a stream, if the device has copied it.
    pub(super) fn piece_passed(&mut self, channel: usize) -> Result<bool> {
        let Some(flight) = self.channels[channel].flights.front() else { return Ok(false) };
        if !flight.end.passed()? {
            return Ok(false);
        }
        let entry = self.book.entry(flight.ticket);
        if flight.last && entry.unended > 0 {
            return Ok(false);
        }
        let flight = self.channels[channel].flights.pop_front().expect("there is one");
        let start = self.floor.timeline.time(&flight.start)?;
        let end = self.floor.timeline.time(&flight.end)?.max(start);
        self.copied(flight.ticket, channel, &flight.part, (start, end))?;
        Ok(true)
    }

    /// Hears of a piece on a channel that is a thread.
    pub(super) fn piece_done(&mut self, done: &Done) -> Result<()> {
        let part = self.channels[done.queue].sent.pop_front().expect("a thread works in order");
        let transit = self.book.entry_mut(done.ticket).transit();
        if transit.is_last_hop(part.hop) && transit.is_last_piece(&part) {
            self.check_arrival(done.ticket, done.queue, None)?;
        }
        self.copied(done.ticket, done.queue, &part, (done.start, done.end))
    }

    /// A channel has copied a piece.
    fn copied(
        &mut self,
        ticket: Ticket,
        channel: usize,
        part: &HopPiece,
        times: (Time, Time),
    ) -> Result<()> {
        self.channels[channel].moved += part.bytes;
        let offers = self.book.copied(ticket, part.hop, times);
        let Some(hops) = offers else { return self.arrived(ticket, times.1) };
        hops.into_iter().try_for_each(|hop| self.offer(ticket, hop))
    }

    /// All of a copy has arrived; it ends when nothing that it gives back is being checked.
    fn arrived(&mut self, ticket: Ticket, end: Time) -> Result<()> {
        let entry = self.book.entry_mut(ticket);
        let transit = entry.transit.as_ref().expect("a copy has a route");
        let buffer = buffer(transit, &entry.met[0]);
        let bounces = std::mem::take(&mut entry.own.bounces).into_iter().flatten().flatten();
        bounces.for_each(|place| self.floor.bounces.give_back(place, buffer));
        entry.own.over = Some(end);
        if !entry.queued {
            // On the host only: its end is what others wait for, and the marks that it must see.
            self.book.entry_mut(ticket).own.marks = self.guards(ticket)?;
        }
        self.loose.insert(ticket);
        Ok(())
    }
}
