//! What is refused, with which field; and sizes that a step must manage.

use crate::transformer::shape::{alive, collectives, flops, gpt2, llama_8b, mixtral, plain, sum};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::workload::{CollectiveKind, ObjectKind};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{
    Checkpointing, MAX_OPS, Optimizer, Parallel, Router, Training, Zero,
};

fn small() -> Training {
    Training { batch: 4, ..plain(Card { vocab: 64, ..gpt2(4, 64, 4) }, 16) }
}

fn parallel(change: impl Fn(&mut Parallel)) -> Training {
    let mut training = small();
    change(&mut training.parallel);
    training
}

fn zero(change: impl Fn(&mut Zero)) -> Training {
    let mut training = small();
    change(&mut training.zero);
    training
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let fp32 = Formats::all(Format::Fp32);
    let experts = Training { card: mixtral(), ..small() };
    let cases: Vec<(Training, &str, &str)> = vec![
        (Training { batch: 0, ..small() }, "batch", "between 1 and"),
        (Training { micro_batch: 0, ..small() }, "micro_batch", "between 1 and"),
        (Training { sequence: 0, ..small() }, "sequence", "between 1 and"),
        (Training { sequence: 1 << 40, ..small() }, "sequence", "between 1 and"),
        (Training { devices: 0, ..small() }, "devices", "between 1 and"),
        (Training { micro_batch: 3, ..small() }, "micro_batch", "3 must divide `batch`"),
        (Training { sequence: 2000, ..small() }, "sequence", "table of 1024 positions"),
        (
            Training { checkpointing: Checkpointing::Every(0), ..small() },
            "checkpointing",
            "every 0",
        ),
        (parallel(|p| p.tensor = 8), "parallel.tensor", "8 must divide `heads`, which is 4"),
        (parallel(|p| p.tensor = 3), "parallel.tensor", "3 must divide `vocab`, which is 64"),
        (parallel(|p| p.pipeline = 99), "parallel.pipeline", "some of the stages without"),
        (parallel(|p| p.interleave = 2), "parallel.interleave", "nothing to interleave"),
        (parallel(|p| p.expert = 2), "parallel.expert", "no experts"),
        (Training { router: Router { seed: 0, skew: 1001 }, ..small() }, "router.skew", "0 to 10"),
        (parallel(|p| p.data = 12), "devices", "servers of 8 devices"),
        (parallel(|p| p.data = 0), "parallel.data", "between 1 and"),
        (
            parallel(|p| (p.pipeline, p.interleave) = (4, 2)),
            "parallel.pipeline",
            "8 must divide `layers`",
        ),
        (
            Training { batch: 3, ..parallel(|p| (p.pipeline, p.interleave) = (2, 2)) },
            "parallel.interleave",
            "2 must divide `micro-batches`, which is 3",
        ),
        (
            Training { sequence: 15, ..parallel(|p| (p.tensor, p.sequence) = (2, true)) },
            "parallel.sequence",
            "2 must divide `sequence`",
        ),
        (
            Training { parallel: Parallel { data: 8, expert: 3, ..experts.parallel }, ..experts },
            "parallel.expert",
            "3 must divide `data`",
        ),
        (zero(|z| z.stage = 4), "zero.stage", "0 to 3"),
        (zero(|z| z.host_update = 1001), "zero.host_update", "0 to 1000"),
        (Training { formats: fp32, ..zero(|z| z.host_update = 1) }, "zero.host_update", "master"),
        (
            Training { optimizer: Optimizer::AdamWithoutMaster, ..zero(|z| z.host_update = 1) },
            "zero.host_update",
            "master",
        ),
        (Training { batch: 1 << 18, ..small() }, "batch", "at most 1000000 ops"),
    ];
    for (training, field, rule) in cases {
        let problems = training.problems();
        let found = problems.iter().any(|p| p.field == field && p.rule.contains(rule));
        assert!(found, "{field}, {rule}: {problems:?}");
    }
    assert_eq!(small().problems(), []);
}

/// A hundred million tokens: exact where they fit 64 bits, refused and not overflowed where not.
#[test]
fn a_hundred_million_tokens() {
    let sequence = 100_000_000;
    let card = Card { layers: 1, vocab: 10, positions: 0, ..llama_8b() };
    let down_proj = Card { hidden: 64, ffn: 128, heads: 1, kv_heads: 1, head_dim: 64, ..card };
    let training = plain(down_proj, sequence);
    assert_eq!(training.problems(), []);
    let trace = training.trace();
    assert_eq!(trace.problems(), []);
    let pairs = u128::from(sequence) * u128::from(sequence + 1) / 2;
    let matrices = 4 * 64 * 64 + 3 * 64 * 128 + 10 * 64;
    assert_eq!(flops(&trace), 6 * matrices * u128::from(sequence) + 14 * 64 * pairs);
    let problems = plain(llama_8b(), sequence).problems();
    let found = problems.iter().any(|p| p.field == "sequence" && p.rule.contains("2^64"));
    assert!(found, "{problems:?}");
}

/// The largest values together: refused, not overflowed.
#[test]
fn no_training_however_large_panics() {
    let mut rng = ChaCha12Rng::seed_from_u64(12);
    let any = |rng: &mut ChaCha12Rng| match rng.random_range(0..20) {
        0 => u32::MAX,
        1 => rng.random(),
        2 => rng.random_range(0..10),
        3..8 => 1 << rng.random_range(0..28),
        _ => 1 << rng.random_range(0..6),
    };
    let mut good = 0;
    for _ in 0..800 {
        let base = if rng.random_bool(0.5) { mixtral() } else { llama_8b() };
        let (layers, hidden, heads) = (1 << rng.random_range(0..4), any(&mut rng), any(&mut rng));
        let card = Card { layers, hidden, ffn: any(&mut rng), heads, kv_heads: heads, ..base };
        let training = Training {
            batch: any(&mut rng),
            micro_batch: any(&mut rng),
            sequence: 1 << rng.random_range(0..40),
            devices: 8,
            parallel: Parallel {
                data: any(&mut rng),
                tensor: 1 << rng.random_range(0..3),
                ..Parallel::default()
            },
            ..plain(card, 1)
        };
        if training.problems().is_empty() {
            good += 1;
            if good % 8 == 0 {
                let trace = training.trace();
                assert_eq!(trace.problems(), [], "{training:?}");
                assert!(trace.ops.len() as u64 <= MAX_OPS);
            }
        }
    }
    assert_eq!(good, 61);
}

/// 128 layers of 25,600 (Narayanan et al., 2021, table 1: 1,008 billion parameters), on 512 ranks.
#[test]
fn a_trillion_parameters_on_512_ranks() {
    let card = Card { vocab: 51_200, positions: 2048, ..gpt2(128, 25_600, 160) };
    let training = Training {
        parallel: Parallel { data: 512, ..Parallel::default() },
        zero: Zero { stage: 3, ..Zero::default() },
        checkpointing: Checkpointing::Full,
        ..plain(card, 2048)
    };
    assert_eq!(training.problems(), []);
    let trace = training.trace();
    assert_eq!(trace.problems(), []);
    assert!(trace.ops.len() < 10_000, "{}", trace.ops.len());
    let weights = sum(&trace, ObjectKind::Weight);
    assert!((1_007_000_000_000..1_009_000_000_000).contains(&(weights * 512 / 2)), "{weights}");
    let all = collectives(&trace);
    assert_eq!(all.len(), 771);
    assert!(all.iter().all(|collective| (collective.within, collective.servers) == (8, 64)));
}

/// Every block dispatches and returns its tokens, forward and backward, and each rank has its
/// experts.
#[test]
fn experts_are_spread_and_tokens_are_exchanged() {
    let card = Card { layers: 2, ..mixtral() };
    let of = |expert| Training {
        parallel: Parallel { data: 8, expert, ..Parallel::default() },
        ..plain(card.clone(), 64)
    };
    let experts = |trace: &tiersim_models::workload::Trace| -> u64 {
        let weights = trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight);
        let weights = weights.filter(|o| o.name.contains(".experts."));
        weights.map(|o| o.bytes.get()).sum()
    };
    let all = experts(&of(1).trace());
    assert_eq!(all, 2 * 2 * 8 * 3 * 4096 * 14_336);
    for expert in [2, 4, 8] {
        let trace = of(expert).trace();
        assert_eq!(experts(&trace), all / u64::from(expert));
        let mut sent = collectives(&trace);
        sent.retain(|collective| collective.kind == CollectiveKind::AllToAll);
        // Two experts per token, 16 bits, there and back, forward and backward, in two blocks.
        assert_eq!(sent.len(), 8);
        let copies = 64 * 2 * 4096 * 2;
        assert!(sent.iter().all(|c| c.bytes.get() >= copies && c.within == expert), "{sent:?}");
        // Every rank of the group sends as much to this rank's experts.
        let here = |trace: &tiersim_models::workload::Trace| -> u64 {
            let ops = trace.ops.iter().filter(|op| {
                let module = op.module.map(|module| &trace.modules[module.index()]);
                let index = module.and_then(|name| name.split(".experts.").nth(1));
                let index = index.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
                index.is_some_and(|index| index < 8 / expert)
            });
            ops.map(|op| op.flops).sum()
        };
        assert_eq!(here(&trace), u64::from(expert) * here(&of(1).trace()));
        assert_ne!(here(&trace), 0);
    }
}

/// Shoeybi et al., 2019: two all-reduces per block forward and two backward, one behind the table
/// of tokens and one before the head. Korthikanti et al., section 4.2.2: with sequence parallelism
/// each is a reduce-scatter and an all-gather, and two inputs per block are gathered again for the
/// gradients of weights.
#[test]
fn tensor_parallelism_sums_four_times_per_block() {
    let count = |sequence: bool, kind: CollectiveKind| {
        let training = parallel(|p| (p.tensor, p.sequence) = (2, sequence));
        let training = Training { micro_batch: 4, ..training };
        let all = collectives(&training.trace());
        all.iter().filter(|collective| collective.kind == kind).count()
    };
    let layers = 4;
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    assert_eq!(count(false, AllReduce), 4 * layers + 2);
    assert_eq!(count(false, AllGather) + count(false, ReduceScatter), 0);
    assert_eq!(count(true, ReduceScatter), 4 * layers + 2);
    // Of the head's input twice; of the gradient of what the embedding gives.
    assert_eq!(count(true, AllGather), 6 * layers + 3);
    assert_eq!(count(true, AllReduce), 1, "gradients of norms and positions");
}

/// Accumulated gradients are written once and added to; activations of one micro-batch are gone
/// before the next.
#[test]
fn micro_batches_share_gradients_and_not_activations() {
    let activations = |batch, micro_batch| {
        let training = Training { batch, micro_batch, ..small() };
        let trace = training.trace();
        let gradients = sum(&trace, ObjectKind::Gradient);
        let kept = alive(&trace, |o| o.kind == ObjectKind::Activation);
        (gradients, kept.into_iter().max().unwrap_or(0), flops(&trace))
    };
    let (whole, parts) = (activations(8, 8), activations(8, 2));
    assert_eq!(whole.0, parts.0);
    assert_eq!(whole.2, parts.2);
    assert_eq!(whole.1, 4 * parts.1);
}

/// The same step has the same experts; a skewed router gives some more than others, and no token is
/// lost.
#[test]
fn a_skewed_router_gives_experts_unequal_work() {
    let card = Card { layers: 2, ..mixtral() };
    let of = |skew| {
        let router = Router { seed: 3, skew };
        let training = Training { router, batch: 2, ..plain(card.clone(), 64) };
        let trace = training.trace();
        assert_eq!(trace.problems(), []);
        let experts = trace.ops.iter().filter(|op| {
            let module = op.module.map(|module| &trace.modules[module.index()]);
            op.name == "linear" && module.is_some_and(|name| name.ends_with("down_proj"))
        });
        experts.map(|op| op.flops).collect::<Vec<u64>>()
    };
    let (alike, skewed) = (of(0), of(200));
    assert_eq!(alike.iter().sum::<u64>(), skewed.iter().sum::<u64>());
    assert!(skewed.iter().max() > alike.iter().max());
    assert_eq!(skewed, of(200));
}
