//! The trace of a step against memory by formula: two accounts that share no code.

use crate::activations::{kept, paper};
use crate::shape::{gpt2, llama_8b, peak_state, plain};
use tiersim_models::memory::account::{Keeps, Pipeline, Training as Job, training};
use tiersim_models::memory::activations::block::Block;
use tiersim_models::memory::activations::{Batch, Stages, of_stage};
use tiersim_models::memory::zero::Offload;
use tiersim_models::transformer::card::Card;
use tiersim_models::transformer::training::{
    Attention, Checkpointing, Optimizer, Parallel, Training, Zero,
};

/// What the formulas say that blocks keep, with the sums of flash attention, which the trace has as well.
fn by_formula(step: &Training) -> u128 {
    let parallel = &step.parallel;
    let batch = Batch {
        sequences: step.micro_batch.into(),
        tokens: step.sequence,
        format: step.formats.activations,
        attention: step.attention,
        dropout: step.dropout,
        tensor: parallel.tensor.into(),
        by_sequence: parallel.sequence,
    };
    let stages = Stages {
        layers: step.card.layers.into(),
        pipeline: parallel.pipeline.into(),
        interleave: parallel.interleave.into(),
        micro_batches: (step.batch / step.micro_batch).into(),
    };
    let block = Block::of(&step.card);
    let found = of_stage(&block, &batch, &stages, step.checkpointing, 0).expect("it is small");
    let whole = matches!(step.checkpointing, Checkpointing::None | Checkpointing::Selective);
    let sums = if step.attention == Attention::Flash && whole { 4 } else { 0 };
    let tokens = u128::from(step.sequence) * u128::from(step.micro_batch);
    let local = u128::from(step.card.heads / parallel.tensor);
    found.kept + sums * tokens * local * u128::from(step.card.layers)
}

#[test]
fn activations_of_the_trace_are_those_of_the_formulas() {
    let small = Card { vocab: 64, ..gpt2(4, 64, 4) };
    let llama =
        Card { layers: 4, hidden: 64, ffn: 176, heads: 8, kv_heads: 4, head_dim: 8, ..llama_8b() };
    for (tensor, sequence) in [(1, false), (2, false), (4, true)] {
        let parallel = Parallel { tensor, sequence, ..Parallel::default() };
        for checkpointing in [
            Checkpointing::None,
            Checkpointing::Selective,
            Checkpointing::Full,
            Checkpointing::Every(3),
        ] {
            for (name, step) in [
                ("gpt2", paper(small.clone(), 32, 2)),
                ("gpt2 flash", plain(small.clone(), 32)),
                ("llama", plain(Card { vocab: 64, ..llama.clone() }, 32)),
            ] {
                let step = Training { parallel, checkpointing, ..step };
                let case = format!("{name} {tensor} {sequence} {checkpointing:?}");
                assert_eq!(u128::from(kept(&step)), by_formula(&step), "{case}");
            }
        }
    }
}

#[test]
fn model_state_of_the_trace_is_that_of_the_account() {
    let card = Card { vocab: 64, positions: 64, ..gpt2(3, 64, 4) };
    for optimizer in [
        Optimizer::AdamW,
        Optimizer::AdamWithoutMaster,
        Optimizer::Lion,
        Optimizer::Sgd { momentum: true },
        Optimizer::Sgd { momentum: false },
    ] {
        for stage in 0..4u8 {
            for data in [1u32, 2, 4, 8, 16] {
                let step = Training {
                    optimizer,
                    parallel: Parallel { data, ..Parallel::default() },
                    zero: Zero { stage, ..Zero::default() },
                    ..plain(card.clone(), 16)
                };
                let job = Job {
                    params: card.parameters(),
                    tensors: Vec::new(),
                    weights: step.formats.weights,
                    gradients: step.formats.gradients,
                    optimizer: Keeps::Named(optimizer),
                    gpus: data.into(),
                    gpus_per_node: data.min(8).into(),
                    stage,
                    offload: Offload::default(),
                    split: Pipeline { tensor: 1, by_sequence: false, stages: 1, interleave: 1 },
                    bucket: 0,
                    pinned: 0,
                    reserved: 0,
                    largest_layer: 0,
                    prefetch: 0,
                    step: None,
                };
                let account = training(&job).expect("it is small");
                let case = format!("{optimizer:?} stage {stage} of {data}");
                assert_eq!(u128::from(peak_state(&step.trace())), account.gpu, "{case}");
            }
        }
    }
}
