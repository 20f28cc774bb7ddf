//! Training, generation and serving price the same work alike: the forward pass of one block.

use crate::transformer::shape::llama_8b;
use std::collections::BTreeMap;
use tiersim_models::collective::Collective;
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares};
use tiersim_models::hardware::Compute;
use tiersim_models::kernel::{Kernel, Streaming, Work};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::{Bandwidth, FlopRate, Span, Time};
use tiersim_models::workload::{ObjectKind, Op, Phase, Trace, Unit};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::serving::{GroupWork, Serving};
use tiersim_workloads::transformer::training::{Kernels, Router, Training};

const BF16: &str = "bf16";

/// A made-up device: small work reaches less of its rates, so that sums of kernels are not what an
/// op of their sums would take.
fn device() -> Compute {
    let shares = |points: &[(u64, u32)]| Shares {
        points: points.to_vec(),
        interpolation: Interpolation::Interpolated,
    };
    Compute {
        op_times: None,
        attention: None,
        name: "made up".to_owned(),
        flops: vec![(BF16.to_owned(), FlopRate::new(700_000_000_000_001).expect("not zero"))],
        memory: Bandwidth::new(3_000_000_000_007).expect("not zero"),
        launch: Span::from_ps(2_345_678),
        efficiency: Efficiency {
            products: shares(&[(1 << 20, 30_000), (1 << 30, 500_000), (1 << 40, 900_000)]),
            memory: shares(&[(1 << 10, 10_000), (1 << 20, 300_000), (1 << 30, 930_000)]),
        },
    }
}

fn training(card: Card, sequence: u64, kernels: Kernels) -> Trace {
    Training { kernels, ..Training::new(card, sequence) }.trace()
}

#[test]
fn fused_activations_keep_and_need_less_by_what_they_do_not_write() {
    let (tokens, width) = (256u64, 14_336u64);
    let of = |kernels| {
        let job = Training { kernels, ..Training::new(llama_8b(), tokens) };
        let trace = job.trace();
        let kept = |object: &&tiersim_models::workload::Object| {
            object.kind == ObjectKind::Activation && object.name.contains("layers.0.mlp")
        };
        let kept: u64 = trace.objects.iter().filter(kept).map(|object| object.bytes.get()).sum();
        (kept, job.working().expect("it makes a trace"))
    };
    let [compiled, fused] = [Kernels::Compiled, Kernels::Fused].map(of);
    // The gate behind its SiLU in 16 bits; the gradients of both halves.
    assert_eq!(compiled.0 - fused.0, 2 * tokens * width);
    assert_eq!(compiled.1 - fused.1, 2 * 2 * tokens * width);
}

/// DeepSeek-V2-Lite of seven blocks, of which two have no experts and none a choice of them.
fn deepseek() -> Card {
    let card = tiersim_workloads::transformer::known::known("deepseek-v2-lite");
    let card = card.expect("it is known").card();
    let of = card.experts.expect("it has experts");
    let experts = Some(Experts { count: 6, active: 6, dense_first: 2, ..of });
    Card { layers: 7, experts, ..card }
}

/// A prefill of one prompt and one decode step behind it.
fn generation(card: Card, prompt: u64, kernels: Kernels) -> Trace {
    split_generation(card, prompt, kernels, 1)
}

/// The same of one of so many ranks.
fn split_generation(card: Card, prompt: u64, kernels: Kernels, tensor: u32) -> Trace {
    // Engines have blocks; without them eager kernels make the cache anew in each step, and others
    // keep no more of a prompt than a window.
    let kv_block = (kernels == Kernels::Eager || card.window.is_some()).then_some(16);
    let job = Generation {
        card,
        formats: Formats::all(Format::Bf16),
        batch: 1,
        batches: 1,
        prompt,
        tokens: 2,
        prefill: true,
        attention: AttentionOn::Device,
        kernels,
        kv_block,
        tensor,
        context: 1,
        devices: 8,
        router: Router::default(),
    };
    job.trace()
}

/// The same for one request.
fn serving(card: Card, prompt: u64, kernels: Kernels, layer_groups: u32) -> Trace {
    split_serving(card, prompt, kernels, (layer_groups, 1))
}

fn split_serving(
    card: Card,
    prompt: u64,
    kernels: Kernels,
    (layer_groups, tensor): (u32, u32),
) -> Trace {
    let job = Serving {
        card,
        formats: Formats::all(Format::Bf16),
        block_tokens: 16,
        kv_blocks: 100_000,
        max_batch: 8,
        max_tokens_per_step: 8192,
        layer_groups,
        merge: 1,
        kernels,
        tensor,
        devices: 8,
    };
    let mut requests = ServingRequests::new(None);
    requests.push(Time::ZERO, prompt, 2, &[]).expect("a request");
    let device = device();
    let pace = |work: &GroupWork| device.kernels(BF16, &work.kernels);
    job.serve(&requests, &pace).expect("it is served").trace
}

/// The kernels of a phase's ops that `counts`.
fn kernels(trace: &Trace, phase: Phase, counts: impl Fn(&str) -> bool) -> Vec<Kernel> {
    let name = |op: &Op| op.module.map_or("", |module| trace.modules[module.index()].as_str());
    let ops = trace.ops.iter().filter(|op| op.phase == phase && op.unit == Unit::Device);
    let ops = ops.filter(|op| counts(name(op)));
    ops.flat_map(|op| op.kernels.as_deref().expect("an op of the device says its kernels"))
        .copied()
        .collect()
}

/// How often each kernel runs.
fn counts(kernels: &[Kernel]) -> BTreeMap<(Work, u64, u64), u64> {
    let mut all = BTreeMap::new();
    for one in kernels {
        *all.entry((one.work, one.flops, one.bytes.get())).or_default() += one.times;
    }
    all
}

fn flops(kernels: &[Kernel]) -> u128 {
    kernels.iter().map(|one| u128::from(one.flops) * u128::from(one.times)).sum()
}

/// The time of all ops of a phase that count, op by op.
fn time(trace: &Trace, phase: Phase, counts: impl Fn(&str) -> bool) -> Span {
    device().kernels(BF16, &kernels(trace, phase, counts)).expect("short")
}

fn is_block(module: &str) -> bool {
    module.contains("layers.")
}

fn is_end(module: &str) -> bool {
    matches!(module, "model.norm" | "lm_head")
}

const BOTH: [Kernels; 2] = [Kernels::Compiled, Kernels::Fused];

#[test]
fn a_block_of_training_is_one_of_a_prefill() {
    for kernels_run in BOTH {
        // Long enough that attention is bound by its products.
        let tokens = 4096;
        let trained = training(llama_8b(), tokens, kernels_run);
        let generated = generation(llama_8b(), tokens, kernels_run);
        let [of_training, of_prefill] = [(&trained, Phase::Forward), (&generated, Phase::Prefill)]
            .map(|(trace, phase)| kernels(trace, phase, is_block));
        assert_eq!(of_training.len(), of_prefill.len());
        for (one, other) in of_training.iter().zip(&of_prefill) {
            assert_eq!((one.work, one.flops, one.times), (other.work, other.flops, other.times));
            let bytes = [one, other].map(|kernel| kernel.bytes.get());
            if matches!(one.work, Work::Attention(_)) {
                // Queries, keys, values and what is mixed of them; training keeps a sum in fp32
                // per head for its backward pass, generation keys and values of 8 heads of 128.
                let beside = 2 * tokens * (4096 + 2 * 1024 + 4096);
                assert_eq!(bytes, [4 * 32, 2 * 2 * 1024].map(|kept| beside + kept * tokens));
            } else if one.work == Work::Streaming(Streaming::Activation) {
                // Training keeps the gate behind its SiLU beside what that gates, unless it is fused.
                let kept = if kernels_run == Kernels::Fused { 3 } else { 4 };
                assert_eq!(bytes, [kept, 3].map(|each| 2 * each * tokens * 14_336));
            } else {
                assert_eq!(bytes[0], bytes[1], "{one:?}");
            }
        }
        assert_eq!(flops(&of_training), flops(&of_prefill));
        let times = [of_training, of_prefill].map(|mut all| {
            all.retain(|one| one.work != Work::Streaming(Streaming::Activation));
            device().kernels(BF16, &all).expect("short")
        });
        assert_eq!(times[0], times[1]);
        // The head: all tokens have logits in training, the last one has them in generation.
        let (hidden, vocab) = (4096u64, 128_256);
        for (trace, phase, rows) in
            [(&trained, Phase::Forward, tokens), (&generated, Phase::Prefill, 1)]
        {
            let end = kernels(trace, phase, is_end);
            let amounts: Vec<_> = end.iter().map(|one| (one.flops, one.bytes.get())).collect();
            let norm = (0, 2 * (hidden + 2 * rows * hidden));
            let bytes = 2 * (rows * hidden + hidden * vocab) + 4 * rows * vocab;
            let loss = (0, 2 * 4 * rows * vocab);
            let expected = [norm, (2 * rows * hidden * vocab, bytes), loss];
            let is_training = phase == Phase::Forward;
            assert_eq!(amounts, expected[..if is_training { 3 } else { 2 }]);
        }
        let around = |module: &str| !is_block(module) && !is_end(module);
        assert_eq!(
            kernels(&trained, Phase::Forward, around),
            kernels(&generated, Phase::Prefill, around),
            "the embedding"
        );
    }
}

/// In every split of the layers into ops; one with a window, which the prompt is longer than, too.
#[test]
fn serving_one_request_is_generating_for_it() {
    let window = Card { window: Some(256), ..llama_8b() };
    let mixed = Card { full_attention_every: Some(6), name: "mixed".into(), ..window.clone() };
    let gpt2 = tiersim_workloads::transformer::known::known("gpt2").expect("it is known").card();
    assert_eq!(gpt2.family, Family::Gpt2);
    for card in [llama_8b(), window, mixed, gpt2, deepseek()] {
        let is_known = |kernels: &Kernels| card.latent.is_none() || *kernels != Kernels::Eager;
        let all = Kernels::ALL.into_iter().filter(is_known);
        for (kernels_run, prompt) in all.flat_map(|one| [(one, 700), (one, 2)]) {
            let generated = generation(card.clone(), prompt, kernels_run);
            for layer_groups in [1, 5, card.layers] {
                let served = serving(card.clone(), prompt, kernels_run, layer_groups);
                for phase in [Phase::Prefill, Phase::Decode] {
                    let [one, other] =
                        [&generated, &served].map(|trace| kernels(trace, phase, |_| true));
                    let name = format!("{} {kernels_run:?} {layer_groups} {phase:?}", card.name);
                    assert_eq!(flops(&one), flops(&other), "{name}");
                    let spans =
                        [&generated, &served].map(|trace| time(trace, phase, |_| true).ps());
                    assert_eq!(spans[0], spans[1], "{name}");
                    if card.window.is_none() {
                        assert_eq!(counts(&one), counts(&other), "{name}");
                    }
                }
            }
        }
    }
}

/// How often a phase has each collective.
fn collectives(trace: &Trace, phase: Phase) -> BTreeMap<Collective, u32> {
    let mut all = BTreeMap::new();
    for op in trace.ops.iter().filter(|op| op.phase == phase) {
        if let Unit::Network(one) = op.unit {
            *all.entry(Collective { times: 1, ..one }).or_default() += one.times;
        }
    }
    all
}

/// Weights, keys and values, kernels and sums over ranks of one of several ranks.
#[test]
fn serving_on_several_ranks_is_generating_on_them() {
    let held = |trace: &Trace, kind| -> u64 {
        let of_kind = trace.objects.iter().filter(|object| object.kind == kind);
        of_kind.map(|object| object.bytes.get()).sum()
    };
    let ways = [1, 2, 8].into_iter().flat_map(|one| Kernels::ALL.map(|of| (one, of)));
    for (tensor, kernels_run) in ways {
        let generated = split_generation(llama_8b(), 700, kernels_run, tensor);
        for layer_groups in [1, 5, 32] {
            let served = split_serving(llama_8b(), 700, kernels_run, (layer_groups, tensor));
            assert_eq!(served.problems(), []);
            for phase in [Phase::Prefill, Phase::Decode] {
                let [one, other] =
                    [&generated, &served].map(|trace| kernels(trace, phase, |_| true));
                assert_eq!(counts(&one), counts(&other), "{tensor} {layer_groups} {phase:?}");
                let sums = [&generated, &served].map(|trace| collectives(trace, phase));
                assert_eq!(sums[0], sums[1], "{tensor} {layer_groups} {phase:?}");
                // Behind attention and the feed-forward part of each layer, and the table of tokens.
                let expected = if tensor == 1 { 0 } else { 2 * 32 + 1 };
                assert_eq!(sums[0].values().sum::<u32>(), expected);
            }
            let [one, other] = [&generated, &served].map(|trace| held(trace, ObjectKind::Weight));
            assert_eq!(one, other, "weights of one of {tensor} ranks");
            // 44 blocks of a prompt of 700 and one of the answer, 128 KiB per token on all ranks.
            let all = 45 * 16 * (128 << 10) / u64::from(tensor);
            assert_eq!(held(&served, ObjectKind::Kv), all);
        }
    }
}

/// What a run charges an op is the sum of its kernels, with one launch each.
#[test]
fn an_op_takes_what_its_kernels_take() {
    let device = device();
    let served = serving(llama_8b(), 64, Kernels::Fused, 1);
    let op = served.ops.iter().find(|op| op.phase == Phase::Decode).expect("a decode step");
    let all = op.kernels.as_deref().expect("they are known");
    let each = |one: &Kernel| {
        let alone = device.roofline(BF16, one.flops, one.bytes).expect("short");
        alone.ps() * one.times
    };
    let sum: u64 = all.iter().map(each).sum();
    let time = |op: &Op| device.times(BF16, std::slice::from_ref(op))[0];
    assert_eq!(time(op).map(Span::ps), Some(sum));
    // Two norms, four products, rotary positions, attention, the activation and two residuals in
    // each block; the embedding, a norm and a product around them.
    let launches: u64 = all.iter().map(|one| one.times).sum();
    assert_eq!(launches, 32 * 11 + 3);
    let unknown = Op { kernels: None, ..op.clone() };
    let one = device.roofline(BF16, op.flops, op.bytes);
    assert_eq!(time(&unknown), one);
    assert!(one < Some(Span::from_ps(sum)));
}
