//! Every plan is safe under any timing, and the auditor sees it when one is not.

use tiersim_tests::prelude::*;

const WORLDS: u64 = 4000;

#[test]
fn random_plans_of_a_policy_that_tries_everything_break_no_rule() {
    let mut ran = 0;
    for seed in 0..WORLDS {
        let world = World::new(seed);
        ran += u64::from(world.ends(world.chaos()).is_some());
    }
    assert_eq!(ran, 1745, "worlds that fit");
}

/// How many worlds show that edges of one kind are missing.
fn caught(without: Hazard) -> u64 {
    (0..WORLDS / 4)
        .map(World::new)
        .filter(|world| world.run(world.chaos(), Some(without), 64).is_err())
        .count() as u64
}

#[test]
fn a_missing_edge_of_every_kind_is_caught() {
    use Hazard::{Capacity, IssueOrder, ReadAfterWrite, WriteAfterRead, WriteBack};
    let kinds = [ReadAfterWrite, WriteAfterRead, WriteBack, Capacity, IssueOrder];
    assert_eq!(kinds.map(caught), [660, 564, 430, 497, 457]);
}

#[test]
fn how_far_the_plan_runs_ahead_changes_nothing_on_one_stream() {
    let worlds = (0..WORLDS / 2).map(|seed| (seed, World::new(seed)));
    for (seed, world) in worlds.filter(|(_, world)| world.streams() == 1) {
        let near = world.run(world.chaos(), None, 4).expect("no rule is broken");
        let far = world.run(world.chaos(), None, 1000).expect("no rule is broken");
        assert_eq!(near, far, "seed {seed}");
    }
}

/// A copy between two far tiers is under way when an op makes what it brings stale: the write-back
/// to the same place waits for it. The copy takes 1,000 ps, the op starts after 10.
#[test]
fn a_write_back_waits_for_the_copy_whose_contents_it_overwrites() {
    let (near, far) = (TierId(1), TierId(2));
    let mut traced = Traced::new();
    let object = traced.object(1000, true);
    traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
    traced.op(0, 0, Span::ZERO, &[(object, Mode::ReadWrite)]);
    traced.op(0, 0, Span::ZERO, &[]);
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Dram].map(free);
    let (quick, slow) = (law(0, 100_000_000_000_000), law(0, 1_000_000_000_000));
    let machine = hardware(&tiers, &[(0, 1, quick), (0, 2, quick), (1, 2, slow)]);
    let world = World::recorded(machine, traced.0, 1);
    let script = vec![
        vec![fetch(object)],
        vec![Action::Evict { object, from: near, to: far }],
        vec![Action::Evict { object, from: HBM, to: far }],
    ];
    world.scripted(vec![near], script);
}
