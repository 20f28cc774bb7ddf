//! Random worlds with nodes of host memory, under audit and against each other.

use crate::numa::{DRAM1, copies, dual, hinted, pin, says};
use tiersim_policies::numa::{NumaConfig, Placement};
use tiersim_policies::zoo::hints::HintsConfig;
use tiersim_tests::prelude::*;

/// A world with a second node behind the first, its objects each a module of its own.
fn world(seed: u64) -> (World, ChaCha12Rng) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut world = World::new(seed);
    world.name_modules();
    for tier in &mut world.hardware.tiers[1..] {
        if rng.random_bool(0.7) {
            tier.kind = TierKind::Dram;
        }
    }
    world.repeat = 2;
    (world, rng)
}

fn drams(hardware: &Hardware) -> Vec<TierId> {
    let is_dram = |tier: &TierId| hardware.tiers[tier.index()].kind == TierKind::Dram;
    hardware.tier_ids().filter(is_dram).collect()
}

fn drawn(rng: &mut ChaCha12Rng, nodes: &[TierId], trace: &Trace) -> NumaConfig {
    let mut node = || nodes[rng.random_range(0..nodes.len())];
    let (first, bound, weights) = (node(), node(), node());
    let placement = match rng.random_range(0..4) {
        0 => None,
        1 => Some(Placement::NearGpu),
        2 => Some(Placement::Interleave),
        _ => Some(Placement::FirstTouch(first)),
    };
    let module = &trace.modules[rng.random_range(0..trace.modules.len())];
    let mut pins = vec![pin(&[], Some(module), bound), pin(&[ObjectKind::Weight], None, weights)];
    pins.truncate(rng.random_range(0..3));
    NumaConfig { placement, pins }
}

fn policy(rng: &mut ChaCha12Rng, world: &World) -> PolicyConfig {
    let trace = &world.workload.trace;
    match rng.random_range(0..4) {
        0 => {
            let tiers = world.hardware.tier_ids().skip(1);
            DemandConfig::lru(tiers.collect()).into()
        }
        1 => hinted(trace, Access::InPlace(Charge::EveryUse)),
        2 => hinted(trace, Access::InPlace(Charge::ModuleWeights)),
        _ => hinted(trace, Access::Migrate { prefetch_ops: rng.random_range(0..30) }),
    }
}

/// The policy of a world on the nodes that `config` says.
fn built(config: &NumaConfig, policy: &PolicyConfig, world: &World) -> Box<dyn Policy> {
    super::built(config, policy, world).expect("all is there")
}

/// Whether every op is charged for what it uses in DRAM at the nodes where it uses it.
fn charged_where_used(commands: &[Command], workload: &Workload, nodes: &[TierId]) {
    for command in commands {
        let Work::Compute { touches, charges, .. } = &command.work else { continue };
        let mut left: Vec<(TierId, Bytes)> = charges.to_vec();
        for touch in touches.iter().filter(|touch| nodes.contains(&touch.tier)) {
            let bytes = workload.trace.objects[touch.object.index()].bytes;
            let at = left.iter().position(|&charge| charge == (touch.tier, bytes));
            left.swap_remove(at.unwrap_or_else(|| panic!("{touch:?} is free: {charges:?}")));
        }
        assert!(left.is_empty(), "{left:?} for nothing");
    }
}

#[test]
fn no_rule_is_broken_on_2000_random_worlds() {
    let (mut ran, mut several) = (0, 0);
    for seed in 0..2000 {
        let (world, mut rng) = world(seed);
        let nodes = drams(&world.hardware);
        if nodes.is_empty() {
            continue;
        }
        let trace = &world.workload.trace;
        let config = drawn(&mut rng, &nodes, trace);
        let policy = policy(&mut rng, &world);
        let built = || built(&config, &policy, &world);
        let outcome = world.run(built(), None, 64);
        let outcome = outcome.unwrap_or_else(|fault| panic!("seed {seed}: {config:?}: {fault}"));
        if outcome.is_none() {
            continue;
        }
        (ran, several) = (ran + 1, several + usize::from(nodes.len() > 1));
        let (commands, _) = world.commands(built());
        for (object, from, to) in copies(&commands) {
            assert!(!nodes.contains(&from) || !nodes.contains(&to), "seed {seed}: {object:?}");
        }
        if let Some(HintsConfig { access, .. }) = policy.get()
            && *access == Access::InPlace(Charge::EveryUse)
        {
            charged_where_used(&commands, &world.workload, &nodes);
        }
    }
    assert_eq!((ran, several), (1422, 793), "worlds that fit, and those of several nodes");
}

#[test]
fn policies_that_try_everything_stay_within_the_rules_too() {
    let mut ran = 0;
    for seed in 0..1000 {
        let (world, mut rng) = world(seed);
        let nodes = drams(&world.hardware);
        if nodes.len() < 2 {
            continue;
        }
        let trace = &world.workload.trace;
        let config = drawn(&mut rng, &nodes, trace);
        let policy = config.around(world.chaos(), Vec::new(), trace, &world.hardware);
        let outcome = world.run(policy.expect("all is there"), None, 64);
        let outcome = outcome.unwrap_or_else(|fault| panic!("seed {seed}: {config:?}: {fault}"));
        ran += usize::from(outcome.is_some());
    }
    assert_eq!(ran, 264, "worlds that fit");
}

#[test]
fn with_one_node_nothing_changes() {
    let mut compared = 0;
    for seed in 0..500 {
        let (mut world, mut rng) = world(seed);
        for (index, tier) in world.hardware.tiers.iter_mut().enumerate().skip(1) {
            tier.kind = if index == 1 { TierKind::Dram } else { TierKind::Nvme };
        }
        let trace = &world.workload.trace;
        let config = drawn(&mut rng, &drams(&world.hardware), trace);
        let policy = policy(&mut rng, &world);
        let [plain, on_nodes] = [NumaConfig::default(), config]
            .map(|config| world.ends(built(&config, &policy, &world)));
        assert_eq!(plain, on_nodes, "seed {seed}");
        compared += usize::from(plain.is_some());
    }
    assert_eq!(compared, 356, "worlds that fit");
}

#[test]
fn where_there_is_room_the_same_bytes_cross_pcie() {
    let mut compared = 0;
    for seed in 0..300 {
        let (mut world, mut rng) = world(seed);
        let hbm = world.hardware.tiers[HBM.index()].capacity;
        world.hardware = dual(seed as usize % 2, [1 << 40; 2]);
        world.hardware.tiers[HBM.index()].capacity = hbm;
        let trace = &world.workload.trace;
        let policy = hinted(trace, Access::Migrate { prefetch_ops: rng.random_range(0..30) });
        let crossing = |config: &NumaConfig| -> Option<Vec<(ObjectId, bool)>> {
            let (commands, error) = world.commands(built(config, &policy, &world));
            let copies = copies(&commands).into_iter();
            error.is_none().then(|| copies.map(|(object, from, _)| (object, from == HBM)).collect())
        };
        let plain = crossing(&NumaConfig::default());
        for placement in [Placement::NearGpu, Placement::Interleave, Placement::FirstTouch(DRAM1)] {
            assert_eq!(crossing(&says(placement)), plain, "seed {seed}: {placement:?}");
        }
        compared += usize::from(plain.is_some_and(|copies| !copies.is_empty()));
    }
    assert_eq!(compared, 144, "worlds that moved anything");
}
