//! Trainings of several steps in micro-batches: the same samples, however they are cut.

use crate::transformer::shape::most_alive;
use std::collections::BTreeSet;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Phase, Trace};
use tiersim_workloads::ShapeProblem;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::Family;
use tiersim_workloads::transformer::training::{Training, TrainingRun, UpdateTime, Zero, split};

fn card(family: Family) -> Card {
    let is_gpt2 = family == Family::Gpt2;
    Card {
        name: "small".to_owned(),
        family,
        layers: 3,
        hidden: 64,
        ffn: 128,
        heads: 4,
        kv_heads: if is_gpt2 { 4 } else { 2 },
        head_dim: 16,
        vocab: 100,
        positions: if is_gpt2 { 64 } else { 0 },
        tied: is_gpt2,
        qkv_bias: is_gpt2,
        experts: None,
        window: None,
        full_attention_every: None,
        latent: None,
    }
}

fn training(family: Family, sequences: &[u32], batch: u32) -> TrainingRun {
    let step = Training { batch, micro_batch: batch, ..Training::new(card(family), 1) };
    TrainingRun::new(step, sequences.to_vec())
}

fn flops(trace: &Trace, step: u32) -> u64 {
    trace.ops.iter().filter(|op| op.step == step).map(|op| op.flops).sum()
}

/// The most bytes that live at once beside what persists.
fn most_live(trace: Trace) -> u64 {
    most_alive(&trace, |object| if object.persistent { 0 } else { object.bytes.get() })
}

#[test]
fn a_split_covers_every_sample_once_as_equally_as_can_be() {
    for batch in 1..40 {
        for most in 1..=batch {
            let parts: Vec<u32> = split(batch, most).collect();
            assert_eq!(parts.iter().sum::<u32>(), batch);
            assert_eq!(parts.len(), batch.div_ceil(most) as usize);
            assert!(parts.iter().all(|&part| 1 <= part && part <= most), "{batch}/{most}");
            assert!(parts[0] - parts[parts.len() - 1] <= 1);
        }
    }
}

#[test]
fn flops_of_a_step_do_not_depend_on_its_micro_batches() {
    for family in [Family::Gpt2, Family::Llama] {
        let training = training(family, &[16, 40, 24], 7);
        let whole = training.trace();
        for cut in [[1, 1, 1], [7, 3, 2], [4, 7, 5]] {
            let trace = training.trace_of(&cut);
            assert_eq!(trace.problems(), [], "{family:?} {cut:?}");
            for step in 0..3 {
                assert_eq!(flops(&trace, step), flops(&whole, step), "{family:?} {cut:?}");
            }
            let updates = trace.ops.iter().filter(|op| op.phase == Phase::Optimizer).count();
            let once = whole.ops.iter().filter(|op| op.phase == Phase::Optimizer).count();
            assert_eq!(updates, once, "one update per step");
        }
    }
}

#[test]
fn logits_count_the_tokens_of_every_step() {
    let training = training(Family::Gpt2, &[16, 40, 24], 7);
    for cut in [[7, 7, 7], [1, 2, 3], [5, 4, 6]] {
        let trace = training.trace_of(&cut);
        for (step, sequence) in training.sequences.iter().enumerate() {
            let named = format!("s{step}.m");
            let logits = trace.objects.iter().filter(|object| {
                object.name.starts_with(&named) && object.name.ends_with("lm_head.out")
            });
            let bytes: u64 = logits.map(|object| object.bytes.get()).sum();
            assert_eq!(bytes, 7 * u64::from(*sequence) * 100 * 4, "{cut:?}, step {step}");
        }
    }
    assert_eq!(training.tokens_per_step(), 7 * 80 / 3 + 1, "186.67 is rounded");
}

#[test]
fn a_smaller_micro_batch_needs_less_memory_and_touches_more_bytes() {
    for family in [Family::Gpt2, Family::Llama] {
        let training = training(family, &[32], 8);
        let weights = training.trace().objects.into_iter();
        let weights = weights.filter(|object| object.kind == ObjectKind::Weight);
        let parameters = weights.map(|object| object.bytes.get() / 2).sum::<u64>();
        let touched = |trace: &Trace| trace.ops.iter().map(|op| op.bytes).sum::<Bytes>().get();
        let found: Vec<(u64, u64)> = [8, 4, 2, 1]
            .map(|most| training.trace_of(&[most]))
            .into_iter()
            .map(|trace| (touched(&trace), most_live(trace)))
            .collect();
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[0].1 > pair[1].1), "{found:?}");
        // Gradients of weights live through all micro-batches of the step.
        assert!(found[3].1 > 2 * parameters);
    }
}

#[test]
fn one_step_in_one_piece_is_the_plain_trace() {
    for family in [Family::Gpt2, Family::Llama] {
        let training = training(family, &[24], 3);
        let (steps, plain) = (training.trace(), training.training.trace());
        assert_eq!((&steps.ops, &steps.uses), (&plain.ops, &plain.uses));
        let bytes = |trace: &Trace| -> Vec<Bytes> {
            trace.objects.iter().map(|object| object.bytes).collect()
        };
        assert_eq!(bytes(&steps), bytes(&plain));
    }
}

#[test]
fn what_persists_has_the_same_ids_however_a_training_is_cut() {
    let training = training(Family::Llama, &[16, 32], 6);
    let persists = |cut: [u32; 2]| -> Vec<(usize, String)> {
        let trace = training.trace_of(&cut);
        let rows = trace.objects.into_iter().enumerate();
        rows.filter(|(_, object)| object.persistent)
            .map(|(id, object)| (id, object.name.to_string()))
            .collect()
    };
    assert_eq!(persists([6, 6]), persists([1, 4]));
    let trace = training.trace_of(&[1, 4]);
    let names: BTreeSet<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names.len(), trace.objects.len(), "names are unique");
    let gradients = trace.objects.iter().filter(|object| object.kind == ObjectKind::Gradient);
    let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    assert_eq!(gradients.count(), 2 * weights.count(), "each step has its own");
}

/// However a run is split over ranks and wherever it is updated, its steps are steps.
#[test]
fn steps_of_every_kind_keep_the_rules_of_a_trace() {
    for stage in 0..=3 {
        for (update, prefetch) in [(UpdateTime::After, 0), (UpdateTime::InBackward, 2)] {
            let mut run = training(Family::Llama, &[16, 40, 24], 5);
            run.training.parallel.data = 4;
            run.training.devices = 4;
            (run.training.update, run.training.zero.stage) = (update, stage);
            run.training.zero = Zero { bucket: Bytes::new(10_000), prefetch, ..run.training.zero };
            assert_eq!(run.problems(1), []);
            let trace = run.trace_of(&[5, 2, 1]);
            assert_eq!(trace.problems(), [], "stage {stage}, {update:?}");
            let alone = |sequence| {
                let mut step = run.training.clone();
                (step.sequence, step.batch, step.micro_batch) = (sequence, 5, 5);
                step.trace()
            };
            let ops = trace.ops.iter().filter(|op| op.step == 0).count();
            assert_eq!(ops, alone(16).ops.len(), "a step is the step alone");
            assert_eq!(flops(&trace, 1), flops(&alone(40), 0));
        }
    }
}

#[test]
fn trainings_that_cannot_be_are_refused() {
    let right = training(Family::Gpt2, &[16, 32], 6);
    assert_eq!(right.problems(1), []);
    let refused = |training: &TrainingRun, least: u32, field: &str, piece: &str| {
        let found = training.problems(least);
        let about = |rule: &&_| -> bool {
            let rule: &ShapeProblem = rule;
            rule.field == field && rule.rule.contains(piece)
        };
        assert!(found.iter().any(|rule| about(&rule)), "{field} {piece}: {found:?}");
    };
    let with = |sequences: Vec<u32>| TrainingRun { sequences, ..right.clone() };
    refused(&with(Vec::new()), 1, "sequences", "1 to 1000 steps");
    refused(&with(vec![8; 1001]), 1, "sequences", "1 to 1000 steps");
    refused(&with(vec![8, 0]), 1, "sequences", "at least one token");
    let micro = |micro_batch| {
        let mut run = right.clone();
        run.training.micro_batch = micro_batch;
        run
    };
    refused(&micro(0), 1, "micro_batch", "between 1 and");
    refused(&micro(7), 1, "micro_batch", "which is 6");
    let mut long = with(vec![8; 1000]);
    long.training.batch = 1000;
    refused(&long, 1, "sequences", "at most 1000000 ops");
    let longer = TrainingRun::new(right.training.clone(), vec![65]);
    refused(&longer, 1, "sequence", "positions");
}
