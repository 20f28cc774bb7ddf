//! Training runs that others published, of many kinds and of machines whose files were fitted to none
//! of them: `validation/published/training.csv` against `docs/explanation/accuracy.md`.

use tiersim_tests::files::{assert_rows, page, record, root, scenario};
use tiersim_tests::prelude::*;

/// A row of the file.
struct Published {
    kind: String,
    /// Per second and GPU.
    tokens: f64,
    /// Of a step and a GPU.
    of_step: f64,
    hardware: String,
    workload: String,
}

fn published() -> Vec<Published> {
    let file = root().join("validation/published/training.csv");
    let mut rows = csv::Reader::from_path(&file).expect("it is there");
    let row = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.expect("it is a table");
        let number = |column: usize| row[column].parse().expect("a number");
        Published {
            kind: row[1].to_owned(),
            tokens: number(3),
            of_step: number(4),
            hardware: format!("{:?}", &row[5]),
            workload: row[6].to_owned(),
        }
    };
    rows.records().map(row).collect()
}

/// By how much more tokens a second are predicted. All in HBM, be there as much as that needs: what
/// fits is another question.
fn error(run: &Published) -> f64 {
    let file = root().join("validation/published/training.ron");
    let set = [("hardware", run.hardware.as_str()), ("workload", run.workload.as_str())];
    let record = record(&scenario(&file, &set), Options::default());
    let step = record.results[0].baseline_step.ps() as f64 * 1e-12;
    run.of_step / step / run.tokens - 1.0
}

fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// One row of the page: of errors in per cent, how many there are, and how large.
fn row(kind: &str, errors: &[f64]) -> String {
    let mut errors: Vec<f64> = errors.iter().map(|error| error * 100.0).collect();
    errors.sort_by(f64::total_cmp);
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let (least, most) = (errors[0], errors[errors.len() - 1]);
    format!(
        "| published: {kind} | {} | {:.1} % | {:+.1} % | {least:+.1} to {most:+.1} % |",
        errors.len(),
        median(&sizes),
        median(&errors),
    )
}

#[test]
fn other_published_training_is_as_far_off_as_the_page_says() {
    let runs = published();
    let errors: Vec<f64> = runs.iter().map(error).collect();
    let mut kinds: Vec<&str> = runs.iter().map(|run| run.kind.as_str()).collect();
    kinds.dedup();
    let of = |kind: &str| -> Vec<f64> {
        let all = runs.iter().zip(&errors).filter(|(run, _)| run.kind == kind);
        all.map(|(_, &error)| error).collect()
    };
    let mut rows: Vec<String> = kinds.iter().map(|kind| row(kind, &of(kind))).collect();
    rows.push(row("all of these", &errors));
    let name = "docs/explanation/accuracy.md";
    assert_rows(name, |line| line.starts_with("| published: "), &rows);
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs() * 100.0).collect();
    sizes.sort_by(f64::total_cmp);
    let (median, p95) = (median(&sizes), sizes[sizes.len() * 95 / 100]);
    let sum =
        format!("| other published training | {} | {median:.1} % | {p95:.1} % |", sizes.len());
    assert!(page(name).contains(&sum), "the summary of {name} must have:\n{sum}");
}
