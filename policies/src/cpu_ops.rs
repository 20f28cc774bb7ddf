//! Ops on the CPU, under any policy.
//!
//! Policies decide for the device. Such an op uses its objects in memory of the host instead, so a
//! wrapper around the policy moves there what the op needs and does not ask the policy, which sees
//! a trace of the device's ops alone. What the host has taken from it comes back when a device op
//! uses it; what does not fit leaves, the longest unused first, whatever the policy counted on.
//! Invariant: no action that the ledger would refuse leaves the wrapper, and an op never lacks room
//! that another tier could have taken.

mod guests;
mod make_room;
mod wrapper;

use crate::cpu_ops::wrapper::CpuOps;
use crate::policy::Policy;
use crate::recipe::Setting;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::{OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_models::workload::{Trace, Unit};

/// The tiers that are memory of the host, where ops on its processors use their objects: those of
/// kind dram first, then cxl.
pub fn host_tiers(hardware: &Hardware) -> Vec<TierId> {
    let of = |kind| {
        let is = move |tier: &TierId| *tier != HBM && hardware.tiers[tier.index()].kind == kind;
        hardware.tier_ids().filter(is)
    };
    of(TierKind::Dram).chain(of(TierKind::Cxl)).collect()
}

/// Whether some op runs on the host's processors.
pub fn has_cpu_ops(trace: &Trace) -> bool {
    trace.ops.iter().any(|op| op.unit == Unit::Cpu)
}

/// Errors in words if the machine has no memory for the trace's ops on the CPU.
pub fn check(trace: &Trace, hardware: &Hardware) -> Result<(), String> {
    let Some(op) = trace.ops.iter().find(|op| op.unit == Unit::Cpu) else { return Ok(()) };
    if host_tiers(hardware).is_empty() {
        return Err(format!(
            "op {:?} runs on the host's processors, and {} has no tier of kind dram or cxl",
            op.name, hardware.name
        ));
    }
    Ok(())
}

/// The workload that a policy sees where some ops run on the CPU, and how long its ops take; `None`
/// where it sees the whole one: there are no such ops, or no others.
pub fn device_part(setting: &Setting<'_>) -> Option<(Workload, Vec<Span>)> {
    let trace = &setting.workload.trace;
    let on_device = |op: &OpId| trace.ops[op.index()].unit != Unit::Cpu;
    let kept: Vec<OpId> = (0..trace.ops.len()).map(OpId::at).filter(on_device).collect();
    if kept.is_empty() || kept.len() == trace.ops.len() {
        return None;
    }
    let spans = kept.iter().map(|op| setting.spans[op.index()]).collect();
    Some((Workload::new(ops_of(trace, &kept)), spans))
}

/// What `make` builds, for the device's ops of the setting; the policy itself if there are no
/// others.
///
/// Errors in words if `make` has some, or the machine has no memory of the host.
pub fn build(
    setting: &Setting<'_>,
    make: impl FnOnce(&Setting<'_>) -> Result<Box<dyn Policy>, String>,
) -> Result<Box<dyn Policy>, String> {
    let trace = &setting.workload.trace;
    if !has_cpu_ops(trace) {
        return make(setting);
    }
    check(trace, setting.hardware)?;
    let Some((device, spans)) = device_part(setting) else {
        // Nobody asks the policy but for where things start.
        return Ok(around(make(setting)?, setting.workload, setting.hardware));
    };
    let inner = make(&Setting { workload: &device, spans: &spans, ..*setting })?;
    let tiers = (host_tiers(setting.hardware), setting.hardware.tier_ids());
    Ok(Box::new(CpuOps::new(inner, Some(device), setting.workload, tiers)))
}

/// A policy that was made for a whole workload, with its ops on the CPU served.
pub fn around(
    policy: Box<dyn Policy>,
    workload: &Workload,
    hardware: &Hardware,
) -> Box<dyn Policy> {
    if !has_cpu_ops(&workload.trace) {
        return policy;
    }
    let tiers = (host_tiers(hardware), hardware.tier_ids());
    Box::new(CpuOps::new(policy, None, workload, tiers))
}

/// The trace with these ops only, in their order.
fn ops_of(trace: &Trace, kept: &[OpId]) -> Trace {
    let mut number: Vec<Option<OpId>> = vec![None; trace.ops.len()];
    for (index, op) in kept.iter().enumerate() {
        number[op.index()] = Some(OpId::at(index));
    }
    let mut uses = Vec::new();
    let ops = kept.iter().map(|&op| {
        let start = uses.len() as u32;
        uses.extend_from_slice(trace.uses_of(op));
        let mut record = trace.ops[op.index()].clone();
        record.uses = start..uses.len() as u32;
        record.after = record.after.iter().filter_map(|before| number[before.index()]).collect();
        record
    });
    let ops = ops.collect();
    // Memory is given back after the last kept op that is no later.
    let at_most = |op: OpId| kept.partition_point(|other| *other <= op).checked_sub(1);
    let objects = trace.objects.iter().cloned().map(|mut object| {
        object.freed_after = object.freed_after.and_then(at_most).map(OpId::at);
        object
    });
    let objects = objects.collect();
    Trace { meta: trace.meta.clone(), modules: trace.modules.clone(), objects, ops, uses }
}
