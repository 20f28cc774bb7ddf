//! How much of each tier's bandwidth is in use, and what that adds to use in place.
//!
//! An op that uses a tier in place loads it with its bytes over its whole duration, a copy under way
//! with the rate of its lane: it reads where it comes from and writes where it goes. What is in use
//! when an op starts decides the latency of that op. Where links are shared, the duration is the one
//! that the op has alone, and its bytes are not counted on the lanes again.
//! Invariant: an op takes back at its end exactly what it had put on.

use super::SimMachine;
use super::in_place::Rises;
use super::state::Moment;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::TierId;
use tiersim_models::loaded::Loaded;
use tiersim_models::units::{Bytes, PS_PER_S, Span};
use tiersim_policies::command::{Ticket, Touch};
use tiersim_policies::state::State;

/// The load that ops put on tiers.
#[derive(Debug)]
pub(super) struct Loads {
    curves: Vec<Option<Loaded>>,
    /// By lane: the tiers that are read and written.
    ends: Vec<(usize, usize)>,
    /// Bytes per second, by tier, of the ops under way.
    read: Vec<u64>,
    written: Vec<u64>,
    under_way: BTreeMap<Ticket, SmallVec<[Load; 2]>>,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    tier: usize,
    read: u64,
    written: u64,
    rise: Span,
}

impl Loads {
    /// `None` if no tier has a curve.
    pub(super) fn new(hardware: &Hardware) -> Option<Box<Loads>> {
        let curves: Vec<_> = hardware.tiers.iter().map(|tier| tier.loaded.clone()).collect();
        curves.iter().any(Option::is_some).then(|| {
            let ends = hardware.lanes().map(|lane| {
                let link = &hardware.links[lane.link.index()];
                let (near, far) = (link.near.index(), link.far.index());
                if lane.evicting { (near, far) } else { (far, near) }
            });
            // What moves within a tier reads it and writes it.
            let within = (0..curves.len()).map(|tier| (tier, tier));
            let none = vec![0; curves.len()];
            let (read, written) = (none.clone(), none);
            Box::new(Loads {
                ends: ends.chain(within).collect(),
                curves,
                read,
                written,
                under_way: BTreeMap::new(),
            })
        })
    }

    /// Writes what each op has put on.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Loads { curves: _, ends: _, read, written, under_way } = self;
        read.iter().chain(written).for_each(|&rate| out.word(rate));
        out.list(under_way, |out, (&op, loads)| {
            moment.ticket(op, out);
            out.list(loads, |out, &Load { tier, read, written, rise }| {
                for word in [tier as u64, read, written, rise.ps()] {
                    out.word(word);
                }
            });
        });
    }

    /// An op has ended; what its latency in each tier had been longer by.
    pub(super) fn ends(&mut self, op: Ticket) -> impl Iterator<Item = (usize, Span)> + use<> {
        let loads = self.under_way.remove(&op).unwrap_or_default();
        for load in &loads {
            self.read[load.tier] -= load.read;
            self.written[load.tier] -= load.written;
        }
        loads.into_iter().map(|load| (load.tier, load.rise))
    }
}

/// Reads and writes among the uses in a tier; all reads if the op uses nothing there.
pub(super) fn uses(touches: &[Touch], tier: TierId) -> (u64, u64) {
    let there = || touches.iter().filter(|touch| touch.tier == tier);
    let reads = there().filter(|touch| touch.mode.reads()).count() as u64;
    let writes = there().filter(|touch| touch.mode.writes()).count() as u64;
    if reads + writes == 0 { (1, 0) } else { (reads, writes) }
}

impl SimMachine<'_> {
    /// An op starts that takes `span` in idle memories, alone; how much longer it takes in these, by
    /// charge.
    pub(super) fn load(
        &mut self,
        op: Ticket,
        touches: &[Touch],
        charges: &[(TierId, Bytes)],
        span: Span,
    ) -> Rises {
        let instance = |tier| self.ranks.tier(op, tier).index();
        let instances: SmallVec<[usize; 2]> =
            charges.iter().map(|&(tier, _)| instance(tier)).collect();
        let rates: Vec<u64> = (0..self.lanes.len()).map(|lane| self.rate_in_use(lane)).collect();
        let mut rises: Rises = SmallVec::from_elem(Span::ZERO, charges.len());
        let Some(loads) = &mut self.loads else { return rises };
        let mut own: SmallVec<[Load; 2]> = SmallVec::new();
        for ((&(tier, bytes), index), longer) in charges.iter().zip(instances).zip(&mut rises) {
            let Some(curves) = &loads.curves[index] else { continue };
            let (reads, writes) = uses(touches, tier);
            let rate = u128::from(bytes.get()) * u128::from(PS_PER_S);
            let rate = rate / u128::from(span.ps().max(1));
            // Sums of a few must not overflow.
            let rate = rate.min(u128::from(u32::MAX) << 28) as u64;
            let read = (u128::from(rate) * u128::from(reads) / u128::from(reads + writes)) as u64;
            let written = rate - read;
            let lanes = || loads.ends.iter().zip(&rates);
            let from: u64 = lanes().filter(|(ends, _)| ends.0 == index).map(|(_, rate)| rate).sum();
            let to: u64 = lanes().filter(|(ends, _)| ends.1 == index).map(|(_, rate)| rate).sum();
            let read_all = loads.read[index] + read + from;
            let rise = curves.rise(read_all, loads.written[index] + written + to);
            *longer = rise;
            own.push(Load { tier: index, read, written, rise });
        }
        for load in &own {
            loads.read[load.tier] += load.read;
            loads.written[load.tier] += load.written;
        }
        loads.under_way.insert(op, own);
        rises
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
