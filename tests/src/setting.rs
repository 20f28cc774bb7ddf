//! What policies are built for in tests that have no scenario.

use crate::prelude::*;
use tiersim_models::routes::CopyTimes;

/// The policy of a configuration for a world, if it can be built.
pub fn policy_of(world: &World, config: &PolicyConfig) -> Result<Box<dyn Policy>, String> {
    let World { workload, hardware, repeat, .. } = world;
    with_setting(workload, hardware, *repeat, |setting| config.build(setting))
}

/// Answers `ask` for a workload on a machine: every tier as large as it says, every op as long as
/// it was recorded (no time where it was not).
pub fn with_setting<T>(
    workload: &Workload,
    hardware: &Hardware,
    repeat: u32,
    ask: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    let memory: Vec<Bytes> = hardware.tiers.iter().map(|tier| tier.capacity).collect();
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let routes = hardware.routes().expect("every pair of tiers is joined");
    let copies = CopyTimes::new(hardware, &routes);
    let (memory, spans, copies) = (&memory, &spans, &copies);
    ask(&Setting { workload, hardware, memory, spans, copies, repeat })
}
