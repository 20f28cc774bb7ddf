//! Serving requests: the scheduler's oracles, with everything in HBM.

use crate::transformer::shape::{flops, llama_8b, mixtral, most_alive, sum};
use std::collections::BTreeMap;
use tiersim_models::ids::OpId;
use tiersim_models::kernel::Kernel;
use tiersim_models::random::SplitMix;
use tiersim_models::requests::ServingRequests;
use tiersim_models::serving_plan::Served;
use tiersim_models::units::{Bandwidth, Span, Time};
use tiersim_models::workload::{ObjectKind, Phase, Unit};
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::serving::{GroupWork, Serving, ServingProblem};
use tiersim_workloads::transformer::training::Kernels;

fn job() -> Serving {
    Serving {
        card: llama_8b(),
        formats: Formats::all(Format::Bf16),
        block_tokens: 16,
        kv_blocks: 100_000,
        max_batch: 8,
        max_tokens_per_step: 512,
        layer_groups: 1,
        merge: 1,
        kernels: Kernels::Fused,
        tensor: 1,
        devices: 8,
    }
}

/// 400 TFLOP/s and 3 TB/s.
fn roofline(flops: u64, bytes: u64) -> Option<Span> {
    let rate = |per_s| Bandwidth::new(per_s).expect("not zero");
    let compute = rate(400_000_000_000_000).checked_span_of(flops)?;
    Some(compute.max(rate(3_000_000_000_000).checked_span_of(bytes)?))
}

/// As long as its kernels; nothing is done with other ranks here.
fn pace(work: &GroupWork) -> Option<Span> {
    assert_eq!(work.collectives, []);
    lasts(&work.kernels)
}

/// Kernels one after the other, each as long as its roofline.
fn lasts(kernels: &[Kernel]) -> Option<Span> {
    let each = |one: &Kernel| roofline(one.flops, one.bytes.get())?.ps().checked_mul(one.times);
    let spans: Option<Vec<u64>> = kernels.iter().map(each).collect();
    Some(Span::from_ps(spans?.iter().sum()))
}

fn at_ms(ms: u64) -> Time {
    Time::from_ps(ms * 1_000_000_000)
}

/// Requests without names: (arrival in ms, prompt, output).
fn unnamed(rows: &[(u64, u64, u64)]) -> ServingRequests {
    let mut requests = ServingRequests::new(None);
    for &(at, prompt, output) in rows {
        requests.push(at_ms(at), prompt, output, &[]).expect("a request");
    }
    requests.sort();
    requests
}

/// Requests with names of blocks of 16 tokens; the last block is full.
fn named(rows: &[(u64, &[u64], u64)]) -> ServingRequests {
    let mut requests = ServingRequests::new(Some(16));
    for &(at, names, output) in rows {
        requests.push(at_ms(at), 16 * names.len() as u64, output, names).expect("a request");
    }
    requests.sort();
    requests
}

fn served(job: &Serving, requests: &ServingRequests) -> Served {
    let served = job.serve(requests, &pace).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(served.trace.problems(), []);
    served
}

/// When each op ends with everything in HBM on one stream.
fn ends(served: &Served) -> Vec<Time> {
    let mut now = Time::ZERO;
    let op = |op: &tiersim_models::workload::Op| {
        now = now.max(op.release.unwrap_or_default())
            + lasts(op.kernels.as_deref().unwrap_or_default()).expect("short");
        now
    };
    served.trace.ops.iter().map(op).collect()
}

#[test]
fn weights_are_those_of_the_model() {
    // 8,030,261,248 parameters (its published count).
    for layer_groups in [1, 3, 32] {
        let job = Serving { layer_groups, ..job() };
        let served = served(&job, &unnamed(&[(0, 20, 3)]));
        assert_eq!(sum(&served.trace, ObjectKind::Weight), 2 * 8_030_261_248);
    }
    // 46,702,792,704 parameters (its published index).
    let served = served(&Serving { card: mixtral(), ..job() }, &unnamed(&[(0, 20, 3)]));
    assert_eq!(sum(&served.trace, ObjectKind::Weight), 2 * 46_702_792_704);
}

/// The kernels of an iteration of Llama 3 8B in bf16 with `new` tokens behind `before` others of one
/// request, counted by hand: FLOPs, bytes, and how often. Matrices of the same rows are one.
fn by_hand(before: u64, new: u64) -> Vec<(u64, u64, u64)> {
    let (h, q, kv, ffn, vocab) = (4096, 4096, 1024, 14_336, 128_256);
    // Two bytes per number: m rows of k numbers, k rows of n, and m rows of n.
    let product = |m: u64, n: u64, k: u64| (2 * m * n * k, 2 * (m * k + k * n + m * n));
    let norm = |rows: u64| (0, 2 * (h + 2 * rows * h));
    let pairs = (before + new) * (before + new + 1) / 2 - before * (before + 1) / 2;
    // Queries, keys and values come, the mixed values go, and all the cache is touched.
    let touched = 2 * (new * (q + 2 * kv) + new * q + 2 * kv * (before + new));
    let block = [
        norm(new),
        product(new, q + 2 * kv, h),
        // Rotary positions turn queries and keys in place.
        (0, 2 * 2 * new * (q + kv)),
        (4 * q * pairs, touched),
        product(new, h, q),
        // A residual reads two and writes one.
        (0, 2 * 3 * new * h),
        norm(new),
        product(new, 2 * ffn, h),
        // Both halves come, and what the gate lets through goes.
        (0, 2 * 3 * new * ffn),
        product(new, h, ffn),
        (0, 2 * 3 * new * h),
    ];
    let ((flops, bytes), logits) = (product(1, vocab, h), 4 - 2);
    let ends = [(0, 2 * 2 * new * h), norm(1), (flops, bytes + logits * vocab)];
    let times = |count: u64| move |(flops, bytes): (u64, u64)| (flops, bytes, count);
    block.into_iter().map(times(32)).chain(ends.into_iter().map(times(1))).collect()
}

/// One request alone: the rooflines of its prompt's kernels, and of each token's behind it, worked
/// out by hand.
#[test]
fn one_request_alone_takes_its_roofline() {
    let (prompt, output) = (300u64, 40u64);
    let served = served(&job(), &unnamed(&[(7, prompt, output)]));
    let ends = ends(&served);
    let course = served.plan.requests[0];
    let matrix = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14_336);
    let head = 4096 * 128_256;
    let flops = 2 * prompt * matrix + 32 * 4 * 4096 * (prompt * (prompt + 1) / 2) + 2 * head;
    let op = &served.trace.ops[course.token.index()];
    assert_eq!((op.flops, op.phase, op.release), (flops, Phase::Prefill, None));
    let waits = &served.trace.ops[course.first.index() - 1];
    assert_eq!((waits.release, waits.unit), (Some(at_ms(7)), Unit::Idle));
    let ttft = ends[course.token.index()].since(course.arrival);
    let span = |kernels: &[(u64, u64, u64)]| -> Span {
        let each = |&(flops, bytes, times)| roofline(flops, bytes).expect("short").ps() * times;
        Span::from_ps(kernels.iter().map(each).sum())
    };
    assert_eq!(ttft, span(&by_hand(0, prompt)));
    let tokens: Vec<_> = (prompt..prompt + output - 1).map(|before| by_hand(before, 1)).collect();
    // Weights without the table, and the cache of all positions; then what one token hands on.
    let token = |position: u64| {
        let weights = 2 * (matrix + head + 65 * 4096);
        let (h, qkv) = (4096, 6144);
        let (norms, products) = (4 * h, (h + qkv) + 2 * h + (h + 28_672) + (14_336 + h));
        let beside = 2 * 5120 + (qkv + h) + 6 * h + 3 * 14_336;
        let acts = 2 * 32 * (norms + products + beside);
        weights + 32 * 4096 * (position + 1) + acts + 2 * 2 * h + 2 * 3 * h + 4 * 128_256
    };
    let bytes: Vec<u64> = served.trace.ops[2..].iter().map(|op| op.bytes.get()).collect();
    let expected: Vec<u64> = (prompt..prompt + output - 1).map(token).collect();
    assert_eq!(bytes, expected);
    let decode = ends[course.last.index()].since(ends[course.token.index()]);
    assert_eq!(decode, tokens.iter().map(|kernels| span(kernels)).sum());
    assert_eq!(served.plan.estimate, ends[course.last.index()]);
}

/// Conversations: each turn's prompt is the last one's with some blocks more.
fn conversations(count: u64, apart_ms: u64) -> ServingRequests {
    let mut draws = SplitMix::new(5);
    let mut open: Vec<Vec<u64>> = vec![vec![0]; 6];
    let mut requests = ServingRequests::new(Some(16));
    let mut name = 1;
    for index in 0..count {
        let at = (draws.draw() % open.len() as u64) as usize;
        if open[at].len() > 40 {
            open[at] = vec![0];
        }
        for _ in 0..1 + draws.draw() % 6 {
            open[at].push(name);
            name += 1;
        }
        let prompt = 16 * open[at].len() as u64 - draws.draw() % 16;
        let output = 1 + draws.draw() % 50;
        let arrival = at_ms(index * apart_ms + draws.draw() % 10);
        requests.push(arrival, prompt, output, &open[at]).expect("a request");
    }
    requests.sort();
    requests
}

#[test]
fn every_token_is_produced_once_and_no_limit_is_passed() {
    let requests = conversations(300, 3);
    for (layer_groups, merge, kv_blocks) in [(1, 1, 100_000), (3, 8, 200), (1, 1000, 60)] {
        let job = Serving { layer_groups, merge, kv_blocks, ..job() };
        let served = served(&job, &requests);
        let ends = ends(&served);
        assert_eq!(served.plan.requests.len(), requests.list.len());
        for (course, request) in served.plan.requests.iter().zip(&requests.list) {
            assert_eq!((course.prompt, course.output), (request.prompt, request.output));
            assert!(course.first <= course.token && course.token <= course.last);
            let before = course.first.index().checked_sub(1).map_or(Time::ZERO, |op| ends[op]);
            let start =
                before.max(served.trace.ops[course.first.index()].release.unwrap_or_default());
            assert!(start >= course.arrival, "nobody is served before it arrives");
        }
        // Tokens that go through the layers: all prompts but what was there, and all answers but
        // their last tokens. FLOPs of products count them.
        let through = served
            .plan
            .requests
            .iter()
            .map(|one| u64::from(one.prompt - one.hit_tokens) + u64::from(one.output) - 1);
        let attended = served.plan.requests.iter().map(|one| {
            let sum = |to: u64| to * (to + 1) / 2;
            let end = u64::from(one.prompt) + u64::from(one.output) - 1;
            sum(end) - sum(u64::from(one.hit_tokens))
        });
        let answers: u64 = requests.list.iter().map(|one| u64::from(one.output)).sum();
        let matrix = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14_336);
        let expected = 2 * matrix * through.sum::<u64>()
            + 32 * 4 * 4096 * attended.sum::<u64>()
            + 2 * 4096 * 128_256 * answers;
        assert_eq!(flops(&served.trace), u128::from(expected));
        assert_eq!(served.plan.estimate, *ends.last().expect("ops"));
        most_blocks(&served, &job);
    }
}

/// Blocks that live at a time are never more than there may be.
fn most_blocks(served: &Served, job: &Serving) {
    let most = most_alive(&served.trace, |object| u64::from(object.kind == ObjectKind::Kv));
    let groups = u64::from(job.layer_groups);
    assert!(most <= job.kv_blocks * groups, "{most} of {} x {groups}", job.kv_blocks);
}

/// Without a limit a block is computed once: hits are requests for names that came before.
#[test]
fn hits_without_a_limit_are_those_of_an_unlimited_cache() {
    for apart in [0, 3, 1000] {
        let requests = conversations(300, apart);
        let served = served(&job(), &requests);
        let mut seen = BTreeMap::new();
        for (course, request) in served.plan.requests.iter().zip(&requests.list) {
            let names = requests.names_of(request);
            let known = names.iter().filter(|&&name| seen.insert(name, ()).is_some()).count();
            assert_eq!(course.hits as usize, known);
        }
        let hits: u32 = served.plan.requests.iter().map(|course| course.hits).sum();
        assert_eq!(hits, 5756);
        assert_eq!(served.plan.reuses.len(), hits as usize, "each is read for its request");
    }
}

#[test]
fn what_is_unused_longest_is_forgotten_when_blocks_run_out() {
    let long: Vec<u64> = (10..30).collect();
    let rows: [(u64, &[u64], u64); 5] = [
        (0, &[1, 2], 1),
        (1000, &[1, 3], 1),
        (2000, &long, 1),
        (3000, &[1, 3], 1),
        (4000, &[1, 2], 1),
    ];
    let hits = |kv_blocks| {
        let served = served(&Serving { kv_blocks, ..job() }, &named(&rows));
        served.plan.requests.iter().map(|one| one.hits).collect::<Vec<_>>()
    };
    assert_eq!(hits(23), [0, 1, 0, 2, 2]);
    // The end of the first prompt goes for the long one.
    assert_eq!(hits(22), [0, 1, 0, 2, 1]);
    assert_eq!(hits(20), [0, 1, 0, 0, 1]);
}

#[test]
fn a_long_prompt_goes_in_chunks_beside_what_decodes() {
    // 100 tokens of budget: the second prompt needs four iterations, and the first goes on
    // decoding.
    let job = Serving { max_tokens_per_step: 100, ..job() };
    let served = served(&job, &unnamed(&[(0, 10, 30), (1, 390, 2), (2, 10, 1)]));
    let [first, second, third] = served.plan.requests[..] else { panic!("three requests") };
    // Iterations from one op to another: ops that compute.
    let between = |from: OpId, to: OpId| {
        let ops = &served.trace.ops[from.index()..to.index()];
        ops.iter().filter(|op| op.unit == Unit::Device).count()
    };
    assert_eq!(between(second.first, second.token), 3, "99 + 99 + 99 + 93");
    // Three iterations have no room for it; in the fourth 6 tokens are left.
    assert_eq!(third.first, second.token);
    assert_eq!(between(third.first, third.token), 1, "4 tokens are left of its prompt");
    assert_eq!(between(first.token, first.last), 29, "one token per iteration");
}

#[test]
fn merged_iterations_change_no_moment_but_by_rounding_up() {
    let requests = conversations(60, 40);
    let plain = served(&job(), &requests);
    let merged = served(&Serving { merge: 64, ..job() }, &requests);
    let decodes =
        |served: &Served| served.trace.ops.iter().filter(|op| op.phase == Phase::Decode).count();
    assert!(decodes(&merged) * 4 < decodes(&plain), "{} {}", decodes(&merged), decodes(&plain));
    let moments = |served: &Served| {
        let ends = ends(served);
        let of = |op: OpId| ends[op.index()];
        served
            .plan
            .requests
            .iter()
            .flat_map(|one| [of(one.token), of(one.last)])
            .collect::<Vec<_>>()
    };
    for (merged, plain) in moments(&merged).into_iter().zip(moments(&plain)) {
        assert!(plain.ps().abs_diff(merged.ps()) < 1_000_000, "{plain} {merged}");
    }
}

#[test]
fn a_context_of_a_million_tokens_is_served() {
    let job = Serving {
        block_tokens: 512,
        max_tokens_per_step: 65_536,
        merge: 100,
        layer_groups: 4,
        ..job()
    };
    let served = served(&job, &unnamed(&[(0, 1_000_000, 201)]));
    let cache = sum(&served.trace, ObjectKind::Kv);
    // 128 KiB per token: 1,954 blocks of the prompt and one of the answer.
    assert_eq!(cache, (1954 + 1) * 512 * (128 << 10));
    assert_eq!(served.trace.ops.len(), 1 + (16 + 2) * 4);
    // A token reads the weights and 131 GB of cache.
    let token: u64 = served.trace.ops[1 + 16 * 4..1 + 17 * 4].iter().map(|op| op.bytes.get()).sum();
    assert!((token / 100).abs_diff(131_072_000_000 + 15_000_000_000) < 1_000_000_000, "{token}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let one = unnamed(&[(0, 100, 10)]);
    let wrong = |job: Serving, requests: &ServingRequests| {
        job.serve(requests, &pace).expect_err("it cannot be served")
    };
    let option = |job: Serving| match wrong(job, &one) {
        ServingProblem::Option(problem) => problem.field,
        other => panic!("{other}"),
    };
    assert_eq!(option(Serving { block_tokens: 0, ..job() }), "block_tokens");
    assert_eq!(option(Serving { kv_blocks: 0, ..job() }), "kv_blocks");
    assert_eq!(option(Serving { max_batch: 0, ..job() }), "max_batch");
    assert_eq!(option(Serving { max_tokens_per_step: 8, ..job() }), "max_tokens_per_step");
    assert_eq!(option(Serving { layer_groups: 33, ..job() }), "layer_groups");
    assert_eq!(option(Serving { merge: 0, ..job() }), "merge");
    assert_eq!(option(Serving { tensor: 3, ..job() }), "tensor");
    assert_eq!(option(Serving { tensor: 0, ..job() }), "tensor");
    assert_eq!(option(Serving { tensor: 8, devices: 5, ..job() }), "devices");
    assert_eq!(wrong(Serving { kv_blocks: 7, ..job() }, &one), ServingProblem::TooFewBlocks(0, 8));
    let names = named(&[(0, &[1], 1)]);
    let other = wrong(Serving { block_tokens: 32, ..job() }, &names);
    assert!(other.to_string().contains("must be that of the requests' names, 16"), "{other}");
    let card = Card { family: Family::Gpt2, positions: 108, ..llama_8b() };
    assert_eq!(wrong(Serving { card, ..job() }, &one), ServingProblem::Positions(0, 109));
    let slow = |_: &GroupWork| None;
    assert_eq!(job().serve(&one, &slow), Err(ServingProblem::Overflow));
    // Too many blocks of one request, and of all together.
    let long = unnamed(&[(0, 1 << 30, 1)]);
    let room = Serving { kv_blocks: 1 << 31, ..job() };
    assert!(matches!(wrong(room, &long), ServingProblem::Rows(_)));
    let long = unnamed(&[(0, 1 << 20, 1000)]);
    assert!(matches!(wrong(job(), &long), ServingProblem::Rows(_)));
}

/// Prompts and answers of one token, one at a time, arriving at random: M/D/1.
#[test]
fn equal_requests_that_arrive_at_random_wait_as_pollaczek_and_khinchine_say() {
    let service = Span::from_us(1000);
    let one_at_a_time = Serving { max_batch: 1, max_tokens_per_step: 2, ..job() };
    for (load, gate) in [(0.3, 0.02), (0.7, 0.06)] {
        let (mut draws, mut at) = (SplitMix::new(11), 0.0);
        let mut requests = ServingRequests::new(None);
        for _ in 0..20_000 {
            let uniform = ((draws.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            at += -uniform.ln() * service.ps() as f64 / load;
            requests.push(Time::from_ps(at as u64), 1, 1, &[]).expect("a request");
        }
        let served = one_at_a_time.serve(&requests, &|_| Some(service)).expect("served");
        let mut now = Time::ZERO;
        let mut total = 0u128;
        for course in &served.plan.requests {
            let start = now.max(course.arrival);
            now = start + service;
            assert_eq!(served.trace.ops[course.first.index() - 1].release, Some(course.arrival));
            total += u128::from(now.since(course.arrival).ps());
        }
        assert_eq!(served.plan.estimate, now, "one after the other");
        let found = total as f64 / 20_000.0 / service.ps() as f64;
        let theory = 1.0 + load / (2.0 * (1.0 - load));
        assert!((found / theory - 1.0).abs() <= gate, "load {load}: {found}, in theory {theory}");
    }
}

/// However layers are grouped, what is behind the window of some goes while others keep it.
#[test]
fn keys_and_values_behind_a_window_go_in_any_grouping() {
    let card = Card {
        family: Family::Gemma3,
        layers: 6,
        window: Some(32),
        full_attention_every: Some(3),
        ..llama_8b()
    };
    let requests = unnamed(&[(0, 900, 40), (0, 500, 60)]);
    let most = |card: &Card, layer_groups: u32| {
        let (card, max_tokens_per_step) = (card.clone(), 16);
        let job = Serving { card, layer_groups, max_tokens_per_step, ..job() };
        let trace = served(&job, &requests).trace;
        assert_eq!(trace.problems(), []);
        most_alive(&trace, |object| match object.kind {
            ObjectKind::Kv => object.bytes.get(),
            _ => 0,
        })
    };
    let whole = Card { window: None, full_attention_every: None, ..card.clone() };
    let [all, one] = [&whole, &card].map(|card| most(card, 1));
    // Two layers of six keep all; the others, while a prompt is worked on, at most that and a window.
    assert!(one < all && 3 * one >= all, "{one} of {all}");
    for layer_groups in [2, 3, 6] {
        let of = most(&card, layer_groups);
        // An op of one group frees what later ops of its iteration still hold of others.
        assert!(of <= one && 10 * of >= 9 * one, "{layer_groups}: {of}, {one}");
    }
}
