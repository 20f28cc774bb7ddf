//! Checks of what copies have brought to memory that the device reaches.
//!
//! A check runs on a stream of its channel's own that goes after all others, so that it takes
//! neither the copy's time nor the channel's. To queue one takes the host as long as to queue the
//! copy, so they are enqueued several at a time: when there are enough, when somebody has to wait for
//! one, or when there is nothing else to do. What overwrites the room or is given it later waits for
//! its check.
//! Invariant: the checks of a machine never make a copy or an op wait, but for those two.

use crate::cuda::Parts;
use crate::cuda::allocations::DeviceAllocation;
use crate::cuda::entry::MarkList;
use crate::cuda::findings::Arrival;
use crate::cuda::kernels::Range;
use crate::cuda::mark::Mark;
use crate::fault::Result;
use crate::pattern::Key;
use crate::truth::{Contents, Mismatch};
use smallvec::SmallVec;
use std::rc::Rc;
use tiersim_policies::command::{Ticket, Work};

/// So many arrivals of a channel are checked by one launch.
const ARRIVALS: usize = 16;

impl Parts<'_> {
    /// Notes that what a copy brings is to be checked.
    pub(super) fn check_arrival(
        &mut self,
        ticket: Ticket,
        channel: usize,
        after: Option<&Rc<Mark>>,
    ) -> Result<()> {
        let entry = self.book.entry(ticket);
        let Work::Copy { object, to, .. } = entry.command.work else {
            unreachable!("only copies arrive")
        };
        let (place, met) = ((ticket, object, to), entry.met[0].clone());
        let Some(held) = entry.own.places[1].clone() else {
            let missing = Mismatch::new(place, met.version, Contents::NotAllocated);
            self.book.truth.note(Some(missing));
            return Ok(());
        };
        let Some(address) = held.place.address() else { return Ok(()) };
        let stride = self.arrival_stride as u64;
        let (mut watches, mut ranges) = (SmallVec::new(), SmallVec::new());
        for layer in met.layers.iter() {
            let range = Range::of((address, held.bytes), &layer.pages);
            let seen = (layer.version, range.from);
            let (watch, finding) = self.floor.findings.watch(place, seen)?;
            let key = Key { object, version: layer.version };
            ranges.push(Range { held: Some((key, finding)), stride, ..range });
            watches.push(watch);
        }
        held.unchecked.set(true);
        let arrivals = &mut self.channels[channel].unchecked;
        arrivals.push(Arrival { held, after: after.cloned(), ranges, watches });
        if arrivals.len() < ARRIVALS { Ok(()) } else { self.enqueue_checks_of(channel).map(drop) }
    }

    /// Enqueues all checks that are to be; whether there was any.
    pub(super) fn enqueue_checks(&mut self) -> Result<bool> {
        (0..self.channels.len())
            .try_fold(false, |any, channel| Ok(any | self.enqueue_checks_of(channel)?))
    }

    fn enqueue_checks_of(&mut self, channel: usize) -> Result<bool> {
        let arrivals = std::mem::take(&mut self.channels[channel].unchecked);
        if arrivals.is_empty() {
            return Ok(false);
        }
        let number = self.channels[channel].checking;
        for arrival in &arrivals {
            let before = arrival.held.guard.borrow().clone();
            self.floor.hold_up(number, arrival.after.iter().chain(&before))?;
        }
        let ranges = arrivals.iter().flat_map(|arrival| arrival.ranges.iter().copied());
        let ranges: Vec<Range> = ranges.collect();
        self.floor.kernels.use_all(&self.floor.streams[number], &ranges)?;
        let mark = self.floor.record(number)?;
        for Arrival { held, watches, .. } in arrivals {
            held.unchecked.set(false);
            *held.guard.borrow_mut() = Some(mark.clone());
            let checks = watches.into_iter().map(|watch| (mark.clone(), watch));
            self.channels[channel].checks.extend(checks);
        }
        Ok(true)
    }

    /// The check that must not be overtaken by what overwrites a room.
    pub(super) fn guard(&mut self, held: &DeviceAllocation) -> Result<Option<Rc<Mark>>> {
        if held.unchecked.get() {
            self.enqueue_checks()?;
        }
        Ok(held.guard.borrow().clone())
    }

    /// Checks of arrivals in memory that a command gives back: nobody may use it before.
    pub(super) fn guards(&mut self, ticket: Ticket) -> Result<MarkList> {
        let freed = self.book.entry(ticket).own.freed.clone();
        let guards = freed.iter().filter_map(|held| self.guard(held).transpose());
        guards.collect()
    }

    /// Reads the finding of a check of an arrival, if it has ended.
    pub(super) fn check_passed(&mut self, channel: usize) -> Result<bool> {
        let Some((mark, _)) = self.channels[channel].checks.front() else { return Ok(false) };
        if !mark.passed()? {
            return Ok(false);
        }
        let (_, watch) = self.channels[channel].checks.pop_front().expect("there is one");
        let found = self.floor.findings.read(watch);
        self.book.truth.note(found);
        Ok(true)
    }
}
