//! How much of each tier's bandwidth is in use, and what use in place and copies pay for that.
//!
//! An op that uses a tier in place loads it with its bytes over its whole duration, a copy under
//! way with the rate of its lane: it reads where it comes from and writes where it goes. What is in
//! use when an op starts decides the latency of its requests, and with it how fast they go
//! ([`tiersim_models::outstanding`]); the same of a piece of a copy. Where links are shared, the
//! duration is the one that the op has alone, and its bytes are not counted on the lanes again.
//! Invariant: an op takes back at its end exactly what it had put on, and nothing is faster than
//! the law.

use super::SimMachine;
use super::state::Moment;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::Requests;
use tiersim_models::hardware::{Hardware, Tier};
use tiersim_models::ids::TierId;
use tiersim_models::outstanding::Traffic;
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span};
use tiersim_models::workload::Trace;
use tiersim_policies::asked::Asked;
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::State;

/// What a charge takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Before its bytes go.
    pub(super) setup: Span,
    /// No less for its bytes.
    pub(super) bytes: Span,
}

/// By charge of an op.
pub(super) type Costs = SmallVec<[Cost; 2]>;

/// The load that ops put on tiers.
#[derive(Debug)]
pub(super) struct Loads {
    tiers: Vec<Tier>,
    /// By lane of a link: the tiers that are read and written.
    ends: Vec<[Option<usize>; 2]>,
    /// By tier, of the ops under way.
    used: Vec<Traffic>,
    under_way: BTreeMap<Ticket, SmallVec<[Load; 2]>>,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    tier: usize,
    own: Traffic,
    beyond: Span,
}

impl Loads {
    /// `None` if laws say it all.
    pub(super) fn new(hardware: &Hardware, trace: &Trace) -> Option<Box<Loads>> {
        let binds = |tier: &Tier| tier.loaded.is_some() || tier.requests != Requests::default();
        let parts = || trace.uses.iter().any(|used| used.part.is_some());
        (hardware.tiers.iter().any(binds) || parts()).then(|| {
            let tier = |node| hardware.tier_of(node).map(TierId::index);
            let ends = hardware.lanes().map(|lane| {
                let (from, to) = hardware.lane_ends(lane);
                [tier(from), tier(to)]
            });
            Box::new(Loads {
                ends: ends.collect(),
                tiers: hardware.tiers.clone(),
                used: vec![Traffic::default(); hardware.tiers.len()],
                under_way: BTreeMap::new(),
            })
        })
    }

    /// Writes what each op has put on.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Loads { tiers: _, ends: _, used, under_way } = self;
        for Traffic { read, written } in used {
            out.word(*read);
            out.word(*written);
        }
        out.list(under_way, |out, (&op, loads)| {
            moment.ticket(op, out);
            out.list(loads, |out, &Load { tier, own, beyond }| {
                for word in [tier as u64, own.read, own.written, beyond.ps()] {
                    out.word(word);
                }
            });
        });
    }

    /// An op has ended; what its use of each tier took beyond the law.
    pub(super) fn ends(&mut self, op: Ticket) -> impl Iterator<Item = (usize, Span)> + use<> {
        let loads = self.under_way.remove(&op).unwrap_or_default();
        for load in &loads {
            let used = &mut self.used[load.tier];
            used.read -= load.own.read;
            used.written -= load.own.written;
        }
        loads.into_iter().map(|load| (load.tier, load.beyond))
    }
}

/// Bytes per second of `bytes` over `span`, at most `pace`, of which some part goes each way; sums
/// of a few must not overflow.
fn over(bytes: Bytes, span: Span, asked: &Asked, pace: Bandwidth) -> Traffic {
    let rate = u128::from(bytes.get()) * u128::from(PS_PER_S) / u128::from(span.ps().max(1));
    let rate = rate.min(u128::from(pace.get())).min(u128::from(u32::MAX) << 28);
    let [read, written] = asked.ways.map(|way| (rate * way / asked.charged) as u64);
    Traffic { read, written }
}

fn loads_of(loads: &Option<Box<Loads>>) -> &Loads {
    loads.as_ref().expect("asked only where there are loads")
}

fn plus(one: Traffic, other: Traffic) -> Traffic {
    Traffic { read: one.read + other.read, written: one.written + other.written }
}

impl SimMachine<'_> {
    /// What an op asks of a tier.
    pub(super) fn asked(&self, op: Ticket, tier: TierId) -> Asked {
        let Work::Compute { occurrence, ref touches, .. } = self.entries.get(op).command.work
        else {
            unreachable!("ops only have charges")
        };
        let granule = match &self.loads {
            Some(loads) => loads.tiers[self.ranks.tier(op, tier).index()].granule(),
            None => Bytes::new(1),
        };
        Asked::of(&self.workload.trace, occurrence, touches, tier, granule)
    }

    /// An op starts that computes for `span`; what its charges take.
    pub(super) fn costs(&mut self, op: Ticket, span: Span) -> Costs {
        let Work::Compute { ref charges, .. } = self.entries.get(op).command.work else {
            unreachable!("ops only have charges")
        };
        let laws = charges.iter().map(|&(tier, bytes)| {
            let law = self.accesses[tier.index()];
            Cost { setup: law.setup, bytes: law.rate.span_of(bytes.get()) }
        });
        let mut costs: Costs = laws.collect();
        if self.loads.is_none() || charges.is_empty() {
            return costs;
        }
        let charges = charges.clone();
        let span = span + costs.iter().map(|cost| cost.setup + cost.bytes).sum();
        let mut own: SmallVec<[Load; 2]> = SmallVec::new();
        for (&(tier, bytes), cost) in charges.iter().zip(&mut costs) {
            let (index, asked) = (self.ranks.tier(op, tier).index(), self.asked(op, tier));
            let others = self.traffic(index);
            let flows = self.uses.as_ref().is_some_and(|uses| uses.any_flows(&[(tier, bytes)]));
            let loads = loads_of(&self.loads);
            let tier = &loads.tiers[index];
            let pace = tier.pace(others, asked.ways, asked.charged);
            let average = over(bytes, span, &asked, pace);
            let idle = tier.latency(Traffic::default());
            let rise = tier.latency(plus(others, average)).ps() - idle.ps();
            let (law, rise) = (cost.bytes, Span::from_ps(rise));
            cost.setup += rise;
            cost.bytes = asked.span(tier, bytes, pace);
            // What flows is measured when it has gone.
            let longer = if flows { Span::ZERO } else { Span::from_ps(cost.bytes.ps() - law.ps()) };
            own.push(Load { tier: index, own: average, beyond: rise + longer });
        }
        let loads = self.loads.as_mut().expect("looked at above");
        for load in &own {
            loads.used[load.tier] = plus(loads.used[load.tier], load.own);
        }
        loads.under_way.insert(op, own);
        costs
    }

    /// What a piece of a copy over `lanes` takes beyond their laws because others use the memory
    /// where it comes from or goes to.
    pub(super) fn slowed(&mut self, lanes: &[usize], bytes: Bytes) -> Span {
        let Some(loads) = &self.loads else { return Span::ZERO };
        let rate = lanes.iter().map(|&lane| self.lanes[lane].law.rate).min();
        let rate = rate.expect("a piece crosses a lane");
        let ends = lanes.iter().filter_map(|&lane| loads.ends.get(lane)).copied();
        let mut least = rate;
        for [from, to] in ends.collect::<SmallVec<[_; 4]>>() {
            for (tier, reading) in [(from, true), (to, false)] {
                let Some(tier) = tier else { continue };
                let others = self.traffic(tier);
                let loads = loads_of(&self.loads);
                least = least.min(loads.tiers[tier].copied(rate, others, reading));
            }
        }
        Span::from_ps(least.span_of(bytes.get()).ps() - rate.span_of(bytes.get()).ps())
    }

    /// What is read from a tier and written to it now, if that matters to anybody.
    fn traffic(&mut self, tier: usize) -> Traffic {
        let loads = loads_of(&self.loads);
        let (mut traffic, lanes) = (loads.used[tier], loads.ends.len());
        if loads.tiers[tier].loaded.is_none() {
            return Traffic::default();
        }
        for lane in 0..lanes {
            let [from, to] = loads_of(&self.loads).ends[lane];
            if from == Some(tier) {
                traffic.read += self.rate_in_use(lane);
            }
            if to == Some(tier) {
                traffic.written += self.rate_in_use(lane);
            }
        }
        // Objects that are moved within it.
        let within = self.rate_in_use(lanes + tier);
        traffic.read += within;
        traffic.written += within;
        traffic
    }

    /// Bytes per second that go over a lane now.
    fn rate_in_use(&mut self, lane: usize) -> u64 {
        let found = &self.lanes[lane];
        if !found.shared {
            let most = u64::from(u32::MAX) << 28;
            return found.law.rate.get().saturating_mul(found.busy.into()).min(most);
        }
        self.shared_rate(lane)
    }
}
