//! Use in place over shared links: the bytes of a charge become a flow.
//!
//! An op computes, delayed as its policy states, then pays its charges one after the other: the
//! set-up of the tier, then its bytes. Where the route between the tier and the device is one hop
//! of shared links, the bytes flow over its channels, at max-min fair rates with all that crosses
//! them: what is read towards the device, what is written away from it, at the same time. They
//! cross the tier, too, whose bandwidth all that use it in place share; what an op writes while it
//! reads goes beside that, at most as fast. Loads and stores take no place in a channel: they are
//! no copies. Copies do not cross the tier's bandwidth, which is what use in place reaches. A
//! charge ends no sooner than its requests are answered (`loads`).
//! Invariant: a charge never takes less than the tier's law says, and one that reads or writes,
//! alone on links no narrower than the tier, takes exactly that where requests do not bind.

use super::loads::Costs;
use super::sharing::Channels;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::TierId;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::remember;

/// The tiers over shared links, and the ops that pay for their use.
#[derive(Debug)]
pub(super) struct Uses {
    /// By tier: the channels towards the device and away from it; `None` if its charges do not
    /// flow.
    pub(super) ways: Vec<Option<[Channels; 2]>>,
    pub(super) under_way: BTreeMap<Ticket, Use>,
}

/// How far an op has come.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) costs: Costs,
    /// The charge that it pays or will pay next.
    pub(super) next: usize,
    /// When the bytes of that charge began to go.
    pub(super) began: Time,
    /// Flows of that charge that are under way.
    pub(super) open: u32,
    /// What charges took beyond their laws.
    pub(super) excess: SmallVec<[(usize, Span); 2]>,
}

remember! {
    Uses { under_way } skip { ways };
    Use { costs, next, began, open, excess };
}

impl Uses {
    /// `None` if no charge flows on this machine.
    pub(super) fn new(hardware: &Hardware, routes: &Routes) -> Option<Box<Uses>> {
        let way = |tier| {
            let shared = hardware.uses_flow(routes, tier);
            let channels =
                |from, to| routes.between(from, to).iter().map(|channel| channel.index());
            shared.then(|| [channels(tier, HBM).collect(), channels(HBM, tier).collect()])
        };
        let ways: Vec<Option<[Channels; 2]>> = hardware.tier_ids().map(way).collect();
        let any = ways.iter().any(Option::is_some);
        any.then(|| Box::new(Uses { ways, under_way: BTreeMap::new() }))
    }

    /// Whether some of the charges flow.
    pub(super) fn any_flows(&self, charges: &[(TierId, Bytes)]) -> bool {
        let flows = |&(tier, bytes): &(TierId, Bytes)| flows(&self.ways, tier, bytes);
        charges.iter().any(flows)
    }

    /// An op has ended; what its charges took beyond their laws, by tier.
    pub(super) fn ends(&mut self, op: Ticket) -> Option<SmallVec<[(usize, Span); 2]>> {
        self.under_way.remove(&op).map(|used| used.excess)
    }
}

/// Whether a charge flows. One of no bytes has nothing to send.
pub(super) fn flows(ways: &[Option<[Channels; 2]>], tier: TierId, bytes: Bytes) -> bool {
    ways[tier.index()].is_some() && bytes > Bytes::ZERO
}

/// The charges of an op; ops only have some.
pub(super) fn charges(work: &Work) -> &[(TierId, Bytes)] {
    if let Work::Compute { charges, .. } = work { charges } else { &[] }
}
