//! Promotion and demotion: what a cold use costs, when an object is hot, and that nothing flaps.

use crate::dynamic::{machine, play, traced};
use tiersim_models::workload::Mode::{Read, ReadWrite};
use tiersim_policies::zoo::hot_cold::HotColdConfig;
use tiersim_tests::prelude::*;

fn config(hot: u64, window: u64, idle: u64) -> HotColdConfig {
    HotColdConfig { hot, window, idle, low: 0.0, high: 0.0, spill: vec![FAR] }
}

/// Ops of 100 ps that use one object each, the larger first object in HBM from the start.
fn run(config: HotColdConfig, hbm: u64, objects: &[u64], uses: &[u32]) -> Played {
    let uses: Vec<[(u32, _); 1]> = uses.iter().map(|&object| [(object, Read)]).collect();
    let ops: Vec<(u64, &[_])> = uses.iter().map(|uses| (100, &uses[..])).collect();
    play(&machine(hbm), traced(objects, &ops), &config.into(), 1)
}

fn spans(played: &Played) -> Vec<u64> {
    let starts = std::iter::once(0).chain(played.ends.iter().copied());
    played.ends.iter().zip(starts).map(|(end, start)| end - start).collect()
}

#[test]
fn a_cold_use_pays_for_its_bytes_and_a_hot_object_for_one_copy() {
    // The second object does not fit beside the first, until that is idle.
    let played = run(config(3, 8, 8), 1000, &[600, 500], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    // The first was never used: it is demoted at once when the second is hot, behind the third use.
    // The write-back (600) and the copy (500) come before the fourth.
    let mut expected = vec![100; 11];
    expected[..3].fill(600);
    expected[3] = 600 + 500 + 100;
    assert_eq!(spans(&played), expected);
    assert_eq!(played.copies, [(3, 0, HBM, FAR), (3, 1, FAR, HBM)]);
}

#[test]
fn an_object_is_hot_at_exactly_so_many_uses_within_exactly_so_many_ops() {
    // The third object is used twice, `apart` ops apart; the first fills the time between.
    for (apart, promoted) in [(3, true), (4, false)] {
        let mut uses = vec![0; 12];
        (uses[2], uses[2 + apart]) = (2, 2);
        let played = run(config(2, 4, 4), 1000, &[600, 300, 200], &uses);
        let copies: Vec<u32> = played.copies.iter().map(|&(_, object, ..)| object).collect();
        // The second, which nobody uses, makes room.
        assert_eq!(copies, if promoted { vec![1, 2] } else { vec![] }, "{apart} apart");
    }
}

#[test]
fn two_objects_at_the_threshold_never_take_each_others_place() {
    let uses: Vec<u32> = (0..400).map(|op| op % 2).collect();
    let played = run(config(2, 4, 4), 700, &[600, 500], &uses);
    assert_eq!(played.copies, []);
    // Once the first rests for long enough, the second comes, once.
    let uses: Vec<u32> = (0..400).map(|op| if op < 100 { op % 2 } else { 1 }).collect();
    let played = run(config(2, 4, 4), 700, &[600, 500], &uses);
    // Its last use is op 98; after more than four ops without one it is idle.
    assert_eq!(played.copies, [(103, 0, HBM, FAR), (103, 1, FAR, HBM)]);
}

#[test]
fn below_the_low_watermark_idle_objects_leave_until_the_high_one() {
    let watermarks = HotColdConfig { low: 0.1, high: 0.3, ..config(2, 4, 4) };
    let mut traced = traced(&[100; 6], &[]);
    let new = traced.object(350, false);
    let used = ObjectId(5);
    for op in 0..10 {
        let uses = if op < 8 { vec![(used, Read)] } else { vec![(new, ReadWrite), (used, Read)] };
        traced.op(0, 0, Span::from_ps(100), &uses);
    }
    let op = traced.0.ops[8].uses.start as usize;
    traced.0.uses[op].mode = Mode::Write;
    let played = play(&machine(1000), traced, &watermarks.into(), 1);
    // 600 of 1000 are in use. With 350 more only 50 would be free, less than 100: the idle ones
    // leave, until 300 are.
    assert_eq!(played.copies, [0, 1, 2].map(|object| (8, object, HBM, FAR)));
}
