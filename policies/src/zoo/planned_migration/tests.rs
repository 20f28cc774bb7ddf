//! What intervals a trace has, and what is planned for them.

use super::intervals::{Interval, Life, intervals};

fn life(persistent: bool, uses: &[(usize, bool)]) -> Life {
    let (born, dead) = match persistent {
        true => (0, 10),
        false => (uses[0].0, uses[uses.len() - 1].0 + 1),
    };
    Life { bytes: 8, persistent, uses: uses.to_vec(), born, dead }
}

/// From, until, and from where on the contents can be written back.
fn spans(life: Life, replayed: bool) -> Vec<(usize, usize, Option<usize>)> {
    let (all, versions) = intervals(&[life], 10, (replayed, false));
    let version = |one: &Interval| one.version.map(|version| versions[version].from);
    all.iter().map(|one| (one.from, one.until, version(one))).collect()
}

#[test]
fn an_object_is_inactive_between_its_uses() {
    let passing = life(false, &[(1, true), (2, false), (6, false), (9, true)]);
    assert_eq!(spans(passing.clone(), true), [(3, 6, Some(2)), (7, 9, Some(2))]);
    assert_eq!(spans(passing, false), [(3, 6, Some(2)), (7, 9, Some(2))]);
}

#[test]
fn moments_and_what_is_held_behind_its_last_use_are_intervals_if_that_is_asked_for() {
    let gradient = Life { dead: 8, ..life(false, &[(1, true), (4, false)]) };
    let of = |life: &Life, replayed, held| -> Vec<(usize, usize, bool)> {
        let all = intervals(std::slice::from_ref(life), 10, (replayed, held)).0;
        all.iter().map(|i| (i.from, i.until, i.fetches)).collect()
    };
    assert_eq!(of(&gradient, true, false), [(2, 4, true)]);
    // Its birth is a moment.
    assert_eq!(of(&gradient, true, true), [(1, 1, true), (2, 4, true), (5, 8, false)]);
    // Used by the first op, and by two in a row.
    let weight = life(true, &[(0, false), (1, true), (5, false)]);
    assert_eq!(of(&weight, false, false), [(2, 5, true), (6, 10, false)]);
    assert_eq!(
        of(&weight, false, true),
        [(0, 0, true), (1, 1, true), (2, 5, true), (6, 10, false)]
    );
    // Where it is replayed, what is before the first op is behind the last of the replay before.
    assert_eq!(of(&weight, true, true), [(11, 11, true), (2, 5, true), (6, 10, true)]);
}

#[test]
fn what_persists_is_inactive_across_the_end_of_a_replay() {
    // Read by 2, changed by 7: what 7 leaves is what 2 of the next replay reads.
    let weight = life(true, &[(2, false), (7, true)]);
    assert_eq!(spans(weight.clone(), true), [(13, 17, Some(8)), (8, 12, Some(8))]);
    assert_eq!(spans(weight, false), [(0, 2, Some(0)), (3, 7, Some(0)), (8, 10, Some(8))]);
    // Nothing changes it: what is outside stays good for ever.
    let constant = life(true, &[(2, false), (7, false)]);
    assert_eq!(spans(constant, true), [(3, 7, None), (8, 12, None)]);
    // Without a slot in between there is no interval.
    assert_eq!(spans(life(true, &[(0, true), (9, false)]), true), [(1, 9, Some(1))]);
}
