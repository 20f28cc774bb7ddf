//! The same inputs and seed give the same bytes, however many threads work on them, and watching a
//! run does not change it.

use crate::common::*;

/// Figures of 50 points over the shipped trace, two replays each.
const SWEEP: &str = r#"Scenario(
    schema: 2,
    about: "where to cut, and how to touch what is elsewhere",
    hardware: "h100-sxm-pcie5",
    workload: Trace(
        path: "traces/gpt2-train-cpu", time: roofline(precision: "tf32"), repeat: 2, warmup: 1,
    ),
    policies: [
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.3, cpu: 0.5), access: migrate())),
    ],
    sweep: (axes: [
        (name: "hbm", path: "policies.0.policy.cut.hbm", values: range(from: 0.0, to: 0.4, step: 0.1)),
        (name: "cpu", path: "policies.0.policy.cut.cpu", values: range(from: 0.0, to: 0.4, step: 0.1)),
        (name: "access", path: "policies.0.policy.access", values: choices([
            ("in place", "in_place(charge: module_output)"),
            ("migrate", "migrate(prefetch_ops: 32)"),
        ])),
    ]),
)
"#;

type Files = BTreeMap<String, Vec<u8>>;

/// What a command writes and prints, twice each with 1, 2 and 8 threads, must be the same.
fn same_for_all_threads(project: &Project, args: &[&str]) -> Files {
    let mut first: Option<(Files, String)> = None;
    for jobs in ["1", "2", "8"] {
        for time in ["first", "second"] {
            let command = [args, &["--jobs", jobs, "--out", "o"]].concat();
            let ran = project.run(&command).ends_with(0);
            let files = project.files("o");
            std::fs::remove_dir_all(project.path("o")).unwrap();
            let (expected, printed) = first.get_or_insert((files.clone(), ran.stdout.clone()));
            assert_eq!(*printed, ran.stdout, "--jobs {jobs}, {time} time");
            same(expected, &files, &format!("--jobs {jobs}, {time} time"));
        }
    }
    first.unwrap().0
}

#[track_caller]
fn same(one: &Files, other: &Files, when: &str) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{when}");
    for (name, bytes) in one {
        assert!(*bytes == other[name], "{name} differs: {when}");
    }
}

#[test]
fn a_run_is_the_same_for_any_number_of_threads() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    let jitter = ["run", scenario, "--set", "workload.jitter=0.05"];
    let drawn = same_for_all_threads(&project, &jitter);
    project.run(&["run", scenario, "--out", "o"]).ends_with(0);
    assert_ne!(drawn["results.csv"], project.files("o")["results.csv"], "the jitter was drawn");
}

#[test]
fn a_sweep_is_the_same_for_any_number_of_threads() {
    let project = Project::shipped();
    project.write("scenarios/sweep.ron", SWEEP);
    let files = same_for_all_threads(&project, &["sweep", "scenarios/sweep.ron"]);
    let rows = String::from_utf8_lossy(&files["results.csv"]);
    assert_eq!(rows.lines().count(), 1 + 5 * 5 * 2, "one row per point");
}

/// Every point has a machine, a series and a line of the journal of its own, and all share a plan.
#[test]
fn a_sweep_over_rates_of_links_is_the_same_for_any_number_of_threads() {
    let project = Project::shipped();
    let rates: Vec<String> =
        (1..=8).map(|rate| format!("(\"{rate}\", \"gb_per_s({})\")", 10 * rate)).collect();
    let axis = |way: &str| {
        let values = rates.join(", ");
        format!(
            "(name: \"{way}\", path: \"hardware.links.pcie.{way}\", values: choices([{values}])),\n"
        )
    };
    let (head, _) = SWEEP.split_once("    sweep:").unwrap();
    let axes = ["read", "write"].map(axis).concat();
    project.write("scenarios/rates.ron", format!("{head}    sweep: (axes: [\n{axes}]),\n)\n"));
    let files = same_for_all_threads(&project, &["sweep", "scenarios/rates.ron", "--no-png"]);
    let rows = String::from_utf8_lossy(&files["results.csv"]);
    assert_eq!(rows.lines().count(), 1 + 8 * 8, "one row per point");
}

#[test]
fn a_micro_batch_that_follows_pressure_is_the_same_for_any_number_of_threads() {
    let project = Project::shipped();
    let shorter = "[288, 432, 592, 720, 960, 512, 256, 256]";
    let set = format!("workload.mode.sequences={shorter}");
    let scenario = "scenarios/pressure-dynamic-batch.ron";
    let expect = ["--set", "expect=[out_of_memory(\"8\")]"];
    let args = [&["run", scenario, "--set", &set][..], &expect].concat();
    let files = same_for_all_threads(&project, &args);
    let timeline = String::from_utf8_lossy(&files["timeline.json"]);
    assert!(timeline.contains("\"name\":\"shrink 8 -> 4\",\"cat\":\"pressure\",\"ph\":\"i\""));
    assert!(timeline.contains("\"name\":\"step 7\",\"cat\":\"step\",\"ph\":\"X\""));
}

#[test]
fn watching_a_run_does_not_change_it() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    let jitter = ["--set", "workload.jitter=0.05"];
    for (out, more) in [("plain", &[] as &[&str]), ("watched", &["--audit"])] {
        let args = [&["run", scenario, "--out", out][..], &jitter, more].concat();
        project.run(&args).ends_with(0);
    }
    same(&project.files("plain"), &project.files("watched"), "with and without --audit");
}
