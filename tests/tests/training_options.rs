//! Options of a training step that change what is there at once, and not what is computed: sizes
//! and FLOPs by hand, and account and run against each other.

use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::adapters::{Lora, Target, Targets};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Loss, Parallel, Training, UpdateTime, Zero,
};

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
    workload.most_alive(|object| object.kind == ObjectKind::Activation)
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

fn in_backward(training: &Training) -> Training {
    Training { update: UpdateTime::InBackward, ..training.clone() }
}

fn gradients(trace: &Trace) -> u64 {
    let workload = Workload::new(trace.clone());
    workload.most_alive(|object| object.kind == ObjectKind::Gradient)
}

/// Bytes of every gradient, by name.
fn of_modules(trace: &Trace) -> Vec<(String, u64)> {
    let all = trace.objects.iter().filter(|object| object.kind == ObjectKind::Gradient);
    all.map(|object| (object.name.to_string(), object.bytes.get())).collect()
}

/// What every op is called and touches, by name, in an order of its own.
fn work(trace: &Trace) -> Vec<(String, u64, u64)> {
    let mut all: Vec<(String, u64, u64)> = Vec::new();
    for op in &trace.ops {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let names = uses.iter().map(|of| trace.objects[of.object.index()].name.as_str());
        let name = names.fold(op.name.to_string(), |all, name| all + " " + name);
        all.push((name, op.flops, op.bytes.get()));
    }
    all.sort();
    all
}

#[test]
fn an_update_inside_the_backward_pass_is_the_same_work_and_keeps_one_gradient() {
    for (tied, batch) in [(false, 1), (true, 1), (false, 3)] {
        let after = Training { batch, ..Training::new(card(tied), 40) };
        let [before, trace] = [after.clone(), in_backward(&after)].map(|job| job.trace());
        assert_eq!(trace.problems(), []);
        assert_eq!(work(&trace), work(&before));
        let all = of_modules(&trace);
        let sum: u64 = all.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(gradients(&before), sum);
        let table = |(name, _): &&(String, u64)| name.starts_with("model.embed_tokens");
        let largest = |of: &dyn Fn(&&(String, u64)) -> bool| {
            all.iter().filter(of).map(|(_, bytes)| *bytes).max().expect("there are some")
        };
        // A tied table has its gradient from the head on; what is accumulated is all there.
        let expected = match (tied, batch) {
            (_, 3) => sum,
            (true, _) => largest(&table) + largest(&|of| !table(of)),
            (false, _) => largest(&|_| true),
        };
        assert_eq!(gradients(&trace), expected, "tied {tied}, {batch} micro-batches");
    }
}

#[test]
fn each_module_is_updated_right_behind_its_gradient() {
    let trace = in_backward(&Training::new(card(false), 40)).trace();
    let touched = |op: &Op| -> Vec<ObjectId> {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let all = uses.iter().map(|of| of.object);
        all.filter(|id| trace.objects[id.index()].kind == ObjectKind::Gradient).collect()
    };
    let mut updates = 0;
    for pair in trace.ops.windows(2).filter(|pair| pair[1].name == "adam") {
        assert_eq!(touched(&pair[0]), touched(&pair[1]), "{:?}", pair[0].name);
        updates += 1;
    }
    assert_eq!(updates, of_modules(&trace).len());
}

#[test]
fn with_replicas_updates_wait_for_the_next_bucket() {
    // Every module fills a bucket: a shard is there with that of the module before it.
    let after = Training {
        parallel: Parallel { data: 4, ..Parallel::default() },
        zero: Zero { stage: 2, bucket: Bytes::new(1), ..Zero::default() },
        ..Training::new(card(false), 40)
    };
    let trace = in_backward(&after).trace();
    let order = trace.ops.iter().filter(|op| op.name == "adam").map(|op| {
        let first = &trace.uses[op.uses.start as usize];
        trace.objects[first.object.index()].bytes.get()
    });
    let order: Vec<u64> = order.collect();
    assert_eq!(order.len(), of_modules(&trace).len());
    let pairs = order.windows(2).map(|pair| pair[0] + pair[1]).max();
    assert_eq!(Some(gradients(&trace)), pairs);
    // Without overlap it waits for nothing.
    let zero = Zero { overlap: false, ..after.zero };
    let trace = in_backward(&Training { zero, ..after }).trace();
    assert_eq!(Some(gradients(&trace)), order.into_iter().max());
}

#[test]
fn checkpoints_of_some_blocks_keep_all_of_the_others() {
    let card = Card { layers: 5, vocab: 64, ..card(false) };
    let kept = |checkpointing| {
        let trace = Training { checkpointing, ..Training::new(card.clone(), 64) }.trace();
        assert_eq!(trace.problems(), []);
        (activations(&trace), flops(&trace))
    };
    let (none, full) = (kept(Checkpointing::None), kept(Checkpointing::Full));
    // Of five blocks and a head.
    let again = (full.1 - none.1) / 5;
    let input = 2 * 64 * 64;
    // The input, norms, queries, keys, values, the output of attention and its sums, the middle,
    // and four of the width between.
    let block = 2 * 64 * (64 + 64 + 64 + 2 * 32 + 64 + 64 + 64 + 4 * 96) + 4 * 64 * 4;
    for first in 1..=4 {
        let found = kept(Checkpointing::Layers(first));
        assert_eq!(none.0 - found.0, u64::from(first) * (block - input), "{first} of 5");
        assert_eq!(found.1 - none.1, u64::from(first) * again, "{first} of 5");
    }
    assert_eq!(kept(Checkpointing::Layers(5)), full);
    let trained = |first| {
        let checkpointing = Checkpointing::Layers(first);
        Training { checkpointing, ..Training::new(card.clone(), 64) }.problems().len()
    };
    assert_eq!([0, 1, 5, 6].map(trained), [1, 0, 0, 1]);
}

#[test]
fn the_first_stages_have_the_layers_that_are_left_over() {
    // Ten layers over four stages: 3, 3, 2 and 2.
    let card = |layers| Card { layers, vocab: 64, ..card(false) };
    let of = |layers, pipeline| {
        let parallel = Parallel { pipeline, ..Parallel::default() };
        let job =
            Training { parallel, batch: 4, micro_batch: 1, ..Training::new(card(layers), 32) };
        assert_eq!(job.problems(), []);
        job.trace()
    };
    let state = |trace: &Trace| -> u64 {
        let kept = trace.objects.iter().filter(|object| object.persistent);
        kept.map(|object| object.bytes.get()).sum()
    };
    let idle = |trace: &Trace| -> u64 {
        let all = trace.ops.iter().filter(|op| op.name == "pipeline_bubble");
        all.map(|op| op.flops).sum()
    };
    let (uneven, more, fewer) = (of(10, 4), of(12, 4), of(8, 4));
    assert_eq!((state(&uneven), activations(&uneven)), (state(&more), activations(&more)));
    // The other stages have 3 + 2 + 2 layers, of the nine and the six of equal stages.
    assert_eq!(3 * idle(&fewer), 2 * idle(&more));
    assert_eq!(9 * idle(&uneven), 7 * idle(&more));
    let trained = |layers, pipeline, interleave| {
        let parallel = Parallel { pipeline, interleave, ..Parallel::default() };
        let job =
            Training { parallel, batch: 4, micro_batch: 1, ..Training::new(card(layers), 32) };
        job.problems().len()
    };
    assert_eq!((trained(3, 4, 1), trained(10, 2, 2), trained(12, 2, 2)), (1, 1, 0));
}

/// Bytes of the objects of some kinds.
fn bytes_of(trace: &Trace, kinds: &[ObjectKind]) -> u64 {
    let all = trace.objects.iter().filter(|object| kinds.contains(&object.kind));
    all.map(|object| object.bytes.get()).sum()
}

#[test]
fn adapters_alone_are_trained() {
    let tokens = 100_u64;
    let whole = Training::new(card(false), tokens);
    // Queries and values: 64 x 64 and 32 x 64; the narrow matrix: 64 x 96.
    let targets = Targets::from(vec![Target::Q, Target::V, Target::Down]);
    let of_block = 4 * ((64 + 64) + (32 + 64) + (64 + 96));
    let lora = Lora { rank: 4, targets };
    assert_eq!(lora.parameters(&whole.card), 2 * of_block);
    let adapted = Training { lora: Some(lora), ..whole.clone() };
    let [before, after] = [&whole, &adapted].map(Training::trace);
    assert_eq!(after.problems(), []);

    use ObjectKind::{Gradient, Master, Optimizer, Weight};
    let trained = 2 * of_block as u64;
    let base = whole.card.parameters();
    assert_eq!(bytes_of(&after, &[Weight]), 2 * (base + trained));
    assert_eq!(bytes_of(&after, &[Gradient]), 2 * trained);
    assert_eq!(bytes_of(&after, &[Optimizer, Master]), 12 * trained);

    // Frozen matrices lose one of three products, each adapter's has all three.
    let in_block = 64 * 64 * 2 + 2 * 32 * 64 + 3 * 64 * 96;
    let matrices = 2 * in_block + 320 * 64;
    let fewer = 2 * tokens * matrices;
    assert_eq!(flops(&before) - fewer + 6 * tokens * trained, flops(&after));

    // A block no longer keeps what attention's projection is given only if it is eager, nor ever
    // what the wide matrices are given; it keeps 4 numbers per token for each adapter.
    let less = 2 * tokens * 64 - 3 * 2 * tokens * 4;
    assert_eq!(activations(&before) - activations(&after), 2 * less);
    let eager = |training: &Training| {
        activations(&Training { attention: Attention::Eager, ..training.clone() }.trace())
    };
    assert_eq!(eager(&whole) - eager(&adapted), 2 * (less + 2 * tokens * 64));
}

#[test]
fn adapters_of_split_matrices_are_reduced_where_they_are_whole() {
    let targets = Targets::from(vec![Target::Q, Target::O]);
    let parallel = Parallel { tensor: 2, ..Parallel::default() };
    let lora = Some(Lora { rank: 4, targets });
    let trace = Training { parallel, lora, ..Training::new(card(false), 8) }.trace();
    let size = |name: &str| {
        let object = trace.objects.iter().find(|object| object.name == name);
        object.map(|object| object.bytes.get())
    };
    let at = |part: &str| size(&format!("model.layers.0.self_attn.{part}.weight.grad"));
    // Queries are split by outputs, the projection by inputs.
    assert_eq!(at("q_proj.lora_A"), Some(2 * 4 * 64));
    assert_eq!(at("q_proj.lora_B"), Some(2 * 32 * 4));
    assert_eq!(at("o_proj.lora_A"), Some(2 * 4 * 32));
    assert_eq!(at("o_proj.lora_B"), Some(2 * 64 * 4));
    assert_eq!(at("k_proj"), None);
    // At the end both ranks add their parts of what is whole on both, of two blocks.
    let sums = trace.ops.iter().filter(|op| {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let objects = uses.iter().map(|touched| &trace.objects[touched.object.index()]);
        let mut objects = objects.filter(|object| object.kind == ObjectKind::Gradient);
        matches!(op.unit, Unit::Network(_)) && objects.next().is_some()
    });
    let bytes: Vec<u64> = sums.map(|op| op.bytes.get()).collect();
    assert_eq!(bytes, [2 * 2 * (2 * 4 * 64 + 2 * 64 * 4)]);
}
