//! Lanes: the directions of links, and how pieces of copies queue for them.
//!
//! A lane serves one piece after the other or, if its link has several lanes, so many at once, and
//! its lines in turn (`lines`); or it shares its rate among all who are there (`sharing`).
//! Invariant: a lane with one place is an in-order copy engine for each line, so its copies enter
//! as they were submitted; one with several places takes whoever is ready. No place is empty while
//! a piece waits.

use super::detail::Peculiar;
use super::entry::{Piece, Progress};
use super::lines::{LineName, Lines, Served, Waiting};
use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use std::collections::VecDeque;
use tiersim_models::hardware::{self, Hardware, Law, Tier};
use tiersim_models::ids::TierId;
use tiersim_models::service::{Detail, Discipline};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::State;
use tiersim_policies::transit::Transit;

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) law: Law,
    /// What it has beyond the law, if anything.
    pub(super) peculiar: Option<Box<Peculiar>>,
    /// Whether those under way share the rate.
    pub(super) shared: bool,
    /// Pieces that may be under way at once.
    pub(super) at_once: u32,
    /// Copies that were not let in; and who waits and who is served, unless the lane is shared.
    pub(super) lines: Lines,
    /// Pieces to copy where it is shared, in the order in which they became ready.
    pub(super) ready: VecDeque<Piece>,
    /// Pieces under way.
    pub(super) busy: u32,
    /// Flows of collectives under way, which take no place.
    pub(super) crossing: u32,
    /// Up to when the time that it was busy is counted.
    pub(super) counted: Time,
    /// The copy whose turn ended last.
    pub(super) served: Option<Ticket>,
}

impl Lane {
    pub(super) fn new(hardware: &Hardware, lane: hardware::Lane) -> Lane {
        let link = &hardware.links[lane.link.index()];
        let service = link.service.as_ref();
        let plain = Detail::default();
        let detail = service.map_or(&plain, |service| service.detail(lane.evicting));
        Lane {
            law: hardware.lane_law(lane),
            peculiar: Peculiar::new(lane.index(), detail, link.raid0),
            shared: service.is_some_and(|s| s.discipline == Discipline::FairShare),
            at_once: service.map_or(1, |service| service.at_once()),
            lines: Lines::default(),
            ready: VecDeque::new(),
            busy: 0,
            crossing: 0,
            counted: Time::ZERO,
            served: None,
        }
    }

    /// Every lane of a machine: two per link, then one per tier.
    pub(super) fn all(hardware: &Hardware) -> Vec<Lane> {
        let links = hardware.lanes().map(|lane| Lane::new(hardware, lane));
        links.chain(hardware.tiers.iter().map(Lane::within)).collect()
    }

    /// From a tier to itself: each byte is read and written, so half of the tier's rate.
    fn within(tier: &Tier) -> Lane {
        let half = Bandwidth::new((tier.access.rate.get() / 2).max(1)).expect("above zero");
        Lane {
            law: Law { setup: tier.access.setup, rate: half },
            peculiar: None,
            shared: false,
            at_once: 1,
            lines: Lines::default(),
            ready: VecDeque::new(),
            busy: 0,
            crossing: 0,
            counted: Time::ZERO,
            served: None,
        }
    }

    /// Whether nothing about it is drawn.
    pub(super) fn may_repeat(&self) -> bool {
        self.peculiar.as_ref().is_none_or(|peculiar| peculiar.may_repeat())
    }

    /// Writes who is on it and who waits for it.
    pub(super) fn state(
        &self,
        moment: Moment,
        history: impl Fn(Option<Ticket>, &mut State),
        out: &mut State,
    ) {
        let Lane { law: _, peculiar, shared, at_once: _, lines, ready, .. } = self;
        let Lane { busy, crossing, counted, served, .. } = self;
        peculiar.iter().for_each(|peculiar| peculiar.state(moment.now, out));
        lines.state(moment, out);
        out.list(ready, |out, &piece| moment.piece(piece, out));
        out.word((*busy).into());
        out.word((*crossing).into());
        if *busy + *crossing > 0 {
            moment.time(*counted, out);
        }
        // Where nothing is shared, who waits has seen a turn end: whose turn ended before is no
        // matter any more.
        if *shared {
            history(*served, out);
        }
    }

    /// Whether copies enter as they were submitted, and not as they become ready.
    pub(super) fn is_in_order(&self) -> bool {
        self.at_once == 1
    }

    /// Who has not been let in: of one line, or of all where the lane is shared.
    fn gate(&mut self, line: LineName) -> &mut VecDeque<Ticket> {
        let line = if self.shared { LineName(0) } else { line };
        self.lines.gate(line)
    }

    /// A piece starts.
    pub(super) fn start(&mut self, now: Time) {
        if self.busy + self.crossing == 0 {
            self.counted = now;
        }
        self.busy += 1;
    }

    /// A flow of a collective starts.
    pub(super) fn start_crossing(&mut self, now: Time) {
        self.start(now);
        self.busy -= 1;
        self.crossing += 1;
    }

    /// A flow of a collective ends; how long the lane was busy that was not counted before.
    pub(super) fn end_crossing(&mut self, now: Time) -> Span {
        self.crossing -= 1;
        now.since(std::mem::replace(&mut self.counted, now))
    }
}

impl SimMachine<'_> {
    /// The way of a copy: whole if its route is one hop, pieces otherwise.
    pub(super) fn way(
        &mut self,
        ticket: Ticket,
        from: TierId,
        to: TierId,
        bytes: Bytes,
    ) -> Progress {
        let lane = |lane: &hardware::Lane| self.ranks.lane(ticket, lane.index());
        let hops = self.routes.hops(from, to).map(|hop| hop.iter().map(lane));
        let laws = |lane: usize| self.lanes[lane].law;
        let line = LineName(self.ranks.line(ticket, from, to));
        Progress::new(Transit::over(hops, bytes, self.chunk), line, laws)
    }

    /// The way of what moves within a tier.
    pub(super) fn way_within(&self, ticket: Ticket, tier: TierId, bytes: Bytes) -> Progress {
        let lane = self.ranks.lane(ticket, 2 * self.links + tier.index());
        let line = LineName(self.ranks.line(ticket, tier, tier));
        Progress::new(Transit::new([lane], bytes, bytes), line, |lane| self.lanes[lane].law)
    }

    /// A copy waits to be let into its first lane, behind those of its line that were submitted
    /// before.
    pub(super) fn wait_at_gate(&mut self, ticket: Ticket, progress: &Progress) {
        let lane = &mut self.lanes[progress.transit.lane(0)];
        if lane.is_in_order() {
            lane.gate(progress.line).push_back(ticket);
        }
    }

    /// Lets the copies of a line whose turn it is into a lane, in the order of submission.
    pub(super) fn try_gate(
        &mut self,
        (lane, line): (usize, LineName),
        cause: Option<Ticket>,
    ) -> Result<(), Fault> {
        while let Some(&ticket) = self.lanes[lane].gate(line).front() {
            if self.entries.get(ticket).indegree > 0 {
                break;
            }
            self.lanes[lane].gate(line).pop_front();
            self.enter(ticket, cause)?;
        }
        Ok(())
    }

    /// Lets a copy into its first lane.
    pub(super) fn enter(&mut self, ticket: Ticket, cause: Option<Ticket>) -> Result<(), Fault> {
        let now = self.engine.now();
        let entry = self.entries.get_mut(ticket);
        entry.ready_at = now;
        entry.blocker = cause;
        self.offer(ticket, 0)
    }

    /// Puts the next piece of a copy into the queue of one of its lanes, if it may go there.
    pub(super) fn offer(&mut self, ticket: Ticket, hop: usize) -> Result<(), Fault> {
        let transit = &mut self.entries.progress(ticket).transit;
        let Some(part) = transit.next(hop) else { return Ok(()) };
        let lane = transit.lane(hop);
        let piece = Piece { ticket, part };
        self.lines_up(ticket, hop);
        if self.lanes[lane].shared {
            return self.queue(piece, lane);
        }
        let line = self.entries.progress(ticket).line;
        self.lanes[lane].lines.join(line, Waiting { piece, crossed: Bytes::ZERO });
        self.check(|audit, now| audit.piece_arrives(lane, ticket, part.bytes, now))?;
        if self.lanes[lane].busy == self.lanes[lane].at_once {
            self.cut(lane, line);
        }
        self.serve(lane)
    }

    /// Ends the turns of other lines on a full lane at their next borders.
    fn cut(&mut self, lane: usize, line: LineName) {
        let (now, chunk, seed) = (self.engine.now(), self.chunk, self.seed);
        let Lane { law, peculiar, lines, .. } = &mut self.lanes[lane];
        if peculiar.as_ref().is_some_and(|peculiar| peculiar.has_cache()) {
            return;
        }
        for served in lines.in_the_way(line) {
            let reach = |bytes| reach(*law, peculiar.as_deref(), &served.piece, seed, bytes);
            let before =
                if served.crossed > Bytes::ZERO { reach(served.crossed) } else { Span::ZERO };
            // What others in the memory make it take longer comes first.
            let slowed = served.since.max(now).since(now);
            let so_far = before + now.max(served.since).since(served.since);
            let mut border = next_border(served.crossed, chunk);
            // Roughly where it is, then exactly.
            let sent = sent_by(*law, reach(Bytes::ZERO), so_far).get() / chunk.get();
            border = border.max(Bytes::new(sent.saturating_mul(chunk.get())));
            while border < served.piece.part.bytes && reach(border) < so_far {
                border = next_border(border, chunk);
            }
            if border >= served.piece.part.bytes {
                continue;
            }
            self.engine.cancel(served.event);
            let left = slowed + between(so_far, reach(border));
            let event = Event::Copied { lane: lane as u16, piece: served.piece };
            served.event = self.engine.schedule_in(left, ENDS, event);
            (served.until, served.end) = (border, now + left);
        }
    }

    /// How much of a piece under way has crossed since its turn began; the same whatever its turn
    /// is cut to.
    pub(super) fn gone(&self, lane: usize, served: &Served) -> Bytes {
        let (now, Lane { law, peculiar, .. }) = (self.engine.now(), &self.lanes[lane]);
        let passed = now.max(served.since).since(served.since);
        let turn = served.until.get() - served.crossed.get();
        if peculiar.as_ref().is_some_and(|peculiar| peculiar.has_cache()) {
            // Nobody cuts it, and it goes as fast as what has become of the cache.
            let span = served.end.since(served.since).ps().max(1);
            let gone = u128::from(turn) * u128::from(passed.ps()) / u128::from(span);
            return Bytes::new(gone as u64);
        }
        let reach = |bytes| reach(*law, peculiar.as_deref(), &served.piece, self.seed, bytes);
        let before = if served.crossed > Bytes::ZERO { reach(served.crossed) } else { Span::ZERO };
        let sent = sent_by(*law, reach(Bytes::ZERO), before + passed).get();
        Bytes::new(sent.saturating_sub(served.crossed.get()).min(turn))
    }

    /// Starts the next piece of a lane, or what is left of one, if there is a place for it.
    fn serve(&mut self, lane: usize) -> Result<(), Fault> {
        if self.lanes[lane].busy == self.lanes[lane].at_once {
            return Ok(());
        }
        let Some((waiting, others)) = self.lanes[lane].lines.next() else { return Ok(()) };
        let Waiting { piece, crossed } = waiting;
        let slowed = match crossed {
            Bytes::ZERO => self.slowed(&[lane], piece.part.bytes),
            _ => Span::ZERO,
        };
        self.lanes[lane].start(self.engine.now());
        self.crosses(piece);
        if crossed == Bytes::ZERO {
            self.begin_first(piece, lane)?;
        }
        let (now, seed) = (self.engine.now(), self.seed);
        let line = self.entries.progress(piece.ticket).line;
        let Lane { law, peculiar, .. } = &mut self.lanes[lane];
        let mut until = piece.part.bytes;
        let span = match peculiar {
            Some(peculiar) if peculiar.has_cache() => peculiar.span(&piece, *law, seed, now),
            peculiar => {
                if others {
                    until = until.min(next_border(crossed, self.chunk));
                }
                let reach = |bytes| reach(*law, peculiar.as_deref(), &piece, seed, bytes);
                let before = if crossed > Bytes::ZERO { reach(crossed) } else { Span::ZERO };
                between(before, reach(until))
            }
        };
        let (since, end) = (now + slowed, now + slowed + span);
        let event = Event::Copied { lane: lane as u16, piece };
        let event = self.engine.schedule_at(end, ENDS, event);
        self.lanes[lane].lines.serve(line, waiting, (until, since, end, event));
        Ok(())
    }

    /// The copy starts with its first piece.
    pub(super) fn begin_first(&mut self, piece: Piece, lane: usize) -> Result<(), Fault> {
        if (piece.part.hop, piece.part.number) != (0, 0) {
            return Ok(());
        }
        let entry = self.entries.get(piece.ticket);
        // It waited for the lane if it could have begun earlier.
        let waited = entry.ready_at < self.engine.now();
        let cause = if waited { self.lanes[lane].served } else { entry.blocker };
        self.begin(piece.ticket, cause)
    }

    /// A piece has crossed a lane, or a border between its chunks.
    pub(super) fn copied(&mut self, lane: usize, piece: Piece) -> Result<(), Fault> {
        let served = self.lanes[lane].lines.comes(piece);
        if served.until < piece.part.bytes {
            if !self.lanes[lane].lines.others_wait(&served) {
                self.go_on(lane, served);
                return Ok(());
            }
            self.turn_ends(lane, &served);
            return self.serve(lane);
        }
        self.turn_ends(lane, &served);
        self.check(|audit, now| audit.piece_leaves(lane, piece.ticket, piece.part.bytes, now))?;
        self.arrived(piece)?;
        self.serve(lane)
    }

    /// Whoever waited is served elsewhere by now: the rest goes at once.
    fn go_on(&mut self, lane: usize, served: Served) {
        let Lane { law, peculiar, .. } = &self.lanes[lane];
        let reach = |bytes| reach(*law, peculiar.as_deref(), &served.piece, self.seed, bytes);
        let left = between(reach(served.until), reach(served.piece.part.bytes));
        let event = Event::Copied { lane: lane as u16, piece: served.piece };
        let event = self.engine.schedule_in(left, ENDS, event);
        self.lanes[lane].lines.goes_on(served, (self.engine.now() + left, event));
    }

    /// A piece gives its place on a lane up: it has crossed, or another line waits.
    fn turn_ends(&mut self, lane: usize, served: &Served) {
        let &Served { piece, crossed, until, .. } = served;
        self.lanes[lane].lines.over(served);
        if until < piece.part.bytes {
            self.lines_up_again(piece);
        }
        self.pass(lane, piece.ticket, Bytes::new(until.get() - crossed.get()));
    }

    /// A place becomes free after so many bytes of a copy.
    fn pass(&mut self, lane: usize, ticket: Ticket, bytes: Bytes) {
        let now = self.engine.now();
        let left = &mut self.lanes[lane];
        left.busy -= 1;
        left.served = Some(ticket);
        let busy = now.since(std::mem::replace(&mut left.counted, now));
        self.crossed(ticket, lane, bytes, busy);
        if self.ranks.is_first(ticket) {
            self.meters.copied[self.ranks.kind(lane)] += bytes;
        }
    }

    /// A piece leaves a shared lane.
    pub(super) fn leave(&mut self, lane: usize, piece: Piece) -> Result<(), Fault> {
        let Piece { ticket, part } = piece;
        self.pass(lane, ticket, part.bytes);
        self.check(|audit, now| audit.piece_leaves(lane, ticket, part.bytes, now))
    }

    /// A piece has crossed its lanes: the copy goes on, or ends.
    pub(super) fn arrived(&mut self, piece: Piece) -> Result<(), Fault> {
        self.has_crossed(piece);
        match self.entries.progress(piece.ticket).transit.copied(piece.part.hop) {
            None => self.finish(piece.ticket),
            Some(hops) => hops.into_iter().try_for_each(|hop| self.offer(piece.ticket, hop)),
        }
    }
}

/// How long a piece is served until so many of its bytes have crossed, whatever is paid before them
/// included.
fn reach(law: Law, peculiar: Option<&Peculiar>, piece: &Piece, seed: u64, bytes: Bytes) -> Span {
    let fixed = peculiar.map_or(Span::ZERO, |peculiar| peculiar.fixed(piece, law.rate, seed));
    law.span_of(bytes) + fixed
}

/// Bytes that have crossed after so long, of which the `fixed` part comes before them.
fn sent_by(law: Law, fixed: Span, passed: Span) -> Bytes {
    let sending = u128::from(passed.ps().saturating_sub(fixed.ps()));
    let sent = u128::from(law.rate.get()) * sending / u128::from(PS_PER_S);
    Bytes::new(u64::try_from(sent).unwrap_or(u64::MAX))
}

/// What is left after one part of a time.
fn between(part: Span, whole: Span) -> Span {
    Span::from_ps(whole.ps().checked_sub(part.ps()).expect("more bytes take no less"))
}

/// The first border between chunks after so many bytes.
fn next_border(crossed: Bytes, chunk: Bytes) -> Bytes {
    let chunks = crossed.get() / chunk.get() + 1;
    Bytes::new(chunks.saturating_mul(chunk.get()))
}
