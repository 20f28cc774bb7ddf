//! Memory by formula against published figures and independent counts.

use crate::transformer::shape::{gpt2, llama_8b};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_account::Place;
use tiersim_workloads::memory::Overflow;
use tiersim_workloads::memory::account::{Keeps, Step, Training, training};
use tiersim_workloads::memory::activations::{OfStage, Stages, of_stage};
use tiersim_workloads::memory::deepspeed::{Answer, Question, zero2, zero3};
use tiersim_workloads::memory::zero::{MILLION, Offload, State, placed};
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::training::{
    self, Attention, Checkpointing, Kernels, Loader, Loss, Optimizer, Parallel, UpdateTime,
};

const GIB: f64 = (1u64 << 30) as f64;

/// A job without shapes: model state alone.
fn state_only(params: u64, gpus: u64, stage: u8, optimizer: Keeps) -> Training {
    Training { optimizer, stage, ..Training::new(params, gpus) }
}

fn account(job: &Training) -> Account {
    training(job).expect("it fits 128 bits")
}

#[test]
fn the_papers_examples_of_zero() {
    let gb = |params, gpus, k: u64| {
        [0, 1, 2, 3].map(|stage| {
            let job = state_only(params, gpus, stage, Keeps::PerParameter(k * 1_000_000));
            account(&job).gpu as f64 / 1e9
        })
    };
    // Rajbhandari et al. 2020, figure 1: 120, 31.4, 16.6 and 1.9 GB.
    assert_eq!(gb(7_500_000_000, 64, 12), [120.0, 31.406_25, 16.640_625, 1.875]);
    assert_eq!(gb(7_000_000_000, 8, 4), [56.0, 31.5, 19.25, 7.0]);
    let named = state_only(7_500_000_000, 64, 2, Keeps::Named(Optimizer::AdamW));
    assert_eq!(account(&named).gpu, 16_640_625_000);
}

#[test]
fn stages_are_the_formulas_over_a_grid() {
    let mut random = ChaCha12Rng::seed_from_u64(6);
    let mut points = 0;
    for at in 0..1000u64 {
        // A third of the points are those that are easy to get wrong: few parameters, many ranks.
        let params: u64 = match at % 3 {
            0 => random.random_range(1..200),
            1 => random.random_range(1..20_000_000_000_000),
            _ => (1 + at / 3) * 64 * 1_000_003,
        };
        let ranks: u64 = if at % 2 == 0 { 1 << (at % 14) } else { random.random_range(1..3000) };
        let k = [0, 4, 8, 12][at as usize / 2 % 4];
        for stage in 0..4u8 {
            let whole = State::of(params.into(), 2, 2, k).unwrap();
            let found = whole.of_rank(stage, ranks.into());
            // Independently: the fraction n / N is at most x whole bytes where x N >= n > (x - 1)
            // N.
            for (part, bytes, from) in [
                (found.weights, 2 * u128::from(params), 3),
                (found.gradients, 2 * u128::from(params), 2),
                (found.optimizer, k * u128::from(params), 1),
            ] {
                if stage < from {
                    assert_eq!(part, bytes);
                } else {
                    let ranks = u128::from(ranks);
                    assert!(part * ranks >= bytes, "{params} {ranks} {stage}");
                    assert!(part == 0 || (part - 1) * ranks < bytes, "{params} {ranks} {stage}");
                }
            }
            if params.is_multiple_of(ranks) {
                let (p, n) = (u128::from(params), u128::from(ranks));
                let formula =
                    [(4 + k) * p, 4 * p + k * p / n, 2 * p + (2 + k) * p / n, (4 + k) * p / n];
                assert_eq!(found.sum(), Ok(formula[stage as usize]));
            }
            points += 1;
        }
    }
    assert_eq!(points, 4000);
}

#[test]
fn offload_moves_bytes_and_makes_none() {
    let mut random = ChaCha12Rng::seed_from_u64(7);
    for _ in 0..3000 {
        let whole = State::of(random.random_range(1..1 << 45), 2, 2, 12).unwrap();
        let stage = random.random_range(1..4u8);
        let of_rank = whole.of_rank(stage, random.random_range(1..100));
        let place = Place::ALL[random.random_range(0..3)];
        let weights = Place::ALL[random.random_range(0..3)];
        let ratio = random.random_range(0..=MILLION);
        let all = placed(of_rank, stage, Offload { optimizer: place, weights, ratio }).unwrap();
        let sum: u128 = all.iter().map(|part| part.bytes).sum();
        assert_eq!(Ok(sum), of_rank.sum());
    }
    // ZeRO-Offload: 2P stay on the GPU at stage 2, all else goes to the host.
    let mut job = state_only(1_000_000_000, 1, 2, Keeps::PerParameter(12_000_000));
    job.offload = Offload { optimizer: Place::Cpu, ..Offload::default() };
    let found = account(&job);
    assert_eq!((found.gpu, found.cpu_per_node), (2_000_000_000, 14_000_000_000));
    // ZeRO-Infinity: nothing stays, gradients stop in the host's memory.
    job.stage = 3;
    job.offload = Offload { optimizer: Place::Nvme, weights: Place::Nvme, ratio: MILLION };
    let found = account(&job);
    let per_node = (found.cpu_per_node, found.nvme_per_node);
    assert_eq!((found.gpu, per_node), (0, (2_000_000_000, 14_000_000_000)));
    // Twin-flow: 30 % of optimizer state and gradients.
    job.offload = Offload { optimizer: Place::Cpu, weights: Place::Gpu, ratio: 300_000 };
    let found = account(&job);
    assert_eq!((found.gpu, found.cpu_per_node), (2_000_000_000 + 9_800_000_000, 4_200_000_000));
}

/// Korthikanti et al. 2022, table 3: the 22B and the 175B model.
fn published(large: bool, checkpointing: Checkpointing, by_sequence: bool) -> OfStage {
    let (card, sequences, pipeline, interleave) =
        if large { (gpt2(96, 12_288, 96), 1, 8, 3) } else { (gpt2(48, 6144, 64), 4, 1, 1) };
    let card = Card { vocab: 51_200, ..card };
    let step = published_step(card, (sequences, 2048), (8, by_sequence));
    let parallel = Parallel { pipeline, interleave, ..step.parallel };
    let batch = sequences * if large { 64 } else { 1 };
    of_stage(&training::Training { checkpointing, parallel, batch, ..step }).unwrap()
}

/// Eager attention with dropout in 16 bits, as in the paper.
fn published_step(
    card: Card,
    (sequences, tokens): (u32, u64),
    (tensor, sequence): (u32, bool),
) -> training::Training {
    training::Training {
        batch: sequences,
        micro_batch: sequences,
        attention: Attention::Eager,
        dropout: true,
        parallel: Parallel { tensor, sequence, ..Parallel::default() },
        ..training::Training::new(card, tokens)
    }
}

#[test]
fn the_papers_activations_of_22b_and_175b() {
    for (large, checkpointing, by_sequence, gib) in [
        (false, Checkpointing::None, false, 59.25),
        (true, Checkpointing::None, false, 66.84),
        (false, Checkpointing::Selective, true, 9.56),
        (true, Checkpointing::Selective, true, 12.35),
    ] {
        let found = published(large, checkpointing, by_sequence).kept as f64 / GIB;
        assert!((found - gib).abs() < 0.01, "{found} {gib}");
    }
    // Section 4.3, 22B with sequence parallelism: s b h p / t, and 4 s b h / t (1 + v / h).
    let (s, b, h, v) = (2048u128, 4, 6144, 51_200);
    let found = published(false, Checkpointing::Selective, true);
    assert_eq!(found.embedding, s * b * h / 8);
    assert_eq!(found.head, 4 * s * b * h / 8 + 4 * s * b * v / 8);
    let found = published(true, Checkpointing::Selective, true);
    // The paper has s b h p with any schedule; interleaved, the first virtual stage has 2 p in
    // flight.
    assert_eq!((found.embedding, found.head), (16 * 2048 * 12_288 / 8, 0));
}

#[test]
fn blocks_are_the_closed_formulas() {
    let mut random = ChaCha12Rng::seed_from_u64(8);
    for _ in 0..2000 {
        let t = 1u32 << random.random_range(0..4);
        let a = t * random.random_range(1..16);
        let h = a * 8 * random.random_range(1..40u32);
        let s = 8 * random.random_range(1..600u64);
        let b = random.random_range(1..9u32);
        let [up_proj, heads, many, over] = [h, a, b, t].map(u128::from);
        let tokens = u128::from(s);
        let (sbh, core) = (tokens * many * up_proj, 5 * heads * tokens * tokens * many);
        let card = Card { vocab: t, ..gpt2(12, h, a) };
        let of = |by_sequence| published_step(card.clone(), (b, s), (t, by_sequence));
        let found = of(false).kept().unwrap();
        assert_eq!(found.rest, 10 * sbh + 24 * sbh / over, "h {h} a {a} s {s} b {b} t {t}");
        assert_eq!(found.core, core / over);
        let found = of(true).kept().unwrap();
        assert_eq!((found.rest, found.core), (34 * sbh / over, core / over));
        let kept = |checkpointing| {
            of_stage(&training::Training { checkpointing, ..of(true) }).unwrap().kept
        };
        assert_eq!(kept(Checkpointing::Full), 12 * 2 * sbh / over);
        assert_eq!(kept(Checkpointing::Every(5)), 3 * 2 * sbh / over);
        assert_eq!(kept(Checkpointing::Every(1)), kept(Checkpointing::Full));
    }
}

/// A block of Llama's kind counted by hand, in numbers per token: norms' inputs and outputs,
/// queries, keys and values, the projection's input, and four tensors of the gated part.
#[test]
fn a_llama_block_keeps_what_its_list_says() {
    // Llama-3-8B: h 4096, 32 heads of 128, 8 of them for keys and values, 14336 between.
    let mut step = training::Training {
        batch: 2,
        micro_batch: 2,
        ..training::Training::new(llama_8b(), 8192)
    };
    let found = step.kept().unwrap();
    let tokens = 2 * 8192;
    let numbers = 4 * 4096 + 4096 + 2 * 1024 + 4096 + 4 * 14_336;
    assert_eq!((found.rest, found.core), (tokens * numbers * 2, 0));
    // A statistic per norm, a sum per head.
    assert_eq!(found.statistics, tokens * (2 + 32) * 4);
    step.attention = Attention::Eager;
    let found = step.kept().unwrap();
    assert_eq!(found.core, tokens * 32 * 8192 * 2);
    // Compressed: a byte per number and 4 bytes per 256; masks and statistics as they are.
    step.formats.activations = Format::Int8;
    let small = step.kept().unwrap();
    assert_eq!(small.rest, tokens * numbers + tokens * numbers / 256 * 4);
    assert_eq!(small.statistics, tokens * 2 * 4);
}

/// A rank with a share of a matrix or of a head has the whole number of columns that makes a step.
#[test]
fn what_ranks_split_unequally_is_padded() {
    let of = |ffn, kv_heads, vocab| {
        let card = Card { ffn, kv_heads, vocab, ..llama_8b() };
        published_step(card, (1, 128), (16, false)).kept().unwrap()
    };
    assert_eq!(of(14_337, 8, 50_257), of(14_352, 16, 50_272));
}

#[test]
fn stages_hold_what_is_in_flight() {
    let in_flight = |pipeline, interleave, micro_batches| {
        Stages { layers: 96, pipeline, interleave, micro_batches }.in_flight()
    };
    assert_eq!(in_flight(8, 1, 64), 8);
    assert_eq!(in_flight(8, 3, 64), 31);
    assert_eq!(in_flight(8, 1, 3), 3);
    assert_eq!(in_flight(8, 3, 3), 9);
    assert_eq!(in_flight(1, 1, 1), 1);
    // 1F1B by hand: stage 0 of p runs p micro-batches before the first comes back.
    for pipeline in 1..9u64 {
        for micro_batches in 1..20u64 {
            let (mut held, mut most, mut back) = (0u64, 0, 0);
            for forward in 0..micro_batches {
                held += 1;
                most = most.max(held);
                if forward + 1 >= pipeline {
                    held -= 1;
                    back += 1;
                }
            }
            assert_eq!(back + held, micro_batches);
            assert_eq!(in_flight(pipeline, 1, micro_batches), u128::from(most));
        }
    }
}

#[test]
fn a_hundred_million_tokens_are_accounted() {
    let mut job = state_only(1_000_000_000_000, 512, 3, Keeps::Named(Optimizer::AdamW));
    let step = Step {
        shape: Card { vocab: 51_200, ..gpt2(128, 25_600, 160) },
        batch: 1,
        micro_batch: 1,
        sequence: 100_000_000,
        format: Format::Bf16,
        attention: Attention::Eager,
        kernels: Kernels::Compiled,
        optimizer_kernels: None,
        loss: Loss::Eager,
        dropout: true,
        checkpointing: Checkpointing::None,
        update: UpdateTime::After,
        loader: Some(Loader { workers: 4, prefetch: 2, token_bytes: 8 }),
    };
    job.step = Some(step.clone());
    let found = account(&job);
    let (s, h, a) = (100_000_000u128, 25_600, 160);
    let kept = 128 * (34 * s * h + 5 * a * s * s);
    assert_eq!(found.bytes("activations", Place::Gpu), kept);
    assert!(kept > u128::from(u64::MAX));
    assert_eq!(found.bytes("loader", Place::Cpu), 4 * 2 * s * 8);
    // A tensor that does not fit 64 bits is said, and so is what does not fit 128.
    job.step = Some(Step { sequence: 1 << 46, ..step.clone() });
    assert_eq!(training(&job), Err(Overflow));
    let wide = Card { hidden: u32::MAX, ffn: u32::MAX, ..gpt2(1, 1, 1) };
    job.step = Some(Step { shape: wide, sequence: 1, ..step.clone() });
    assert_eq!(training(&job), Err(Overflow));
    let sequence = u64::MAX;
    job.step = Some(Step { sequence, batch: u64::MAX, micro_batch: u64::MAX, ..step });
    assert_eq!(training(&job), Err(Overflow));
}

/// By hand from DeepSpeed's source, for a model of a billion parameters whose largest layer has ten
/// million.
#[test]
fn deepspeeds_estimators_by_hand() {
    let asked = Question {
        params: 1_000_000_000,
        largest_layer: 10_000_000,
        gpus_per_node: 8,
        nodes: 2,
        offload_optimizer: false,
        offload_params: false,
        zero_init: true,
        buffer_factor: 1.5,
    };
    let of = |answer: Option<Answer>| {
        let Answer { cpu_bytes, gpu_bytes, .. } = answer.expect("it is below 2^53");
        (gpu_bytes, cpu_bytes)
    };
    assert_eq!(of(zero2(&asked)), (2_000_000_000 + 1_125_000_000, 48_000_000_000));
    assert_eq!(of(zero3(&asked)), (40_000_000 + 1_125_000_000, 480_000_000));
    let whole = Question { zero_init: false, ..asked };
    assert_eq!(of(zero3(&whole)), (40_000_000 + 1_125_000_000, 48_000_000_000));
    let asked = Question { offload_optimizer: true, ..asked };
    assert_eq!(of(zero2(&asked)), (2_000_000_000, 96_000_000_000));
    assert_eq!(of(zero3(&asked)), (40_000_000 + 125_000_000, 12_000_000_000));
    let asked = Question { offload_params: true, ..asked };
    assert_eq!(of(zero3(&asked)), (40_000_000, 13_500_000_000));
    let whole = Question { zero_init: false, ..asked };
    assert_eq!(of(zero3(&whole)), (40_000_000, 48_000_000_000));
    for bad in [Question { nodes: 0, ..asked }, Question { params: u64::MAX, ..asked }] {
        assert_eq!((zero2(&bad), zero3(&bad)), (None, None));
    }
}
