//! `validate`: the shipped scenario agrees on real memory, and what it writes is complete.

use crate::common::*;

const SMOKE: &str = "scenarios/validation/host-smoke.ron";
const FILES: [&str; 5] = [
    "predicted-vs-measured.png",
    "predicted-vs-measured.svg",
    "report.html",
    "validation.csv",
    "validation.json",
];

#[test]
fn simulator_and_host_agree_on_the_smoke_scenario() {
    let project = Project::shipped();
    let args = ["validate", SMOKE, "--machine", "host", "--repeat-runs", "2", "--out", "v"];
    project.run(&args).ends_with(0).shows(&["contents agree", "all 7 cases that fit"]);
    assert_eq!(project.names("v"), FILES, "and no file of a tier is left");
    let json = project.json("v/validation.json");
    let cases = json["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 7);
    for case in cases {
        assert_eq!((&case["agree"], &case["mismatches"]), (&Value::from(true), &Value::from(0)));
        assert!(case["checks"].as_u64() > Some(0), "{case}");
        let ran = case["times"].as_array().expect("a list");
        // Six measured steps and three phases, at the least.
        let of = |class: &str| ran.iter().filter(|row| row["class"] == class).count();
        assert_eq!((of("step"), of("ops")), (6, 3));
        // Use in place is run for real as well, and nothing else is.
        let in_place = case["in_place"] == "emulated";
        assert_eq!(in_place, case["case"] == "Adam 50 %, in place");
        assert_eq!(in_place, case["real"].is_object(), "{case}");
        assert_eq!(in_place, case["charged_ms"].as_f64() > Some(0.0));
        if in_place {
            let real = case["real"]["times"].as_array().expect("a list");
            assert_eq!(real.len(), ran.len());
            assert_eq!(case["real"]["mismatches"], 0);
        }
    }
    let moved = |case: usize, channel: &str| cases[case]["moved_bytes"][channel].as_u64();
    assert_eq!(moved(0, "dram->hbm"), Some(0));
    assert!(moved(4, "nvme->dram") > Some(0), "{}", cases[4]);
    let rows = |case: &Value| {
        let real = case["real"]["times"].as_array().map_or(0, Vec::len);
        case["times"].as_array().map_or(0, Vec::len) + real
    };
    let table = project.text("v/validation.csv");
    assert_eq!(table.lines().count(), 1 + cases.iter().map(rows).sum::<usize>());
    // All cases together: six steps each.
    let overall = |of: &str| {
        let all = json["overall"].as_array().expect("a list").iter();
        all.filter(|errors| errors["of"] == of).map(|errors| errors["count"].as_u64()).next()
    };
    assert_eq!(overall("steps"), Some(Some(7 * 6)));
    assert_eq!(overall("steps with real use in place"), Some(Some(6)));
    assert_eq!(json["scenarios"][0]["numbers"]["assumed"], json["assumed_numbers"]);
    described(&json);
}

/// Every key that is written stands in the page about it.
fn described(json: &Value) {
    let page = page("docs/howto/validation.md");
    let known = |key: &str| ["`", "[]`"].iter().any(|end| page.contains(&format!("`{key}{end}")));
    let mut missing = Vec::new();
    let mut look = |value: &Value| {
        let keys = value.as_object().expect("an object").keys();
        missing.extend(keys.filter(|key| !known(key)).cloned());
    };
    look(json);
    for list in ["cases", "scenarios", "overall"] {
        look(&json[list][0]);
    }
    look(&json["step_spread"]);
    look(&json["scenarios"][0]["facts"][0]);
    let used_in_place = json["cases"].as_array().expect("a list");
    let used_in_place = used_in_place.iter().find(|case| case["real"].is_object());
    look(&used_in_place.expect("one of them is used in place")["real"]);
    look(&json["cases"][0]["times"][0]);
    look(&json["cases"][0]["errors"][0]);
    assert!(
        missing.is_empty(),
        "docs/howto/validation.md does not say what these are: {missing:?}"
    );
}

#[test]
fn several_scenarios_have_a_folder_each_and_one_summary() {
    let project = Project::shipped();
    let about = "do plans on real memory do what the simulator says?";
    let hostile = "<script>alert(1)</script> & \\\"so on\\\"";
    let text = project.text(SMOKE).replace(about, hostile);
    project.write("scenarios/validation/other.ron", text.replace("LRU 50 %", "<b>LRU 50 %</b>"));
    let other = "scenarios/validation/other.ron";
    let args = ["validate", SMOKE, other, "--machine", "host", "--repeat-runs", "1", "--out", "v"];
    let args = [&args[..], &["--policy", "all in HBM", "--seed", "9"]].concat();
    project.run(&args).ends_with(0);
    let files = project.files("v");
    for folder in ["", "host-smoke/", "other/"] {
        for name in FILES {
            assert!(files.contains_key(&format!("{folder}{name}")), "{folder}{name}");
        }
    }
    assert_eq!(files.len(), 3 * FILES.len() + 2, "and nothing else: {:?}", files.keys());
    let [all, one] = ["", "other/"].map(|part| project.json(&format!("v/{part}validation.json")));
    assert_eq!(all["cases"].as_array().map(Vec::len), Some(2));
    assert_eq!(all["cases"][1], one["cases"][0]);
    assert_eq!((&all["scenario"], &one["scenario"]), (&Value::Null, &Value::from("other")));
    assert_eq!((&all["overall"][0]["count"], &one["overall"][0]["count"]), (&12.into(), &6.into()));
    assert_eq!(one["scenarios"][0]["seed"], 9);
    for name in ["report.html", "other/report.html"] {
        let page = project.text(&format!("v/{name}"));
        // One is the page's own.
        let scripts = page.matches("<script").count();
        assert!(scripts == 1 && page.contains("&lt;script&gt;"), "{name}: {scripts}");
    }
}

#[test]
fn two_scenarios_of_one_name_are_refused_before_anything_runs() {
    let project = Project::shipped();
    let args = ["validate", SMOKE, SMOKE, "--machine", "host", "--out", "v"];
    project.run(&args).ends_with(2).says(&["host-smoke"]);
    assert!(project.files("v").is_empty());
}

/// The files of the set that any computer can run: every policy, access mode and tier.
#[test]
fn simulator_and_host_agree_on_the_set_scaled_down() {
    let project = Project::shipped();
    for name in ["host-train", "host-decode"] {
        let file = format!("scenarios/validation/{name}.ron");
        let args = ["validate", &file, "--machine", "host", "--repeat-runs", "1", "--out", name];
        project.run(&args).ends_with(0);
        let json = project.json(&format!("{name}/validation.json"));
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

#[test]
fn a_budget_that_no_machine_has_is_said_before_anything_runs() {
    let project = Project::shipped();
    let text = project.text(SMOKE).replace("share_of_peak(0.5)", "share_of_peak(9.5)");
    project.write("scenarios/validation/other.ron", text);
    let other = "scenarios/validation/other.ron";
    let args = ["validate", SMOKE, other, "--machine", "host", "--out", "v"];
    project.run(&args).ends_with(2).says(&["share_of_peak"]);
    assert!(project.files("v").is_empty(), "not even of the scenario before it");
}

#[test]
fn what_several_devices_do_together_is_only_simulated() {
    let project = Project::shipped();
    let hardware = project.text("hardware-specs/host-smoke.ron");
    let two = hardware.replacen("schema: 2,", "schema: 2,\n    server: (devices: 2),", 1);
    project.write("hardware-specs/two.ron", two);
    let scenario = project.text(SMOKE).replacen("\"host-smoke\"", "\"two\"", 1);
    let ranks = |number: &str| {
        scenario.replacen("workload: Trace(", &format!("workload: Trace(ranks: {number}, "), 1)
    };
    assert_ne!(ranks("2"), scenario);
    project.write("scenarios/two.ron", ranks("2"));
    project.write("scenarios/three.ron", ranks("3"));
    project.run(&["check", "scenarios/two.ron"]).ends_with(0);
    let args = ["validate", "scenarios/two.ron", "--machine", "host", "--out", "v"];
    project.run(&args).ends_with(2).says(&["several devices run this trace"]);
    assert!(project.files("v").is_empty());
    let three = project.run(&["check", "scenarios/three.ron"]);
    three.ends_with(2).says(&["a server of this hardware has 2 devices"]);
    let shown = project.run(&["hardware", "show", "two"]).ends_with(0);
    assert!(shown.stdout.contains("server: 2 devices"), "{}", shown.stdout);
}
