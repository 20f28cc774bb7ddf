//! What must follow when memory or links change, where that is a theorem.
//!
//! The bound never falls when memory or a link's rate falls, and neither does the best schedule:
//! every plan of the smaller machine is one of the larger, and links that serve in order make no
//! end earlier by being slower. Of policies only some obey such laws: LRU does where ops only read
//! one object each, as what it holds is always the newest part of the order of uses, for any sizes.
//! Plans on links that take whoever is ready do not: see the golden case.

use tiersim_policies::replacement::Lru;
use tiersim_policies::zoo::demand::executor::Demand;
use tiersim_tests::exhaustive::{Tiny, search};
use tiersim_tests::prelude::*;

const WORLDS: u64 = 1500;
const ENDLESS: u32 = 1 << 30;

fn best(tiny: &Tiny) -> u32 {
    search(&tiny.machine, &tiny.workload, ENDLESS, false).ps
}

/// The same world with other memory and other tiers.
fn changed(tiny: &Tiny, hbm: usize, law: impl Fn(usize, Law) -> Law) -> Tiny {
    let machine = &tiny.machine;
    let law = |laws: [Law; 3]| [law(0, laws[0]), law(1, laws[1]), law(2, laws[2])];
    let tiers = machine.tiers.iter().map(|&laws| law(laws)).collect();
    Tiny::of(tiny.workload.trace.clone(), (hbm, machine.unit), tiers)
}

#[test]
fn less_memory_makes_neither_the_bound_nor_the_best_schedule_quicker() {
    let (mut bounds, mut schedules) = (0, 0);
    for seed in 0..WORLDS {
        let large = Tiny::new(seed);
        if large.machine.hbm == 1 {
            continue;
        }
        let small = changed(&large, large.machine.hbm - 1, |_, law| law);
        let (more, less) = (large.bound(false).ps, small.bound(false).ps);
        assert!(less >= more, "seed {seed}: {less} ps with less memory, {more} with more");
        bounds += u32::from(less > more);
        let (more, less) = (best(&large), best(&small));
        assert!(less >= more, "seed {seed}: best {less} ps with less memory, {more} with more");
        schedules += u32::from(less > more);
    }
    assert_eq!((bounds, schedules), (527, 590), "that changed");
}

#[test]
fn slower_links_make_neither_the_bound_nor_the_best_schedule_quicker() {
    let (mut bounds, mut schedules) = (0, 0);
    for seed in 0..WORLDS {
        let quick = Tiny::new(seed);
        let slower = |which: usize, law: Law| match which {
            2 => law,
            _ => Law { rate: Bandwidth::new(law.rate.get() / 2).expect("above zero"), ..law },
        };
        let slow = changed(&quick, quick.machine.hbm, slower);
        let (before, after) = (quick.bound(false).ps, slow.bound(false).ps);
        assert!(after >= before, "seed {seed}: {after} ps with slow links, {before} with quick");
        bounds += u32::from(after > before);
        let (before, after) = (best(&quick), best(&slow));
        assert!(after >= before, "seed {seed}: best {after} ps with slow links, {before} before");
        schedules += u32::from(after > before);
    }
    assert_eq!((bounds, schedules), (81, 351), "that changed");
}

#[test]
fn lru_fetches_no_more_bytes_with_more_memory_when_ops_only_read() {
    let mut fell = 0;
    for seed in 0..WORLDS {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut traced = Traced::new();
        let sizes: Vec<u64> = (0..4).map(|_| rng.random_range(1..=3)).collect();
        let objects: Vec<ObjectId> =
            sizes.iter().map(|&units| traced.object(units, true)).collect();
        for _ in 0..12 {
            let object = objects[rng.random_range(0..objects.len())];
            traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
        }
        // Ops take no time and a byte takes 1 ps, so the end says what was fetched.
        let byte = law(0, 1_000_000_000_000);
        let end = |units: usize| {
            let tiny = Tiny::of(traced.0.clone(), (units, 1), vec![[byte; 3]]);
            let lru = Demand::new(
                &DemandConfig::lru(vec![TierId(1)]),
                Lru::default(),
                objects.len(),
                None,
            );
            tiny.run(Box::new(lru), 1).expect("one object fits").0
        };
        let ends: Vec<u32> = (3..=8).map(end).collect();
        assert!(ends.is_sorted_by(|less, more| less >= more), "seed {seed}: {ends:?}");
        fell += u32::from(ends[0] > ends[5]);
    }
    assert_eq!(fell, 1472, "traces that fetched less");
}
