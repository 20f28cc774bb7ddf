//! Shapes that nobody can build, or that would fill the memory: refused with their place, as every
//! other mistake of a scenario, and nothing is written.

use crate::common::Project;
use crate::hostile::{CASE, COMMANDS, refused, refused_with, shipped_with};

/// A generated workload, one field per line so that a place names one.
const SCENARIO: &str = r#"Scenario(
    schema: 1,
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

#[track_caller]
fn check(from: &str, to: &str, pieces: &[&str]) {
    refused_with(SCENARIO, from, to, pieces);
}

#[test]
fn a_shape_that_is_right_runs() {
    let project = project();
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    project.run(&["check", CASE]).ends_with(0);
    project.run(&["sweep", CASE, "--out", "s"]).ends_with(0);
    let text = String::from_utf8(project.files("s")["results.csv"].clone()).expect("text");
    assert_eq!(text.lines().count(), 1 + 3 * 2, "{text}");
    project.run(&["run", CASE, "--set", "workload.batch=4", "--out", "o"]).ends_with(0);
}

#[test]
fn numbers_out_of_range_are_named_with_their_place() {
    for (from, to, pieces) in [
        ("layers: 2", "layers: 0", &["case.ron:7:17: `layers` must lie between 1 and 10000"][..]),
        ("layers: 2", "layers: 10001", &["case.ron:7:17: `layers`", "found `10001`"]),
        (
            "layers: 2",
            "layers: 10000",
            &["case.ron:7:17: ", "at most 100000 ops", "fewer `layers`"],
        ),
        ("layers: 2", "layers: 99999999999", &["case.ron:7:17: ", "write a smaller one"]),
        ("layers: 2", "layers: -1", &["case.ron:7:17: ", "from 0 up"]),
        ("layers: 2", "layers: 2.5", &["case.ron:7:17: a whole number must stand here"]),
        ("layers: 2", "layers: NaN", &["case.ron:7:17: "]),
        ("hidden: 64", "hidden: 4000000000", &["case.ron:8:17: `hidden` must lie between"]),
        ("vocab: 100", "vocab: 0", &["case.ron:12:16: `vocab` must lie between"]),
        ("sequence: 16", "sequence: 0", &["case.ron:15:31: `sequence` must lie between"]),
        ("batch: 2", "batch: 0", &["case.ron:14:16: `batch` must lie between"]),
    ] {
        check(from, to, pieces);
    }
}

#[test]
fn numbers_that_do_not_fit_together_are_refused() {
    for (from, to, pieces) in [
        (
            "heads: 4",
            "heads: 5",
            &["case.ron:10:16: `heads` must divide `hidden`, which is 64"][..],
        ),
        ("kv_heads: 2", "kv_heads: 3", &["case.ron:11:19: `kv_heads` must divide `heads`"]),
        ("vocab: 100", "vocab: 100, positions: 8", &["case.ron:12:32: ", "has no table"]),
        ("family: llama", "family: gpt2, positions: 8", &["case.ron:15:31: ", "which is 8"]),
        (
            "train(sequence: 16)",
            "decode(context: 4, tokens: 5)",
            &["case.ron:15:42: `tokens` must fit into `context`, which is 4"],
        ),
        (
            "train(sequence: 16)",
            "decode(context: 60000000, tokens: 60000000)",
            &["case.ron:15:", "at most 100000 ops", "generate fewer"],
        ),
    ] {
        check(from, to, pieces);
    }
}

#[test]
fn words_and_fields_that_do_not_exist_are_refused() {
    for (from, to, pieces) in [
        ("family: llama", "family: bert", &["case.ron:6:17: `bert`", "known: gpt2, llama"][..]),
        ("precision: bf16", "precision: fp4", &["case.ron:13:20: `fp4`", "fp32, bf16, fp16"]),
        (
            "train(sequence: 16)",
            "prefill(sequence: 16)",
            &["case.ron:15:", "train, train_steps, decode"],
        ),
        ("train(sequence: 16)", "train(tokens: 16)", &["case.ron:15:", "`tokens`"]),
        ("layers: 2", "layer: 2", &["case.ron:7:9: ", "did you mean `layers`?"]),
        ("        ffn: 96,\n", "", &["the field `ffn` is missing"]),
        (
            "roofline(precision: \"bf16\")",
            "recorded(scale: 1.0)",
            &["case.ron:16:15: a generated trace has no recorded durations", "roofline("],
        ),
        ("repeat: 2", "repeat: 2, jitter: NaN", &["`jitter` must lie between 0 and 1"]),
    ] {
        check(from, to, pieces);
    }
}

/// Every number is within its range, and together they are more than 64 bits or any tier hold.
#[test]
fn giants_are_refused_without_being_built() {
    let project = project();
    project.edit_scenario("hidden: 64", "hidden: 1048576");
    project.edit_scenario("sequence: 16", "sequence: 60000000");
    refused(&project, &COMMANDS, &["case.ron:14:16: ", "must stay below 2^64", "smaller `batch`"]);
    let project = self::project();
    project.edit_scenario("hidden: 64", "hidden: 1048576");
    project.edit_scenario("vocab: 100", "vocab: 60000000");
    let pieces = ["workload Layered(...): object \"embed_tokens.weight\" fits in no tier"];
    refused(&project, &COMMANDS, &pieces);
}

/// Each shape is small, all of them together are not.
#[test]
fn a_sweep_over_shapes_has_a_limit() {
    let project = project();
    let values = "sweep.axes.0.values=range(from: 1, to: 1000, step: 1)";
    let sweep: &[&str] = &["sweep", CASE, "--set", values, "--out", "s"];
    refused(&project, &[sweep], &["all generated traces together have at most 400000 ops"]);
}
