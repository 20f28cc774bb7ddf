//! A cache over several ranks: bytes and FLOPs of a rank, and what ranks exchange, by formula.

use crate::transformer::shape::{check_kernels, collectives, sum};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Collective, CollectiveKind, ObjectKind, Op, Phase, Trace};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{Kernels, Router};

fn small() -> Card {
    let whole = known("llama-3-8b").expect("it is known").card();
    Card {
        layers: 3,
        hidden: 64,
        ffn: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocab: 100,
        ..whole
    }
}

fn over(context: u32) -> Generation {
    Generation {
        card: small(),
        formats: Formats::all(Format::Bf16),
        batch: 2,
        batches: 1,
        prompt: 64,
        tokens: 9,
        prefill: false,
        attention: AttentionOn::Device,
        kernels: Kernels::Compiled,
        kv_block: None,
        tensor: 1,
        context,
        devices: 4,
        router: Router::default(),
    }
}

fn made(job: &Generation) -> Trace {
    let trace = job.trace();
    assert_eq!(trace.problems(), [], "{job:?}");
    check_kernels(&trace);
    let _ = Workload::new(trace.clone());
    trace
}

fn attention(trace: &Trace, phase: Phase) -> Vec<&Op> {
    let ops = trace.ops.iter().filter(|op| op.name == "attention" && op.phase == phase);
    ops.collect()
}

/// Bytes of keys and values of one position of both sequences in one layer.
const ROW: u64 = 2 * 2 * 2 * 16 * 2;

#[test]
fn a_rank_keeps_its_part_of_the_cache_and_attends_to_it() {
    for context in [1, 2, 4, 8, 32] {
        for kv_block in [None, Some(3)] {
            let job = Generation { kv_block, ..over(context) };
            let trace = made(&job);
            // The first rank has the most: positions go to the ranks in turn.
            let own = |positions: u64| positions.div_ceil(context.into());
            assert_eq!(sum(&trace, ObjectKind::Kv), 3 * ROW * own(64 + 9), "{job:?}");
            let decode = attention(&trace, Phase::Decode);
            assert_eq!(decode.len(), 3 * 9);
            for op in decode {
                let positions = 64 + u64::from(op.step) + 1;
                assert_eq!(op.flops, 2 * 4 * 4 * 16 * own(positions), "{job:?}");
                // The cache once: what is there is read, what is new is written. Beside it queries,
                // keys, values and output, and over several ranks the sums of the softmax.
                let sums = if context > 1 { 2 * 4 * 4 } else { 0 };
                let tokens = 2 * 2 * (64 + 2 * 32 + 64) + sums;
                let read = op.bytes.get() - tokens;
                assert_eq!(read, ROW * own(positions), "{job:?} step {}", op.step);
            }
        }
    }
}

#[test]
fn all_ranks_together_keep_and_compute_what_one_does() {
    let whole = Generation { tokens: 8, ..over(1) };
    let last = |trace: &Trace| attention(trace, Phase::Decode).last().expect("it decodes").flops;
    let (kv, flops) = (sum(&made(&whole), ObjectKind::Kv), last(&made(&whole)));
    for context in [2, 4, 8] {
        let trace = made(&Generation { context, ..whole.clone() });
        assert_eq!(sum(&trace, ObjectKind::Kv) * u64::from(context), kv);
        assert_eq!(last(&trace) * u64::from(context), flops);
        // Every rank has all weights, and works on the token with all of them.
        let weights = |trace: &Trace| sum(trace, ObjectKind::Weight);
        assert_eq!(weights(&trace), weights(&made(&whole)));
        let products = |trace: &Trace| -> u64 {
            trace.ops.iter().filter(|op| op.name == "linear").map(|op| op.flops).sum()
        };
        assert_eq!(products(&trace), products(&made(&whole)));
    }
}

/// Sums of all heads in 32 bits from every rank, and the output in 16, for each layer and step.
#[test]
fn parts_are_put_together_by_a_gather_and_a_sum() {
    for (context, tensor, shape) in [(2, 1, (2, 1)), (8, 1, (4, 2)), (4, 2, (2, 2))] {
        let trace = made(&Generation { context, tensor, ..over(1) });
        let of = |kind, bytes| {
            let (within, servers) = shape;
            Collective { kind, bytes: Bytes::new(bytes), within, servers, times: 1 }
        };
        let heads = 4 / u64::from(tensor);
        let gather = of(CollectiveKind::AllGather, u64::from(context) * 2 * heads * 4);
        let reduce = of(CollectiveKind::AllReduce, 2 * heads * 16 * 2);
        let mut expected = Vec::new();
        for _ in 0..3 {
            expected.extend([gather, reduce]);
            // The sums over the tensor group: of attention and of the feed-forward part.
            let sum = Collective::within(CollectiveKind::AllReduce, Bytes::new(2 * 64 * 2), 2);
            expected.extend(std::iter::repeat_n(sum, if tensor > 1 { 2 } else { 0 }));
        }
        let found = collectives(&trace);
        let per_step = found.len() / 9;
        for step in found.chunks(per_step) {
            // The embedding's sum comes first where the table is split.
            assert_eq!(&step[per_step - expected.len()..], expected, "{context} {tensor}");
        }
    }
}

/// What a rank computes of a prompt, over all ranks, is what one computes of all of it.
#[test]
fn a_prompt_goes_around_a_ring_and_is_stored_once() {
    let one = made(&Generation { prefill: true, ..over(1) });
    for context in [2u32, 4, 8, 32] {
        let job = Generation { prefill: true, ..over(context) };
        let trace = made(&job);
        let ranks = u64::from(context);
        let all = |trace: &Trace| -> u64 {
            attention(trace, Phase::Prefill).iter().map(|op| op.flops).sum()
        };
        assert_eq!(all(&trace) * ranks, all(&one), "{context}");
        assert_eq!(sum(&trace, ObjectKind::Kv), 3 * ROW * 72u64.div_ceil(ranks), "{context}");
        let sent = collectives(&trace).into_iter().filter(|of| of.kind == CollectiveKind::SendRecv);
        let sent: u64 = sent.map(|of| of.bytes.get() * u64::from(of.times)).sum();
        assert_eq!(sent, 3 * (ranks - 1) * ROW * 64 / ranks, "{context}");
        let told =
            collectives(&trace).into_iter().filter(|of| of.kind == CollectiveKind::Broadcast);
        assert_eq!(told.map(|of| of.bytes.get()).collect::<Vec<_>>(), [2 * 8], "{context}");
    }
}

/// All ranks together compute more than a hundred times the FLOPs that 64 bits count; one rank's
/// prompt is refused, as an op's must fit them.
#[test]
fn a_hundred_million_tokens_are_decoded_and_prefilled() {
    let card = known("llama-3-8b").expect("it is known").card();
    let far = Generation { card, batch: 1, prompt: 100_000_000, tokens: 4, ..over(1000) };
    let far = Generation { devices: 8, ..far };
    let trace = made(&far);
    assert_eq!(sum(&trace, ObjectKind::Kv), 32 * 2 * 8 * 128 * 2 * 100_001);
    let flops = attention(&trace, Phase::Decode).iter().map(|op| op.flops).sum::<u64>();
    assert_eq!(flops, 4 * 32 * 4 * 32 * 128 * 100_001);
    // One rank decodes behind it too, but no op computes that many pairs.
    let alone = Generation { context: 1, ..far.clone() };
    assert_eq!(alone.problems(), []);
    let fields = |job: &Generation| job.problems().iter().map(|of| of.field).collect::<Vec<_>>();
    assert_eq!(fields(&Generation { prefill: true, ..alone }), ["prompt"]);
    let trace = made(&Generation { prefill: true, ..far });
    let flops = |op: &&Op| u128::from(op.flops);
    let all: u128 = attention(&trace, Phase::Prefill).iter().map(flops).sum();
    let pairs = 100_000_000u128 * 100_000_001 / 2;
    assert_eq!(all * 1000, 32 * pairs * 4 * 32 * 128);
    assert!(all * 1000 > 100 * u128::from(u64::MAX));
}

#[test]
fn what_is_not_known_of_it_is_refused() {
    let fields = |job: Generation| job.problems().iter().map(|of| of.field).collect::<Vec<_>>();
    assert_eq!(fields(over(4)), [""; 0]);
    assert_eq!(fields(over(0)), ["context"]);
    assert_eq!(fields(over((1 << 20) + 1)), ["context"]);
    assert_eq!(fields(over(6)), ["devices"], "four here and two there");
    let card = |card| Generation { card, ..over(4) };
    assert_eq!(
        fields(card(Card { family: Family::Mistral, window: Some(8), ..small() })),
        ["context"]
    );
    let experts = Some(Experts { count: 4, active: 2, ffn: 96, shared: 0, dense_first: 0 });
    assert_eq!(fields(card(Card { family: Family::Mixtral, experts, ..small() })), ["context"]);
    assert_eq!(fields(Generation { kernels: Kernels::Eager, ..over(4) }), ["context"]);
    let formats = Formats { activations: Format::Int8, ..Formats::all(Format::Bf16) };
    assert_eq!(fields(Generation { formats, ..over(4) }), ["context"]);
    assert_eq!(fields(Generation { attention: AttentionOn::Host, ..over(4) }), ["attention_on"]);
    // Chunks of a prompt are equal, two for each rank; a cache may be of any length.
    let odd = Generation { prompt: 65, ..over(4) };
    assert_eq!(fields(odd.clone()), [""; 0]);
    assert_eq!(fields(Generation { prefill: true, ..odd }), ["context"]);
}
