//! Demand paging under every replacement algorithm: bytes worked out by hand, the same misses as
//! the block-level cache, and what writing through costs and saves.

use tiersim_policies::planner::Counts;
use tiersim_policies::replacement::{Cache, NEVER, Outcome, Replacement, Visit};
use tiersim_policies::zoo::demand::Write;
use tiersim_tests::prelude::*;

/// Those that a scenario can name.
const ALGORITHMS: [Algorithm; 11] = [
    Algorithm::Arc,
    Algorithm::Belady,
    Algorithm::Clock,
    Algorithm::Fifo,
    Algorithm::Lfu,
    Algorithm::LirsPaper,
    Algorithm::Lru,
    Algorithm::S3Fifo,
    Algorithm::Sieve,
    Algorithm::Slru,
    Algorithm::TwoQ,
];

/// Bytes moved in, bytes moved out, and the commands, op by op.
struct Told {
    fetched: u64,
    written: u64,
    by_op: Vec<Vec<Command>>,
}

fn plan(
    workload: &Workload,
    hbm: u64,
    repeat: u32,
    algorithm: Algorithm,
    write: Write,
) -> Result<Told, String> {
    let hardware = two_tiers(Bytes::new(hbm), law(0, 1));
    let config = DemandConfig { algorithm, spill: vec![FAR], write };
    tell(&World::recorded(hardware, workload.trace.clone(), repeat), config)
}

fn tell(world: &World, config: DemandConfig) -> Result<Told, String> {
    let policy = policy_of(world, &config.into())?;
    let mut planner = world.planner(policy).map_err(|error| error.to_string())?;
    let mut told = Told { fetched: 0, written: 0, by_op: Vec::new() };
    let mut commands = Vec::new();
    while planner.plan_next(&mut commands).map_err(|error| error.to_string())? {
        for command in &commands {
            match command.work {
                Work::Copy { to: HBM, bytes, .. } => told.fetched += bytes.get(),
                Work::Copy { bytes, .. } => told.written += bytes.get(),
                _ => {}
            }
        }
        told.by_op.push(std::mem::take(&mut commands));
    }
    Ok(told)
}

/// Each op uses one object.
fn one_by_one(sizes: &[u64], references: &[(u32, Mode)]) -> Workload {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = sizes.iter().map(|&bytes| traced.object(bytes, true)).collect();
    for &(object, mode) in references {
        traced.op(0, 0, Span::ZERO, &[(objects[object as usize], mode)]);
    }
    Workload::new(traced.0)
}

struct Misses<'a> {
    references: &'a [(u32, Mode)],
    capacity: u64,
}

impl Visit for Misses<'_> {
    type Out = u64;

    fn visit<R: Replacement + 'static>(self, rule: R) -> u64 {
        let mut cache = Cache::unit(rule, self.capacity);
        let mut missed = 0;
        for (at, &(id, _)) in self.references.iter().enumerate() {
            let later = self.references[at + 1..].iter().position(|(other, _)| *other == id);
            let next = later.map_or(NEVER, |ahead| (at + 1 + ahead) as u64);
            missed += u64::from(cache.access_knowing(id, 1, next) == Outcome::Miss);
        }
        missed
    }
}

fn references(rng: &mut ChaCha12Rng, objects: u32, ops: usize) -> Vec<(u32, Mode)> {
    let one = |_| {
        let object = rng.random_range(0..objects);
        let skewed = if rng.random_bool(0.5) { object } else { object / 3 };
        (skewed, if rng.random_bool(0.4) { Mode::ReadWrite } else { Mode::Read })
    };
    (0..ops).map(one).collect()
}

#[test]
fn unit_sizes_miss_as_often_as_the_block_level_cache() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    for algorithm in ALGORITHMS {
        for round in 0..100 {
            // From 20 on nothing is refused by any; a multiple of 4, so that segments fill it.
            let capacity = 4 * rng.random_range(5..10);
            let objects = rng.random_range(2..80);
            let references = references(&mut rng, objects, 300);
            let workload = one_by_one(&vec![1; objects as usize], &references);
            let told = plan(&workload, capacity, 1, algorithm, Write::Back).expect("it fits");
            let expected = algorithm.with(capacity, Misses { references: &references, capacity });
            assert_eq!(told.fetched, expected, "{algorithm:?}, round {round}");
        }
    }
}

#[test]
fn bytes_by_hand() {
    use Mode::{Read, ReadWrite};
    // HBM of 5: a (2) and b (3) fill it.
    let sizes = [2, 3, 4];
    let references =
        [(0, ReadWrite), (1, Read), (0, Read), (2, Read), (1, Read), (0, Read), (2, Read)];
    let workload = one_by_one(&sizes, &references);
    let moved = |algorithm, write| {
        let told = plan(&workload, 5, 1, algorithm, write).expect("it fits");
        (told.fetched, told.written)
    };
    // a b | c for both, a written | b for c | a | c for both.
    assert_eq!(moved(Algorithm::Lru, Write::Back), (2 + 3 + 4 + 3 + 2 + 4, 2));
    // c drives out both whatever the order, so all agree on what comes and goes.
    for algorithm in ALGORITHMS {
        assert_eq!(moved(algorithm, Write::Back), (18, 2), "{algorithm:?}");
        assert_eq!(moved(algorithm, Write::Through), (18, 2), "{algorithm:?}");
    }

    // HBM of 3 and unit sizes: first in goes first, though it was used last; Belady keeps it.
    let references = [(0, Read), (1, Read), (2, Read), (0, Read), (3, Read), (0, Read), (1, Read)];
    let workload = one_by_one(&[1; 4], &references);
    let fetched = |algorithm| plan(&workload, 3, 1, algorithm, Write::Back).expect("fits").fetched;
    assert_eq!(fetched(Algorithm::Fifo), 6);
    assert_eq!(fetched(Algorithm::Lru), 5);
    assert_eq!(fetched(Algorithm::Clock), 5);
    assert_eq!(fetched(Algorithm::Belady), 4);
}

#[test]
fn writing_through_fetches_the_same_and_writes_at_least_as_much() {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    let mut more = 0;
    for algorithm in ALGORITHMS {
        for round in 0..60 {
            let sizes: Vec<u64> = (0..12).map(|_| rng.random_range(1..=6)).collect();
            let references = references(&mut rng, 12, 150);
            let workload = one_by_one(&sizes, &references);
            let hbm = rng.random_range(6..30);
            let [back, through] = [Write::Back, Write::Through]
                .map(|write| plan(&workload, hbm, 2, algorithm, write).expect("it fits"));
            assert_eq!(back.fetched, through.fetched, "{algorithm:?}, round {round}");
            assert!(through.written >= back.written, "{algorithm:?}, round {round}");
            more += usize::from(through.written > back.written);
        }
    }
    assert_eq!(more, 660, "runs in which writing through wrote more");
}

/// Written once per change, right behind the op that made it; nothing is written to make room.
#[test]
fn what_was_written_through_leaves_for_nothing() {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    for algorithm in ALGORITHMS {
        let references = references(&mut rng, 12, 200);
        let workload = one_by_one(&[2; 12], &references);
        let told = plan(&workload, 8, 1, algorithm, Write::Through).expect("it fits");
        for (at, commands) in told.by_op.iter().enumerate().skip(1) {
            let (changed, mode) = references[at - 1];
            let mut copied: BTreeMap<u32, u32> = BTreeMap::new();
            for command in commands {
                if let Work::Copy { object, to: FAR, .. } = command.work {
                    *copied.entry(object.0).or_default() += 1;
                }
            }
            let expected = if mode.writes() { vec![(changed, 1)] } else { Vec::new() };
            assert_eq!(copied.into_iter().collect::<Vec<_>>(), expected, "{algorithm:?}, op {at}");
        }
    }
}

/// What is written through must never take the room that write-back needs: beside it, all of HBM
/// must still fit where it goes.
#[test]
fn writing_through_leaves_room_for_all_of_hbm() {
    const HBM_BYTES: u64 = 200;
    let written = |far: u64, changed: usize| {
        let mut traced = Traced::new();
        // Born in HBM, so that they have no room elsewhere yet.
        let born: Vec<ObjectId> = (0..changed).map(|_| traced.object(100, false)).collect();
        for mode in [Mode::Write, Mode::Read] {
            let uses: Vec<(ObjectId, Mode)> = born.iter().map(|&object| (object, mode)).collect();
            traced.op(0, 0, Span::ZERO, &uses);
        }
        let mut hardware = two_tiers(Bytes::new(HBM_BYTES), law(0, 1));
        hardware.tiers[FAR.index()].capacity = Bytes::new(far).into();
        let world = World::recorded(hardware, traced.0, 1);
        let config = DemandConfig { write: Write::Through, ..DemandConfig::lru(vec![FAR]) };
        tell(&world, config).expect("it fits").written
    };
    assert_eq!([written(299, 1), written(300, 1)], [0, 100]);
    // Of two changed at once the second finds what the first has taken.
    assert_eq!([written(299, 2), written(399, 2), written(400, 2)], [0, 100, 200]);
}

#[test]
fn hits_and_misses_are_counted_from_the_op_that_is_named_on() {
    let references = [0, 1, 0, 2, 0, 1].map(|object| (object, Mode::Read));
    let workload = one_by_one(&[1; 3], &references);
    // HBM holds two: at first none, and at the end of a replay those that its next one begins with.
    let hits =
        [[false, false, true, false, true, false], [true, true, true, false, true, false]].concat();
    let world = World::recorded(two_tiers(Bytes::new(2), law(0, 1)), workload.trace, 2);
    for from in 0..=hits.len() {
        let policy = policy_of(&world, &DemandConfig::lru(vec![FAR]).into()).expect("it is built");
        let mut planner = world.planner(policy).expect("it fits");
        planner.count_from(from as u64);
        while planner.plan_next(&mut Vec::new()).expect("it fits") {}
        let hit = hits[from..].iter().filter(|hit| **hit).count() as u64;
        let expected = Counts { hits: hit, misses: (hits.len() - from) as u64 - hit };
        assert_eq!(planner.counts(), expected, "from {from}");
    }
}

/// Births, releases, several streams, and a second tier that just holds what LRU puts there.
#[test]
fn every_algorithm_and_way_to_write_fits_where_lru_with_write_back_fits() {
    let mut held = 0;
    for seed in 0..400 {
        let world = World::new(seed).repeated(2);
        let tiers = world.hardware.tiers.len();
        if tiers < 2 {
            continue;
        }
        let spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
        let fits = |algorithm, write| {
            tell(&world, DemandConfig { algorithm, spill: spill.clone(), write }).map(|_| ())
        };
        if fits(Algorithm::Lru, Write::Back).is_err() {
            continue;
        }
        held += 1;
        for algorithm in ALGORITHMS {
            for write in [Write::Back, Write::Through] {
                let fit = fits(algorithm, write);
                assert!(fit.is_ok(), "seed {seed}, {algorithm:?}, {write:?}: {fit:?}");
            }
        }
    }
    assert_eq!(held, 185, "worlds that fit");
}
