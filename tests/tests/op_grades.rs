//! Op times of machines against measured operators: NVIDIA's tables, in a folder beside the
//! checkout. Without it nothing is compared, and stderr says so.
//!
//! All rows are graded here, those that the numbers were fitted to among them; errors of families
//! that a fit had not seen stand beside the numbers in `hardware-specs/op-times`.

use tiersim_input::op_table::read_ops;
use tiersim_models::results::op_grades::OpGrades;
use tiersim_tests::files::{assert_rows, beside, machine};

const MACHINES: [(&str, &str); 3] =
    [("a100", "dgx-a100-80g"), ("h100", "dgx-h100"), ("b200", "b200")];
const TABLES: [&str; 5] = ["gemm", "attention-prefill", "attention-decode", "moe", "nccl"];

#[test]
fn the_page_has_the_errors_of_every_table_of_measured_operators() {
    let mut rows = Vec::new();
    for (device, name) in MACHINES {
        let hardware = machine(name);
        for table in TABLES {
            let file = format!("gpu-op-times/{device}-{table}.csv.gz");
            let Some(path) = beside(&file) else { return };
            let ops = read_ops(&path).unwrap_or_else(|problems| panic!("{problems}"));
            let graded = OpGrades::of(&hardware, table, &ops);
            for grade in graded.grades().into_iter().filter(|grade| grade.range.is_none()) {
                rows.push(format!(
                    "| {} | {table} | {} {} | {} | {:.1} % | {:.1} % | {:+.1} % |",
                    device.to_uppercase(),
                    grade.kind,
                    grade.precision,
                    grade.errors.count,
                    grade.errors.median * 100.0,
                    grade.errors.p95 * 100.0,
                    grade.errors.bias * 100.0,
                ));
            }
        }
    }
    let is_row = |line: &str| {
        TABLES.iter().any(|table| line.contains(&format!("0 | {table} | ")))
            && line.starts_with("| ")
    };
    assert_rows("docs/explanation/accuracy.md", is_row, &rows);
}
