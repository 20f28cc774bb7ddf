//! Files that nobody means well with, and that are too large to be kept: a clean error at once,
//! never a panic or a hang.

use crate::specs::project::{GOOD, Project, assert_says, edited};
use std::path::Path;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::scenario::sweep::read_sweep;

fn says(bytes: impl AsRef<[u8]>, expected: &str) {
    let project = Project::new();
    let path = project.write("scenarios/case.ron", bytes);
    for problems in [
        read_scenario(&path, &[]).unwrap_err(),
        read_sweep(&path, &[]).unwrap_err(),
        read_hardware(&path).unwrap_err(),
    ] {
        assert_says(&problems, &[expected]);
    }
}

#[test]
fn files_that_are_not_text_or_not_files() {
    says("", "case.ron:1:1: the file is empty");
    says(b"(a: 1,\n b: \xff)", "case.ron:2:5: the text is not UTF-8");
    says(vec![b' '; 2 << 20], "at most 1048576 bytes (found 2097152 bytes)");
    says([0u8; 64], "1:1: a value is expected here");
    let project = Project::new();
    let missing = read_scenario(&project.root.join("none.ron"), &[]).unwrap_err();
    assert_says(&missing, &["none.ron: the file cannot be read"]);
    assert_says(&read_scenario(&project.root, &[]).unwrap_err(), &["not a regular file"]);
    assert_says(&read_hardware(Path::new("/dev/zero")).unwrap_err(), &["not a regular file"]);
}

#[test]
fn deep_nesting_is_refused_at_once() {
    for bracket in ["(", "[", "{1:", "/*", "Some(", "(a:", "a("] {
        let expected = if bracket == "/*" { "never closed" } else { "deeper than 128 levels" };
        says(bracket.repeat(100_000), expected);
    }
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let text = edited("seed: 1", &format!("seed: {deep}"));
    assert_says(&Project::new().read(&text).unwrap_err(), &["a whole number must stand here"]);
}

#[test]
fn endless_repetition_is_refused_at_once() {
    says(format!("({})", "a:1,".repeat(200_000)), "field `a` is given twice");
    says(format!("{{{}}}", "1:1,".repeat(200_000)), "key `1` is given twice");
    says("#".repeat(1 << 20), "a value is expected");
    says(format!("r{}", "#".repeat(1 << 19)), "never closed");
    says("a/**/".repeat(200_000), "text after the end");
    let case = "(name:\"a\",policy:Lru(spill:[\"x\"])),";
    let text = edited("policies: [", &format!("policies: [{}", case.repeat(20_000)));
    assert_says(&Project::new().read(&text).unwrap_err(), &["at most 1000 policies"]);
    let text = edited("expect: [", &format!("expect: [{}", "fits(\"?\"),".repeat(50_000)));
    assert_says(&Project::new().read(&text).unwrap_err(), &["at most 1000 expectations"]);
}

#[test]
fn a_value_may_be_wrapped_as_an_option() {
    Project::new().read(&edited("seed: 1", "seed: Some(1)")).unwrap();
}

#[test]
fn a_path_may_lead_out_of_the_folder_and_back() {
    // Out of the scenario's folder and back into the project is fine.
    Project::new().read(&edited("\"traces/small\"", "\"../traces/./small\"")).unwrap();
    let text = edited(
        "\"h100-sxm-pcie5\",\n    cap",
        "\"../hardware-specs/h200-sxm-pcie5.ron\",\n    cap",
    );
    assert_eq!(Project::new().read(&text).unwrap().hardware.name, "h200-sxm-pcie5");
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_the_project() {
    let project = Project::new();
    std::os::unix::fs::symlink("/etc", project.root.join("traces/out")).unwrap();
    std::os::unix::fs::symlink("small", project.root.join("traces/in")).unwrap();
    std::os::unix::fs::symlink("loop", project.root.join("traces/loop")).unwrap();
    let spec = project.root.join("hardware-specs/evil.ron");
    std::os::unix::fs::symlink("/etc/passwd", spec).unwrap();
    let read = |name: &str| project.read(&edited("traces/small", &format!("traces/{name}")));
    assert_says(&read("out").unwrap_err(), &["follows a link out of the project"]);
    assert_says(&read("loop").unwrap_err(), &["the path cannot be read"]);
    read("in").unwrap();
    let text = edited("\"h100-sxm-pcie5\",\n    cap", "\"evil\",\n    cap");
    assert_says(&project.read(&text).unwrap_err(), &["follows a link out of the project"]);
}

#[test]
fn a_mistake_in_the_hardware_file_is_told_with_that_file() {
    let project = Project::new();
    let spec = std::fs::read_to_string(project.root.join("hardware-specs/seed-tiers.ron")).unwrap();
    project.write("hardware-specs/bad.ron", spec.replace("us(30)", "us(-30)"));
    let text = GOOD.replace("\"h100-sxm-pcie5\",\n    cap", "\"bad\",\n    cap");
    let problems = project.read(&text.replace("repeat: 3", "repeat: 0")).unwrap_err();
    assert_says(&problems, &["bad.ron:27:21: a time may not be negative", "case.ron:11:17"]);
}
