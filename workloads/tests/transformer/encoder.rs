//! Encoders: post-norm blocks whose tokens attend to all others, and the head of masked language
//! modelling. What a step of PyTorch has of them is compared by the recorder's tests.

use crate::transformer::shape::gpt2;
use tiersim_models::kernel::{Kernel, Work};
use tiersim_models::workload::{Op, Phase};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::training::{Attention, Kernels, Parallel, Router, Training};

/// bert-base-uncased: config.json of google-bert/bert-base-uncased.
fn bert_base() -> Card {
    Card {
        name: "bert-base".into(),
        family: Family::Bert,
        vocab: 30_522,
        positions: 512,
        ..gpt2(12, 768, 12)
    }
}

#[test]
fn parameters_are_those_of_the_makers_class() {
    // Tables and their norm, blocks, and bias, matrix and norm of the head.
    let tables = (30_522 + 512 + 2) * 768 + 2 * 768;
    let block = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 2 * 2 * 768;
    let head = 30_522 + 768 * 768 + 768 + 2 * 768;
    assert_eq!(tables + 12 * block + head, 109_514_298);
    assert_eq!(bert_base().parameters(), 109_514_298);
    // RoBERTa base: 50265 tokens, 514 positions, one type.
    let roberta = Card { family: Family::Roberta, vocab: 50_265, positions: 514, ..bert_base() };
    let other = (50_265 - 30_522) * 769 + 768;
    assert_eq!(roberta.parameters(), 109_514_298 + other);
    assert_eq!(roberta.problems(), []);
}

#[test]
fn a_block_has_its_norms_behind_its_sums_and_attends_to_all() {
    let (tokens, width) = (128u64, 768u64);
    let attention = Attention::Flash;
    let job = Training { attention, dropout: false, ..Training::new(bert_base(), tokens) };
    assert_eq!(job.problems(), []);
    let trace = job.trace();
    let is_in_block = |op: &&Op| {
        let module = op.module.map_or("", |module| &trace.modules[module.index()]);
        module.contains("layer.0.") && op.phase == Phase::Forward
    };
    let ops: Vec<&Op> = trace.ops.iter().filter(is_in_block).collect();
    let names: Vec<&str> = ops.iter().map(|op| &*op.name).collect();
    let expected = ["linear", "linear", "linear", "attention", "linear", "residual", "norm"];
    let feed = ["linear", "activation", "linear", "residual", "norm"];
    assert_eq!(names, [&expected[..], &feed].concat());
    let all = |ops: &[&Op]| -> Vec<Kernel> {
        ops.iter().flat_map(|op| op.kernels.iter().flat_map(|of| of.iter().copied())).collect()
    };
    let is_attention = |kernel: &&Kernel| matches!(kernel.work, Work::Attention(_));
    let kernels = all(&ops);
    let found = kernels.iter().find(is_attention).expect("it attends");
    // Two products of every pair of tokens.
    assert_eq!(found.flops, 2 * 2 * tokens * tokens * width);
    assert_eq!(found.to_string().parse(), Ok(*found));
}

#[test]
fn encoders_generate_no_text_and_are_not_split_by_matrix() {
    let generation = Generation {
        card: bert_base(),
        formats: Formats::all(Format::Bf16),
        batch: 1,
        batches: 1,
        prompt: 8,
        tokens: 2,
        prefill: true,
        attention: AttentionOn::Device,
        kernels: Kernels::Fused,
        kv_block: None,
        tensor: 1,
        context: 1,
        devices: 1,
        router: Router::default(),
    };
    let problems = generation.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].field, "card.family");
    assert!(problems[0].rule.contains("bert is an encoder"), "{problems:?}");
    let parallel = Parallel { tensor: 2, ..Parallel::default() };
    let job = Training { parallel, devices: 8, ..Training::new(bert_base(), 128) };
    let fields: Vec<&str> = job.problems().iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["parallel.tensor"]);
    let card = Card { window: Some(5), tied: false, ..bert_base() };
    let fields: Vec<&str> = card.problems().iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["window", "tied"]);
}
