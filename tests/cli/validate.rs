//! `validate`: the shipped scenario agrees on real memory, and what it writes is complete.

use crate::common::Project;
use serde_json::Value;

const SMOKE: &str = "scenarios/validation/host-smoke.ron";

#[test]
fn simulator_and_host_agree_on_the_smoke_scenario() {
    let project = Project::shipped();
    let args = ["validate", SMOKE, "--machine", "host", "--repeat-runs", "2", "--out", "v"];
    let ran = project.run(&args).ends_with(0);
    assert!(ran.stdout.contains("contents agree"), "{}", ran.stdout);
    let files = project.files("v");
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["validation.csv", "validation.json"], "and no file of a tier is left");
    let json: Value = serde_json::from_slice(&files["validation.json"]).expect("valid JSON");
    let cases = json["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 7);
    for case in cases {
        assert_eq!((&case["agree"], &case["mismatches"]), (&Value::from(true), &Value::from(0)));
        assert!(case["checks"].as_u64() > Some(0), "{case}");
        let ran = case["times"].as_array().expect("a list");
        // Six measured steps and three phases.
        assert_eq!(ran.len(), 9);
    }
    let moved = |case: usize, lane: &str| cases[case]["moved_bytes"][lane].as_u64();
    assert_eq!(moved(0, "dram->hbm"), Some(0));
    assert!(moved(4, "nvme->dram") > Some(0), "{}", cases[4]);
    let rows = String::from_utf8(files["validation.csv"].clone()).expect("text");
    assert_eq!(rows.lines().count(), 1 + 7 * 9);
}

/// The files of the set that any computer can run: every policy, access mode and tier.
#[test]
fn simulator_and_host_agree_on_the_set_scaled_down() {
    let project = Project::shipped();
    for name in ["host-train", "host-decode"] {
        let file = format!("scenarios/validation/{name}.ron");
        let args = ["validate", &file, "--machine", "host", "--repeat-runs", "1", "--out", name];
        project.run(&args).ends_with(0);
        let json = &project.files(name)["validation.json"];
        let json: Value = serde_json::from_slice(json).expect("valid JSON");
        let cases = json["cases"].as_array().expect("a list");
        assert_eq!(cases.len(), 14);
        for case in cases {
            assert_eq!((&case["fits"], &case["agree"]), (&Value::from(true), &Value::from(true)));
            assert_eq!(case["mismatches"], Value::from(0), "{case}");
        }
    }
}

#[test]
fn a_machine_that_is_not_there_is_said_and_nothing_is_written() {
    let project = Project::shipped();
    let args = ["validate", SMOKE, "--machine", "cuda", "--out", "v"];
    project.run(&args).ends_with(2).says(&["--machine cuda", "--machine host"]);
    assert!(project.files("v").is_empty());
}

#[test]
fn a_case_that_is_not_there_is_bad_input() {
    let project = Project::shipped();
    let args = ["validate", SMOKE, "--machine", "host", "--policy", "none", "--out", "v"];
    project.run(&args).ends_with(2).says(&["\"none\"", "\"all in HBM\""]);
    assert!(project.files("v").is_empty());
}

#[test]
fn a_scratch_folder_that_cannot_be_is_bad_input() {
    let project = Project::shipped();
    project.write("file", "not a folder");
    let args = ["validate", SMOKE, "--machine", "host", "--scratch", "file/in", "--out", "v"];
    project.run(&args).ends_with(2).says(&["file/in", "--scratch"]);
    assert!(project.files("v").is_empty());
}
