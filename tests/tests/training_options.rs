//! Options of a training step that change what is there at once, and not what is computed: sizes
//! and FLOPs by hand, and account and run against each other.

use tiersim_tests::jobs::alive;
use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{Loss, Training};

/// A small Llama of two blocks, a head of its own unless it is tied.
fn card(tied: bool) -> Card {
    let llama = known("llama-3.1-8b").expect("it is known").card();
    let card =
        Card { layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads: 2, head_dim: 16, ..llama };
    Card { vocab: 320, tied, ..card }
}

fn flops(trace: &Trace) -> u64 {
    trace.ops.iter().map(|op| op.flops).sum()
}

fn activations(trace: &Trace) -> u64 {
    let workload = Workload::new(trace.clone());
    alive(&workload, |object| object.kind == ObjectKind::Activation)
}

#[test]
fn a_fused_loss_computes_the_same_and_keeps_no_logits() {
    // 5 chunks at most: the next power of two of 100 / 5 = 20 is 32, so 4, the last of 4 tokens.
    let (tokens, vocab, hidden) = (100_u64, 320, 64);
    for tied in [false, true] {
        let eager = Training::new(card(tied), tokens);
        let fused = Training { loss: Loss::Fused, ..eager.clone() };
        let [before, after] = [&eager, &fused].map(Training::trace);
        assert_eq!(after.problems(), []);
        assert_eq!(flops(&after), flops(&before), "three products either way");
        assert_eq!(activations(&before) - activations(&after), 4 * tokens * vocab);
        let size = |name: &str| {
            let object = after.objects.iter().find(|object| object.name == name);
            object.map(|object| (object.kind, object.bytes.get()))
        };
        let chunk = Some((ObjectKind::Buffer, 32 * vocab * 2));
        assert_eq!(size("m0.lm_head.chunk"), chunk);
        let of_all = after.objects.iter().filter(|object| !object.persistent);
        assert!(of_all.clone().all(|object| object.bytes.get() != 4 * tokens * vocab));

        let op = after.ops.iter().find(|op| op.name == "fused_linear_cross_entropy");
        let op = op.expect("it is there");
        assert_eq!(op.flops, 3 * 2 * tokens * vocab * hidden);
        // Two products read the matrix in each of 4 chunks, the third writes its gradient and
        // adds to it three times.
        let matrix = 2 * vocab * hidden;
        let of_matrix = 2 * 4 * matrix + (1 + 2 * 3) * matrix;
        // Logits are written, read and written by the loss, and read twice; the input is read
        // twice, and its gradient written.
        let of_tokens = tokens * (5 * 2 * vocab + 3 * 2 * hidden);
        assert_eq!(op.bytes.get(), of_matrix + of_tokens);
        let kernels = op.kernels.as_ref().expect("it says which");
        let times: u64 = kernels.iter().map(|kernel| kernel.times).sum();
        assert_eq!(times, 4 * 4, "four kernels for each chunk");
    }
}

#[test]
fn one_chunk_of_all_tokens_is_the_whole_product() {
    // No more logits than the width: one chunk.
    let card = Card { vocab: 64, ..card(false) };
    let trace = Training { loss: Loss::Fused, ..Training::new(card, 48) }.trace();
    let op = trace.ops.iter().find(|op| op.name == "fused_linear_cross_entropy");
    let kernels = op.and_then(|op| op.kernels.clone()).expect("it says which");
    assert!(kernels.iter().all(|kernel| kernel.times == 1) && kernels.len() == 4);
}
