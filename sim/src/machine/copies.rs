//! How copies cross their channels: let in at the gate, in line, served in turn or as flows, chunk
//! by chunk over the hops of their way, and what that adds to the path of the step.

use super::channels::{Channel, between, next_border, reach, sent_by};
use super::entry::Progress;
use super::lines::{LineName, Served, Waiting};
use super::moment::Piece;
use super::sharing::{Cargo, Channels, Crossed, Flight, Sharing};
use super::timed::ENDS;
use super::{Event, Fault, SimMachine};
use crate::fair_share::ClassId;
use smallvec::SmallVec;
use tiersim_models::hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};
use tiersim_policies::command::Ticket;
use tiersim_policies::transit::Transit;

impl SimMachine<'_> {
    /// The way of a copy: whole if its route is one hop, pieces otherwise. Where an end stores the
    /// object packed, packing and unpacking are hops of it.
    pub(super) fn way(
        &mut self,
        ticket: Ticket,
        object: ObjectId,
        (from, to): (TierId, TierId),
        bytes: Bytes,
    ) -> Progress {
        let channel = |channel: &hardware::Channel| self.ranks.channel(ticket, channel.index());
        let storing = self.storing.as_ref();
        let stages = storing.and_then(|s| s.way(object, &self.routes, (from, to), bytes));
        let transit = match stages {
            None => {
                let hops = self.routes.hops(from, to).map(|hop| hop.iter().map(channel));
                Transit::over(hops, bytes, self.chunk)
            }
            Some(stages) => {
                let hops = stages.iter();
                let hops = hops.map(|stage| (stage.channels.iter().map(channel), stage.bytes));
                Transit::packed(hops, self.chunk)
            }
        };
        let laws = |channel: usize| self.channels[channel].law;
        let line = LineName { number: self.ranks.line(ticket, from, to) };
        Progress::new(transit, line, laws)
    }

    /// The way of what moves within a tier.
    pub(super) fn way_within(&self, ticket: Ticket, tier: TierId, bytes: Bytes) -> Progress {
        let channel = self.ranks.channel(ticket, 2 * self.links + tier.index());
        let line = LineName { number: self.ranks.line(ticket, tier, tier) };
        Progress::new(Transit::new([channel], bytes, bytes), line, |channel| {
            self.channels[channel].law
        })
    }

    /// A copy waits to be let into its first channel, behind those of its line that were submitted
    /// before.
    pub(super) fn wait_at_gate(&mut self, ticket: Ticket, progress: &Progress) {
        let channel = &mut self.channels[progress.transit.channel(0)];
        if channel.is_in_order() {
            channel.gate(progress.line).push_back(ticket);
        }
    }

    /// Lets the copies of a line whose turn it is into a channel, in the order of submission.
    pub(super) fn try_gate(
        &mut self,
        (channel, line): (usize, LineName),
        cause: Option<Ticket>,
    ) -> Result<(), Fault> {
        while let Some(&ticket) = self.channels[channel].gate(line).front() {
            if self.entries.get(ticket).indegree > 0 {
                break;
            }
            self.channels[channel].gate(line).pop_front();
            self.enter(ticket, cause)?;
        }
        Ok(())
    }

    /// Lets a copy into its first channel.
    pub(super) fn enter(&mut self, ticket: Ticket, cause: Option<Ticket>) -> Result<(), Fault> {
        let now = self.engine.now();
        let entry = self.entries.get_mut(ticket);
        entry.ready_at = now;
        entry.blocker = cause;
        self.offer(ticket, 0)
    }

    /// Puts the next piece of a copy into the queue of one of its channels, if it may go there.
    pub(super) fn offer(&mut self, ticket: Ticket, hop: usize) -> Result<(), Fault> {
        let transit = &mut self.entries.progress(ticket).transit;
        let Some(part) = transit.next(hop) else { return Ok(()) };
        let channel = transit.channel(hop);
        let piece = Piece { ticket, part };
        self.lines_up(ticket, hop);
        if self.channels[channel].shared {
            return self.queue(piece, channel);
        }
        let line = self.entries.progress(ticket).line;
        self.channels[channel].lines.join(line, Waiting { piece, crossed: Bytes::ZERO });
        self.check(|audit, now| audit.piece_arrives(channel, ticket, part.bytes, now))?;
        if self.channels[channel].busy == self.channels[channel].at_once {
            self.cut(channel, line);
        }
        self.serve(channel)
    }

    /// Ends the turns of other lines on a full channel at their next boundaries.
    fn cut(&mut self, channel: usize, line: LineName) {
        let (now, chunk, seed) = (self.engine.now(), self.chunk, self.seed);
        let Channel { law, peculiar, lines, .. } = &mut self.channels[channel];
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
            let mut boundary = next_border(served.crossed, chunk);
            // Roughly where it is, then exactly.
            let sent = sent_by(*law, reach(Bytes::ZERO), so_far).get() / chunk.get();
            boundary = boundary.max(Bytes::new(sent.saturating_mul(chunk.get())));
            while boundary < served.piece.part.bytes && reach(boundary) < so_far {
                boundary = next_border(boundary, chunk);
            }
            if boundary >= served.piece.part.bytes {
                continue;
            }
            self.engine.cancel(served.event);
            let left = slowed + between(so_far, reach(boundary));
            let event = Event::Copied { channel: channel as u16, piece: served.piece };
            served.event = self.engine.schedule_in(left, ENDS, event);
            (served.until, served.end) = (boundary, now + left);
        }
    }

    /// How much of a piece under way has crossed since its turn began; the same whatever its turn
    /// is cut to.
    pub(super) fn gone(&self, channel: usize, served: &Served) -> Bytes {
        let (now, Channel { law, peculiar, .. }) = (self.engine.now(), &self.channels[channel]);
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

    /// Starts the next piece of a channel, or what is left of one, if there is a place for it.
    fn serve(&mut self, channel: usize) -> Result<(), Fault> {
        if self.channels[channel].busy == self.channels[channel].at_once {
            return Ok(());
        }
        let Some((waiting, others)) = self.channels[channel].lines.next() else { return Ok(()) };
        let Waiting { piece, crossed } = waiting;
        let slowed = match crossed {
            Bytes::ZERO => self.slowed(&[channel], piece.part.bytes),
            _ => Span::ZERO,
        };
        self.channels[channel].start(self.engine.now());
        self.crosses(piece);
        if crossed == Bytes::ZERO {
            self.begin_first(piece, channel)?;
        }
        let (now, seed) = (self.engine.now(), self.seed);
        let line = self.entries.progress(piece.ticket).line;
        let Channel { law, peculiar, .. } = &mut self.channels[channel];
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
        let event = Event::Copied { channel: channel as u16, piece };
        let event = self.engine.schedule_at(end, ENDS, event);
        self.channels[channel].lines.serve(line, waiting, (until, since, end, event));
        Ok(())
    }

    /// The copy starts with its first piece.
    pub(super) fn begin_first(&mut self, piece: Piece, channel: usize) -> Result<(), Fault> {
        if (piece.part.hop, piece.part.number) != (0, 0) {
            return Ok(());
        }
        let entry = self.entries.get(piece.ticket);
        // It waited for the channel if it could have begun earlier.
        let waited = entry.ready_at < self.engine.now();
        let cause = if waited { self.channels[channel].served } else { entry.blocker };
        self.begin(piece.ticket, cause)
    }

    /// A piece has crossed a channel, or a boundary between its chunks.
    pub(super) fn copied(&mut self, channel: usize, piece: Piece) -> Result<(), Fault> {
        let served = self.channels[channel].lines.comes(piece);
        if served.until < piece.part.bytes {
            if !self.channels[channel].lines.others_wait(&served) {
                self.go_on(channel, served);
                return Ok(());
            }
            self.turn_ends(channel, &served);
            return self.serve(channel);
        }
        self.turn_ends(channel, &served);
        self.check(|audit, now| audit.piece_leaves(channel, piece.ticket, piece.part.bytes, now))?;
        self.arrived(piece)?;
        self.serve(channel)
    }

    /// Whoever waited is served elsewhere by now: the rest goes at once.
    fn go_on(&mut self, channel: usize, served: Served) {
        let Channel { law, peculiar, .. } = &self.channels[channel];
        let reach = |bytes| reach(*law, peculiar.as_deref(), &served.piece, self.seed, bytes);
        let left = between(reach(served.until), reach(served.piece.part.bytes));
        let event = Event::Copied { channel: channel as u16, piece: served.piece };
        let event = self.engine.schedule_in(left, ENDS, event);
        self.channels[channel].lines.goes_on(served, (self.engine.now() + left, event));
    }

    /// A piece gives its place on a channel up: it has crossed, or another line waits.
    fn turn_ends(&mut self, channel: usize, served: &Served) {
        let &Served { piece, crossed, until, .. } = served;
        self.channels[channel].lines.over(served);
        if until < piece.part.bytes {
            self.lines_up_again(piece);
        }
        self.pass(channel, piece.ticket, Bytes::new(until.get() - crossed.get()));
    }

    /// A place becomes free after so many bytes of a copy.
    fn pass(&mut self, channel: usize, ticket: Ticket, bytes: Bytes) {
        let now = self.engine.now();
        let left = &mut self.channels[channel];
        left.busy -= 1;
        left.served = Some(ticket);
        let busy = now.since(std::mem::replace(&mut left.counted, now));
        self.crossed(ticket, channel, bytes, busy);
        if self.ranks.is_first(ticket) {
            self.meters.copied[self.ranks.kind(channel)] += bytes;
        }
    }

    /// A piece leaves a shared channel.
    pub(super) fn leave(&mut self, channel: usize, piece: Piece) -> Result<(), Fault> {
        let Piece { ticket, part } = piece;
        self.pass(channel, ticket, part.bytes);
        self.check(|audit, now| audit.piece_leaves(channel, ticket, part.bytes, now))
    }

    /// A piece has crossed its channels: the copy goes on, or ends.
    pub(super) fn arrived(&mut self, piece: Piece) -> Result<(), Fault> {
        self.has_crossed(piece);
        match self.entries.progress(piece.ticket).transit.copied(piece.part.hop) {
            None if self.is_gone_over(piece.ticket) => Ok(()),
            None => self.finish(piece.ticket),
            Some(hops) => hops.into_iter().try_for_each(|hop| self.offer(piece.ticket, hop)),
        }
    }

    pub(super) fn sharing(&mut self) -> &mut Sharing {
        self.sharing.as_mut().expect("a machine with shared channels shares")
    }

    /// The channels of a piece that is offered to `channel`.
    fn channels_of(&mut self, piece: Piece) -> Channels {
        SmallVec::from_slice(
            self.entries.progress(piece.ticket).transit.channels_of(piece.part.hop),
        )
    }

    /// A piece takes its place in the lines of its channels.
    pub(super) fn queue(&mut self, piece: Piece, channel: usize) -> Result<(), Fault> {
        for channel in self.channels_of(piece) {
            self.channels[channel].ready.push_back(piece);
            let Piece { ticket, part } = piece;
            self.check(|audit, now| audit.piece_arrives(channel, ticket, part.bytes, now))?;
        }
        self.admit(SmallVec::from_slice(&[channel]))
    }

    /// Starts every piece that is first in all its lines and finds a place on all its channels.
    ///
    /// `freed` are the channels on which something has changed.
    fn admit(&mut self, mut freed: Channels) -> Result<(), Fault> {
        while let Some(channel) = freed.pop() {
            while let Some(&piece) = self.channels[channel].ready.front() {
                let channels = self.channels_of(piece);
                let may_start = |&channel: &usize| {
                    let Channel { ready, busy, at_once, .. } = &self.channels[channel];
                    busy < at_once && ready.front().is_some_and(|first| first.is(piece))
                };
                if !channels.iter().all(may_start) {
                    break;
                }
                self.take_off(piece, channel, &channels)?;
                freed.extend(channels.into_iter().filter(|&other| other != channel));
            }
        }
        Ok(())
    }

    /// Bytes per second of all copies and others over a channel, what is used in place not counted.
    pub(super) fn shared_rate(&mut self, channel: usize) -> u64 {
        let Sharing { flows, classes, .. } = &mut **self.sharing.as_mut().expect("it is shared");
        let over = |class: ClassId| {
            let Crossed { channels, used } = &classes[usize::from(class.0)];
            used.is_none() && channels.contains(&channel)
        };
        flows.fair.sent_by_class().filter(|(class, _)| over(*class)).map(|(_, rate)| rate).sum()
    }

    /// A piece leaves its lines and starts.
    fn take_off(&mut self, piece: Piece, channel: usize, channels: &Channels) -> Result<(), Fault> {
        let now = self.engine.now();
        let mut setup = self.slowed(channels, piece.part.bytes);
        for &channel in channels {
            let channel = &mut self.channels[channel];
            channel.ready.pop_front();
            channel.start(now);
            setup += channel.law.setup;
            if let Some(peculiar) = &channel.peculiar {
                setup += peculiar.fixed(&piece, channel.law.rate, self.seed);
            }
        }
        self.crosses(piece);
        self.begin_first(piece, channel)?;
        let class = self.sharing().class(channels, None);
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
        self.sharing().flows.fair.join(class, bytes, flight, now);
        if self.audit.is_none() {
            return Ok(());
        }
        let Crossed { ref channels, used } = *self.sharing().crossed(class);
        let channels = channels.clone();
        let bytes = [bytes, of];
        self.check(|audit, now| audit.flow_begins((ticket, class), &channels, used, bytes, now))
    }

    /// Sets the event of the next end, if flows came or went since it was set.
    pub(super) fn retime(&mut self) -> Result<(), Fault> {
        let Some(sharing) = &mut self.sharing else { return Ok(()) };
        if !sharing.flows.retime(&mut self.engine, Event::Landed) {
            return Ok(());
        }
        if let Some(audit) = &mut self.audit {
            let checked = audit.flows_retimed(sharing.flows.fair.rates(), self.engine.now());
            checked.map_err(|breach| Fault::Audit { events: self.engine.events(), breach })?;
        }
        Ok(())
    }

    /// One or several flows have ended.
    pub(super) fn landed(&mut self) -> Result<(), Fault> {
        let now = self.engine.now();
        let ended = self.sharing().flows.ended(now);
        for &Flight { cargo, class } in &ended {
            let channels = self.sharing().crossed(class).channels.clone();
            match cargo {
                Cargo::Piece(piece) => self.piece_landed(piece, class, channels)?,
                Cargo::Use { op, .. } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.use_landed(op)?;
                }
                Cargo::Sent { op, bytes } => {
                    self.check(|audit, now| audit.flow_ends(op, class, now))?;
                    self.sent(op, &channels, bytes)?;
                }
            }
        }
        self.sharing().flows.give_back(ended);
        Ok(())
    }

    fn piece_landed(
        &mut self,
        piece: Piece,
        class: ClassId,
        channels: Channels,
    ) -> Result<(), Fault> {
        self.check(|audit, now| audit.flow_ends(piece.ticket, class, now))?;
        for &channel in &channels {
            self.leave(channel, piece)?;
        }
        self.arrived(piece)?;
        self.admit(channels)
    }
}
