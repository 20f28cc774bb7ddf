//! How much of each tier's bandwidth is in use, and what use in place and copies pay for that.
//!
//! An op that uses a tier in place loads it with its bytes over its whole duration, a copy under
//! way with the rate of its channel: it reads where it comes from and writes where it goes. What is
//! in use when an op starts decides the latency of its requests, and with it how fast they go
//! ([`tiersim_models::outstanding`]); the same of a piece of a copy. Where links are shared, the
//! duration is the one that the op has alone, and its bytes are not counted on the channels again.
//! Invariant: an op takes back at its end exactly what it had put on, and nothing is faster than
//! the law.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::DeviceRequests;
use tiersim_models::hardware::{Hardware, Tier};
use tiersim_models::ids::TierId;
use tiersim_models::outstanding::Traffic;
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span};
use tiersim_models::workload::Trace;
use tiersim_policies::asked::TierTraffic;
use tiersim_policies::command::Ticket;
use tiersim_policies::state::remember;

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
    pub(super) tiers: Vec<Tier>,
    /// By channel of a link: the tiers that are read and written.
    pub(super) ends: Vec<[Option<usize>; 2]>,
    /// By tier, of the ops under way.
    pub(super) used: Vec<Traffic>,
    pub(super) under_way: BTreeMap<Ticket, SmallVec<[Load; 2]>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) tier: usize,
    pub(super) own: Traffic,
    pub(super) excess: Span,
}

remember! {
    Loads { used, under_way } skip { tiers, ends };
    Load { tier, own, excess };
    Cost { setup, bytes };
}

impl Loads {
    /// `None` if laws say it all.
    pub(super) fn new(hardware: &Hardware, trace: &Trace) -> Option<Box<Loads>> {
        let binds =
            |tier: &Tier| tier.loaded.is_some() || tier.requests != DeviceRequests::default();
        let parts = || trace.uses.iter().any(|used| used.part.is_some());
        (hardware.tiers.iter().any(binds) || parts()).then(|| {
            let tier = |node| hardware.tier_of(node).map(TierId::index);
            let ends = hardware.channels().map(|channel| {
                let (from, to) = hardware.channel_ends(channel);
                [tier(from), tier(to)]
            });
            Box::new(Loads {
                ends: ends.collect(),
                tiers: hardware.tiers.to_vec(),
                used: vec![Traffic::default(); hardware.tiers.len()],
                under_way: BTreeMap::new(),
            })
        })
    }

    /// An op has ended; what its use of each tier was, if it used any.
    pub(super) fn ends(&mut self, op: Ticket) -> Option<SmallVec<[Load; 2]>> {
        let loads = self.under_way.remove(&op)?;
        for load in &loads {
            let used = &mut self.used[load.tier];
            used.read -= load.own.read;
            used.written -= load.own.written;
        }
        Some(loads)
    }
}

/// Bytes per second of `bytes` over `span`, at most `pace`, of which some part goes each way; sums
/// of a few must not overflow.
pub(super) fn over(bytes: Bytes, span: Span, asked: &TierTraffic, pace: Bandwidth) -> Traffic {
    let rate = u128::from(bytes.get()) * u128::from(PS_PER_S) / u128::from(span.ps().max(1));
    let rate = rate.min(u128::from(pace.get())).min(u128::from(u32::MAX) << 28);
    let [read, written] = asked.ways.map(|way| (rate * way / asked.charged) as u64);
    Traffic { read, written }
}

pub(super) fn loads_of(loads: &Option<Box<Loads>>) -> &Loads {
    loads.as_ref().expect("asked only where there are loads")
}

pub(super) fn plus(one: Traffic, other: Traffic) -> Traffic {
    Traffic { read: one.read + other.read, written: one.written + other.written }
}
