//! What of a machine must be the same again for a run to repeat itself.
//!
//! Times are written relative to now and commands relative to the one that is issued next. What was
//! only counted is left out, and what is left of the past where nothing looks at it again: when an
//! idle channel fell idle, or what had ended before the latest time that somebody may yet be blamed
//! for. Every struct is taken apart field by field, so a new field has to be thought of here.
//! Invariant: two machines with the same state that get the same commands do the same.

use super::entry::{Entry, Progress};
use super::meters::Meters;
use super::path::Paths;
use super::streams::Stream;
use super::{Event, SimMachine};
use tiersim_models::units::Time;
use tiersim_policies::command::Ticket;
use tiersim_policies::state::{Remembered, State, remember};

impl SimMachine<'_> {
    /// The current moment.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// Whether the machine may ever be in the same state again: nothing is drawn, and no op waits
    /// for a moment of the whole run.
    pub fn may_repeat(&self) -> bool {
        let trace = &self.workload.trace;
        let periodic = self.durations.are_the_same_in_every_replay_of(trace);
        let released = trace.ops.iter().any(|op| op.release.is_some());
        periodic && !released && self.channels.iter().all(|channel| channel.may_repeat())
    }

    /// Writes the state; the next command will have the number `ticket`. `false` if something in it
    /// cannot be told.
    pub fn state(&self, ticket: u32, out: &mut State) -> bool {
        if self.timeline.is_some() || self.paths.trail.is_some() {
            return false;
        }
        let (now, next) = (self.engine.now(), Ticket(ticket));
        out.relative_to(now, next);
        out.list(&self.ended, |out, (at, ticket, path)| {
            ticket.state(out);
            self.paths.write(path, *at, out);
        });
        self.ranks.state(out);
        // Whatever is under way is an entry of a rank.
        out.relative_to(now, self.ranks.first_of(next));
        remember!(out, self as SimMachine {
            blame, paths, collectives, sharing, uses, loads, processors, meters
        } skip {
            workload, durations, accesses, chunk, routes, links, seed, placed_elsewhere, storing,
            // Only allocators that are not exact move them, and of these the planner tells no
            // state.
            threads,
            // It looks on.
            audit,
            // Looked at above or below, as far as it is under way.
            plan, framework, timeline, ended, ranks, engine, entries, streams, channels
        });
        if let Some(framework) = &self.framework {
            framework.write(|ticket| self.entries.is_under_way(ticket), out);
        }
        let mut used = vec![false; self.streams.len()];
        for op in &self.workload.trace.ops {
            let first = self.ranks.first_stream(op.stream);
            let own = used.iter_mut().skip(first).take(self.ranks.count() as usize);
            own.for_each(|used| *used = true);
        }
        let streams = || self.streams.iter().zip(&used);
        let idle = streams().filter(|(stream, used)| **used && !stream.running);
        let idle_since = idle.map(|(stream, _)| stream.idle_since).min().unwrap_or(now);
        for (stream, used) in streams() {
            remember!(out, stream as Stream { waiting, running, awaits_release }
                skip { idle_since });
            (*used && !running).then_some(stream.idle_since).state(out);
        }
        let history = |cause: Option<Ticket>, out: &mut State| {
            let is_under_way = |ticket| self.entries.is_under_way(ticket);
            self.blame.history(cause, is_under_way, idle_since, out);
        };
        out.list(self.entries.all(), |out, entry| write_entry(entry, paths, history, out));
        self.channels.iter().for_each(|channel| channel.state(history, out));
        self.engine.pending_events().state(out);
        true
    }

    /// Counts once more, `times` over, what was counted since `meters` and `events`. `None` where
    /// that is more than 64 bits hold.
    pub fn count_again(&mut self, meters: &Meters, events: u64, times: u64) -> Option<()> {
        self.meters.count_again(meters, times)?;
        self.engine.count_again(events, times)
    }
}

fn write_entry(
    entry: &Entry,
    paths: &Paths,
    history: impl Fn(Option<Ticket>, &mut State),
    out: &mut State,
) {
    // All that is left of one that has ended is its place.
    out.flag(entry.ended);
    if entry.ended {
        return;
    }
    entry.command.state(out);
    remember!(out, entry as Entry { indegree, waiters, stream, begun, issued }
        skip { command, op, compute, allocating, host, progress, ready_at, path, start, blocker, ended });
    if let Some(progress) = entry.progress.as_deref() {
        remember!(out, progress as Progress { transit, line, slowest } skip { legs });
        out.list(&progress.legs, |out, leg| paths.leg(leg, out));
    }
    match *begun {
        true => (entry.compute, entry.allocating + entry.host, entry.start).state(out),
        // It waits if that was before the moment at which it begins.
        false => out.flag(entry.ready_at < out.now()),
    }
    if let Some(path) = &entry.path {
        paths.write(path, entry.ready_at, out);
    }
    history(entry.blocker, out);
}

impl Remembered for Event {
    fn state(&self, out: &mut State) {
        match *self {
            Event::Op(op) => (0u8, op).state(out),
            Event::Copied { channel, piece } => (1u8, channel, piece).state(out),
            Event::Flows(flight) => (2u8, flight).state(out),
            Event::Landed => out.word(3),
            Event::Uses(op) => (4u8, op).state(out),
            Event::Launched { op, work } => (5u8, op, work).state(out),
            Event::Worked => out.word(6),
            Event::Released(stream) => (7u8, stream).state(out),
            Event::Exchange(op) => (8u8, op).state(out),
            Event::Issued(copy) => (9u8, copy).state(out),
            Event::Passed(copy) => (10u8, copy).state(out),
        }
    }
}
