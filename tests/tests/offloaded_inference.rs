//! Text generation with weights outside the device's memory, whose speed was published: the shipped
//! scenarios through the simulator, and compared on `docs/explanation/accuracy.md`.
//!
//! FlexGen: Sheng et al., ICML 2023. ZeRO-Inference: DeepSpeed,
//! docs/_posts/2022-09-10-zero-inference.md. No number of the machines comes from these rows. One of
//! the runtimes does, from one row, which is shown and not graded.

use tiersim_models::results::PathPart;
use tiersim_sim::feasible::problems;
use tiersim_tests::files::{assert_rows, record, shipped_scenario, traces};
use tiersim_tests::prelude::*;

/// What the rows are called, the scenario and its case, published tokens per second, and whether
/// nothing was taken from the row.
const ROWS: [(&str, &str, &str, f64, bool); 4] = [
    ("FlexGen, OPT-30B, T4", "opt-30b-t4", "FlexGen's percentages", 7.32, true),
    ("ZeRO-Inference, OPT-30B, V100, weights in DRAM", "opt-30b-v100-zero", "DRAM", 43.0, false),
    ("ZeRO-Inference, OPT-30B, V100, weights on NVMe", "opt-30b-v100-zero", "NVMe", 30.0, true),
    (
        "ZeRO-Inference, OPT-30B, V100, NVMe with prefetch",
        "opt-30b-v100-zero",
        "NVMe, ahead",
        34.0,
        true,
    ),
];

fn ran(scenario: &str) -> RunRecord {
    let scenario = shipped_scenario(scenario, &[]);
    let found = problems(&scenario, &traces(&scenario).of(&scenario).trace);
    assert!(found.0.is_empty(), "{found}");
    record(&scenario, Options::default())
}

fn figures<'r>(record: &'r RunRecord, case: &str) -> &'r Figures {
    let result = record.results.iter().find(|result| result.label == case).expect("a case");
    let figures = result.outcome.figures();
    figures.unwrap_or_else(|| panic!("{case}: {:?}", result.outcome))
}

/// Tokens per second of a case.
fn rate(record: &RunRecord, case: &str) -> f64 {
    let step = figures(record, case).mean_step();
    record.base().tokens_per_step as f64 / (step.ps() as f64 * 1e-12)
}

#[test]
fn generation_is_as_fast_as_published_within_a_twelfth() {
    let records = ["opt-30b-t4", "opt-30b-v100-zero"].map(|name| (name, ran(name)));
    let (mut rows, mut worst) = (Vec::new(), 0.0f64);
    for (name, scenario, case, published, graded) in ROWS {
        let record = records.iter().find(|(name, _)| *name == scenario).expect("it ran");
        let predicted = rate(&record.1, case);
        let error = predicted / published - 1.0;
        let shown = match graded {
            true => format!("{:+.1} %", error * 100.0),
            false => "a constant was taken from it".to_owned(),
        };
        worst = worst.max(error.abs());
        rows.push(format!("| {name} | {published:.2} | {predicted:.2} | {shown} |"));
    }
    assert!(worst < 0.08, "{}", rows.join("\n"));
    assert_rows("docs/explanation/accuracy.md", |line| line.contains("OPT-30B,"), &rows);
}

/// What the runtime adds, worked out from the scenario's numbers: 388 objects of 60.75 GB in all.
#[test]
fn what_the_runtime_adds_is_its_numbers_times_objects_and_bytes() {
    let record = ran("opt-30b-v100-zero");
    let figures = figures(&record, "DRAM");
    let steps = figures.steps.len() as f64;
    let part = |part| figures.split.of(part).ps() as f64 / steps * 1e-12;
    let (objects, bytes) = (figures.transfers[0] as f64 / steps, figures.moved[0].get() as f64);
    let found = part(PathPart::HostObjects);
    assert!((found - objects * 1.4e-3).abs() < 1e-6, "{found} s for {objects} objects");
    let (found, expected) = (part(PathPart::HostPasses), 4.0 * bytes / steps / 814e9);
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} s, not {expected}");
    assert_eq!(part(PathPart::HostOps), 0.0);
}
