//! Use in place over shared links: the bytes of a charge become a flow.
//!
//! An op computes, delayed as its policy states, then pays its charges one after the other: the
//! set-up of the tier, then its bytes. Where the route between the tier and the device is one hop
//! of shared links, the bytes flow over its lanes, at max-min fair rates with all that crosses
//! them: what is read towards the device, what is written away from it, at the same time. They
//! cross the tier, too, whose bandwidth all that use it in place share; what an op writes while it
//! reads goes beside that, at most as fast. Loads and stores take no place in a lane: they are no
//! copies. Copies do not cross the tier's bandwidth, which is what use in place reaches. A charge
//! ends no sooner than its requests are answered (`loads`).
//! Invariant: a charge never takes less than the tier's law says, and one that reads or writes,
//! alone on links no narrower than the tier, takes exactly that where requests do not bind.

use super::loads::Costs;
use super::sharing::{Cargo, Flight, Lanes, Used};
use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::TierId;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::State;

/// The tiers over shared links, and the ops that pay for their use.
#[derive(Debug)]
pub(super) struct Uses {
    /// By tier: the lanes towards the device and away from it; `None` if its charges do not flow.
    ways: Vec<Option<[Lanes; 2]>>,
    under_way: BTreeMap<Ticket, Use>,
}

/// How far an op has come.
#[derive(Debug)]
struct Use {
    costs: Costs,
    /// The charge that it pays or will pay next.
    next: usize,
    /// When the bytes of that charge began to go.
    began: Time,
    /// Flows of that charge that are under way.
    open: u32,
    /// What charges took beyond their laws.
    beyond: SmallVec<[(usize, Span); 2]>,
}

impl Uses {
    /// `None` if no charge flows on this machine.
    pub(super) fn new(hardware: &Hardware, routes: &Routes) -> Option<Box<Uses>> {
        let way = |tier| {
            let shared = hardware.uses_flow(routes, tier);
            let lanes = |from, to| routes.between(from, to).iter().map(|lane| lane.index());
            shared.then(|| [lanes(tier, HBM).collect(), lanes(HBM, tier).collect()])
        };
        let ways: Vec<Option<[Lanes; 2]>> = hardware.tier_ids().map(way).collect();
        let any = ways.iter().any(Option::is_some);
        any.then(|| Box::new(Uses { ways, under_way: BTreeMap::new() }))
    }

    /// Whether some of the charges flow.
    pub(super) fn any_flows(&self, charges: &[(TierId, Bytes)]) -> bool {
        let flows = |&(tier, bytes): &(TierId, Bytes)| flows(&self.ways, tier, bytes);
        charges.iter().any(flows)
    }

    /// Writes how far each op has come.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Uses { ways: _, under_way } = self;
        out.list(under_way, |out, (&op, used)| {
            let Use { costs, next, began, open, beyond } = used;
            moment.ticket(op, out);
            out.list(costs, |out, cost| {
                out.word(cost.setup.ps());
                out.word(cost.bytes.ps());
            });
            out.word(*next as u64);
            out.word((*open).into());
            moment.time(*began, out);
            out.list(beyond, |out, &(tier, span)| {
                out.word(tier as u64);
                out.word(span.ps());
            });
        });
    }

    /// An op has ended; what its charges took beyond their laws, by tier.
    pub(super) fn ends(&mut self, op: Ticket) -> impl Iterator<Item = (usize, Span)> + use<> {
        let used = self.under_way.remove(&op);
        used.map(|used| used.beyond).unwrap_or_default().into_iter()
    }
}

impl SimMachine<'_> {
    /// An op starts of which some charges flow.
    pub(super) fn start_uses(&mut self, op: Ticket, costs: Costs) -> Result<(), Fault> {
        let (began, beyond) = (self.engine.now(), SmallVec::new());
        let entry = self.entries.get(op);
        let Work::Compute { delay, .. } = entry.command.work else {
            unreachable!("ops only have charges")
        };
        let compute = entry.compute + entry.allocating + delay;
        let uses = self.uses.as_mut().expect("a machine on which charges flow");
        uses.under_way.insert(op, Use { costs, next: 0, began, open: 0, beyond });
        self.next_use(op, compute)
    }

    /// The op goes on with its next charge after `span`, or ends.
    fn next_use(&mut self, op: Ticket, mut span: Span) -> Result<(), Fault> {
        let uses = self.uses.as_mut().expect("a machine on which charges flow");
        let used = uses.under_way.get_mut(&op).expect("it has charges that flow");
        let mut next = used.next;
        let mut flows = false;
        while let Some(&charge) = charges(&self.entries.get(op).command.work).get(next) {
            let cost = used.costs[next];
            span += cost.setup;
            flows = self::flows(&uses.ways, charge.0, charge.1);
            if flows {
                break;
            }
            span += cost.bytes;
            next += 1;
        }
        used.next = next;
        match (flows, span > Span::ZERO) {
            (true, true) => self.engine.schedule_in(span, ENDS, Event::Uses(op)),
            (true, false) => return self.use_flows(op),
            (false, true) => self.engine.schedule_in(span, ENDS, Event::Op(op)),
            (false, false) => return self.computed(op),
        };
        Ok(())
    }

    /// The bytes of a charge begin to go.
    pub(super) fn use_flows(&mut self, op: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let all = self.uses.as_mut().expect("a machine on which charges flow");
        let used = all.under_way.get_mut(&op).expect("it has charges that flow");
        used.began = now;
        let (tier, bytes) = charges(&self.entries.get(op).command.work)[used.next];
        let asked = self.asked(op, tier);
        let rate = self.accesses[tier.index()].rate;
        for (away, bytes) in [false, true].into_iter().zip(asked.split(bytes)) {
            if bytes == Bytes::ZERO {
                continue;
            }
            // What is written goes beside what is read.
            let back = away && !asked.only_writes();
            let all = self.uses.as_mut().expect("a machine on which charges flow");
            all.under_way.get_mut(&op).expect("it has charges that flow").open += 1;
            let way = all.ways[tier.index()].as_ref().expect("its charges flow");
            let lanes: Lanes = self.ranks.lanes(op, &way[usize::from(away)]);
            let used = Used { tier: self.ranks.tier(op, tier), back };
            let class = self.sharing().class(&lanes, Some((used, rate)));
            self.flow(Flight { cargo: Cargo::Use { op, bytes }, class })?;
        }
        Ok(())
    }

    /// The charge whose bytes go.
    pub(super) fn charge_under_way(&self, op: Ticket) -> (TierId, Bytes) {
        let uses = self.uses.as_ref().expect("a machine on which charges flow");
        charges(&self.entries.get(op).command.work)[uses.under_way[&op].next]
    }

    /// Bytes of a charge have gone one way.
    pub(super) fn use_landed(&mut self, op: Ticket) -> Result<(), Fault> {
        let now = self.engine.now();
        let uses = self.uses.as_mut().expect("a machine on which charges flow");
        let used = uses.under_way.get_mut(&op).expect("it has charges that flow");
        used.open -= 1;
        if used.open > 0 {
            return Ok(());
        }
        let (tier, bytes) = charges(&self.entries.get(op).command.work)[used.next];
        let gone = now.since(used.began);
        let takes = gone.max(used.costs[used.next].bytes).ps();
        let law = self.accesses[tier.index()].rate.span_of(bytes.get());
        used.beyond.push((tier.index(), Span::from_ps(takes - law.ps())));
        used.next += 1;
        self.next_use(op, Span::from_ps(takes - gone.ps()))
    }
}

/// Whether a charge flows. One of no bytes has nothing to send.
fn flows(ways: &[Option<[Lanes; 2]>], tier: TierId, bytes: Bytes) -> bool {
    ways[tier.index()].is_some() && bytes > Bytes::ZERO
}

/// The charges of an op.
fn charges(work: &Work) -> &[(TierId, Bytes)] {
    let Work::Compute { charges, .. } = work else { unreachable!("ops only have charges") };
    charges
}
