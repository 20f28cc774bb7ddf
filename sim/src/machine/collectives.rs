//! Collectives: ops that all ranks do together over the links between their devices.
//!
//! One starts when it is first in the stream of every simulated rank and may start on each. Each
//! device does its own part (the launch, and use in place if a policy chose that), then the set-ups
//! of all steps that follow one another pass, and then every device sends and receives its bytes at
//! the same time: a flow per direction, over the lanes to where devices meet, with max-min fair
//! rates beside copies and use in place. The op ends on all ranks when the last flow has ended. How
//! many bytes and steps is said in [`tiersim_models::collective`].
//!
//! A step's set-up is that of all links from one device to the next. Flows take no place in a lane,
//! pay nothing for being small, and no random delay: these are of copies. Ranks of the group that
//! are not simulated do the same at the same time; what they share with those that are, they leave
//! alone.
//! Invariant: alone, over ways that share no link, a collective takes its launch and
//! [`Exchange::span`], to the picosecond.
//!
//! [`Exchange::span`]: tiersim_models::collective::Exchange::span

use super::ranks::Ranks;
use super::sharing::{Cargo, Flight, Lanes};
use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::collective::{Collective, Exchange};
use tiersim_models::hardware::{Hardware, Law};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Trace, Unit};
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::State;

/// The ways between devices, and the collectives under way.
#[derive(Debug)]
pub(super) struct Collectives {
    /// Within the server, and to others: lanes away from the device and towards it.
    ways: [Option<[Lanes; 2]>; 2],
    /// What one step over each way takes, and what a device reaches of it while all send.
    laws: [Law; 2],
    /// By the entry of the first rank.
    under_way: BTreeMap<Ticket, Together>,
}

/// How far a collective has come.
#[derive(Debug)]
struct Together {
    exchange: Exchange,
    /// Ranks whose device has not done its part.
    missing: u32,
    /// Flows that have not ended.
    flows: u32,
    /// What the first rank has sent.
    over: Over,
}

/// What a collective sent that is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    /// The lane that held it back the longest.
    pub(super) slowest: usize,
    /// Lanes of the first rank, the bytes over each, and when they began to go.
    pub(super) sent: SmallVec<[(usize, Bytes, Time); 4]>,
}

impl Collectives {
    /// `None` if the trace has none that sends anything.
    pub(super) fn new(
        hardware: &Hardware,
        ranks: &Ranks,
        trace: &Trace,
    ) -> Option<Box<Collectives>> {
        let sends = |unit: Unit| matches!(unit, Unit::Network(collective) if collective.sends());
        if !trace.ops.iter().any(|op| sends(op.unit)) {
            return None;
        }
        let laws = hardware.collective_laws(ranks.count());
        let ways = hardware.meetings().map(|node| {
            let out = hardware.way_out(node?)?;
            let away: Lanes = out.iter().map(|lane| lane.index()).collect();
            let back = away.iter().rev().map(|lane| lane ^ 1).collect();
            Some([away, back])
        });
        Some(Box::new(Collectives { ways, laws, under_way: BTreeMap::new() }))
    }

    /// Writes how far each has come.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Collectives { ways: _, laws: _, under_way } = self;
        out.list(under_way, |out, (&op, together)| {
            let Together { exchange, missing, flows, over: Over { slowest, sent } } = together;
            moment.ticket(op, out);
            let Exchange { bytes, steps } = exchange;
            bytes.iter().for_each(|&bytes| out.bytes(bytes));
            steps.iter().for_each(|&steps| out.word(steps));
            out.word((*missing).into());
            out.word((*flows).into());
            out.word(*slowest as u64);
            out.list(sent, |out, &(lane, bytes, began)| {
                out.word(lane as u64);
                out.bytes(bytes);
                moment.time(began, out);
            });
        });
    }

    /// A rank's entry ends: what a collective sent, where the entry is the first rank's.
    pub(super) fn ends(&mut self, entry: Ticket) -> Option<Over> {
        self.under_way.remove(&entry).map(|together| together.over)
    }
}

impl SimMachine<'_> {
    /// What an entry does with other devices, if it does.
    fn collective(&self, entry: Ticket) -> Option<Collective> {
        self.collectives.as_ref()?;
        let Work::Compute { occurrence, .. } = self.entries.get(entry).command.work else {
            return None;
        };
        let ops = &self.workload.trace.ops;
        match ops[(occurrence % ops.len() as u64) as usize].unit {
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
        let latency = together.exchange.latency(all.laws.map(|law| law.setup));
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
        let mut flights: SmallVec<[(Ticket, Lanes, Bytes); 8]> = SmallVec::new();
        for (way, bytes) in all.ways.iter().zip(bytes) {
            let Some(way) = way.as_ref().filter(|_| bytes > Bytes::ZERO) else { continue };
            for (entry, _) in self.ranks.all(first) {
                flights.extend(way.iter().map(|way| (entry, self.ranks.lanes(entry, way), bytes)));
            }
        }
        let together = self.together(first);
        together.flows = flights.len() as u32;
        for (op, lanes, bytes) in flights {
            if op == first {
                let over = &mut self.together(first).over;
                over.sent.extend(lanes.iter().map(|&lane| (lane, bytes, now)));
            }
            lanes.iter().for_each(|&lane| self.lanes[lane].start_crossing(now));
            let class = self.sharing().class(&lanes, None);
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
    pub(super) fn sent(&mut self, op: Ticket, lanes: &[usize], bytes: Bytes) -> Result<(), Fault> {
        let now = self.engine.now();
        for &lane in lanes {
            let busy = self.lanes[lane].end_crossing(now);
            self.crossed(op, lane, bytes, busy);
        }
        let first = self.ranks.first(op);
        let slowest = lanes.iter().copied().min_by_key(|&lane| self.lanes[lane].law.rate);
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
}
