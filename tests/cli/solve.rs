//! `solve` finds what a fine grid of single runs finds, and says what it could not.

use crate::common::*;

/// A small scenario that runs in a moment: a recorded step under paging.
const SMALL: &str = r#"Scenario(
    schema: 2,
    about: "how much of everything does a small step need?",
    hardware: "h100-sxm-pcie5",
    workload: Trace(path: "traces/tiny-llama-cpu", time: roofline(precision: "tf32"), repeat: 2, warmup: 1),
    policies: [
        (name: "lru", policy: Lru(spill: ["far"]), hbm: share_of_peak(0.6)),
        (name: "ahead", policy: LookAhead(layers: 2, spill: ["far"]), hbm: share_of_peak(0.8)),
    ],
)
"#;

struct Question {
    path: &'static str,
    unit: &'static str,
    range: (f64, f64),
    largest: bool,
    condition: &'static str,
    metric: &'static str,
    limit: f64,
}

/// Five questions, each about another kind of number.
const QUESTIONS: [Question; 5] = [
    Question {
        path: "policies.*.hbm",
        unit: "share_of_peak",
        range: (0.4, 1.2),
        largest: false,
        condition: "slowdown <= 2",
        metric: "slowdown",
        limit: 2.0,
    },
    Question {
        path: "hardware.links.pcie.read",
        unit: "gb_per_s",
        range: (4.0, 100.0),
        largest: false,
        condition: "slowdown <= 4",
        metric: "slowdown",
        limit: 4.0,
    },
    Question {
        path: "hardware.links.pcie.setup",
        unit: "us",
        range: (1.0, 100.0),
        largest: true,
        condition: "slowdown <= 5",
        metric: "slowdown",
        limit: 5.0,
    },
    Question {
        path: "hardware.compute.launch",
        unit: "us",
        range: (0.5, 40.0),
        largest: true,
        condition: "step <= 6",
        metric: "step_ms.mean",
        limit: 6.0,
    },
    Question {
        path: "hardware.tiers.hbm.bandwidth",
        unit: "gb_per_s",
        range: (50.0, 3000.0),
        largest: false,
        condition: "step <= 5",
        metric: "step_ms.mean",
        limit: 5.0,
    },
];

fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found.as_f64().unwrap_or(f64::INFINITY)
}

#[test]
fn solve_equals_a_fine_grid() {
    let project = Project::shipped();
    project.write("scenarios/small.ron", SMALL);
    for question in &QUESTIONS {
        let Question { path, unit, range: (from, to), largest, .. } = *question;
        let verb = if largest { "--maximize" } else { "--minimize" };
        let range = format!("{from}..{to}");
        let ran = project.run(&[
            "solve",
            "scenarios/small.ron",
            verb,
            path,
            "--unit",
            unit,
            "--range",
            &range,
            "--such-that",
            question.condition,
            "--case",
            "lru",
            "--format",
            "json",
            "--out",
            "s",
        ]);
        let solved: Value = serde_json::from_str(&ran.ends_with(0).stdout).expect("JSON");
        let answer = number(&solved, "answer.value");
        let step = (to - from) / 200.0;
        let axis = format!(
            "sweep: (axes: [(name: \"x\", path: \"{path}\", unit: \"{unit}\", \
             values: range(from: {from}, to: {to}, step: {step}))]),\n)\n"
        );
        let swept = format!("{}{axis}", &SMALL[..SMALL.rfind(')').expect("an end")]);
        project.write("scenarios/swept.ron", swept);
        project.run(&["sweep", "scenarios/swept.ron", "--out", "g", "-q"]).ends_with(0);
        let summary: Value =
            serde_json::from_str(&project.text("g/summary.json")).expect("a summary");
        let results = summary["results"].as_array().expect("a list");
        let own = results.iter().filter(|case| case["label"].as_str().unwrap().starts_with("lru"));
        let held: Vec<f64> = own
            .filter(|case| number(case, question.metric) <= question.limit)
            .map(|case| number(case, "params.x"))
            .collect();
        let grid = if largest {
            held.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        } else {
            held.iter().copied().fold(f64::INFINITY, f64::min)
        };
        assert!(grid > from && grid < to, "{path}: the grid's answer {grid} is an end");
        // Between the last point of the grid that does not hold and the first that does.
        let between = if largest { grid..=grid + step } else { grid - step..=grid };
        let near = between.contains(&answer);
        assert!(near, "{path}: solve has {answer}, the grid {grid} in steps of {step}");
        assert!(solved["monotone"].as_bool().unwrap(), "{path}");
        let beyond = number(&solved, "beyond.value");
        assert!((beyond - answer).abs() <= 0.001 * beyond.max(answer), "{path}: {beyond}");
    }
}

#[test]
fn a_question_that_means_nothing_is_refused() {
    let project = Project::shipped();
    project.write("scenarios/small.ron", SMALL);
    let solve = |more: &[&str]| {
        let mut all = vec!["solve", "scenarios/small.ron", "--out", "s"];
        all.extend(more);
        project.run(&all)
    };
    let hbm = ["--minimize", "policies.*.hbm", "--range", "900..1000", "--unit", "mib"];
    let with = |more: &[&'static str]| solve(&[&hbm[..], more].concat());
    with(&["--such-that", "slow <= 2"]).ends_with(2).says(&["no metric `slow`", "slowdown"]);
    with(&["--such-that", "slowdown"]).ends_with(2).says(&["compares two sides"]);
    with(&["--case", "none"]).ends_with(2).says(&["no such case", "\"lru\""]);
    let ran = solve(&["--minimize", "policies.lru.policy", "--such-that", "slowdown <= 2"]);
    ran.ends_with(2).says(&["say where with --range"]);
    let ran = solve(&["--minimize", "links.none.read", "--range", "1..2"]);
    ran.ends_with(2).says(&["there is no `links.none.read`"]);
    // What is missing for a metric is named, and no answer is a failure.
    let ran = with(&["--such-that", "cost_usd <= 1"]).ends_with(1);
    ran.says(&["no value of policies.*.hbm"]);
    let ran = with(&["--such-that", "ttft <= 1"]).ends_with(1);
    assert!(ran.stdout.contains("serves no requests"), "{}", ran.stdout);
}
