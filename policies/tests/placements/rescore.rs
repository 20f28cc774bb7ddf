//! Ranks that follow the training: what moves when, against a list that is worked out by hand and
//! one that is worked out naively.

use super::worlds::{Dice, hardware, object, op, plan, trace, with_setting};
use super::{DRAM, NVME};
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, ObjectKind, Statistics, Trace};
use tiersim_policies::access::{Access, Charge};
use tiersim_policies::command::{Command, Work};
use tiersim_policies::recipe::Recipe;
use tiersim_policies::zoo::adam_state::rescore::RescoredConfig;
use tiersim_policies::zoo::adam_state::{AdamStateConfig, Count, Cut, Score};

const NORMS: Score = Score::GradientAware { adam: 0.0, gradient: 1.0 };
const IN_PLACE: Access = Access::InPlace(Charge::EveryUse);

/// The first module in HBM, the next in DRAM, the rest in NVMe.
fn rule(score: Score, access: Access) -> AdamStateConfig {
    AdamStateConfig {
        score,
        cut: Cut::Shares { hbm: 0.34, cpu: 0.33 },
        by: Count::Modules,
        tiers: [HBM, DRAM, NVME],
        kinds: vec![ObjectKind::Weight],
        access,
    }
}

fn norm(value: f64) -> Statistics {
    Statistics { grad_norm: Some(value), ..Statistics::default() }
}

/// Modules a, b, c of 10, 20 and 30 bytes, read in turn, two steps to a replay. The gradients of a
/// shrink from the fourth step on, those of c grow from step to step.
fn growing() -> Workload {
    let mut trace = trace();
    let norms = [
        ("a", 10, [9., 9., 9., 1., 1., 1.]),
        ("b", 20, [5.; 6]),
        ("c", 30, [1., 2., 3., 7., 8., 9.]),
    ];
    let weights = norms.map(|(name, bytes, norms)| {
        let weight = object(&mut trace, name, ObjectKind::Weight, bytes, true);
        let row = &mut trace.objects[weight.index()];
        row.history = Some(norms.map(norm).into());
        row.statistics = norm(norms[0]);
        weight
    });
    for step in 0..2 {
        for weight in weights {
            op(&mut trace, &[(weight, Mode::Read)]);
            trace.ops.last_mut().expect("an op").step = 40 + step;
        }
    }
    assert_eq!(trace.problems(), []);
    Workload::new(trace)
}

fn planned(workload: &Workload, machine: &Hardware, recipe: &dyn Recipe) -> Vec<Command> {
    let policy = with_setting(workload, machine, |setting| recipe.build(setting));
    plan(workload, machine, policy.expect("it is built"), 4).expect("it fits")
}

/// Each copy, with the op of the run that comes next: (op, object, from, to, bytes).
fn moves(commands: &[Command]) -> Vec<(u64, u32, TierId, TierId, u64)> {
    let (mut next, mut found) = (0, Vec::new());
    for command in commands {
        match &command.work {
            Work::Compute { occurrence, .. } => next = occurrence + 1,
            Work::Copy { object, bytes, from, to } => {
                found.push((next, object.0, *from, *to, bytes.get()));
            }
            _ => {}
        }
    }
    found
}

/// Where each op finds its first object.
fn places(commands: &[Command]) -> Vec<TierId> {
    let computes = commands.iter().filter_map(|command| match &command.work {
        Work::Compute { touches, .. } => Some(touches[0].tier),
        _ => None,
    });
    computes.collect()
}

#[test]
fn gradient_norms_that_grow_are_found_and_moved_in_and_static_ranks_are_not() {
    let workload = growing();
    let machine = |hbm| hardware(hbm, &[(TierKind::Dram, 1000), (TierKind::Nvme, 1000)]);
    let rescored = |hbm, every| {
        let config = RescoredConfig { rule: rule(NORMS, IN_PLACE), every };
        planned(&workload, &machine(hbm), &config)
    };
    // Ranks: a b c until step 2, c b a from step 3 on. Scored at step 2 nothing changes; at step 4,
    // op 12, c goes to HBM, and a, which that op uses, leaves before the next one.
    let commands = rescored(40, 2);
    assert_eq!(moves(&commands), [(12, 2, NVME, HBM, 30), (13, 0, HBM, NVME, 10)]);
    let turn = [HBM, DRAM, NVME];
    let first: Vec<TierId> = turn.repeat(4);
    let then = [[HBM, DRAM, HBM], [NVME, DRAM, HBM], [NVME, DRAM, HBM], [NVME, DRAM, HBM]].concat();
    assert_eq!(places(&commands), [first.clone(), then].concat());
    // Without room beside a, c comes when a leaves.
    assert_eq!(moves(&rescored(35, 2)), [(13, 0, HBM, NVME, 10), (13, 2, NVME, HBM, 30)]);
    // Every three steps it is found one step earlier, every four and five at these.
    let starts = [3, 4, 5].map(|every| moves(&rescored(40, every))[0].0);
    assert_eq!(starts, [9, 12, 15]);
    // Ranks that stay: by what was known before the run, and by the first step.
    assert_eq!(moves(&rescored(40, 1000)), []);
    let kept = planned(&workload, &machine(40), &rule(NORMS, IN_PLACE));
    assert_eq!((moves(&kept), places(&kept)), (vec![], turn.repeat(8)));
}

#[test]
fn scoring_reads_what_it_scores_where_it_is() {
    let workload = growing();
    let machine = hardware(40, &[(TierKind::Dram, 1000), (TierKind::Nvme, 1000)]);
    let charges = |config: &dyn Recipe| -> Vec<Vec<(u8, u64)>> {
        let commands = planned(&workload, &machine, config);
        let computes = commands.iter().filter_map(|command| match &command.work {
            Work::Compute { charges, .. } => {
                Some(charges.iter().map(|&(tier, bytes)| (tier.0, bytes.get())).collect())
            }
            _ => None,
        });
        computes.collect()
    };
    let config = RescoredConfig { rule: rule(NORMS, IN_PLACE), every: 4 };
    let (followed, kept) = (charges(&config), charges(&RescoredConfig { every: 100, ..config }));
    // Step 4 begins with op 12; a is in HBM, b and c are where they were.
    assert_eq!(followed[..12], kept[..12]);
    assert_eq!(followed[12], [(0, 10), (1, 20), (2, 30)]);
    assert_eq!(kept[12], []);
    // b in DRAM, then c in HBM.
    assert_eq!(followed[13..15], [vec![(1, 20)], vec![]]);
}

#[test]
fn without_statistics_of_every_step_it_is_refused() {
    let mut trace = growing().trace;
    let config = |score| RescoredConfig { rule: rule(score, IN_PLACE), every: 1 };
    assert!(config(NORMS).place(&trace, 3).is_ok());
    let error = config(Score::Adam).place(&trace, 0).unwrap_err();
    assert!(error.contains("adam_m"), "{error}");
    trace.objects.iter_mut().for_each(|object| object.history = None);
    let error = config(NORMS).place(&trace, 0).unwrap_err();
    assert!(error.contains("statistics.csv"), "{error}");
}

/// Three ops on nothing, then each weight once, and gradients of any norm in any step.
fn random(dice: &mut Dice) -> (Trace, u64) {
    let mut trace = trace();
    let (modules, known) = (3 + dice.below(5), 1 + dice.below(6));
    let pad = object(&mut trace, "pad", ObjectKind::Buffer, 1, true);
    let weights: Vec<ObjectId> = (0..modules)
        .map(|index| {
            let bytes = 1 + dice.below(50);
            let weight = object(&mut trace, &format!("m{index}"), ObjectKind::Weight, bytes, true);
            let norms = (0..known).map(|_| norm(dice.below(5) as f64));
            trace.objects[weight.index()].history = Some(norms.collect());
            weight
        })
        .collect();
    for object in [pad; 3].into_iter().chain(weights) {
        op(&mut trace, &[(object, Mode::Read)]);
    }
    (trace, known)
}

#[test]
fn every_module_is_where_a_naive_ranking_puts_it() {
    let mut dice = Dice::new(18);
    let (mut moved, mut worlds) = (0, 0);
    for _ in 0..300 {
        let (trace, known) = random(&mut dice);
        let every = 1 + dice.below(3);
        let workload = Workload::new(trace);
        let machine = hardware(10_000, &[(TierKind::Dram, 10_000), (TierKind::Nvme, 10_000)]);
        let config = RescoredConfig { rule: rule(NORMS, IN_PLACE), every };
        let commands = planned(&workload, &machine, &config);
        let (trace, places) = (&workload.trace, places(&commands));
        let ops = trace.ops.len();
        for (at, &place) in places.iter().enumerate().filter(|(at, _)| at % ops >= 3) {
            let step = (at / ops) as u64;
            let row = (step / every * every).min(known - 1) as usize;
            let norm = |index: usize| {
                let history = trace.objects[index].history.as_deref().expect("a weight");
                history[row].grad_norm.expect("a norm")
            };
            let own = 1 + at % ops - 3;
            // How many go before it: larger norms, and equal ones with an earlier name.
            let before = |&other: &usize| {
                (norm(other), other) != (norm(own), own)
                    && (norm(other) > norm(own) || (norm(other) == norm(own) && other < own))
            };
            let rank = (1..trace.objects.len()).filter(before).count();
            let modules = (trace.objects.len() - 1) as f64;
            let ends = [0.34, 0.67].map(|share: f64| (share * modules + 1e-9) as usize);
            let expected = TierId::at(ends.into_iter().filter(|&end| rank >= end).count());
            assert_eq!(place, expected, "op {at}, every {every} of {known}: {trace:?}");
        }
        moved += moves(&commands).len();
        worlds += usize::from(!moves(&commands).is_empty());
    }
    assert!(worlds > 100 && moved > 1000, "{worlds} worlds, {moved} moves");
}

/// Whatever grows in whichever step, the run goes on with what fits, and ends.
#[test]
fn moves_wait_for_room_and_never_end_a_run() {
    let mut dice = Dice::new(81);
    let mut moved = 0;
    for _ in 0..400 {
        let (trace, _) = random(&mut dice);
        let largest = trace.objects.iter().map(|object| object.bytes.get()).max().expect("some");
        let all: Bytes = trace.objects.iter().map(|object| object.bytes).sum();
        let room = largest + 1 + dice.below(all.get());
        let machine = hardware(room, &[(TierKind::Dram, all.get()), (TierKind::Nvme, 10_000)]);
        let accesses = [IN_PLACE, Access::Migrate { prefetch_ops: dice.below(4) as u32 }];
        let workload = Workload::new(trace);
        for access in accesses {
            let config = RescoredConfig { rule: rule(NORMS, access), every: 1 + dice.below(3) };
            moved += moves(&planned(&workload, &machine, &config)).len();
        }
    }
    assert!(moved > 1000, "{moved} moves");
}
