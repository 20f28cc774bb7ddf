//! Static placements: each rule by hand, and all of them against demand paging on random worlds.

mod learned;
mod packing;
mod percentages;
mod rescore;
mod sharded;
mod worlds;

use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, Hardware, Memory, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, Object, ObjectKind, Statistics};
use tiersim_policies::access::{Access, Charge};
use tiersim_policies::packing::Packed;
use tiersim_policies::recipe::{PolicyConfig, Recipe};
use tiersim_policies::residents::Residents;
use tiersim_policies::static_placement::StaticPlacement;
use tiersim_policies::visits::Visits;
use tiersim_policies::zoo::adam_state::{AdamStateConfig, Count, Cut, Score};
use tiersim_policies::zoo::demand::DemandConfig;
use tiersim_policies::zoo::device_map::{DeviceMapConfig, Limit};
use tiersim_policies::zoo::percentages::{PercentagesConfig, Six};
use tiersim_policies::zoo::residents::{ResidentsConfig, Rule, knapsack};
use tiersim_policies::zoo::zero_offload::ZeroOffloadConfig;
use worlds::{Dice, copies, hardware, object, op, plan, random_trace, trace, with_setting};

const DRAM: TierId = TierId(1);
const NVME: TierId = TierId(2);
const DEMAND: Access = Access::Migrate { prefetch_ops: 0 };
const STATE: [ObjectKind; 4] =
    [ObjectKind::Weight, ObjectKind::Gradient, ObjectKind::Optimizer, ObjectKind::Master];

#[test]
fn moves_are_those_of_a_plan_in_which_nothing_is_at_home_in_hbm() {
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 8));
        let machine = hardware(1 << 20, &[(TierKind::Dram, 1 << 20)]);
        let window = dice.below(6) as u32;
        let objects = workload.trace.objects.len();
        let access = Access::Migrate { prefetch_ops: window };
        let homes = vec![DRAM; objects];
        let policy = StaticPlacement::of_objects("all away", &workload.trace, homes, access);
        let commands = plan(&workload, &machine, Box::new(policy), 1).expect("there is room");
        let visits = Visits::new(&workload);
        for (index, counts) in copies(&commands, objects).into_iter().enumerate() {
            let moves = visits.moves(ObjectId::at(index), window);
            assert_eq!([moves.fetches, moves.write_backs], counts, "seed {seed}, object {index}");
        }
    }
}

#[test]
fn the_next_use_is_in_this_replay_or_the_next() {
    let mut trace = trace();
    let [weight, passing] =
        [true, false].map(|persistent| object(&mut trace, "m", ObjectKind::Weight, 8, persistent));
    for at in 0..10 {
        let uses = [(weight, Mode::Read), (passing, Mode::Write)];
        op(&mut trace, if at == 2 || at == 7 { &uses } else { &[] });
    }
    let visits = Visits::new(&Workload::new(trace));
    let next = |object| {
        let visits = &visits;
        move |at| visits.next(object, at, 2)
    };
    let found = [0, 2, 7, 12, 17].map(next(weight));
    assert_eq!(found, [Some(2), Some(7), Some(12), Some(17), None]);
    assert_eq!([2, 7, 12].map(next(passing)), [Some(7), None, Some(17)]);
}

/// A policy of every static kind, with parameters drawn.
fn drawn(dice: &mut Dice, tiers: usize) -> Vec<PolicyConfig> {
    let access = match dice.below(4) {
        0 => Access::InPlace(Charge::EveryUse),
        1 => DEMAND,
        _ => Access::Migrate { prefetch_ops: dice.below(20) as u32 },
    };
    let spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
    let mut kinds = ObjectKind::ALL.to_vec();
    kinds.retain(|_| dice.below(3) > 0);
    let last = TierId::at(tiers - 1);
    let tiers = [HBM, DRAM, last];
    let share = |dice: &mut Dice| dice.below(11) as f64 / 10.0;
    let (hbm, cpu) = (share(dice), share(dice));
    let cut = Cut::Cumulative { hbm: hbm.min(cpu), cpu: hbm.max(cpu) };
    let size = if dice.below(2) == 0 { Rule::Smallest } else { Rule::Largest };
    let reserve = Limit::Reserve(share(dice));
    let six = [0; 3].map(|_| {
        let gpu = 10.0 * dice.below(11) as f64;
        [gpu, (100.0 - gpu) * share(dice)]
    });
    let score = Score::GradientAware { adam: 1.0, gradient: 0.5 };
    let (by, of) = (Count::Bytes, kinds.clone());
    let ranked = AdamStateConfig { score, cut, by, tiers, kinds: of, access };
    let stays =
        |rule| ResidentsConfig { rule, spill: spill.clone(), kinds: kinds.clone(), access }.into();
    vec![
        stays(size),
        stays(Rule::Densest),
        stays(Rule::Knapsack),
        ranked.into(),
        PercentagesConfig { six: Some(Six(six)), sep_layer: false, tiers, access }.into(),
        PercentagesConfig { six: None, sep_layer: false, tiers, access }.into(),
        DeviceMapConfig { hbm: reserve, cpu: None, no_split: true, tiers, kinds, access }.into(),
    ]
}

#[test]
fn no_static_placement_fails_where_demand_paging_fits() {
    let (mut ran, mut tight) = (0, 0);
    for seed in 0..8000 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 10));
        let trace = &workload.trace;
        let all: u64 = trace.objects.iter().map(|object| object.bytes.get()).sum();
        let hbm = 1 + dice.below(all);
        // Room beside HBM for every object: several tiers only differ in how they are filled.
        let others = match dice.below(2) {
            0 => vec![(TierKind::Dram, all)],
            _ => vec![(TierKind::Dram, 1 + dice.below(all)), (TierKind::Nvme, all)],
        };
        let machine = hardware(hbm, &others);
        let spill: Vec<TierId> = (1..machine.tiers.len()).map(TierId::at).collect();
        let lru = DemandConfig::lru(spill);
        let lru = with_setting(&workload, &machine, |setting| lru.build(setting));
        if plan(&workload, &machine, lru.expect("it needs nothing"), 2).is_none() {
            continue;
        }
        ran += 1;
        tight += u32::from(hbm < all / 2);
        for config in drawn(&mut dice, machine.tiers.len()) {
            let policy = with_setting(&workload, &machine, |setting| config.build(setting));
            let policy = policy.expect("the trace has all statistics");
            let done = plan(&workload, &machine, policy, 2);
            assert!(done.is_some(), "seed {seed}: {} ({})", config.name(), config.details());
        }
    }
    assert!(ran > 1000 && tight > 100, "only {ran} worlds fit, {tight} of them tight");
}

/// Weights that are not offloaded have no other place than HBM, whatever else goes elsewhere.
#[test]
fn kinds_that_zero_offload_does_not_name_stay_or_do_not_fit() {
    let (mut refused, mut spilled) = (0, 0);
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 300));
        let trace = &workload.trace;
        let bytes = |of: &dyn Fn(&Object) -> bool| -> u64 {
            trace.objects.iter().filter(|object| of(object)).map(|object| object.bytes.get()).sum()
        };
        let all = bytes(&|_| true);
        let kept = bytes(&|object| object.persistent && object.kind == ObjectKind::Weight);
        // An op has up to four objects of up to 100 bytes.
        let hbm = 400 + dice.below(kept + 1);
        let machine = hardware(hbm, &[(TierKind::Dram, 4 * all)]);
        let plan_of = |weights: TierId, spill: &[TierId]| {
            let config = ZeroOffloadConfig {
                optimizer: DRAM,
                parameters: weights,
                gradients: DRAM,
                activations: HBM,
                optimizer_share: 1.0,
                parameters_share: 1.0,
                prefetch_ops: 2,
                prefetch_budget: None,
                relay: None,
                keep_root: false,
                spill: spill.to_vec(),
            };
            let policy = with_setting(&workload, &machine, |setting| config.build(setting));
            plan(&workload, &machine, policy.expect("it needs nothing"), 2)
        };
        if kept > hbm {
            assert!(plan_of(HBM, &[]).is_none(), "seed {seed}: {kept} of {hbm} bytes");
            refused += 1;
            spilled += u32::from(plan_of(HBM, &[DRAM]).is_some());
        } else if plan_of(HBM, &[]).is_some() {
            assert!(plan_of(HBM, &[DRAM]).is_some(), "seed {seed}: more places, and it fails");
        }
    }
    assert!(refused > 100 && spilled > 50, "{refused} refused, {spilled} of them spilled");
}

fn residents(rule: Rule) -> ResidentsConfig {
    ResidentsConfig { rule, spill: vec![DRAM], kinds: STATE.to_vec(), access: DEMAND }
}

/// What the knapsack says of a workload on a machine.
fn packed(workload: &Workload, machine: &Hardware) -> (Vec<TierId>, Packed) {
    with_setting(workload, machine, |setting| {
        let mut residents = Residents::new(setting, DEMAND, &[DRAM]);
        residents.keep_others(&STATE);
        knapsack::choose(&residents, &STATE)
    })
}

#[test]
fn what_stays_leaves_every_op_its_room_so_no_resident_ever_leaves() {
    let mut stayed = 0;
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 10));
        let trace = &workload.trace;
        let all: u64 = trace.objects.iter().map(|object| object.bytes.get()).sum();
        let machine = hardware(1 + dice.below(all), &[(TierKind::Dram, all)]);
        let config = residents(Rule::Knapsack);
        let homes = with_setting(&workload, &machine, |setting| config.homes(setting));
        let policy = with_setting(&workload, &machine, |setting| config.build(setting));
        let Some(commands) = plan(&workload, &machine, policy.expect("it needs nothing"), 1) else {
            continue;
        };
        let counts = copies(&commands, trace.objects.len());
        for (index, home) in homes.iter().enumerate().filter(|(_, home)| **home == HBM) {
            assert_eq!(counts[index], [0, 0], "seed {seed}: object {index} at home in {home:?}");
            stayed += 1;
        }
    }
    assert!(stayed > 2000, "only {stayed} objects stayed");
}

/// Bytes saved by the best set of residents of these kinds, by trying all of them; `None` if some
/// op does not fit by itself.
fn best_residents(
    workload: &Workload,
    hbm: u64,
    kinds: &[ObjectKind],
    others: &[TierId],
) -> Option<u64> {
    let trace = &workload.trace;
    let visits = Visits::new(workload);
    let ids = |of: bool| {
        let objects = (0..trace.objects.len()).map(ObjectId::at);
        let lives = |o: &ObjectId| !visits.life(*o).is_empty();
        objects
            .filter(lives)
            .filter(|o| kinds.contains(&trace.objects[o.index()].kind) == of)
            .collect::<Vec<_>>()
    };
    let (items, rest) = (ids(true), ids(false));
    let bytes = |object: ObjectId| trace.objects[object.index()].bytes.get();
    let fits = |residents: &[ObjectId]| {
        (0..visits.ops()).all(|op| {
            let used = |o: ObjectId| visits.uses(o).iter().any(|(at, _)| *at == op);
            let visitors = items.iter().chain(&rest).filter(|o| used(**o) || residents.contains(o));
            let here = visitors.filter(|o| visits.life(**o).contains(&op));
            here.map(|o| bytes(*o)).sum::<u64>() <= hbm
        })
    };
    let kept: Vec<ObjectId> = rest.iter().copied().filter(|o| others[o.index()] == HBM).collect();
    let choice = |set: u32| {
        let chosen = (0..items.len()).filter(|item| set >> item & 1 == 1).map(|item| items[item]);
        chosen.collect::<Vec<_>>()
    };
    let saved = |set: &[ObjectId]| -> u64 {
        set.iter().map(|o| visits.saved(*o, Bytes::new(bytes(*o)), DEMAND)).sum()
    };
    let sets = (0..1u32 << items.len()).map(choice);
    let feasible = sets.filter(|set| fits(&[set.as_slice(), &kept].concat()));
    feasible.map(|set| saved(&set)).max()
}

#[test]
fn the_knapsack_saves_as_much_as_any_set_of_residents_on_3000_tiny_traces() {
    let mut chose = 0;
    for seed in 0..3000 {
        let mut dice = Dice::new(seed);
        let workload = Workload::new(random_trace(&mut dice, 8));
        let trace = &workload.trace;
        let all: u64 = trace.objects.iter().map(|object| object.bytes.get()).sum();
        let hbm = all / 4 + dice.below(all);
        let machine = hardware(hbm, &[(TierKind::Dram, all)]);
        let (homes, packed) = packed(&workload, &machine);
        let saved = with_setting(&workload, &machine, |setting| {
            let residents = Residents::new(setting, DEMAND, &[DRAM]);
            let kept = residents.of_kinds(&STATE).into_iter().filter(|o| homes[o.index()] == HBM);
            kept.map(|object| residents.saved(object)).sum::<u64>()
        });
        let Some(best) = best_residents(&workload, hbm, &STATE, &homes) else { continue };
        assert!(packed.exact, "seed {seed}");
        assert_eq!(saved, best, "seed {seed}");
        chose += u32::from(saved > 0 && homes.contains(&DRAM));
    }
    assert!(chose > 200, "only {chose} traces left a choice");
}

/// Three weights of 10, 20 and 30 bytes; the second is used three times, apart from each other.
fn three_weights() -> Workload {
    let mut trace = trace();
    let [a, b, c] =
        [10, 20, 30].map(|bytes| object(&mut trace, "m", ObjectKind::Weight, bytes, true));
    for used in [a, b, c, b, a, b, c] {
        op(&mut trace, &[(used, Mode::Read)]);
    }
    Workload::new(trace)
}

#[test]
fn size_and_density_choose_as_worked_out_by_hand() {
    let workload = three_weights();
    // 50 bytes. Op by op, a resident needs its bytes beside the object of the op: beside 30, 20 are
    // left; so 10 alone or 20 alone can stay with 30 away, or 30 with nothing else but 20 visiting.
    let machine = hardware(50, &[(TierKind::Dram, 1000)]);
    let homes = |rule| with_setting(&workload, &machine, |setting| residents(rule).homes(setting));
    // 10 stays; 20 beside it does not, because 10 + 20 + 30 > 50; nor does 30.
    assert_eq!(homes(Rule::Smallest), [HBM, DRAM, DRAM]);
    // 30 stays; 20 and 10 do not: 20 + 30 + 10 > 50 when 10 is used, and so on.
    assert_eq!(homes(Rule::Largest), [DRAM, DRAM, HBM]);
    // Fetches per idle op: 10 is fetched twice and idles in 5, 20 three times and 4, 30 twice
    // and 5.
    assert_eq!(homes(Rule::Densest), [DRAM, HBM, DRAM]);
    // Saved: 10 twice = 20, 20 three times = 60, 30 twice = 60. One of the latter, not both.
    let (_, packed) = packed(&workload, &machine);
    assert_eq!((packed.value, packed.exact), (60, true));
}

#[test]
fn gradient_norms_change_the_order_of_modules_as_their_weight_says() {
    let mut trace = trace();
    for (name, adam, grad) in [("a", 0.5, 0.0), ("b", 0.25, 0.125), ("c", 0.125, 0.75)] {
        let weight = object(&mut trace, name, ObjectKind::Weight, 10, true);
        trace.objects[weight.index()].statistics =
            Statistics { adam_m: Some(adam), adam_v: Some(0.0), grad_norm: Some(grad) };
        op(&mut trace, &[(weight, Mode::Read)]);
    }
    let place = |adam, gradient, trace: &_| {
        let cut = Cut::Shares { hbm: 0.34, cpu: 0.33 };
        let (tiers, kinds) = ([HBM, DRAM, NVME], STATE.to_vec());
        let (score, by) = (Score::GradientAware { adam, gradient }, Count::Modules);
        AdamStateConfig { score, cut, by, tiers, kinds, access: DEMAND }.place(trace)
    };
    assert_eq!(place(1.0, 0.0, &trace).unwrap(), [HBM, DRAM, NVME]);
    assert_eq!(place(0.0, 1.0, &trace).unwrap(), [NVME, DRAM, HBM]);
    // Scores 0.5 + 0, 0.25 + 0.0625, 0.125 + 0.375: a and c are equal, and a comes first by name.
    assert_eq!(place(1.0, 0.5, &trace).unwrap(), [HBM, NVME, DRAM]);
    trace.objects[1].statistics.grad_norm = None;
    assert_eq!(place(1.0, 0.0, &trace).unwrap(), [HBM, DRAM, NVME], "a weight of 0 needs nothing");
    let error = place(1.0, 0.5, &trace).unwrap_err();
    assert!(error.contains("grad_norm") && error.contains(&*trace.objects[1].name), "{error}");
}

#[test]
fn a_device_map_fills_hbm_in_the_order_of_modules_and_keeps_the_largest_layer_free() {
    let mut trace = trace();
    for block in 0..4 {
        for part in ["attn", "mlp"] {
            let module = format!("h.{block}.{part}");
            let weight = object(&mut trace, &module, ObjectKind::Weight, 10, true);
            object(&mut trace, &module, ObjectKind::Optimizer, 20, true);
            op(&mut trace, &[(weight, Mode::Read)]);
        }
    }
    let homes = |hbm, cpu, no_split| {
        let hbm = Limit::Bytes(Bytes::new(hbm));
        let (cpu, tiers, kinds) = (Some(Bytes::new(cpu)), [HBM, DRAM, NVME], STATE.to_vec());
        let config = DeviceMapConfig { hbm, cpu, no_split, tiers, kinds, access: DEMAND };
        config.homes(&trace, &Memory::of([Bytes::new(1000); 3]))
    };
    let blocks =
        |tiers: [TierId; 4]| tiers.into_iter().flat_map(|tier| [tier; 4]).collect::<Vec<_>>();
    // A block has 60 bytes. Of 179 one fits beside room for another, of 180 two; so in host memory
    // of 120, but that nothing has to visit when the last one is placed.
    assert_eq!(homes(179, 120, true), blocks([HBM, DRAM, NVME, NVME]));
    assert_eq!(homes(180, 120, true), blocks([HBM, HBM, DRAM, DRAM]));
    // Split, a layer has 30: of 179 four beside room for another, of host memory's 100 two.
    let split: Vec<TierId> = [[HBM; 8].as_slice(), &[DRAM; 4], &[NVME; 4]].concat();
    assert_eq!(homes(179, 100, false), split);
}

#[test]
fn homes_of_modules_count_where_accesses_are_emulated() {
    let workload = three_weights();
    let homes = vec![HBM, HBM, DRAM];
    let access = Access::InPlace(Charge::ModuleWeights);
    let policy = StaticPlacement::of_objects("emulated", &workload.trace, homes, access);
    let machine = hardware(100, &[(TierKind::Dram, 1000)]);
    let commands = plan(&workload, &machine, Box::new(policy), 1).expect("it fits");
    let mut charged = BTreeMap::new();
    for command in &commands {
        if let tiersim_policies::command::Work::Compute { charges, .. } = &command.work {
            charges
                .iter()
                .for_each(|(tier, bytes)| *charged.entry(*tier).or_insert(0) += bytes.get());
        }
    }
    // All weights of the module, once in its one pass, at the tier of the largest.
    assert_eq!(charged, BTreeMap::from([(DRAM, 60)]));
}
