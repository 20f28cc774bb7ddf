//! Fixed placement on random worlds: whatever the homes, the window and the lifetimes, no action is
//! refused and the auditor finds nothing.

use tiersim_tests::prelude::*;

const KINDS: [ObjectKind; 2] = [ObjectKind::Weight, ObjectKind::Activation];

/// The world of a seed, each object a module of its own and at home in a random tier.
fn placed(seed: u64) -> (World, Box<dyn Policy>) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut world = World::new(seed);
    world.name_modules();
    let trace = &world.workload.trace;
    let tiers = world.hardware.tiers.len();
    let homes = trace.objects.iter().map(|_| TierId::at(rng.random_range(0..tiers))).collect();
    let access = match rng.random_range(0..4) {
        0 => Access::InPlace(Charge::EveryUse),
        1 => Access::Migrate { prefetch_ops: 0 },
        _ => Access::Migrate { prefetch_ops: rng.random_range(1..60) },
    };
    let policy = Box::new(StaticPlacement::new("placed", trace, homes, &KINDS, access));
    // Replays bring the second life of an object into the window of its first.
    world.repeat = 3;
    (world, policy)
}

#[test]
fn no_action_is_refused_on_2000_random_worlds() {
    let mut ran = 0;
    for seed in 0..2000 {
        let (world, policy) = placed(seed);
        ran += usize::from(world.ends(policy).is_some());
    }
    assert_eq!(ran, 757, "worlds that fit");
}

#[test]
fn an_object_that_lives_again_within_the_window_is_evicted_once_per_life() {
    let mut traced = Traced::new();
    let gradient = traced.object(10, false);
    let other = traced.object(10, true);
    traced.0.modules.push("m".into());
    traced.0.objects[gradient.index()].module = Some(ModuleId(0));
    let span = Span::from_ps(10);
    traced.op(0, 0, span, &[(gradient, Mode::Write)]);
    traced.op(0, 0, span, &[(other, Mode::Read)]);
    traced.op(0, 0, span, &[(other, Mode::Read)]);
    traced.op(0, 0, span, &[(gradient, Mode::Read)]);
    let hardware = two_tiers(Bytes::new(100), law(1, ONE));
    let access = Access::Migrate { prefetch_ops: 1 };
    let policy = StaticPlacement::new("placed", &traced.0, vec![TierId(1)], &KINDS, access);
    assert!(World::recorded(hardware, traced.0, 3).ends(Box::new(policy)).is_some());
}

#[test]
fn looking_ahead_never_fails_where_fetching_on_demand_fits() {
    let mut compared = 0;
    for seed in 0..2000 {
        let (world, _) = placed(seed);
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let (tiers, count) = (world.hardware.tiers.len(), world.workload.trace.objects.len());
        let homes: Vec<TierId> =
            (0..count).map(|_| TierId::at(rng.random_range(0..tiers))).collect();
        let run = |prefetch_ops| {
            let access = Access::Migrate { prefetch_ops };
            let trace = &world.workload.trace;
            let policy =
                Box::new(StaticPlacement::new("placed", trace, homes.clone(), &KINDS, access));
            world.run(policy, None, 256).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"))
        };
        if run(0).is_some() {
            let window = rng.random_range(1..100);
            assert!(run(window).is_some(), "seed {seed}: {window} ops ahead do not fit");
            compared += 1;
        }
    }
    assert_eq!(compared, 510, "worlds that fit on demand");
}

/// p leaves for q and comes back under the long op, be its use in the window since before it left.
#[test]
fn what_leaves_for_room_is_fetched_ahead_whatever_the_window() {
    let mut traced = Traced::new();
    let [p, q, r] = [600, 600, 1].map(|bytes| traced.object(bytes, true));
    traced.0.modules.push("m".into());
    for object in [p, q, r] {
        traced.0.objects[object.index()].module = Some(ModuleId(0));
    }
    for (object, span) in [(p, 10), (q, 10), (r, 10_000), (p, 10)] {
        traced.op(0, 0, Span::from_ps(span), &[(object, Mode::Read)]);
    }
    let world = World::recorded(two_tiers(Bytes::new(1_000), law(1, ONE)), traced.0, 1);
    let end = |prefetch_ops| {
        let (trace, access) = (&world.workload.trace, Access::Migrate { prefetch_ops });
        let policy = StaticPlacement::new("placed", trace, vec![TierId(1)], &KINDS, access);
        *world.ends(Box::new(policy)).expect("it fits").last().expect("ops")
    };
    let (large, small) = (601, 2);
    assert_eq!(end(0), 2 * (large + 10) + small + 10_000 + large + 10);
    for window in [1, 2, 3, 10] {
        assert_eq!(end(window), 2 * (large + 10) + 10_000 + 10, "{window} ops ahead");
    }
}
