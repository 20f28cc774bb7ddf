//! Generated workloads that are right run, watched or not, and a sweep over shapes has a limit.
//! Shapes that nobody can build and pressure that nobody can mean are in `tests/errors`.

use crate::common::*;
use crate::hostile::{refused, shipped_with};

/// A generated workload, one field per line so that a place names one.
const SHAPE: &str = r#"Scenario(
    schema: 2,
    about: "a small shape",
    hardware: "h200-sxm-pcie5",
    workload: Model(
        card: (family: llama, layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads: 2, vocab: 100),
        precision: bf16,
        mode: train(batch: 2, sequence: 16),
        time: roofline(precision: "bf16"),
        repeat: 2,
    ),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5))),
    ],
    sweep: (axes: [(name: "layers", path: "workload.card.layers", values: list([1, 2, 4]))]),
    seed: 1,
    expect: [fits("all")],
)
"#;

const WATCHED: &str = r#"Scenario(
    schema: 2,
    about: "a watched model",
    hardware: "h100-sxm-pcie5",
    workload: Model(
        card: (family: gpt2, layers: 2, hidden: 64, ffn: 96, heads: 4, vocab: 100),
        precision: bf16,
        mode: train(batch: 8, sequences: [16, 32], micro_batch: 4),
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

/// A project whose scenario runs under audit, is checked and is swept.
fn ran(scenario: &str) -> Project {
    let project = shipped_with(scenario);
    project.run(&["run", CASE, "--out", "o", "--audit"]).ends_with(0);
    project.run(&["check", CASE]).ends_with(0);
    project.run(&["sweep", CASE, "--out", "s"]).ends_with(0);
    project
}

#[test]
fn a_shape_that_is_right_runs() {
    let project = ran(SHAPE);
    let text = project.text("s/results.csv");
    assert_eq!(text.lines().count(), 1 + 3 * 2, "{text}");
    project.run(&["run", CASE, "--set", "workload.mode.batch=4", "--out", "o"]).ends_with(0);
}

/// Each shape is small, all of them together are not.
#[test]
fn a_sweep_over_shapes_has_a_limit() {
    let project = shipped_with(SHAPE);
    let values = "sweep.axes.0.values=range(from: 1, to: 1000, step: 1)";
    let sweep: &[&str] = &["sweep", CASE, "--set", values, "--out", "s"];
    refused(&project, &[sweep], &["all generated traces together have at most 300000 ops"]);
}

#[test]
fn pressure_that_is_right_runs() {
    let project = ran(WATCHED);
    let json = project.text("o/summary.json");
    assert!(json.contains("\"highest\": \"normal\""), "{json}");
    let set = "policies.1.pressure.micro_batch=(min: 9)";
    let refused = project.run(&["run", CASE, "--set", set, "--out", "p"]).ends_with(2);
    refused.says(&["1 to 8 samples"]);
}
