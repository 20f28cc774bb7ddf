//! What the devices of a server do together: collectives, and the ops that start on all of them.

use super::collectives::{Over, Together};
use super::sharing::{Cargo, Channels, Flight};
use super::timed::ENDS;
use super::{Event, Fault, SimMachine};
use smallvec::SmallVec;
use tiersim_models::collective::Collective;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Unit;
use tiersim_policies::command::Ticket;

impl SimMachine<'_> {
    /// What an entry does with other devices, if it does.
    fn collective(&self, entry: Ticket) -> Option<Collective> {
        self.collectives.as_ref()?;
        match self.op(entry)?.unit {
            Unit::Network(collective) if collective.sends() => Some(collective),
            _ => None,
        }
    }

    pub(super) fn is_collective(&self, entry: Ticket) -> bool {
        self.collective(entry).is_some()
    }

    /// A device has done its part; the last of them lets the bytes go, once all set-ups are over.
    pub(super) fn meet(&mut self, entry: Ticket) -> Result<(), Fault> {
        let collective = self.collective(entry).expect("a collective meets");
        let (first, missing) = (self.ranks.first(entry), self.ranks.count());
        let all = self.collectives.as_mut().expect("a machine with collectives");
        let exchange = || collective.exchange(all.laws);
        let new = || Together { exchange: exchange(), missing, flows: 0, over: Over::default() };
        let together = all.under_way.entry(first).or_insert_with(new);
        together.missing -= 1;
        if together.missing > 0 {
            return Ok(());
        }
        let latency = together.exchange.latency(all.laws.ways.map(|law| law.setup));
        let latency = latency.expect("a run that could outlast the clock is refused");
        if latency > Span::ZERO {
            self.engine.schedule_in(latency, ENDS, Event::Exchange(first));
            return Ok(());
        }
        self.exchange(first)
    }

    /// All devices send and receive from now on.
    pub(super) fn exchange(&mut self, first: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let all = self.collectives.as_ref().expect("a machine with collectives");
        let bytes = all.under_way[&first].exchange.bytes;
        let mut flights: SmallVec<[(Ticket, Channels, Bytes); 8]> = SmallVec::new();
        for (way, bytes) in all.ways.iter().zip(bytes) {
            let Some(way) = way.as_ref().filter(|_| bytes > Bytes::ZERO) else { continue };
            for (entry, _) in self.ranks.all(first) {
                flights
                    .extend(way.iter().map(|way| (entry, self.ranks.channels(entry, way), bytes)));
            }
        }
        let together = self.together(first);
        together.flows = flights.len() as u32;
        for (op, channels, bytes) in flights {
            if op == first {
                let over = &mut self.together(first).over;
                over.sent.extend(channels.iter().map(|&channel| (channel, bytes, now)));
            }
            channels.iter().for_each(|&channel| self.channels[channel].start_crossing(now));
            let class = self.sharing().class(&channels, None);
            self.flow(Flight { cargo: Cargo::Sent { op, bytes }, class })?;
        }
        if self.together(first).flows == 0 {
            return self.end_together(first);
        }
        Ok(())
    }

    fn together(&mut self, first: Ticket) -> &mut Together {
        let all = self.collectives.as_mut().expect("a machine with collectives");
        all.under_way.get_mut(&first).expect("it is under way")
    }

    /// What a device sends or receives has gone.
    pub(super) fn sent(
        &mut self,
        op: Ticket,
        channels: &[usize],
        bytes: Bytes,
    ) -> Result<(), Fault> {
        let now = self.engine.now();
        for &channel in channels {
            let busy = self.channels[channel].end_crossing(now);
            self.crossed(op, channel, bytes, busy);
        }
        let first = self.ranks.first(op);
        let slowest =
            channels.iter().copied().min_by_key(|&channel| self.channels[channel].law.rate);
        let together = self.together(first);
        together.over.slowest = slowest.expect("a flow crosses something");
        together.flows -= 1;
        if together.flows > 0 {
            return Ok(());
        }
        self.end_together(first)
    }

    fn end_together(&mut self, first: Ticket) -> Result<(), Fault> {
        self.ranks.all(first).try_for_each(|(entry, _)| self.finish(entry))
    }

    /// Bytes of an entry have crossed a channel, which was busy for `busy` since that was last
    /// counted.
    pub(super) fn crossed(&mut self, entry: Ticket, channel: usize, bytes: Bytes, busy: Span) {
        let kind = self.ranks.kind(channel);
        if self.ranks.is_first(entry) {
            self.meters.moved[kind] += bytes;
        }
        if self.ranks.instances.is_first(channel) {
            self.meters.busy[kind] += busy;
            self.was_busy(kind, busy);
        }
    }

    /// Starts what all ranks do together, if it is first in the stream of each and may start there.
    pub(super) fn start_together(
        &mut self,
        stream: usize,
        entry: Ticket,
        cause: Option<Ticket>,
    ) -> Result<(), Fault> {
        let ranks = self.ranks.count() as usize;
        let first = stream - stream % ranks;
        let is_ready = |(entry, rank): (Ticket, u32)| {
            // A stream is made with its first command: this rank's may not have come yet.
            let Some(queue) = self.streams.get(first + rank as usize) else { return false };
            let is_next = queue.waiting.front() == Some(&entry) && !queue.running;
            is_next && self.entries.get(entry).indegree == 0
        };
        if !self.ranks.all(entry).all(is_ready) {
            return Ok(());
        }
        (first..first + ranks).try_for_each(|stream| self.start_op(stream, cause))
    }
}
