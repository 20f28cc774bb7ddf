//! What the shipped numbers say, against the scripts that fitted them: the same formulas in another
//! language, with the numbers as the files have them.

use crate::op_times::shipped;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::kernel::{Attention, Kernel, Product, Streaming, Work};
use tiersim_models::op_times::experts::{Deal, Layer, Spread, loads};
use tiersim_models::op_times::{AttentionKernel, PricedBy, Throttle};
use tiersim_models::units::Bytes;

const BILLION: u64 = 1_000_000_000;

fn near(got: f64, want: f64, what: &dyn std::fmt::Debug) {
    assert!((got / want - 1.0).abs() < 1e-9, "{what:?}: {got:e} and not {want:e}");
}

#[test]
fn products() {
    #[rustfmt::skip]
    let values = [
        ("a100", "bf16", [1, 4096, 4096], 2.8806982299e-5),
        ("a100", "bf16", [300, 6144, 4096], 9.4422753812e-5),
        ("a100", "bf16", [8192, 28672, 4096], 7.0434812154e-3),
        ("a100", "bf16", [17, 32, 65536], 1.6616200644e-5),
        ("h100", "bf16", [1, 128, 128], 2.8279138515e-6),
        ("h100", "bf16", [64, 4096, 14336], 4.4714211431e-5),
        ("h100", "bf16", [2049, 8192, 8192], 3.4849158229e-4),
        ("h100", "fp8", [33, 7168, 2048], 1.0623893031e-5),
        ("h100", "fp8", [16, 1280, 8192], 1.1512742141e-5),
        ("h100", "fp8", [16384, 4096, 512], 1.9673438675e-4),
        ("b200", "bf16", [1, 1, 1], 2.0471098485e-6),
        ("b200", "bf16", [513, 1024, 8192], 1.2256487562e-5),
        ("b200", "bf16", [32768, 65536, 512], 1.5612971115e-3),
        ("b200", "fp8", [129, 18432, 7168], 3.4513724474e-5),
        ("b200", "fp8", [BILLION, BILLION, BILLION], 5.1916188807e11),
    ];
    for (device, precision, [m, n, k], want) in values {
        let times = shipped(device).times;
        let (shape, wide) = (Product::new(m, n, k), times.products.unwrap().numbers);
        let got = match precision {
            "fp8" => times.fp8.unwrap().numbers.seconds(&wide, times.processors, &shape, 0.0),
            _ => wide.seconds(times.processors, &shape, Throttle::NONE, 0.0),
        };
        near(got, want, &(device, precision, shape));
    }
    // Weights of half a byte a number.
    let times = shipped("a100").times;
    let (shape, saved) = (Product::new(1, 4096, 4096), 1.5 * 4096.0 * 4096.0);
    let narrow =
        times.products.unwrap().numbers.seconds(times.processors, &shape, Throttle::NONE, saved);
    near(narrow, 1.3646391353e-5, &"narrow");
}

#[test]
fn attention() {
    // Batch, new and past tokens, heads, KV heads, head size, window, bytes; whether keys may lie
    // in the last cache from before.
    #[rustfmt::skip]
    let values = [
        ("a100", [1, 128, 0, 1, 1, 128, 0, 2], true, 1.2664351762e-5),
        ("a100", [16, 1024, 0, 32, 8, 128, 0, 2], true, 1.1778795094e-3),
        ("a100", [1, 1, 131071, 8, 8, 128, 0, 2], true, 3.0127086721e-3),
        ("a100", [64, 1, 2047, 32, 8, 128, 0, 2], true, 3.8311384609e-4),
        ("a100", [2, 1, 8191, 32, 1, 128, 1024, 1], true, 3.3424097243e-5),
        ("h100", [1, 4096, 0, 1, 1, 128, 0, 2], true, 3.4476624966e-5),
        ("h100", [4, 2048, 6144, 64, 8, 64, 128, 1], true, 2.1355244884e-4),
        ("h100", [256, 64, 0, 40, 8, 192, 0, 2], true, 4.7576986386e-4),
        ("h100", [32, 1, 4095, 32, 8, 128, 0, 2], true, 1.9593394049e-4),
        ("h100", [1, 1, 2047, 32, 8, 128, 0, 2], true, 1.4765758667e-5),
        ("h100", [1, 1, 2047, 32, 8, 128, 0, 2], false, 1.5062208048e-5),
        ("h100", [1, 1, 65535, 8, 1, 64, 128, 1], true, 1.3395773081e-5),
        ("h100", [512, 1, 511, 96, 8, 256, 1024, 1], true, 5.6855146161e-4),
        ("h100", [8, 1024, 0, 24, 8, 128, 0, 2], true, 2.0022738645e-4),
        ("h100", [992, 1, 511, 32, 8, 128, 0, 2], true, 7.7176972664e-4),
        ("h100", [1024, 1, 511, 32, 8, 128, 0, 2], true, 7.7782134612e-4),
        ("b200", [1, 16384, 0, 8, 1, 128, 0, 2], true, 5.2328408487e-4),
        ("b200", [8, 3000, 100, 12, 4, 256, 1024, 1], true, 4.0262549652e-4),
        ("b200", [4, 1, 32767, 32, 1, 128, 0, 2], true, 2.0844856560e-5),
        ("b200", [64, 256, 0, 48, 48, 64, 0, 1], true, 4.7136356692e-4),
        ("b200", [128, 1, 16383, 64, 64, 64, 8192, 1], true, 1.5184696821e-3),
        ("b200", [BILLION, BILLION, 0, 64, 8, 128, 0, 2], true, 1.1874349531e16),
    ];
    for (device, shape, warm, want) in values {
        let [batch, new, past] = [shape[0], shape[1], shape[2]];
        let [heads, kv_heads, head_dim, window, kv_bytes] =
            [3, 4, 5, 6, 7].map(|at: usize| shape[at] as u32);
        let op = Attention {
            batch,
            new,
            past,
            heads,
            kv_heads,
            head_dim,
            window,
            kv_bytes,
            causal: true,
        };
        let times = shipped(device).times;
        let got = times.attention.unwrap().numbers.seconds(times.processors, &op, warm);
        near(got, want, &(device, op, warm));
    }
}

/// Forward and gradients, by numbers of an H100.
#[test]
fn attention_that_trains() {
    const FLASH: AttentionKernel = AttentionKernel::FlashAttention2;
    const CUDNN: AttentionKernel = AttentionKernel::Cudnn;
    // Sequences, new and past tokens, heads, KV heads, size of a head, window; whether it is causal.
    #[rustfmt::skip]
    let values = [
        (FLASH, [2, 1024, 0, 12, 12, 64, 0], true, [3.5825165998e-5, 8.3644886849e-5]),
        (FLASH, [1, 16384, 0, 32, 8, 128, 0], true, [6.6801641306e-3, 1.9142721014e-2]),
        (FLASH, [4, 8192, 8192, 64, 8, 128, 0], false, [5.0011674296e-2, 1.4763131014e-1]),
        (FLASH, [1, 32768, 0, 16, 8, 256, 1024], true, [1.9095283240e-3, 6.0034674110e-3]),
        (FLASH, [3, 300, 0, 5, 5, 80, 0], true, [1.5874710155e-5, 3.6652426962e-5]),
        (CUDNN, [2, 1024, 0, 12, 12, 64, 0], true, [2.1476516592e-5, 5.4067689066e-5]),
        (CUDNN, [1, 16384, 0, 32, 8, 128, 0], true, [3.4617417806e-3, 1.0997318512e-2]),
        (CUDNN, [4, 8192, 8192, 64, 8, 128, 0], false, [2.5800774100e-2, 8.4887327863e-2]),
        (CUDNN, [1, 32768, 0, 16, 8, 256, 1024], true, [1.0164241343e-3, 3.2937442462e-3]),
        (CUDNN, [3, 300, 0, 5, 5, 80, 0], true, [1.1494383955e-5, 2.4320783709e-5]),
    ];
    let times = shipped("h100").times;
    for (kernel, shape, causal, want) in values {
        let [batch, new, past] = [shape[0], shape[1], shape[2]];
        let [heads, kv_heads, head_dim, window] = [3, 4, 5, 6].map(|at: usize| shape[at] as u32);
        let kv_bytes = 2;
        let op =
            Attention { batch, new, past, heads, kv_heads, head_dim, window, kv_bytes, causal };
        let of = |work| {
            let (seconds, by) = times.attended(kernel, "bf16", &Kernel::new(work, 0, 0)).unwrap();
            assert_eq!(by, PricedBy::Measurement);
            seconds
        };
        near(of(Work::Attention(op)), want[0], &(kernel, op));
        near(of(Work::AttentionBackward(op)), want[1], &(kernel, op));
        // It is no kernel of single tokens, nor of a cache in 8 bits, nor of products.
        for work in [
            Work::Attention(Attention { new: 1, ..op }),
            Work::Attention(Attention { kv_bytes: 1, ..op }),
            Work::Product(Product::new(256, 256, 256)),
        ] {
            assert_eq!(times.attended(kernel, "bf16", &Kernel::new(work, 0, 0)), None);
        }
        let one = Kernel::new(Work::Attention(op), 0, 0);
        assert_eq!(times.attended(AttentionKernel::FlashAttention3, "bf16", &one), None);
        assert_eq!(times.attended(kernel, "fp32", &one), None);
    }
}

/// What a device has numbers for: its engine's kernel by the name of its family, and others.
#[test]
fn kernels_of_attention_are_those_with_numbers() {
    let of = |device| shipped(device).times.attention_kernels().collect::<Vec<_>>();
    assert_eq!(of("a100"), [AttentionKernel::FlashAttention2]);
    assert_eq!(of("h100"), AttentionKernel::ALL);
    assert_eq!(of("b200"), []);
    let told = |device, kernel| shipped(device).times.without(kernel);
    assert_eq!(told("h100", AttentionKernel::Cudnn), None);
    let (rule, remedy) = told("a100", AttentionKernel::Cudnn).unwrap();
    assert_eq!(rule, "its op times have no numbers for cudnn");
    assert_eq!(remedy, "write flash_attention_2, or leave it out");
    let (_, remedy) = told("b200", AttentionKernel::Cudnn).unwrap();
    assert_eq!(remedy, "leave it out: they have one kind of attention");
}

#[test]
fn experts() {
    let even = (Spread::Balanced, Deal::Level);
    let level = |inverse| (Spread::PowerLaw { inverse }, Deal::Level);
    let packed = |inverse| (Spread::PowerLaw { inverse }, Deal::Packed);
    // Tokens, hidden, width of an expert, of a token, of the layer, tensor and expert parallel.
    #[rustfmt::skip]
    let values = [
        ("a100", "all", [16, 4096, 14336, 2, 8, 2, 1], true, packed(5), 9.8626761663e-4),
        ("a100", "all", [16, 4096, 14336, 2, 8, 1, 1], true, packed(5), 2.3509984893e-3),
        ("a100", "all", [8192, 4096, 14336, 2, 8, 1, 1], true, packed(5), 4.7095223851e-2),
        ("a100", "all", [4096, 7168, 2048, 8, 256, 1, 8], true, packed(100), 6.3353932625e-3),
        ("a100", "all", [4, 4096, 1536, 8, 128, 1, 16], false, packed(5), 2.2414606802e-4),
        ("h100", "all", [1, 2048, 768, 8, 128, 1, 1], true, even, 5.0898783000e-5),
        ("h100", "all", [256, 6144, 2560, 8, 160, 1, 4], true, level(5), 1.4177890280e-3),
        ("h100", "all", [16384, 4096, 14336, 2, 8, 8, 1], true, even, 2.8390501213e-3),
        ("h100", "all", [512, 2816, 704, 8, 128, 8, 1], true, level(100), 3.7380482777e-4),
        ("h100", "fp8", [1024, 4096, 1536, 8, 128, 1, 2], true, level(100), 2.4057677029e-3),
        ("b200", "all", [64, 2048, 5120, 22, 512, 1, 32], false, level(5), 9.9206763807e-5),
        ("b200", "fp8", [8192, 6144, 2048, 8, 256, 1, 1], true, even, 2.6522200578e-3),
        ("b200", "few", [300, 5120, 8192, 1, 16, 1, 1], true, level(5), 8.1416175968e-4),
        ("b200", "few_fp8", [12288, 6144, 16384, 2, 8, 4, 1], true, even, 2.3031158505e-3),
    ];
    for (device, section, shape, gated, spread, want) in values {
        let [tokens, hidden, ffn, top_k, experts, tensor_parallel, expert_parallel] = shape;
        let ffn = ffn / tensor_parallel;
        let layer = Layer { tokens, hidden, ffn, gated, top_k, experts, expert_parallel };
        let times = shipped(device).times;
        let numbers = match section {
            "all" => times.experts,
            "fp8" => times.experts_fp8,
            "few" => times.experts_few,
            _ => times.experts_few_fp8,
        };
        let loads = loads(&layer, spread.0, spread.1);
        let got = numbers.unwrap().numbers.of_loads(times.on(), &layer, &loads);
        near(got, want, &(device, section, layer, spread));
    }
}

/// Microseconds.
#[test]
fn collectives() {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
    #[rustfmt::skip]
    let values = [
        ("a100", AllReduce, 8, 512, true, 22.088823540),
        ("a100", AllReduce, 8, 1048576, true, 39.781391628),
        ("a100", AllReduce, 8, 268435456, true, 2226.196063393),
        ("a100", AllReduce, 4, 16777216, false, 184.115410163),
        ("a100", AllGather, 2, 2097152, false, 37.314696640),
        ("a100", ReduceScatter, 8, 67108864, false, 345.807469767),
        ("a100", AllToAll, 8, 65536, false, 14.327656618),
        ("a100", AllToAll, 8, 268435456, false, 1255.525755594),
        ("h100", AllReduce, 8, 512, true, 16.134996850),
        ("h100", AllReduce, 8, 1048576, true, 28.156249085),
        ("h100", AllReduce, 8, 268435456, true, 1082.555849624),
        ("h100", AllReduce, 4, 16777216, false, 101.014821918),
        ("h100", AllGather, 2, 2097152, false, 16.247364358),
        ("h100", ReduceScatter, 8, 67108864, false, 201.336601739),
        ("h100", AllToAll, 8, 65536, false, 9.437656618),
        ("h100", AllToAll, 8, 268435456, false, 832.942317275),
        ("b200", AllReduce, 8, 512, true, 24.933817878),
        ("b200", AllReduce, 8, 1048576, true, 33.652014542),
        ("b200", AllReduce, 8, 268435456, true, 719.331205936),
        ("b200", AllReduce, 4, 16777216, false, 96.182598025),
        ("b200", AllGather, 2, 2097152, false, 14.933002179),
        ("b200", ReduceScatter, 8, 67108864, false, 153.530622277),
        ("b200", AllToAll, 8, 65536, false, 12.387656618),
        ("b200", AllToAll, 8, 268435456, false, 466.297706941),
    ];
    for (device, kind, within, bytes, summable, want) in values {
        let op = Collective::within(kind, Bytes::new(bytes), within);
        let got = op.measured(&shipped(device).times.collectives.unwrap().numbers, summable);
        near(got.unwrap() * 1e6, want, &(device, op, summable));
    }
}

/// Microseconds.
#[test]
fn streaming() {
    #[rustfmt::skip]
    let values = [
        ("a100", Streaming::Norm, 10000.0, 3.429848093),
        ("a100", Streaming::Norm, 30000000.0, 40.350349361),
        ("a100", Streaming::Norm, 1000000000.0, 1480.633974444),
        ("a100", Streaming::Rotary, 30000000.0, 37.308873636),
        ("a100", Streaming::Activation, 30000000.0, 32.201784610),
        ("a100", Streaming::ElementWise, 10000.0, 1.733698566),
        ("a100", Streaming::ElementWise, 30000000.0, 15.599625520),
        ("a100", Streaming::ElementWise, 1000000000.0, 556.515020804),
        ("a100", Streaming::Embedding, 30000000.0, 103.175975007),
        ("h100", Streaming::Norm, 10000.0, 3.056105304),
        ("h100", Streaming::Norm, 30000000.0, 23.014345022),
        ("h100", Streaming::Norm, 1000000000.0, 888.319121813),
        ("h100", Streaming::Rotary, 30000000.0, 18.787391749),
        ("h100", Streaming::Activation, 30000000.0, 17.582100047),
        ("h100", Streaming::ElementWise, 10000.0, 1.471978300),
        ("h100", Streaming::ElementWise, 30000000.0, 7.939041088),
        ("h100", Streaming::ElementWise, 1000000000.0, 288.323503915),
        ("h100", Streaming::Embedding, 30000000.0, 50.887733341),
        ("b200", Streaming::Norm, 10000.0, 3.052537082),
        ("b200", Streaming::Norm, 30000000.0, 10.661247902),
        ("b200", Streaming::Norm, 1000000000.0, 370.926981937),
        ("b200", Streaming::Rotary, 30000000.0, 8.824327106),
        ("b200", Streaming::Activation, 30000000.0, 8.241576267),
        ("b200", Streaming::ElementWise, 10000.0, 1.470822124),
        ("b200", Streaming::ElementWise, 30000000.0, 3.936372044),
        ("b200", Streaming::ElementWise, 1000000000.0, 120.677982166),
        ("b200", Streaming::Embedding, 30000000.0, 22.614543626),
    ];
    for (device, class, bytes, want) in values {
        let times = shipped(device).times;
        let got = times.streaming.unwrap().numbers.seconds(class, bytes, times.cache as f64);
        near(got * 1e6, want, &(device, class, bytes));
    }
}
