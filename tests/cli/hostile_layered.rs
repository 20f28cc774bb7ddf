//! A generated workload that is right runs, and a sweep over its shapes has a limit. Shapes that
//! nobody can build are in `tests/errors`.

use crate::common::Project;
use crate::hostile::{CASE, refused, shipped_with};

/// A generated workload, one field per line so that a place names one.
const SCENARIO: &str = r#"Scenario(
    schema: 2,
    about: "a small shape",
    hardware: "h200-sxm-pcie5",
    workload: Layered(
        family: llama,
        layers: 2,
        hidden: 64,
        ffn: 96,
        heads: 4,
        kv_heads: 2,
        vocab: 100,
        precision: bf16,
        batch: 2,
        mode: train(sequence: 16),
        time: roofline(precision: "bf16"),
        repeat: 2,
    ),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5))),
    ],
    sweep: (axes: [(name: "layers", path: "workload.layers", values: list([1, 2, 4]))]),
    seed: 1,
    expect: [fits("all")],
)
"#;

fn project() -> Project {
    shipped_with(SCENARIO)
}

#[test]
fn a_shape_that_is_right_runs() {
    let project = project();
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    project.run(&["check", CASE]).ends_with(0);
    project.run(&["sweep", CASE, "--out", "s"]).ends_with(0);
    let text = project.text("s/results.csv");
    assert_eq!(text.lines().count(), 1 + 3 * 2, "{text}");
    project.run(&["run", CASE, "--set", "workload.batch=4", "--out", "o"]).ends_with(0);
}

/// Each shape is small, all of them together are not.
#[test]
fn a_sweep_over_shapes_has_a_limit() {
    let project = project();
    let values = "sweep.axes.0.values=range(from: 1, to: 1000, step: 1)";
    let sweep: &[&str] = &["sweep", CASE, "--set", values, "--out", "s"];
    refused(&project, &[sweep], &["all generated traces together have at most 400000 ops"]);
}
