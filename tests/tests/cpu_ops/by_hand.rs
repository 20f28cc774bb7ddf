//! Traces that are small enough to work out by hand.

use crate::cpu_ops::{DRAM, NVME, machine, play};
use tiersim_policies::zoo::percentages::{PercentagesConfig, Six};
use tiersim_tests::prelude::*;

const PLENTY: u64 = 1 << 40;

fn lru() -> PolicyConfig {
    DemandConfig::lru(vec![DRAM, NVME]).into()
}

fn op(traced: &mut Traced, unit: Unit, ps: u64, uses: &[(ObjectId, Mode)]) {
    traced.on(unit, Span::from_ps(ps), uses);
}

/// Backward makes a gradient, Adam on the host uses it and state of its own, forward reads the
/// weight.
fn step(weight_mode: Mode) -> Workload {
    let mut traced = Traced::new();
    let (weight, adam) = (traced.object(100, true), traced.object(400, true));
    let gradient = traced.object(100, false);
    op(&mut traced, Unit::Device, 10, &[(weight, Mode::Read), (gradient, Mode::Write)]);
    let uses = [(gradient, Mode::Read), (adam, Mode::ReadWrite), (weight, weight_mode)];
    op(&mut traced, Unit::Cpu, 1000, &uses);
    op(&mut traced, Unit::Device, 10, &[(weight, Mode::Read)]);
    assert_eq!(traced.0.problems(), []);
    Workload::new(traced.0)
}

#[test]
fn an_optimizer_on_the_host_copies_gradients_there_and_weights_back() {
    let played = play(&machine(300, PLENTY, PLENTY), &step(Mode::Write), &lru(), 1).unwrap();
    // Everything starts in DRAM: the weight is fetched, the gradient leaves, and what Adam makes of
    // the weight comes back. Adam's state stays, and what it overwrites is not copied to it.
    let expected = [(0, 0, DRAM, HBM), (1, 2, HBM, DRAM), (2, 0, DRAM, HBM)];
    assert_eq!(played.copies, expected);
    assert!(played.used[1].iter().all(|&(_, tier)| tier == DRAM));
    // 100 + 10 of forward and backward, 100 out, 1000 on the host, 100 in, 10.
    assert_eq!(played.ends, [110, 1210, 1320]);
    assert_eq!(played.active, 20, "the device rests while the host computes and copies go");
    // The gradient's birth is no use, and nothing that the host does counts.
    assert_eq!((played.counts.hits, played.counts.misses), (0, 2));
}

#[test]
fn the_device_is_at_work_while_its_own_ops_run_and_at_no_other_time() {
    let mut traced = Traced::new();
    let object = traced.object(100, false);
    let ops = [(Unit::Device, 10), (Unit::Idle, 300), (Unit::Cpu, 1000), (Unit::Device, 7)];
    for (unit, ps) in ops {
        let mode = if unit == Unit::Idle { Mode::Read } else { Mode::Write };
        op(&mut traced, unit, ps, &[(object, mode)]);
    }
    let played = play(&machine(100, 100, PLENTY), &Workload::new(traced.0), &lru(), 3).unwrap();
    assert_eq!(played.active, 3 * 17);
}

#[test]
fn what_the_host_overwrites_whole_and_does_not_hold_is_made_there_anew() {
    let mut traced = Traced::new();
    let object = traced.object(100, false);
    op(&mut traced, Unit::Device, 10, &[(object, Mode::Write)]);
    op(&mut traced, Unit::Cpu, 10, &[(object, Mode::Write)]);
    op(&mut traced, Unit::Device, 10, &[(object, Mode::Read)]);
    let played = play(&machine(100, 100, PLENTY), &Workload::new(traced.0), &lru(), 3).unwrap();
    let (copies, tiers): (Vec<_>, Vec<_>) = (played.copies, played.used.concat());
    assert_eq!(copies, [2, 5, 8].map(|at| (at, 0, DRAM, HBM)));
    assert_eq!(tiers.iter().map(|used| used.1).collect::<Vec<_>>(), [HBM, DRAM, HBM].repeat(3));
}

#[test]
fn what_the_host_overwrites_elsewhere_comes_behind_what_wrote_it() {
    let mut traced = Traced::new();
    let object = traced.object(100, false);
    // On streams of their own, so that nothing but the object puts them in order.
    for (stream, unit, ps) in [(0, Unit::Device, 100), (1, Unit::Cpu, 0), (2, Unit::Device, 7)] {
        let id = traced.op(0, stream, Span::from_ps(ps), &[(object, Mode::Write)]);
        traced.0.ops[id.index()].unit = unit;
    }
    let played = play(&machine(100, 100, PLENTY), &Workload::new(traced.0), &lru(), 1).unwrap();
    assert_eq!(played.used.concat()[..2], [(object, HBM), (object, DRAM)]);
    assert_eq!(played.ends[..2], [100, 100]);
    // The last either fetches what it overwrites or does not, and in any case waits for the host.
    assert!(played.ends[2] >= 107);
}

#[test]
fn what_the_host_changes_leaves_hbm_and_what_it_reads_may_stay() {
    let mut traced = Traced::new();
    let (read, changed) = (traced.object(100, false), traced.object(100, false));
    op(&mut traced, Unit::Device, 10, &[(read, Mode::Write), (changed, Mode::Write)]);
    op(&mut traced, Unit::Cpu, 10, &[(read, Mode::Read), (changed, Mode::ReadWrite)]);
    op(&mut traced, Unit::Device, 10, &[(read, Mode::Read), (changed, Mode::Read)]);
    let played = play(&machine(200, PLENTY, PLENTY), &Workload::new(traced.0), &lru(), 1).unwrap();
    let expected = [(1, 0, HBM, DRAM), (1, 1, HBM, DRAM), (2, 1, DRAM, HBM)];
    assert_eq!(played.copies, expected);
    assert_eq!((played.counts.hits, played.counts.misses), (1, 1));
}

#[test]
fn a_full_host_sends_to_nvme_what_no_op_on_the_host_uses() {
    let mut traced = Traced::new();
    let (other, adam) = (traced.object(100, true), traced.object(100, true));
    let gradient = traced.object(100, false);
    op(&mut traced, Unit::Device, 10, &[(gradient, Mode::Write)]);
    op(&mut traced, Unit::Cpu, 10, &[(gradient, Mode::Read), (adam, Mode::ReadWrite)]);
    op(&mut traced, Unit::Device, 10, &[(other, Mode::Read)]);
    let played = play(&machine(100, 200, PLENTY), &Workload::new(traced.0), &lru(), 1).unwrap();
    let expected = [(1, 0, DRAM, NVME), (1, 2, HBM, DRAM), (2, 0, NVME, HBM)];
    assert_eq!(played.copies, expected);
}

#[test]
fn state_on_nvme_is_fetched_to_dram_and_no_further() {
    let mut traced = Traced::new();
    let state: Vec<ObjectId> = (0..3).map(|_| traced.object(100, true)).collect();
    for &adam in &state {
        traced.0.objects[adam.index()].kind = ObjectKind::Optimizer;
        op(&mut traced, Unit::Cpu, 10, &[(adam, Mode::ReadWrite)]);
    }
    let workload = Workload::new(traced.0);
    let disk = DemandConfig::lru(vec![NVME]).into();
    let played = play(&machine(100, 100, PLENTY), &workload, &disk, 2).unwrap();
    assert!(played.copies.iter().all(|&(_, _, from, to)| from != HBM && to != HBM));
    // Each is fetched in each replay, and the one before is written back.
    let fetched = played.copies.iter().filter(|&&(_, _, from, _)| from == NVME);
    assert_eq!(fetched.count(), 6);
}

/// Two layers of attention over a KV cache that grows by a block per token, on one of the units.
fn decode(attention: Unit) -> Workload {
    let mut traced = Traced::new();
    let mut cache = Vec::new();
    for layer in 0..2usize {
        traced.0.modules.push(format!("h.{layer}").into());
        let kv = traced.object(1000, true);
        let object = &mut traced.0.objects[kv.index()];
        (object.kind, object.module) = (ObjectKind::Kv, Some(ModuleId::at(layer)));
        cache.push(kv);
    }
    for _ in 0..4 {
        for &kv in &cache {
            let (query, out) = (traced.object(10, false), traced.object(10, false));
            op(&mut traced, Unit::Device, 5, &[(query, Mode::Write)]);
            let uses = [(query, Mode::Read), (kv, Mode::ReadWrite), (out, Mode::Write)];
            op(&mut traced, attention, 50, &uses);
            op(&mut traced, Unit::Device, 5, &[(out, Mode::Read)]);
        }
    }
    assert_eq!(traced.0.problems(), []);
    Workload::new(traced.0)
}

#[test]
fn attention_on_the_host_leaves_the_kv_cache_where_percentages_put_it() {
    let six = Six([[100.0, 0.0], [0.0, 100.0], [100.0, 0.0]]);
    let access = Access::Migrate { prefetch_ops: 2 };
    let tiers = [HBM, DRAM, NVME];
    let config = PercentagesConfig { six: Some(six), tiers, access, sep_layer: true }.into();
    let copied = |unit| {
        let workload = decode(unit);
        let played = play(&machine(5000, PLENTY, PLENTY), &workload, &config, 2).unwrap();
        let bytes = |&(_, object, from, to): &(usize, u32, _, _)| {
            assert!([from, to].contains(&HBM) && [from, to].contains(&DRAM));
            workload.trace.objects[object as usize].bytes.get()
        };
        played.copies.iter().map(bytes).sum::<u64>()
    };
    // By the host: query out, result in, for each of 2 layers and 4 tokens, twice. By the device:
    // the cache in and out.
    assert_eq!(copied(Unit::Cpu), 2 * 4 * 2 * 20);
    assert!(copied(Unit::Device) >= 2 * 4 * 2 * 2000 - 2000);
}
