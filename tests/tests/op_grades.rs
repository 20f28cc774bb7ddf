//! Op times of machines against measured operators: NVIDIA's tables, in a folder beside the
//! checkout. Without it nothing is compared, and stderr says so.
//!
//! All rows are graded here, those that the numbers were fitted to among them; errors of families
//! that a fit had not seen stand beside the numbers in `hardware-specs/op-times`.

use tiersim_input::op_table::read_ops;
use tiersim_models::kernel::{Kernel, Product, Streaming, Work};
use tiersim_models::measured_op::{MeasuredOp, What};
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
    let tables = ["streaming", "product", "prefill"];
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

/// Forward and backward together were timed, and forward alone.
#[test]
fn gradients_of_attention_take_what_the_pairs_took() {
    let read = |name: &str| table(&root().join(KERNELS).join(name));
    let shape =
        |row: &Row| ["batch", "sequence", "heads", "head_dim"].map(|column| row[column].clone());
    let us = |row: &Row| row["us"].parse::<f64>().expect("a time");
    // A cell with a comma is in quotes, which this reader splits.
    let text = fs::read_to_string(root().join(KERNELS).join("backward.csv")).expect("it is kept");
    let both: Vec<f64> = text
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').nth(2).expect("a cell").parse().expect("a time"))
        .collect();
    let forward = read("prefill.csv");
    assert_eq!((forward.len(), both.len()), (24, 24));
    let shapes: BTreeSet<_> = forward.iter().map(shape).collect();
    assert_eq!(shapes.len(), 12);
    let mut ratios: Vec<f64> =
        forward.iter().zip(&both).map(|(forward, both)| both / us(forward) - 1.0).collect();
    ratios.sort_by(f64::total_cmp);
    let median = (ratios[11] + ratios[12]) / 2.0;
    assert!((median - 3.0).abs() < 0.01, "{ratios:?}");
    assert!(ratios[0] > 2.5 && ratios[23] < 4.45, "{ratios:?}");
    let near = ratios.iter().filter(|ratio| (*ratio / 3.0 - 1.0).abs() < 0.09);
    assert!(near.count() >= 12, "{ratios:?}");
}
