//! Text generation with weights outside the device's memory, whose speed was published: the shipped
//! scenarios through the simulator, and compared on `docs/accuracy.md`.
//!
//! FlexGen: Sheng et al., ICML 2023. ZeRO-Inference: DeepSpeed,
//! docs/_posts/2022-09-10-zero-inference.md. No number of the machines comes from these rows.

use tiersim_sim::feasible::problems;
use tiersim_tests::files::{assert_rows, record, shipped_scenario, traces};
use tiersim_tests::prelude::*;

/// What the rows are called, the scenario and its case, and published tokens per second.
const ROWS: [(&str, &str, &str, f64); 4] = [
    ("FlexGen, OPT-30B, T4", "opt-30b-t4", "FlexGen's percentages", 7.32),
    ("ZeRO-Inference, OPT-30B, V100, weights in DRAM", "opt-30b-v100-zero", "DRAM", 43.0),
    ("ZeRO-Inference, OPT-30B, V100, weights on NVMe", "opt-30b-v100-zero", "NVMe", 30.0),
    ("ZeRO-Inference, OPT-30B, V100, NVMe with prefetch", "opt-30b-v100-zero", "NVMe, ahead", 34.0),
];

fn ran(scenario: &str) -> RunRecord {
    let scenario = shipped_scenario(scenario, &[]);
    let found = problems(&scenario, &traces(&scenario).of(&scenario).trace);
    assert!(found.0.is_empty(), "{found}");
    record(&scenario, Options::default())
}

/// Tokens per second of a case.
fn rate(record: &RunRecord, case: &str) -> f64 {
    let result = record.results.iter().find(|result| result.label == case).expect("a case");
    let figures = result.outcome.figures();
    let figures = figures.unwrap_or_else(|| panic!("{case}: {:?}", result.outcome));
    record.base().tokens_per_step as f64 / (figures.mean_step().ps() as f64 * 1e-12)
}

#[test]
fn generation_is_as_fast_as_published_within_a_fifth() {
    let records = ["opt-30b-t4", "opt-30b-v100-zero"].map(|name| (name, ran(name)));
    let (mut rows, mut worst) = (Vec::new(), 0.0f64);
    for (name, scenario, case, published) in ROWS {
        let record = records.iter().find(|(name, _)| *name == scenario).expect("it ran");
        let predicted = rate(&record.1, case);
        let error = predicted / published - 1.0;
        worst = worst.max(error.abs());
        rows.push(format!(
            "| {name} | {published:.2} | {predicted:.2} | {:+.1} % |",
            error * 100.0
        ));
    }
    assert!(worst < 0.2, "{}", rows.join("\n"));
    assert_rows("docs/accuracy.md", |line| line.contains("OPT-30B,"), &rows);
}
