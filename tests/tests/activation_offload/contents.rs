//! What a rewritten trace finds and holds: the contents of every use, on random traces too, and the
//! published counts of a transformer.

use super::*;
use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::training::Training;

/// What every use of an op finds, where contents are numbers made of what the op is and what it
/// reads. Ops are known by their source, objects by what was written.
fn found(trace: &Trace, source: &[OpId]) -> Vec<Vec<u64>> {
    let mix = |a: u64, b: u64| seed_of(a, b);
    let mut contents: BTreeMap<u32, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for (op, source) in source.iter().enumerate() {
        let uses = trace.uses_of(OpId::at(op));
        let reads = uses.iter().map(|touched| match touched.mode.reads() {
            true => *contents.get(&touched.object.0).unwrap_or(&u64::from(touched.object.0)),
            false => 0,
        });
        let reads: Vec<u64> = reads.collect();
        let value = reads.iter().fold(u64::from(source.0), |value, &read| mix(value, read));
        for (at, touched) in uses.iter().enumerate() {
            if touched.mode.writes() {
                contents.insert(touched.object.0, mix(value, at as u64));
            }
        }
        all.push(reads);
    }
    all
}

/// Whether every op of a rewritten trace, repeated or not, finds what its source finds; how many
/// are repeated.
fn check_contents(old: &Trace, new: &Rewrite) -> usize {
    let trace = &new.workload.trace;
    assert_eq!(trace.problems(), []);
    let all: Vec<OpId> = (0..old.ops.len()).map(OpId::at).collect();
    let (before, after) = (found(old, &all), found(trace, &new.source));
    let mut seen = vec![false; old.ops.len()];
    let mut repeated = 0;
    let mut next = 0;
    for (at, &source) in new.source.iter().enumerate() {
        assert_eq!(after[at], before[source.index()], "op {at} finds other contents");
        let (op, original) = (&trace.ops[at], &old.ops[source.index()]);
        let same = (op.duration, op.flops, op.bytes, op.module);
        assert_eq!(same, (original.duration, original.flops, original.bytes, original.module));
        if std::mem::replace(&mut seen[source.index()], true) {
            repeated += 1;
            assert_eq!(op.name, format!("recompute {}", original.name));
            assert_eq!(op.phase, Phase::Backward);
        } else {
            // In their order, none left out.
            assert_eq!(source.index(), next);
            assert_eq!(
                (&op.name, op.step, op.phase),
                (&original.name, original.step, original.phase)
            );
            next += 1;
        }
    }
    assert_eq!(next, old.ops.len());
    let workload = Workload::new(old.clone());
    let ends = |ends: &[OpId], source: &dyn Fn(OpId) -> OpId| -> Vec<OpId> {
        ends.iter().map(|&end| source(end)).collect()
    };
    let new_ends = ends(new.workload.step_ends(), &|end| new.source[end.index()]);
    assert_eq!(new_ends, ends(workload.step_ends(), &|end| end));
    assert_eq!(trace.tokens_per_step(), old.tokens_per_step());
    repeated
}

/// The same ops and uses as one step of training: the first half forward, layer by layer.
fn as_training(mut trace: Trace) -> Trace {
    let (ops, modules) = (trace.ops.len(), trace.modules.len());
    for (index, op) in trace.ops.iter_mut().enumerate() {
        let forward = index < ops / 2;
        let layer = index.min(ops - index) * 2 * modules / ops;
        op.phase = if forward { Phase::Forward } else { Phase::Backward };
        (op.step, op.module) = (0, Some(ModuleId::at(layer.min(modules - 1))));
    }
    for object in trace.objects.iter_mut().filter(|object| !object.persistent) {
        object.kind = ObjectKind::Activation;
    }
    assert_eq!(trace.problems(), []);
    trace
}

#[test]
fn every_op_finds_what_it_found_before() {
    assert_eq!(check_contents(&two_layers(), &recomputed(&two_layers())), 2);
    let mut repeating = 0;
    for index in 0..3000 {
        let trace = as_training(Trial::new(seed_of(20_261_121, index), 1000).workload.trace);
        repeating += usize::from(check_contents(&trace, &recomputed(&trace)) > 0);
    }
    assert_eq!(repeating, 565, "random traces that have something to recompute");
}

/// Random worlds, rewritten for the policy, audited and watched: contents, rooms, orders.
#[test]
fn random_worlds_hold_their_rules_and_fit_where_paging_does() {
    let (mut ran, mut repeating) = (0, 0);
    for index in 0..1500 {
        let mut trial = Trial::new(seed_of(5, index), 120);
        let spill: Vec<TierId> = trial.hardware.tier_ids().skip(1).collect();
        if spill.is_empty() {
            continue;
        }
        let treatment =
            [Treatment::Keep, Treatment::Offload, Treatment::Recompute][index as usize % 3];
        let choice = if index % 5 == 0 { Choice::Best } else { Choice::All(treatment) };
        let lru = DemandConfig::lru(spill.clone());
        trial.pressure = None;
        trial.hidden = Vec::new();
        trial.allocators = Vec::new();
        trial.workload = Workload::new(as_training(trial.workload.trace));
        let paged = trial.clone().under(Chosen::Config(lru.into())).run(None);
        let paged = paged.expect("paging breaks no rule");
        let config = ActivationOffloadConfig::new(choice, spill);
        let rewrite = with_setting(&trial.workload, &trial.hardware, trial.repeat, |setting| {
            config.rewrite(setting).expect("it can be rewritten").expect("it is")
        });
        repeating += usize::from(rewrite.repeats(&trial.workload));
        let ops = trial.workload.trace.ops.len();
        trial.durations = trial.durations.repeating(&rewrite.source, ops);
        trial.workload = rewrite.workload;
        let policy = rewrite.policy.expect("it knows what it decided");
        let done = trial.under(Chosen::Config(policy)).run(None);
        let done = done.unwrap_or_else(|breach| panic!("world {index}: {breach:?}"));
        assert!(done.is_some() || paged.is_none(), "world {index} fits under paging");
        ran += usize::from(done.is_some());
    }
    assert_eq!((ran, repeating), (1399, 88), "worlds that fit, and those with ops that run again");
}

fn step(layers: u32) -> Training {
    let card = Card {
        name: "small".to_owned(),
        family: Family::Gpt2,
        layers,
        hidden: 64,
        ffn: 256,
        heads: 4,
        kv_heads: 4,
        head_dim: 16,
        vocab: 16,
        positions: 128,
        tied: true,
        qkv_bias: true,
        experts: None,
        window: None,
        full_attention_every: None,
        latent: None,
    };
    Training { batch: 2, micro_batch: 2, ..Training::new(card, 128) }
}

/// The most bytes of activations that are alive at once.
fn peak_of_activations(trace: &Trace) -> u64 {
    Workload::new(trace.clone()).most_alive(|object| object.kind == ObjectKind::Activation)
}

/// Korthikanti et al. 2023, section 5: with full recomputation a layer keeps its input, 2 s b h,
/// and the layer whose backward runs has all that it keeps, here 32 s b h with fused attention and
/// the logarithms of its sums.
#[test]
fn recompute_of_all_layers_leaves_the_checkpoints_and_one_layer() {
    for layers in [2, 5] {
        let trace = step(layers).trace();
        let new = recomputed(&trace);
        let (tokens, hidden, layers) = (2 * 128, 64, u64::from(layers));
        let unit = tokens * hidden;
        let inner = 30 * unit + 4 * tokens * 4;
        assert_eq!(peak_of_activations(&new.workload.trace), 2 * unit * layers + inner);
        // Kept, all layers have theirs, and the last hands on its output to the norm and the head.
        let head = 2 * unit + 2 * unit + 4 * tokens * 16;
        assert_eq!(peak_of_activations(&trace), layers * (2 * unit + inner) + head);
        // All of the layers' forward but the last product of each, whose result is a checkpoint.
        let flops = |trace: &Trace| trace.ops.iter().map(|op| op.flops).sum::<u64>();
        let pairs = 2 * 128 * 129 / 2;
        let product = |from: u64, to: u64| 2 * tokens * from * to;
        let again = product(hidden, 3 * hidden)
            + 4 * hidden * pairs
            + product(hidden, hidden)
            + product(hidden, 4 * hidden);
        assert_eq!(flops(&new.workload.trace) - flops(&trace), layers * again);
        assert_eq!(check_contents(&trace, &new), 8 * layers as usize);
    }
}
