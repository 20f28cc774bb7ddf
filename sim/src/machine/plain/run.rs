//! What a plain machine does with one command after the other.
//!
//! Invariant: what is done, and in which order, is what the whole machine does where nothing goes
//! beyond its laws (`machine.rs`, `machine/ops.rs`, `machine/copies.rs`).

use super::digest::{Used, What};
use super::{Cell, Due, Ended, Loaded, MEMORY, MOST_STREAMS, NONE, Plain, Stream};
use crate::machine::{Fault, timeline};
use std::mem::replace;
use tiersim_models::results::PathPart;
use tiersim_models::units::{Span, Time};

impl Plain<'_> {
    /// Takes the command that comes next.
    pub(super) fn take(&mut self) -> Result<(), Ended> {
        let ticket = self.cells.len() as u32;
        let (part, at) = self.part(ticket);
        let Loaded { digest, channels } = &self.loaded[part];
        let mut cell = Cell {
            indegree: 0,
            waiters: [NONE; 2],
            blocker: NONE,
            before: NONE,
            channel: NONE,
            ended: false,
            offered: Time::ZERO,
            start: Time::ZERO,
        };
        match digest.step(at).what {
            What::Op { stream, .. } => {
                let stream = usize::from(stream);
                if self.streams.len() <= stream {
                    if stream >= MOST_STREAMS {
                        return Err(Ended::NotPlain);
                    }
                    self.streams.resize_with(stream + 1, Stream::new);
                }
                self.streams[stream].waiting.push_back(ticket);
            }
            What::Copy { way, bytes, .. } => {
                cell.channel = channels[way as usize];
                self.meters.planned[cell.channel as usize] += bytes;
                self.lines[cell.channel as usize].gate.push_back(ticket);
            }
            What::Release => {}
        }
        for &on in digest.edges(at) {
            let on = &mut self.cells[on as usize];
            if on.ended {
                continue;
            }
            let edge = self.waiters.len() as u32;
            self.waiters.push([ticket, NONE]);
            match on.waiters[1] {
                NONE => on.waiters[0] = edge,
                last => self.waiters[last as usize][1] = edge,
            }
            on.waiters[1] = edge;
            cell.indegree += 1;
        }
        self.open += 1;
        self.cells.push(cell);
        if cell.indegree == 0 {
            self.ready(ticket, NONE);
        }
        Ok(())
    }

    /// All edges of a command are satisfied.
    #[inline]
    fn ready(&mut self, ticket: u32, cause: u32) {
        let (part, at) = self.part(ticket);
        match self.loaded[part].digest.step(at).what {
            What::Op { stream, .. } => self.try_stream(usize::from(stream), cause),
            What::Copy { .. } => {
                self.try_gate(self.cells[ticket as usize].channel as usize, cause);
            }
            What::Release => {
                self.begin(ticket, cause, (part, at));
                self.finish(ticket, (part, at));
            }
        }
    }

    /// Starts the op at the head of a stream, if it may.
    fn try_stream(&mut self, index: usize, cause: u32) {
        let stream = &mut self.streams[index];
        let Some(&ticket) = stream.waiting.front() else { return };
        if stream.running != NONE || self.cells[ticket as usize].indegree > 0 {
            return;
        }
        stream.waiting.pop_front();
        stream.running = ticket;
        let idle_since = stream.idle_since;
        self.cells[ticket as usize].before = self.last;
        self.charge(idle_since, cause);
        let (part, at) = self.part(ticket);
        self.begin(ticket, cause, (part, at));
        let digest = &self.loaded[part].digest;
        let step = digest.step(at);
        let What::Op { occurrence, own, .. } = step.what else { unreachable!("streams run ops") };
        self.meters.op_starts(self.now, own != PathPart::Bubble);
        let compute = self.computes(occurrence, step.op);
        let mut span = compute + step.delay;
        for &(tier, bytes) in digest.charges(at) {
            span += self.accesses[tier.index()].span_of(bytes);
        }
        self.streams[index].compute = compute;
        self.comes(self.lines.len() + index, span);
    }

    /// The event of a channel or a stream comes after so long.
    fn comes(&mut self, at: usize, after: Span) {
        self.due.push(Due { at: self.now + after, order: self.order, of: at });
        self.order += 1;
    }

    /// How long an op computes, which is this one of the trace.
    #[inline]
    pub(super) fn computes(&self, occurrence: u64, op: u32) -> Span {
        match self.spans {
            Some(spans) => spans[op as usize],
            None => self.durations.of(occurrence),
        }
    }

    /// Lets the copies whose turn it is into a channel, in the order of submission.
    fn try_gate(&mut self, channel: usize, cause: u32) {
        while let Some(&ticket) = self.lines[channel].gate.front() {
            let cell = &mut self.cells[ticket as usize];
            if cell.indegree > 0 {
                break;
            }
            (cell.offered, cell.blocker, cell.before) = (self.now, cause, self.last);
            let line = &mut self.lines[channel];
            line.gate.pop_front();
            line.ready.push_back(ticket);
            self.serve(channel);
        }
    }

    /// Starts the next copy of a channel, if there is one and it is free.
    fn serve(&mut self, channel: usize) {
        let line = &mut self.lines[channel];
        if line.served != NONE {
            return;
        }
        let Some(ticket) = line.ready.pop_front() else { return };
        (line.served, line.counted) = (ticket, self.now);
        let Cell { offered, blocker, .. } = self.cells[ticket as usize];
        // It waited for the channel if it could have begun earlier.
        let cause = if offered < self.now { line.before } else { blocker };
        let (part, at) = self.part(ticket);
        let What::Copy { bytes, .. } = self.loaded[part].digest.step(at).what else {
            unreachable!("channels copy")
        };
        let line = &mut self.lines[channel];
        line.bytes = bytes;
        let span = line.law.span_of(bytes);
        self.begin(ticket, cause, (part, at));
        self.comes(channel, span);
    }

    /// A command starts: it takes its room.
    #[inline]
    fn begin(&mut self, ticket: u32, cause: u32, (part, at): (usize, usize)) {
        let cell = &mut self.cells[ticket as usize];
        (cell.start, cell.blocker) = (self.now, cause);
        for &(tier, bytes) in self.loaded[part].digest.takes(at) {
            self.meters.takes(tier, bytes);
            timeline::holds(&mut self.timeline, self.now, tier, &self.meters);
        }
    }

    /// A copy has crossed its channel.
    fn copied(&mut self, channel: usize) {
        let line = &mut self.lines[channel];
        let (ticket, bytes) = (replace(&mut line.served, NONE), line.bytes);
        line.before = ticket;
        self.meters.busy[channel] += self.now.since(line.counted);
        self.meters.moved[channel] += bytes;
        self.meters.copied[channel] += bytes;
        self.last = ticket;
        self.finish(ticket, self.part(ticket));
        self.serve(channel);
    }

    /// A command ends: it gives room back, and whoever waited for it may go.
    fn finish(&mut self, ticket: u32, (part, at): (usize, usize)) {
        let now = self.now;
        let digest = &self.loaded[part].digest;
        let step = digest.step(at);
        let cell = &mut self.cells[ticket as usize];
        cell.ended = true;
        let (mut stream, mut op) = (None, None);
        match step.what {
            What::Op { occurrence, stream: own, own: part, .. } => {
                self.meters.compute += self.streams[usize::from(own)].compute;
                self.meters.delay += step.delay;
                self.meters.op_stops(now, part != PathPart::Bubble);
                for &Used { tier, read, written } in digest.used(at) {
                    self.meters.read[tier] += read;
                    self.meters.written[tier] += written;
                }
                for &(tier, bytes) in digest.charges(at) {
                    let tier = tier.index();
                    self.meters.in_place[tier] += self.accesses[tier].span_of(bytes);
                }
                self.last = ticket;
                (stream, op) = (Some(usize::from(own)), Some(occurrence));
                if let Some(timeline) = &mut self.timeline {
                    let (named, lasted) = ((occurrence, own), (cell.start, now.since(cell.start)));
                    timeline.slices.push(timeline::of_op(&self.workload.trace, named, lasted));
                }
            }
            What::Copy { object, bytes, .. } => {
                let (channel, took) = (cell.channel as usize, now.since(cell.start));
                self.meters.transfers[channel] += 1;
                self.meters.transfer_time[channel] += took;
                if let Some(timeline) = &mut self.timeline {
                    let (over, lasted) = ((channel, bytes), (cell.start, took));
                    timeline.slices.push(timeline::of_copy(
                        &self.workload.trace,
                        object,
                        over,
                        lasted,
                    ));
                }
            }
            What::Release => {}
        }
        for &(tier, bytes) in digest.gives(at) {
            self.meters.gives(tier, bytes);
            timeline::holds(&mut self.timeline, now, tier, &self.meters);
        }
        self.newest = self.newest.max(ticket + 1);
        self.ended.push_back((ticket, op));
        self.open -= 1;
        if let Some(stream) = stream {
            let stream = &mut self.streams[stream];
            (stream.running, stream.idle_since) = (NONE, now);
        }
        let mut edge = cell.waiters[0];
        while edge != NONE {
            let [waiter, next] = self.waiters[edge as usize];
            let indegree = &mut self.cells[waiter as usize].indegree;
            *indegree -= 1;
            if *indegree == 0 {
                self.ready(waiter, ticket);
            }
            edge = next;
        }
        if let Some(stream) = stream {
            self.try_stream(stream, ticket);
        }
    }

    /// Charges the time in which a stream stood still to the channels that caused it.
    fn charge(&mut self, idle_since: Time, mut cause: u32) {
        let oldest = self.newest.saturating_sub(MEMORY);
        let mut until = self.now;
        while until > idle_since && cause != NONE && cause >= oldest {
            let cell = &self.cells[cause as usize];
            if !cell.ended {
                break;
            }
            let from = cell.start.max(idle_since).min(until);
            if cell.channel != NONE {
                self.meters.stall[cell.channel as usize] += until.since(from);
            }
            (until, cause) = (from, cell.blocker);
        }
    }

    /// Waits for the next op to end: which of the run, and when; `None` when none is under way.
    pub(crate) fn next_op(&mut self) -> Result<Option<(Time, u64)>, Ended> {
        while let Some((_, op)) = self.next_end()? {
            if let Some(occurrence) = op {
                return Ok(Some((self.now, occurrence)));
            }
        }
        Ok(None)
    }

    /// The event that comes next, and its place.
    #[inline]
    fn next_due(&self) -> Option<(usize, Due)> {
        let (mut place, mut first) = (0, *self.due.first()?);
        for (other, &due) in self.due.iter().enumerate().skip(1) {
            if due.at < first.at || (due.at == first.at && due.order < first.order) {
                (place, first) = (other, due);
            }
        }
        Some((place, first))
    }

    /// Waits for the next command to end, and which of the run it is if it is an op.
    pub(super) fn next_end(&mut self) -> Result<Option<(u32, Option<u64>)>, Ended> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                self.told = ended.0;
                return Ok(Some(ended));
            }
            let Some((place, Due { at, of, .. })) = self.next_due() else {
                let (events, waiting) = (self.events, self.open);
                return match waiting {
                    0 => Ok(None),
                    _ => Err(Fault::Stuck { events, waiting }.into()),
                };
            };
            self.due.swap_remove(place);
            self.now = at;
            self.events += 1;
            match of.checked_sub(self.lines.len()) {
                None => self.copied(of),
                Some(stream) => {
                    let ticket = self.streams[stream].running;
                    self.finish(ticket, self.part(ticket));
                }
            }
        }
    }
}
