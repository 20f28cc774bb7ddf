//! Traces of text generation: sizes, FLOPs and order by formula.

use crate::transformer::shape::sum;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{ObjectKind, Phase, Trace, Unit};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::{KNOWN, known};
use tiersim_workloads::transformer::training::{Kernels, Router};

fn opt_30b() -> Card {
    known("opt-30b").expect("it is known").card()
}

fn small(family: Family) -> Card {
    let (hidden, heads) = (64, 4);
    Card {
        name: "small".to_owned(),
        family,
        layers: 3,
        hidden,
        ffn: 96,
        heads,
        kv_heads: 2,
        head_dim: 16,
        vocab: 100,
        positions: 0,
        tied: false,
        qkv_bias: false,
        experts: None,
        window: None,
    }
}

fn job(card: Card) -> Generation {
    Generation {
        card,
        formats: Formats::all(Format::Fp16),
        batch: 2,
        batches: 1,
        prompt: 5,
        tokens: 4,
        prefill: true,
        attention: AttentionOn::Device,
        kernels: Kernels::Eager,
        kv_block: None,
        tensor: 1,
        devices: 1,
        router: Router::default(),
    }
}

/// Every combination that matters makes a trace that may run, with the cache and the FLOPs of the
/// formulas.
#[test]
fn cache_and_flops_follow_the_formulas() {
    let families = [Family::Llama, Family::Opt, Family::Gpt2, Family::Qwen];
    for family in families {
        for (batches, kv_block, prefill) in
            [(1, None, true), (3, Some(2), true), (2, Some(16), false), (1, Some(1), false)]
        {
            for attention in [AttentionOn::Device, AttentionOn::Host] {
                let job =
                    Generation { batches, kv_block, prefill, attention, ..job(small(family)) };
                let trace = job.trace();
                assert_eq!(trace.problems(), [], "{job:?}");
                let _ = Workload::new(trace.clone());
                check(&job, &trace);
            }
        }
    }
}

fn check(job: &Generation, trace: &Trace) {
    let card = &job.card;
    let [layers, hidden, ffn, heads, kv_heads, head, vocab] =
        [card.layers, card.hidden, card.ffn, card.heads, card.kv_heads, card.head_dim, card.vocab]
            .map(u64::from);
    let sequences = u64::from(job.batch) * u64::from(job.batches);
    let positions = job.prompt + u64::from(job.tokens) - u64::from(job.prefill);
    let kv = layers * sequences * positions * 2 * kv_heads * head * 2;
    assert_eq!(sum(trace, ObjectKind::Kv), kv);
    // New positions of one sequence, and pairs of positions.
    let first = if job.prefill { 0 } else { job.prompt };
    let new = positions - first;
    let pairs = (positions * (positions + 1) - first * (first + 1)) / 2;
    let up_proj = if matches!(card.family, Family::Opt | Family::Gpt2) { 1 } else { 2 };
    let matrices = hidden * (heads + 2 * kv_heads) * head + heads * head * hidden;
    let matrices = matrices + (up_proj + 1) * hidden * ffn;
    let per_sequence = 2 * new * layers * matrices
        + 4 * heads * head * pairs * layers
        + 2 * u64::from(job.tokens) * hidden * vocab;
    let flops: u64 = trace.ops.iter().map(|op| op.flops).sum();
    assert_eq!(flops, sequences * per_sequence);
    assert_eq!(trace.tokens_per_step(), sequences);
    let steps = trace.ops.iter().map(|op| op.step).max();
    assert_eq!(steps, Some(job.tokens - 1));
}

#[test]
fn decode_reads_every_block_and_writes_the_last() {
    let job = Generation { kv_block: Some(4), ..job(small(Family::Llama)) };
    let trace = job.trace();
    let decode = trace.ops.iter().filter(|op| op.name == "attention" && op.phase == Phase::Decode);
    for op in decode {
        let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
        let kind = |object: usize| trace.objects[object].kind;
        let kv: Vec<_> =
            uses.iter().filter(|row| kind(row.object.index()) == ObjectKind::Kv).collect();
        let positions = job.prompt + u64::from(op.step);
        assert_eq!(kv.len() as u64, positions.div_ceil(4));
        assert!(kv.last().unwrap().mode.writes());
        assert!(kv[..kv.len() - 1].iter().all(|row| !row.mode.writes()));
    }
}

#[test]
fn attention_on_the_host_is_an_op_of_the_host_in_decode_steps_only() {
    let job = Generation { attention: AttentionOn::Host, ..job(small(Family::Llama)) };
    for op in &job.trace().ops {
        let on_host = match op.name.as_str() {
            "attention" => op.phase == Phase::Decode,
            "store" => true,
            _ => false,
        };
        assert_eq!(op.unit == Unit::Cpu, on_host, "{op:?}");
    }
}

#[test]
fn weights_are_those_of_the_card() {
    let trace = Generation { prompt: 512, tokens: 2, ..job(opt_30b()) }.trace();
    // Published: 29,974,540,288; the final norm and all biases are in it.
    assert_eq!(sum(&trace, ObjectKind::Weight), 2 * 29_974_540_288);
}

#[test]
fn every_known_model_has_the_weights_of_its_card() {
    for known in KNOWN {
        let card = known.card();
        let (name, parameters) = (card.name.clone(), card.parameters());
        let trace = Generation { prompt: 2, tokens: 1, batch: 1, ..job(card) }.trace();
        assert_eq!(sum(&trace, ObjectKind::Weight), 2 * parameters, "{name}");
    }
}

#[test]
fn only_experts_with_tokens_are_used() {
    let experts = Some(Experts { count: 8, active: 2, ffn: 32, shared: 1 });
    let card = Card { experts, ..small(Family::Mixtral) };
    let job = Generation { batch: 1, ..job(card) };
    let trace = job.trace();
    assert_eq!(trace.problems(), []);
    let used =
        trace.ops.iter().filter(|op| op.name == "expert" && op.phase == Phase::Decode).count();
    // Two of eight and the shared one, per layer and step.
    assert_eq!(used, 3 * 3 * 3);
}

#[test]
fn a_window_bounds_what_is_attended_to() {
    let card = Card { window: Some(4), ..small(Family::Mistral) };
    let trace = Generation { kv_block: Some(1), prompt: 10, ..job(card) }.trace();
    let flops = |op: &&tiersim_models::workload::Op| op.name == "attention";
    let decode: Vec<u64> = trace
        .ops
        .iter()
        .filter(flops)
        .filter(|op| op.phase == Phase::Decode)
        .map(|op| op.flops)
        .collect();
    assert!(decode.iter().all(|&flops| flops == 4 * 64 * 4 * 2), "{decode:?}");
}

#[test]
fn a_million_tokens_are_accounted_for() {
    let job = Generation {
        prompt: 1_000_000,
        tokens: 2,
        batch: 1,
        kv_block: Some(65_536),
        ..job(small(Family::Llama))
    };
    let trace = job.trace();
    assert_eq!(trace.problems(), []);
    assert_eq!(sum(&trace, ObjectKind::Kv), 3 * 1_000_001 * 2 * 2 * 16 * 2);
}

#[test]
fn jobs_that_cannot_be_are_refused() {
    let fields = |job: &Generation| -> Vec<&str> {
        job.problems().iter().map(|problem| problem.field).collect()
    };
    let good = job(small(Family::Llama));
    assert_eq!(fields(&good), [""; 0]);
    assert_eq!(fields(&Generation { tokens: 0, ..good.clone() }), ["tokens"]);
    assert_eq!(fields(&Generation { batch: 0, ..good.clone() }), ["batch"]);
    assert_eq!(fields(&Generation { tensor: 3, ..good.clone() }), ["tensor"]);
    assert_eq!(fields(&Generation { kv_block: Some(0), ..good.clone() }), ["kv_block"]);
    let many = Generation { tokens: 10_000_000, ..good.clone() };
    assert_eq!(fields(&many), ["tokens"]);
    assert_eq!(fields(&Generation { prompt: 1 << 40, ..good }), ["prompt"]);
}
