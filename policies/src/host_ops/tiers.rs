//! Where ops on the host's processors use their objects.

use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::TierId;

/// The tiers that are memory of the host, where ops on its processors use their objects: those of
/// kind dram first, then cxl.
pub fn host_tiers(hardware: &Hardware) -> Vec<TierId> {
    let of = |kind| {
        let is = move |tier: &TierId| *tier != HBM && hardware.tiers[tier.index()].kind == kind;
        hardware.tier_ids().filter(is)
    };
    of(TierKind::Dram).chain(of(TierKind::Cxl)).collect()
}
