//! Splits along the critical path that can be worked out by hand, and what must hold of any.
//!
//! Links carry a byte per picosecond unless a test says otherwise, so every time is a whole number.

use tiersim_models::results::PathPart;
use tiersim_tests::prelude::*;

const COMPUTE: PathPart = PathPart::Compute(Phase::Other);
const IN: usize = 0;
const OUT: usize = 1;

/// The parts of one step, in picoseconds; those without any time are left out.
type Parts = Vec<(PathPart, u64)>;

/// The split of every step on `ranks` devices under audit; each adds up to its step.
fn splits(world: &World, ranks: u32, policy: Box<dyn Policy>) -> Option<Vec<Parts>> {
    let mut planner = world.planner(policy).ok()?;
    let mut machine = world.audited_ranks(&planner, ranks);
    let ends = world.workload.step_ends();
    let ops = world.workload.trace.ops.len() as u64;
    let step_of = |occurrence: u64| {
        let within = ends.iter().filter(|end| u64::from(end.0) < occurrence % ops).count();
        (occurrence / ops) as usize * ends.len() + within
    };
    let mut open = vec![0; ends.len() * world.repeat as usize];
    (0..ops * u64::from(world.repeat)).for_each(|occurrence| open[step_of(occurrence)] += 1);
    let (mut found, mut before): (Vec<Parts>, Vec<u64>) = (Vec::new(), Vec::new());
    let (mut next, mut last) = (0, Time::ZERO);
    let driven = drive(&mut planner, &mut machine, 10_000, |occurrence, at, machine| {
        open[step_of(occurrence)] -= 1;
        while open.get(next) == Some(&0) {
            machine.step_ended();
            let now: Vec<(PathPart, u64)> =
                machine.meters().split.iter().map(|(part, span)| (part, span.ps())).collect();
            before.resize(now.len(), 0);
            let pairs = now.iter().zip(&before);
            let parts: Parts = pairs.map(|(&(part, now), before)| (part, now - before)).collect();
            let sum: u64 = parts.iter().map(|(_, ps)| ps).sum();
            assert_eq!(sum, at.since(last).ps(), "step {next}");
            before = now.into_iter().map(|(_, ps)| ps).collect();
            found.push(parts.into_iter().filter(|&(_, ps)| ps > 0).collect());
            (next, last) = (next + 1, at);
        }
    });
    driven.ok().map(|()| found)
}

/// Copies over each channel, and the time of all of them, of a script.
fn copies(world: &World, start: Vec<TierId>, script: Vec<Vec<Action>>) -> Vec<(u64, u64)> {
    let (_, meters) = world.scripted_on(1, start, script);
    let each = meters.transfers.iter().zip(&meters.transfer_time);
    each.map(|(&count, time)| (count, time.ps())).collect()
}

/// The only step of a script.
fn split(world: &World, start: Vec<TierId>, script: Vec<Vec<Action>>) -> Parts {
    let policy = Scripted::of(start, script);
    splits(world, 1, policy).expect("it fits").swap_remove(0)
}

fn spans<const N: usize>(ps: [u64; N]) -> Vec<Span> {
    ps.map(Span::from_ps).to_vec()
}

/// Ops that each read one object of these bytes.
fn reads<const N: usize>(bytes: [u64; N]) -> (Traced, [ObjectId; N]) {
    Traced::reads(bytes, false)
}

#[test]
fn a_copy_that_is_waited_for_is_exposed_and_one_behind_it_stood_in_line() {
    let (traced, [_, b]) = reads([10, 100]);
    let world = World::of(two_tiers(Capacity::Unlimited, law(5, ONE)), traced.0, spans([10, 20]));
    let found = split(&world, vec![HBM, FAR], vec![vec![], vec![fetch(b)]]);
    assert_eq!(found, [(COMPUTE, 30), (PathPart::Copy(IN), 105)]);
    // The op needs both: the second waits while the first crosses.
    let mut traced = Traced::new();
    let [a, b] = [100, 50].map(|bytes| traced.object(bytes, true));
    traced.op(0, 0, Span::ZERO, &[(a, Mode::Read), (b, Mode::Read)]);
    let world = World::of(two_tiers(Capacity::Unlimited, law(5, ONE)), traced.0, spans([20]));
    let found = split(&world, vec![FAR; 2], vec![vec![fetch(a), fetch(b)]]);
    assert_eq!(found, [(COMPUTE, 20), (PathPart::Copy(IN), 55), (PathPart::Queue(IN), 105)]);
}

#[test]
fn copies_are_counted_and_timed_from_their_start_to_their_end() {
    let (traced, [_, b]) = reads([10, 100]);
    let world = World::of(two_tiers(Capacity::Unlimited, law(5, ONE)), traced.0, spans([10, 20]));
    let found = copies(&world, vec![HBM, FAR], vec![vec![], vec![fetch(b)]]);
    assert_eq!(found[IN], (1, 105));
    assert!(found.iter().skip(1).all(|&channel| channel == (0, 0)), "{found:?}");
    // A copy that waits for the one before it has not begun.
    let (traced, [a, b]) = reads([50, 100]);
    let world = World::of(two_tiers(Capacity::Unlimited, law(5, ONE)), traced.0, spans([10, 20]));
    let found = copies(&world, vec![FAR; 2], vec![vec![fetch(a), prefetch(b)], vec![]]);
    assert_eq!(found[IN], (2, 55 + 105));
}

#[test]
fn a_copy_that_computing_hides_is_no_part_of_the_step() {
    for (computes, parts) in [
        (200, vec![(COMPUTE, 220)]),
        // It was issued when the op before began, so that op is not on the path.
        (40, vec![(COMPUTE, 20), (PathPart::Copy(IN), 55)]),
    ] {
        let (traced, [_, b]) = reads([10, 50]);
        let world =
            World::of(two_tiers(Capacity::Unlimited, law(5, ONE)), traced.0, spans([computes, 20]));
        assert_eq!(split(&world, vec![HBM, FAR], vec![vec![prefetch(b)]]), parts);
    }
}

#[test]
fn a_fetch_that_waits_for_room_waits_for_what_leaves_it() {
    let (mut traced, [first, second]) = reads([500, 300]);
    traced.0.uses[0].mode = Mode::ReadWrite;
    let world = World::of(two_tiers(Bytes::new(500), law(0, ONE)), traced.0, spans([7, 8]));
    let evict = Action::Evict { object: first, from: HBM, to: FAR };
    let found = split(&world, vec![FAR; 2], vec![vec![fetch(first)], vec![evict, fetch(second)]]);
    assert_eq!(found, [(COMPUTE, 15), (PathPart::Copy(IN), 800), (PathPart::Copy(OUT), 500)]);
}

/// HBM, DRAM and NVMe one behind the other, with these picoseconds per byte.
fn chain(near: u64, far: u64) -> World {
    let (traced, _) = reads([1000]);
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    let links = [(0, 1, law(0, ONE / near)), (1, 2, law(0, ONE / far))];
    let mut hardware = hardware(&tiers, &links);
    hardware.chunk = Bytes::new(100);
    World::of(hardware, traced.0, spans([1]))
}

#[test]
fn chunks_over_two_links_are_of_the_link_that_holds_them_up() {
    // 10 chunks; beside the slower link only one of them is seen crossing the other.
    for (near, far, parts) in [
        (4, 1, [(PathPart::Copy(0), 4000), (PathPart::Copy(2), 100)]),
        (1, 4, [(PathPart::Copy(0), 100), (PathPart::Copy(2), 4000)]),
    ] {
        let found = split(&chain(near, far), vec![TierId(2)], vec![vec![fetch(ObjectId(0))]]);
        assert_eq!(found, [&[(COMPUTE, 1)][..], &parts].concat());
    }
}

#[test]
fn use_in_place_and_delays_are_parts_of_their_own() {
    let (traced, [object]) = reads([300]);
    let mut hardware = two_tiers(Capacity::Unlimited, law(1, 1));
    hardware.tiers[1].access = law(50, ONE);
    let world = World::of(hardware, traced.0, spans([3]));
    let charge = Action::Charge { tier: FAR, bytes: Bytes::new(300) };
    let delay = Action::Delay { span: Span::from_ps(20) };
    let found = split(&world, vec![FAR], vec![vec![Action::InPlace { object }, charge, delay]]);
    assert_eq!(found, [(COMPUTE, 3), (PathPart::Delay, 20), (PathPart::InPlace(1), 350)]);
}

#[test]
fn what_ops_do_has_names() {
    let mut traced = Traced::new();
    let all = Collective {
        kind: CollectiveKind::AllGather,
        bytes: Bytes::new(200),
        within: 2,
        servers: 1,
        times: 1,
    };
    let units = [
        (Unit::Device, Phase::Forward, "mm"),
        (Unit::Device, Phase::Backward, "recompute mm"),
        (Unit::Idle, Phase::Backward, "bubble"),
        (Unit::Network(all), Phase::Backward, "all_gather"),
        (Unit::Cpu, Phase::Optimizer, "adam"),
        (Unit::Device, Phase::Optimizer, "adam"),
    ];
    for (unit, phase, name) in units {
        let id = traced.op(0, 0, Span::ZERO, &[]).index();
        let op = &mut traced.0.ops[id];
        (op.unit, op.phase, op.name) = (unit, phase, name.into());
    }
    // Requests arrive once the second op could have started.
    traced.0.ops[1].release = Some(Time::from_ps(100));
    let mut hardware = two_tiers(Capacity::Unlimited, law(0, ONE));
    let first = hardware.links[0].clone();
    hardware.links.push(first);
    hardware.links[1].far = NodeId(2);
    hardware.links.iter_mut().for_each(|link| link.service = fair(None, None));
    hardware.nodes = vec![Node { name: "switch".into(), kind: NodeKind::NvlinkSwitch }];
    hardware.server.devices = 2;
    hardware.server.within = Some(NodeId(2));
    let world = World::of(hardware, traced.0, spans([40, 30, 20, 5, 1000, 10]));
    let nothing = || Scripted::of(Vec::new(), Vec::new());
    for ranks in [1, 2] {
        let found = splits(&world, ranks, nothing()).expect("it fits").swap_remove(0);
        let expected = [
            (PathPart::Compute(Phase::Forward), 40),
            (PathPart::Compute(Phase::Optimizer), 10),
            (PathPart::Recompute, 30),
            // Both run it at once on the same processors.
            (PathPart::Cpu, 1000 * u64::from(ranks)),
            (PathPart::Launch, 5),
            // Each of two sends the other half.
            (PathPart::Collective, 100),
            (PathPart::Bubble, 20),
            (PathPart::Arrival, 60),
        ];
        assert_eq!(found, expected, "{ranks} ranks");
    }
}

#[test]
fn a_copy_under_way_when_a_step_ends_counts_in_both_for_what_was_on_the_path() {
    let mut traced = Traced::new();
    let object = traced.object(300, true);
    traced.op(0, 0, Span::ZERO, &[]);
    traced.op(1, 0, Span::ZERO, &[(object, Mode::Read)]);
    let world = World::of(two_tiers(Capacity::Unlimited, law(0, ONE)), traced.0, spans([100, 10]));
    let policy = Scripted::of(vec![FAR], vec![vec![prefetch(object)]]);
    let found = splits(&world, 1, policy).expect("it fits");
    assert_eq!(found, [vec![(COMPUTE, 100)], vec![(COMPUTE, 10), (PathPart::Copy(IN), 200)]]);
}

#[test]
fn a_device_waits_for_another_on_the_link_that_they_share() {
    let (traced, [object]) = reads([100]);
    let mut machine = two_tiers(Capacity::Unlimited, law(0, ONE));
    machine.server.devices = 2;
    machine.server.links = vec![(LinkId(0), 2)];
    let world = World::of(machine, traced.0, spans([7]));
    let policy = Scripted::of(vec![FAR], vec![vec![fetch(object)]]);
    let found = splits(&world, 2, policy).expect("it fits");
    assert_eq!(found, [[(COMPUTE, 7), (PathPart::Copy(IN), 100), (PathPart::Queue(IN), 100)]]);
}

/// What of a step is left without copies, however quick these were.
fn without_copies(parts: &Parts) -> u64 {
    let copies = |part: &PathPart| matches!(part, PathPart::Copy(_) | PathPart::Queue(_));
    parts.iter().filter(|(part, _)| !copies(part)).map(|(_, ps)| ps).sum()
}

/// The path is one of the plan's edges and streams, so what of it is no copy takes its time over
/// links of any rate; and nobody computes more on it than all ops do together.
#[test]
fn links_without_limit_do_not_make_a_run_shorter_than_its_path_without_copies() {
    let (mut compared, mut copied) = (0, 0);
    for seed in 0..600 {
        let mut world = World::new(seed);
        // Paths of several steps need not join, so all is one.
        let mut trace = world.workload.trace.clone();
        trace.ops.iter_mut().for_each(|op| op.step = 0);
        (world.workload, world.repeat) = (Workload::new(trace), 1);
        let Some(found) = splits(&world, 1, world.chaos()) else { continue };
        let least: u64 = found.iter().map(without_copies).sum();
        let all: u64 = found.iter().flatten().map(|(_, ps)| ps).sum();
        let ops = world.workload.trace.ops.len() as u64 * u64::from(world.repeat);
        let computed = (0..ops).map(|op| world.durations.of(op).ps()).sum::<u64>();
        let on_path = found.iter().flatten().filter(|(part, _)| *part == COMPUTE);
        assert!(on_path.map(|(_, ps)| ps).sum::<u64>() <= computed, "seed {seed}");
        // All alike, so that copies go the same ways.
        let quick = |law: Law| {
            let rate =
                Bandwidth::new(law.rate.get().saturating_mul(1_000_000)).expect("above zero");
            Law { setup: Span::ZERO, rate }
        };
        for link in &mut world.hardware.links {
            (link.read, link.write) = (quick(link.read), quick(link.write));
        }
        let quickest = splits(&world, 1, world.chaos()).expect("it fits as before");
        let quickest: u64 = quickest.iter().flatten().map(|(_, ps)| ps).sum();
        assert!(quickest >= least, "seed {seed}: {quickest} is below {least} of {all}");
        (compared, copied) = (compared + 1, copied + u64::from(least < all));
    }
    assert_eq!((compared, copied), (284, 279), "worlds, and those with copies on the path");
}
