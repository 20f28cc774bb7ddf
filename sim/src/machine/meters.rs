//! What the simulated machine counts, from the start of the run; figures are differences.

use tiersim_models::ids::TierId;
use tiersim_models::results::{Parts, Split};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Allocation, ObjectAccess};
use tiersim_policies::state::{Remembered, State, remember};

/// Running totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meters {
    /// Bytes held, by tier.
    pub used: Vec<Bytes>,
    /// Most bytes ever held, by tier.
    pub peak: Vec<Bytes>,
    /// Most bytes held in the first tier since that was last asked.
    pub peak_since: Bytes,
    /// Bytes copied, by channel.
    pub moved: Vec<Bytes>,
    /// Bytes that the plan copies, by channel, of all commands submitted.
    pub planned: Vec<Bytes>,
    /// How many of these have been copied.
    pub copied: Vec<Bytes>,
    /// Time spent copying, by channel.
    pub busy: Vec<Span>,
    /// Copies that have ended, by channel that they crossed.
    pub transfers: Vec<u64>,
    /// Time that these took, each from its start to its end over all of its way.
    pub transfer_time: Vec<Span>,
    /// Time that streams stood still for a copy, by channel.
    pub stall: Vec<Span>,
    /// Delay for use in place, by tier.
    pub in_place: Vec<Span>,
    /// Time that ops computed, without delays.
    pub compute: Span,
    /// Delays that policies stated.
    pub delay: Span,
    /// What ops waited for allocators.
    pub allocating: Span,
    /// Bytes of objects that ops read, by tier. A run can read more than 64 bits count.
    pub read: Vec<u128>,
    /// Bytes of objects that ops wrote, by tier.
    pub written: Vec<u128>,
    /// Time in which at least one op of the device ran, up to the last start or end of one.
    pub active: Span,
    /// How the steps that have ended are made up along their critical paths.
    pub split: Split,
    running: u32,
    /// Up to when `active` is counted.
    counted: Time,
}

impl Meters {
    pub(crate) fn new(tiers: usize, channels: usize) -> Meters {
        Meters {
            used: vec![Bytes::ZERO; tiers],
            peak: vec![Bytes::ZERO; tiers],
            peak_since: Bytes::ZERO,
            moved: vec![Bytes::ZERO; channels],
            planned: vec![Bytes::ZERO; channels],
            copied: vec![Bytes::ZERO; channels],
            busy: vec![Span::ZERO; channels],
            transfers: vec![0; channels],
            transfer_time: vec![Span::ZERO; channels],
            stall: vec![Span::ZERO; channels],
            in_place: vec![Span::ZERO; tiers],
            compute: Span::ZERO,
            delay: Span::ZERO,
            allocating: Span::ZERO,
            read: vec![0; tiers],
            written: vec![0; tiers],
            active: Span::ZERO,
            // Behind those of links every tier has a channel of its own.
            split: Split::new(Parts::new(channels - tiers, tiers)),
            running: 0,
            counted: Time::ZERO,
        }
    }

    /// The parts of a step.
    pub(crate) fn parts(&self) -> Parts {
        self.split.parts()
    }

    /// The largest of all sums that have 64 bits.
    pub(crate) fn largest(&self) -> u64 {
        let moved = self.moved.iter().chain(&self.planned).map(|bytes| bytes.get());
        let spans = self.busy.iter().chain(&self.transfer_time).chain(&self.stall);
        let spans = spans
            .chain(&self.in_place)
            .chain([&self.compute, &self.delay, &self.allocating, &self.active])
            .map(|span| span.ps());
        moved.chain(spans).max().unwrap_or(0)
    }

    /// An op starts: one of the device, or of the host or a wait, which leave the device idle.
    pub(crate) fn op_starts(&mut self, now: Time, of_device: bool) {
        self.count_to(now);
        self.running += u32::from(of_device);
    }

    /// An op has used these objects, of these bytes.
    pub(crate) fn uses(&mut self, touches: impl Iterator<Item = (ObjectAccess, Bytes)>) {
        for (touch, bytes) in touches {
            let (tier, bytes) = (touch.tier.index(), u128::from(bytes.get()));
            if touch.mode.reads() {
                self.read[tier] += bytes;
            }
            if touch.mode.writes() {
                self.written[tier] += bytes;
            }
        }
    }

    /// An op ends, whatever it used.
    pub(crate) fn op_stops(&mut self, now: Time, of_device: bool) {
        self.count_to(now);
        self.running -= u32::from(of_device);
    }

    /// Counts once more, `times` over, what was counted since `start`. What is held is the same,
    /// and so is the most that ever was. `None` where a sum is more than its bits hold.
    pub(crate) fn count_again(&mut self, start: &Meters, times: u64) -> Option<()> {
        let Meters {
            used: _,
            peak: _,
            peak_since: _,
            moved,
            planned,
            copied,
            busy,
            transfers,
            transfer_time,
            stall,
            in_place,
            compute,
            delay,
            allocating,
            read,
            written,
            active,
            split,
            running: _,
            counted: _,
        } = self;
        let bytes = moved.iter_mut().chain(planned).chain(copied);
        let starts = start.moved.iter().chain(&start.planned).chain(&start.copied);
        for (sum, start) in bytes.zip(starts) {
            *sum = Bytes::new(again(sum.get(), start.get(), times)?);
        }
        for (sum, start) in transfers.iter_mut().zip(&start.transfers) {
            *sum = again(*sum, *start, times)?;
        }
        let spans = busy.iter_mut().chain(transfer_time).chain(stall).chain(in_place);
        let spans = spans.chain(split.spans_mut()).chain([compute, delay, allocating, active]);
        let starts = start.busy.iter().chain(&start.transfer_time).chain(&start.stall);
        let starts = starts.chain(&start.in_place).chain(start.split.spans());
        let others = [&start.compute, &start.delay, &start.allocating, &start.active];
        let starts = starts.chain(others);
        for (sum, start) in spans.zip(starts) {
            *sum = Span::from_ps(again(sum.ps(), start.ps(), times)?);
        }
        let bytes = read.iter_mut().chain(written);
        for (sum, start) in bytes.zip(start.read.iter().chain(&start.written)) {
            *sum += (*sum - start) * u128::from(times);
        }
        Some(())
    }

    /// A copy ends that crossed these channels.
    pub(crate) fn copied(&mut self, channels: impl Iterator<Item = usize>, took: Span) {
        for channel in channels {
            self.transfers[channel] += 1;
            self.transfer_time[channel] += took;
        }
    }

    fn count_to(&mut self, now: Time) {
        if self.running > 0 {
            self.active += now.since(self.counted);
        }
        self.counted = now;
    }

    pub(crate) fn allocate(&mut self, room: &Allocation) {
        self.takes(room.tier, room.bytes);
    }

    pub(crate) fn takes(&mut self, tier: TierId, bytes: Bytes) {
        let tier = tier.index();
        self.used[tier] += bytes;
        self.peak[tier] = self.peak[tier].max(self.used[tier]);
        self.peak_since = self.peak_since.max(self.used[0]);
    }

    pub(crate) fn free(&mut self, room: &Allocation) {
        self.gives(room.tier, room.bytes);
    }

    pub(crate) fn gives(&mut self, tier: TierId, bytes: Bytes) {
        self.used[tier.index()] -= bytes;
    }
}

impl Remembered for Meters {
    /// What is held and what is being counted; not what was counted.
    fn state(&self, out: &mut State) {
        remember!(out, self as Meters { used, running } skip {
            peak, peak_since, moved, planned, copied, busy, transfers, transfer_time, stall, in_place, compute,
            delay, allocating, read, written, active, split, counted
        });
        (*running > 0).then_some(self.counted).state(out);
    }
}

/// A sum after what was added to it since `start` has been added `times` more.
pub(crate) fn again(sum: u64, start: u64, times: u64) -> Option<u64> {
    (sum - start).checked_mul(times)?.checked_add(sum)
}
