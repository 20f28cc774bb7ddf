//! Ops on the host's processors: where their objects are, what is copied for them, how long they
//! take.

mod adam;
mod by_hand;
mod shared;
mod worlds;
mod zero;

use tiersim_policies::host_ops;
use tiersim_policies::planner::Counts;
use tiersim_sim::audit::Audit;
use tiersim_tests::prelude::*;
use tiersim_tests::setting::with_setting;

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

/// A copy of an object from a tier to another, and before which op of the run it was planned.
pub(crate) type Copied = (usize, u32, TierId, TierId);

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Played {
    /// When each op of the run ended, in ps.
    pub(crate) ends: Vec<u64>,
    pub(crate) copies: Vec<Copied>,
    pub(crate) counts: Counts,
    /// By op: the tiers of its uses.
    pub(crate) used: Vec<Vec<(ObjectId, TierId)>>,
}

/// Runs a workload under audit, the policy built as runs of scenarios have it.
pub(crate) fn play(
    hardware: &Hardware,
    workload: &Workload,
    config: &PolicyConfig,
    repeat: u32,
) -> Result<Played, PlanError> {
    let policy = with_setting(workload, hardware, repeat, |setting| {
        host_ops::build(setting, |setting| config.build(setting))
    });
    let capacities: Vec<Bytes> = hardware.tiers.iter().map(|tier| tier.capacity).collect();
    let policy = policy.expect("the machine has memory of the host");
    let mut planner = Planner::new(workload, policy, &capacities, repeat)?;
    let start = planner.start();
    let spans = workload.trace.ops.iter().map(|op| op.duration.expect("written"));
    let durations = Durations::fixed(spans.collect());
    let routes = hardware.routes().expect("every tier is joined");
    let mut machine = SimMachine::new(hardware, routes, workload, &durations, &start);
    let objects = workload.trace.objects.len();
    machine.audit(Audit::new(hardware, &capacities, objects, &start).expect("it fits"));
    let (mut used, mut copies, mut commands) = (Vec::new(), Vec::new(), Vec::<Command>::new());
    while planner.plan_next(&mut commands)? {
        for command in commands.drain(..) {
            match &command.work {
                Work::Compute { touches, .. } => {
                    used.push(touches.iter().map(|touch| (touch.object, touch.tier)).collect());
                }
                Work::Copy { object, from, to, .. } => {
                    copies.push((used.len(), object.0, *from, *to));
                }
                Work::Compact { .. } | Work::Release => {}
            }
            machine.submit(command).expect("no fault");
        }
    }
    let mut ends = vec![0; used.len()];
    while let Some((at, ticket)) = machine.next().expect("no fault") {
        if let Some(op) = planner.ended(ticket) {
            ends[op as usize] = at.since(Time::ZERO).ps();
        }
    }
    Ok(Played { ends, copies, counts: planner.counts(), used })
}
