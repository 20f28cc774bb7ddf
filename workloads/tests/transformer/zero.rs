//! Rajbhandari et al., "ZeRO", 2020: what each stage keeps of model state, and what it sends.

use crate::transformer::shape::{
    alive, collectives, gpt2, llama_8b, mixtral, peak_state, plain, sum,
};
use tiersim_models::ids::OpId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{CollectiveKind, ObjectKind, Phase, Trace, Unit};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{
    Checkpointing, Optimizer, Parallel, Training, Zero,
};

#[test]
fn parameters_are_those_that_are_published() {
    let opt = Card { family: Family::Opt, positions: 2048, vocab: 50_272, ..gpt2(48, 7168, 56) };
    let bloom =
        Card { family: Family::Bloom, positions: 0, vocab: 250_880, ..gpt2(70, 14_336, 112) };
    for (card, published) in [
        (gpt2(12, 768, 12), 124_439_808),
        (gpt2(48, 1600, 25), 1_557_611_200),
        (llama_8b(), 8_030_261_248),
        (mixtral(), 46_702_792_704),
        (opt, 29_974_540_288),
        (bloom, 176_247_271_424),
    ] {
        let trace = plain(card, 16).trace();
        assert_eq!(sum(&trace, ObjectKind::Weight), 2 * published, "{}", trace.meta.name);
    }
}

fn small() -> Card {
    Card { vocab: 64, positions: 64, ..gpt2(3, 64, 4) }
}

fn stage(card: Card, stage: u8, data: u32) -> Training {
    Training {
        parallel: Parallel { data, ..Parallel::default() },
        zero: Zero { stage, bucket: Bytes::new(10_000), ..Zero::default() },
        ..plain(card, 16)
    }
}

/// 16P, 4P + 12P/N, 2P + 14P/N, 16P/N, whatever else is asked for.
#[test]
fn the_peak_of_model_state_is_the_formula() {
    let p = sum(&plain(small(), 16).trace(), ObjectKind::Weight) / 2;
    for n in [1_u64, 2, 4, 8, 16, 64] {
        let formulas = [16 * p, 4 * p + 12 * p / n, 2 * p + 14 * p / n, 16 * p / n];
        for (index, expected) in formulas.into_iter().enumerate() {
            let one = stage(small(), index as u8, n as u32);
            for (batch, host_update, prefetch) in [(1, 0, 0), (3, 0, 1), (1, 1000, 2), (2, 500, 9)]
            {
                let zero = Zero { host_update, prefetch, ..one.zero };
                let training = Training { batch, zero, ..one.clone() };
                assert_eq!(training.problems(), []);
                let trace = training.trace();
                assert_eq!(trace.problems(), []);
                let case = format!("stage {index} of {n}, batch {batch}, host {host_update}");
                assert_eq!(peak_state(&trace), expected, "{case}");
            }
        }
    }
}

/// K of Rajbhandari et al., in bytes per parameter of the optimizer.
#[test]
fn state_of_each_optimizer() {
    let card = Card { vocab: 64, positions: 64, ..gpt2(2, 64, 4) };
    let all = [
        (Optimizer::AdamW, 12.0..=12.0),
        (Optimizer::AdamWithoutMaster, 4.0..=4.0),
        // Tensors of fewer than 4,096 numbers keep fp32 moments.
        (Optimizer::Adam8Bit, 6.04..=6.2),
        (Optimizer::AdamMini, 8.0..=8.2),
        (Optimizer::Adafactor, 4.0..=4.3),
        (Optimizer::Lion, 8.0..=8.0),
        (Optimizer::Sgd { momentum: true }, 8.0..=8.0),
        (Optimizer::Sgd { momentum: false }, 4.0..=4.0),
    ];
    for (optimizer, range) in all {
        let trace = Training { optimizer, ..plain(card.clone(), 16) }.trace();
        assert_eq!(trace.problems(), []);
        let state = sum(&trace, ObjectKind::Optimizer) + sum(&trace, ObjectKind::Master);
        let k = state as f64 / (sum(&trace, ObjectKind::Weight) / 2) as f64;
        assert!(range.contains(&k), "{optimizer:?}: {k}");
        let fp32 = Formats::all(Format::Fp32);
        let trace = Training { optimizer, formats: fp32, ..plain(card.clone(), 16) }.trace();
        assert_eq!(sum(&trace, ObjectKind::Master), 0, "fp32 weights are the master copy");
    }
}

/// Bytes of collectives of a kind.
fn sent(trace: &Trace, wanted: CollectiveKind) -> u64 {
    let all = collectives(trace).into_iter().filter(|collective| collective.kind == wanted);
    all.map(|collective| collective.bytes.get()).sum()
}

/// Section 7: every parameter crosses once as a gradient and once as a weight, and at stage 3 once
/// more.
#[test]
fn what_each_stage_sends() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    // Without the tables, whose gradients need no weights, and whose head needs them once.
    let card = Card { tied: false, ..small() };
    let p = sum(&plain(card.clone(), 16).trace(), ObjectKind::Weight) / 2;
    let tables = 64 * 64 * 2;
    let ends = 2 * 64 + 64 * 64;
    let of = |number, batch| Training { batch, ..stage(card.clone(), number, 8) }.trace();
    for batch in [1, 3] {
        let passes = u64::from(batch);
        let trace = of(0, batch);
        assert_eq!(sent(&trace, AllReduce), 2 * p);
        assert_eq!(sent(&trace, AllGather) + sent(&trace, ReduceScatter), 0);
        let trace = of(1, batch);
        assert_eq!((sent(&trace, ReduceScatter), sent(&trace, AllGather)), (2 * p, 2 * p));
        let trace = of(2, batch);
        assert_eq!((sent(&trace, ReduceScatter), sent(&trace, AllGather)), (2 * p * passes, 2 * p));
        let trace = of(3, batch);
        assert_eq!(sent(&trace, ReduceScatter), 2 * p * passes);
        assert_eq!(sent(&trace, AllGather), (4 * p - 2 * (tables + ends)) * passes);
    }
}

/// No more than two layers' weights are whole at once, and with prefetch as many more.
#[test]
fn gathered_weights_are_given_back() {
    let card = Card { vocab: 1, positions: 16, ..gpt2(6, 64, 4) };
    let layer = 2 * (12 * 64 * 64 + 13 * 64);
    for prefetch in 0..4 {
        let mut training = stage(card.clone(), 3, 8);
        training.zero.prefetch = prefetch;
        let trace = training.trace();
        let whole = alive(&trace, |object| object.name.ends_with(".whole"));
        let most = *whole.iter().max().unwrap();
        let layers = most as f64 / f64::from(layer);
        let expected = f64::from(1 + prefetch);
        assert!((expected - 0.1..=expected + 0.1).contains(&layers), "{prefetch}: {layers}");
    }
}

/// Without `reshard` every parameter is gathered once per micro-batch, from the first micro-batch to
/// the last, and at the end of the forward pass all blocks are whole; state is that of stage 3.
#[test]
fn weights_that_stay_are_gathered_once_for_both_passes() {
    use CollectiveKind::{AllGather, ReduceScatter};
    for (tied, prefetch, checkpointing) in [
        (false, 1, Checkpointing::None),
        (true, 0, Checkpointing::Full),
        (true, 2, Checkpointing::Every(2)),
    ] {
        let card = Card { tied, ..small() };
        let p = sum(&plain(card.clone(), 16).trace(), ObjectKind::Weight) / 2;
        for batch in [1, 3] {
            let mut training = Training { batch, checkpointing, ..stage(card.clone(), 3, 8) };
            training.zero.prefetch = prefetch;
            let sharded = training.trace();
            training.zero.reshard = false;
            let trace = training.trace();
            assert_eq!(trace.problems(), []);
            let case = format!("tied {tied}, batch {batch}, {checkpointing:?}");
            assert_eq!(sent(&trace, AllGather), 2 * p * u64::from(batch), "{case}");
            assert_eq!(sent(&trace, ReduceScatter), sent(&sharded, ReduceScatter), "{case}");
            assert_eq!(peak_state(&trace), peak_state(&sharded), "{case}");
            let whole = alive(&trace, |object| object.name.ends_with(".whole"));
            // The table of tokens is needed again where it is the head's matrix; that of positions
            // is not.
            let blocks = 2 * 3 * (12 * 64 * 64 + 13 * 64);
            let behind = 2 * (64 * 64 + 2 * 64);
            assert_eq!(*whole.iter().max().unwrap(), blocks + behind, "{case}");
        }
    }
}

/// However slow the device is, its collectives do not gather further ahead than prefetching allows.
#[test]
fn weights_are_not_gathered_further_ahead() {
    for prefetch in 0..4 {
        let mut training = stage(small(), 3, 8);
        training.zero.prefetch = prefetch;
        let trace = training.trace();
        let mut last = None;
        let mut free = 0;
        for (at, op) in trace.ops.iter().enumerate() {
            if op.stream == 0 {
                last = Some(OpId(at as u32));
            } else if op.name == "all-gather" {
                assert_eq!(op.after, Vec::from_iter(last));
                free += u32::from(last.is_none());
            }
        }
        assert_eq!(free, 1 + prefetch);
    }
}

#[test]
fn adam_touches_28_bytes_per_parameter_wherever_it_runs() {
    let p = sum(&plain(small(), 16).trace(), ObjectKind::Weight) / 2;
    for (number, n) in [(0_u8, 1_u64), (0, 8), (1, 8), (2, 8), (3, 8)] {
        for host_update in [0_u64, 500, 1000] {
            let mut training = stage(small(), number, n as u32);
            training.zero.host_update = host_update as u16;
            let trace = training.trace();
            let touched = |cpu: bool| -> u64 {
                let ops = trace.ops.iter().filter(|op| op.phase == Phase::Optimizer);
                let ops = ops.filter(|op| op.name == "adam" && (op.unit == Unit::Cpu) == cpu);
                ops.map(|op| op.bytes.get()).sum()
            };
            let shard = if number == 0 { p } else { p / n };
            let host = shard * host_update / 1000;
            assert_eq!(touched(true), 28 * host, "stage {number}, {host_update}");
            assert_eq!(touched(false), 28 * (shard - host), "stage {number}, {host_update}");
        }
    }
}
