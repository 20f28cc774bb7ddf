//! What holds for any numbers: how kinds are told apart, and how numbers scale. The shipped
//! numbers, and what formulas promise with them, are tested where their files are read.

use super::*;
use crate::kernel::{Attention, Kernel, Product, Streaming};
use experts::{Deal, Layer, Spread, loads};

const STEP: Around = Around::Step(Throttle::FULL);

/// Numbers of which every one is as simple as can be.
fn plain() -> OpTimes {
    fn of<T: Numbers + Default>() -> Option<Fitted<T>> {
        let mut numbers = T::default();
        numbers.each(&mut |_, dimension, number| {
            *number = match dimension {
                Dimension::Time => 1e-6,
                Dimension::Flops => 1e14,
                Dimension::Memory => 1e12,
                Dimension::Local => 1e11,
                Dimension::Fixed | Dimension::Stated => 1e11,
                _ => 1.0,
            };
        });
        Some(Fitted { numbers, inherited: false })
    }
    let mut times = OpTimes {
        name: "plain".into(),
        processors: 100,
        cache: 1 << 25,
        products: of(),
        fp8: of(),
        attention: of(),
        flash_attention_2: of(),
        cudnn: None,
        experts: of(),
        experts_fp8: of(),
        tuned_experts: Vec::new(),
        experts_few: None,
        experts_few_fp8: of(),
        streaming: of(),
        unfused: of(),
        collectives: of(),
    };
    times.products.as_mut().unwrap().numbers.overlap = 2.0;
    times
}

const ONE: Ratios = Ratios { flops: 1.0, fp8: 1.0, memory: 1.0, processors: 1.0 };

fn product(m: u64, n: u64, k: u64) -> Kernel {
    let shape = Product::new(m, n, k);
    let bytes = 2 * (m * k + n * k + m * n);
    Kernel::new(Work::Product(shape), shape.flops(), bytes.into())
}

fn attention(new: u64) -> Kernel {
    let of = Attention {
        batch: 2,
        new,
        past: 100,
        heads: 8,
        kv_heads: 2,
        head_dim: 64,
        window: 0,
        kv_bytes: 2,
        causal: true,
    };
    Kernel::new(Work::Attention(of), of.flops(), 1 << 20)
}

fn stream(bytes: u128) -> Kernel {
    Kernel::new(Work::Streaming(Streaming::Copy), 0, bytes)
}

fn unfused(class: Streaming, bytes: u128) -> Kernel {
    Kernel::new(Work::Streaming(class), 0, bytes)
}

fn seconds(times: &OpTimes, precision: &str, kernel: &Kernel) -> f64 {
    times.seconds(precision, kernel, STEP).unwrap().0
}

#[test]
fn ratios_of_one_change_no_number() {
    let (mut before, mut after) = (plain(), plain().scaled(ONE));
    for name in ["products", "fp8", "attention", "experts", "streaming", "unfused", "collectives"] {
        let all = |times: &mut OpTimes| {
            let mut found = Vec::new();
            let (numbers, inherited) = times.section(name).unwrap();
            numbers.each(&mut |name, _, number| found.push((name, *number)));
            (found, *inherited)
        };
        let (before, after) = (all(&mut before), all(&mut after));
        assert_eq!(before.0, after.0);
        assert_eq!((before.1, after.1), (false, true), "they are another device's");
    }
    assert_eq!(after.experts_few, None);
    assert!(plain().section("qqqq").is_none());
}

#[test]
fn twice_the_rates_halve_what_is_bound_by_them() {
    let twice = Ratios { flops: 2.0, fp8: 2.0, memory: 2.0, processors: 1.0 };
    let (one, two) = (plain(), plain().scaled(twice));
    let (large, long) = (1 << 20, 1u128 << 40);
    for (precision, kernel) in [
        ("bf16", product(large, large, large)),
        ("fp16", product(1, large, large)),
        ("fp8", product(large, large, large)),
        ("bf16", attention(1 << 22)),
        ("bf16", stream(long)),
        ("bf16", unfused(Streaming::Vectorized, long)),
        ("bf16", unfused(Streaming::Softmax, long)),
    ] {
        let ratio = seconds(&one, precision, &kernel) / seconds(&two, precision, &kernel);
        assert!((ratio - 2.0).abs() < 0.01, "{kernel}: {ratio}");
    }
    // What is bound by starts is as it was.
    let ratio = seconds(&one, "bf16", &stream(1)) / seconds(&two, "bf16", &stream(1));
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    // A link is stated for itself.
    assert_eq!(one.collectives.unwrap().numbers, two.collectives.unwrap().numbers);
}

#[test]
fn a_processor_that_computes_faster_loads_faster_and_one_that_is_slower_as_fast() {
    let of = |flops, processors| {
        let ratios = Ratios { flops, processors, ..ONE };
        plain().scaled(ratios).products.unwrap().numbers.fill
    };
    assert_eq!([of(1.0, 1.0), of(2.0, 1.0), of(2.0, 2.0), of(1.0, 2.0)], [1e11, 2e11, 1e11, 1e11]);
    // Products in 8 bits have a ratio of their own.
    let scaled = plain().scaled(Ratios { fp8: 3.0, ..ONE });
    assert_eq!(scaled.fp8.unwrap().numbers.flops, 3e14);
    assert_eq!(scaled.experts_fp8.unwrap().numbers.flops, 3e14);
    assert_eq!(scaled.products.unwrap().numbers.flops, 1e14);
}

#[test]
fn of_a_tile_only_the_rows_that_are_there_are_multiplied() {
    // Of a device that hardly multiplies nothing else is felt.
    let slow = plain().scaled(Ratios { flops: 1e-4, ..ONE });
    let of = |rows| seconds(&slow, "bf16", &product(rows, 4096, 4096));
    assert!((of(16) / of(1) - 1.0).abs() < 0.01, "one instruction");
    assert!((of(64) / of(16) - 4.0).abs() < 0.04, "four");
}

#[test]
fn small_weights_of_a_step_stay_in_16_bits() {
    let times = plain();
    let of = |precision: &str, shape: Product| {
        seconds(&times, precision, &Kernel::new(Work::Product(shape), shape.flops(), 0))
    };
    let gradient = |m, n, k| Product { transposed: true, ..Product::new(m, n, k) };
    for small in [Product::new(512, 32, 4096), Product::new(512, 4096, 32), gradient(32, 512, 512)]
    {
        assert_eq!(of("fp8", small), of("bf16", small), "{small:?}");
    }
    for large in [Product::new(32, 512, 4096), gradient(128, 512, 512)] {
        assert_ne!(of("fp8", large), of("bf16", large), "{large:?}");
    }
    // A measurement of single operators is of what it says.
    let kernel = product(512, 32, 4096);
    let alone = |precision: &str| times.seconds(precision, &kernel, Around::Itself).unwrap().0;
    assert_ne!(alone("fp8"), alone("bf16"));
}

#[test]
fn narrow_weights_are_loaded_narrow() {
    // Processors that hardly load: nothing else is felt.
    let mut slow = plain();
    slow.products.as_mut().unwrap().numbers.fill = 1e3;
    let (columns, k) = (64, 1 << 14);
    let wide = product(1, columns, k);
    let narrow = Kernel { bytes: Bytes::new(2 * (k + columns) + columns * k / 2), ..wide };
    // A tile's 64 rows of two bytes and its 64 columns of two bytes or of half a byte.
    let ratio = seconds(&slow, "bf16", &narrow) / seconds(&slow, "bf16", &wide);
    assert!((ratio - 2.5 / 4.0).abs() < 1e-3, "{ratio}");
}

/// Scores of attention that are kept in 8 bits are an input: what they save is more than a matrix of
/// values has in all.
#[test]
fn an_input_that_is_kept_narrow_is_no_narrow_weight() {
    let times = plain();
    let (m, n, k) = (8192 * 25, 64, 1024);
    let whole = product(m, n, k);
    let kept = Kernel { bytes: Bytes::new(whole.bytes.get() - m * k), ..whole };
    assert_eq!(seconds(&times, "bf16", &kept), seconds(&times, "bf16", &whole));
}

#[test]
fn precisions_without_numbers_are_left_to_the_roofline() {
    let times = plain();
    for precision in ["fp32", "tf32", "int8"] {
        assert_eq!(times.seconds(precision, &product(1, 2, 3), STEP), None);
        assert_eq!(times.seconds(precision, &attention(1), STEP), None);
    }
    assert!(times.seconds("fp32", &stream(1), STEP).is_some(), "bytes have no precision");
    assert_eq!(OpTimes::default().seconds("bf16", &product(1, 2, 3), STEP), None);
    let without = OpTimes { fp8: None, ..plain() };
    assert_eq!(without.seconds("fp8", &product(1, 256, 256), STEP), None);
}

#[test]
fn a_product_in_8_bits_is_known_as_badly_as_the_worse_of_its_numbers() {
    let by = |wide: bool, narrow: bool| {
        let mut times = plain();
        times.products.as_mut().unwrap().inherited = wide;
        times.fp8.as_mut().unwrap().inherited = narrow;
        times.seconds("fp8", &product(8, 256, 256), STEP).unwrap().1
    };
    assert_eq!(by(false, false), PricedBy::Measurement);
    assert_eq!(by(true, false), PricedBy::Inheritance);
    assert_eq!(by(false, true), PricedBy::Inheritance);
}

#[test]
fn a_token_of_few_experts_takes_their_own_numbers_where_there_are_any() {
    let mut times = plain();
    times.experts_few_fp8.as_mut().unwrap().numbers.launch = 9.0;
    let launch = |fp8, top_k| times.experts_of(fp8, top_k).unwrap().numbers.launch;
    assert_eq!([launch(true, 1), launch(true, 2), launch(true, 3)], [9.0, 9.0, 1e-6]);
    assert_eq!([launch(false, 1), launch(false, 8)], [1e-6, 1e-6]);
}

#[test]
fn gradients_of_attention_take_three_times_what_it_takes() {
    let times = plain();
    let Work::Attention(shape) = attention(64).work else { panic!("it is attention") };
    let backward = Kernel::new(Work::AttentionBackward(shape), 0, 0);
    let (seconds, by) = times.seconds("bf16", &backward, STEP).unwrap();
    let forward = times.seconds("bf16", &attention(64), STEP).unwrap();
    assert_eq!((seconds, by), (3.0 * forward.0, PricedBy::Inheritance));
    assert_eq!(forward.1, PricedBy::Measurement);
}

/// 100 processors of 1e9 B/s each go element by element, memory of 1e12 by vectors.
#[test]
fn elements_one_by_one_hold_the_processors_back_and_never_go_quicker_than_vectors() {
    let mut times = plain();
    times.unfused.as_mut().unwrap().numbers.strided_rate = 1e9;
    let of = |times: &OpTimes, class| seconds(times, "bf16", &unfused(class, 1_000_000_000));
    let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found}");
    near(of(&times, Streaming::Strided), 1e-6 + 1e9 / 1e11);
    near(of(&times, Streaming::Vectorized), 1e-6 + 1e9 / 1e12);
    times.unfused.as_mut().unwrap().numbers.strided_rate = 1e11;
    near(of(&times, Streaming::Strided), 1e-6 + 1e9 / 1e12);
    // Without numbers of their own they count with kinds of fused kernels; these keep theirs.
    times.unfused = None;
    assert_eq!(of(&times, Streaming::Strided), of(&times, Streaming::ElementWise));
    assert_eq!(of(&times, Streaming::LayerNorm), of(&times, Streaming::Norm));
}

#[test]
fn norms_do_not_overflow() {
    for norm in [norm_2, norm_4] {
        assert_eq!([norm(0.0, 0.0), norm(3.0, 0.0), norm(0.0, 3.0)], [0.0, 3.0, 3.0]);
        assert!(norm(1e300, 1e300).is_finite());
        assert_eq!(norm(f64::INFINITY, 1.0), f64::INFINITY);
    }
    assert_eq!(norm_2(3.0, 4.0), 5.0);
    assert!((norm_4(2.0, 2.0) - 2.0 * 2f64.powf(0.25)).abs() < 1e-15);
}

/// By hand, of a generator of the measurements.
#[test]
fn loads_follow_the_laws() {
    let of = |[tokens, top_k, experts, expert_parallel]: [u64; 4], spread| -> Vec<u64> {
        let layer =
            Layer { tokens, hidden: 1, ffn: 1, gated: true, top_k, experts, expert_parallel };
        loads(&layer, spread, Deal::Level)
            .iter()
            .flat_map(|load| vec![load.0; load.1 as usize])
            .collect()
    };
    let level = |inverse| Spread::PowerLaw { inverse };
    assert_eq!(of([2, 2, 8, 1], Spread::Balanced), [1; 4]);
    assert_eq!(of([100, 2, 8, 1], level(100)), [86, 49, 28, 16, 9, 5, 4, 3]);
    assert_eq!(of([16, 1, 16, 4], level(100)), [5, 2]);
    assert_eq!(of([1000, 2, 16, 4], level(5)), [949, 132, 15, 3]);
    assert_eq!(of([4, 8, 128, 1], level(5)).iter().sum::<u64>(), 32);
    // Older tables put the eight tokens that rounding lost on idle experts of one device.
    let layer = Layer {
        tokens: 4,
        hidden: 1,
        ffn: 1,
        gated: true,
        top_k: 8,
        experts: 128,
        expert_parallel: 8,
    };
    let packed = loads(&layer, level(5), Deal::Packed);
    assert_eq!(packed, [(2, 1), (1, 1), (1, 1), (1, 8)]);
    // Whatever rounding does, nothing is lost or invented, and no expert has a token twice.
    for (tokens, top_k, experts) in [(1, 1, 2), (3, 2, 8), (77, 6, 64), (5000, 8, 256), (9, 9, 9)] {
        for inverse in [1, 5, 100] {
            let dealt = of([tokens, top_k, experts, 1], level(inverse));
            assert_eq!(dealt.iter().sum::<u64>(), tokens * top_k, "{tokens} {top_k} {experts}");
            assert!(dealt.iter().all(|&load| load <= tokens), "{tokens} {top_k} {experts}");
        }
    }
}

#[test]
fn weights_that_are_stored_narrower_are_read_as_they_are_stored() {
    let mut times = plain();
    // Memory alone holds them back.
    let of = times.products.as_mut().unwrap();
    (of.numbers.fill, of.numbers.flops, of.numbers.store) = (1e15, 1e18, 1e15);
    let of = times.fp8.as_mut().unwrap();
    (of.numbers.fill, of.numbers.flops, of.numbers.busy) = (1e15, 1e18, 1.0);
    let of = times.experts.as_mut().unwrap();
    (of.numbers.fill, of.numbers.flops) = (1e15, 1e18);
    (of.numbers.width, of.numbers.tile, of.numbers.rows) = (2.0, 0.0, 1e15);
    let (m, n, k) = (1, 4096, 4096);
    let of = |weights: u64| {
        let bytes = 2 * (m * k + m * n) + weights;
        Kernel { bytes: Bytes::new(bytes), ..product(m, n, k) }
    };
    let at = |precision, kernel: &Kernel| seconds(&times, precision, kernel);
    // The launch is a microsecond and memory has 10^12 bytes a second; the rest hides behind it.
    let [whole, bytes, half] = [2, 1, 0].map(|width| match width {
        0 => of(n * k / 2),
        width => of(width * n * k),
    });
    assert_eq!(at("bf16", &whole), at("bf16", &product(m, n, k)));
    let read = |kernel: &Kernel| at("bf16", kernel) - 1e-6;
    assert!(read(&bytes) < 0.6 * read(&whole) && read(&half) < 0.4 * read(&whole));
    assert!(at("fp8", &half) < at("fp8", &bytes));
    // Twice as wide are all three, or none.
    let wide = |wide: u64| Kernel { bytes: Bytes::new(wide), ..product(m, n, k) };
    let doubled = at("bf16", &wide(4 * (m * k + m * n + n * k))) - 1e-6;
    assert!(doubled > 1.9 * read(&whole), "{doubled}");
    assert_eq!(at("bf16", &wide(2 * (m * k + n * k) + 4 * m * n)), at("bf16", &whole));
    assert!(at("fp8", &whole) > at("fp8", &bytes));
    let nothing = Kernel { bytes: Bytes::ZERO, ..product(m, n, k) };
    assert_eq!(at("bf16", &nothing), at("bf16", &whole));
    let experts = |width: f64| {
        let [tokens, hidden, ffn, given] = [8, 2048, 768, 16];
        let of = crate::kernel::Experts {
            tokens,
            hidden,
            ffn,
            top_k: 2,
            experts: 32,
            given,
            busy: 16,
            most: 1,
        };
        let others = 4 * tokens * hidden + 2 * given * ffn + 4 * tokens * 32;
        let weights = width * (3 * hidden * ffn * 16) as f64;
        Kernel::new(Work::Experts(of), 0, u128::from(others) + weights as u128)
    };
    let [whole, packed] = [2.0, 0.53125].map(|width| at("bf16", &experts(width)));
    assert!(packed < 0.5 * whole, "{packed} {whole}");
}
