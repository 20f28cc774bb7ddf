//! Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
//! sections 4 and 5: bytes that are kept per layer, and FLOPs of an iteration (section 6.3 and
//! appendix A).

use crate::transformer::shape::{alive, flops, gpt2, llama_8b, mixtral, plain};
use tiersim_models::ids::OpId;
use tiersim_models::workload::{ObjectKind, Phase};
use tiersim_workloads::memory::activations::{Stages, of_stage};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{Attention, Checkpointing, Parallel, Training};

/// Eager attention with dropout, as in the paper.
fn paper(card: Card, sequence: u64, micro_batch: u32) -> Training {
    Training {
        attention: Attention::Eager,
        dropout: true,
        batch: micro_batch,
        micro_batch,
        ..plain(Card { positions: sequence as u32, ..card }, sequence)
    }
}

/// Bytes of activations of blocks that are alive when the first backward op of a block starts; what
/// embedding, final norm and head keep is left out.
fn kept(training: &Training) -> u64 {
    assert_eq!(training.problems(), []);
    let trace = training.trace();
    let in_block = |name: &str| name.contains(".h.") || name.contains(".layers.");
    let modules = trace.modules.clone();
    let counts = |object: &tiersim_models::workload::Object| {
        object.kind == ObjectKind::Activation
            && object.module.is_some_and(|module| in_block(&modules[module.index()]))
    };
    let before = trace
        .ops
        .iter()
        .position(|op| {
            op.phase == Phase::Backward && in_block(&modules[op.module.unwrap().index()])
        })
        .unwrap();
    // What is alive during the op before it, less what that one gives back.
    let alive_then = alive(&trace, counts)[before - 1];
    let releases = tiersim_models::lifetime::Workload::new(trace.clone());
    let given_back = releases.releases(OpId::at(before - 1)).iter();
    let given_back = given_back.map(|id| &trace.objects[id.index()]).filter(|o| counts(o));
    alive_then - given_back.map(|o| o.bytes.get()).sum::<u64>()
}

/// The formula, in bytes, of L layers: `whole` of them per token and channel are on every rank of a
/// tensor group, `split` and 5*a*s/h are divided.
fn formula(training: &Training, [whole, split, scores]: [u64; 3]) -> u64 {
    let card = &training.card;
    let [b, h, a, l] = [training.micro_batch, card.hidden, card.heads, card.layers].map(u64::from);
    let (s, t) = (training.sequence, u64::from(training.parallel.tensor));
    let whole = if training.parallel.sequence { whole * s * b * h / t } else { whole * s * b * h };
    l * (whole + split * s * b * h / t + scores * a * s * s * b / t)
}

#[test]
fn a_layer_keeps_what_the_paper_says() {
    for (tensor, sequence) in [(1, false), (2, false), (4, false), (2, true), (4, true)] {
        let parallel = Parallel { tensor, sequence, ..Parallel::default() };
        let card = Card { vocab: 64, ..gpt2(3, 64, 4) };
        let training = Training { parallel, ..paper(card, 32, 3) };
        assert_eq!(kept(&training), formula(&training, [10, 24, 5]), "{tensor} {sequence}");
        let selective = Training { checkpointing: Checkpointing::Selective, ..training.clone() };
        assert_eq!(kept(&selective), formula(&selective, [10, 24, 0]), "{tensor} {sequence}");
        let full = Training { checkpointing: Checkpointing::Full, ..training.clone() };
        assert_eq!(kept(&full), formula(&full, [2, 0, 0]), "{tensor} {sequence}");
    }
}

#[test]
fn the_papers_models_keep_the_papers_bytes() {
    let models = [(gpt2(48, 6144, 64), 4, 1, 1), (gpt2(96, 12_288, 96), 1, 8, 3)];
    let published = [(59.25, 9.56), (66.84, 12.35)];
    for ((card, micro, pipeline, interleave), (all, selective)) in models.into_iter().zip(published)
    {
        let card = Card { vocab: 51_200, ..card };
        let parallel = Parallel { tensor: 8, pipeline, interleave, ..Parallel::default() };
        let mut training = Training { parallel, ..paper(card, 2048, micro) };
        training.batch = 2 * pipeline * micro;
        let gib = |training: &Training| kept(training) as f64 / f64::from(1 << 30);
        assert!((gib(&training) - all).abs() < 0.01, "{} {all}", gib(&training));
        training.checkpointing = Checkpointing::Selective;
        training.parallel.sequence = true;
        assert!((gib(&training) - selective).abs() < 0.01, "{} {selective}", gib(&training));
    }
}

#[test]
fn the_first_stage_has_the_activations_of_all_layers() {
    for (pipeline, interleave, batch) in [(1, 1, 1), (2, 1, 4), (4, 1, 9), (4, 2, 8), (2, 4, 8)] {
        let parallel = Parallel { pipeline, interleave, ..Parallel::default() };
        let card = Card { vocab: 64, ..gpt2(8, 64, 4) };
        let training = Training { batch, micro_batch: 1, parallel, ..paper(card, 32, 1) };
        let (p, m) = (u64::from(pipeline), u64::from(interleave));
        let all = formula(&training, [10, 24, 5]);
        let expected = if m == 1 { all } else { all * (p * m + p - 1) / (p * m) };
        assert_eq!(kept(&training), expected, "{pipeline} {interleave}");
    }
}

#[test]
fn only_every_kth_input_is_kept() {
    for k in 1..=9 {
        let card = Card { vocab: 64, ..gpt2(7, 64, 4) };
        let checkpointing = Checkpointing::Every(k);
        let training = Training { checkpointing, ..paper(card, 32, 2) };
        let inputs = 7_u64.div_ceil(u64::from(k));
        assert_eq!(kept(&training), inputs * 2 * 32 * 2 * 64, "every {k}");
    }
}

/// What `tiersim memory` says of the same training. It counts statistics of norms, which have no
/// object.
#[test]
fn the_trace_keeps_what_the_formulas_say() {
    let mixtral = Card { layers: 8, ..mixtral() };
    let opt = Card { family: Family::Opt, ..gpt2(8, 64, 4) };
    let small = gpt2(8, 64, 4);
    for card in [small, opt, Card { layers: 8, ..llama_8b() }, mixtral] {
        let card = Card { vocab: 64, ..card };
        for (format, dropout, attention, parallel) in cases() {
            let formats = Formats { activations: format, ..Formats::all(Format::Bf16) };
            let training = Training {
                batch: 16,
                micro_batch: 2,
                formats,
                dropout,
                attention,
                parallel,
                ..plain(card.clone(), 32)
            };
            use Checkpointing::{Every, Full, None, Selective};
            for checkpointing in [None, Selective, Full, Every(3)] {
                let is_cut = matches!(checkpointing, Full | Every(_));
                let training = Training { checkpointing, ..training.clone() };
                let formula = of_stage(&training).unwrap();
                let own = 64 / if parallel.sequence { parallel.tensor } else { 1 };
                let each = 4 * u32::from(card.family.norm_statistics());
                let norms = u128::from(2 * each * own * card.layers);
                let ways = u128::from(parallel.pipeline * parallel.interleave);
                let in_flight = Stages::of(&training).in_flight() * norms / ways;
                let norms = if is_cut { 0 } else { in_flight };
                let expected = formula.kept + formula.statistics - norms;
                assert_eq!(u128::from(kept(&training)), expected, "{training:?}");
            }
        }
    }
}

fn cases() -> Vec<(Format, bool, Attention, Parallel)> {
    let one = Parallel::default();
    let mut cases = Vec::new();
    for format in [Format::Bf16, Format::Fp32, Format::Int8] {
        for attention in [Attention::Flash, Attention::Eager] {
            for parallel in [
                one,
                Parallel { tensor: 2, ..one },
                Parallel { tensor: 4, sequence: true, ..one },
                Parallel { pipeline: 4, ..one },
                Parallel { pipeline: 2, interleave: 2, tensor: 2, ..one },
            ] {
                cases.push((format, attention == Attention::Eager, attention, parallel));
            }
        }
    }
    cases
}

#[test]
fn flash_attention_keeps_no_scores() {
    let training = plain(Card { layers: 2, ..llama_8b() }, 1000);
    let (h, kv, f) = (4096, 1024, 14_336);
    // Two inputs of norms and two normed, queries, keys, values, mixed, gate, its SiLU, the other
    // half and the product in 16 bits; an fp32 sum per token and head.
    let layer = 1000 * (2 * (4 * h + h + 2 * kv + h + 4 * f) + 4 * 32);
    assert_eq!(kept(&training), 2 * layer);
    let selective = Training { checkpointing: Checkpointing::Selective, ..training.clone() };
    assert_eq!(kept(&selective), 2 * layer, "nothing is left to select");
}

/// 72*B*L*s*h^2*(1 + s/6h + V/12hL) without checkpointing; a forward pass of the blocks is a third
/// of their part and comes once more with full checkpointing: 96*B*L*s*h^2*(1 + s/6h + V/16hL)
/// (Narayanan et al., 2021). Selectively, the two products of the core of attention come once more:
/// 4*B*s^2*h per layer.
#[test]
fn flops_are_those_of_the_paper() {
    for (micro, batch) in [(1, 1), (2, 6)] {
        let card = Card { vocab: 500, ..gpt2(3, 64, 4) };
        let training = Training { batch, ..paper(card, 48, micro) };
        let [l, h, v, b] = [3_u128, 64, 500, u128::from(batch)];
        let s = 48_u128;
        let (blocks, scores, head) =
            (72 * b * l * s * h * h, 12 * b * l * s * s * h, 6 * b * s * h * v);
        assert_eq!(flops(&training.trace()), blocks + scores + head);
        let full = Training { checkpointing: Checkpointing::Full, ..training.clone() };
        assert_eq!(flops(&full.trace()), (blocks + scores) / 3 * 4 + head);
        let every = Training { checkpointing: Checkpointing::Every(2), ..training.clone() };
        assert_eq!(flops(&every.trace()), (blocks + scores) / 3 * 4 + head);
        let selective = Training { checkpointing: Checkpointing::Selective, ..training.clone() };
        assert_eq!(flops(&selective.trace()), blocks + scores / 3 * 4 + head);
        for tensor in [2, 4] {
            let parallel = Parallel { tensor, sequence: true, ..Parallel::default() };
            let split = Training { parallel, ..training.clone() };
            assert_eq!(flops(&split.trace()) * u128::from(tensor), blocks + scores + head);
        }
    }
}

/// Dao et al., 2022: causal pairs, four FLOPs forward per pair and channel and ten backward.
#[test]
fn flash_attention_multiplies_causal_pairs_and_five_products_backward() {
    let card = Card { vocab: 500, ..gpt2(3, 64, 4) };
    let at = |window| {
        let card = Card { window, ..card.clone() };
        flops(&plain(card, 48).trace())
    };
    let rest = 72 * 3 * 48 * 64 * 64 + 6 * 48 * 64 * 500;
    assert_eq!(at(None), rest + 14 * 3 * 64 * (48 * 49 / 2));
    let pairs: u128 = (1..=48).map(|token: u128| token.min(10)).sum();
    assert_eq!(at(Some(10)), rest + 14 * 3 * 64 * pairs);
}

/// The bubble of a pipeline is (p - 1)/m of a stage's forward and backward pass of its blocks.
#[test]
fn a_pipeline_waits_for_its_bubble() {
    let card = Card { vocab: 500, ..gpt2(8, 64, 4) };
    for (pipeline, interleave) in [(2, 1), (4, 1), (4, 2)] {
        let parallel = Parallel { pipeline, interleave, ..Parallel::default() };
        let training = Training { batch: 8, parallel, ..paper(card.clone(), 48, 1) };
        let trace = training.trace();
        // What the last stage does beside is no part of it.
        let ops = trace.ops.iter().filter(|op| op.name != "pipeline_last_stage");
        let (idle, busy): (Vec<_>, Vec<_>) = ops.partition(|op| op.name == "pipeline_bubble");
        let sum =
            |ops: &[&tiersim_models::workload::Op]| -> u64 { ops.iter().map(|op| op.flops).sum() };
        let (p, m) = (u64::from(pipeline), u64::from(interleave));
        // Eight micro-batches went through the stage's blocks.
        assert_eq!(sum(&idle) * 8 * m, sum(&busy) * (p - 1), "{pipeline} {interleave}");
        assert_ne!(sum(&idle), 0);
    }
}
