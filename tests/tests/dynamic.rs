//! Dynamic policies on traces that are small enough to work out by hand, and on random ones.

mod chunks;
mod faults;
mod hot_cold;
mod layers;
mod prediction;
mod worlds;

use tiersim_models::routes::CopyTimes;
use tiersim_sim::audit::Audit;
use tiersim_tests::prelude::*;

/// The tier behind HBM.
pub(crate) const FAR: TierId = TierId(1);

/// What a run came to.
pub(crate) struct Played {
    /// When each op of the run ended, in ps.
    pub(crate) ends: Vec<u64>,
    /// Delay that the policy stated, by op of the run, in ps.
    pub(crate) delays: Vec<u64>,
    /// Copies: before which op of the run they were planned, of which object, to where.
    pub(crate) copies: Vec<(usize, u32, TierId)>,
}

/// HBM of `bytes`, and a tier behind a link of a byte per ps without set-up.
pub(crate) fn machine(bytes: u64) -> Hardware {
    two_tiers(Bytes::new(bytes), law(0, 1_000_000_000_000))
}

/// A trace of one stream: objects that persist, and ops of so many ps that use them.
pub(crate) fn traced(objects: &[u64], ops: &[(u64, &[(u32, Mode)])]) -> Traced {
    let mut traced = Traced::new();
    for &bytes in objects {
        traced.object(bytes, true);
    }
    for (ps, uses) in ops {
        let uses: Vec<(ObjectId, Mode)> =
            uses.iter().map(|&(object, mode)| (ObjectId(object), mode)).collect();
        traced.op(0, 0, Span::from_ps(*ps), &uses);
    }
    traced
}

/// The policy of a configuration.
pub(crate) fn build(
    hardware: &Hardware,
    workload: &Workload,
    config: &PolicyConfig,
    repeat: u32,
) -> Box<dyn Policy> {
    let routes = hardware.routes().expect("every tier is joined");
    let copies = CopyTimes::new(hardware, &routes);
    let memory: Vec<Bytes> = hardware.tiers.iter().map(|tier| tier.capacity).collect();
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let setting =
        Setting { workload, hardware, memory: &memory, spans: &spans, copies: &copies, repeat };
    config.build(&setting).expect("it needs nothing special")
}

/// Runs a trace under audit.
pub(crate) fn play(
    hardware: &Hardware,
    traced: Traced,
    config: &PolicyConfig,
    repeat: u32,
) -> Played {
    assert_eq!(traced.0.problems(), []);
    let workload = Workload::new(traced.0);
    let policy = build(hardware, &workload, config, repeat);
    let capacities: Vec<Bytes> = hardware.tiers.iter().map(|tier| tier.capacity).collect();
    let mut planner = Planner::new(&workload, policy, &capacities, repeat).expect("it fits");
    let start = planner.start();
    let spans = workload.trace.ops.iter().map(|op| op.duration.expect("written"));
    let durations = Durations::fixed(spans.collect());
    let routes = hardware.routes().expect("every tier is joined");
    let mut machine = SimMachine::new(hardware, routes, &workload, &durations, &start);
    let objects = workload.trace.objects.len();
    machine.audit(Audit::new(hardware, &capacities, objects, &start).expect("it fits"));
    let (mut delays, mut copies, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    while planner.plan_next(&mut commands).expect("it fits") {
        for command in commands.drain(..) {
            note(&command, &mut delays, &mut copies);
            machine.submit(command).expect("no fault");
        }
    }
    let mut ends = vec![0; delays.len()];
    while let Some((at, ticket)) = machine.next().expect("no fault") {
        if let Some(op) = planner.ended(ticket) {
            ends[op as usize] = at.since(Time::ZERO).ps();
        }
    }
    Played { ends, delays, copies }
}

fn note(command: &Command, delays: &mut Vec<u64>, copies: &mut Vec<(usize, u32, TierId)>) {
    match command.work {
        Work::Compute { delay, .. } => delays.push(delay.ps()),
        Work::Copy { object, to, .. } => copies.push((delays.len(), object.0, to)),
        Work::Compact { .. } | Work::Release => {}
    }
}
