//! What allocators' work costs: compaction as a machine carries it out, with what waits for it and
//! what goes on beside it, and the time of a caching allocator.

use tiersim_models::allocator::{Costs, Model};
use tiersim_tests::prelude::*;

/// A tier of 14 MiB in which op 3 leaves a hole of 4 MiB in front of 4 MiB, and then two ops on two
/// streams: one that reads what moves, and one that does not.
fn beside(compaction: Compaction) -> (Vec<Time>, Bytes, Span) {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..3).map(|_| traced.object(4 << 20, false)).collect();
    let us = Span::from_us;
    for &object in &objects {
        traced.op(0, 0, us(1), &[(object, Mode::Write)]);
    }
    traced.op(0, 0, us(1), &[(objects[1], Mode::Read)]);
    traced.op(0, 1, us(10), &[(objects[0], Mode::Read)]);
    traced.op(0, 0, us(10), &[(objects[2], Mode::Read)]);
    // Both live on, so that nothing else is worth moving.
    traced.op(0, 0, us(1), &[(objects[0], Mode::Read), (objects[2], Mode::Read)]);
    let mut machine = two_tiers(Bytes::mib(14), law(0, 1_000_000_000));
    // 4 MiB at half of 8 MiB per millisecond.
    machine.tiers[0].access = law(0, 8 << 30);
    let spans = [1, 1, 1, 1, 10, 10, 1].map(us).to_vec();
    let world = World::of(machine, traced.0, spans);
    let policy = Box::new(StaticPlacement::all_in_hbm(&world.workload.trace));
    let spec = AllocatorSpec { model: Model::Pool, compaction: Some(compaction) };
    let planner = world.allocating(policy, &[spec]).expect("nothing is there at the start");
    let (ends, meters) = world.measured(planner, 1);
    let links = 2 * world.hardware.links.len();
    let (moved, busy, stall) = (meters.moved[links], meters.busy[links], meters.stall[links]);
    assert!(stall >= busy, "streams waited for it: {stall}");
    (ends.into_iter().map(Time::from_ps).collect(), moved, busy)
}

/// What moves in [`beside`], at half of the rate: each byte is read and written.
fn moved_together() -> (Bytes, Span) {
    (Bytes::mib(4), law(0, 4 << 30).span_of(Bytes::mib(4)))
}

#[test]
fn compaction_stops_the_world_or_goes_on_beside_who_uses_other_objects() {
    let us = |us: u64| Time::from_ps(us * 1_000_000);
    let (bytes, span) = moved_together();
    let set = |at_once| Compaction { above: 0.2, by: Fragmentation::External, at_once };
    let (stopped, moved, busy) = beside(set(None));
    assert_eq!((moved, busy), (bytes, span));
    assert_eq!(stopped[4..6], [us(4) + span + Span::from_us(10); 2], "both wait");
    let (incremental, moved, busy) = beside(set(Some(Bytes::mib(1))));
    assert_eq!((moved, busy), (bytes, span));
    assert_eq!(incremental[4], us(1) + Span::from_us(10), "it uses nothing that moves");
    assert_eq!(incremental[5], us(4) + span + Span::from_us(10), "what it uses moves");
}

#[test]
fn total_fragmentation_sets_it_off_above_its_own_threshold_and_the_moves_take_their_time() {
    // A hole of 4 MiB and 2 MiB behind all: a third is in pieces, and no block has a rest. Half of
    // that is fragmented in total.
    let set = |above| Compaction { above, by: Fragmentation::Total, at_once: None };
    let (bytes, span) = moved_together();
    assert_eq!(span.ps(), 976_562_500, "4 MiB at 4 GiB per second");
    let (ends, moved, busy) = beside(set(0.16));
    assert_eq!((moved, busy), (bytes, span));
    let us = |us: u64| Time::from_ps(us * 1_000_000);
    assert_eq!(ends[4..6], [us(4) + span + Span::from_us(10); 2], "both wait for all of it");
    let (ends, moved, busy) = beside(set(0.17));
    assert_eq!((moved, busy), (Bytes::ZERO, Span::ZERO));
    assert_eq!(ends[5], us(14), "nobody waits");
}

/// Ends of three ops that ask for 4, 4 and 22 MiB one after the other, where there are 24 MiB, and
/// the time that they waited for allocators.
fn asked_for(model: Model) -> ([u64; 3], Span) {
    let mut traced = Traced::new();
    for bytes in [4 << 20, 4 << 20, 22 << 20] {
        let object = traced.object(bytes, false);
        traced.op(0, 0, Span::from_us(20), &[(object, Mode::Write)]);
    }
    let machine = two_tiers(Bytes::mib(24), law(0, 1_000_000_000));
    let world = World::of(machine, traced.0, vec![Span::from_us(20); 3]);
    let policy = Box::new(StaticPlacement::all_in_hbm(&world.workload.trace));
    let spec = AllocatorSpec { model, compaction: None };
    let planner = world.allocating(policy, &[spec]).expect("nothing is there at the start");
    let (ends, meters) = world.measured(planner, 1);
    ([0, 1, 2].map(|op| ends[op] / 1_000_000), meters.allocating)
}

#[test]
fn a_caching_allocator_takes_the_time_that_was_measured_and_an_exact_one_none() {
    assert_eq!(asked_for(Model::Exact), ([20, 40, 60], Span::ZERO));
    let Costs { hit, split, take, give } = Costs::MEASURED;
    assert_eq!([hit, split, take, give].map(|span| span.ps() / 1_000_000), [4, 0, 335, 1389]);
    // The first asks for a segment of 20 MiB. The second is met from it, while the first runs. The
    // third needs a segment of its own, for which the cached one has to go.
    let (ends, waited) = asked_for(Model::Caching(CachingConfig::default()));
    let first = 4 + 335 + 20;
    assert_eq!(ends, [first, first + 20, first + 20 + 1389 + 335 + 20]);
    assert_eq!(waited, Span::from_us(4 + 335 + 1389 + 335));
    let costs = Costs::NONE;
    let free = asked_for(Model::Caching(CachingConfig { costs, ..CachingConfig::default() }));
    assert_eq!(free, asked_for(Model::Exact));
}
