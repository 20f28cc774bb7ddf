//! `ZeroOffload`: homes to the byte, what it copies and what that hides.

use crate::cpu_ops::{DRAM, NVME, machine, play};
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use tiersim_tests::prelude::*;

const LAYERS: usize = 4;
const PLENTY: u64 = 1 << 40;

fn config() -> ZeroOffloadConfig {
    ZeroOffloadConfig {
        optimizer: DRAM,
        parameters: HBM,
        gradients: DRAM,
        activations: HBM,
        optimizer_share: 1.0,
        parameters_share: 1.0,
        prefetch_ops: 2,
        prefetch_budget: None,
        relay: None,
        keep_root: false,
        spill: vec![DRAM, NVME],
    }
}

/// Layers of 100 bytes of weights: forward, backward, and Adam on the unit.
struct Step {
    workload: Workload,
    weights: Vec<ObjectId>,
    state: Vec<ObjectId>,
    gradients: Vec<ObjectId>,
}

fn step(adam: Unit, compute: u64) -> Step {
    let mut traced = Traced::new();
    let mut made = |kind, bytes, persists, layer: usize| {
        let id = traced.object(bytes, persists);
        let object = &mut traced.0.objects[id.index()];
        (object.kind, object.module) = (kind, Some(ModuleId::at(layer)));
        id
    };
    let (mut weights, mut state, mut gradients) = (Vec::new(), Vec::new(), Vec::new());
    for layer in 0..LAYERS {
        weights.push(made(ObjectKind::Weight, 100, true, layer));
        state.push(made(ObjectKind::Optimizer, 400, true, layer));
        state.push(made(ObjectKind::Master, 200, true, layer));
        gradients.push(made(ObjectKind::Gradient, 100, false, layer));
    }
    traced.0.modules = (0..LAYERS).map(|layer| format!("h.{layer}").into()).collect();
    let span = Span::from_ps(compute);
    for &weight in &weights {
        traced.op(0, 0, span, &[(weight, Mode::Read)]);
    }
    for (&weight, &gradient) in weights.iter().zip(&gradients).rev() {
        traced.op(0, 0, span, &[(weight, Mode::Read), (gradient, Mode::Write)]);
    }
    for layer in 0..LAYERS {
        let own = &state[2 * layer..2 * layer + 2];
        let uses = [
            (gradients[layer], Mode::Read),
            (own[0], Mode::ReadWrite),
            (own[1], Mode::ReadWrite),
            (weights[layer], Mode::Write),
        ];
        let op = traced.op(0, 0, Span::from_ps(50), &uses);
        traced.0.ops[op.index()].unit = adam;
    }
    assert_eq!(traced.0.problems(), []);
    Step { workload: Workload::new(traced.0), weights, state, gradients }
}

#[test]
fn homes_follow_kinds_and_shares_to_the_byte() {
    let trace = step(Unit::Cpu, 1).workload.trace;
    let away = |config: &ZeroOffloadConfig, kinds: &[ObjectKind]| -> u64 {
        let homes = config.homes(&trace);
        let objects = trace.objects.iter().zip(homes);
        let gone = objects.filter(|(object, home)| kinds.contains(&object.kind) && *home != HBM);
        gone.map(|(object, _)| object.bytes.get()).sum()
    };
    let state = [ObjectKind::Optimizer, ObjectKind::Master];
    for quarters in 0..=4u64 {
        let share = quarters as f64 / 4.0;
        let half = ZeroOffloadConfig { optimizer_share: share, ..config() };
        assert_eq!(away(&half, &state), quarters * 600);
        assert_eq!(away(&half, &[ObjectKind::Gradient]), quarters * 100);
        assert_eq!(away(&half, &[ObjectKind::Weight]), 0);
        let both = ZeroOffloadConfig { parameters: NVME, parameters_share: share, ..config() };
        assert_eq!(away(&both, &[ObjectKind::Weight]), quarters * 100);
        assert_eq!(away(&both, &state), 2400);
    }
}

#[test]
fn adam_on_the_host_never_has_its_state_in_hbm() {
    let Step { workload, weights, state, gradients } = step(Unit::Cpu, 500);
    let played = play(&machine(PLENTY, PLENTY, PLENTY), &workload, &config().into(), 3).unwrap();
    let of = |object: &ObjectId| -> Vec<_> {
        let own = played.copies.iter().filter(|copy| copy.1 == object.0);
        own.map(|copy| (copy.2, copy.3)).collect()
    };
    assert!(state.iter().all(|object| of(object).is_empty()));
    // Each gradient goes down once per step, and each weight that Adam made comes up once.
    assert!(gradients.iter().all(|object| of(object) == [(HBM, DRAM); 3]));
    assert!(weights.iter().all(|object| of(object) == [(DRAM, HBM); 2]));
    // Gradients leave while backward goes on, all but the last before Adam begins.
    let early = played.copies.iter().filter(|copy| {
        gradients.iter().any(|object| object.0 == copy.1) && copy.0 % (3 * LAYERS) < 2 * LAYERS
    });
    assert_eq!(early.count(), 3 * (LAYERS - 1));
}

#[test]
fn fetching_ahead_hides_copies_of_parameters() {
    let Step { workload, .. } = step(Unit::Cpu, 100);
    // HBM for two layers and a gradient; a layer takes as long to copy as to compute.
    let end = |prefetch_ops| {
        let config = ZeroOffloadConfig { parameters: DRAM, prefetch_ops, ..config() };
        let played = play(&machine(400, PLENTY, PLENTY), &workload, &config.into(), 1).unwrap();
        played.ends[2 * LAYERS - 1]
    };
    let (on_demand, ahead) = (end(0), end(1));
    // Forward waits for each of its layers; backward has the last one already.
    assert_eq!(on_demand, 100 * (2 * LAYERS as u64 + 2 * LAYERS as u64 - 1));
    assert_eq!(ahead, 100 * (2 * LAYERS as u64 + 1));
}

/// What is in no block comes once per step, the rest once per pass; without `keep_root` all does.
#[test]
fn the_root_is_kept_from_forward_to_backward() {
    let Step { workload, weights, .. } = step(Unit::Cpu, 100);
    let mut trace = workload.trace.clone();
    trace.modules[1] = "wte".into();
    for (index, op) in trace.ops.iter_mut().enumerate() {
        op.phase = [Phase::Forward, Phase::Backward, Phase::Optimizer][index / LAYERS];
    }
    let workload = Workload::new(trace);
    // Room for all, or for two weights and a gradient: what is kept is in nobody's way.
    for (keep_root, hbm, of_root) in [(false, PLENTY, 2), (true, PLENTY, 1), (true, 300, 1)] {
        let config = ZeroOffloadConfig { parameters: DRAM, prefetch_ops: 0, keep_root, ..config() };
        let played = play(&machine(hbm, PLENTY, PLENTY), &workload, &config.into(), 3).unwrap();
        let counts = weights.iter().map(|weight| {
            let own = played.copies.iter().filter(|copy| copy.1 == weight.0);
            own.filter(|copy| (copy.2, copy.3) == (DRAM, HBM)).count()
        });
        // The last layer's weights are used by two ops in a row.
        assert_eq!(counts.collect::<Vec<_>>(), [6, 3 * of_root, 6, 3], "{keep_root} {hbm}");
    }
}

#[test]
fn no_more_than_the_prefetch_budget_holds_is_fetched_ahead() {
    let Step { workload, weights, .. } = step(Unit::Cpu, 100);
    for (prefetch_budget, layers) in [(99, 0), (100, 1), (250, 2), (1000, 3)] {
        let prefetch_budget = Some(Bytes::new(prefetch_budget));
        let config =
            ZeroOffloadConfig { parameters: DRAM, prefetch_ops: 3, prefetch_budget, ..config() };
        let played = play(&machine(PLENTY, PLENTY, PLENTY), &workload, &config.into(), 1).unwrap();
        let first = played.copies.iter().filter(|copy| copy.0 == 0);
        assert_eq!(first.clone().count(), 1 + layers);
        assert!(first.clone().all(|copy| weights.iter().any(|weight| weight.0 == copy.1)));
    }
}

#[test]
fn through_a_relay_with_room_each_fetch_is_two_whole_copies() {
    let Step { workload, weights, .. } = step(Unit::Device, 100);
    let ways = [(None, PLENTY, vec![(NVME, HBM)]), (Some(DRAM), 99, vec![(NVME, HBM)]), {
        (Some(DRAM), 100, vec![(NVME, DRAM), (DRAM, HBM)])
    }];
    for (relay, dram, way) in ways {
        let all = ZeroOffloadConfig { optimizer: HBM, gradients: HBM, ..config() };
        let config = ZeroOffloadConfig {
            parameters: NVME,
            relay,
            prefetch_ops: 0,
            spill: vec![NVME],
            ..all
        };
        let played = play(&machine(PLENTY, dram, PLENTY), &workload, &config.into(), 1).unwrap();
        for weight in &weights {
            let own = played.copies.iter().filter(|copy| copy.1 == weight.0);
            let own: Vec<_> = own.map(|copy| (copy.2, copy.3)).take(way.len()).collect();
            assert_eq!(own, way, "{relay:?}");
        }
    }
}

#[test]
fn state_on_nvme_comes_ahead_of_its_op_and_goes_back() {
    let Step { workload, state, .. } = step(Unit::Cpu, 100);
    // DRAM has room for the state of three layers, of which one is used.
    let machine = machine(PLENTY, 2400, PLENTY);
    let nvme = ZeroOffloadConfig { optimizer: NVME, spill: vec![NVME], ..config() };
    let ahead = play(&machine, &workload, &nvme.clone().into(), 2).unwrap();
    let blind = ZeroOffloadConfig { prefetch_ops: 0, ..nvme };
    let blind = play(&machine, &workload, &blind.into(), 2).unwrap();
    let last = 3 * LAYERS * 2 - 1;
    assert!(ahead.ends[last] < blind.ends[last], "{} {}", ahead.ends[last], blind.ends[last]);
    for played in [ahead, blind] {
        for object in &state {
            let own: Vec<_> = played.copies.iter().filter(|copy| copy.1 == object.0).collect();
            assert!(own.iter().all(|copy| copy.2 != HBM && copy.3 != HBM));
            let up = own.iter().filter(|copy| copy.2 == NVME).count();
            assert_eq!(up, 2, "{object:?} comes once per step");
        }
    }
}

#[test]
fn what_fits_under_demand_paging_fits_with_any_homes() {
    let Step { workload, .. } = step(Unit::Device, 10);
    let lru = DemandConfig::lru(vec![DRAM, NVME]).into();
    for hbm in [800, 900, 1200, 3000] {
        let machine = machine(hbm, 1000, PLENTY);
        play(&machine, &workload, &lru, 2).expect("an op has 800 bytes");
        for (optimizer, parameters) in [(HBM, HBM), (DRAM, HBM), (NVME, DRAM), (DRAM, NVME)] {
            for prefetch_ops in [0, 1, 20] {
                let gradients = optimizer;
                let homes = ZeroOffloadConfig { optimizer, parameters, gradients, ..config() };
                let config = ZeroOffloadConfig { prefetch_ops, ..homes };
                play(&machine, &workload, &config.into(), 2).expect("it fits as well");
            }
        }
    }
}
