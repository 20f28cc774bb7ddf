//! What must follow when an input changes in a known way, where that is a theorem.
//!
//! "More bandwidth is never slower" holds here because every resource serves in a fixed order:
//! streams and copy engines take commands as they were submitted, so every end is a maximum of
//! sums of durations. It is asserted only for copies over one link; over several links pieces of
//! different copies mix, and then it is no theorem.

use tiersim_tests::prelude::*;

const WORLDS: u64 = 3000;

fn run(world: &World) -> Option<Vec<Time>> {
    world.run(world.chaos(), None, 1000).expect("no rule is broken")
}

/// Worlds in which every copy goes over one link.
fn one_link_each() -> impl Iterator<Item = (u64, World)> {
    (0..WORLDS).map(|seed| (seed, World::new(seed))).filter(|(_, world)| {
        let routes = world.hardware.routes().expect("every tier is joined");
        let tiers: Vec<_> = world.hardware.tier_ids().collect();
        let pairs = tiers.iter().flat_map(|&a| tiers.iter().map(move |&b| (a, b)));
        pairs.into_iter().all(|(a, b)| routes.between(a, b).len() <= 1)
    })
}

fn every_law(world: &mut World, change: impl Fn(Law) -> Law) {
    for link in &mut world.hardware.links {
        link.read = change(link.read);
        link.write = change(link.write);
    }
    for tier in &mut world.hardware.tiers {
        tier.access = change(tier.access);
    }
}

#[test]
fn faster_links_end_no_op_later() {
    let mut compared = 0;
    for (seed, mut world) in one_link_each() {
        let Some(before) = run(&world) else { continue };
        every_law(&mut world, |law| Law {
            setup: Span::from_ps(law.setup.ps() / 2),
            rate: Bandwidth::new(law.rate.get() * 3).expect("above zero"),
        });
        let after = run(&world).expect("it fitted before");
        for (op, (before, after)) in before.iter().zip(&after).enumerate() {
            assert!(after <= before, "seed {seed}, op {op}: {before} became {after}");
        }
        compared += 1;
    }
    assert_eq!(compared, 425, "worlds compared");
}

#[test]
fn sizes_and_rates_scaled_together_change_no_time() {
    const K: u64 = 7;
    let mut compared = 0;
    for seed in 0..WORLDS / 3 {
        let mut world = World::new(seed);
        let Some(before) = run(&world) else { continue };
        every_law(&mut world, |law| Law {
            setup: law.setup,
            rate: Bandwidth::new(law.rate.get() * K).expect("above zero"),
        });
        world.hardware.chunk = Bytes::new(world.hardware.chunk.get() * K);
        for object in &mut world.workload.trace.objects {
            object.bytes = Bytes::new(object.bytes.get() * K);
        }
        for tier in &mut world.hardware.tiers {
            tier.capacity = tier.capacity.map(|bytes| bytes * K);
        }
        assert_eq!(run(&world), Some(before), "seed {seed}");
        compared += 1;
    }
    assert_eq!(compared, 455, "worlds compared");
}

#[test]
fn no_op_ends_before_its_own_work_and_that_of_its_stream_before_it() {
    for seed in 0..WORLDS / 3 {
        let world = World::new(seed);
        let Some(ends) = run(&world) else { continue };
        let ops = &world.workload.trace.ops;
        let mut busy = vec![Time::ZERO; usize::from(world.streams())];
        for (occurrence, &end) in ends.iter().enumerate() {
            let stream = usize::from(ops[occurrence % ops.len()].stream);
            let earliest = busy[stream] + world.durations.of(occurrence as u64);
            assert!(end >= earliest, "seed {seed}, op {occurrence}");
            busy[stream] = end;
        }
    }
}
