//! Every plan is safe under any timing, and the auditor sees it when one is not.

use tiersim_policies::command::Hazard;
use tiersim_tests::world::World;

const WORLDS: u64 = 4000;

#[test]
fn random_plans_of_a_policy_that_tries_everything_break_no_rule() {
    let mut ran = 0;
    for seed in 0..WORLDS {
        let world = World::new(seed);
        match world.run(world.chaos(), None, 64) {
            Ok(Some(_)) => ran += 1,
            Ok(None) => {}
            Err(fault) => panic!("seed {seed}: {fault}"),
        }
    }
    assert!(ran > WORLDS / 3, "only {ran} of {WORLDS} worlds fit: the test means little");
}

/// How many worlds show that edges of one kind are missing.
fn caught(without: Hazard) -> u64 {
    (0..WORLDS / 4)
        .map(World::new)
        .filter(|world| world.run(world.chaos(), Some(without), 64).is_err())
        .count() as u64
}

#[test]
fn a_missing_arrival_edge_is_caught() {
    assert!(caught(Hazard::Arrival) > 10);
}

#[test]
fn a_missing_last_use_edge_is_caught() {
    assert!(caught(Hazard::LastUse) > 10);
}

#[test]
fn a_missing_write_back_edge_is_caught() {
    assert!(caught(Hazard::WriteBack) > 10);
}

#[test]
fn a_missing_room_edge_is_caught() {
    assert!(caught(Hazard::Room) > 10);
}

#[test]
fn a_missing_turn_edge_is_caught() {
    assert!(caught(Hazard::Turn) > 10);
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
