//! The learned placement: the rule that it starts as, whole modules, and what its weights decide.

use super::worlds::{Dice, hardware, object, op, random_trace, trace, with_setting};
use super::{DEMAND, DRAM, NVME, STATE};
use tiersim_models::hardware::{HBM, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, ObjectKind, Trace};
use tiersim_policies::recipe::{Origin, Recipe};
use tiersim_policies::zoo::learned_placement::{Feature, LearnedPlacementConfig, NAMES};

fn config(weights: &[(Feature, f64)]) -> LearnedPlacementConfig {
    let mut own = [0.0; NAMES.len()];
    weights.iter().for_each(|&(feature, weight)| own[feature as usize] = weight);
    LearnedPlacementConfig {
        weights: own,
        origin: Origin::Written,
        spill: vec![DRAM, NVME],
        kinds: STATE.to_vec(),
        access: DEMAND,
    }
}

/// A module of a weight and its state, a small one, and a large one that is used most; then an op
/// on nothing.
fn three() -> Trace {
    let mut trace = trace();
    let parts = [("pair", 20, 20), ("small", 5, 5), ("busy", 30, 30)].map(|(name, own, state)| {
        let weight = object(&mut trace, name, ObjectKind::Weight, own, true);
        (weight, object(&mut trace, name, ObjectKind::Optimizer, state, true))
    });
    let pad = object(&mut trace, "pad", ObjectKind::Buffer, 1, true);
    for at in [0, 2, 1, 2, 0, 2] {
        op(&mut trace, &[(parts[at].0, Mode::Read)]);
        op(&mut trace, &[(pad, Mode::Read)]);
    }
    trace
}

fn homes(trace: &Trace, hbm: u64, dram: u64, config: &LearnedPlacementConfig) -> Vec<TierId> {
    let machine = hardware(hbm, &[(TierKind::Dram, dram), (TierKind::Nvme, 1000)]);
    let workload = Workload::new(trace.clone());
    with_setting(&workload, &machine, |setting| config.homes(setting))
}

#[test]
fn modules_stay_whole_or_go_whole_in_the_order_of_their_scores() {
    let trace = three();
    // Smallest first: the small one and the pair have 50 bytes, and a visitor of 30 needs room.
    let smallest = config(&[(Feature::Bytes, -1.0)]);
    let kept = [HBM, HBM, HBM, HBM, DRAM, DRAM, HBM];
    assert_eq!(homes(&trace, 81, 100, &smallest), kept);
    // One byte less, and the pair goes with both of its objects although one would fit.
    let pair_away = [DRAM, DRAM, HBM, HBM, DRAM, DRAM, HBM];
    assert_eq!(homes(&trace, 80, 100, &smallest), pair_away);
    // Of the host's 60 bytes the higher score has its 40 first, and half of the other still fits
    // nowhere there.
    assert_eq!(homes(&trace, 80, 60, &smallest), [DRAM, DRAM, HBM, HBM, NVME, NVME, HBM]);
    // Most used first: the busy one stays, beside it a visitor of 20 and the small one.
    let busiest = config(&[(Feature::Uses, 1.0)]);
    assert_eq!(homes(&trace, 91, 100, &busiest)[4..6], [HBM, HBM]);
    assert_eq!(homes(&trace, 91, 100, &busiest)[..2], [DRAM, DRAM]);
}

#[test]
fn weights_that_are_all_zero_keep_the_order_of_the_table_and_equal_scores_too() {
    let trace = three();
    assert_eq!(homes(&trace, 81, 100, &config(&[]))[..2], [HBM, HBM]);
}

/// Whatever the weights: scaling them changes nothing, and neither do sizes that all double with
/// the room.
#[test]
fn a_rule_means_the_same_on_a_model_that_is_twice_as_large() {
    let mut dice = Dice::new(5);
    let (mut mixed, mut worlds) = (0, 0);
    for _ in 0..300 {
        let mut small = random_trace(&mut dice, 12);
        // One less than powers of two, whose logarithms are exact.
        for object in &mut small.objects {
            object.bytes = Bytes::new(object.bytes.get().next_power_of_two() * 1024 - 1);
        }
        let mut large = small.clone();
        for object in &mut large.objects {
            object.bytes = Bytes::new(2 * object.bytes.get() + 1);
        }
        let all: u64 = small.objects.iter().map(|object| object.bytes.get() + 1).sum();
        // Between what so many and one more of the least units take, in either.
        let room = (all / 4 + dice.below(all)) / 1024 * 1024 + 512;
        // One object to a module: the sum of two sizes has no such logarithm.
        let alone = |trace: &mut Trace| {
            trace.objects.iter_mut().for_each(|object| object.module = None);
        };
        alone(&mut small);
        alone(&mut large);
        let weight = |dice: &mut Dice| dice.below(9) as f64 - 4.0;
        let rule = [Feature::Bytes, Feature::First, Feature::Last, Feature::Uses, Feature::Idle]
            .map(|feature| (feature, weight(&mut dice)));
        let first = homes(&small, room, 10 * all, &config(&rule));
        assert_eq!(first, homes(&large, 2 * room, 20 * all, &config(&rule)));
        let double = rule.map(|(feature, weight)| (feature, 2.0 * weight));
        assert_eq!(first, homes(&small, room, 10 * all, &config(&double)));
        mixed += usize::from(first.contains(&HBM) && first.contains(&DRAM));
        worlds += 1;
    }
    assert!(mixed * 3 > worlds, "{mixed} of {worlds} worlds have objects in both");
}

#[test]
fn it_says_which_features_can_tell_modules_apart() {
    let workload = Workload::new(three());
    let names: Vec<&str> =
        config(&[]).trainable(&workload).into_iter().map(|feature| NAMES[feature]).collect();
    // No gradients, half of every module is state, nothing writes, and on demand nothing is hidden.
    assert_eq!(names, ["bytes", "first", "idle", "last", "saved", "uses"]);
}
