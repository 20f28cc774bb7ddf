//! Bytes that must cross a border, against every way to keep bytes.
//!
//! The linear programs have rows of consecutive ones, so a best solution keeps whole bytes: trying
//! every number of bytes for every interval of a small instance is a solver. The intervals and
//! limits are written down here a second time, from the definitions.

use tiersim_policies::bound::{Crossing, crossing};
use tiersim_tests::prelude::*;
use tiersim_tests::world::uses;

/// Bytes, and the moments at which they count: 2 k + 1 is op k, 2 k the moment before it.
struct Interval {
    bytes: u64,
    moments: Vec<usize>,
}

/// The most bytes that fit under the limits, by trying all.
fn most(intervals: &[Interval], room: &mut Vec<u64>) -> u64 {
    let Some((first, rest)) = intervals.split_first() else { return 0 };
    let mut best = 0;
    for kept in 0..=first.bytes {
        if first.moments.iter().any(|&moment| room[moment] < kept) {
            break;
        }
        first.moments.iter().for_each(|&moment| room[moment] -= kept);
        best = best.max(kept + most(rest, room));
        first.moments.iter().for_each(|&moment| room[moment] += kept);
    }
    best
}

/// The same count for the first replay, by trying all.
fn tried(workload: &Workload, capacity: u64) -> Crossing {
    let trace = &workload.trace;
    let ops = trace.ops.len();
    let uses = |object: ObjectId| -> Vec<(usize, Mode)> {
        let at = |op: usize| {
            let mut uses = trace.uses_of(OpId::at(op)).iter();
            uses.find(|touched| touched.object == object).map(|touched| (op, touched.mode))
        };
        (0..ops).filter_map(at).collect()
    };
    let (mut inward, mut outward) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let own = |op: usize| -> u64 {
        trace
            .uses_of(OpId::at(op))
            .iter()
            .map(|t| trace.objects[t.object.index()].bytes.get())
            .sum()
    };
    // Own bytes of an op, less those of objects whose written contents pass through it.
    let mut ending: Vec<u64> = (0..ops).map(own).collect();
    for (index, object) in trace.objects.iter().enumerate() {
        let (uses, bytes) = (uses(ObjectId::at(index)), object.bytes.get());
        let between = |from: usize, to: usize| (from..to).map(|op| 2 * op + 1).collect();
        let starts: Option<Option<usize>> = object.persistent.then_some(None);
        let befores = starts.into_iter().chain(uses.iter().map(|use_| Some(use_.0)));
        let skipped = usize::from(!object.persistent);
        for (before, &(after, _)) in befores.zip(uses.iter().skip(skipped)) {
            let start = || if before.is_none() { vec![0] } else { Vec::new() };
            let (open, half) = (before.map_or(0, |op| op + 1), before.unwrap_or(0));
            let rows = |from: usize| -> Vec<usize> {
                let inner: Vec<usize> = between(from, after);
                start().into_iter().chain(inner).collect()
            };
            inward[0].push(Interval { bytes, moments: rows(open) });
            inward[1].push(Interval { bytes, moments: rows(half) });
        }
        for (position, &(write, _)) in uses.iter().enumerate().filter(|(_, u)| u.1.writes()) {
            let later = &uses[position + 1..];
            let next = later.iter().find(|later| later.1.writes()).map(|later| later.0);
            // What persists is written again one replay later, beyond the window.
            let last = if object.persistent { None } else { later.last().map(|later| later.0) };
            let end = next.or(last);
            let through = later.iter().take_while(|later| end.is_none_or(|end| later.0 < end));
            through.for_each(|later| ending[later.0] -= bytes);
            if let Some(end) = end.filter(|end| *end > write) {
                outward[0].push(Interval { bytes, moments: between(write + 1, end) });
                outward[1].push(Interval { bytes, moments: between(write, end) });
            }
        }
    }
    let room = |taken: &dyn Fn(usize) -> u64| -> Vec<u64> {
        let moments = (0..2 * ops).map(|moment| match moment % 2 {
            1 => capacity.saturating_sub(taken(moment / 2)),
            _ => capacity,
        });
        moments.collect()
    };
    let lost = |intervals: &[Interval], mut room: Vec<u64>| {
        let all: u64 = intervals.iter().map(|interval| interval.bytes).sum();
        u128::from(all - most(intervals, &mut room))
    };
    let none = |_: usize| 0;
    let unread = trace.objects.iter().enumerate().map(|(index, object)| {
        let uses = uses(ObjectId::at(index));
        let there = uses.iter().skip(usize::from(!object.persistent));
        let unread = there.filter(|(_, mode)| !mode.reads()).count();
        u128::from(object.bytes.get()) * unread as u128
    });
    Crossing {
        strict: [lost(&inward[0], room(&own)), lost(&outward[0], room(&|op| ending[op]))],
        loose: [lost(&inward[1], room(&none)), lost(&outward[1], room(&none))],
        in_place: (0..ops).map(|op| u128::from(own(op).saturating_sub(capacity))).sum(),
        unread: unread.sum(),
    }
}

fn workload(rng: &mut ChaCha12Rng) -> Workload {
    let mut traced = Traced::new();
    for _ in 0..rng.random_range(1..=4) {
        traced.object(rng.random_range(1..=3), rng.random_bool(0.6));
    }
    let mut exists: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    for _ in 0..rng.random_range(2..=6) {
        let draws = rng.random_range(1..=2);
        let used = uses(rng, draws, &mut exists, &[Mode::Read, Mode::ReadWrite, Mode::Write]);
        traced.op(0, 0, Span::ZERO, &used);
    }
    assert!(traced.0.problems().is_empty(), "a legal trace");
    Workload::new(traced.0)
}

#[test]
fn the_count_is_the_best_of_all_ways_to_keep_bytes() {
    let mut rng = ChaCha12Rng::seed_from_u64(11);
    let mut crossed = [0; 6];
    for instance in 0..5000 {
        let workload = workload(&mut rng);
        let all: u64 = workload.trace.objects.iter().map(|object| object.bytes.get()).sum();
        let capacity = rng.random_range(1..=all);
        let ops = workload.trace.ops.len() as u64;
        let found = crossing(&workload, capacity, 0, ops);
        assert_eq!(found, tried(&workload, capacity), "instance {instance}");
        let Crossing { strict, loose, in_place, unread } = found;
        let counts = [strict[0], strict[1], loose[0], loose[1], in_place, unread];
        for (some, count) in crossed.iter_mut().zip(counts) {
            *some += u32::from(count > 0);
        }
    }
    assert_eq!(crossed, [2372, 1231, 2463, 1437, 2264, 3696], "instances that have some");
}

/// Fewest fetches of single units into a cache of so many, over all contents at every moment.
fn fewest(order: &[usize], objects: usize, capacity: u32) -> u32 {
    let never = u32::MAX / 2;
    // By set of objects in the cache; any set is free at the start.
    let mut costs: Vec<u32> = (0..1u32 << objects)
        .map(|set| if set.count_ones() <= capacity { 0 } else { never })
        .collect();
    for &object in order {
        let mut next = vec![never; costs.len()];
        for (set, &cost) in costs.iter().enumerate().filter(|(_, cost)| **cost < never) {
            let with = set | 1 << object;
            let fetched = cost + u32::from(with != set);
            // Anything may leave before and after, but for the object itself.
            for (left, best) in next.iter_mut().enumerate() {
                if left & !with == 0 && left >> object & 1 == 1 && left.count_ones() <= capacity {
                    *best = fetched.min(*best);
                }
            }
        }
        costs = next;
    }
    costs.into_iter().min().unwrap_or(never)
}

#[test]
fn belady_is_optimal_for_unit_sizes() {
    let mut rng = ChaCha12Rng::seed_from_u64(12);
    let mut total = 0;
    for instance in 0..3000 {
        let objects = rng.random_range(1..=5);
        let capacity = rng.random_range(1..=objects);
        let order: Vec<usize> =
            (0..rng.random_range(1..=14)).map(|_| rng.random_range(0..objects)).collect();
        let mut traced = Traced::new();
        let ids: Vec<ObjectId> = (0..objects).map(|_| traced.object(1, true)).collect();
        for &object in &order {
            traced.op(0, 0, Span::ZERO, &[(ids[object], Mode::Read)]);
        }
        let found = crossing(&Workload::new(traced.0), capacity as u64, 0, order.len() as u64);
        let best = fewest(&order, objects, capacity as u32);
        assert_eq!(found.strict[0], u128::from(best), "instance {instance}: {order:?}, {capacity}");
        assert_eq!(found.strict[1], 0, "nothing is written");
        total += best;
    }
    assert_eq!(total, 4227, "fetches in all instances");
}
