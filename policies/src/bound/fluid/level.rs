//! A cut, and what crossing it and using what is outside of it take.
//!
//! What is used in place over shared links takes its part of what they carry: what it reads goes
//! inwards, what it writes outwards. Tiers of other machines are used aside from their links.
//! Invariant: no plan pays less.

use crate::bound::Question;
use crate::bound::cut::{Cut, alone, cuts, flowing, rates};
use tiersim_models::hardware::Law;
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::Unit;

/// Picoseconds that one object pays at most; more says no more and is hard to reckon with.
pub(crate) const LONGEST: f64 = 1e16;
/// Bytes that no set-up makes a difference to.
const STREAMED: Bytes = Bytes::new(1 << 50);

/// A cut with what one object pays for it.
pub(crate) struct Level<'a> {
    pub(crate) cut: Cut,
    pub(crate) flows: Flows,
    question: &'a Question<'a>,
}

/// Which uses outside of a cut take their part of what its links carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flows {
    /// None, or not enough is known of them.
    No,
    /// All.
    All,
    /// All but those outside of a wider cut, too.
    UpTo(usize),
    /// All but those of these tiers, no cut being wider.
    Without(Vec<TierId>),
}

/// What a use in place of some bytes takes, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Price {
    /// It delays its op by so much.
    pub(crate) delay: f64,
    /// How much more it delays it in a tier whose use does not flow.
    pub(crate) aside: f64,
    /// Of the time of links inwards, outwards, and both ways.
    pub(crate) flow: [f64; 3],
}

impl Price {
    /// Of uses of other bytes.
    pub(crate) fn map2(self, other: Price, both: impl Fn(f64, f64) -> f64) -> Price {
        let flow = std::array::from_fn(|way| both(self.flow[way], other.flow[way]));
        Price { delay: both(self.delay, other.delay), aside: both(self.aside, other.aside), flow }
    }
}

/// The cuts that something has to cross: for room, or for an op of the host; with `share` of HBM.
pub(crate) fn levels<'a>(question: &'a Question<'a>, share: f64) -> Vec<Level<'a>> {
    let trace = &question.workload.trace;
    let sizes: Vec<Bytes> = trace.objects.iter().map(|object| object.bytes).collect();
    let on_host = trace.ops.iter().any(|op| op.unit == Unit::Cpu);
    let mut cuts = cuts(question.hardware, question.memory, &sizes, on_host);
    if let Some(first) = cuts.first_mut() {
        first.capacity = (first.capacity as f64 * share) as u128;
    }
    let flowing = flowing(question.hardware);
    let outside = |cut: &Cut| -> Vec<TierId> {
        question.hardware.tier_ids().filter(|tier| !cut.inside.contains(tier)).collect()
    };
    let flows = |(depth, cut): (usize, &Cut)| {
        let (flow, aside): (Vec<TierId>, Vec<TierId>) =
            outside(cut).into_iter().partition(|tier| flowing.contains(tier));
        let wider = (depth + 1..cuts.len()).find(|&wider| outside(&cuts[wider]) == aside);
        match wider {
            _ if flow.is_empty() => Flows::No,
            _ if aside.is_empty() => Flows::All,
            Some(wider) => Flows::UpTo(wider),
            None if depth + 1 == cuts.len() => Flows::Without(aside),
            None => Flows::No,
        }
    };
    let flows: Vec<Flows> = cuts.iter().enumerate().map(flows).collect();
    cuts.into_iter().zip(flows).map(|(cut, flows)| Level { cut, flows, question }).collect()
}

impl Level<'_> {
    /// Picoseconds that the channels need at least to move so many bytes of one object inwards,
    /// outwards and, counted over both ways, either.
    pub(crate) fn moves(&self, bytes: u64) -> [f64; 3] {
        self.carried([bytes; 3], Bytes::new(bytes.max(1)))
    }

    /// Picoseconds that one copy of an object of so many bytes takes at least, inwards and outwards.
    pub(crate) fn alone(&self, bytes: u64) -> [f64; 2] {
        let largest = Bytes::new(bytes.max(1));
        let rates = alone(self.question.hardware, &self.cut.inside, largest);
        rates.map(|rate| picoseconds(bytes, rate))
    }

    /// The same of other bytes each way, by copies of so many.
    fn carried(&self, ways: [u64; 3], largest: Bytes) -> [f64; 3] {
        let rates = rates(self.question.hardware, &self.cut.inside, largest);
        // Independent ways say all that both together would.
        let shared = rates[2] < rates[0] + rates[1];
        std::array::from_fn(|way| match rates[way] {
            _ if way == 2 && !shared => 0.0,
            rate => picoseconds(ways[way], rate),
        })
    }

    /// What use in place outside takes that reads and writes so many bytes.
    pub(crate) fn in_place(&self, [read, written]: [u64; 2]) -> Price {
        let hardware = self.question.hardware;
        let charged = read.max(written);
        let least = |law: Law| {
            let span = law.rate.checked_span_of(charged).map_or(f64::INFINITY, |s| s.ps() as f64);
            law.setup.ps() as f64 + span
        };
        let of = |tier: TierId| least(hardware.tiers[tier.index()].access);
        let outside = hardware.tier_ids().filter(|tier| !self.cut.inside.contains(tier));
        let delay = outside.map(of).fold(LONGEST, f64::min);
        let aside = match &self.flows {
            Flows::Without(tiers) => tiers.iter().map(|&tier| of(tier)).fold(LONGEST, f64::min),
            _ => delay,
        };
        let flow = match &self.flows {
            Flows::No => [0.0; 3],
            _ => self.carried([read, written, read.saturating_add(written)], STREAMED),
        };
        Price { delay, aside: aside - delay, flow }
    }
}

/// What so many bytes take at a rate in bytes per second; where nothing can cross, nothing is said.
fn picoseconds(bytes: u64, rate: u128) -> f64 {
    if rate == 0 { 0.0 } else { (bytes as f64 * 1e12 / rate as f64).min(LONGEST) }
}
