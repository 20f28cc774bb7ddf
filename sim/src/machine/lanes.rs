//! Lanes: the directions of links, and how pieces of copies queue for them.
//!
//! A lane serves first come, first served, one piece after the other or, if its link has several
//! lanes, so many at once; or it shares its rate among all who are there (`sharing`).
//! Invariant: a lane with one place is an in-order copy engine, so copies enter it as they were
//! submitted; one with several takes whoever is ready.

use super::detail::Peculiar;
use super::entry::{Piece, Progress};
use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use smallvec::SmallVec;
use std::collections::VecDeque;
use tiersim_models::hardware::{self, Hardware, Law, Tier};
use tiersim_models::ids::TierId;
use tiersim_models::service::{Detail, Discipline};
use tiersim_models::units::{Bytes, Rate, Span, Time};
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
    /// Copies in the order of submission that have not begun.
    pub(super) gate: VecDeque<Ticket>,
    /// Pieces to copy, in the order in which they became ready.
    pub(super) ready: VecDeque<Piece>,
    /// Pieces under way.
    pub(super) busy: u32,
    /// Those of them that have a place to themselves, and from when to when.
    pub(super) flying: SmallVec<[(Piece, Time, Time); 1]>,
    /// Flows of collectives under way, which take no place.
    pub(super) crossing: u32,
    /// Up to when the time that it was busy is counted.
    pub(super) counted: Time,
    /// The copy of which a piece ended last.
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
            gate: VecDeque::new(),
            ready: VecDeque::new(),
            busy: 0,
            flying: SmallVec::new(),
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
        let half = Rate::new((tier.access.rate.get() / 2).max(1)).expect("above zero");
        Lane {
            law: Law { setup: tier.access.setup, rate: half },
            peculiar: None,
            shared: false,
            at_once: 1,
            gate: VecDeque::new(),
            ready: VecDeque::new(),
            busy: 0,
            flying: SmallVec::new(),
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
        let Lane { law: _, peculiar, shared, at_once: _, gate, ready, .. } = self;
        // Events say who flies, and when they land.
        let Lane { busy, flying: _, crossing, counted, served, .. } = self;
        peculiar.iter().for_each(|peculiar| peculiar.state(moment.now, out));
        out.list(gate, |out, &ticket| moment.ticket(ticket, out));
        out.list(ready, |out, &piece| moment.piece(piece, out));
        out.word((*busy).into());
        out.word((*crossing).into());
        if *busy + *crossing > 0 {
            moment.time(*counted, out);
        }
        // Where nothing is shared, who waits has seen somebody leave: whoever left before is no
        // matter any more.
        if *shared {
            history(*served, out);
        }
    }

    /// Whether copies enter as they were submitted, and not as they become ready.
    pub(super) fn is_in_order(&self) -> bool {
        self.at_once == 1
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
        Progress::new(Transit::over(hops, bytes, self.chunk), laws)
    }

    /// The way of what moves within a tier.
    pub(super) fn way_within(&self, ticket: Ticket, tier: TierId, bytes: Bytes) -> Progress {
        let lane = self.ranks.lane(ticket, 2 * self.links + tier.index());
        Progress::new(Transit::new([lane], bytes, bytes), |lane| self.lanes[lane].law)
    }

    /// Lets copies whose turn it is into a lane, in the order of submission.
    pub(super) fn try_gate(&mut self, lane: usize, cause: Option<Ticket>) -> Result<(), Fault> {
        while let Some(&ticket) = self.lanes[lane].gate.front() {
            if self.entries.get(ticket).indegree > 0 {
                break;
            }
            self.lanes[lane].gate.pop_front();
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
        if self.lanes[lane].shared {
            return self.queue(piece, lane);
        }
        self.lanes[lane].ready.push_back(piece);
        self.check(|audit, now| audit.piece_arrives(lane, ticket, part.bytes, now))?;
        self.serve(lane)
    }

    /// Starts the next piece of a lane, if there is a place for it.
    fn serve(&mut self, lane: usize) -> Result<(), Fault> {
        if self.lanes[lane].busy == self.lanes[lane].at_once {
            return Ok(());
        }
        let Some(piece) = self.lanes[lane].ready.pop_front() else { return Ok(()) };
        self.lanes[lane].start(self.engine.now());
        self.begin_first(piece, lane)?;
        let (now, seed) = (self.engine.now(), self.seed);
        let Lane { law, peculiar, .. } = &mut self.lanes[lane];
        let span = match peculiar {
            None => law.span_of(piece.part.bytes),
            Some(peculiar) => peculiar.span(&piece, *law, seed, now),
        };
        self.lanes[lane].flying.push((piece, now, now + span));
        self.engine.schedule_in(span, ENDS, Event::Copied { lane: lane as u16, piece });
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

    pub(super) fn copied(&mut self, lane: usize, piece: Piece) -> Result<(), Fault> {
        self.leave(lane, piece)?;
        self.arrived(piece)?;
        self.serve(lane)
    }

    /// A piece leaves a lane.
    pub(super) fn leave(&mut self, lane: usize, piece: Piece) -> Result<(), Fault> {
        let now = self.engine.now();
        let Piece { ticket, part } = piece;
        let left = &mut self.lanes[lane];
        left.busy -= 1;
        left.served = Some(ticket);
        left.flying.retain(|(flying, ..)| !flying.is(piece));
        let busy = now.since(std::mem::replace(&mut left.counted, now));
        self.crossed(ticket, lane, part.bytes, busy);
        if self.ranks.is_first(ticket) {
            self.meters.copied[self.ranks.kind(lane)] += part.bytes;
        }
        self.check(|audit, now| audit.piece_leaves(lane, ticket, part.bytes, now))
    }

    /// A piece has crossed its lanes: the copy goes on, or ends.
    pub(super) fn arrived(&mut self, piece: Piece) -> Result<(), Fault> {
        match self.entries.progress(piece.ticket).transit.copied(piece.part.hop) {
            None => self.finish(piece.ticket),
            Some(hops) => hops.into_iter().try_for_each(|hop| self.offer(piece.ticket, hop)),
        }
    }
}
