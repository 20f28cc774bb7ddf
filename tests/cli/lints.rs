//! Warnings that only results show: told on stderr, and denied under a heading of their own.

use crate::common::*;

const RULE: &str = "offload-although-all-fits: results.";
const UNMET: &str = "expectation(s) do not hold";
const DENIED: &str = "warning(s) of the results are denied";
/// What cannot hold of the project's scenario.
const WRONG: &str = "expect=[faster(case: \"lru\", than: \"all\")]";

/// The scenario with two budgets: the first holds everything, the second does not.
fn with_sweep() -> Project {
    let project = Project::new();
    let budgets = "choices([(\"all\", \"mib(64)\"), (\"half\", \"share_of_peak(0.5)\")])";
    project.sweep(&format!("(name: \"budget\", path: \"policies.1.hbm\", values: {budgets})"));
    let adam = "access: migrate(prefetch_ops: 2))";
    project.edit_scenario(&format!("{adam})"), &format!("{adam}, hbm: mib(64))"));
    project
}

/// Ran as told, the command warns of what moved for nothing; denied, it ends with 1 for that alone.
#[track_caller]
fn warns_and_denies(project: &Project, command: &str) {
    let ran = project.run(&[command, CASE, "--out", "told"]).ends_with(0);
    let ran = ran.says(&["warning: case: ", RULE]);
    assert!(!ran.stderr.contains(UNMET) && !ran.stderr.contains(DENIED), "{}", ran.stderr);

    let args = [command, CASE, "--deny", "warnings", "--out", "denied"];
    let ran = project.run(&args).ends_with(1).says(&[DENIED, "case: ", RULE, "lower the case's"]);
    assert!(!ran.stderr.contains(UNMET), "every expectation holds: {}", ran.stderr);
    assert!(!ran.stderr.contains("warning: "), "said once: {}", ran.stderr);
    // The figures show what the warnings are about, so they are written, and the same.
    assert_eq!(project.files("told"), project.files("denied"));
    let summary = project.json("denied/summary.json");
    let warnings = summary["warnings"].as_array().expect("a list");
    assert!(ran.stderr.contains(&format!("{} {DENIED}:\n", warnings.len())), "{}", ran.stderr);

    let ran = project.run(&[&args[..], &["--set", WRONG]].concat()).ends_with(1);
    let (unmet, denied) = (ran.stderr.find(UNMET), ran.stderr.find(DENIED));
    assert!(unmet.is_some() && unmet < denied, "both, one after the other: {}", ran.stderr);
    let listed = ran.stderr.find(RULE);
    assert!(listed > denied, "warnings are no expectations: {}", ran.stderr);
}

#[test]
fn a_run_whose_cases_moved_for_nothing_is_denied() {
    warns_and_denies(&Project::new(), "run");
}

#[test]
fn a_sweep_whose_points_moved_for_nothing_is_denied() {
    warns_and_denies(&with_sweep(), "sweep");
}

/// Many points of a sweep that say the same are one line with their number; the summary has each.
#[test]
fn a_warning_of_many_results_is_said_once_with_their_number() {
    let project = Project::new();
    let ways = ["1", "2", "3"].map(|n| format!("(\"{n}\", \"migrate(prefetch_ops: {n})\")"));
    let ways = format!("choices([{}])", ways.join(", "));
    project
        .sweep(&format!("(name: \"ahead\", path: \"policies.1.policy.access\", values: {ways})"));
    let ran = project.run(&["sweep", CASE, "--out", "o"]).ends_with(0);
    let summary = project.json("o/summary.json");
    let warnings = summary["warnings"].as_array().expect("a list");
    let count = warnings.iter().filter(|one| one["rule"] == "offload-although-all-fits").count();
    assert!(count >= 3, "{summary}");
    assert_eq!(ran.stderr.matches(RULE).count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("; {count} times in all")), "{}", ran.stderr);
}

#[test]
fn what_had_to_move_is_not_denied() {
    let project = Project::new();
    let tight = ["--set", "policies.1.hbm=share_of_peak(0.75)"];
    let args = ["run", CASE, "--deny", "warnings"];
    let ran = project.run(&[&args[..], &tight].concat()).ends_with(0);
    assert_eq!(ran.stderr, "");
}

/// A sweep that anybody may try first: what it recommends is no end of its axes, and it warns of
/// nothing.
#[test]
fn the_shipped_threshold_sweep_has_its_best_inside() {
    let project = Project::shipped();
    let axis = |axis: usize, values: &str| format!("sweep.axes.{axis}.values={values}");
    let sets = [
        axis(0, "list([0.0, 0.5, 0.7, 0.75, 0.8, 1.0])"),
        axis(1, "list([0.0, 0.25, 0.5, 1.0])"),
        axis(2, "choices([(\"migrate\", \"migrate(prefetch_ops: 32)\")])"),
    ];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let args = ["sweep", "scenarios/gpt2-threshold-sweep.ron", "--out", "o"];
    let ran = project.run(&args.into_iter().chain(sets).collect::<Vec<_>>()).ends_with(0);
    assert_eq!(ran.stderr, "");
    let summary = project.json("o/summary.json");
    let results = summary["results"].as_array().expect("a list");
    let share = |case: &Value| case["params"]["HBM share"].as_f64().expect("a share");
    let step = |case: &Value| case["step_ms"]["mean"].as_f64();
    let ran = results.iter().filter_map(|case| Some((step(case)?, share(case))));
    let (_, best) = ran.min_by(|one, other| one.0.total_cmp(&other.0)).expect("one of them fits");
    assert!((0.5..0.8).contains(&best), "the best keeps {best} in HBM");
    let all = results.iter().find(|case| share(case) == 1.0).expect("all in HBM is tried");
    assert_eq!(all["oom"], true);
    assert_eq!(summary["warnings"], Value::Array(Vec::new()));
}
