//! Page faults: their number and their delays, to the picosecond.

use crate::dynamic::{machine, play, traced};
use tiersim_models::workload::Mode::{Read, ReadWrite, Write};
use tiersim_policies::zoo::unified_memory::{Faults, UnifiedMemoryConfig};
use tiersim_tests::prelude::*;

/// Batches of two pages of 100 bytes, 7 ps each.
pub(crate) const FAULTS: Faults =
    Faults { page: Bytes::new(100), batch: 2, cost: Span::from_ps(7) };

fn run(hbm: u64, traced: Traced) -> Played {
    let config: PolicyConfig =
        UnifiedMemoryConfig { faults: FAULTS, ahead: None, spill: vec![FAR] }.into();
    play(&machine(hbm), traced, &config, 1)
}

#[test]
fn a_fetch_on_demand_costs_the_copy_and_then_its_batches_of_faults() {
    let ops: [(u64, &[_]); 3] = [(100, &[(0, Read)]), (100, &[(1, Read)]), (100, &[(0, Read)])];
    let played = run(1500, traced(&[1000, 500], &ops));
    // 1000 bytes are five batches, 500 are two and a half. The third op finds its object.
    assert_eq!(played.delays, [35, 21, 0]);
    assert_eq!(played.ends, [1000 + 35 + 100, 1135 + 500 + 21 + 100, 1756 + 100]);
}

#[test]
fn what_leaves_was_used_longest_ago_and_goes_before_what_comes() {
    let ops: [(u64, &[_]); 4] = [
        (100, &[(0, ReadWrite)]),
        (100, &[(1, Read)]),
        (100, &[(2, Read)]),
        (100, &[(0, Read), (1, Read)]),
    ];
    let played = run(1500, traced(&[1000, 500, 400], &ops));
    assert_eq!(played.delays, [35, 21, 14, 35]);
    // Before the third op the first object is written back; the fetch waits for its room. Before
    // the fourth the third object, unchanged, is given up.
    let third = 1756 + 1000 + 400 + 14 + 100;
    assert_eq!(played.ends, [1135, 1756, third, third + 1000 + 35 + 100]);
    let moved: Vec<(u32, bool)> =
        played.copies.iter().map(|&(_, object, _, to)| (object, to == FAR)).collect();
    assert_eq!(moved, [(0, false), (1, false), (0, true), (2, false), (0, false)]);
}

#[test]
fn two_objects_of_one_op_fault_each_in_batches_of_its_own() {
    let ops: [(u64, &[_]); 1] = [(100, &[(0, Read), (1, Read)])];
    let played = run(1000, traced(&[100, 100], &ops));
    assert_eq!(played.ends, [200 + 2 * 7 + 100]);
}

#[test]
fn what_an_op_creates_does_not_fault() {
    let mut traced = traced(&[1000], &[]);
    let new = traced.object(300, false);
    traced.op(0, 0, Span::from_ps(10), &[(new, Write)]);
    traced.op(0, 0, Span::from_ps(10), &[(new, Read), (ObjectId(0), Read)]);
    assert_eq!(run(2000, traced).ends, [10, 10 + 1000 + 35 + 10]);
}
