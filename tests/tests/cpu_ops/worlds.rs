//! Random worlds: every policy of the registry runs a trace with ops on the CPU without fault, and
//! none is out of memory where every op's objects fit.

use crate::cpu_ops::{BYTE, play};
use tiersim_tests::prelude::*;
use tiersim_tests::setting::turning;
use tiersim_tests::soak::drawn;
use tiersim_tests::world::uses;

fn trace(rng: &mut ChaCha12Rng) -> Trace {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..rng.random_range(1..12))
        .map(|_| {
            let (bytes, persists) = (rng.random_range(1..300), rng.random_bool(0.5));
            traced.object(bytes, persists)
        })
        .collect();
    for (index, &object) in objects.iter().enumerate() {
        traced.0.modules.push(format!("h.{index}").into());
        let mut score = || Some(f64::from(rng.random_range(0..5)));
        let statistics = Statistics { adam_m: score(), adam_v: score(), grad_norm: score() };
        let kind = ObjectKind::ALL[rng.random_range(0..ObjectKind::ALL.len())];
        let record = &mut traced.0.objects[object.index()];
        (record.module, record.statistics, record.kind) =
            (Some(ModuleId::at(index)), statistics, kind);
        record.history = turning(statistics);
    }
    let mut exists: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    let streams = rng.random_range(1..=3);
    let on_host = [0.2, 0.5, 1.0][rng.random_range(0..3)];
    for _ in 0..rng.random_range(1..30) {
        let draws = rng.random_range(0..4);
        let uses = uses(rng, draws, &mut exists, &[Mode::Read, Mode::ReadWrite, Mode::Write]);
        let span = Span::from_ps(rng.random_range(0..200));
        let id = traced.op(0, rng.random_range(0..streams), span, &uses);
        let op = &mut traced.0.ops[id.index()];
        op.unit = if rng.random_bool(on_host) { Unit::Cpu } else { Unit::Device };
    }
    // Without any the policies are alone.
    let some = rng.random_range(0..traced.0.ops.len());
    traced.0.ops[some].unit = Unit::Cpu;
    assert_eq!(traced.0.problems(), []);
    traced.0
}

/// Room for what any op uses at least, where it uses it; the last tier takes everything.
fn machine(rng: &mut ChaCha12Rng, trace: &Trace) -> Hardware {
    let most = |unit| {
        let ops = (0..trace.ops.len()).filter(|&op| trace.ops[op].unit == unit).map(OpId::at);
        let bytes = |op| {
            let uses = trace.uses_of(op).iter();
            uses.map(|touched| trace.objects[touched.object.index()].bytes.get()).sum::<u64>()
        };
        ops.map(bytes).max().unwrap_or(0).max(1)
    };
    let (hbm, host) = (most(Unit::Device), most(Unit::Cpu));
    let mut room = |least: u64| Bytes::new(least + [0, 0, 50, 300, 2000][rng.random_range(0..5)]);
    let mut tiers = vec![(TierKind::Hbm, room(hbm).into(), law(0, u64::MAX))];
    match rng.random_range(0..4) {
        0 => tiers.push((TierKind::Dram, Capacity::Unlimited, law(5, BYTE))),
        1 => tiers.push((TierKind::Cxl, Bytes::new(host + 100).into(), law(5, BYTE / 2))),
        2 => {
            tiers.push((TierKind::Cxl, Bytes::new(rng.random_range(1..300)).into(), law(5, BYTE)));
            tiers.push((TierKind::Dram, Bytes::new(host).into(), law(5, BYTE)));
        }
        _ => tiers.push((TierKind::Dram, Bytes::new(host).into(), law(5, BYTE))),
    }
    tiers.push((TierKind::Nvme, Capacity::Unlimited, law(20, BYTE / 4)));
    let links: Vec<_> = (1..tiers.len()).map(|far| (far - 1, far, law(3, BYTE / 2))).collect();
    hardware(&tiers, &links)
}

/// Runs a policy; `None` if its start does not fit.
fn run(seed: u64, what: &str, played: Result<Played, PlanError>) -> Option<Played> {
    match played {
        Ok(played) => Some(played),
        Err(PlanError::OutOfMemory { occurrence: None, .. }) => None,
        Err(error) => panic!("seed {seed}: {what}: {error}"),
    }
}

#[test]
fn every_policy_of_the_registry_serves_ops_on_the_host() {
    let (mut ran, mut refused) = (0, 0);
    let mut each = vec![0; zoo::ALL.len()];
    for seed in 0..1500 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let trace = trace(&mut rng);
        let machine = machine(&mut rng, &trace);
        let workload = Workload::new(trace);
        let repeat = rng.random_range(1..=3);
        let tiers: Vec<TierId> = machine.tier_ids().skip(1).collect();
        let lru = DemandConfig::lru(tiers).into();
        let played = run(seed, "lru", play(&machine, &workload, &lru, repeat));
        assert!(played.is_some(), "seed {seed}: demand paging has room for its start");
        for (index, entry) in zoo::ALL.iter().enumerate() {
            let drawn = drawn(entry, seed * 64 + index as u64, &workload.trace, &machine);
            let Some(config) = drawn else { continue };
            let played = play(&machine, &workload, &config, repeat);
            // A policy that keeps to the tiers that it names may have no room in them.
            let full = matches!(played, Err(PlanError::OutOfMemory { .. }));
            let keeps_to_them = ["ZeroOffload", "DeviceMap", "Percentages"];
            if full && keeps_to_them.contains(&entry.spelling) {
                refused += 1;
                continue;
            }
            let played = run(seed, &format!("{config:?}"), played);
            let Some(played) = played else {
                refused += 1;
                continue;
            };
            ran += 1;
            each[index] += 1;
            for (op, used) in played.used.iter().enumerate() {
                if workload.trace.ops[op % workload.trace.ops.len()].unit == Unit::Cpu {
                    let host = [TierKind::Dram, TierKind::Cxl];
                    let kinds = used.iter().map(|(_, tier)| machine.tiers[tier.index()].kind);
                    assert!(kinds.into_iter().all(|kind| host.contains(&kind)), "seed {seed}");
                }
            }
        }
    }
    assert!(each.iter().all(|&runs| runs > 20), "{each:?}");
    assert_eq!((ran, refused), (42189, 4580), "runs, and starts that do not fit");
}
