//! Several streams: ops that come later in the trace may run earlier, so less follows from its
//! order.
//!
//! What another stream copied before the end of the warm-up is not copied again behind it, and what
//! two parts of a trace take may be taken at once.

use tiersim_policies::bound::{Bound, Cause, Direction, Question, least_time};
use tiersim_tests::prelude::*;

const DISK: TierId = TierId(2);
/// The bound of the last replay of a world.
fn bound(world: &World) -> Bound {
    let ops = world.workload.trace.ops.len() as u64;
    least_time(&Question {
        workload: &world.workload,
        hardware: &world.hardware,
        memory: &world.hardware.memory(),
        from: ops * u64::from(world.repeat - 1),
        to: ops * u64::from(world.repeat),
        duration: &|occurrence| world.durations.of(occurrence),
    })
}

/// How long the last replay takes: from the end of the op before it, in the order of the trace, to
/// the end of its last. `None` if it does not fit.
fn measured(world: &World, policy: Box<dyn Policy>) -> Option<u128> {
    let ends = world.ends(policy)?;
    let ops = world.workload.trace.ops.len();
    let (before, last) = ends.split_at(ends.len() - ops);
    let begin = before.last().copied().unwrap_or(0);
    let end = last.iter().copied().max().unwrap_or(begin).max(begin);
    Some(u128::from(end - begin))
}

/// Two tiers behind links of their own, so slow in place that copies are the only way.
fn machine(hbm: u64) -> Hardware {
    let slow = law(0, 1);
    let tiers = [
        (TierKind::Hbm, Bytes::new(hbm).into(), law(0, u64::MAX)),
        (TierKind::Dram, Capacity::Unlimited, slow),
        (TierKind::Nvme, Capacity::Unlimited, slow),
    ];
    hardware(&tiers, &[(0, 1, law(0, ONE)), (0, 2, law(0, ONE / 2))])
}

fn lru(world: &World, spill: Vec<TierId>) -> Box<dyn Policy> {
    policy_of(world, &DemandConfig::lru(spill).into()).expect("it is built")
}

fn evict(object: ObjectId) -> Action {
    Action::Evict { object, from: HBM, to: FAR }
}

/// While one stream waits for a large object in the first replay, the other does both of its
/// replays: of the second one only the last op is left when the first has ended.
#[test]
fn what_a_stream_copied_before_the_end_of_the_warm_up_is_not_asked_for_again() {
    let mut traced = Traced::new();
    let [a, b, c] = [1000, 100, 100].map(|bytes| traced.object(bytes, true));
    for (stream, object) in [(1, b), (1, c), (0, a)] {
        traced.op(0, stream, Span::ZERO, &[(object, Mode::Read)]);
    }
    let spans = vec![Span::from_ps(10); 3];
    let world = World::of(machine(1100), traced.0, spans);
    // From the start all that crosses counts, of several streams too.
    assert!(
        matches!(bound(&world).cause, Cause::Crossing(0, Direction::In)),
        "{:?}",
        bound(&world)
    );
    let world = world.repeated(2);
    let (first, turn) = (vec![prefetch(b)], vec![evict(b), prefetch(c)]);
    let again = vec![evict(c), prefetch(b)];
    let script = vec![first, turn.clone(), vec![prefetch(a)], again, turn];
    let policy = Scripted::of(vec![DISK, FAR, FAR], script);
    let took = measured(&world, policy).expect("it fits");
    assert_eq!(took, 10, "a is there, and the other stream has ended");
    assert_eq!(bound(&world), Bound { ps: 10, cause: Cause::CriticalPath });
}

/// Copies of one stream beside a long op of the other: cut between them, the parts would add up to
/// more than the whole takes.
#[test]
fn what_streams_do_beside_each_other_is_not_added_up() {
    let beside = |long: u64| {
        let mut traced = Traced::new();
        let [b, c] = [100, 100].map(|bytes| traced.object(bytes, true));
        traced.op(0, 0, Span::ZERO, &[]);
        for turn in 0..10 {
            traced.op(0, 1, Span::ZERO, &[([b, c][turn % 2], Mode::Read)]);
        }
        let mut spans = vec![Span::ZERO; 11];
        spans[0] = Span::from_ps(long);
        let world = World::of(machine(100), traced.0, spans);
        (measured(&world, lru(&world, vec![FAR])).expect("it fits"), bound(&world))
    };
    // One of the objects may be in HBM at the start, so 900 bytes cross at least. Both links
    // together carry three bytes in two picoseconds, and use in place a little more.
    let (took, bound) = beside(1000);
    assert_eq!((took, bound), (1000, Bound { ps: 1000, cause: Cause::CriticalPath }));
    let (took, bound) = beside(100);
    assert_eq!(took, 1000, "LRU starts with nothing in HBM");
    assert_eq!(bound, Bound { ps: 599, cause: Cause::Crossing(0, Direction::In) });
}

/// An update on a stream of its own, from which weights come back to the device: whatever ended
/// last, all of the next replay waits for it.
#[test]
fn what_comes_back_from_another_stream_is_waited_for() {
    let mut traced = Traced::new();
    let [weight, gradient, updated] =
        [(10, true), (10, false), (10, false)].map(|(bytes, stays)| traced.object(bytes, stays));
    traced.op(0, 0, Span::ZERO, &[(weight, Mode::Read), (gradient, Mode::Write)]);
    traced.op(0, 1, Span::ZERO, &[(gradient, Mode::Read), (updated, Mode::Write)]);
    traced.op(0, 0, Span::ZERO, &[(updated, Mode::Read), (weight, Mode::Write)]);
    let spans = [300, 500, 40].map(Span::from_ps).to_vec();
    let world = World::of(machine(1000), traced.0, spans).repeated(2);
    let (took, bound) = (measured(&world, lru(&world, vec![FAR])).expect("it fits"), bound(&world));
    assert_eq!((took, bound), (840, Bound { ps: 840, cause: Cause::CriticalPath }));
}

#[test]
fn no_run_of_several_streams_is_quicker_than_its_bound() {
    // Worlds whose bound is of bytes, and worlds with a warm-up.
    let (mut crossing, mut warm) = (0, 0);
    for seed in (0..3000).step_by(2) {
        let mut world = World::new(seed);
        if world.streams() == 1 {
            continue;
        }
        // Links slow enough for bytes to count beside ops, and use in place is no way out.
        for link in &mut world.hardware.links {
            link.read = law(0, ONE / (1 + seed / 2 % 7));
            link.write = law(0, ONE / (1 + seed / 2 % 5));
        }
        world.hardware.tiers[1..].iter_mut().for_each(|tier| tier.access = law(0, 1));
        let bound = bound(&world);
        let lru = lru(&world, world.hardware.tier_ids().skip(1).collect());
        // Those of even seeds use nothing in place.
        for policy in [world.chaos(), lru] {
            let name = policy.name();
            let Some(took) = measured(&world, policy) else { continue };
            let Bound { ps, cause } = bound;
            assert!(
                ps <= took,
                "seed {seed}: {name} takes {took} ps, the bound is {ps}, {cause:?}"
            );
            crossing += u32::from(cause != Cause::CriticalPath);
            warm += u32::from(world.repeat > 1);
        }
    }
    assert_eq!((crossing, warm), (256, 414), "bounds of bytes, and runs with a warm-up");
}

#[test]
fn a_cause_names_the_tiers_inside_of_what_it_counts() {
    let machine = machine(1);
    let [near, far] = [0, 1].map(|at| machine.tiers[at].name.clone());
    let words = |cause: Cause| cause.words(&machine);
    assert_eq!(words(Cause::CriticalPath), "critical path");
    assert_eq!(words(Cause::InPlace(0)), format!("use outside {near}"));
    assert_eq!(words(Cause::Crossing(0, Direction::In)), format!("bytes into {near}"));
    assert_eq!(words(Cause::Crossing(1, Direction::Out)), format!("bytes out of {near} and {far}"));
    let both = format!("bytes into and out of {near}");
    assert_eq!(words(Cause::Crossing(0, Direction::Both)), both);
}
