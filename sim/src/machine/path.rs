//! How the time up to an end is made up: the split of a step along its critical path.
//!
//! Nothing is walked back. Whatever starts takes over the path to what it had waited for last,
//! which is what ends at that moment: the edge that was satisfied last, the op before it on its
//! stream, the rank that came last. When it ends, its own time is added, by part. So the op whose
//! end ends a step brings the split of the whole step with it, and memory is that of commands under
//! way.
//!
//! Pieces of copies do the same, hop by hop: a piece takes over the path to what let it into the
//! line of its hop, and adds how long it stood there, between its turns too, and how long it
//! crossed. What others did on the lane meanwhile is not followed: standing in line is a part of
//! its own.
//! Invariant: a path adds up to the time since the last step ended, to the picosecond.

use super::SimMachine;
use super::entry::Piece;
use super::state::Moment;
use smallvec::SmallVec;
use std::rc::Rc;
use tiersim_models::results::{Part, Parts};
use tiersim_models::units::{Span, Time};
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::State;

/// Time by part, by the place of the part.
pub(super) type Path = Rc<[Span]>;

/// Stretches of time, one after the other.
type Stretches = SmallVec<[(Part, Span); 8]>;

/// Where paths begin and how far they have come.
#[derive(Debug)]
pub(super) struct Paths {
    parts: Parts,
    none: Path,
    /// When the last step ended.
    since: Time,
    /// The path to what ended last.
    last: Path,
    /// The path to the command of which the plan heard last.
    told: Path,
}

/// A piece on a hop: the path to what let it into the line there, when that was, and when it left
/// the line.
#[derive(Debug)]
pub(super) struct Leg {
    path: Path,
    offered: Time,
    began: Time,
}

impl Paths {
    pub(super) fn new(parts: Parts) -> Paths {
        let none: Path = vec![Span::ZERO; parts.count()].into();
        Paths { parts, since: Time::ZERO, last: none.clone(), told: none.clone(), none }
    }

    /// `path`, which leads up to `from`, up to where these stretches end.
    fn extended(&self, path: Path, from: Time, stretches: &[(Part, Span)]) -> Path {
        // What lies before the end of the last step is that step's.
        let mut path = if from > self.since { path } else { self.none.clone() };
        let mut before = self.since.ps().saturating_sub(from.ps());
        // Nobody else has it, most of the time: then nothing is copied.
        let sums = Rc::make_mut(&mut path);
        for &(part, span) in stretches {
            let own = span.ps().saturating_sub(before);
            before -= span.ps() - own;
            sums[self.parts.index(part)] += Span::from_ps(own);
        }
        path
    }

    /// The path to what ended last.
    pub(super) fn last(&self) -> Path {
        self.last.clone()
    }

    /// The plan hears of the command to whose end `path` leads.
    pub(super) fn tell(&mut self, path: Path) {
        self.told = path;
    }

    /// Time goes on: nobody asks any more.
    pub(super) fn told(&mut self) {
        self.told = self.none.clone();
    }

    /// Writes what the future may build on.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Paths { parts: _, none: _, since, last, told: _ } = self;
        moment.time(*since, out);
        self.write(last, moment.now, out);
    }

    /// Writes a path that led up to `from`.
    pub(super) fn write(&self, path: &Path, from: Time, out: &mut State) {
        out.flag(from > self.since);
        if from > self.since {
            path.iter().for_each(|span| out.word(span.ps()));
        }
    }

    /// Writes how far a piece has come.
    pub(super) fn leg(&self, leg: &Leg, moment: Moment, out: &mut State) {
        let Leg { path, offered, began } = leg;
        self.write(path, *offered, out);
        moment.time(*offered, out);
        moment.time(*began, out);
    }
}

impl SimMachine<'_> {
    /// The op of which the plan has just heard was the last of a step: the step's split is counted.
    pub fn step_ended(&mut self) {
        let now = self.engine.now();
        // A step that ends at the same moment as another has no time.
        if now > self.paths.since {
            self.meters.split.add(&self.paths.told);
            self.paths.since = now;
        }
    }

    /// An op may start but for its release: what comes until then is waiting for that.
    pub(super) fn held(&mut self, op: Ticket) {
        let (now, path) = (self.engine.now(), self.paths.last());
        let entry = self.entries.get_mut(op);
        if entry.path.is_none() {
            (entry.path, entry.ready_at) = (Some(path), now);
        }
    }

    /// An op starts that may not before `release`.
    pub(super) fn sets_out(&mut self, op: Ticket, release: Time) {
        let (now, path) = (self.engine.now(), self.paths.last());
        let entry = self.entries.get_mut(op);
        // If it is later, something else was the last.
        if entry.path.is_none() || release < now {
            (entry.path, entry.ready_at) = (Some(path), now);
        }
    }

    /// A piece takes its place in the line of a hop.
    pub(super) fn lines_up(&mut self, copy: Ticket, hop: usize) {
        // It has not begun; but a time that never changes would look like another state each time.
        let now = self.engine.now();
        let leg = Leg { path: self.paths.last(), offered: now, began: now };
        let legs = &mut self.entries.progress(copy).legs;
        match legs.get_mut(hop) {
            Some(known) => *known = leg,
            // Hops are reached one after the other.
            None => legs.push(leg),
        }
    }

    /// A piece leaves the line and crosses its hop from now on.
    pub(super) fn crosses(&mut self, piece: Piece) {
        let now = self.engine.now();
        self.entries.progress(piece.ticket).legs[piece.part.hop].began = now;
    }

    /// A piece has crossed its hop: whatever starts now does so because of it.
    pub(super) fn has_crossed(&mut self, piece: Piece) {
        self.paths.last = self.paths.none.clone();
        self.paths.last = self.path_so_far(piece);
    }

    /// Part of a piece has crossed its hop, and the rest stands in line again.
    pub(super) fn lines_up_again(&mut self, piece: Piece) {
        let (path, offered) = (self.path_so_far(piece), self.engine.now());
        let leg = &mut self.entries.progress(piece.ticket).legs[piece.part.hop];
        (leg.path, leg.offered) = (path, offered);
    }

    /// The path to what has crossed of a piece by now.
    fn path_so_far(&mut self, piece: Piece) -> Path {
        let now = self.engine.now();
        let progress = self.entries.progress(piece.ticket);
        // Of lanes that are crossed at the same time, the narrowest.
        let lanes = progress.transit.lanes_of(piece.part.hop);
        let lane = lanes.iter().copied().min_by_key(|&lane| self.lanes[lane].law.rate);
        let lane = self.ranks.kind(lane.expect("a hop crosses something"));
        let leg = &mut progress.legs[piece.part.hop];
        let (offered, began) = (leg.offered, leg.began);
        let path = std::mem::replace(&mut leg.path, self.paths.none.clone());
        let waited = (Part::Queue(lane), began.since(offered));
        self.paths.extended(path, offered, &[waited, (Part::Copy(lane), now.since(began))])
    }

    /// The path to the end of a command that ends now; `beyond` is what its use of tiers took
    /// beyond their laws.
    pub(super) fn arrives(&mut self, ticket: Ticket, beyond: &[(usize, Span)]) -> Path {
        let stretches = self.stretches(ticket, beyond);
        let entry = self.entries.get_mut(ticket);
        // Without one its last piece has told, or it took no time.
        if let Some(path) = entry.path.take() {
            let from = entry.ready_at;
            self.paths.last = self.paths.none.clone();
            self.paths.last = self.paths.extended(path, from, &stretches);
        }
        self.paths.last()
    }

    /// What an op did since it could have started, in the order in which it did it.
    fn stretches(&self, ticket: Ticket, beyond: &[(usize, Span)]) -> Stretches {
        let (now, entry) = (self.engine.now(), self.entries.get(ticket));
        let Work::Compute { occurrence, delay, .. } = entry.command.work else {
            return Stretches::new();
        };
        let ops = &self.workload.trace.ops;
        let op = &ops[(occurrence % ops.len() as u64) as usize];
        let (own, launch) = match op.unit {
            Unit::Device if op.runs_again() => (Part::Recompute, self.durations.launch()),
            Unit::Device => (Part::Compute(op.phase), self.durations.launch()),
            Unit::Cpu => (Part::Cpu, self.durations.launch_on_host()),
            // Until devices meet, launching is all that each does.
            Unit::Network(_) => (Part::Collective, entry.compute),
            Unit::Idle => (Part::Bubble, Span::ZERO),
        };
        let launch = launch.min(entry.compute);
        let mut left = now.since(entry.start).ps();
        let mut all: Stretches = SmallVec::new();
        all.push((Part::Arrival, entry.start.since(entry.ready_at)));
        let compute = Span::from_ps(entry.compute.ps() - launch.ps());
        let uses = self.in_place(ticket, beyond);
        let uses = uses.iter().map(|&(tier, span)| (Part::InPlace(tier), span));
        let before = [(Part::Allocator, entry.allocating), (Part::Launch, launch)];
        let during = [(own, compute), (Part::Delay, delay)];
        for (part, span) in before.into_iter().chain(during).chain(uses) {
            let span = span.min(Span::from_ps(left));
            left -= span.ps();
            all.push((part, span));
        }
        // What processors that are shared and other devices made of it.
        all.push((own, Span::from_ps(left)));
        all
    }

    /// What an op paid for use in place, by tier of the machine, in the order of its charges.
    pub(super) fn in_place(
        &self,
        ticket: Ticket,
        beyond: &[(usize, Span)],
    ) -> SmallVec<[(usize, Span); 4]> {
        let Work::Compute { ref charges, .. } = self.entries.get(ticket).command.work else {
            return SmallVec::new();
        };
        let by_law = charges
            .iter()
            .map(|&(tier, bytes)| (tier.index(), self.accesses[tier.index()].span_of(bytes)));
        by_law.chain(beyond.iter().copied()).collect()
    }
}
