//! Random worlds: every dynamic policy runs whatever demand paging runs.

use tiersim_policies::zoo::hot_cold::HotColdConfig;
use tiersim_policies::zoo::layers::{Arrival, LayersConfig};
use tiersim_policies::zoo::unified_memory::{Ahead, Faults, UnifiedMemoryConfig};
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use tiersim_tests::prelude::*;

fn configs(seed: u64, spill: &[TierId]) -> Vec<PolicyConfig> {
    let spill = spill.to_vec();
    let faults = Faults { page: Bytes::new(64), batch: 2, cost: Span::from_ps(9) };
    let kinds: Vec<ObjectKind> = match seed % 3 {
        0 => ObjectKind::ALL.to_vec(),
        1 => vec![ObjectKind::Weight],
        _ => vec![ObjectKind::Activation, ObjectKind::Weight],
    };
    let layers = |arrival| {
        PolicyConfig::from(LayersConfig { arrival, kinds: kinds.clone(), spill: spill.clone() })
    };
    let (objects, pre_evict) = (1 + seed % 9, seed.is_multiple_of(2));
    let (hot, window) = (1 + seed % 3, 1 + seed % 12);
    let (low, high) = ((seed % 4) as f64 * 0.1, (seed % 4) as f64 * 0.2);
    let idle = window + seed % 5;
    vec![
        UnifiedMemoryConfig { faults, ahead: None, spill: spill.clone() }.into(),
        UnifiedMemoryConfig {
            faults,
            ahead: Some(Ahead { objects, pre_evict }),
            spill: spill.clone(),
        }
        .into(),
        HotColdConfig { hot, window, idle, low, high, spill: spill.clone() }.into(),
        layers(Arrival::Hooks),
        layers(Arrival::LookAhead(1 + seed % 4)),
        layers(Arrival::DoubleBuffering),
        zero(seed, &spill).into(),
    ]
}

fn zero(seed: u64, spill: &[TierId]) -> ZeroOffloadConfig {
    let home = |at: u64| match at as usize % (spill.len() + 1) {
        0 => TierId(0),
        tier => spill[tier - 1],
    };
    let share = |at: u64| (at % 5) as f64 / 4.0;
    ZeroOffloadConfig {
        optimizer: home(seed),
        parameters: home(seed / 2),
        gradients: home(seed / 3),
        activations: home(seed / 4),
        optimizer_share: share(seed),
        parameters_share: share(seed / 5),
        prefetch_ops: (seed % 30) as u32,
        prefetch_budget: seed.is_multiple_of(2).then(|| Bytes::new(1 + seed % 2000)),
        relay: spill.get(seed as usize % 3).copied(),
        keep_root: seed.is_multiple_of(7),
        spill: spill.to_vec(),
    }
}

#[test]
fn what_fits_under_demand_paging_fits_under_every_dynamic_policy() {
    let (mut fit, mut full) = (0, 0);
    for seed in 0..3000 {
        let world = World::new(seed);
        let spill: Vec<TierId> = (1..world.hardware.tiers.len()).map(TierId::at).collect();
        if spill.is_empty() {
            continue;
        }
        let paging = DemandConfig::lru(spill.clone()).into();
        let ends =
            |config: &PolicyConfig| world.ends(policy_of(&world, config).expect("it can be built"));
        let fits = ends(&paging).is_some();
        full += u32::from(!fits);
        for config in configs(seed, &spill) {
            let ran = ends(&config);
            assert!(ran.is_some() || !fits, "seed {seed}: {config:?} is out of memory");
        }
        fit += u32::from(fits);
    }
    assert_eq!((fit, full), (1296, 1704), "worlds that fit, and those that do not");
}
