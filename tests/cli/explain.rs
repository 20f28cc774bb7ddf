//! `explain`: its files add up, its answers are those of separate runs, and what cannot be
//! explained says so.

use crate::common::*;

const FILES: [&str; 8] = [
    "critical-path.csv",
    "elasticities.png",
    "elasticities.svg",
    "explain.json",
    "split-by-phase.png",
    "split-by-phase.svg",
    "step-gantt.png",
    "step-gantt.svg",
];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

#[test]
fn files_add_up_and_say_the_same_as_stdout() {
    let project = Project::new();
    let ran = project.run(&["explain", "scenarios/case.ron", "--case", "lru", "--format", "json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(project.names("out/case-explain"), FILES);
    assert_eq!(ran.stdout, project.text("out/case-explain/explain.json"));
    let all = project.json("out/case-explain/explain.json");
    let parts = all["parts_ps"].as_object().expect("parts").values().map(number).sum::<u64>();
    assert_eq!(parts, number(&all["total_ps"]));
    let path = project.text("out/case-explain/critical-path.csv");
    let spans = path.lines().skip(1).map(|row| {
        row.split(',').nth(3).and_then(|span| span.parse::<u64>().ok()).expect("a span")
    });
    assert_eq!(spans.sum::<u64>(), parts, "one step a replay, and all of its segments");
    let gap = &all["gap"];
    let others = gap["others_ms"].as_object().expect("others").values();
    let others: f64 = others.filter_map(Value::as_f64).sum();
    let beyond = gap["beyond_bound_ms"].as_f64().expect("a number");
    let total = gap["gap_ms"].as_f64().expect("a number");
    assert!((others + beyond - total).abs() < 1e-9, "{gap}");
    let findings = all["findings"].as_array().expect("findings").len();
    assert!(findings >= 3, "{all}");
}

#[test]
fn elasticities_are_differences_of_separate_runs() {
    let project = Project::new();
    let ran = project.run(&["explain", CASE, "--case", "lru", "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    let all = project.json("out/case-explain/explain.json");
    let step = |set: Option<String>| -> f64 {
        let set = set.map(|set| vec!["--set".to_owned(), set]).unwrap_or_default();
        let mut args = vec!["run", CASE, "-q"];
        args.extend(set.iter().map(String::as_str));
        let ran = project.run(&args);
        // Expectations are of the machine as it is.
        assert!(ran.code.is_some_and(|code| code < 2), "{}", ran.stderr);
        let summary = project.json("out/case/summary.json");
        let results = summary["results"].as_array().expect("results");
        let own = results.iter().find(|case| case["policy"] == "lru").expect("the case");
        own["step_ms"]["mean"].as_f64().expect("a number")
    };
    let now = step(None);
    let answers = all["elasticities"].as_array().expect("elasticities");
    let value = |answer: &Value| answer["elasticity"].as_f64().expect("a number");
    assert!(value(&answers[0]).abs() > 0.01, "something matters: {}", answers[0]);
    for answer in answers.iter().take(4).chain(answers.last()) {
        let tried = |side: usize| {
            let text = answer["tried"][side].as_str().expect("a value");
            step(Some(format!("{}={text}", answer["path"].as_str().expect("a path"))))
        };
        let (below, above) = (tried(0), tried(1));
        let change = answer["change"].as_f64().expect("a number");
        let difference = (above - below) / now / change;
        assert!((difference - value(answer)).abs() < 1e-9, "{answer}: {difference}");
        let steps: Vec<f64> =
            answer["step_ms"].as_array().expect("two").iter().filter_map(Value::as_f64).collect();
        assert_eq!(steps, [below, above], "{answer}");
    }
    for tried in all["tries"].as_array().expect("tries").iter().take(2) {
        let text = |key: &str| tried[key].as_str().expect("a text");
        let own = step(Some(format!("{}={}", text("path"), text("tried"))));
        assert_eq!(tried["step_ms"].as_f64(), Some(own), "{tried}");
    }
}

#[test]
fn names_that_are_formulas_do_not_reach_a_spreadsheet() {
    let project = Project::new();
    let mut trace = crate::common::trace_text::TraceText::tiny();
    trace.objects =
        trace.objects.replace("b.weight", "=cmd|' /C calc'!A0").replace("c.weight", "@x");
    trace.ops = trace.ops.replace("backward,mm,", "backward,+mm,");
    trace.write(&project.path("traces/tiny"));
    let ran = project.run(&["explain", CASE, "--case", "lru", "--change", "0"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let path = project.text("out/case-explain/critical-path.csv");
    for cell in path.lines().flat_map(|row| row.split(',')) {
        let cell = cell.trim_start_matches('"');
        assert!(!cell.starts_with(['=', '+', '-', '@']), "{cell}");
    }
    assert!(path.contains("'+mm"), "{path}");
    // Without re-runs there is no tornado.
    assert_eq!(project.names("out/case-explain").len(), FILES.len() - 2);
}

#[test]
fn what_cannot_be_explained_is_bad_input() {
    let project = Project::new();
    let ran = project.run(&["explain", CASE, "--case", "nobody"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("has no case \"nobody\"; choose from \"all\", \"adam\", \"lru\""));
    project.edit_scenario("share_of_peak(0.75)", "mib(4)");
    let ran = project.run(&["explain", CASE, "--case", "lru"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("ran out of memory"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no steps to explain"), "{}", ran.stderr);
    assert!(!project.path("out").exists(), "nothing is written");
}
