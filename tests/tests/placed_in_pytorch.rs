//! What training in PyTorch took on a real H200 with modules where hints said
//! (`tiersim_record.apply`), against the same step recorded and simulated under the same hints:
//! compared on `docs/explanation/accuracy.md`.
//!
//! Measured values are those of `validation/frameworks/placed.py`. No number of the prediction comes
//! from a row that is graded: the machine is a shipped one, the thread's times are from steps with
//! next to nothing in their ops.

use tiersim_tests::files::{assert_rows, record, root, scenario};
use tiersim_tests::measured::Measured;
use tiersim_tests::prelude::*;

const RUN: &str = "validation/results/2026-11-28-nvidia-h200-placed";
const PAGE: &str = "docs/explanation/accuracy.md";
/// The run's name of each model, its scenario beside the run, the page's name, and its blocks.
const MODELS: [(&str, &str, &str, f64); 2] = [
    ("medium fp32", "medium-fp32", "GPT-2 of 355 M", 24.0),
    ("xl bf16", "xl-bf16", "GPT-2 of 1.6 B", 48.0),
];

/// Seconds of a step, bytes towards and out of HBM in one, and the peak, by case.
fn predicted(file: &str, set: &[(&str, &str)]) -> Vec<(String, f64, [f64; 2], f64)> {
    let scenario = scenario(&root().join(RUN).join(format!("{file}.ron")), set);
    let record = record(&scenario, Options::default());
    let lanes = &record.conditions[0].channels;
    let of = |result: &CaseRecord| {
        let figures = result.outcome.figures().expect("it fits");
        let steps = figures.steps.len() as f64;
        let seconds =
            figures.steps.iter().map(|step| step.ps() as f64 * 1e-12).sum::<f64>() / steps;
        let moved = ["dram->hbm", "hbm->dram"].map(|lane| {
            let lane = lanes.iter().position(|name| name.ends == lane).expect("there is a link");
            figures.moved_per_step(lane).get() as f64
        });
        (result.label.clone(), seconds, moved, figures.peak[0].get() as f64)
    };
    record.results.iter().map(of).collect()
}

#[test]
fn placements_take_and_move_what_the_page_says() {
    let (measured, mut rows) = (Measured::read(RUN), Vec::new());
    for (model, file, name, _) in MODELS {
        let mut times = Vec::new();
        for (case, step, moved, peak) in predicted(file, &[]) {
            let of = |quantity| measured.of(&format!("{model}: {case}"), quantity);
            if case != "plain" {
                // A bias comes to the backward pass with its module, though nothing there reads it,
                // and the file has nine digits.
                let [came, left] =
                    [of("moved in from CPU per step"), of("moved out of CPU per step")];
                assert!((0.0..2e-4).contains(&(came / moved[0] - 1.0 + 1e-8)), "{case}: {came}");
                assert!((left / moved[1] - 1.0).abs() < 1e-8, "{case}: {left}");
            }
            let [ran, most] = [of("step"), of("device memory at most")];
            times.push((step, ran));
            let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
            rows.push(format!(
                "| in PyTorch, {name}, {case} | {:.1} | {:.1} | {:+.1} % | {:.2} | {:.2} | {:+.1} % | {:.3} |",
                ran * 1e3,
                step * 1e3,
                (step / ran - 1.0) * 100.0,
                gib(most),
                gib(peak),
                (peak / most - 1.0) * 100.0,
                moved.iter().sum::<f64>() * 1e-9,
            ));
        }
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(times.is_sorted_by_key(|&(_, ran)| ran), "{name}: {times:?}");
    }
    assert_rows(PAGE, |line| line.starts_with("| in PyTorch, "), &rows);
}

/// The thread's times are means over both models of steps of 16 tokens at a width of 64.
#[test]
fn the_thread_takes_what_it_takes_alone() {
    let (measured, mut found) = (Measured::read(RUN), [0.0, 0.0]);
    for (model, file, _, blocks) in MODELS {
        let alone = |case: &str| measured.of(&format!("{model}: thread alone, {case}"), "step");
        let [plain, all] = [alone("plain"), alone("all blocks")];
        let trace = format!("\"traces/{file}-thread\"");
        let set = [("workload.path", trace.as_str()), ("runtime.per_object", "us(0)")];
        let simulated = predicted(file, &set);
        let seconds = |case| simulated.iter().find(|row| row.0 == case).expect("a case").1;
        let thread = scenario(&root().join(RUN).join(format!("{file}.ron")), &set);
        let ops = tiersim_tests::files::traces(&thread).of(&thread).trace.ops.len();
        // A block's twelve tensors come three times, but for the biases of its four products, which
        // the backward pass does not read; then twelve gradients and 24 moments.
        let copies = seconds("all blocks") - seconds("plain");
        found[0] += plain / ops as f64 / 2.0;
        found[1] += (all - plain - copies) / (blocks * 68.0) / 2.0;
    }
    let runtime = &scenario(&root().join(RUN).join("medium-fp32.ron"), &[]).cases[0].runtime;
    for (said, found) in [(runtime.per_op, found[0]), (runtime.per_object, found[1])] {
        let error = said.ps() as f64 * 1e-12 / found - 1.0;
        assert!(error.abs() < 3e-3, "{said} {found}");
    }
}
