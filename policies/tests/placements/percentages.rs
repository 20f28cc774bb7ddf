//! The six numbers: the rule by hand, and the search against a fine grid of its own model.

use crate::placements::worlds::{Dice, hardware, object, op, random_trace, trace, with_setting};
use crate::placements::{DEMAND, DRAM, NVME};
use tiersim_models::hardware::{HBM, TierKind};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, ObjectKind};
use tiersim_policies::zoo::percentages::search::PercentageModel;
use tiersim_policies::zoo::percentages::{Six, homes, parts};

#[test]
fn a_layer_is_cut_where_the_middles_of_its_objects_lie() {
    let bytes = [10, 10, 20, 60].map(Bytes::new);
    // Middles at 5, 15, 30 and 70 %.
    assert_eq!(parts(&bytes, [100.0, 0.0]), [0, 0, 0, 0]);
    assert_eq!(parts(&bytes, [0.0, 100.0]), [1, 1, 1, 1]);
    assert_eq!(parts(&bytes, [0.0, 0.0]), [2, 2, 2, 2]);
    assert_eq!(parts(&bytes, [50.0, 40.0]), [2, 1, 1, 0]);
    assert_eq!(parts(&bytes, [29.0, 66.0]), [1, 1, 1, 1], "5 % of disk is not below its own 5 %");
    assert_eq!(parts(&bytes, [30.0, 40.0]), [2, 2, 1, 0], "the CPU's part ends at 70, exclusive");
}

#[test]
fn groups_and_layers_are_cut_by_themselves() {
    let mut trace = trace();
    let mut ids = Vec::new();
    for module in ["h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp"] {
        for kind in [ObjectKind::Weight, ObjectKind::Kv, ObjectKind::Buffer] {
            ids.push((object(&mut trace, module, kind, 10, true), Mode::Read));
        }
    }
    op(&mut trace, &ids);
    let six = Six([[50.0, 50.0], [0.0, 50.0], [100.0, 0.0]]);
    let found = homes(&trace, &six, false, &[HBM, DRAM, NVME]);
    // Of a block's two weights the first is on the CPU; of its two caches on disk; buffers stay.
    let block = [DRAM, NVME, HBM, HBM, DRAM, HBM];
    assert_eq!(found, [block, block].concat());
    // Parts by themselves: the middle of the only weight is at 50 %, where the CPU's share has
    // ended.
    let parts = homes(&trace, &six, true, &[HBM, DRAM, NVME]);
    let part = [HBM, DRAM, HBM];
    assert_eq!(parts, [part, part, part, part].concat());
}

/// The least cost over shares in steps of a twentieth for the first two groups.
fn grid(model: &PercentageModel) -> f64 {
    let pairs: Vec<[f64; 2]> = (0..=20u32)
        .flat_map(|gpu| {
            (0..=20 - gpu).map(move |cpu| [f64::from(gpu) / 20.0, f64::from(cpu) / 20.0])
        })
        .collect();
    let mut least = f64::INFINITY;
    for &weights in &pairs {
        for &cache in &pairs {
            let shares = [weights, cache, [1.0, 0.0]];
            if model.fits(&shares) {
                least = least.min(model.cost(&shares));
            }
        }
    }
    least
}

#[test]
fn the_search_finds_the_least_cost_of_its_model() {
    let mut compared = 0;
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut number = |most: u64| 1.0 + dice.below(most) as f64;
        let mut channels = || [[number(20), number(20)], [number(60), number(60)]];
        // No activations, so that the grid is over two groups.
        let seconds = [channels(), channels(), [[0.0; 2]; 2]];
        let bytes = [number(100), number(100), 0.0];
        let room = [number(150), number(150), 200.0];
        let model = PercentageModel { ops: number(20), seconds, bytes, room };
        let shares = model.shares();
        assert!(model.fits(&shares), "seed {seed}: {shares:?}");
        let (found, least) = (model.cost(&shares), grid(&model));
        assert!(found <= least * (1.0 + 1e-6), "seed {seed}: {found} against {least} of the grid");
        // The grid is fine: its best is not far behind.
        if least.is_finite() {
            assert!(least <= found * 1.25, "seed {seed}: {found} is below what the model allows");
            compared += 1;
        }
    }
    assert!(compared > 30, "only {compared} models had an answer on the grid");
}

#[test]
fn what_is_searched_for_a_workload_fits_and_is_percentages() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 10));
        let all: u64 = workload.trace.objects.iter().map(|object| object.bytes.get()).sum();
        let others = [(TierKind::Dram, 1 + dice.below(all)), (TierKind::Nvme, all)];
        let machine = hardware(1 + dice.below(all), &others);
        let tiers = [HBM, DRAM, NVME];
        let model = with_setting(&workload, &machine, |setting| {
            PercentageModel::new(setting, &tiers, DEMAND)
        });
        assert!(model.fits(&model.shares()), "seed {seed}");
        for [gpu, cpu] in model.solve().0 {
            assert!(gpu >= 0.0 && cpu >= 0.0 && gpu + cpu <= 100.0 + 1e-9, "seed {seed}");
        }
    }
}
