//! The simulated machine and the host's memory do the same work for the same plan.
//!
//! Every body here runs on both, and on both behind a wrapper with another legal timing.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Mode;
use tiersim_policies::command::Hazard;
use tiersim_policies::policy::{Action, Policy};
use tiersim_tests::build::{Traced, hardware, law};
use tiersim_tests::real::{Outcome, careless, failing, on_host, on_sim, options};
use tiersim_tests::scripted::Scripted;
use tiersim_tests::world::World;
use tiersim_validation::fault::Fault;
use tiersim_validation::faulty::{Failure, FaultyFault};
use tiersim_validation::options::{Delay, Live, Options};
use tiersim_validation::truth::{Found, Mismatch};

/// Objects of 64 bytes to 64 KiB, ops of up to 20 us.
const BYTES: u64 = 64;
const TIME: u64 = 100_000;
const WORLDS: u64 = 120;

const DRAM: TierId = TierId(1);
const NVME: TierId = TierId(2);

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Runs a body's world everywhere and gives every outcome to its check.
fn everywhere(world: &World, make: &dyn Fn() -> Box<dyn Policy>, check: impl Fn(&Outcome)) -> bool {
    let plain = on_sim(world, make, None);
    let options = options(scratch());
    let others = [
        ("simulator, late", on_sim(world, make, Some(1))),
        ("host", on_host(world, make, &options, None)),
        ("host, late", on_host(world, make, &options, Some(2))),
    ];
    let Some(plain) = plain else {
        assert!(others.iter().all(|(_, outcome)| outcome.is_none()), "it fits on some only");
        return false;
    };
    check(&plain);
    for (what, other) in others {
        let other = other.unwrap_or_else(|| panic!("{what}: it fits on the simulator only"));
        plain.assert_same(&other, what);
        check(&other);
    }
    true
}

#[test]
fn random_worlds_are_the_same_everywhere() {
    let mut ran = 0;
    for seed in 0..WORLDS {
        let world = World::scaled(seed, BYTES, TIME);
        ran += u64::from(everywhere(&world, &|| world.chaos(), |_| {}));
    }
    assert!(ran > WORLDS / 3, "only {ran} of {WORLDS} worlds fit: the test means little");
}

#[test]
fn how_links_serve_is_nothing_to_decisions_bytes_and_contents() {
    let mut ran = 0;
    for seed in 0..WORLDS / 4 {
        let mut world = World::scaled(seed, BYTES, TIME);
        for link in &mut world.hardware.links {
            let total = Some(link.fetch.rate.max(link.evict.rate));
            let discipline = Discipline::FairShare;
            link.service = Some(Service { discipline, total, ..Service::default() });
        }
        ran += u64::from(everywhere(&world, &|| world.chaos(), |_| {}));
    }
    assert!(ran > WORLDS / 12, "only {ran} of {} worlds fit", WORLDS / 4);
}

/// HBM, DRAM and NVMe in a chain, chunks of 16 KiB.
fn chain() -> Hardware {
    let law = law(0, 10_000_000_000);
    let far = Bytes::mib(64);
    let tiers = [(TierKind::Hbm, far, law), (TierKind::Dram, far, law), (TierKind::Nvme, far, law)];
    let mut chain = hardware(&tiers, &[(0, 1, law), (1, 2, law)]);
    chain.chunk = Bytes::new(16 << 10);
    chain
}

const KIB: u64 = 1 << 10;

/// A world of ops of 50 us and its script.
fn scripted(
    bytes: &[u64],
    start: &[TierId],
    ops: &[&[(usize, Mode)]],
    script: &[(usize, Action)],
) -> (World, impl Fn() -> Box<dyn Policy> + use<>) {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = bytes.iter().map(|&b| traced.object(b, true)).collect();
    let span = Span::from_us(50);
    for uses in ops {
        let uses: Vec<_> = uses.iter().map(|&(object, mode)| (objects[object], mode)).collect();
        traced.op(0, 0, span, &uses);
    }
    let mut by_op = vec![Vec::new(); ops.len()];
    script.iter().for_each(|&(op, action)| by_op[op].push(action));
    let start = start.to_vec();
    let make = move || -> Box<dyn Policy> {
        Box::new(Scripted { start: start.clone(), script: by_op.clone() })
    };
    (World::of(chain(), traced.0, vec![span; ops.len()]), make)
}

fn moved(outcome: &Outcome) -> Vec<u64> {
    outcome.moved.iter().map(|bytes| bytes.get()).collect()
}

#[test]
fn what_was_written_is_written_back_and_comes_back_new() {
    let object = ObjectId(0);
    let script = [
        (1, Action::Evict { object, from: HBM, to: DRAM }),
        (2, Action::Fetch { object, to: HBM }),
    ];
    let ops: [&[_]; 3] = [&[(0, Mode::ReadWrite)], &[(1, Mode::Read)], &[(0, Mode::ReadWrite)]];
    let (world, make) = scripted(&[40 * KIB, KIB], &[HBM, HBM], &ops, &script);
    everywhere(&world, &make, |outcome| {
        assert_eq!(moved(outcome), [40 * KIB, 40 * KIB, 0, 0]);
        assert_eq!(outcome.residents[0], (object, HBM, true));
        // The room of stale contents is kept for the next write-back.
        assert_eq!(outcome.residents[1], (object, DRAM, false));
    });
}

#[test]
fn what_was_only_read_is_dropped_without_a_copy() {
    let object = ObjectId(0);
    let script = [
        (0, Action::Fetch { object, to: HBM }),
        (1, Action::Evict { object, from: HBM, to: DRAM }),
    ];
    let ops: [&[_]; 2] = [&[(0, Mode::Read)], &[(1, Mode::Read)]];
    let (world, make) = scripted(&[20 * KIB, KIB], &[DRAM, HBM], &ops, &script);
    everywhere(&world, &make, |outcome| {
        assert_eq!(moved(outcome), [20 * KIB, 0, 0, 0]);
        assert_eq!(outcome.residents[0], (object, DRAM, true));
    });
}

#[test]
fn double_buffering_ends_in_order() {
    // Eight objects through room for all; each is fetched one op before its use.
    let ops: Vec<Vec<_>> = (0..8).map(|op| vec![(op, Mode::Read)]).collect();
    let ops: Vec<&[_]> = ops.iter().map(Vec::as_slice).collect();
    let fetch = |object: u32, op| (op, Action::Prefetch { object: ObjectId(object), to: HBM });
    let mut script = vec![fetch(0, 0)];
    script.extend((1..8).map(|object| fetch(object, object as usize - 1)));
    script.extend((1..8u32).map(|op| {
        let object = ObjectId(op - 1);
        (op as usize, Action::Evict { object, from: HBM, to: DRAM })
    }));
    let (world, make) = scripted(&[64 * KIB; 8], &[DRAM; 8], &ops, &script);
    everywhere(&world, &make, |outcome| {
        assert!(outcome.ends.is_sorted());
        assert_eq!(moved(outcome), [8 * 64 * KIB, 0, 0, 0]);
    });
}

#[test]
fn copies_over_several_links_arrive_whole() {
    let object = ObjectId(0);
    // Neither a multiple of the chunk nor of a page.
    let bytes = 100_001;
    let script = [
        (0, Action::Fetch { object, to: HBM }),
        (1, Action::Evict { object, from: HBM, to: NVME }),
        (2, Action::Fetch { object, to: HBM }),
    ];
    let ops: [&[_]; 3] = [&[(0, Mode::ReadWrite)], &[(1, Mode::Read)], &[(0, Mode::Read)]];
    let (world, make) = scripted(&[bytes, KIB], &[NVME, HBM], &ops, &script);
    everywhere(&world, &make, |outcome| {
        assert_eq!(moved(outcome), [2 * bytes, bytes, 2 * bytes, bytes]);
    });
}

#[test]
fn use_in_place_moves_nothing_and_costs_its_delay() {
    let object = ObjectId(0);
    let bytes = Bytes::mib(1);
    let script = [
        (0, Action::InPlace { object }),
        // At 10 GB/s: 105 us.
        (0, Action::Charge { tier: NVME, bytes }),
    ];
    let ops: [&[_]; 1] = [&[(0, Mode::ReadWrite)]];
    let (world, make) = scripted(&[48 * KIB], &[NVME], &ops, &script);
    everywhere(&world, &make, |outcome| {
        assert_eq!(moved(outcome), [0; 4]);
        assert!(outcome.ends[0].ps() >= Span::from_us(150).ps());
    });
}

/// In how many of 400 worlds a wrong pattern shows that edges of one kind are missing. Room that
/// is missing does not count.
fn shown(without: Hazard) -> usize {
    let most = Span::from_us(150);
    let wrong = |&seed: &u64| {
        let world = World::scaled(seed, BYTES, TIME);
        let options = Options { delay: Some(Delay { seed, most }), ..options(scratch()) };
        let truth = careless(&world, &|| world.chaos(), without, &options);
        let stale = |mismatch: &Mismatch| mismatch.found != Found::NoRoom;
        truth.is_some_and(|truth| truth.first.iter().any(stale))
    };
    (0..400).filter(wrong).count()
}

#[test]
fn with_all_edges_the_same_delays_show_nothing() {
    let most = Span::from_us(150);
    let ran = |&seed: &u64| {
        let world = World::scaled(seed, BYTES, TIME);
        let options = Options { delay: Some(Delay { seed, most }), ..options(scratch()) };
        // Panics if any contents are wrong.
        on_host(&world, &|| world.chaos(), &options, Some(seed)).is_some()
    };
    assert!((0..WORLDS).filter(ran).count() as u64 > WORLDS / 3);
}

#[test]
fn contents_show_a_missing_arrival_edge() {
    let shown = shown(Hazard::Arrival);
    println!("{shown} worlds");
    assert!(shown > 20);
}

#[test]
fn contents_show_a_missing_last_use_edge() {
    let shown = shown(Hazard::LastUse);
    println!("{shown} worlds");
    assert!(shown > 20);
}

#[test]
fn contents_show_a_missing_write_back_edge() {
    let shown = shown(Hazard::WriteBack);
    println!("{shown} worlds");
    assert!(shown > 20);
}

fn assert_all_given_back(live: &Live, what: &str) {
    assert_eq!(live.rooms.load(Relaxed), 0, "{what}: rooms");
    assert_eq!(live.threads.load(Relaxed), 0, "{what}: threads");
}

/// Fails the first, the second, ... of something until nothing is left to fail.
fn fail_each(failure: fn(u64) -> Failure) {
    let folder = scratch().join(format!("fail-{:?}", failure(0)).replace(['(', ')'], "-"));
    let mut options = options(&folder);
    let object = ObjectId(0);
    let script = [
        (0, Action::Fetch { object, to: HBM }),
        (1, Action::Evict { object, from: HBM, to: NVME }),
        (2, Action::Fetch { object, to: HBM }),
        (3, Action::Fetch { object: ObjectId(1), to: HBM }),
    ];
    let other: [&[_]; 2] = [&[(0, Mode::ReadWrite)], &[(2, Mode::Read)]];
    let ops = [other[0], other[1], other[0], &[(1, Mode::Read)]];
    let (world, make) = scripted(&[100_000, KIB, KIB], &[NVME, DRAM, HBM], &ops, &script);
    for on_worker in [false, true] {
        let mut failed = 0;
        for n in 1.. {
            options.fail = on_worker.then(|| failure(n));
            let at_submission = if on_worker { Failure::Copy(0) } else { failure(n) };
            let result = failing(&world, &make, &options, at_submission);
            assert_all_given_back(&options.live, &format!("{:?}", failure(n)));
            let left = std::fs::read_dir(&folder).expect("the folder is there").count();
            assert_eq!(left, 0, "files are left behind");
            match result {
                Ok(()) => break,
                Err(
                    FaultyFault::Injected(found) | FaultyFault::Machine(Fault::Injected(found)),
                ) => {
                    assert_eq!(found, failure(n));
                }
                Err(other) => panic!("{other}"),
            }
            failed = n;
        }
        assert!(failed >= 3, "only {failed} failures were tried");
    }
}

#[test]
fn a_failed_allocation_is_a_clean_error_and_everything_is_given_back() {
    fail_each(Failure::Allocation);
}

#[test]
fn a_failed_copy_is_a_clean_error_and_everything_is_given_back() {
    fail_each(Failure::Copy);
}
