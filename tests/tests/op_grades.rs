//! Op times of machines against measured operators: NVIDIA's tables, in a folder beside the
//! checkout. Without it nothing is compared, and stderr says so.
//!
//! All rows are graded here, those that the numbers were fitted to among them; errors of families
//! that a fit had not seen stand beside the numbers in `hardware-specs/op-times`.

use crate::kernel_times::{errors, median};
use tiersim_input::op_table::read_ops;
use tiersim_models::kernel::{Attention, Kernel, Product, Streaming, Work};
use tiersim_models::measured_op::{MeasuredOp, What};
use tiersim_models::op_times::{AttentionKernel, Throttle};
use tiersim_models::results::op_grades::{OpGrade, OpGrades};
use tiersim_tests::files::{Row, assert_rows, beside, machine, root, table};
use tiersim_tests::prelude::*;

const PAGE: &str = "docs/explanation/accuracy.md";
const MACHINES: [(&str, &str); 3] =
    [("a100", "dgx-a100-80g"), ("h100", "dgx-h100"), ("b200", "b200")];
const TABLES: [&str; 5] = ["gemm", "attention-prefill", "attention-decode", "moe", "nccl"];
/// Single kernels of PyTorch on an H200.
const KERNELS: &str = "validation/results/2026-11-27-nvidia-h200-kernels";
/// The same on an H100.
const KERNELS_H100: &str = "validation/results/2026-11-27-nvidia-h100-80gb-hbm3-kernels";

/// The page's rows of a table of ops that a device was measured by, one for each kind and precision.
fn graded(device: &str, machine: &Hardware, table: &str, path: &Path) -> Vec<String> {
    let ops = read_ops(path).unwrap_or_else(|problems| panic!("{problems}"));
    let graded = OpGrades::of(machine, table, &ops);
    let all = graded.grades().into_iter().filter(|grade| grade.range.is_none());
    let row = |grade: OpGrade| {
        format!(
            "| {} | {table} | {} {} | {} | {:.1} % | {:.1} % | {:+.1} % |",
            device.to_uppercase(),
            grade.kind,
            grade.precision,
            grade.errors.count,
            grade.errors.median * 100.0,
            grade.errors.p95 * 100.0,
            grade.errors.bias * 100.0,
        )
    };
    all.map(row).collect()
}

#[test]
fn the_page_has_the_errors_of_every_table_of_measured_operators() {
    let mut rows = Vec::new();
    for (device, name) in MACHINES {
        let hardware = machine(name);
        for table in TABLES {
            let file = format!("gpu-op-times/{device}-{table}.csv.gz");
            let Some(path) = beside(&file) else { return };
            rows.extend(graded(device, &hardware, table, &path));
        }
    }
    let is_row = |line: &str| {
        TABLES.iter().any(|table| line.contains(&format!("0 | {table} | ")))
            && line.starts_with("| ")
            && !line.starts_with("| H200")
    };
    assert_rows(PAGE, is_row, &rows);
}

#[test]
fn the_page_has_the_errors_of_single_kernels_of_pytorch() {
    let tables = ["streaming", "product"];
    let of = |device: &str, name: &str, run: &str| {
        let (hardware, folder) = (machine(name), root().join(run));
        let path = |table| folder.join(format!("{table}.csv"));
        tables.map(|table| graded(device, &hardware, table, &path(table))).concat()
    };
    let rows = [of("h200", "h200-sxm-pcie5", KERNELS), of("h100", "h100-sxm-pcie5", KERNELS_H100)];
    let is_row = |line: &str| {
        tables.iter().any(|table| line.contains(&format!("00 | {table} | ")))
            && line.starts_with("| H")
    };
    assert_rows(PAGE, is_row, &rows.concat());
}

/// Products that take a share of a device's time, element-wise kernels of 2^25 numbers the rest.
#[test]
fn the_page_has_what_products_take_between_other_kernels() {
    let hardware = machine("h100-sxm-pcie5");
    let compute = hardware.compute.as_ref().expect("it computes");
    let read = table(&root().join(KERNELS_H100).join("mixed.csv"));
    assert_eq!(read.len(), 12);
    let row = |row: &Row| {
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        let [m, n, k, products, others] =
            ["m", "n", "k", "products", "others"].map(|column| number(column) as u64);
        let (shape, bytes) = (Product::new(m, n, k), 2 * u128::from(m * k + n * k + m * n));
        let product = Kernel::new(Work::Product(shape), shape.flops(), bytes);
        let mul = Kernel::new(Work::Streaming(Streaming::Vectorized), 0, 3 << 26);
        let all = [Kernel { times: products, ..product }, Kernel { times: others, ..mul }];
        let time = |kernels: &[Kernel]| compute.kernels("bf16", kernels).expect("short").ps();
        let left = (time(&all) - others * time(&[mul])) as f64 / products as f64 / 1e6;
        let measured = number("us");
        format!(
            "  | {m} x {n} x {k} | {:.0} % | {} | {measured:.0} | {left:.0} | {:+.1} % |",
            number("share") * 100.0,
            row["sm_mhz"],
            (left / measured - 1.0) * 100.0,
        )
    };
    let rows: Vec<String> = read.iter().map(row).collect();
    let is_row = |line: &str| {
        line.starts_with("  | 8192 x 8192 x ") || line.starts_with("  | 4096 x 8192 x ")
    };
    assert_rows(PAGE, is_row, &rows);
}

/// Products by what their rows are a multiple of; the H200's are independent of the shares.
#[test]
fn the_page_has_what_odd_rows_cost_products() {
    let mut rows = Vec::new();
    for (device, name, run) in
        [("H100", "h100-sxm-pcie5", KERNELS_H100), ("H200", "h200-sxm-pcie5", KERNELS)]
    {
        let hardware = machine(name);
        let ops = read_ops(&root().join(run).join("product.csv")).expect("a table of ops");
        for (bytes, aligned) in [("4 or 8 bytes", 4..16), ("2 bytes", 2..4)] {
            let is_odd = |op: &&MeasuredOp| match op.what {
                What::Kernel(Kernel { work: Work::Product(of), .. }) => {
                    aligned.contains(&of.alignment(2))
                }
                _ => false,
            };
            let odd: Vec<MeasuredOp> = ops.iter().filter(is_odd).cloned().collect();
            let grades = OpGrades::of(&hardware, "product", &odd).grades();
            let Some(OpGrade { errors, .. }) = grades.first() else { continue };
            rows.push(format!(
                "  | {device} | {bytes} | {} | {:.1} % | {:.1} % | {:+.1} % |",
                errors.count,
                errors.median * 100.0,
                errors.p95 * 100.0,
                errors.bias * 100.0,
            ));
        }
    }
    assert_eq!(rows.len(), 3);
    assert_rows(PAGE, |line| line.starts_with("  | H") && line.contains(" bytes | "), &rows);
}

/// Attention of one kernel on one device: its shapes, and seconds forward and of the gradients.
fn trained(run: &str, kernel: &str) -> Vec<(Attention, [f64; 2])> {
    let folder = root().join(run);
    // A cell with a comma is in quotes, which this reader splits.
    let both = fs::read_to_string(folder.join("backward.csv")).expect("it is kept");
    let both = both.lines().skip(1).map(|line| {
        let us = line.rsplit(',').nth(2).expect("a cell").parse::<f64>();
        us.expect("a time") / 1e6
    });
    let forward = table(&folder.join("prefill.csv"));
    let all: Vec<_> = forward.iter().zip(both).collect();
    assert_eq!(all.len(), 24);
    let of_kernel = all.into_iter().filter(|(row, _)| row["name"] == kernel);
    let read = |(row, both): (&Row, f64)| {
        let number = |column: &str| row[column].parse::<u64>().expect("a number");
        let us = row["us"].parse::<f64>().expect("a time") / 1e6;
        let [heads, kv_heads, head_dim] =
            ["heads", "kv_heads", "head_dim"].map(|column| number(column) as u32);
        let shape = Attention {
            batch: number("batch"),
            new: number("sequence"),
            past: 0,
            heads,
            kv_heads,
            head_dim,
            window: 0,
            kv_bytes: 2,
            causal: true,
        };
        (shape, [us, both - us])
    };
    of_kernel.map(read).collect()
}

/// Every shape was timed forward, and forward and backward together, by two kernels.
#[test]
fn the_page_has_the_errors_of_attention_that_trains() {
    let mut rows = Vec::new();
    for (device, name, run) in
        [("H200", "h200-sxm-pcie5", KERNELS), ("H100", "h100-sxm-pcie5", KERNELS_H100)]
    {
        let mut compute = machine(name).compute.expect("it computes").own();
        for (kernel, word) in
            [("flash", AttentionKernel::FlashAttention2), ("cudnn", AttentionKernel::Cudnn)]
        {
            compute.attention = Some(word);
            let all = trained(run, kernel);
            assert_eq!(all.len(), 12);
            for (at, pass, work) in [
                (0, "forward", Work::Attention as fn(Attention) -> Work),
                (1, "gradients", Work::AttentionBackward),
            ] {
                let error = |(shape, measured): &(Attention, [f64; 2])| {
                    let kernel = Kernel::new(work(*shape), 0, 0);
                    let time = compute.kernel("bf16", &kernel, Throttle::NONE).expect("short").0;
                    time.ps() as f64 / 1e12 / measured[at] - 1.0
                };
                let found: Vec<f64> = all.iter().map(error).collect();
                let ([middle, far], count) = (errors(&found), found.len());
                let (word, bias) = (word.word(), 100.0 * median(found));
                rows.push(format!(
                    "| {device} | {word} | {pass} | {count} | {middle:.1} % | {far:.1} % | {bias:+.1} % |",
                ));
            }
        }
    }
    let is_row = |line: &str| line.contains(" | forward | ") || line.contains(" | gradients | ");
    assert_rows(PAGE, is_row, &rows);
}

/// Others' figures of an H100, which no fit has seen: 24 heads of 128, 4608 tokens that attend to
/// all, as <https://github.com/pytorch/pytorch/issues/142132> has them.
#[test]
fn attention_of_others_takes_about_what_they_measured() {
    let mut compute = machine("h100-sxm-pcie5").compute.expect("it computes").own();
    let (heads, tokens) = (24, 4608);
    let shape = Attention {
        batch: 1,
        new: tokens,
        past: 0,
        heads,
        kv_heads: heads,
        head_dim: 128,
        window: 0,
        kv_bytes: 2,
        causal: false,
    };
    let rows = [
        (AttentionKernel::FlashAttention2, 329.483),
        (AttentionKernel::Cudnn, 631.338),
        (AttentionKernel::FlashAttention3, 631.827),
    ]
    .map(|(kernel, measured)| {
        compute.attention = Some(kernel);
        let one = Kernel::new(Work::Attention(shape), 0, 0);
        let time = compute.kernel("bf16", &one, Throttle::NONE).expect("short").0;
        let reached = shape.flops() as f64 / time.ps() as f64;
        let error = (reached / measured - 1.0) * 100.0;
        format!("| {} | {measured:.0} | {reached:.0} | {error:+.1} % |", kernel.word())
    });
    let is_row = |line: &str| {
        AttentionKernel::WORDS.iter().any(|word| line.starts_with(&format!("| {word} | ")))
    };
    assert_rows(PAGE, is_row, &rows);
}

/// Where a device has no numbers of gradients they are three times the forward pass.
#[test]
fn gradients_of_attention_take_what_the_pairs_took() {
    let all = [trained(KERNELS, "flash"), trained(KERNELS, "cudnn")].concat();
    let shapes: BTreeSet<Attention> = all.iter().map(|(shape, _)| *shape).collect();
    assert_eq!((all.len(), shapes.len()), (24, 12));
    let mut ratios: Vec<f64> = all.iter().map(|(_, [once, back])| back / once).collect();
    ratios.sort_by(f64::total_cmp);
    let median = (ratios[11] + ratios[12]) / 2.0;
    assert!((median - 3.0).abs() < 0.01, "{ratios:?}");
    assert!(ratios[0] > 2.5 && ratios[23] < 4.45, "{ratios:?}");
    let near = ratios.iter().filter(|ratio| (*ratio / 3.0 - 1.0).abs() < 0.09);
    assert!(near.count() >= 12, "{ratios:?}");
}
