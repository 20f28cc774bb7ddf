//! Traces of text generation: sizes, FLOPs and order by formula.

use crate::transformer::shape::{check_kernels, check_kernels_of, sum};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{ObjectKind, Phase, Trace, Unit};
use tiersim_workloads::memory::inference::{Kv, Sequences};
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
    // Families before grouped queries have as many heads of each.
    let is_old = family.has_plain_heads();
    Card {
        name: "small".to_owned(),
        family,
        layers: 3,
        hidden,
        ffn: 96,
        heads,
        kv_heads: if is_old { heads } else { 2 },
        head_dim: 16,
        vocab: 100,
        positions: if family.learns_positions() { 64 } else { 0 },
        tied: false,
        qkv_bias: family.has_qkv_bias(),
        experts: None,
        window: None,
        full_attention_every: None,
        latent: None,
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
        kernels: Kernels::Compiled,
        kv_block: None,
        tensor: 1,
        context: 1,
        devices: 1,
        router: Router::default(),
    }
}

/// Every combination that matters makes a trace that may run, with the cache and the FLOPs of the
/// formulas.
#[test]
fn cache_and_flops_follow_the_formulas() {
    let decoders = Family::ALL.into_iter().filter(|one| one.is_causal() && !one.experts().1);
    for family in decoders {
        for (batches, kv_block, prefill) in
            [(1, None, true), (3, Some(2), true), (2, Some(16), false), (1, Some(1), false)]
        {
            use AttentionOn::{Device, Host};
            let both = [Kernels::Compiled, Kernels::Fused].into_iter();
            for (kernels, attention) in both.flat_map(|one| [(one, Device), (one, Host)]) {
                let job = job(small(family));
                let job = Generation { batches, kv_block, prefill, attention, kernels, ..job };
                let trace = job.trace();
                assert_eq!(trace.problems(), [], "{job:?}");
                check_kernels(&trace);
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
    let up_proj = if card.family.is_gated() { 2 } else { 1 };
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

/// Every kind of block makes a trace that breaks no rule, in any split; what is made is held to the
/// bounds that jobs are refused by.
#[test]
fn no_job_makes_a_trace_that_breaks_a_rule() {
    use Family::{Bloom, Gpt2, Llama, Mistral, Mixtral, Opt, Qwen};
    let experts = |shared| Some(Experts { count: 4, active: 2, ffn: 32, shared, dense_first: 0 });
    let cards = [Gpt2, Opt, Bloom, Llama, Mistral, Qwen].map(small);
    let mixtures = [(Mixtral, 0), (Qwen, 1)];
    let mixtures = mixtures.map(|(of, shared)| Card { experts: experts(shared), ..small(of) });
    for card in cards.into_iter().chain(mixtures) {
        use Kernels::{Compiled, Eager, Fused};
        for (tensor, kernels) in [(1, Compiled), (2, Compiled), (2, Fused), (1, Eager), (2, Eager)]
        {
            let shared = card.experts.is_some_and(|experts| experts.shared > 0);
            if kernels == Eager && (card.family == Bloom || shared) {
                continue;
            }
            for attention in [AttentionOn::Device, AttentionOn::Host] {
                let (card, devices) = (card.clone(), 2);
                let kv_block = (attention == AttentionOn::Host).then_some(16);
                let job = Generation { tensor, devices, kernels, attention, kv_block, ..job(card) };
                let trace = job.trace();
                assert_eq!(trace.problems(), [], "{job:?}");
                check_kernels_of(&trace, kernels == Eager);
            }
        }
    }
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
    let experts = Some(Experts { count: 8, active: 2, ffn: 32, shared: 1, dense_first: 0 });
    let card = Card { experts, ..small(Family::Mixtral) };
    for kernels in [Kernels::Compiled, Kernels::Fused] {
        let job = Generation { batch: 1, kernels, ..job(card.clone()) };
        let trace = job.trace();
        assert_eq!(trace.problems(), []);
        let decode = trace.ops.iter().filter(|op| op.phase == Phase::Decode);
        let touched =
            decode.flat_map(|op| &trace.uses[op.uses.start as usize..op.uses.end as usize]);
        let used = touched.filter(|one| {
            let name = &trace.objects[one.object.index()].name;
            name.contains("expert") && name.ends_with("down_proj.weight")
        });
        // Two of eight and the shared one, per layer and step.
        assert_eq!(used.count(), 3 * 3 * 3);
    }
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
    // Of the cache as much is touched whatever its blocks: keys and values of four tokens in two
    // heads of 16 for two sequences, beside queries, keys, values and what is mixed of them.
    for kv_block in [None, Some(1), Some(3)] {
        let card = Card { window: Some(4), ..small(Family::Mistral) };
        let trace = Generation { kv_block, prompt: 10, ..job(card) }.trace();
        let decode = trace.ops.iter().filter(|op| op.phase == Phase::Decode);
        for op in decode.filter(|op| op.name == "attention") {
            assert_eq!(op.bytes.get(), 2 * 2 * (4 * 2 * 32 + (64 + 2 * 32) + 64), "{kv_block:?}");
        }
    }
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
    let wide = Card { vocab: 101, ..good.card.clone() };
    assert_eq!(fields(&Generation { tensor: 2, card: wide, ..good.clone() }), ["tensor"]);
    let twelve = Card { heads: 12, kv_heads: 12, vocab: 120, ..good.card.clone() };
    let twelve = Generation { tensor: 12, devices: 8, card: twelve, ..good.clone() };
    assert_eq!(fields(&twelve), ["devices"], "eight here and four there");
    assert_eq!(fields(&Generation { devices: 4, ..twelve }), [""; 0]);
    assert_eq!(fields(&Generation { kv_block: Some(0), ..good.clone() }), ["kv_block"]);
    let many = Generation { tokens: 10_000_000, ..good.clone() };
    assert_eq!(fields(&many), ["tokens"]);
    assert_eq!(fields(&Generation { prompt: 1 << 40, ..good }), ["prompt"]);
}

/// A rank has one of the heads whether each is its own or several ranks have the same.
#[test]
fn more_ranks_than_heads_of_keys_and_values_share_them() {
    use Kernels::{Compiled, Eager, Fused};
    for kernels in [Compiled, Fused, Eager] {
        let of = |kv_heads: u32| {
            let card = Card { heads: 8, kv_heads, qkv_bias: true, ..small(Family::Qwen) };
            let job = Generation { tensor: 4, devices: 4, kernels, ..job(card) };
            assert_eq!(job.problems(), [], "{kernels:?}");
            job.trace()
        };
        let (own, shared) = (of(4), of(2));
        let sizes = |trace: &Trace| -> Vec<_> {
            trace.objects.iter().map(|object| (object.name.clone(), object.bytes)).collect()
        };
        assert_eq!(sizes(&own), sizes(&shared));
        assert_eq!(own.ops, shared.ops, "{kernels:?}");
        let kv = Kv { layers: 3, heads: 2, head_dim: 16, bytes: 2, windows: None, latent: None };
        let sequences = Sequences { count: 2, tokens: 8, page: 8, ranks: 1 };
        let account = kv.of_rank(sequences, 4, 1).expect("it fits");
        // Eager kernels make the cache anew for each token.
        if kernels != Eager {
            assert_eq!(account, u128::from(sum(&shared, ObjectKind::Kv)), "{kernels:?}");
        }
    }
    let three = Card { heads: 12, kv_heads: 3, ..small(Family::Qwen) };
    let job = Generation { tensor: 4, devices: 4, ..job(three) };
    assert_eq!(job.problems()[0].field, "tensor");
}
