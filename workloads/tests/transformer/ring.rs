//! Context parallelism: FLOPs of all ranks are those of the unsplit sequence, bytes around the ring
//! are a closed form, and one rank is what it was.

use tiersim_models::kernel::Work;
use tiersim_models::workload::{CollectiveKind, Trace, Unit};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Parallel, Training, Zero,
};

fn card(name: &str) -> Card {
    let whole = known(name).expect("it is known").card();
    let kv_heads = if whole.kv_heads < whole.heads { 2 } else { 4 };
    Card { layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads, head_dim: 16, vocab: 320, ..whole }
}

fn over(ranks: u32, training: &Training) -> Training {
    let parallel = Parallel { context: ranks, ..training.parallel };
    Training { parallel, ..training.clone() }
}

fn flops(trace: &Trace) -> u128 {
    trace.ops.iter().map(|op| u128::from(op.flops)).sum()
}

/// Bytes that one rank sends around the ring, all ops together.
fn around(trace: &Trace) -> u128 {
    let sent = trace.ops.iter().filter_map(|op| match op.unit {
        Unit::Network(of) if of.kind == CollectiveKind::SendRecv => {
            Some(u128::from(of.bytes.get()) * u128::from(of.times))
        }
        _ => None,
    });
    sent.sum()
}

fn cases() -> Vec<Training> {
    let base = Training { loss: Loss::Fused, ..Training::new(card("llama-3.1-8b"), 1 << 12) };
    let full = Training { checkpointing: Checkpointing::Full, ..base.clone() };
    let fused = Training { kernels: Kernels::Fused, ..base.clone() };
    let zero = Training { zero: Zero { stage: 3, ..Zero::default() }, ..full.clone() };
    let tensor = Parallel { tensor: 2, sequence: true, ..Parallel::default() };
    let split = Training { parallel: tensor, ..base.clone() };
    let stages = Parallel { pipeline: 2, ..Parallel::default() };
    let piped = Training { parallel: stages, batch: 2, ..base.clone() };
    let gpt2 = Training { dropout: true, ..Training::new(card("gpt2"), 512) };
    let encoder = Card { family: Family::Bert, positions: 512, ..card("gpt2") };
    let bert = Training::new(encoder, 512);
    vec![base, full, fused, zero, split, piped, gpt2, bert]
}

#[test]
fn ranks_together_compute_what_one_computes_of_the_whole_sequence() {
    for training in cases() {
        assert_eq!(training.problems(), []);
        let whole = flops(&training.trace());
        for ranks in [2, 4, 8, 64] {
            let split = over(ranks, &training);
            assert_eq!(split.problems(), [], "{ranks}");
            let trace = split.trace();
            assert_eq!(trace.problems(), []);
            assert_eq!(flops(&trace) * u128::from(ranks), whole, "{ranks} {training:?}");
        }
    }
}

#[test]
fn bytes_around_the_ring_are_a_closed_form() {
    for training in cases().into_iter().filter(|t| t.parallel.pipeline == 1) {
        let again = u128::from(training.checkpointing == Checkpointing::Full);
        for ranks in [2u32, 4, 16, 64] {
            let trace = over(ranks, &training).trace();
            let n = u128::from(ranks);
            let Card { layers, kv_heads, head_dim, .. } = training.card;
            let heads = u128::from(kv_heads / training.parallel.tensor);
            // Keys and values of the whole sequence in one layer.
            let kv = 2 * heads * u128::from(head_dim) * 2 * u128::from(training.sequence);
            // (N - 1) / N of them forward, again if the block is computed again, and backward; their
            // gradients once more, to come home.
            let blocks = (n - 1) * (2 + again) + n;
            assert_eq!(around(&trace), u128::from(layers) * kv * blocks / n, "{ranks}");
        }
    }
}

#[test]
fn one_rank_has_no_ring_and_is_what_it_was() {
    for training in cases() {
        let trace = over(1, &training).trace();
        assert_eq!(trace, training.trace());
        let is_attention = |work: &Work| matches!(work, Work::Attention(_));
        let on_device = trace.ops.iter().filter(|op| op.unit == Unit::Device);
        let kernels = on_device.filter_map(|op| op.kernels.as_ref());
        let count =
            kernels.flat_map(|all| all.iter()).filter(|one| is_attention(&one.work)).count();
        let again = if training.checkpointing == Checkpointing::Full { 2 } else { 1 };
        let layers = training.card.layers / training.parallel.pipeline;
        assert_eq!(count as u32, again * layers * training.batch / training.micro_batch);
        assert!(trace.ops.iter().all(|op| !op.name.contains("combine")));
    }
}

#[test]
fn exchanges_have_a_stream_of_their_own_and_no_more_than_two_blocks_are_there() {
    let training = over(8, &cases()[0]);
    let trace = training.trace();
    let sends = trace.ops.iter().filter(|op| op.name == CollectiveKind::SendRecv.word());
    assert!(sends.clone().count() > 0);
    assert!(sends.clone().all(|op| op.stream == 1), "beside the device's work");
    // Each waits for the device's work on the block before the last.
    assert!(sends.filter(|op| op.after.is_empty()).count() == 0);
}

#[test]
fn sums_beyond_64_bits_are_made_and_what_rings_do_not_know_is_refused() {
    let llama = known("llama-2-7b").expect("it is known").card();
    let long = Training {
        checkpointing: Checkpointing::Full,
        loss: Loss::Fused,
        ..Training::new(llama, 100_000_000)
    };
    // The attention of one layer alone has more FLOPs than 64 bits say.
    let problems = long.problems();
    assert!(problems.iter().any(|p| p.rule.contains("FLOPs of an op")), "{problems:?}");
    let ranks = Training { zero: Zero { stage: 3, ..Zero::default() }, ..over(200, &long) };
    assert_eq!(ranks.problems(), []);
    let sum = flops(&ranks.trace());
    assert!(sum > u128::from(u64::MAX), "{sum}");

    let base = cases().remove(0);
    let window = Card { window: Some(64), ..base.card.clone() };
    for (training, says) in [
        (Training { sequence: 4095, ..base.clone() }, "must divide `sequence`"),
        (Training { attention: Attention::Eager, ..base.clone() }, "one kernel"),
        (Training { kernels: Kernels::Eager, ..base.clone() }, "one kernel"),
        (Training { card: window, ..base.clone() }, "window"),
        (Training { card: card("mixtral-8x7b"), ..base.clone() }, "experts"),
    ] {
        let problems = over(4, &training).problems();
        assert!(problems.iter().any(|p| p.rule.contains(says)), "{says}: {problems:?}");
    }
}
