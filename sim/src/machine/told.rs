//! What the machine tells of itself: how the time up to an end is made up, what was measured up to
//! a moment, and a timeline.
//!
//! The meters count a piece when it has crossed its channel, and the time that a channel was busy
//! when something leaves it. Between two moments that is not what happened between them: a copy of
//! a minute that ends behind the first of them would all be counted there. So at such a moment what
//! has gone so far is added, by the time that has passed of a piece's own, and by the bytes that a
//! flow has sent.
//! Invariant: between two moments no channel is busy for longer than the time between them, and no
//! bytes are counted that its rate does not allow in that time.

use super::SimMachine;
use super::in_place::charges;
use super::meters::Meters;
use super::moment::Piece;
use super::path::{Leg, Path, Stretches};
use super::sharing::{Cargo, Flight};
use super::timeline;
use smallvec::SmallVec;
use tiersim_models::results::{PathPart, Timeline};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Ticket, Work};

impl SimMachine<'_> {
    /// The op of which the plan has just heard was the last of a step: the step's split is counted.
    pub fn step_ended(&mut self) {
        let now = self.engine.now();
        // A step that ends at the same moment as another has no time.
        if now > self.paths.since {
            self.meters.split.add(&self.paths.told.sums);
            self.walk(now);
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

    /// The thread of a framework has seen to an object since `from`, where `path` ends: its copy
    /// begins because of it.
    pub(super) fn waited_for_thread(&mut self, copy: Ticket, path: Path, from: Time) {
        let stretch = (PathPart::HostObjects, self.engine.now().since(from));
        let source = self.source(copy);
        self.paths.last = self.paths.extended(path, from, &[stretch], source);
    }

    /// A piece takes its place in the line of a hop.
    pub(super) fn lines_up(&mut self, copy: Ticket, hop: usize) {
        // It has not begun; but a time that never changes would look like another state each time.
        let now = self.engine.now();
        let leg = Leg { path: self.paths.last(), offered: now, began: now, again: false };
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
        (leg.path, leg.offered, leg.again) = (path, offered, true);
    }

    /// The path to what has crossed of a piece by now.
    fn path_so_far(&mut self, piece: Piece) -> Path {
        let (now, source) = (self.engine.now(), self.source_of_piece(piece));
        let progress = self.entries.progress(piece.ticket);
        // Of channels that are crossed at the same time, the narrowest.
        let channels = progress.transit.channels_of(piece.part.hop);
        let channel =
            channels.iter().copied().min_by_key(|&channel| self.channels[channel].law.rate);
        let channel = self.ranks.kind(channel.expect("a hop crosses something"));
        let leg = &mut progress.legs[piece.part.hop];
        let (offered, began) = (leg.offered, leg.began);
        let path = std::mem::replace(&mut leg.path, self.paths.none.clone());
        let waited = (PathPart::Queue(channel), began.since(offered));
        let crossed = (PathPart::Copy(channel), now.since(began));
        self.paths.extended(path, offered, &[waited, crossed], source)
    }

    /// The path to the end of a command that ends now; `in_place` is what it paid for its use of
    /// tiers.
    pub(super) fn arrives(&mut self, ticket: Ticket, in_place: &[(usize, Span)]) -> Path {
        let (stretches, source) = (self.stretches(ticket, in_place), self.source(ticket));
        let entry = self.entries.get_mut(ticket);
        // Without one its last piece has told, or it took no time.
        if let Some(path) = entry.path.take() {
            let from = entry.ready_at;
            self.paths.last = self.paths.none.clone();
            self.paths.last = self.paths.extended(path, from, &stretches, source);
        }
        self.paths.last()
    }

    /// What an op did since it could have started, in the order in which it did it, and what the
    /// device did with what a copy brought.
    fn stretches(&self, ticket: Ticket, in_place: &[(usize, Span)]) -> Stretches {
        let (now, entry) = (self.engine.now(), self.entries.get(ticket));
        let (Some(op), Work::Compute { delay, .. }) = (self.op(ticket), &entry.command.work) else {
            let passed = entry.path.is_some().then(|| now.since(entry.ready_at));
            return passed.map(|span| (PathPart::HostPasses, span)).into_iter().collect();
        };
        let (own, launch) = match op.unit {
            Unit::Device if op.runs_again() => (PathPart::Recompute, self.durations.launch()),
            Unit::Device => (PathPart::Compute(op.phase), self.durations.launch()),
            Unit::Cpu => (PathPart::Cpu, self.durations.launch_on_host()),
            // Until devices meet, launching is all that each does.
            Unit::Network(_) => (PathPart::Collective, entry.compute),
            Unit::Idle => (PathPart::Bubble, Span::ZERO),
        };
        let launch = launch.min(entry.compute);
        let mut left = now.since(entry.start).ps();
        let mut all: Stretches = SmallVec::new();
        all.push((PathPart::Arrival, entry.start.since(entry.ready_at)));
        let mut spent = |part, span: Span| {
            let span = span.min(Span::from_ps(left));
            left -= span.ps();
            // What takes no time changes nothing.
            if span > Span::ZERO {
                all.push((part, span));
            }
        };
        let compute = Span::from_ps(entry.compute.ps() - launch.ps());
        spent(PathPart::Allocator, entry.allocating);
        spent(PathPart::HostOps, entry.host);
        spent(PathPart::Launch, launch);
        spent(own, compute);
        spent(PathPart::Delay, *delay);
        in_place.iter().for_each(|&(tier, span)| spent(PathPart::InPlace(tier), span));
        // What processors that are shared and other devices made of it.
        spent(own, Span::from_ps(u64::MAX));
        all
    }

    /// Whether what an entry runs keeps the device at work.
    pub(super) fn is_of_device(&self, entry: Ticket) -> bool {
        self.op(entry).is_some_and(|op| op.unit.is_of_device())
    }

    /// What an op pays for use in place by the laws of tiers, in the order of its charges; one of
    /// the host for memory beyond DRAM.
    pub(super) fn by_law(&self, ticket: Ticket) -> SmallVec<[(usize, Span); 4]> {
        let (mut all, _) = self.far_memory(ticket);
        for &(tier, bytes) in charges(&self.entries.get(ticket).command.work) {
            all.push((tier.index(), self.accesses[tier.index()].span_of(bytes)));
        }
        all
    }

    /// What was measured until now, copies and exchanges under way included for the part that has
    /// gone.
    pub fn so_far(&self) -> Meters {
        let now = self.engine.now();
        let mut all = self.meters.clone();
        for (index, channel) in self.channels.iter().enumerate() {
            let kind = self.ranks.kind(index);
            if channel.busy + channel.crossing > 0 && self.ranks.instances.is_first(index) {
                all.busy[kind] += now.since(channel.counted);
            }
            for served in &channel.lines.served {
                // What others in the memory make it take longer comes first: its bytes begin to go
                // then.
                let gone = self.gone(index, served);
                self.has_gone(served.piece.ticket, [index], (gone, true), &mut all);
            }
        }
        let flows = self.sharing.iter().flat_map(|sharing| sharing.under_way(now));
        for (&Flight { cargo, .. }, channels, left) in flows {
            let (ticket, bytes, copied) = match cargo {
                Cargo::Piece(piece) => (piece.ticket, piece.part.bytes, true),
                Cargo::Sent { op, bytes } => (op, bytes, false),
                Cargo::Use { .. } => continue,
            };
            let gone = Bytes::new(bytes.get().saturating_sub(left.get()));
            self.has_gone(ticket, channels.iter().copied(), (gone, copied), &mut all);
        }
        all
    }

    fn has_gone(
        &self,
        entry: Ticket,
        channels: impl IntoIterator<Item = usize>,
        (bytes, copied): (Bytes, bool),
        all: &mut Meters,
    ) {
        for channel in channels.into_iter().filter(|_| self.ranks.is_first(entry)) {
            let kind = self.ranks.kind(channel);
            all.moved[kind] += bytes;
            if copied {
                all.copied[kind] += bytes;
            }
        }
    }

    /// From now on, remembers what runs when.
    pub fn record_timeline(&mut self) {
        self.timeline = Some(timeline::begins(self.engine.now(), &self.meters));
    }

    /// What ran when since [`SimMachine::record_timeline`].
    pub fn take_timeline(&mut self) -> Timeline {
        self.timeline.take().map_or_else(Timeline::default, |timeline| *timeline)
    }
}
