//! How copies cross their lanes: let in at the gate, in line, served in turn or as flows, chunk by
//! chunk over the hops of their way, and what that adds to the path of the step.

use super::entry::Progress;
use super::lanes::{Lane, between, next_border, reach, sent_by};
use super::lines::{LineName, Served, Waiting};
use super::moment::Piece;
use super::sharing::{Cargo, Crossed, Flight, Lanes, Sharing};
use super::{ENDS, Event, Fault, SimMachine};
use crate::fair_share::ClassId;
use smallvec::SmallVec;
use tiersim_models::hardware;
use tiersim_models::ids::TierId;
use tiersim_models::units::{Bytes, Span};
use tiersim_policies::command::Ticket;
use tiersim_policies::transit::Transit;

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

    pub(super) fn sharing(&mut self) -> &mut Sharing {
        self.sharing.as_mut().expect("a machine with shared lanes shares")
    }

    /// The lanes of a piece that is offered to `lane`.
    fn lanes_of(&mut self, piece: Piece) -> Lanes {
        SmallVec::from_slice(self.entries.progress(piece.ticket).transit.lanes_of(piece.part.hop))
    }

    /// A piece takes its place in the lines of its lanes.
    pub(super) fn queue(&mut self, piece: Piece, lane: usize) -> Result<(), Fault> {
        for lane in self.lanes_of(piece) {
            self.lanes[lane].ready.push_back(piece);
            let Piece { ticket, part } = piece;
            self.check(|audit, now| audit.piece_arrives(lane, ticket, part.bytes, now))?;
        }
        self.admit(SmallVec::from_slice(&[lane]))
    }

    /// Starts every piece that is first in all its lines and finds a place on all its lanes.
    ///
    /// `freed` are the lanes on which something has changed.
    fn admit(&mut self, mut freed: Lanes) -> Result<(), Fault> {
        while let Some(lane) = freed.pop() {
            while let Some(&piece) = self.lanes[lane].ready.front() {
                let lanes = self.lanes_of(piece);
                let may_start = |&lane: &usize| {
                    let Lane { ready, busy, at_once, .. } = &self.lanes[lane];
                    busy < at_once && ready.front().is_some_and(|first| first.is(piece))
                };
                if !lanes.iter().all(may_start) {
                    break;
                }
                self.take_off(piece, lane, &lanes)?;
                freed.extend(lanes.into_iter().filter(|&other| other != lane));
            }
        }
        Ok(())
    }

    /// Bytes per second of all copies and others over a lane, what is used in place not counted.
    pub(super) fn shared_rate(&mut self, lane: usize) -> u64 {
        let Sharing { fair, classes, .. } = &mut **self.sharing.as_mut().expect("it is shared");
        let over = |class: ClassId| {
            let Crossed { lanes, used } = &classes[usize::from(class.0)];
            used.is_none() && lanes.contains(&lane)
        };
        fair.sent_by_class().filter(|(class, _)| over(*class)).map(|(_, rate)| rate).sum()
    }

    /// A piece leaves its lines and starts.
    fn take_off(&mut self, piece: Piece, lane: usize, lanes: &Lanes) -> Result<(), Fault> {
        let now = self.engine.now();
        let mut setup = self.slowed(lanes, piece.part.bytes);
        for &lane in lanes {
            let lane = &mut self.lanes[lane];
            lane.ready.pop_front();
            lane.start(now);
            setup += lane.law.setup;
            if let Some(peculiar) = &lane.peculiar {
                setup += peculiar.fixed(&piece, lane.law.rate, self.seed);
            }
        }
        self.crosses(piece);
        self.begin_first(piece, lane)?;
        let class = self.sharing().class(lanes, None);
        let flight = Flight { cargo: Cargo::Piece(piece), class };
        if setup > Span::ZERO {
            self.engine.schedule_in(setup, ENDS, Event::Flows(flight));
            return Ok(());
        }
        self.flow(flight)
    }

    /// Bytes begin to go.
    pub(super) fn flow(&mut self, flight: Flight) -> Result<(), Fault> {
        let now = self.engine.now();
        let Flight { cargo, class } = flight;
        let (ticket, bytes, of) = match cargo {
            Cargo::Piece(Piece { ticket, part }) => (ticket, part.bytes, part.bytes),
            Cargo::Use { op, bytes } => (op, bytes, self.charge_under_way(op).1),
            Cargo::Sent { op, bytes } => (op, bytes, bytes),
        };
        self.sharing().fair.join(class, bytes, flight, now);
        if self.audit.is_none() {
            return Ok(());
        }
        let Crossed { ref lanes, used } = *self.sharing().crossed(class);
        let lanes = lanes.clone();
        let bytes = [bytes, of];
        self.check(|audit, now| audit.flow_begins((ticket, class), &lanes, used, bytes, now))
    }

    /// Sets the event of the next end, if flows came or went since it was set.
    pub(super) fn retime(&mut self) -> Result<(), Fault> {
        let Some(sharing) = &mut self.sharing else { return Ok(()) };
        if !sharing.fair.has_changed() {
            return Ok(());
        }
        if let Some(pending) = sharing.next_end.take() {
            self.engine.cancel(pending);
        }
        let next = sharing.fair.next_end();
        sharing.next_end = next.map(|at| self.engine.schedule_at(at, ENDS, Event::Landed));
        if let Some(audit) = &mut self.audit {
            let checked = audit.flows_retimed(sharing.fair.rates(), self.engine.now());
            checked.map_err(|breach| Fault::Audit { events: self.engine.events(), breach })?;
        }
        Ok(())
    }

    /// One or several flows have ended.
    pub(super) fn landed(&mut self) -> Result<(), Fault> {
        let now = self.engine.now();
        let sharing = self.sharing();
        sharing.next_end = None;
        let mut ended = std::mem::take(&mut sharing.ended);
        sharing.fair.ended(now, &mut ended);
        for Flight { cargo, class } in ended.drain(..) {
            let lanes = self.sharing().crossed(class).lanes.clone();
            match cargo {
                Cargo::Piece(piece) => self.piece_landed(piece, class, lanes)?,
                Cargo::Use { op, .. } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.use_landed(op)?;
                }
                Cargo::Sent { op, bytes } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.sent(op, &lanes, bytes)?;
                }
            }
        }
        self.sharing().ended = ended;
        Ok(())
    }

    fn piece_landed(&mut self, piece: Piece, class: ClassId, lanes: Lanes) -> Result<(), Fault> {
        self.check(|audit, now| audit.flow_ends(piece.ticket, class, now))?;
        for &lane in &lanes {
            self.leave(lane, piece)?;
        }
        self.arrived(piece)?;
        self.admit(lanes)
    }
}
