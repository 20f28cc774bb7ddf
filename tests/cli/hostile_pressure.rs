//! Memory pressure that nobody can mean: refused with its place, the rule and a remedy, and nothing
//! is written.

use crate::common::Project;
use crate::hostile::{CASE, COMMANDS, refused, refused_with, shipped_with};

const SCENARIO: &str = r#"Scenario(
    schema: 1,
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

#[track_caller]
fn check(from: &str, to: &str, pieces: &[&str]) {
    refused_with(SCENARIO, from, to, pieces);
}

#[test]
fn pressure_that_is_right_runs() {
    let project = project();
    project.run(&["run", CASE, "--out", "o", "--audit"]).ends_with(0);
    project.run(&["check", CASE]).ends_with(0);
    project.run(&["sweep", CASE, "--out", "s"]).ends_with(0);
    let json = String::from_utf8(project.files("o")["summary.json"].clone()).expect("text");
    assert!(json.contains("\"highest\": \"normal\""), "{json}");
    let set = "policies.1.pressure.micro_batch=(min: 9)";
    let refused = project.run(&["run", CASE, "--set", set, "--out", "p"]).ends_with(2);
    assert!(refused.stderr.contains("1 to 8 samples"), "{}", refused.stderr);
}

#[test]
fn thresholds_out_of_order_or_range_are_named_with_their_place() {
    let range = "a threshold must lie between 0.000001 and 1";
    for (from, to, pieces) in [
        (
            "warning: 0.92",
            "warning: 0.89",
            &["case.ron:26:52: `warning` must be above `target`"][..],
        ),
        ("warning: 0.92", "warning: 0.9", &["`warning` must be above `target`"]),
        ("warning: 0.92", "warning: 0.9000000001", &["by a millionth at least"]),
        ("critical: 0.95", "critical: 0.98", &["`emergency` must be above `critical`"]),
        ("emergency: 0.97", "emergency: 1.01", &[range, "found `1.01`"]),
        ("emergency: 0.97", "emergency: NaN", &["case.ron:26:"]),
        ("emergency: 0.97", "emergency: inf", &["case.ron:26:"]),
        ("target: 0.9,", "target: -0.1,", &[range]),
        ("target: 0.9,", "target: 0.0,", &[range]),
        ("target: 0.9,", "", &["case.ron:26:", "target"]),
        ("tier: \"hbm\",", "tier: \"hbm\", profile: balanced,", &["say the same thing"]),
        ("hysteresis: 0.02", "hysteresis: 0.9", &["must be below the target"]),
        ("hysteresis: 0.02", "hysteresis: -0.1", &["`hysteresis` must lie between 0 and 1"]),
        ("hysteresis: 0.02", "hysteresis: NaN", &["case.ron:27:"]),
    ] {
        check(from, to, pieces);
    }
}

#[test]
fn tiers_actions_and_words_that_do_not_exist_are_refused() {
    for (from, to, pieces) in [
        ("tier: \"hbm\"", "tier: \"hmb\"", &["case.ron:25:23: the hardware has no tier"][..]),
        ("spill: [\"dram\"]", "spill: [\"hbm\"]", &["objects leave this tier"]),
        ("spill: [\"dram\"]", "spill: [\"dram\", \"dram\"]", &["a tier is listed twice"]),
        ("spill: [\"dram\"]", "spill: [\"tape\"]", &["no tier of this name"]),
        ("[clean, shrink]", "[clean, shrink, clean]", &["an action is listed twice"]),
        ("[clean, shrink]", "[clean]", &["the micro-batch would never change"]),
        ("[clean, shrink]", "[pray]", &["pray"]),
        ("critical: [clean", "normal: [clean", &["normal"]),
        ("at_most: target", "at_most: high", &["high"]),
        ("at_most: target", "at_least: critical, at_most: target", &["this never holds"]),
    ] {
        check(from, to, pieces);
    }
    let no_batch = "actions: (critical: [shrink]), spill: [\"dram\"]";
    let project = project();
    project.edit_scenario("micro_batch: (min: 1, max: 8),", "");
    project.edit_scenario(
        "actions: (critical: [clean, shrink]),\n                spill: [\"dram\"]",
        no_batch,
    );
    project.edit_scenario(
        "sweep: (axes: [(name: \"least\", path: \"policies.1.pressure.micro_batch.min\", values: list([1, 2]))]),",
        "",
    );
    refused(&project, &COMMANDS, &["there is no `micro_batch`"]);
}

#[test]
fn micro_batches_that_cannot_be_are_refused() {
    let range = "1 to 8 samples";
    for (from, to, pieces) in [
        ("(min: 1, max: 8)", "(min: 4, max: 2)", &["`min` is not above `max`: 4 to 2"][..]),
        ("(min: 1, max: 8)", "(min: 1, max: 9)", &[range]),
        ("(min: 1, max: 8)", "(min: 1, max: 0)", &[range]),
        ("AllHbm, micro_batch: 2", "AllHbm, micro_batch: 0", &[range]),
        ("AllHbm, micro_batch: 2", "AllHbm, micro_batch: 9", &[range]),
        ("micro_batch: 4),", "micro_batch: 0),", &["`micro_batch` must lie between 1 and"]),
        ("repeat: 1", "repeat: 2", &["needs a run without replays", "repeat: 1"]),
        (
            "max: 8)",
            "max: 8, target_utilisation: 0.95)",
            &["must be below the threshold of `critical`"],
        ),
        ("max: 8)", "max: 8, target_utilisation: 1.5)", &["`target_utilisation` must lie between"]),
        ("max: 8)", "max: 8, target_utilisation: NaN)", &["case.ron:30:"]),
        ("max: 8)", "max: 8, adjustment_frequency: 0)", &["a frequency is a number of steps"]),
        ("max: 8),", "max: 8), clear_cache_frequency: 0,", &["a frequency is a number of steps"]),
        ("[16, 32]", "[]", &["a training has 1 to 1000 steps"]),
        ("[16, 32]", "[16, 0]", &["at least one token"]),
        ("[16, 32]", "[16, 1025]", &["positions"]),
        (
            "            policy: AllHbm,\n            p",
            "            policy: AllHbm, micro_batch: 2,\n            p",
            &["either fixed or changes"],
        ),
    ] {
        check(from, to, pieces);
    }
}

#[test]
fn a_recording_has_no_micro_batches() {
    let project = project();
    let text = SCENARIO.to_owned();
    let start = text.find("    workload:").expect("a workload");
    let end = text.find("    policies:").expect("policies");
    let recorded = "    workload: Trace(path: \"traces/gpt2-train-cpu\", time: recorded(), repeat: 1, warmup: 0),\n";
    project.write(CASE, format!("{}{recorded}{}", &text[..start], &text[end..]));
    let pieces = ["a recording is of one batch size", "Layered(..., mode: train_steps("];
    refused(&project, &COMMANDS, &pieces);
    let plain =
        SCENARIO.replace("train_steps(sequences: [16, 32], micro_batch: 4)", "train(sequence: 16)");
    project.write(CASE, plain);
    refused(&project, &COMMANDS, &["micro-batches belong to a training of several steps"]);
}
