//! What policies are built for in tests that have no scenario.

use crate::prelude::*;
use std::sync::Arc;
use tiersim_models::statistics::Stated;
use tiersim_policies::scenario::{OpTime, TraceSource};

/// A case of a policy on the hardware as it is.
pub fn case(label: &str, policy: PolicyConfig) -> Case {
    Case { label: label.to_owned(), policy, params: Params::default(), terms: Arc::default() }
}

/// So many replays of a trace that is given beside it, all of them measured, with times as they
/// were recorded.
pub fn replays(repeat: u32) -> WorkloadSpec {
    WorkloadSpec {
        horizon: None,
        trace: TraceSource::Folder("test".into()),
        repeat,
        warmup: 0,
        time: OpTime::Recorded { scale: 1.0 },
        jitter: 0.0,
        ranks: 1,
        statistics: Stated::MadeUp,
    }
}

/// A scenario that nobody wrote.
pub fn scenario(hardware: Hardware, workload: WorkloadSpec, cases: Vec<Case>) -> Scenario {
    Scenario {
        said: Arc::new(Said { name: "test".to_owned(), about: String::new(), expect: Vec::new() }),
        hardware: Arc::new(hardware),
        workload: workload.into(),
        cases,
        seed: 1,
        warnings: Vec::new(),
    }
}

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
    let memory = hardware.memory();
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let routes = hardware.routes().expect("every pair of tiers is joined");
    let copies = CopyTimes::new(hardware, &routes);
    let (memory, spans, copies) = (&memory, &spans, &copies);
    ask(&Setting { workload, hardware, memory, spans, copies, repeat })
}

/// What is known of a weight over three steps: its statistics, in turn in each other's place. So
/// ranks change from step to step, with no draw of their own.
pub fn turning(now: Statistics) -> Option<Arc<[Statistics]>> {
    let Statistics { adam_m: m, adam_v: v, grad_norm: g } = now;
    let row = |(adam_m, adam_v, grad_norm)| Statistics { adam_m, adam_v, grad_norm };
    Some([(m, v, g), (v, g, m), (g, m, v)].map(row).into())
}
