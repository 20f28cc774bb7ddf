//! What of a machine must be the same again for a run to repeat itself.
//!
//! Times are written relative to now and commands relative to the one that is issued next. What was
//! only counted is left out, and what is left of the past where nothing looks at it again: when an
//! idle channel fell idle, or what had ended before the latest time that somebody may yet be blamed
//! for. Every struct is taken apart field by field, so a new field has to be thought of here.
//! Invariant: two machines with the same state that get the same commands do the same.

use super::entry::{Entry, Progress};
use super::meters::Meters;
use super::moment::{Moment, Remembered, remember};
use super::path::Paths;
use super::streams::Stream;
use super::{Event, SimMachine};
use tiersim_models::units::Time;
use tiersim_models::workload::Mode;
use tiersim_policies::command::{Allocating, Allocation, Command, ObjectAccess, Ticket, Work};
use tiersim_policies::state::State;

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
        let SimMachine {
            workload,
            durations: _,
            accesses: _,
            loads,
            chunk: _,
            routes: _,
            engine,
            entries,
            ranks,
            streams,
            channels,
            links: _,
            sharing,
            uses,
            collectives,
            processors,
            // Only allocators that are not exact move them, and of these the planner tells no
            // state.
            threads: _,
            seed: _,
            placed_elsewhere: _,
            ended,
            meters,
            blame,
            paths,
            // It looks on.
            audit: _,
            timeline,
        } = self;
        if timeline.is_some() {
            return false;
        }
        let now = engine.now();
        let mut used = vec![false; streams.len()];
        for op in &workload.trace.ops {
            used.iter_mut()
                .skip(ranks.first_stream(op.stream))
                .take(ranks.count() as usize)
                .for_each(|used| *used = true);
        }
        let idle = streams.iter().zip(&used).filter(|(stream, used)| **used && !stream.running);
        let idle_since = idle.map(|(stream, _)| stream.idle_since).min().unwrap_or(now);
        let moment = Moment { now, ticket: ranks.first_of(Ticket(ticket)).0, idle_since };
        out.list(engine.pending_events(), |out, (at, class, event)| {
            moment.time(at, out);
            out.word(class.into());
            write_event(moment, event, out);
        });
        let history = |cause: Option<Ticket>, out: &mut State| {
            blame.history(cause, |ticket| entries.is_under_way(ticket), moment, out);
        };
        out.list(entries.all(), |out, entry| write_entry(entry, paths, moment, history, out));
        for (stream, used) in streams.iter().zip(used) {
            write_stream(stream, used, moment, out);
        }
        channels.iter().for_each(|channel| channel.state(moment, history, out));
        blame.state(moment, out);
        paths.state(moment, out);
        let next = ticket;
        out.list(ended, |out, (at, ticket, path)| {
            moment.time(*at, out);
            out.word((next - ticket.0).into());
            paths.write(path, *at, out);
        });
        ranks.state(next, out);
        collectives.iter().for_each(|collectives| collectives.state(moment, out));
        sharing.iter().for_each(|sharing| sharing.state(moment, out));
        uses.iter().for_each(|uses| uses.state(moment, out));
        loads.iter().for_each(|loads| loads.state(moment, out));
        processors.iter().for_each(|processors| processors.state(moment, out));
        meters.state(now, out);
        true
    }

    /// Counts once more, `times` over, what was counted since `meters` and `events`. `None` where
    /// that is more than 64 bits hold.
    pub fn count_again(&mut self, meters: &Meters, events: u64, times: u64) -> Option<()> {
        self.meters.count_again(meters, times)?;
        self.engine.count_again(events, times)
    }
}

fn write_stream(stream: &Stream, used: bool, moment: Moment, out: &mut State) {
    let Stream { waiting, running, awaits_release, idle_since } = stream;
    waiting.state(moment, out);
    out.flag(*running);
    out.flag(*awaits_release);
    if used && !running {
        moment.time(*idle_since, out);
    }
}

fn write_entry(
    entry: &Entry,
    paths: &Paths,
    moment: Moment,
    history: impl Fn(Option<Ticket>, &mut State),
    out: &mut State,
) {
    let Entry {
        command,
        indegree,
        waiters,
        stream,
        compute,
        allocating,
        progress,
        ready_at,
        path,
        start,
        blocker,
        begun,
        ended,
    } = entry;
    // All that is left of it is its place.
    out.flag(*ended);
    if *ended {
        return;
    }
    write_command(command, moment, out);
    out.word((*indegree).into());
    waiters.state(moment, out);
    out.word(stream.map_or(0, |stream| stream as u64 + 1));
    if let Some(Progress { transit, line, slowest, legs }) = progress {
        transit.state(out);
        out.word(line.0.into());
        out.word(*slowest as u64);
        out.list(legs, |out, leg| paths.leg(leg, moment, out));
    }
    out.flag(*begun);
    if *begun {
        out.word(compute.ps());
        out.word(allocating.ps());
        moment.time(*start, out);
    } else {
        // It waits if that was before the moment at which it begins.
        out.flag(*ready_at < moment.now);
    }
    if let Some(path) = path {
        moment.time(*ready_at, out);
        paths.write(path, *ready_at, out);
    }
    history(*blocker, out);
}

/// Its edges are where the machine keeps them: in counts and waiters.
fn write_command(command: &Command, moment: Moment, out: &mut State) {
    let Command { ticket: _, work, after: _, allocates, frees } = command;
    match work {
        Work::Compute { occurrence, stream, touches, charges, delay, allocating } => {
            out.word(0);
            out.op(*occurrence);
            out.word((*stream).into());
            touches.state(moment, out);
            charges.state(moment, out);
            delay.state(moment, out);
            allocating.state(moment, out);
        }
        Work::Copy { object, bytes, from, to } => {
            out.word(1);
            out.object(*object);
            out.bytes(*bytes);
            out.tier(*from);
            out.tier(*to);
        }
        Work::Compact { tier, bytes, objects } => {
            out.word(2);
            out.tier(*tier);
            out.bytes(*bytes);
            out.objects(objects);
        }
        Work::Release => out.word(3),
    }
    allocates.state(moment, out);
    frees.state(moment, out);
}

remember! {
    ObjectAccess { object, tier, mode };
    Allocation { object, tier, bytes };
    Allocating { thread, device };
}

impl Remembered for Mode {
    fn state(&self, moment: Moment, out: &mut State) {
        (self.reads(), self.writes()).state(moment, out);
    }
}

fn write_event(moment: Moment, event: &Event, out: &mut State) {
    match *event {
        Event::Op(op) => {
            out.word(0);
            moment.ticket(op, out);
        }
        Event::Copied { channel, piece } => {
            out.word(1);
            out.word(channel.into());
            piece.state(moment, out);
        }
        Event::Flows(flight) => {
            out.word(2);
            flight.state(moment, out);
        }
        Event::Landed => out.word(3),
        Event::Uses(op) => {
            out.word(4);
            moment.ticket(op, out);
        }
        Event::Exchange(op) => {
            out.word(8);
            moment.ticket(op, out);
        }
        Event::Launched { op, work } => {
            out.word(5);
            moment.ticket(op, out);
            out.word(work.ps());
        }
        Event::Worked => out.word(6),
        Event::Released(stream) => {
            out.word(7);
            out.word(stream.into());
        }
    }
}
