//! Watched memory that is right runs, and a wrong override of it is refused. Pressure that nobody
//! can mean is in `tests/errors`.

use crate::common::Project;
use crate::hostile::{CASE, shipped_with};

const SCENARIO: &str = r#"Scenario(
    schema: 2,
    about: "a watched model",
    hardware: "h100-sxm-pcie5",
    workload: Layered(
        family: gpt2,
        layers: 2,
        hidden: 64,
        ffn: 96,
        heads: 4,
        vocab: 100,
        precision: bf16,
        batch: 8,
        mode: train_steps(sequences: [16, 32], micro_batch: 4),
        time: roofline(precision: "bf16"),
        repeat: 1,
        warmup: 0,
    ),
    policies: [
        (name: "plain", policy: AllHbm, micro_batch: 2),
        (
            name: "watched",
            policy: AllHbm,
            pressure: (
                tier: "hbm",
                thresholds: (target: 0.9, warning: 0.92, critical: 0.95, emergency: 0.97),
                hysteresis: 0.02,
                actions: (critical: [clean, shrink]),
                spill: ["dram"],
                micro_batch: (min: 1, max: 8),
            ),
        ),
    ],
    sweep: (axes: [(name: "least", path: "policies.1.pressure.micro_batch.min", values: list([1, 2]))]),
    seed: 1,
    expect: [pressure(case: "watched", at_most: target), micro_batch(case: "watched", at_least: 4)],
)
"#;

fn project() -> Project {
    shipped_with(SCENARIO)
}

#[test]
fn pressure_that_is_right_runs() {
    let project = project();
    project.run(&["run", CASE, "--out", "o", "--audit"]).ends_with(0);
    project.run(&["check", CASE]).ends_with(0);
    project.run(&["sweep", CASE, "--out", "s"]).ends_with(0);
    let json = project.text("o/summary.json");
    assert!(json.contains("\"highest\": \"normal\""), "{json}");
    let set = "policies.1.pressure.micro_batch=(min: 9)";
    let refused = project.run(&["run", CASE, "--set", set, "--out", "p"]).ends_with(2);
    refused.says(&["1 to 8 samples"]);
}
