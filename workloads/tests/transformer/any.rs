//! Any training: it is refused with a field, a rule and a remedy, or makes a trace that breaks no
//! rule.

use crate::transformer::shape::check_kernels_of;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::units::Bytes;
use tiersim_workloads::transformer::adapters::{Lora, Target};
use tiersim_workloads::transformer::card::{Biases, Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, OptimizerKernels, Parallel, Router,
    Training, UpdateTime, Zero,
};

fn one_of<T: Copy>(rng: &mut ChaCha12Rng, all: &[T]) -> T {
    all[rng.random_range(0..all.len())]
}

fn any_card(rng: &mut ChaCha12Rng) -> Card {
    let family = one_of(rng, &Family::ALL);
    let kv_heads = one_of(rng, &[2, 4]);
    let heads = kv_heads * one_of(rng, &[1, 2]);
    let (may, must) = family.experts();
    let experts = must || may && rng.random_bool(0.3);
    let experts = experts.then(|| Experts {
        count: one_of(rng, &[4, 8]),
        active: rng.random_range(1..4),
        ffn: one_of(rng, &[16, 64]),
        shared: rng.random_range(0..2),
        dense_first: 0,
    });
    let window = rng.random_bool(0.3).then_some(5).filter(|_| family.is_causal());
    Card {
        name: "any".into(),
        family,
        layers: one_of(rng, &[4, 8]),
        hidden: 8 * heads,
        ffn: 32,
        heads,
        kv_heads,
        head_dim: 8,
        vocab: one_of(rng, &[64, 96]),
        positions: if family.learns_positions() { 64 } else { 0 },
        tied: rng.random_bool(0.5) || !family.is_causal(),
        qkv_bias: match family.biases() {
            Biases::All | Biases::Attention => true,
            Biases::None | Biases::Feed => false,
            Biases::OpenQkv | Biases::OpenAttention => rng.random_bool(0.5),
        },
        experts,
        window,
        full_attention_every: window.and_then(|_| one_of(rng, &[None, Some(2), Some(3)])),
        latent: None,
    }
}

/// Adapters, in every third training.
fn any_adapters(rng: &mut ChaCha12Rng, card: &Card) -> Option<Lora> {
    use Target::{Down, Gate, K, O, Q, Up, V};
    let mut all = vec![Q, K, V, O];
    if card.experts.is_none() {
        all.extend([Up, Down]);
        all.extend(card.family.is_gated().then_some(Gate));
    }
    all.retain(|_| rng.random_bool(0.5));
    all.push(O);
    let rank = rng.random_range(1..9);
    let is_any = rng.random_bool(0.3) && card.family.is_causal();
    is_any.then_some(Lora { rank, targets: all.into() })
}

fn any_training(rng: &mut ChaCha12Rng) -> Training {
    use Optimizer::{Adafactor, Adam8Bit, AdamMini, AdamW, AdamWithoutMaster, Lion, Sgd};
    let card = any_card(rng);
    let pipeline = one_of(rng, &[1, 1, 2, 4]);
    let interleave = if pipeline > 1 { one_of(rng, &[1, 2]) } else { 1 };
    let interleave = if card.layers == 4 && pipeline == 4 { 1 } else { interleave };
    let parallel = Parallel {
        data: one_of(rng, &[1, 2, 8]),
        context: 1,
        tensor: if card.family.is_causal() { one_of(rng, &[1, 2]) } else { 1 },
        sequence: rng.random_bool(0.5),
        overlap: rng.random_bool(0.5),
        pipeline,
        interleave,
        expert: 1,
    };
    let expert = if card.experts.is_some() { one_of(rng, &[1, 2]).min(parallel.data) } else { 1 };
    let micro_batch = rng.random_range(1..3);
    let weights = one_of(rng, &[Format::Fp32, Format::Bf16, Format::Fp16, Format::Fp8]);
    use OptimizerKernels::{ForLoop, Fused};
    let optimizer = one_of(
        rng,
        &[AdamW, AdamWithoutMaster, Adam8Bit, AdamMini, Adafactor, Lion, Sgd { momentum: true }],
    );
    let is_adam = matches!(optimizer, AdamW | AdamWithoutMaster);
    let no_master = optimizer == AdamWithoutMaster || weights == Format::Fp32;
    let lora = any_adapters(rng, &card);
    let double = Packed::Nf4 { group: 64, double: true };
    let packed = [None, Some(double), Some(Packed::Int4 { group: 7 })];
    let training = Training {
        batch: micro_batch * pipeline * rng.random_range(1..3),
        micro_batch,
        sequence: one_of(rng, &[2, 16, 64]),
        formats: Formats {
            weights,
            packed: lora.and_then(|_| one_of(rng, &packed)),
            gradients: one_of(rng, &[Format::Fp32, Format::Bf16]),
            activations: one_of(rng, &[Format::Bf16, Format::Int8, Format::Fp32]),
            kv: Format::Bf16,
        },
        optimizer,
        checkpointing: one_of(
            rng,
            &[
                Checkpointing::None,
                Checkpointing::Selective,
                Checkpointing::Full,
                Checkpointing::Every(3),
            ],
        ),
        attention: one_of(rng, &[Attention::Flash, Attention::Eager]),
        dropout: rng.random_bool(0.5),
        parallel: Parallel { expert, ..parallel },
        zero: Zero {
            stage: one_of(rng, &[0, 1, 2, 3]),
            host_update: one_of(rng, if no_master { &[0, 1000][..] } else { &[0, 1, 333, 1000] }),
            bucket: Bytes::new(one_of(rng, &[1, 5_000, 1_000_000])),
            prefetch: rng.random_range(0..4),
            reshard: rng.random_bool(0.7),
            overlap: rng.random_bool(0.5),
        },
        devices: 8,
        router: Router { seed: rng.random_range(0..9), skew: one_of(rng, &[0, 100, 400]) },
        loader: rng.random_bool(0.3).then_some(Loader { workers: 2, prefetch: 2, token_bytes: 8 }),
        kernels: one_of(rng, &[Kernels::Compiled, Kernels::Eager, Kernels::Fused]),
        optimizer_kernels: match is_adam {
            true => one_of(rng, &[None, Some(ForLoop), Some(Fused)]),
            false => one_of(rng, &[None, Some(Fused)]),
        },
        loss: one_of(rng, &[Loss::Eager, Loss::Fused]),
        update: one_of(rng, &[UpdateTime::After, UpdateTime::InBackward]),
        lora,
        card,
    };
    let update = if training.card.family.is_causal() { training.update } else { UpdateTime::After };
    let training = Training { update, ..training };
    // Eager kernels are not known of every model and split.
    let is_known = training.problems().is_empty();
    let kernels = if is_known { training.kernels } else { Kernels::Compiled };
    Training { kernels, ..training }
}

#[test]
fn no_training_makes_a_trace_that_breaks_a_rule() {
    let mut rng = ChaCha12Rng::seed_from_u64(11);
    for number in 0..600 {
        let training = any_training(&mut rng);
        assert_eq!(training.problems(), [], "{number}: {training:?}");
        let trace = training.trace();
        let problems = trace.problems();
        assert!(problems.is_empty(), "{number}: {problems:?} {training:?}");
        let mut used = vec![false; trace.objects.len()];
        for touched in &trace.uses {
            used[touched.object.index()] = true;
        }
        // A frozen expert to which no token comes is not even updated.
        let is_idle = |index: usize| {
            training.lora.is_some() && trace.objects[index].name.contains(".experts.")
        };
        let unused = (0..used.len()).find(|&index| !used[index] && !is_idle(index));
        let unused = unused.map(|index| &trace.objects[index].name);
        assert_eq!(unused, None, "{number}: {training:?}");
        let loops = training.optimizer_kernels == Some(OptimizerKernels::ForLoop);
        check_kernels_of(&trace, training.kernels == Kernels::Eager || loops);
    }
}
