//! Caches that are used in HBM and live outside: what leaves HBM is what was appended.

use tiersim_tests::files::{record, shipped_scenario};
use tiersim_tests::prelude::*;

const DRAM: TierId = TierId(1);
const NVME: TierId = TierId(2);
/// A cache, and what a token adds to it.
const CACHE: u64 = 10_000;
const TOKEN: u64 = 160;

/// HBM, DRAM and NVMe, each joined to the others.
fn machine() -> Hardware {
    let quick = law(0, 1_000_000_000_000);
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    hardware(&tiers, &[(0, 1, quick), (0, 2, quick), (1, 2, quick)])
}

/// Ops that each append a token to a cache, and the script of what is done before each: bytes of
/// every copy, with its tiers.
fn copies(ops: usize, script: impl Fn(usize, ObjectId) -> Vec<Action>) -> Vec<(u64, u8, u8)> {
    let mut traced = Traced::new();
    let cache = traced.object(CACHE, true);
    let other = traced.object(1, true);
    for _ in 0..ops {
        traced.op(0, 0, Span::ZERO, &[(cache, Mode::ReadWrite)]);
        let appended = traced.0.uses.last_mut().expect("it was just added");
        appended.part = PartialUse::of(2, (TOKEN / 2).into(), Bytes::new(CACHE));
        traced.op(0, 0, Span::ZERO, &[(other, Mode::Read)]);
    }
    let script: Vec<Vec<Action>> = (0..2 * ops).map(|op| script(op, cache)).collect();
    let world = World::recorded(machine(), traced.0, 1);
    let policy = Scripted::of(vec![DRAM, HBM], script);
    let mut planner = world.planner(policy).expect("it fits");
    let mut audited = world.audited(&planner);
    let (mut commands, mut copies) = (Vec::new(), Vec::new());
    while planner.plan_next(&mut commands).expect("a legal script") {
        for command in commands.drain(..) {
            if let Work::Copy { bytes, from, to, .. } = command.work {
                copies.push((bytes.get(), from.0, to.0));
            }
            audited.submit(command).expect("no rule is broken");
        }
    }
    while audited.next().expect("no rule is broken").is_some() {}
    copies
}

#[test]
fn a_cache_that_leaves_after_every_step_takes_one_token_with_it() {
    let found = copies(8, |op, cache| match op % 2 {
        0 => vec![fetch(cache)],
        _ => vec![Action::Evict { object: cache, from: HBM, to: DRAM }],
    });
    assert_eq!(found, [(CACHE, 1, 0), (TOKEN, 0, 1)].repeat(8));
}

#[test]
fn what_is_behind_adds_up_by_tier_until_it_is_the_whole_object() {
    // It stays in HBM: the copy in DRAM is brought up to date after 3 tokens, after 70, which are
    // more than the cache, and after 2.
    let found = copies(76, |op, cache| match op {
        0 => vec![fetch(cache)],
        5 | 145 | 149 => vec![prefetch_to(cache, DRAM)],
        _ => Vec::new(),
    });
    assert_eq!(found, [(CACHE, 1, 0), (3 * TOKEN, 0, 1), (CACHE, 0, 1), (2 * TOKEN, 0, 1)]);
}

#[test]
fn a_tier_without_an_older_copy_takes_the_whole_object() {
    // To NVMe first, then to both in turn: each lacks what was appended since it had the contents.
    let evict = |cache, to| vec![Action::Evict { object: cache, from: HBM, to }];
    let found = copies(4, |op, cache| match op {
        0 | 2 | 4 | 6 => vec![fetch(cache)],
        1 | 5 => evict(cache, NVME),
        _ => evict(cache, DRAM),
    });
    let steps = [
        (CACHE, 1, 0),
        (CACHE, 0, 2),
        (CACHE, 2, 0),
        (2 * TOKEN, 0, 1),
        (CACHE, 1, 0),
        (2 * TOKEN, 0, 2),
        (CACHE, 2, 0),
        (2 * TOKEN, 0, 1),
    ];
    assert_eq!(found, steps);
}

/// The action that copies an object out and leaves it where it is.
fn prefetch_to(object: ObjectId, to: TierId) -> Action {
    Action::Prefetch { object, to }
}

/// Bytes that OPT-175B sends out of HBM per step, with its cache in the host's memory: 2 batches of
/// 2 sequences, a decode step each.
fn sent_out(mode: &str) -> u64 {
    let mode = format!("generate(prompt: 256, tokens: 2, batch: 2, batches: 2, {mode})");
    let scenario = shipped_scenario("opt-175b-t4", &[("workload.mode", &mode)]);
    let record = record(&scenario, Options::default());
    let result = record.results.iter().find(|result| result.label == "half in DRAM, ahead");
    let figures = result.expect("the case").outcome.figures().expect("it fits");
    figures.moved[1].get() / figures.steps.len() as u64
}

/// Per layer and sequence keys and values of 96 heads of 128 numbers of 2 bytes.
#[test]
fn a_decode_step_writes_the_keys_and_values_of_its_tokens_and_a_block_is_a_detail() {
    let step = 2 * 2 * 96 * 2 * (96 * 128) * 2;
    assert_eq!(sent_out("prefill: false"), step, "in one object per layer and batch");
    // One block holds all positions there are.
    assert_eq!(sent_out("prefill: false, kv_block: 512"), step, "in a large block");
    // The last block is born with room for both tokens: its first way out takes both, and the
    // second token is of the last step, after which nobody reads it.
    assert_eq!(sent_out("prefill: false, kv_block: 64"), step, "in blocks");
    // The block of the last step's token is not read again, so only one of the two goes out.
    assert_eq!(sent_out("prefill: false, kv_block: 1"), step / 2, "in an object of its own");
}
