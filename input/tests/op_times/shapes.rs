//! What the shipped formulas promise of every shape: more work takes no less time, large work
//! tends to the rates, and nothing is negative or without end.

use crate::op_times::{DEVICES, shipped};
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::kernel::{Attention, Kernel, Product, Streaming, Work};
use tiersim_models::op_times::experts::{Deal, ExpertTimes, Layer, Spread, loads};
use tiersim_models::op_times::{AttentionKernel, OpTimes, Throttle};
use tiersim_models::units::Bytes;

const KINDS: [CollectiveKind; 4] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
];

/// From 1 to 10^9.
const SIZES: [u64; 4] = [1, 1000, 1_000_000, 1_000_000_000];

fn all() -> impl Iterator<Item = OpTimes> {
    DEVICES.into_iter().map(|device| shipped(device).times)
}

fn product(times: &OpTimes, fp8: bool, m: u64, n: u64, k: u64) -> f64 {
    let (shape, wide) = (Product::new(m, n, k), times.products.unwrap().numbers);
    match times.fp8.filter(|_| fp8) {
        Some(of) => of.numbers.seconds(&wide, times.processors, &shape, 0.0),
        None => wide.seconds(times.processors, &shape, Throttle::NONE, 0.0),
    }
}

/// Batch, new and past tokens, heads, KV heads, head size, window, bytes.
fn attention(times: &OpTimes, shape: [u64; 8], warm: bool) -> f64 {
    let [batch, new, past] = [shape[0], shape[1], shape[2]];
    let [heads, kv_heads, head_dim, window, kv_bytes] =
        [3, 4, 5, 6, 7].map(|at: usize| shape[at] as u32);
    let op =
        Attention { batch, new, past, heads, kv_heads, head_dim, window, kv_bytes, causal: true };
    times.attention.unwrap().numbers.seconds(times.processors, &op, warm)
}

fn experts(times: &OpTimes) -> Vec<ExpertTimes> {
    let all =
        [times.experts, times.experts_fp8, times.experts_few, times.experts_few_fp8].into_iter();
    all.flatten().map(|of| of.numbers).collect()
}

/// Tokens, hidden, width of an expert, experts of a token and of the layer, expert parallel.
fn layer([tokens, hidden, ffn, top_k, experts, expert_parallel]: [u64; 6]) -> Layer {
    Layer { tokens, hidden, ffn, gated: true, top_k, experts, expert_parallel }
}

fn law(inverse: u32) -> Spread {
    Spread::PowerLaw { inverse }
}

fn collective(times: &OpTimes, kind: CollectiveKind, bytes: u64, ranks: u32, adds: bool) -> f64 {
    let op = Collective::within(kind, Bytes::new(bytes), ranks);
    op.measured(&times.collectives.unwrap().numbers, adds).unwrap()
}

/// Of products whose rows are no better aligned than those of the smaller one: only odd rows cost
/// more than the numbers that they hold.
#[test]
fn larger_products_take_no_less_time() {
    #[rustfmt::skip]
    let sizes = [
        1, 7, 16, 17, 63, 64, 65, 100, 128, 129, 256, 257, 500, 1024, 1025, 1280, 1281, 5000, 16384,
        1 << 20,
    ];
    for times in all() {
        for fp8 in [false, true] {
            let seconds = |[m, n, k]: [u64; 3]| product(&times, fp8, m, n, k);
            let alignment = |[m, n, k]: [u64; 3]| Product::new(m, n, k).alignment(2);
            let no_less = |less: [u64; 3], more: [u64; 3]| {
                if (fp8 && times.fp8.is_some()) || alignment(less) >= alignment(more) {
                    assert!(seconds(less) <= seconds(more), "{less:?} {more:?}");
                }
            };
            for &a in &sizes {
                for &b in &sizes {
                    for (at, &d) in sizes.iter().enumerate() {
                        for &c in &sizes[..at] {
                            no_less([c, a, b], [d, a, b]);
                            no_less([a, c, b], [a, d, b]);
                            no_less([a, b, c], [a, b, d]);
                        }
                        let odd = [d, a, b].map(|side| side.max(8));
                        no_less(odd.map(|side| side & !7), odd);
                    }
                }
            }
        }
    }
}

#[test]
fn large_products_tend_to_the_rates() {
    for times in all() {
        let numbers = times.products.unwrap().numbers;
        // The best tile is a little slower than the rate, since its loads do not hide in full.
        let ratio =
            product(&times, false, 1_000_000, 1_000_000, 1_000_000) / (2e18 / numbers.flops);
        assert!((1.0..1.06).contains(&ratio), "{ratio}");
        let bytes = 2.0 * (1e10 + 2e5) / numbers.memory;
        let ratio = product(&times, false, 1, 100_000, 100_000) / bytes;
        assert!((1.0..1.06).contains(&ratio), "{ratio}");
    }
}

#[test]
fn more_attention_takes_no_less_time() {
    let sizes = [1, 2, 7, 16, 64, 100, 128, 129, 300, 512, 1000, 2048, 5000, 16384];
    // Ten rounded operations may stand in another order.
    let small = 1.0 - 1e-12;
    for times in all() {
        let family = times.attention.unwrap().numbers.family;
        let is_copied = |group: u64| family == 3.0 && [4, 8, 16].contains(&group);
        for (kv_heads, group) in [(1, 2), (1, 16), (4, 3), (8, 8)] {
            for (head_dim, window, kv_bytes) in [(64, 128, 2), (128, 0, 1), (256, 1024, 2)] {
                let of = |batch, new, past, heads| {
                    let shape = [batch, new, past, heads, kv_heads, head_dim, window, kv_bytes];
                    attention(&times, shape, false)
                };
                let t = |batch, new, past| of(batch, new, past, kv_heads * group);
                for (i, &b) in sizes.iter().enumerate() {
                    for pair in sizes.windows(2) {
                        let (c, d) = (pair[0], pair[1]);
                        assert!(t(d, b, 10) >= t(c, b, 10) * small, "batch {pair:?}, {b}");
                        assert!(t(b, d + 1, 10) >= t(b, c + 1, 10) * small, "new {pair:?}, {b}");
                        assert!(t(b, 1, d) >= t(b, 1, c) * small, "past {pair:?}, {b}");
                        assert!(t(3, b, d) >= t(3, b, c) * small, "past {pair:?}, {b}");
                    }
                    // More query heads for the same keys. Where FlashAttention 3 has a kernel for the
                    // larger group alone, the smaller one is the slower one, as it was measured.
                    let more = group + 1 + i as u64;
                    if is_copied(more) && !is_copied(group) {
                        continue;
                    }
                    let heads = [more, group].map(|group| kv_heads * group);
                    assert!(of(8, b, 512, heads[0]) >= of(8, b, 512, heads[1]) * small);
                }
            }
        }
    }
}

/// Seconds of attention that trains, forward and of the gradients, by each kernel with numbers.
fn trained(shape: [u64; 8]) -> Vec<f64> {
    let times = shipped("h100").times;
    let [batch, new, past] = [shape[0], shape[1], shape[2]];
    let [heads, kv_heads, head_dim, window] = [3, 4, 5, 6].map(|at: usize| shape[at] as u32);
    let causal = shape[7] == 1;
    let kv_bytes = 2;
    let op = Attention { batch, new, past, heads, kv_heads, head_dim, window, kv_bytes, causal };
    let of = |(kernel, work)| {
        times.attended(kernel, "bf16", &Kernel::new(work, 0, 0)).expect("it has numbers").0
    };
    let all = [AttentionKernel::FlashAttention2, AttentionKernel::Cudnn].map(|kernel| {
        [(kernel, Work::Attention(op)), (kernel, Work::AttentionBackward(op))].map(of)
    });
    all.concat()
}

#[test]
fn more_attention_that_trains_takes_no_less_time() {
    let sizes = [2, 7, 64, 127, 128, 129, 255, 256, 300, 1000, 2048, 5000, 16384, 100_000];
    for [head_dim, window, causal] in [[64, 0, 1], [128, 0, 0], [128, 1024, 1], [256, 0, 1]] {
        for pair in sizes.windows(2) {
            let grows = |of: &dyn Fn(u64) -> [u64; 8]| {
                for (less, more) in trained(of(pair[0])).into_iter().zip(trained(of(pair[1]))) {
                    assert!(more >= less * (1.0 - 1e-12), "{pair:?} {head_dim} {window} {causal}");
                }
            };
            grows(&|batch| [batch, 300, 0, 8, 8, head_dim, window, causal]);
            grows(&|new| [3, new, 0, 8, 8, head_dim, window, causal]);
            grows(&|past| [3, 300, past, 8, 8, head_dim, window, causal]);
            grows(&|heads| [3, 300, 0, heads, 1, head_dim, window, causal]);
        }
    }
    // All pairs are twice those of a causal one, and a causal one with a window has fewer.
    let long = |window, causal| trained([1, 65_536, 0, 32, 8, 128, window, causal]);
    for ((all, causal), near) in long(0, 0).into_iter().zip(long(0, 1)).zip(long(4096, 1)) {
        assert!((1.9..2.0).contains(&(all / causal)), "{all} {causal}");
        assert!((6.0..9.0).contains(&(causal / near)), "{causal} {near}");
    }
}

#[test]
fn much_attention_tends_to_the_rates() {
    for times in all() {
        let numbers = times.attention.unwrap().numbers;
        // A long prompt: FLOPs over the rate, slowed by the softmax beside them.
        let pairs = 1e12 / 2.0 * 64.0;
        let roof = (4.0 * 128.0 * pairs / numbers.flops).max(pairs / numbers.scores);
        let ratio = attention(&times, [1, 1_000_000, 0, 64, 8, 128, 0, 2], false) / roof;
        assert!(ratio > 1.0 && ratio < 1.2, "{ratio}");
        // Many single tokens where 8 query heads share keys: bytes over the rate of memory.
        let roof = 4096.0 * 1e5 * 8.0 * 2.0 * 128.0 * 2.0 / numbers.decode_memory;
        let ratio = attention(&times, [4096, 1, 99_999, 64, 8, 128, 0, 2], false) / roof;
        assert!(ratio > 1.0 && ratio < 1.25, "{ratio}");
    }
}

#[test]
fn keys_of_every_query_head_are_not_split_on_an_a100() {
    let times = shipped("a100").times;
    let long = |heads| attention(&times, [1, 1, 65_535, heads, 8, 128, 0, 2], false);
    assert!(long(8) > 5.0 * long(16));
}

#[test]
fn more_for_experts_takes_no_less_time() {
    let tokens = [1, 2, 5, 16, 64, 100, 256, 1000, 1024, 4096, 30_000, 1 << 20];
    let sizes = [256, 1024, 4096, 16_384];
    for times in all() {
        for numbers in experts(&times) {
            let seconds = |shape: [u64; 6], spread| {
                let of = layer(shape);
                numbers.of_loads(times.on(), &of, &loads(&of, spread, Deal::Level))
            };
            for pair in tokens.windows(2) {
                for h in sizes {
                    for ep in [1, 8] {
                        let time = |t| seconds([t, h, 1024, 8, 64, ep], Spread::Balanced);
                        assert!(time(pair[0]) <= time(pair[1]), "{numbers:?} {pair:?} {h} {ep}");
                    }
                }
            }
            for pair in sizes.windows(2) {
                for t in tokens {
                    for spread in [Spread::Balanced, law(5), law(100)] {
                        let at = |h, i| seconds([t, h, i, 8, 64, 2], spread);
                        assert!(at(pair[0], 1024) <= at(pair[1], 1024), "{pair:?} {t}");
                        assert!(at(1024, pair[0]) <= at(1024, pair[1]), "{pair:?} {t}");
                    }
                }
            }
        }
    }
}

/// A100's kernel has tables of tiles for some numbers of experts and widths.
#[test]
fn experts_with_tuned_tiles_take_no_more_time_than_slightly_narrower_ones_without() {
    let times = shipped("a100").times;
    let numbers = times.experts.unwrap().numbers;
    let seconds = |tokens, ffn| {
        let of = layer([tokens, 4096, ffn, 2, 8, 1]);
        numbers.of_loads(times.on(), &of, &loads(&of, law(5), Deal::Packed))
    };
    assert!(times.tuned_experts.contains(&(8, 3584)));
    for tokens in [64, 1024, 16_384] {
        let ratio = seconds(tokens, 3568) / seconds(tokens, 3584);
        assert!((1.1..2.5).contains(&ratio), "{tokens}: {ratio}");
    }
}

#[test]
fn large_experts_tend_to_the_rates() {
    for times in all() {
        for numbers in experts(&times) {
            let seconds = |of: Layer| {
                numbers.of_loads(times.on(), &of, &loads(&of, Spread::Balanced, Deal::Level))
            };
            // None of them has tuned tiles.
            let rate = numbers.flops * numbers.untuned * numbers.spilled;
            let flops = 6.0 * 33_554_432.0 * 65_536.0 * 65_536.0 / rate;
            let ratio = seconds(layer([1 << 24, 1 << 16, 1 << 16, 2, 8, 1])) / flops;
            // The best tile is slower than the rate where loads do not hide in full.
            assert!((1.0..1.25).contains(&ratio), "{numbers:?} {ratio}");
            let bytes = numbers.width * 8.0 * 3.0 * 65_536.0 * 65_536.0 / numbers.memory;
            let ratio = seconds(layer([1, 1 << 16, 1 << 16, 8, 8, 1])) / bytes;
            assert!((1.0..2.0).contains(&ratio), "{numbers:?} {ratio}");
        }
    }
}

#[test]
fn more_bytes_of_a_collective_take_no_less_time() {
    let sizes = || (0..31).flat_map(|power| (8..16).map(move |eighths| (eighths << power) >> 3));
    for times in all() {
        for kind in KINDS {
            for ranks in (2..73).chain([1 << 10, 1_000_000_000]) {
                for adds in [false, true] {
                    let mut before = 0.0;
                    for bytes in sizes() {
                        let seconds = collective(&times, kind, bytes, ranks, adds);
                        assert!(seconds.is_finite() && seconds > 0.0);
                        assert!(seconds >= before, "{kind:?} {ranks} {bytes}");
                        before = seconds;
                    }
                }
            }
        }
    }
}

#[test]
fn much_data_moves_at_its_share_of_the_link() {
    for times in all() {
        let numbers = times.collectives.unwrap().numbers;
        for ranks in [2, 4, 8, 64] {
            let chunk = (1u64 << 50) as f64 / f64::from(ranks);
            let others = f64::from(ranks) - 1.0;
            for (kind, sent, share) in [
                (KINDS[0], others + numbers.tail, numbers.share),
                (KINDS[1], others + numbers.tail, numbers.share),
                (KINDS[2], 2.0 * others + numbers.tail, numbers.share),
                (KINDS[3], others + numbers.pairs_tail, numbers.pairs_share),
            ] {
                let ideal = sent * chunk / (share * numbers.link);
                let ratio = collective(&times, kind, 1 << 50, ranks, false) / ideal;
                assert!((ratio - 1.0).abs() < 1e-4, "{kind:?} {ranks} {ratio}");
            }
        }
        assert_eq!(collective(&times, KINDS[2], 1 << 20, 1, true), 0.0, "one device sends nothing");
    }
}

#[test]
fn streams_take_a_floor_and_then_their_rate() {
    for times in all() {
        let numbers = times.streaming.unwrap().numbers;
        for class in [
            Streaming::Norm,
            Streaming::Rotary,
            Streaming::Activation,
            Streaming::ElementWise,
            Streaming::Embedding,
            Streaming::Softmax,
            Streaming::Optimizer,
            Streaming::Copy,
        ] {
            let seconds = |bytes: f64| numbers.seconds(class, bytes, times.cache as f64);
            let mut before = 0.0;
            for bytes in (0..50).flat_map(|power| [4u64 << power, 5 << power, 7 << power]) {
                let now = seconds(bytes as f64 / 4.0);
                assert!(now.is_finite() && now > 0.0 && now >= before, "{class:?} {bytes}");
                before = now;
            }
            let ratio = (seconds(4e15) - seconds(2e15)) / seconds(2e15);
            assert!((ratio - 1.0).abs() < 1e-6, "twice the bytes take twice as long: {ratio}");
        }
    }
}

#[test]
fn from_one_to_a_billion_all_is_finite_and_above_zero() {
    let sound = |seconds: f64, shape: &dyn std::fmt::Debug| {
        assert!(seconds.is_finite() && seconds > 0.0, "{shape:?}: {seconds}");
    };
    for times in all() {
        for bits in 0u32..256 {
            let shape = std::array::from_fn(|at| if bits >> at & 1 == 1 { SIZES[3] } else { 1 });
            sound(attention(&times, shape, true), &shape);
            trained([shape[0], shape[1].max(2), shape[2], shape[3], shape[4], shape[5], 0, 1])
                .into_iter()
                .for_each(|seconds| sound(seconds, &shape));
        }
        for m in SIZES {
            for n in SIZES {
                for k in SIZES {
                    sound(product(&times, false, m, n, k), &(m, n, k));
                    sound(product(&times, true, m, n, k), &(m, n, k));
                }
            }
        }
        for (spread, deal) in
            [(Spread::Balanced, Deal::Level), (law(5), Deal::Level), (law(100), Deal::Packed)]
        {
            for shape in SIZES.into_iter().flat_map(|t| SIZES.map(|h| (t, h))) {
                for (e, k) in [(1, 1), (7, 8), (512, 8), (SIZES[3], 1), (SIZES[3], SIZES[3])] {
                    let of = layer([shape.0, shape.1, shape.1, k, e, 5]);
                    let loads = loads(&of, spread, deal);
                    for numbers in experts(&times) {
                        sound(numbers.of_loads(times.on(), &of, &loads), &of);
                    }
                }
            }
        }
    }
}
