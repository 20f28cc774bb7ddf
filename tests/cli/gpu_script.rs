//! `validation/run-on-gpu.sh` as people will call it: on the host in short, and without a GPU.

use crate::common::*;
use std::process::{Command, Output};

/// Runs the script on a project, with the binary under test.
fn script(project: &Project, args: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.arg(shipped("validation/run-on-gpu.sh")).args(args);
    command.args(["--tiersim", env!("CARGO_BIN_EXE_tiersim"), "--project"]);
    command.arg(&project.root).current_dir(&project.root);
    command.output().expect("bash is there")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_device_it_says_so_in_clear_words_and_ends_with_2() {
    if Path::new("/proc/driver/nvidia").exists() {
        println!("not run: this computer has an NVIDIA driver");
        return;
    }
    let project = Project::shipped();
    let ran = script(&project, &["--out", "o"]);
    assert_eq!(ran.status.code(), Some(2), "{}", said(&ran.stdout));
    let words = said(&ran.stderr);
    assert!(words.contains("--machine cuda") && words.contains("nothing was measured"), "{words}");
    let files = project.files("o");
    assert!(said(&files["environment.txt"]).contains("there is no nvidia-smi here"));
    assert!(!files.contains_key("README.md"), "there is nothing to write up");
}

#[test]
fn a_step_that_fails_is_recorded_and_the_next_one_runs() {
    let project = Project::shipped();
    // Two scenarios, one of which asks for what nobody has.
    let smoke = "scenarios/validation/host-smoke.ron";
    // One measured replay of two steps, in each of seven cases.
    project.edit(smoke, "repeat: 4", "repeat: 2");
    let text = said(&project.files("scenarios/validation")["host-smoke.ron"]);
    let broken = text.replace("traces/tiny-train", "traces/not-there");
    project.write("scenarios/validation/host-broken.ron", broken);
    for other in ["host-train", "host-decode"] {
        let _ = std::fs::remove_file(project.path(&format!("scenarios/validation/{other}.ron")));
    }
    let args = ["--machine", "host", "--quick", "--worlds", "3", "--soak", "1", "--out", "o"];
    let earlier = shipped("validation/results/2026-11-21-host/calibration/2026-11-21-host.ron");
    let earlier = earlier.to_str().expect("a path in UTF-8");
    let ran = script(&project, &[&args[..], &["--spec", earlier]].concat());
    assert_eq!(ran.status.code(), Some(1), "{}{}", said(&ran.stdout), said(&ran.stderr));
    let files = project.files("o");
    let steps = said(&files["steps.txt"]);
    let step = |name: &str| {
        let line = steps.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("no step {name}:\n{steps}")).contains("passed")
    };
    assert!(step("conform") && step("soak") && step("validate-host-smoke"), "{steps}");
    assert!(!step("validate") && !step("validate-host-broken"), "{steps}");
    let readme = said(&files["README.md"]);
    assert!(readme.contains("error of 14 steps: median"), "{readme}");
    assert!(readme.contains("a spec that an earlier run measured on this machine"), "{readme}");
    for name in ["conform/conform.json", "validate-host-smoke/report.html", "soak/conform.json"] {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
    assert!(!files.keys().any(|name| name.starts_with("project") || name.starts_with("scratch")));
}

#[test]
fn bad_arguments_end_with_2_before_anything_is_written() {
    let project = Project::shipped();
    for (args, words) in [
        (["--machine", "abacus"], "use cuda or host"),
        (["--budget", "soon"], "give a whole number above 0"),
        (["--frobnicate", "1"], "unknown argument"),
        (["--out", "scenarios"], "is there already"),
        (["--spec", "not-there.ron"], "no such file"),
    ] {
        let ran = script(&project, &args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        assert!(said(&ran.stderr).contains(words), "{args:?}: {}", said(&ran.stderr));
    }
    assert!(project.files("out").is_empty());
}
