//! Generated traces: parameters as published, sums as the formulas say, and no rule broken.

use crate::transformer::shape::{flops, sum};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::ids::ObjectId;
use tiersim_models::workload::{ObjectKind, Phase};
use tiersim_workloads::layered::{Family, Layered, MAX_OPS, Mode, Precision};

fn gpt2(layers: u32, hidden: u32, heads: u32) -> Layered {
    Layered {
        family: Family::Gpt2,
        layers,
        hidden,
        ffn: 4 * hidden,
        heads,
        kv_heads: heads,
        vocab: 50257,
        positions: 1024,
        tied: true,
        precision: Precision::Bf16,
        batch: 1,
        mode: Mode::Train { sequence: 1024 },
    }
}

fn llama_8b() -> Layered {
    Layered::llama_3_8b(Mode::Train { sequence: 8192 })
}

/// Any shape of moderate size without problems.
fn any_shape(rng: &mut ChaCha12Rng) -> Layered {
    let family = [Family::Gpt2, Family::Llama][rng.random_range(0..2)];
    let kv_heads = rng.random_range(1..5);
    let heads = kv_heads * rng.random_range(1..4);
    let context = rng.random_range(1..200);
    let mode = if rng.random_bool(0.5) {
        Mode::Train { sequence: context }
    } else {
        Mode::Decode { context, tokens: rng.random_range(1..=context.min(6)) }
    };
    Layered {
        family,
        layers: rng.random_range(1..6),
        hidden: heads * 2 * rng.random_range(1..20),
        ffn: rng.random_range(1..300),
        heads,
        kv_heads,
        vocab: rng.random_range(1..500),
        positions: if family == Family::Gpt2 { context + rng.random_range(0..9) } else { 0 },
        tied: rng.random_bool(0.5),
        precision: [Precision::Fp32, Precision::Bf16, Precision::Fp16][rng.random_range(0..3)],
        batch: rng.random_range(1..5),
        mode,
    }
}

#[test]
fn parameters_are_those_that_are_published() {
    for (shape, published) in [
        (gpt2(12, 768, 12), 124_439_808),
        (gpt2(24, 1024, 16), 354_823_168),
        (gpt2(36, 1280, 20), 774_030_080),
        (gpt2(48, 1600, 25), 1_557_611_200),
        (llama_8b(), 8_030_261_248),
    ] {
        assert_eq!(shape.parameters(), published);
        // And the trace holds as many, not only the formula.
        assert_eq!(sum(&shape.trace(), ObjectKind::Weight), 2 * published);
    }
}

#[test]
fn no_shape_makes_a_trace_that_breaks_a_rule() {
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    for _ in 0..400 {
        let shape = any_shape(&mut rng);
        assert_eq!(shape.problems(), [], "{shape:?}");
        let trace = shape.trace();
        assert_eq!(trace.problems(), [], "{shape:?}");
        assert_eq!(trace.ops.len() as u64, shape.ops(), "{shape:?}");
        assert_eq!(flops(&trace), shape.flops(), "{shape:?}");
        assert!(trace.objects.len() < 3 * trace.ops.len() + 60, "{shape:?}");
        assert!(trace.uses.len() < 5 * trace.ops.len(), "{shape:?}");
    }
}

#[test]
fn every_object_is_used_and_none_more_often_than_the_limits_assume() {
    let mut rng = ChaCha12Rng::seed_from_u64(8);
    for _ in 0..100 {
        let shape = any_shape(&mut rng);
        let trace = shape.trace();
        let mut uses = vec![0; trace.objects.len()];
        for used in &trace.uses {
            uses[used.object.index()] += 1;
        }
        let steps = match shape.mode {
            Mode::Train { .. } => 1,
            Mode::Decode { tokens, .. } => tokens,
        };
        for (object, uses) in trace.objects.iter().zip(uses) {
            assert!((1..=5 * steps).contains(&uses), "{} is used {uses} times", object.name);
        }
    }
}

#[test]
fn training_keeps_sixteen_bytes_per_parameter() {
    let mut rng = ChaCha12Rng::seed_from_u64(9);
    let mut tried = 0;
    for _ in 0..200 {
        let shape = any_shape(&mut rng);
        let (trace, n) = (shape.trace(), shape.parameters());
        let width = if shape.precision == Precision::Fp32 { 4 } else { 2 };
        assert_eq!(sum(&trace, ObjectKind::Weight), width * n);
        let training = matches!(shape.mode, Mode::Train { .. });
        let times = |bytes| if training { bytes * n } else { 0 };
        assert_eq!(sum(&trace, ObjectKind::Gradient), times(width));
        assert_eq!(sum(&trace, ObjectKind::Optimizer), times(8));
        assert_eq!(sum(&trace, ObjectKind::Master), times(if width == 2 { 4 } else { 0 }));
        tried += u32::from(training);
    }
    assert_eq!(tried, 90);
}

/// Korthikanti et al. 2022, section 4: s*b*h*34 per layer in 16 bits, of which 2 are dropout masks,
/// and 5*a*b*s^2 that fused attention does not keep; it keeps 4 bytes per token and head. Outside
/// of the layers: the first input, the input of the head, and fp32 logits (4*s*b*v).
#[test]
fn activations_are_those_of_the_published_formula() {
    for (layers, hidden, heads) in [(12, 768, 12), (24, 1024, 16), (3, 64, 2)] {
        let shape = Layered { batch: 3, ..gpt2(layers, hidden, heads) };
        let [layers, hidden, heads] = [layers, hidden, heads].map(u64::from);
        let tokens = 3 * 1024;
        let layer = 32 * tokens * hidden + 4 * tokens * heads;
        let ends = 2 * tokens * hidden + 2 * tokens * hidden + 4 * tokens * 50257;
        assert_eq!(sum(&shape.trace(), ObjectKind::Activation), layers * layer + ends);
    }
}

#[test]
fn the_cache_is_keys_and_values_of_every_position() {
    let shape = Layered {
        batch: 4,
        mode: Mode::Decode { context: 8192, tokens: 3 },
        precision: Precision::Bf16,
        ..llama_8b()
    };
    let trace = shape.trace();
    // 128 KiB per token is the known figure for this model.
    assert_eq!(sum(&trace, ObjectKind::Kv), 4 * 8192 * (128 << 10));
    let attention: Vec<_> = trace.ops.iter().filter(|op| op.name == "attention").collect();
    assert_eq!(attention.len(), 3 * 32);
    // One position more per token: 2 * 8 heads * 128 wide * 2 bytes * 4 sequences.
    assert_eq!(attention[32].bytes.get() - attention[0].bytes.get(), 2 * 8 * 128 * 2 * 4);
    let steps: Vec<u32> = trace.ops.iter().map(|op| op.step).collect();
    assert_eq!((steps.first(), steps.last()), (Some(&0), Some(&2)));
    assert_eq!(trace.tokens_per_step(), 4);
}

/// Kaplan et al. 2020, "Scaling Laws", section 2.1: 6 FLOPs per parameter and token, and attention
/// on top of that: 6 * layers * s * h per token forward and backward if causal, a sixth of the
/// backward pass more where the scores are computed again.
#[test]
fn flops_are_six_per_parameter_and_token_and_attention() {
    for shape in [gpt2(12, 768, 12), gpt2(48, 1600, 25), llama_8b()] {
        let Mode::Train { sequence } = shape.mode else { unreachable!() };
        let n = shape.matrix_parameters() as f64;
        let tokens = f64::from(sequence);
        let attention = 7.0 * f64::from(shape.layers) * f64::from(shape.hidden) * tokens;
        let expected = 6.0 * n * tokens + attention * (tokens + 1.0);
        let found = flops(&shape.trace()) as f64;
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        // By all parameters, as people reckon, it is off by attention and the tables.
        let usual = found / (6.0 * shape.parameters() as f64 * tokens);
        assert!((0.9..1.25).contains(&usual), "{usual}");
    }
}

/// What one token costs at every position adds up to what the forward pass costs.
#[test]
fn decoding_a_sequence_costs_what_a_forward_pass_costs() {
    for shape in [gpt2(2, 64, 4), Layered { layers: 2, vocab: 100, ..llama_8b() }] {
        let train = Layered { mode: Mode::Train { sequence: 50 }, ..shape };
        let decode = Layered { mode: Mode::Decode { context: 50, tokens: 50 }, ..shape };
        let trace = train.trace();
        let forward = trace.ops.iter().filter(|op| op.phase == Phase::Forward);
        let forward: u128 = forward.map(|op| u128::from(op.flops)).sum();
        assert_eq!(forward, flops(&decode.trace()));
    }
}

#[test]
fn a_model_of_one_layer_is_this_trace() {
    let shape = Layered { vocab: 10, positions: 4, ffn: 16, ..gpt2(1, 8, 2) };
    let shape = Layered { mode: Mode::Train { sequence: 4 }, ..shape };
    let trace = shape.trace();
    let ops: Vec<String> = trace
        .ops
        .iter()
        .map(|op| format!("{} {}", op.name, trace.modules[op.module.unwrap().index()]))
        .collect();
    let expected = "embedding wte, positions wpe, norm h.0.ln_1, linear h.0.attn.c_attn, \
        attention h.0.attn, linear h.0.attn.c_proj, norm h.0.ln_2, linear h.0.mlp.c_fc, \
        activation h.0.mlp.act, linear h.0.mlp.c_proj, norm ln_f, linear lm_head, loss lm_head, \
        linear_backward lm_head, norm_backward ln_f, linear_backward h.0.mlp.c_proj, \
        activation_backward h.0.mlp.act, linear_backward h.0.mlp.c_fc, norm_backward h.0.ln_2, \
        linear_backward h.0.attn.c_proj, attention_backward h.0.attn, \
        linear_backward h.0.attn.c_attn, norm_backward h.0.ln_1, positions_backward wpe, \
        embedding_backward wte, adam wte, adam wpe, adam h.0.ln_1, adam h.0.attn.c_attn, \
        adam h.0.attn.c_proj, adam h.0.ln_2, adam h.0.mlp.c_fc, adam h.0.mlp.c_proj, adam ln_f";
    assert_eq!(ops.join(", "), expected);
    let uses = |op: usize| -> Vec<String> {
        let name = |object: ObjectId| &trace.objects[object.index()].name;
        let of =
            |u: &tiersim_models::workload::Use| format!("{} {}", u.mode.word(), name(u.object));
        trace.uses_of(tiersim_models::ids::OpId::at(op)).iter().map(of).collect()
    };
    let attention = ["r h.0.attn.c_attn.out", "w h.0.attn.out"];
    assert_eq!(uses(4), attention);
    assert_eq!(trace.ops[4].flops, 4 * 8 * (1 + 2 + 3 + 4));
    // 4 tokens: read 24 numbers each, write 8 and the sums of 2 heads.
    assert_eq!(trace.ops[4].bytes.get(), 4 * (24 * 2 + 8 * 2 + 2 * 4));
    let adam = ["r wte.weight.grad", "rw wte.weight.exp_avg", "rw wte.weight.exp_avg_sq"];
    assert_eq!(uses(25)[..3], adam);
    assert_eq!(uses(25)[3..], ["rw wte.weight.master", "w wte.weight"]);
    assert_eq!(trace.ops[25].bytes.get(), 28 * 10 * 8);
}

#[test]
fn statistics_rank_modules_in_forward_order_and_tables_last() {
    let shape = Layered { vocab: 9, layers: 2, ..llama_8b() };
    for (shape, rank) in [
        (
            gpt2(2, 64, 2),
            [("h.0.ln_1", 0), ("h.1.ln_1", 6), ("ln_f", 12), ("wte", 13), ("wpe", 14)],
        ),
        (
            shape,
            [
                ("layers.0.input_layernorm", 0),
                ("layers.1.mlp.down_proj", 13),
                ("norm", 14),
                ("embed_tokens", 15),
                ("lm_head", 16),
            ],
        ),
    ] {
        let trace = shape.trace();
        for (module, rank) in rank {
            let name = format!("{module}.weight");
            let weight = trace.objects.iter().find(|object| object.name == name).unwrap();
            let scale = 1.0 / (1.0 + f64::from(rank));
            assert_eq!(weight.statistics.adam_m, Some(0.001 * scale), "{name}");
            assert_eq!(weight.statistics.adam_v, Some(0.01 * scale), "{name}");
        }
    }
}

/// Each change of a good shape is refused at this field, with this in its rule.
#[test]
fn what_is_out_of_range_or_does_not_fit_together_is_refused() {
    let small = Layered { mode: Mode::Train { sequence: 8 }, ..gpt2(2, 64, 4) };
    let llama = Layered { layers: 1, vocab: 9, ..llama_8b() };
    let decode = |context, tokens| Mode::Decode { context, tokens };
    for (shape, field, rule) in [
        (Layered { layers: 0, ..small }, "layers", "between 1 and 10000"),
        (Layered { layers: u32::MAX, ..small }, "layers", "between 1 and 10000"),
        (Layered { hidden: 0, ..small }, "hidden", "between 1 and"),
        (Layered { heads: 0, ..small }, "heads", "between 1 and"),
        (Layered { kv_heads: 0, ..small }, "kv_heads", "between 1 and"),
        (Layered { vocab: 0, ..small }, "vocab", "between 1 and"),
        (Layered { ffn: 0, ..small }, "ffn", "between 1 and"),
        (Layered { batch: 0, ..small }, "batch", "between 1 and"),
        (Layered { positions: 0, ..small }, "positions", "between 1 and"),
        (Layered { mode: Mode::Train { sequence: 0 }, ..small }, "mode.sequence", "between 1"),
        (Layered { mode: decode(0, 1), ..small }, "mode.context", "between 1"),
        (Layered { mode: decode(8, 0), ..small }, "mode.tokens", "between 1"),
        (Layered { heads: 5, kv_heads: 5, ..small }, "heads", "must divide `hidden`, which is 64"),
        (Layered { kv_heads: 3, ..small }, "kv_heads", "must divide `heads`, which is 4"),
        (Layered { hidden: 96, ..llama }, "heads", "a head is 3 wide"),
        (Layered { positions: 7, ..small }, "mode.sequence", "`positions`, which is 7"),
        (Layered { positions: 7, mode: decode(8, 1), ..small }, "mode.context", "which is 7"),
        (Layered { positions: 7, ..llama }, "positions", "has no table"),
        (Layered { mode: decode(8, 9), ..small }, "mode.tokens", "`context`, which is 8"),
        (Layered { layers: 10_000, ..small }, "layers", "at most 100000 ops"),
        (Layered { mode: decode(1 << 20, 1 << 20), ..llama }, "mode.tokens", "at most 100000 ops"),
        (
            Layered { batch: 1 << 20, mode: Mode::Train { sequence: 1 << 26 }, ..llama },
            "batch",
            "below 2^64",
        ),
    ] {
        let problems = shape.problems();
        let found = problems.iter().any(|p| p.field == field && p.rule.contains(rule));
        assert!(found, "{field}, {rule}: {problems:?}");
    }
}

/// The largest values together: refused, not overflowed.
#[test]
fn no_shape_however_large_panics() {
    let mut rng = ChaCha12Rng::seed_from_u64(10);
    let any = |rng: &mut ChaCha12Rng| match rng.random_range(0..20) {
        0 => u32::MAX,
        1 => rng.random(),
        2 => rng.random_range(0..10),
        _ => 1 << rng.random_range(0..28),
    };
    let mut good = 0;
    for _ in 0..200_000 {
        let family = [Family::Gpt2, Family::Llama][rng.random_range(0..2)];
        let shape = Layered {
            family,
            layers: any(&mut rng),
            hidden: any(&mut rng),
            ffn: any(&mut rng),
            heads: any(&mut rng),
            kv_heads: any(&mut rng),
            vocab: any(&mut rng),
            positions: if family == Family::Gpt2 { any(&mut rng) } else { 0 },
            tied: rng.random_bool(0.5),
            precision: Precision::Bf16,
            batch: any(&mut rng),
            mode: if rng.random_bool(0.5) {
                Mode::Train { sequence: any(&mut rng) }
            } else {
                Mode::Decode { context: any(&mut rng), tokens: any(&mut rng) }
            },
        };
        if shape.problems().is_empty() {
            good += 1;
            assert!(shape.ops() <= MAX_OPS);
            if shape.ops() < 2_000 {
                assert_eq!(shape.trace().problems(), [], "{shape:?}");
            }
        }
    }
    assert_eq!(good, 355);
}
