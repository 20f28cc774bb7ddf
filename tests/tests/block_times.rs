//! The kernels of a generated block by op times, against the block that vidur measured kernel by
//! kernel: the profiles lie in a folder beside the checkout, and without it nothing is compared.
//!
//! Each op of the block is one kernel of the profile. Attention and collectives are none of them.
//! Numbers of products have seen no row of a profile; those of norms, activations, rotary positions
//! and sums were fitted to every second number of tokens, so that the other numbers are held out.

use crate::kernel_times::{errors, half, median, number, profile};
use tiersim_models::op_times::Throttle;
use tiersim_models::workload::{Op, Phase};
use tiersim_tests::files::{Row, assert_rows, beside, machine, root, table};
use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{Kernels, Router};

/// The kernel of the profile that an op of a block is.
const KERNELS: [(&str, &str, &str); 10] = [
    ("norm", "input_layernorm", "input_layernorm"),
    ("linear", "self_attn.q_proj", "attn_pre_proj"),
    ("rotary", "self_attn", "attn_rope"),
    ("linear", "self_attn.o_proj", "attn_post_proj"),
    ("residual", "self_attn.o_proj", "add"),
    ("norm", "post_attention_layernorm", "post_attention_layernorm"),
    ("linear", "mlp.gate_proj", "mlp_up_proj"),
    ("activation", "mlp.act_fn", "mlp_act"),
    ("linear", "mlp.down_proj", "mlp_down_proj"),
    ("residual", "mlp.down_proj", "add"),
];

/// Ranges of numbers of tokens, each to its last.
const RANGES: [(u64, u64, &str); 5] = [
    (0, 128, "up to 128 tokens"),
    (129, 512, "129 to 512 tokens"),
    (513, 2048, "513 to 2048 tokens"),
    (2049, 8192, "2049 to 8192 tokens"),
    (8193, u64::MAX, "above 8192 tokens"),
];

/// The device, its machine, its profile, the profile's model and NVIDIA's table of products.
const DEVICES: [[&str; 5]; 2] = [
    [
        "A100",
        "dgx-a100-80g",
        "compute_a100_meta-llama_Meta-Llama-3-8B_mlp.csv",
        "llama-3-8b",
        "gpu-op-times/a100-gemm.csv.gz",
    ],
    [
        "H100",
        "dgx-h100",
        "compute_h100_meta-llama_Llama-2-7b-hf_mlp.csv",
        "llama-2-7b",
        "gpu-op-times/h100-gemm.csv.gz",
    ],
];

/// One block of a prompt, with the kernels that an engine runs.
fn block(card: &Card, tokens: u64, ways: u64) -> tiersim_models::workload::Trace {
    let job = Generation {
        card: Card { layers: 1, ..card.clone() },
        formats: Formats::all(Format::Bf16),
        batch: 1,
        batches: 1,
        prompt: tokens,
        tokens: 1,
        prefill: true,
        attention: AttentionOn::Device,
        kernels: Kernels::Fused,
        kv_block: None,
        tensor: ways as u32,
        context: 1,
        devices: ways as u32,
        router: Router::default(),
    };
    job.trace()
}

/// One row of a profile: tokens, ways, and each kernel with its predicted and measured seconds.
struct Measured {
    tokens: u64,
    ways: u64,
    kernels: Vec<(&'static str, f64, f64)>,
}

impl Measured {
    fn of(row: &Row, machine: &Hardware, card: &Card) -> Measured {
        let (tokens, ways) =
            (number(row, "num_tokens"), number(row, "num_tensor_parallel_workers"));
        let compute = machine.compute.as_ref().expect("it computes");
        let trace = block(card, tokens, ways);
        let named = |op: &&Op| {
            let module = &trace.modules[op.module?.index()];
            let part = module.strip_prefix("model.layers.0.")?;
            let is_it = |&&(name, of, _): &&(&str, &str, &str)| op.name == name && part == of;
            KERNELS.iter().find(is_it).map(|&(_, _, kernel)| kernel)
        };
        // vidur runs these in turn, and no attention between them.
        let ops = trace.ops.iter().filter(|op| op.phase == Phase::Prefill);
        let ops: Vec<Op> = ops.filter(|op| named(op).is_some()).cloned().collect();
        let times = ops.iter().zip(compute.times("bf16", &ops));
        let priced = times.map(|(op, time)| {
            let kernel = named(&op).expect("it is one of them");
            let predicted = time.expect("it is priced").ps() as f64 / 1e12;
            let median = &row[&format!("time_stats.{kernel}.median")];
            (kernel, predicted, median.parse::<f64>().expect("a time") / 1e3)
        });
        let kernels: Vec<_> = priced.collect();
        assert_eq!(kernels.len(), KERNELS.len(), "{kernels:?}");
        Measured { tokens, ways, kernels }
    }

    fn sum(&self) -> f64 {
        self.kernels.iter().map(|&(_, _, measured)| measured).sum()
    }

    fn error(&self) -> f64 {
        self.kernels.iter().map(|&(_, predicted, _)| predicted).sum::<f64>() / self.sum() - 1.0
    }
}

/// A row of the page, of errors of one kind.
fn row(device: &str, what: &str, errors_of: Vec<f64>) -> String {
    let ([middle, far], count) = (errors(&errors_of), errors_of.len());
    let bias = 100.0 * median(errors_of);
    format!("| {device} | {what} | {count} | {middle:.1} % | {far:.1} % | {bias:+.1} % |")
}

#[test]
fn a_block_s_kernels_together_take_what_the_page_says() {
    let (mut sums, mut parts) = (Vec::new(), Vec::new());
    for [device, name, file, model, _] in DEVICES {
        let Some(rows) = profile(file) else { return };
        let card = known(model).expect("a known model").card();
        let machine = machine(name);
        let all: Vec<Measured> =
            rows.iter().map(|row| Measured::of(row, &machine, &card)).collect();
        let fitted = half(all.iter().map(|one| one.tokens));
        let (seen, held): (Vec<&Measured>, Vec<&Measured>) =
            all.iter().partition(|one| fitted.contains(&one.tokens));
        let mut add = |what: &str, of: &[&Measured], is_in: &dyn Fn(&Measured) -> bool| {
            let of: Vec<f64> = of.iter().filter(|one| is_in(one)).map(|one| one.error()).collect();
            if !of.is_empty() {
                sums.push(row(device, &format!("block, {what}"), of));
            }
        };
        add("held out", &held, &|_| true);
        for ways in [1, 2, 4, 8] {
            add(&format!("held out, split {ways} ways"), &held, &|one| one.ways == ways);
        }
        for (first, last, words) in RANGES {
            let is_in = |one: &Measured| (first..=last).contains(&one.tokens);
            add(&format!("held out, {words}"), &held, &is_in);
        }
        add("seen", &seen, &|_| true);
        for (index, (_, _, kernel)) in KERNELS.iter().enumerate().filter(|(at, _)| *at != 9) {
            let of: Vec<(f64, f64, f64)> = held
                .iter()
                .map(|one| (one.kernels[index].1, one.kernels[index].2, one.sum()))
                .collect();
            let share = median(of.iter().map(|&(_, time, sum)| time / sum).collect());
            let errors = of.iter().map(|&(predicted, time, _)| predicted / time - 1.0).collect();
            let of = row(device, &format!("in the block, `{kernel}`"), errors);
            parts.push(format!("{of} {:.0} % |", 100.0 * share));
        }
    }
    assert_rows("docs/explanation/accuracy.md", |line| line.contains(" | block, "), &sums);
    assert_rows("docs/explanation/accuracy.md", |line| line.contains(" | in the block, "), &parts);
}

/// Products of a row of a profile: kernel, tokens, outputs and inputs.
fn products(row: &Row) -> [(&'static str, u64, u64, u64); 4] {
    let of = |column: &str| number(row, column);
    let (tokens, ways, hidden) =
        (of("num_tokens"), of("num_tensor_parallel_workers"), of("n_embd"));
    let head = hidden / of("n_head");
    let [heads, keys] = [of("n_head"), of("n_kv_head")].map(|heads| heads / ways * head);
    let wide = of("n_expanded_embd") / ways;
    [
        ("attn_pre_proj", tokens, heads + 2 * keys, hidden),
        ("attn_post_proj", tokens, hidden, heads),
        ("mlp_up_proj", tokens, 2 * wide, hidden),
        ("mlp_down_proj", tokens, hidden, wide),
    ]
}

#[test]
fn one_product_measured_by_two_takes_what_the_page_says() {
    let mut found = Vec::new();
    for [device, _, file, _, gemm] in DEVICES {
        let (Some(rows), Some(gemm)) = (profile(file), beside(gemm)) else { return };
        let others: BTreeMap<[u64; 3], f64> = table(&gemm)
            .iter()
            .filter(|row| row["dtype"] == "bfloat16")
            .map(|row| {
                let shape = ["m", "n", "k"].map(|column| number(row, column));
                (shape, row["us"].parse::<f64>().expect("a time") / 1e6)
            })
            .collect();
        let both: Vec<(u64, f64)> = rows
            .iter()
            .flat_map(|row| products(row).map(|product| (row, product)))
            .filter_map(|(row, (kernel, m, n, k))| {
                let time: f64 = row[&format!("time_stats.{kernel}.median")].parse().ok()?;
                Some((m, others.get(&[m, n, k])? / (time / 1e3) - 1.0))
            })
            .collect();
        for (first, last, words) in RANGES {
            let of = both.iter().filter(|(tokens, _)| (first..=last).contains(tokens));
            let of: Vec<f64> = of.map(|&(_, error)| error).collect();
            if !of.is_empty() {
                found.push(row(device, &format!("both measured, {words}"), of));
            }
        }
    }
    assert_rows("docs/explanation/accuracy.md", |line| line.contains(" | both measured, "), &found);
}

/// Seconds of a product in a long run of such.
fn in_a_long_run(machine: &Hardware, [m, n, k]: [u64; 3]) -> f64 {
    let bytes = 2 * (m * k + n * k + m * n);
    let of = tiersim_models::kernel::Product::new(m, n, k);
    let kernel = tiersim_models::kernel::Kernel::new(
        tiersim_models::kernel::Work::Product(of),
        of.flops(),
        bytes.into(),
    );
    let compute = machine.compute.as_ref().expect("it computes");
    compute.kernel("bf16", &kernel, Throttle::FULL).expect("it is priced").0.ps() as f64 / 1e12
}

/// Op by op, with the throttle of the step that they are in, as all kernels at once.
#[test]
fn a_step_takes_what_its_kernels_take_at_once() {
    let machine = machine("dgx-h100");
    let compute = machine.compute.as_ref().expect("it computes");
    let card = known("llama-2-7b").expect("it is known by name").card();
    for tokens in [1, 64, 4096] {
        let trace = block(&card, tokens, 1);
        let ops: Vec<_> =
            trace.ops.iter().filter(|op| op.phase == Phase::Prefill).cloned().collect();
        let kernels: Vec<_> =
            ops.iter().flat_map(|op| op.kernels.as_deref().expect("known")).copied().collect();
        let times = compute.times("bf16", &ops);
        let sum: u64 = times.into_iter().map(|time| time.expect("short").ps()).sum();
        let at_once = compute.kernels("bf16", &kernels).expect("short").ps();
        assert_eq!(sum, at_once, "{tokens}");
        let full: u64 = kernels
            .iter()
            .map(|one| {
                compute.kernel("bf16", one, Throttle::NONE).expect("short").0.ps() * one.times
            })
            .sum();
        assert_eq!(at_once > full, tokens == 4096, "few tokens leave the device its clock");
    }
}

#[test]
fn the_sustained_share_of_an_a100_is_that_of_random_numbers() {
    // PyTorch, 8192 x 8192 x 8192, of zeros and of random numbers: thonking.ai, "Strangely, Matrix
    // Multiplications on GPUs Run Faster When Given Predictable Data".
    let machine = machine("dgx-a100-80g");
    let times = machine.compute.as_ref().and_then(|of| of.op_times.as_ref()).expect("it has them");
    let share = times.products.expect("products are among them").numbers.sustained;
    assert!((share - 257.0 / 295.0).abs() < 5e-4, "{share}");
}

#[test]
fn the_sustained_share_of_an_h100_is_that_of_long_runs_on_an_h200() {
    let file = root().join("validation/results/2026-11-22-nvidia-h200/pytorch/ops.csv");
    let machine = machine("h200-sxm-pcie5");
    let error = |row: &Row| {
        let seconds = row["us"].parse::<f64>().expect("a time") / 1e6;
        let shape = ["a", "b", "c"].map(|column| number(row, column));
        // A run was 20 of them; below 512 rows it is memory that holds them back.
        let is_long = row["kind"] == "gemm" && shape[0] >= 512 && 20.0 * seconds >= 10e-3;
        is_long.then(|| in_a_long_run(&machine, shape) / seconds - 1.0)
    };
    let errors: Vec<f64> = table(&file).iter().filter_map(error).collect();
    assert_eq!(errors.len(), 25);
    let bias = median(errors);
    assert!(bias.abs() < 0.01, "{bias}");
}
