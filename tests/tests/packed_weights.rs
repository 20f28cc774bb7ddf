//! Weights of 4 bits and of 8: bytes and ops by hand, published figures, and account and trace
//! against each other.

use tiersim_tests::prelude::*;
use tiersim_workloads::memory::account::{self, Keeps, Pipeline, Step};
use tiersim_workloads::transformer::adapters::{Lora, Target, Targets};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::packed::Packed;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, Router, Training, UpdateTime,
};

const NF4: Packed = Packed::Nf4 { group: 64, double: false };
const DOUBLE: Packed = Packed::Nf4 { group: 64, double: true };

/// A small Llama of two blocks with a head of its own.
fn card() -> Card {
    let llama = known("llama-3.1-8b").expect("it is known").card();
    let card =
        Card { layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads: 2, head_dim: 16, ..llama };
    Card { vocab: 320, tied: false, ..card }
}

fn weights(trace: &Trace) -> u64 {
    let all = trace.objects.iter().filter(|object| object.kind == ObjectKind::Weight);
    all.map(|object| object.bytes.get()).sum()
}

fn generation(kernels: Kernels, packed: Option<Packed>) -> Generation {
    Generation {
        card: card(),
        formats: Formats { packed, ..Formats::all(Format::Bf16) },
        batch: 1,
        batches: 1,
        prompt: 8,
        tokens: 2,
        prefill: true,
        attention: AttentionOn::Device,
        kernels,
        kv_block: None,
        tensor: 1,
        context: 1,
        devices: 1,
        router: Router::default(),
    }
}

/// Matrices of a block: queries and projection, keys and values, three of the feed-forward part.
const MATRICES: [u64; 7] = [64 * 64, 32 * 64, 32 * 64, 64 * 64, 96 * 64, 96 * 64, 64 * 96];

#[test]
fn matrices_of_blocks_are_stored_in_four_bits() {
    let trace = generation(Kernels::Compiled, Some(NF4)).trace();
    assert_eq!(trace.problems(), []);
    // Half a byte each, and 4 bytes for every 64: all are multiples of 64.
    let block: u64 = MATRICES.iter().map(|n| n / 2 + n / 64 * 4).sum();
    // In bf16: two norms of each block, the last one, table and head.
    let rest = 2 * (2 * 2 * 64 + 64 + 2 * 320 * 64);
    assert_eq!(weights(&trace), 2 * block + rest);
    let plain = generation(Kernels::Compiled, None).trace();
    assert_eq!(weights(&plain), 2 * 2 * MATRICES.iter().sum::<u64>() + rest);
}

/// Of 8 bits a byte each, read as they are by products that compute in this format, all but the
/// head's: it is in bf16, and a step reads as many bytes of it as without.
#[test]
fn matrices_of_8_bits_are_read_as_they_are() {
    let plain = generation(Kernels::Compiled, None).trace();
    let matrices = 2 * MATRICES.iter().sum::<u64>();
    for (packed, word) in [(Packed::Fp8, "fp8"), (Packed::Int8, "int8")] {
        let trace = generation(Kernels::Compiled, Some(packed)).trace();
        assert_eq!(trace.problems(), []);
        assert_eq!(trace.meta.precision, word);
        assert_eq!(weights(&plain) - weights(&trace), matrices);
        let card = Some((packed, &card()));
        let account = account::weights(card_params(), Format::Bf16, card, [1, 1]);
        assert_eq!(account, Ok(weights(&trace).into()));
        let names = |trace: &Trace| trace.ops.iter().map(|op| op.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&trace), names(&plain), "nothing is unpacked");
        let read = |trace: &Trace| trace.ops.iter().map(|op| op.bytes.get()).sum::<u64>();
        // Two steps read each matrix once.
        assert_eq!(read(&plain) - read(&trace), 2 * matrices);
        let alone = Training {
            formats: Formats { packed: Some(packed), ..Formats::all(Format::Bf16) },
            ..Training::new(self::card(), 8)
        };
        assert_eq!(alone.problems().len(), 1, "they are not trained");
    }
}

fn card_params() -> u64 {
    card().parameters()
}

/// The head of a model whose matrices have 8 bits is read in 16: a product of 8 bits with twice the
/// bytes.
#[test]
fn a_head_of_16_bits_takes_the_time_of_its_bytes() {
    let llama = known("llama-3.1-8b").expect("it is known").card();
    let made = |packed| Generation {
        card: llama.clone(),
        prompt: 2048,
        prefill: false,
        formats: Formats { packed, ..Formats::all(Format::Bf16) },
        ..generation(Kernels::Compiled, None)
    };
    let whole =
        Formats { activations: Format::Bf16, kv: Format::Bf16, ..Formats::all(Format::Fp8) };
    let whole = Generation { formats: whole, ..made(None) };
    let h100 = tiersim_tests::files::machine("h100-sxm-pcie5");
    let compute = h100.compute.expect("it computes");
    let head = |trace: &Trace| {
        let op = trace.ops.iter().rfind(|op| op.name == "linear").expect("a head").clone();
        compute.times("fp8", &[op])[0].expect("it is known").ps() as f64 * 1e-12
    };
    let [mixed, whole] = [made(Some(Packed::Fp8)).trace(), whole.trace()].map(|t| head(&t));
    // 525 MB more at 2 to 3.35 TB/s.
    let more = f64::from(llama.vocab) * f64::from(llama.hidden);
    assert!((more / 3.35e12..more / 2e12).contains(&(mixed - whole)), "{mixed} {whole}");
}

#[test]
fn what_is_unpacked_is_there_for_one_product() {
    let [unpacked, plain] = [Some(NF4), None].map(|p| generation(Kernels::Compiled, p).trace());
    let ops = |trace: &Trace, name: &str| trace.ops.iter().filter(|op| op.name == name).count();
    // Of two blocks in two steps.
    assert_eq!(ops(&unpacked, "dequantize"), 2 * 2 * 7);
    assert_eq!(ops(&plain, "dequantize"), 0);
    assert_eq!(ops(&unpacked, "linear"), ops(&plain, "linear"));
    for (at, op) in unpacked.ops.iter().enumerate().filter(|(_, op)| op.name == "dequantize") {
        let uses = &unpacked.uses[op.uses.start as usize..op.uses.end as usize];
        let [from, to] = [uses[0].object, uses[1].object];
        let bytes = |object: ObjectId| unpacked.objects[object.index()].bytes.get();
        assert_eq!((uses.len(), op.bytes.get()), (2, bytes(from) + bytes(to)));
        // Four bits and a sixteenth of them become sixteen.
        assert_eq!(bytes(to) * 9, bytes(from) * 32);
        let next = &unpacked.ops[at + 1];
        let uses_next = &unpacked.uses[next.uses.start as usize..next.uses.end as usize];
        assert_eq!(next.name, "linear");
        assert!(uses_next.iter().any(|used| used.object == to));
        let all = unpacked.uses.iter().filter(|used| used.object == to).count();
        assert_eq!(all, 2, "written and read once");
    }
}

#[test]
fn fused_kernels_read_packed_weights() {
    let [packed, plain] = [Some(NF4), None].map(|p| generation(Kernels::Fused, p).trace());
    let names = |trace: &Trace| trace.ops.iter().map(|op| op.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&packed), names(&plain));
    let bytes = |trace: &Trace| trace.ops.iter().map(|op| op.bytes.get()).sum::<u64>();
    // Each step reads each matrix once: 16 bits of a weight, or 4.5.
    let matrices = 2 * MATRICES.iter().sum::<u64>();
    assert_eq!(bytes(&plain) - bytes(&packed), 2 * (2 * matrices - matrices * 9 / 16));
}

#[test]
fn packed_weights_are_trained_beside_only() {
    let formats = Formats { packed: Some(DOUBLE), ..Formats::all(Format::Bf16) };
    let alone = Training { formats, ..Training::new(card(), 8) };
    assert_eq!(alone.problems().len(), 1);
    let adapted = Training { lora: Some(Lora { rank: 4, targets: Targets::QV }), ..alone };
    let trace = adapted.trace();
    assert_eq!(trace.problems(), []);
    // Forward and backward, each of 7 products of two blocks: what they write is gone in between.
    let count = trace.ops.iter().filter(|op| op.name == "dequantize").count();
    assert_eq!(count, 2 * 2 * 7);
    let adapters = trace.objects.iter().filter(|object| object.name.contains(".lora_"));
    let of_one = 4 * (64 + 64) + 4 * (64 + 32);
    let weights: u64 = adapters
        .filter(|object| object.kind == ObjectKind::Weight)
        .map(|object| object.bytes.get())
        .sum();
    assert_eq!(weights, 2 * 2 * of_one, "in bf16");
}

/// QLoRA as published: NF4 with double quantization, adapters of rank 64 beside all matrices,
/// Adam's state in fp32 for those, every block computed again, batches of one sequence of 512.
fn qlora(card: Card) -> account::Training {
    let step = Step {
        kernels: Kernels::Compiled,
        optimizer_kernels: None,
        shape: card.clone(),
        batch: 1,
        micro_batch: 1,
        sequence: 512,
        format: Format::Bf16,
        attention: Attention::Eager,
        loss: Loss::Eager,
        dropout: false,
        checkpointing: Checkpointing::Full,
        update: UpdateTime::After,
        loader: None,
    };
    let targets = Targets::from(Target::ALL.to_vec());
    account::Training {
        packed: Some(DOUBLE),
        optimizer: Keeps::Named(Optimizer::AdamWithoutMaster),
        lora: Some(Lora { rank: 64, targets }),
        step: Some(step),
        card: Some(card.clone()),
        split: Pipeline::default(),
        ..account::Training::new(card.parameters(), 1)
    }
}

#[test]
fn a_llama_of_65_billion_is_tuned_within_48_gb() {
    // Touvron et al., "LLaMA", 2023, table 2: 65.2B.
    let llama = known("llama-2-7b").expect("it is known").card();
    let large = Card { layers: 80, hidden: 8192, ffn: 22_016, heads: 64, kv_heads: 64, ..llama };
    assert_eq!(large.parameters(), 65_285_660_672);
    let bytes = |card: Card| {
        let account = account::training(&qlora(card)).expect("it fits 128 bits");
        let weights = account.lines.iter().find(|line| line.key == "weights").map(|l| l.bytes);
        (weights.expect("it has weights"), account.gpu)
    };
    let (weights, all) = bytes(large);
    // 64.8B of 4.127 bits; table and head of 0.52B and adapters of 0.8B in 16.
    assert_eq!(weights, 36_058_005_504);
    // "reduces the average memory requirements of finetuning a 65B parameter model from >780GB of
    // GPU memory to <48GB" (Dettmers et al., 2023, section 1).
    assert!(all < 48_000_000_000, "{all}");
    // Their table 1 states 5 GB for the model of 7B.
    let small = known("llama-2-7b").expect("it is known").card();
    let (weights, _) = bytes(small);
    assert!((4_000_000_000..5_046_000_000).contains(&weights), "{weights}");
}

#[test]
fn inference_has_the_weights_of_a_generated_trace() {
    for packed in [NF4, DOUBLE, Packed::Int4 { group: 7 }] {
        let trace = generation(Kernels::Compiled, Some(packed)).trace();
        let job = account::Serving {
            params: card().parameters(),
            weights: Format::Bf16,
            packed: Some((packed, card())),
            experts: None,
            kv: None,
            batch: 1,
            context: 1,
            page: 16,
            gpus: 1,
            gpus_per_node: 1,
            tensor: 1,
            pipeline: 1,
            context_ranks: 1,
            offload_weights: Default::default(),
            offload_kv: Default::default(),
            reserved: 0,
        };
        let account = account::serving(&job).expect("it fits 128 bits");
        assert_eq!(account.gpu, u128::from(weights(&trace)), "{packed:?}");
    }
}
