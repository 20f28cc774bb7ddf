//! Trainings of several steps in micro-batches: the same samples, however they are cut.

use crate::transformer::shape::most_alive;
use std::collections::BTreeSet;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Phase, Trace};
use tiersim_workloads::layered::training::{Training, split};
use tiersim_workloads::layered::{Family, Layered, Mode, Precision};

fn training(family: Family, sequences: &[u32], batch: u32) -> Training {
    let shape = Layered {
        family,
        layers: 3,
        hidden: 64,
        ffn: 128,
        heads: 4,
        kv_heads: 2,
        vocab: 100,
        positions: if family == Family::Gpt2 { 64 } else { 0 },
        tied: family == Family::Gpt2,
        precision: Precision::Bf16,
        batch,
        mode: Training::longest(sequences),
    };
    Training { shape, sequences: sequences.to_vec(), micro_batch: batch }
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
        let touched = |trace: &Trace| trace.ops.iter().map(|op| op.bytes).sum::<Bytes>().get();
        let found: Vec<(u64, u64)> = [8, 4, 2, 1]
            .map(|most| training.trace_of(&[most]))
            .into_iter()
            .map(|trace| (touched(&trace), most_live(trace)))
            .collect();
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[0].1 > pair[1].1), "{found:?}");
        // Gradients of weights live through all micro-batches of the step.
        assert!(found[3].1 > 2 * training.shape.parameters());
    }
}

#[test]
fn one_step_in_one_piece_is_the_plain_trace() {
    for family in [Family::Gpt2, Family::Llama] {
        let training = training(family, &[24], 3);
        let (steps, plain) = (training.trace(), training.shape.trace());
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
        rows.filter(|(_, object)| object.persistent).map(|(id, object)| (id, object.name)).collect()
    };
    assert_eq!(persists([6, 6]), persists([1, 4]));
    let trace = training.trace_of(&[1, 4]);
    let names: BTreeSet<&str> = trace.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names.len(), trace.objects.len(), "names are unique");
    let gradients = trace.objects.iter().filter(|object| object.kind == ObjectKind::Gradient);
    let weights = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    assert_eq!(gradients.count(), 2 * weights.count(), "each step has its own");
}

#[test]
fn ops_are_counted_without_making_them() {
    for family in [Family::Gpt2, Family::Llama] {
        let training = training(family, &[16, 32, 8], 6);
        for most in 1..=6 {
            let trace = training.trace_of(&[most; 3]);
            assert_eq!(training.ops(most), trace.ops.len() as u64, "{family:?}, {most}");
        }
    }
}

#[test]
fn trainings_that_cannot_be_are_refused() {
    let right = training(Family::Gpt2, &[16, 32], 6);
    assert_eq!(right.problems(1), []);
    let refused = |training: &Training, least: u32, field: &str, piece: &str| {
        let found = training.problems(least);
        let about = |rule: &&_| -> bool {
            let rule: &tiersim_workloads::layered::ShapeProblem = rule;
            rule.field == field && rule.rule.contains(piece)
        };
        assert!(found.iter().any(|rule| about(&rule)), "{field} {piece}: {found:?}");
    };
    let with = |sequences: Vec<u32>| Training { sequences, ..right.clone() };
    refused(&with(Vec::new()), 1, "mode.sequences", "1 to 1000 steps");
    refused(&with(vec![8; 1001]), 1, "mode.sequences", "1 to 1000 steps");
    refused(&with(vec![8, 0]), 1, "mode.sequences", "at least one token");
    refused(&Training { micro_batch: 0, ..right.clone() }, 1, "mode.micro_batch", "between 1 and");
    refused(&Training { micro_batch: 7, ..right.clone() }, 1, "mode.micro_batch", "which is 6");
    let mut long = with(vec![8; 1000]);
    long.shape.batch = 1000;
    refused(&long, 1, "mode.sequences", "at most 100000 ops");
    let mut longer = right.clone();
    longer.shape.mode = Mode::Train { sequence: 65 };
    refused(&longer, 1, "mode.sequence", "positions");
}
