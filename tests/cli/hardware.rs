//! `hardware`: lists what ships, shows and draws one machine, and says what it cannot find.

use crate::common::Project;

#[test]
fn the_list_has_every_machine() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "list"]).ends_with(0);
    let files = project.files("hardware-specs");
    let names = files.keys().filter_map(|name| name.strip_suffix(".ron"));
    for name in names.filter(|name| !name.contains('/')) {
        assert!(
            ran.stdout.contains(&format!("\n  {name} "))
                || ran.stdout.starts_with(&format!("  {name} ")),
            "{name}"
        );
    }
}

#[test]
fn a_machine_is_shown_with_every_source_and_drawn() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "show", "h100-sxm-pcie5", "--out", "h"]).ends_with(0);
    ran.shows(&[
        "nvme -> hbm",
        "stored in dram",
        "links.pcie.read",
        "measured  ",
        "pinned copy of",
    ]);
    assert_eq!(project.names("h"), ["machine.png", "machine.svg"]);
    let json =
        project.run(&["hardware", "show", "h100-sxm-pcie5", "--out", "j", "--format", "json"]);
    let json = json.ends_with(0).json();
    let numbers = json["numbers"].as_array().expect("a list");
    assert!(numbers.iter().all(|number| number["source"].as_str().is_some_and(|s| !s.is_empty())));
    assert_eq!(
        project.files("j"),
        project.files("h"),
        "the drawing does not depend on what is printed"
    );
}

#[test]
fn a_tier_that_answers_at_once_takes_any_number_of_requests() {
    let project = Project::new();
    project.edit("hardware-specs/small.ron", "setup: (us(1), ", "setup: (ns(0), ");
    let ran = project.run(&["hardware", "show", "small", "--out", "h"]).ends_with(0);
    ran.shows(&["any number of requests (assumed) of 128 B (assumed)"]);
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "show", "h300", "--out", "h"]).ends_with(2);
    ran.says(&["\"h300\": no machine of this name is in `hardware-specs` or ships", "known: a100"]);
    assert!(!project.path("h").exists());
    project.write("hardware-specs/broken.ron", "Hardware(schema: 2, about: \"x\", tiers: [])");
    let ran = project.run(&["hardware", "show", "broken", "--out", "h"]).ends_with(2);
    ran.says(&["broken.ron:1:"]);
}

/// The words of the field's guides, and the machines that they are.
const PRESETS: [(&str, &str, &str); 12] = [
    ("3090", "rtx-3090", "balanced"),
    ("4090", "rtx-4090", "balanced"),
    ("a100-40g", "a100-40g-pcie4", "balanced"),
    ("A100", "a100-80g-pcie4", "balanced"),
    ("h100", "h100-sxm-pcie5", "balanced"),
    ("h200", "h200-sxm-pcie5", "aggressive"),
    ("b200", "b200", "aggressive"),
    ("NVIDIA B300", "b300", "aggressive"),
    ("L40S", "l40s", "balanced"),
    ("mi300x", "mi300x", "aggressive"),
    ("laptop", "laptop-rtx-4080", "conservative"),
    ("workstation", "workstation-rtx-6000-ada", "balanced"),
];

/// A preset is a device, a host with processors and memory, a drive, their limits and a profile of
/// memory pressure, under one word wherever a machine is named.
#[test]
fn presets_are_whole_machines_under_one_word() {
    let project = Project::shipped();
    let scenario = r#"Scenario(schema: 2, about: "a preset", hardware: "WORD",
        workload: Model(model: "gpt2", precision: bf16,
            mode: train(batch: 2, sequence: 256, zero: (stage: 0, host_update: 1)),
            time: roofline(precision: "bf16"), repeat: 1, warmup: 0),
        policies: [
            (name: "state on the drive", policy: ZeroOffload(optimizer: "drive", gradients: "far")),
            (name: "PROFILE", policy: AllHbm, pressure: (tier: "near")),
        ])"#;
    // What is offloaded is not pinned unless a file says so: the machine says what that reaches.
    let offloads = r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": true}}"#;
    project.write("ds.json", offloads);
    project.write("plain.json", "{}");
    for (word, name, profile) in PRESETS {
        let shown = project.run(&["hardware", "show", word, "--format", "json"]).ends_with(0);
        let shown = shown.json();
        assert_eq!((&shown["name"], &shown["pressure"]), (&name.into(), &profile.into()));
        let tiers = shown["tiers"].as_array().expect("tiers");
        let kinds: Vec<&str> = tiers.iter().filter_map(|tier| tier["kind"].as_str()).collect();
        assert_eq!(kinds, ["device memory", "host DRAM", "NVMe"], "{word}");
        assert!(tiers.iter().all(|tier| tier["capacity"].as_u64() > Some(10 << 30)), "{word}");
        let numbers = shown["numbers"].as_array().expect("numbers").iter();
        let paths: Vec<&str> = numbers.filter_map(|number| number["path"].as_str()).collect();
        for path in ["compute.flops.bf16", "cpu.flops", "cpu.memory"] {
            assert!(paths.contains(&path), "{word}: {path}");
        }
        for file in ["ds.json", "plain.json"] {
            let words = ["from", "deepspeed", file, "--model", "gpt2", "--sequence", "64"];
            let ran = project.run(&[&words[..], &["--device", word, "--no-run"]].concat());
            ran.ends_with(0).shows(&[&format!("hardware: {name:?}")]);
        }
        project.write("preset.ron", scenario.replace("WORD", word).replace("PROFILE", profile));
        let out = ["run", "preset.ron", "--no-png", "--out", "there"];
        project.run(&out).ends_with(0);
        // The machine's profile is the one that a scenario spells out.
        let told = format!("(tier: \"near\", profile: {profile})");
        let spelled = scenario.replace("(tier: \"near\")", &told).replace("WORD", name);
        project.write("spelled/preset.ron", spelled.replace("PROFILE", profile));
        let out = ["run", "spelled/preset.ron", "--no-png", "--out", "again"];
        project.run(&out).ends_with(0);
        let of =
            |folder: &str| project.json(&format!("{folder}/summary.json"))["fingerprint"].clone();
        assert_eq!(of("there"), of("again"), "{word}");
    }
}
