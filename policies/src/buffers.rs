//! Pinned buffers that copies keep, which no object can have.
//!
//! A copy over several links goes in chunks, at most [`BOUNCE`] of which lie between two links: so
//! many pinned buffers are kept, for each direction, in the tier where a route to or from the
//! device changes links, one set for each copy that the first link carries at once. Copies from and
//! to pageable memory go through pinned buffers of the same number and size, in the tier beyond the
//! link. Both are kept from the start, as frameworks keep theirs.
//! Invariant: a file's own number for a kind and tier replaces what follows from routes.

use crate::transit::BOUNCE;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Channel, HBM, Hardware, Link, Tier, TierKind};
use tiersim_models::hidden::{Hidden, What, over};
use tiersim_models::ids::TierId;
use tiersim_models::routes::Routes;
use tiersim_models::units::Bytes;

/// The buffers of a link whose copies use pageable memory, in the tier at its far end, or in the
/// first DRAM if that end has no memory; `None` if there is neither.
pub fn staging(link: &Link, hardware: &Hardware) -> Option<Hidden> {
    let is_dram = |tier: &Tier| tier.kind == TierKind::Dram;
    let dram = || hardware.tiers.iter().position(is_dram).map(TierId::at);
    let tier = hardware.tier_of(link.far).or_else(dram)?;
    let bytes = Bytes::new(hardware.chunk.get().saturating_mul(2 * u64::from(BOUNCE)));
    Some(Hidden { tier, what: What::Staging, bytes })
}

/// What a machine hides: what its file says, and the bounce buffers of its routes.
pub fn of_machine(hardware: &Hardware, routes: &Routes) -> Vec<Hidden> {
    let mut pairs = BTreeMap::new();
    for far in hardware.tier_ids().filter(|&tier| tier != HBM) {
        for (from, to) in [(far, HBM), (HBM, far)] {
            let hops: Vec<&[Channel]> = routes.hops(from, to).collect();
            for both in hops.windows(2) {
                let [Some(&last), Some(&next)] = [both[0].last(), both[1].first()] else {
                    continue;
                };
                // A switch has buffers of its own.
                let Some(between) = hardware.tier_of(hardware.channel_ends(last).1) else {
                    continue;
                };
                let service =
                    |channel: &Channel| hardware.links[channel.link.index()].service.as_ref();
                let at_once = |channel| service(channel).map_or(1, |service| service.at_once());
                let at_once = both[0].iter().map(at_once).min().unwrap_or(1);
                pairs.insert((last, next), (between, at_once));
            }
        }
    }
    let mut bounce: BTreeMap<TierId, u64> = BTreeMap::new();
    for (tier, at_once) in pairs.into_values() {
        // A link that is shared by any number at once still has one set: its copies take turns.
        let sets = if at_once == u32::MAX { 1 } else { u64::from(at_once) };
        let bytes = hardware.chunk.get().saturating_mul(u64::from(BOUNCE)).saturating_mul(sets);
        let sum = bounce.entry(tier).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let derived: Vec<Hidden> = bounce
        .into_iter()
        .map(|(tier, bytes)| Hidden { tier, what: What::Bounce, bytes: Bytes::new(bytes) })
        .collect();
    over(&derived, &hardware.hidden)
}
