//! Files that nobody means well with: a clean error at once, never a panic or a hang.

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
fn numbers_that_are_none() {
    for (number, expected) in [
        ("NaN", "must be a finite number"),
        ("inf", "must be a finite number"),
        ("-inf", "must be a finite number"),
        ("1e400", "must be a finite number"),
        ("-1", "may not be negative"),
        ("-0.001", "may not be negative"),
        ("1e200", "must lie between"),
        ("\"2\"", "a number must stand here"),
    ] {
        let text = edited("gib(2)}", &format!("gib({number})}}"));
        assert_says(&Project::new().read(&text).unwrap_err(), &["case.ron:6:2", expected]);
    }
    for (from, to) in [
        ("seed: 1", "seed: -1"),
        ("seed: 1", "seed: 1e3"),
        ("seed: 1", "seed: 1.5"),
        ("repeat: 3", "repeat: 5000000000"),
    ] {
        assert_says(&Project::new().read(&edited(from, to)).unwrap_err(), &["whole number"]);
    }
}

#[test]
fn quantities_without_a_unit() {
    for (from, to, expected) in [
        ("gib(2)}", "2}", "6:23: a size needs its unit (found `2`); write gib(80) or gb(80)"),
        ("gib(2)}", "2e9}", "a size needs its unit"),
        ("gib(2)}", "gigs(2)}", "`gigs` is not a unit of a size (found `gigs(2)`)"),
        ("gib(2)}", "NaN}", "a size needs its unit"),
        ("ms(30)", "30", "a time needs its unit"),
    ] {
        assert_says(&Project::new().read(&edited(from, to)).unwrap_err(), &[expected]);
    }
}

#[test]
fn unknown_and_missing_fields() {
    for (from, to, expected) in [
        ("seed: 1", "sede: 1", "37:5: `Scenario` has no field `sede`"),
        ("seed: 1", "sede: 1", "did you mean `seed`?"),
        (
            "repeat: 3",
            "repeats: 3",
            "did you mean `repeat`? known: path, time, repeat, warmup, jitter",
        ),
        ("cut: shares(hbm: 0.3, cpu: 0.5),", "", "16:32: the field `cut` is missing"),
        ("cpu: 0.5", "gpu: 0.5", "has no field `gpu`"),
        ("prefetch_ops: 8", "prefetch: 8", "has no field `prefetch`"),
        ("step: 0.05", "stride: 0.05", "has no field `stride`"),
        ("Scenario(", "Hardware(", "2:1: a scenario is wanted here, and this is a machine"),
        (
            "{\"hbm\": gib(2)}",
            "{\"hbm\": gib(2), \"hbm\": gib(3)}",
            "6:31: key `hbm` is given twice",
        ),
        ("seed: 1", "seed: 1, seed: 2", "37:14: field `seed` is given twice"),
    ] {
        assert_says(&Project::new().read(&edited(from, to)).unwrap_err(), &[expected]);
    }
}

#[test]
fn values_of_the_wrong_form() {
    for (from, to, expected) in [
        ("policy: AllHbm", "policy: AllHbm()", "15:35: `AllHbm` takes no brackets"),
        ("policy: Lru()", "policy: Lru", "25:37: `Lru` needs its brackets"),
        ("policy: AllHbm", "policy: \"AllHbm\"", "15:35: a word must stand here"),
        ("\"h100-sxm-pcie5\",\n    cap", "h100,\n    cap", "a string in double quotes must stand"),
        ("kinds: [weight]", "kinds: weight", "a list must stand here"),
        ("hbm: 0.3", "hbm: gib(3)", "17:30: a number must stand here (found `gib(3)`)"),
        ("{\"hbm\": gib(2)}", "[gib(2)]", "a map must stand here"),
        ("fits(\"all-hbm\")", "fit(\"all-hbm\")", "`fit` is not an expectation"),
        ("workload: Trace(", "workload: Modell(", "`Modell` is not a workload"),
    ] {
        assert_says(&Project::new().read(&edited(from, to)).unwrap_err(), &[expected]);
    }
    Project::new().read(&edited("seed: 1", "seed: Some(1)")).unwrap();
}

#[test]
fn paths_stay_in_the_project() {
    for (path, expected) in [
        ("/etc", "8:15: a path in a scenario must be relative"),
        ("../../../../../../../../../../../../etc", "the path leads out of the project"),
        ("../..", "the path leads out of the project"),
        ("", "a path may not be empty"),
        ("nowhere", "there is no such file or folder"),
        ("traces/../../../etc", "the path leads out of the project"),
    ] {
        let text = edited("\"traces/small\"", &format!("\"{path}\""));
        assert_says(&Project::new().read(&text).unwrap_err(), &[expected]);
    }
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
