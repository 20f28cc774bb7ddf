//! Ops on the CPU: where their objects are, what is copied for them, how long they
//! take.

mod adam;
mod by_hand;
mod far;
mod shared;
mod worlds;
mod zero;

use tiersim_tests::play;
use tiersim_tests::prelude::*;

pub(crate) const DRAM: TierId = TierId(1);
pub(crate) const NVME: TierId = TierId(2);

/// A byte per ps.
pub(crate) const BYTE: u64 = 1_000_000_000_000;

/// HBM, DRAM and NVMe of so many bytes, one behind the other.
pub(crate) fn machine(hbm: u64, dram: u64, nvme: u64) -> Hardware {
    let tier = |kind, bytes, rate| (kind, Bytes::new(bytes), law(0, rate));
    let tiers = [
        tier(TierKind::Hbm, hbm, u64::MAX),
        tier(TierKind::Dram, dram, BYTE),
        tier(TierKind::Nvme, nvme, BYTE / 4),
    ];
    hardware(&tiers, &[(0, 1, law(0, BYTE)), (1, 2, law(0, BYTE / 4))])
}

/// Runs a workload under audit, the policy built as runs of scenarios have it.
pub(crate) fn play(
    hardware: &Hardware,
    workload: &Workload,
    config: &PolicyConfig,
    repeat: u32,
) -> Result<Played, PlanError> {
    let policy = with_setting(workload, hardware, repeat, |setting| {
        cpu_ops::build(setting, |setting| config.build(setting))
    });
    let world = World::recorded(hardware.clone(), workload.trace.clone(), repeat);
    play::play(&world, policy.expect("the machine has memory of the host"))
}
