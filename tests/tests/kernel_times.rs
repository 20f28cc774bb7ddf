//! Op times of two machines against kernels that somebody measured: vidur's profiles, in a folder
//! beside the checkout. Without it nothing is compared, and stderr says so.
//!
//! Tables of efficiency and the law of NVLink are fitted to the measurements of every second size;
//! the fit is done again here, so that the shipped numbers are what it gives, and the other sizes
//! grade it.

use tiersim_models::efficiency::Efficiency;
use tiersim_tests::files::{Row, assert_rows, beside, machine, table};
use tiersim_tests::prelude::*;

/// The rows of one profile; `None`, and a line on stderr, without it.
pub(crate) fn profile(file: &str) -> Option<Vec<Row>> {
    beside(&format!("vidur-profiles/{file}")).map(|path| table(&path))
}

pub(crate) fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {}", row[column]))
}

/// One kernel: which, for how many tokens, what it does, and its median time in seconds.
struct Kernel {
    name: &'static str,
    tokens: u64,
    flops: u64,
    bytes: u64,
    seconds: f64,
}

/// FLOPs and bytes of the kernels of a row, in 16 bits. A product reads both factors and writes the
/// result.
fn work(row: &Row) -> [(&'static str, u64, u64); 10] {
    let of = |column: &str| number(row, column);
    let (tokens, split) = (of("num_tokens"), of("num_tensor_parallel_workers"));
    let (hidden, heads, wide) = (of("n_embd"), of("n_head"), of("n_expanded_embd") / split);
    let (own, kv) = (heads / split, (of("n_kv_head") / split).max(1));
    let head = hidden / heads;
    let product = |inner: u64, outer: u64| {
        (2 * tokens * inner * outer, 2 * (tokens * inner + inner * outer + tokens * outer))
    };
    let (qkv, out) = (product(hidden, (own + 2 * kv) * head), product(own * head, hidden));
    let (up, down) = (product(hidden, 2 * wide), product(wide, hidden));
    [
        ("attn_pre_proj", qkv.0, qkv.1),
        ("attn_post_proj", out.0, out.1),
        ("mlp_up_proj", up.0, up.1),
        ("mlp_down_proj", down.0, down.1),
        ("mlp_act", 0, 2 * tokens * wide * 3),
        ("input_layernorm", 0, 2 * tokens * hidden * 2),
        ("post_attention_layernorm", 0, 2 * tokens * hidden * 2),
        ("attn_rope", 0, 2 * tokens * (own + kv) * head * 2),
        ("add", 0, 2 * tokens * hidden * 3),
        ("emb", 0, 2 * tokens * hidden * 2),
    ]
}

fn kernels(rows: &[Row]) -> Vec<Kernel> {
    let of_row = |row: &Row| {
        let tokens = number(row, "num_tokens");
        let timed = work(row).map(|(name, flops, bytes)| {
            let millis = row[&format!("time_stats.{name}.median")].parse::<f64>().ok()?;
            Some(Kernel { name, tokens, flops, bytes, seconds: millis / 1e3 })
        });
        timed.into_iter().flatten().collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

/// Every second of the sizes that occur, the smallest first.
pub(crate) fn half(sizes: impl Iterator<Item = u64>) -> BTreeSet<u64> {
    sizes.collect::<BTreeSet<u64>>().into_iter().step_by(2).collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Median and 95th percentile of the distance from 0, in per cent.
pub(crate) fn errors(values: &[f64]) -> [f64; 2] {
    let mut far: Vec<f64> = values.iter().map(|error| 100.0 * error.abs()).collect();
    far.sort_by(f64::total_cmp);
    [median(far.clone()), far[far.len() * 95 / 100]]
}

/// Shares by FLOPs: at each power of two of GFLOP the median of products within a factor of the
/// root of two, if they are five or more, of those that the roofline says compute and not memory
/// holds back.
fn fit(machine: &Hardware, kernels: &[&Kernel]) -> Vec<(u64, u32)> {
    let compute = machine.compute.as_ref().expect("it computes");
    let (_, peak) = compute.flops.iter().find(|(name, _)| name == "bf16").expect("it has bf16");
    let (peak, memory) = (peak.get() as f64, compute.memory.get() as f64);
    let launch = compute.launch.ps() as f64 / 1e12;
    let held = |k: &&&Kernel| {
        let product = k.flops as f64 / peak;
        k.flops > 0 && k.seconds > launch && product > k.bytes as f64 / memory
    };
    let reached: Vec<(f64, f64)> = kernels
        .iter()
        .filter(held)
        .map(|k| (k.flops as f64, k.flops as f64 / (k.seconds - launch) / peak))
        .collect();
    let mut points = Vec::new();
    for doublings in 0..14 {
        let at = f64::from(1u32 << doublings) * 1e9;
        let near = at / 2f64.sqrt()..at * 2f64.sqrt();
        let near = reached.iter().filter(|(flops, _)| near.contains(flops));
        let shares: Vec<f64> = near.map(|&(_, share)| share).collect();
        if shares.len() >= 5 {
            points.push((at as u64, (median(shares) * 1e3).round() as u32 * 1000));
        }
    }
    points
}

fn off(machine: &Hardware, kernel: &Kernel) -> f64 {
    let compute = machine.compute.as_ref().expect("it computes");
    let span = compute.roofline("bf16", kernel.flops, Bytes::new(kernel.bytes)).expect("a peak");
    span.ps() as f64 / 1e12 / kernel.seconds - 1.0
}

/// The rows of the page about one device, each kernel of the sizes that were held out.
fn graded(label: &str, machine: &Hardware, kernels: &[Kernel]) -> Vec<String> {
    let fitted = half(kernels.iter().map(|kernel| kernel.tokens));
    let (own, held_out): (Vec<&Kernel>, Vec<&Kernel>) =
        kernels.iter().partition(|kernel| fitted.contains(&kernel.tokens));
    let compute = machine.compute.as_ref().expect("it computes");
    let shares = fit(machine, &own);
    let most = compute.efficiency.products.points.last().map_or(0, |&(flops, _)| flops);
    let shares: Vec<(u64, u32)> = shares.into_iter().filter(|&(flops, _)| flops <= most).collect();
    assert_eq!(compute.efficiency.products.points, shares, "{label}: what the fit gives");
    let mut plain = machine.clone();
    plain.compute.as_mut().expect("it computes").efficiency = Efficiency::default();
    let mut rows = Vec::new();
    let names: Vec<&str> = kernels.iter().take(10).map(|kernel| kernel.name).collect();
    for name in names {
        let of: Vec<&&Kernel> = held_out.iter().filter(|kernel| kernel.name == name).collect();
        let all = |machine: &Hardware| -> Vec<f64> { of.iter().map(|k| off(machine, k)).collect() };
        let (with, without) = (all(machine), all(&plain));
        let ([m, p], [plain_m, plain_p]) = (errors(&with), errors(&without));
        let bias = 100.0 * median(with);
        rows.push(format!(
            "| {label} | `{name}` | {} | {m:.1} % | {p:.1} % | {bias:+.1} % | {plain_m:.1} % | {plain_p:.1} % |",
            of.len()
        ));
    }
    rows
}

#[test]
fn kernels_of_an_a100_and_an_h100_take_what_the_page_says() {
    for (label, name, file) in [
        ("A100", "dgx-a100-80g", "compute_a100_meta-llama_Meta-Llama-3-8B_mlp.csv"),
        ("H100", "dgx-h100", "compute_h100_meta-llama_Llama-2-7b-hf_mlp.csv"),
    ] {
        let Some(rows) = profile(file) else { continue };
        let rows = graded(label, &machine(name), &kernels(&rows));
        let prefix = format!("| {label} | `");
        assert_rows("docs/explanation/accuracy.md", |line| line.starts_with(&prefix), &rows);
    }
}

/// Devices, bytes and seconds of an all-reduce within one server.
pub(crate) fn all_reduces() -> Option<Vec<(u32, u64, f64)>> {
    let rows = profile("network_a100_dgx_all_reduce.csv")?;
    let first = |row: &&Row| row["rank"] == "0" && row["num_workers"] == row["devices_per_node"];
    let timed = |row: &Row| {
        let millis: f64 = row["time_stats.all_reduce.median"].parse().expect("a time");
        (number(row, "num_workers") as u32, number(row, "size"), millis / 1e3)
    };
    Some(rows.iter().filter(first).map(timed).collect())
}

#[test]
fn all_reduces_within_a_dgx_a100_take_what_the_page_says() {
    let Some(measured) = all_reduces() else { return };
    let machine = machine("dgx-a100-80g");
    // A straight line through the time of eight devices over the bytes that each sends.
    let large = |&&(devices, size, _): &&(u32, u64, f64)| devices == 8 && size >= 10_000_000;
    let fitted = half(measured.iter().filter(large).map(|&(_, size, _)| size));
    let points: Vec<(f64, f64)> = measured
        .iter()
        .filter(|row| large(row) && fitted.contains(&row.1))
        .map(|&(_, size, seconds)| (size as f64 * 14.0 / 8.0, seconds))
        .collect();
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum::<f64>();
    let (rate, setup) = (1.0 / slope, (y - slope * x) / 28.0);
    let link = machine.links.iter().find(|link| link.name == "nvlink").expect("it has NVLink");
    assert!((link.read.rate.get() as f64 / rate - 1.0).abs() < 1e-3, "{rate}");
    assert!((link.read.setup.ps() as f64 / 1e12 / setup - 1.0).abs() < 0.02, "{setup}");
    let laws = machine.collective_laws(8);
    let mut rows = Vec::new();
    for devices in [8, 4, 2] {
        for (words, range) in [
            ("below 1 MB", 0..1_000_000),
            ("1 to 10 MB", 1_000_000..10_000_000),
            ("10 to 30 MB", 10_000_000..30_000_000),
            ("30 to 67 MB", 30_000_000..u64::MAX),
        ] {
            let held_out = measured.iter().filter(|&&(of, size, _)| {
                of == devices && range.contains(&size) && !(of == 8 && fitted.contains(&size))
            });
            let found: Vec<f64> = held_out
                .map(|&(within, size, seconds)| {
                    let (kind, bytes) = (CollectiveKind::AllReduce, Bytes::new(size));
                    let all = Collective::within(kind, bytes, within);
                    let span = all.exchange(laws).span(laws.ways).expect("it ends");
                    span.ps() as f64 / 1e12 / seconds - 1.0
                })
                .collect();
            let [m, p] = errors(&found);
            let (count, bias) = (found.len(), 100.0 * median(found));
            rows.push(format!(
                "| {devices} devices | {words} | {count} | {m:.1} % | {p:.1} % | {bias:+.1} % |"
            ));
        }
    }
    assert_rows("docs/explanation/accuracy.md", |line| line.contains(" devices | "), &rows);
}
