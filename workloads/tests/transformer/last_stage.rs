//! What the first stage of a pipeline waits for the last one.

use crate::transformer::shape::llama_8b;
use crate::transformer::timed::{device, makespan};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Op, Phase, Unit};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::training::{Checkpointing, Loss, Parallel, Training};

fn job(card: Card, (pipeline, interleave): (u32, u32), micro_batches: u32) -> Training {
    let parallel = Parallel { pipeline, interleave, ..Parallel::default() };
    let job = Training { batch: micro_batches, parallel, ..Training::new(card, 512) };
    assert_eq!(job.problems(), []);
    job
}

/// Llama 3 8B's blocks and vocabulary, an eighth as wide: its head is worth nine blocks.
fn card(layers: u32) -> Card {
    Card { layers, hidden: 512, heads: 8, kv_heads: 2, head_dim: 64, ffn: 1792, ..llama_8b() }
}

fn waits(ops: &[Op]) -> impl Iterator<Item = &Op> {
    ops.iter().filter(|op| op.name == "pipeline_last_stage")
}

#[test]
fn every_micro_batch_has_the_last_stages_head() {
    for (ways, sequences) in [((2, 1), 4), ((4, 1), 4), ((4, 2), 8)] {
        for loss in [Loss::Eager, Loss::Fused] {
            let of = |ways| Training { loss, ..job(card(8), ways, sequences) };
            let (split, whole) = (of(ways).trace(), of((1, 1)).trace());
            // Those of the unsplit model behind its blocks, op by op.
            let is_head = |op: &&Op| {
                let module = op.module.map_or("", |of| whole.modules[of.index()].as_str());
                let at_end = ["model.norm", "lm_head"].contains(&module);
                at_end && op.phase != Phase::Optimizer && op.unit == Unit::Device
            };
            let heads: Vec<_> = whole.ops.iter().filter(is_head).map(|op| &op.kernels).collect();
            let mut found: Vec<_> = waits(&split.ops).map(|op| &op.kernels).collect();
            assert_eq!(found.len(), heads.len(), "{ways:?}");
            let key = |kernels: &&Option<_>| format!("{kernels:?}");
            let mut heads = heads;
            found.sort_by_key(key);
            heads.sort_by_key(key);
            assert_eq!(found, heads, "{ways:?} {loss:?}");
        }
    }
    assert_eq!(waits(&job(card(8), (1, 1), 4).trace().ops).count(), 0);
}

#[test]
fn stages_do_not_make_a_step_shorter_than_their_share() {
    let alone = makespan(&job(card(8), (1, 1), 8).trace(), 0);
    for ways in [(2, 1), (4, 1), (8, 1), (2, 2), (4, 2)] {
        let split = makespan(&job(card(8), ways, 8).trace(), 0);
        assert!(split * u128::from(ways.0) > alone, "{ways:?}: {split} of {alone}");
    }
}

#[test]
fn a_step_is_as_many_passes_of_the_slowest_stage_as_micro_batches() {
    // What one block and one head take, and what embeds, from steps of one stage.
    let of = |layers, sequences| makespan(&job(card(layers), (1, 1), sequences).trace(), 0);
    let next = |layers| of(layers, 3) - of(layers, 2);
    let block = next(3) - next(2);
    let embedding = |sequences| -> u128 {
        let trace = job(card(2), (1, 1), sequences).trace();
        let times = trace.ops.iter().zip(device().times("bf16", &trace.ops));
        let embeds = |op: &Op| {
            let module = op.module.map_or("", |of| trace.modules[of.index()].as_str());
            module == "model.embed_tokens" && op.phase != Phase::Optimizer
        };
        let times = times.filter(|(op, _)| embeds(op));
        times.map(|(_, time)| u128::from(time.expect("a time").ps())).sum()
    };
    let embedding = embedding(3) - embedding(2);
    let head = next(2) - 2 * block - embedding;
    // A micro-batch more is a pass more of the slowest stage.
    let more = |layers, ways: (u32, u32)| {
        let of = |sequences| makespan(&job(card(layers), ways, sequences).trace(), 0);
        let round = if ways.1 > 1 { ways.0 } else { 1 };
        (of(4 * round) - of(3 * round)) / u128::from(round)
    };
    assert_eq!(more(8, (2, 1)), 4 * block + head);
    assert_eq!(more(8, (4, 2)), 2 * block + head);
    // The last stage has a block less: 4 and 3.
    assert_eq!(more(7, (2, 1)), 3 * block + embedding + head);
}

#[test]
fn a_head_that_takes_less_than_the_block_more_is_not_waited_for() {
    // Of a hundred words a head is nothing.
    let small = |layers| Card { vocab: 100, ..card(layers) };
    let trace = job(small(7), (2, 1), 4).trace();
    let (mut without, mut heads) = (trace.clone(), 0);
    for op in without.ops.iter_mut().filter(|op| op.name == "pipeline_last_stage") {
        (op.flops, op.bytes, op.kernels) = (0, Bytes::ZERO, Some([].into()));
        heads += 1;
    }
    assert_ne!(heads, 0);
    assert_eq!(makespan(&trace, 0), makespan(&without, 0));
}

#[test]
fn what_is_estimated_waits_as_long() {
    use Checkpointing::{Every, Full, Layers};
    let no = Checkpointing::None;
    for (layers, ways) in [(8, (2, 1)), (8, (4, 2)), (7, (2, 1)), (6, (4, 1)), (5, (4, 1))] {
        for checkpointing in [no, Full, Layers(1), Every(2)] {
            for vocab in [100, 128_256] {
                let sequences = 4 * ways.1;
                let base = job(Card { vocab, ..card(layers) }, ways, sequences);
                let job = Training { checkpointing, ..base };
                let whole = makespan(&job.trace(), 0);
                let told = (layers, ways, checkpointing, vocab);
                let found = job.computing(&device(), "bf16").expect("it has a peak");
                // Where stages differ, blocks of the bubble are those that add to no gradients.
                let off = found.abs_diff(whole);
                let most = if layers % ways.0 == 0 { 0 } else { whole / 500 };
                assert!(off <= most, "{told:?}: {found} and {whole}");
            }
        }
    }
}
