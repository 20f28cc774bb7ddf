//! Correlation prefetch hits from the second iteration on, and nobody sees more than he declares.

use crate::dynamic::faults::FAULTS;
use crate::dynamic::{machine, play, traced};
use tiersim_models::workload::Mode::{Read, ReadWrite};
use tiersim_policies::zoo::clairvoyant_offload::ClairvoyantOffloadConfig;
use tiersim_policies::zoo::hot_cold::HotColdConfig;
use tiersim_policies::zoo::layers::{Arrival, LayersConfig};
use tiersim_policies::zoo::unified_memory::{Ahead, UnifiedMemoryConfig};
use tiersim_tests::prelude::*;

fn prefetching(objects: u64) -> PolicyConfig {
    let (faults, spill) = (FAULTS, vec![FAR]);
    UnifiedMemoryConfig { faults, ahead: Some(Ahead { objects, pre_evict: true }), spill }.into()
}

#[test]
fn what_the_first_iteration_has_shown_is_fetched_ahead_in_the_second() {
    let ops: [(u64, &[_]); 4] =
        [(1000, &[(0, Read)]), (1000, &[(1, Read)]), (1000, &[(2, Read)]), (1000, &[(3, Read)])];
    let played = play(&machine(2000), traced(&[1000; 4], &ops), &prefetching(1), 3);
    // What follows the last op was never seen before the second iteration begins.
    let learning = 5;
    assert!(played.delays[..learning].iter().all(|&delay| delay == 35), "{:?}", played.delays);
    assert!(played.delays[learning..].iter().all(|&delay| delay == 0), "{:?}", played.delays);
    // From then on a copy of 1000 ps goes beside each op of 1000 ps, and nothing waits.
    let steps: Vec<u64> = played.ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
    assert_eq!(steps[..learning - 1], [2035; 4]);
    assert_eq!(steps[learning - 1..], [1000; 7]);
}

#[test]
fn the_last_two_kernels_tell_apart_what_the_last_alone_does_not() {
    // After kernel "x" comes 1 where 0 was before it, and 2 where 3 was.
    let mut traced = traced(&[1000, 1000, 1000, 1000, 10], &[]);
    for uses in [0, 4, 1, 3, 4, 2] {
        traced.op(0, 0, Span::from_ps(5000), &[(ObjectId(uses), Read)]);
    }
    traced.0.ops[1].name = "x".into();
    traced.0.ops[4].name = "x".into();
    let played = play(&machine(3010), traced, &prefetching(1), 3);
    assert!(played.delays[12..].iter().all(|&delay| delay == 0), "{:?}", played.delays);
    let wrong = played.copies.iter().filter(|&&(op, object, _, to)| {
        to == HBM && op >= 12 && [(1, 2), (4, 1)].contains(&(op % 6, object))
    });
    assert_eq!(wrong.count(), 0, "{:?}", played.copies);
}

/// A random trace of objects that persist: `ops` ops, the first `same` of which depend on `seed`
/// alone.
fn random(seed: u64, variant: u64, same: usize, ops: usize) -> Workload {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut traced = Traced::new();
    let kinds = [ObjectKind::Weight, ObjectKind::Optimizer, ObjectKind::Buffer];
    for _ in 0..8 {
        let object = traced.object(rng.random_range(50..200), true);
        traced.0.objects[object.index()].kind = kinds[rng.random_range(0..3)];
    }
    traced.0.modules = (0..4).map(|module| format!("m{module}").into()).collect();
    for op in 0..ops {
        if op == same {
            rng = ChaCha12Rng::seed_from_u64(seed * 31 + variant);
        }
        let mut uses: Vec<(ObjectId, Mode)> = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let object = ObjectId(rng.random_range(0..8));
            if uses.iter().all(|(other, _)| *other != object) {
                uses.push((object, if rng.random_bool(0.3) { ReadWrite } else { Read }));
            }
        }
        let id = traced.op(0, 0, Span::from_ps(10), &uses);
        traced.0.ops[id.index()].name = format!("k{}", rng.random_range(0..3)).into();
        traced.0.ops[id.index()].module = Some(ModuleId(rng.random_range(0..4)));
    }
    Workload::new(traced.0)
}

/// The commands of the first `ops` ops, and how far the policy looks ahead.
fn decisions(workload: &Workload, config: &PolicyConfig, ops: usize) -> (Vec<Command>, Lookahead) {
    let world = World::recorded(machine(500), workload.trace.clone(), 1);
    let policy = policy_of(&world, config).expect("it needs nothing special");
    let lookahead = policy.lookahead();
    let mut planner = world.planner(policy).expect("it fits");
    let mut commands = Vec::new();
    for _ in 0..ops {
        assert!(planner.plan_next(&mut commands).expect("it fits"));
    }
    (commands, lookahead)
}

#[test]
fn nobody_decides_by_what_lies_beyond_its_lookahead() {
    let spill = vec![FAR];
    let kinds = vec![ObjectKind::Weight, ObjectKind::Optimizer];
    let layers = |arrival| {
        PolicyConfig::from(LayersConfig { arrival, kinds: kinds.clone(), spill: spill.clone() })
    };
    let clairvoyant = |in_place| {
        let (window, remembers) = (Some(8), false);
        let spill = spill.clone();
        PolicyConfig::from(ClairvoyantOffloadConfig { spill, window, remembers, in_place })
    };
    let (low, high, idle) = (0.05, 0.2, 8);
    let configs = [
        UnifiedMemoryConfig { faults: FAULTS, ahead: None, spill: spill.clone() }.into(),
        prefetching(3),
        HotColdConfig { hot: 2, window: 8, idle, low, high, spill: spill.clone() }.into(),
        layers(Arrival::Hooks),
        layers(Arrival::LookAhead(2)),
        layers(Arrival::DoubleBuffering),
        clairvoyant(false),
        clairvoyant(true),
    ];
    let (same, all) = (60, 90);
    let differ = configs.map(|config| {
        let mut differ = 0;
        for seed in 0..60 {
            let [one, other] = [1, 2].map(|variant| random(seed, variant, same, all));
            // The same ops with another future, from its first op on.
            assert_eq!(one.trace.ops[..same], other.trace.ops[..same]);
            let [a, b] = [&one, &other].map(|workload| decisions(workload, &config, all));
            let window = |lookahead| match lookahead {
                Lookahead::Past => 0,
                Lookahead::Window(window) => window as usize,
                Lookahead::Oracle => panic!("{} is no oracle", config.name()),
            };
            let until = same.saturating_sub(window(a.1).max(window(b.1)));
            assert!(until > 20, "{} sees too far for this test", config.name());
            let [x, y] = [&one, &other].map(|workload| decisions(workload, &config, until).0);
            assert_eq!(x, y, "{}, seed {seed}", config.name());
            differ += usize::from(a.0 != b.0);
        }
        differ
    });
    assert_eq!(differ, [60; 8], "seeds whose futures differ in what is decided");
}
