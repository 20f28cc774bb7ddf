//! What a framework adds to a run, worked out by hand to the picosecond, and that the parts of a
//! step say so.
//!
//! The link carries a byte per picosecond after 5 ps, and device memory has a byte per picosecond.

use tiersim_models::results::PathPart;
use tiersim_models::runtime::Runtime;
use tiersim_tests::prelude::*;

const IN: PathPart = PathPart::Copy(0);
const COMPUTE: PathPart = PathPart::Compute(Phase::Other);

/// Ends of ops, and the parts of all of them along the path to the last.
type Ran = (Vec<u64>, Vec<(PathPart, u64)>);

fn machine() -> Hardware {
    let mut hardware = two_tiers(Capacity::Unlimited, law(5, ONE));
    hardware.tiers[HBM.index()].access = law(0, ONE);
    hardware.links[0].pageable = Some([rate(1), rate(1)]);
    hardware
}

fn runtime(per_op: u64, per_object: u64, passes: u32, blocking: bool) -> Runtime {
    let (per_op, per_object) = (Span::from_ps(per_op), Span::from_ps(per_object));
    let source = "a test".to_owned();
    Runtime { per_op, per_object, passes, blocking, source, ..Runtime::default() }
}

/// Objects of 10, 20 and 40 bytes outside HBM; an op of 100 ps reads the first two, one of 200 ps
/// the third.
fn world(hardware: Hardware) -> World {
    let mut traced = Traced::new();
    let [a, b, c] = [10, 20, 40].map(|bytes| traced.object(bytes, true));
    traced.op(0, 0, Span::ZERO, &[(a, Mode::Read), (b, Mode::Read)]);
    traced.op(0, 0, Span::ZERO, &[(c, Mode::Read)]);
    World::of(hardware, traced.0, [100, 200].map(Span::from_ps).to_vec())
}

/// All three are fetched for the first op, in order; under audit.
fn ran(world: &World, ranks: u32, runtime: &Runtime) -> Ran {
    let objects = [0, 1, 2].map(ObjectId);
    let script = vec![vec![fetch(objects[0]), fetch(objects[1]), prefetch(objects[2])], vec![]];
    let policy = Scripted::of(vec![FAR; 3], script);
    let mut planner = world.planner(policy).expect("it fits");
    let mut machine = world.audited_ranks(&planner, ranks);
    machine.run_by(runtime);
    let mut ends = Vec::new();
    drive(&mut planner, &mut machine, 100, |_, at, machine| {
        ends.push(at.ps());
        if ends.len() == 2 {
            machine.step_ended();
        }
    })
    .expect("it runs");
    let parts = machine.meters().split.iter().map(|(part, span)| (part, span.ps()));
    (ends, parts.filter(|&(_, ps)| ps > 0).collect())
}

#[test]
fn the_thread_sees_to_one_object_after_the_other_and_ops_pay_their_own_time() {
    let (ends, parts) = ran(&world(machine()), 1, &runtime(7, 1000, 2, false));
    // The second object: 2000 until it is seen to, 5 + 20 over the link, twice 20 over the device.
    // The third: 3000, 5 + 40, twice 40; the first op is over by then.
    assert_eq!(ends, [2000 + 25 + 40 + 107, 3000 + 45 + 80 + 207]);
    let host = [(PathPart::HostOps, 7), (PathPart::HostObjects, 3000), (PathPart::HostPasses, 80)];
    assert_eq!(parts, [&[(COMPUTE, 200)][..], &host, &[(IN, 45)]].concat());
}

#[test]
fn blocking_copies_keep_the_thread_from_everything_behind_them() {
    let (ends, parts) = ran(&world(machine()), 1, &runtime(7, 1000, 2, true));
    // One after the other: (1000 + 15 + 20) + (1000 + 25 + 40) + (1000 + 45 + 80), then both ops.
    assert_eq!(ends, [3225 + 107, 3225 + 107 + 207]);
    let host =
        [(PathPart::HostOps, 14), (PathPart::HostObjects, 3000), (PathPart::HostPasses, 140)];
    assert_eq!(parts, [&[(COMPUTE, 300)][..], &host, &[(IN, 85)]].concat());
    // By itself it moves no copy, as they are served in turn anyway; ops wait for all of them.
    let (ends, parts) = ran(&world(machine()), 1, &runtime(0, 0, 0, true));
    assert_eq!((ends, parts), (vec![185, 385], vec![(COMPUTE, 300), (IN, 85)]));
}

#[test]
fn the_device_goes_over_one_object_after_the_other_beside_copies_and_ops() {
    let (ends, parts) = ran(&world(machine()), 1, &runtime(0, 0, 10, false));
    // The first has come at 15 and is gone over until 115, the second from then to 315, the third
    // to 715.
    assert_eq!(ends, [315 + 100, 715 + 200]);
    let queued = (PathPart::Queue(0), 40);
    assert_eq!(parts, [(COMPUTE, 200), (PathPart::HostPasses, 630), (IN, 45), queued]);
}

/// A thread that runs ahead of the device.
fn ahead(per_op: u64, per_object: u64, blocking: bool) -> Runtime {
    Runtime { ahead: true, ..runtime(per_op, per_object, 0, blocking) }
}

#[test]
fn a_thread_that_runs_ahead_is_felt_only_where_the_device_would_be_sooner() {
    // Both ops are asked for while the first one's objects come.
    let (ends, parts) = ran(&world(machine()), 1, &ahead(7, 0, false));
    assert_eq!((ends, parts), ran(&world(machine()), 1, &Runtime::default()));
    // Asked for at 200 and 400, whatever else happens.
    let (ends, parts) = ran(&world(machine()), 1, &ahead(200, 0, false));
    assert_eq!(ends, [200 + 100, 400 + 200]);
    assert_eq!(parts[..2], [(COMPUTE, 300), (PathPart::HostOps, 260)]);
    // Three objects, then the op; the second op is asked for meanwhile.
    let (ends, _) = ran(&world(machine()), 1, &ahead(7, 1000, false));
    assert_eq!(ends, [3007 + 100, 3107 + 200]);
}

#[test]
fn a_thread_that_runs_ahead_stands_still_for_blocking_copies() {
    // 1000 + 15, 1000 + 25, 1000 + 45, and then it asks for both ops.
    let (ends, _) = ran(&world(machine()), 1, &ahead(7, 1000, true));
    assert_eq!(ends, [3085 + 7 + 100, 3192 + 200]);
    let (ends, _) = ran(&world(machine()), 1, &ahead(150, 1000, true));
    assert_eq!(ends, [3085 + 150 + 100, 3085 + 300 + 200]);
}

/// Two steps of one op each, of 100 ps: what the thread has gained in the first is gone.
#[test]
fn a_thread_that_runs_ahead_waits_for_the_device_before_each_step() {
    let mut traced = Traced::new();
    let object = traced.object(10, true);
    for step in 0..2 {
        traced.op(step, 0, Span::ZERO, &[(object, Mode::Read)]);
        traced.op(step, 0, Span::ZERO, &[(object, Mode::Read)]);
    }
    let world = World::of(machine(), traced.0, vec![Span::from_ps(100); 4]);
    let mut planner = world.planner(Scripted::of(vec![HBM], Vec::new())).expect("it fits");
    let mut machine = world.audited(&planner);
    machine.run_by(&ahead(40, 0, false));
    let mut ends = Vec::new();
    drive(&mut planner, &mut machine, 100, |_, at, _| ends.push(at.ps())).expect("it runs");
    assert_eq!(ends, [140, 240, 240 + 140, 240 + 240]);
}

/// What the first op changed leaves before the second, which has nothing to do with it.
#[test]
fn what_leaves_is_waited_for_where_that_is_blocking() {
    let mut traced = Traced::new();
    let [a, b] = [30, 10].map(|bytes| traced.object(bytes, true));
    traced.op(0, 0, Span::ZERO, &[(a, Mode::ReadWrite)]);
    traced.op(0, 0, Span::ZERO, &[(b, Mode::Read)]);
    let world = World::of(machine(), traced.0, vec![Span::from_ps(100); 2]);
    let ends = |runtime: &Runtime| {
        let script = vec![vec![], vec![Action::Evict { object: a, from: HBM, to: FAR }]];
        let mut planner = world.planner(Scripted::of(vec![HBM; 2], script)).expect("it fits");
        let mut machine = world.audited(&planner);
        machine.run_by(runtime);
        let mut ends = Vec::new();
        drive(&mut planner, &mut machine, 100, |_, at, _| ends.push(at.ps())).expect("it runs");
        ends
    };
    assert_eq!(ends(&Runtime::default()), [100, 200]);
    let blocking = Runtime { blocking_out: true, ..Runtime::default() };
    assert_eq!(ends(&blocking), [100, 100 + 5 + 30 + 100]);
    // The thread asks for the second op when that is over.
    let ahead = Runtime { blocking_out: true, ..ahead(60, 0, false) };
    assert_eq!(ends(&ahead), [160, 160 + 35 + 60 + 100]);
}

#[test]
fn every_device_has_a_thread_of_its_own_and_none_adds_nothing() {
    let mut shared = machine();
    shared.links[0].service = fair(None, None);
    for hardware in [machine(), shared] {
        for runtime in [runtime(7, 1000, 2, false), runtime(7, 1000, 2, true)] {
            let world = world(hardware.clone());
            assert_eq!(ran(&world, 3, &runtime), ran(&world, 1, &runtime), "{runtime}");
        }
    }
    let (ends, parts) = ran(&world(machine()), 1, &Runtime::default());
    let parts_by_hand = vec![(COMPUTE, 300), (IN, 25), (PathPart::Queue(0), 15)];
    assert_eq!((ends, parts), (vec![140, 340], parts_by_hand));
}

#[test]
fn pageable_memory_has_the_rate_of_its_link() {
    let mut hardware = machine();
    hardware.links[0].pageable = Bandwidth::new(ONE / 4).map(|slow| [slow; 2]);
    let (ends, _) = ran(&world(hardware.with_pageable()), 1, &Runtime::default());
    // 5 + 4 x 10 and 5 + 4 x 20; then 5 + 4 x 40, which the second op waits for.
    assert_eq!(ends, [45 + 85 + 100, 45 + 85 + 165 + 200]);
    hardware.links[0].pageable = None;
    assert_eq!(hardware.with_pageable(), hardware);
}

#[test]
fn random_worlds_stay_within_the_rules_and_their_parts_add_up() {
    let mut ran = 0;
    for seed in 0..200u64 {
        let world = World::new(seed);
        let runtime = runtime(seed % 3 * 50, seed % 5 * 70, (seed % 4) as u32, seed % 2 == 0);
        let runtime = Runtime { ahead: seed % 7 < 4, blocking_out: seed % 11 < 5, ..runtime };
        let Ok(mut planner) = world.planner(world.chaos()) else { continue };
        let mut machine = world.audited(&planner);
        machine.run_by(&runtime);
        let ops = world.workload.trace.ops.len() as u64 * u64::from(world.repeat);
        let (mut ended, mut last) = (0, Time::ZERO);
        let driven = drive(&mut planner, &mut machine, 64, |_, at, machine| {
            (ended, last) = (ended + 1, at);
            if ended == ops {
                machine.step_ended();
            }
        });
        match driven {
            Ok(()) => assert_eq!(machine.meters().split.total().ps(), last.ps(), "seed {seed}"),
            Err(DriveError::Plan(_)) => continue,
            Err(DriveError::Machine(fault)) => panic!("seed {seed}, {runtime}: {fault}"),
        }
        ran += 1;
    }
    assert!(ran >= 90, "{ran} worlds ran");
}

#[test]
fn runs_that_repeat_themselves_are_extended_with_a_runtime_too() {
    let (mut ran, mut extended) = (0, 0);
    for index in 0..60 {
        let mut trial = Trial::new(seed_of(5, index), usize::MAX);
        let filled = 2 * trial.window / trial.workload.trace.ops.len() as u64;
        (trial.spec.repeat, trial.spec.warmup) = (20 + filled as u32, 1);
        trial.spec.jitter = 0.0;
        (trial.allocators, trial.pressure) = (Vec::new(), None);
        for service in trial.hardware.links.iter_mut().filter_map(|link| link.service.as_mut()) {
            (service.read.tail, service.write.tail) = (None, None);
        }
        let Some(mut scenario) = trial.scenario() else { continue };
        let runtime =
            runtime(index % 3 * 5_000, index % 5 * 70_000, index as u32 % 4, index % 2 == 0);
        let runtime = Runtime { ahead: index % 7 < 4, blocking_out: index % 11 < 5, ..runtime };
        scenario.cases[0].runtime = runtime;
        let record = |extend| {
            let options = Options {
                audit: true,
                timeline: false,
                window: trial.window,
                extend,
                ..Options::default()
            };
            let mut record = run(&scenario, &trial.workload, String::new(), options, || ())?;
            let left_out = std::mem::take(&mut record.results[0].left_out);
            Ok::<_, tiersim_sim::run::RunError>((format!("{record:?}"), left_out))
        };
        match (record(false), record(true)) {
            (Ok((whole, 0)), Ok((repeated, left_out))) => {
                assert!(whole == repeated, "world {index}:\n{whole}\n{repeated}");
                ran += 1;
                extended += u32::from(left_out > 0);
            }
            (whole, repeated) => assert_eq!(whole.err(), repeated.err(), "world {index}"),
        }
    }
    assert!(ran >= 30 && extended >= 10, "{ran} ran, {extended} were extended");
}
