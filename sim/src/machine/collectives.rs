//! Collectives: ops that all ranks do together over the links between their devices.
//!
//! One starts when it is first in the stream of every simulated rank and may start on each. Each
//! device does its own part (the launch, and use in place if a policy chose that), then the set-ups
//! of all steps that follow one another pass, and then every device sends and receives its bytes at
//! the same time: a flow per direction, over the channels to where devices meet, with max-min fair
//! rates beside copies and use in place. The op ends on all ranks when the last flow has ended. How
//! many bytes and steps is said in [`tiersim_models::collective`].
//!
//! A step's set-up is that of all links from one device to the next. Flows take no place in a
//! channel, pay nothing for being small, and no random delay: these are of copies. Ranks of the
//! group that are not simulated do the same at the same time; what they share with those that are,
//! they leave alone.
//! Invariant: alone, over ways that share no link, a collective takes its launch and
//! [`Exchange::span`], to the picosecond.
//!
//! [`Exchange::span`]: tiersim_models::collective::Exchange::span

use super::ranks::Ranks;
use super::sharing::Channels;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::collective::Exchange;
use tiersim_models::hardware::{CollectiveLaws, Hardware};
use tiersim_models::units::{Bytes, Time};
use tiersim_models::workload::{Trace, Unit};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::remember;

/// The ways between devices, and the collectives under way.
#[derive(Debug)]
pub(super) struct Collectives {
    /// Within the server, and to others: channels away from the device and towards it.
    pub(super) ways: [Option<[Channels; 2]>; 2],
    /// What one step over each way takes, and what a device reaches of it while all send.
    pub(super) laws: CollectiveLaws,
    /// By the entry of the first rank.
    pub(super) under_way: BTreeMap<Ticket, Together>,
}

/// How far a collective has come.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) exchange: Exchange,
    /// Ranks whose device has not done its part.
    pub(super) missing: u32,
    /// Flows that have not ended.
    pub(super) flows: u32,
    /// What the first rank has sent.
    pub(super) over: Over,
}

/// What a collective sent that is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    /// The channel that held it back the longest.
    pub(super) slowest: usize,
    /// Channels of the first rank, the bytes over each, and when they began to go.
    pub(super) sent: SmallVec<[(usize, Bytes, Time); 4]>,
}

remember! {
    Collectives { under_way } skip { ways, laws };
    Together { exchange, missing, flows, over };
    Over { slowest, sent };
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
            let away: Channels = out.iter().map(|channel| channel.index()).collect();
            let back = away.iter().rev().map(|channel| channel ^ 1).collect();
            Some([away, back])
        });
        Some(Box::new(Collectives { ways, laws, under_way: BTreeMap::new() }))
    }

    /// A rank's entry ends: what a collective sent, where the entry is the first rank's.
    pub(super) fn ends(&mut self, entry: Ticket) -> Option<Over> {
        self.under_way.remove(&entry).map(|together| together.over)
    }
}
