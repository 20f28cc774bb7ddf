//! What one command writes, another reads back with the same meaning; and nothing that is written
//! depends on where the project lies.

use crate::common::*;

/// Figures of a result: all of it but the names of the policy and of the case, and what it ranked
/// by or followed.
fn figures(mut result: Value) -> Value {
    for name in ["policy", "label", "details", "hints", "statistics"] {
        result[name].take();
    }
    result
}

/// A policy that places modules, how it touches what is elsewhere, and the hints made from it.
#[track_caller]
fn check(project: &Project, scenario: &str, cut: &str, access: &str) {
    let placed = format!("policies.0.policy=AdamState(cut: {cut}, access: {access})");
    let hinted = format!("policies.1.policy=Hints(file: \"hints.json\", access: {access})");
    let hints = ["hints", scenario, "--policy", "placed", "--set", &placed];
    let ran = project.run(&hints).ends_with(0);
    let modules = ran.json();
    let printed = ran.stdout;
    let written = [&hints[..], &["--out", "scenarios/hints.json"]].concat();
    project.run(&written).ends_with(0);
    assert_eq!(project.files("scenarios")["hints.json"], printed.as_bytes());
    assert!(modules.as_object().unwrap().values().all(|tier| tier.is_string()), "{printed}");

    let run = ["run", scenario, "--set", &placed, "--set", &hinted, "--format", "json"];
    let json = project.run(&run).ends_with(0).json();
    let [first, second] = [0, 1].map(|case| json["results"][case].clone());
    assert_eq!((&first["policy"], &second["policy"]), (&"adam-state".into(), &"hints".into()));
    assert_eq!(figures(first), figures(second), "{cut}, {access}");
    // The run writes the hints of its first case that places modules: the same, but for the run
    // they are of.
    let name = scenario.trim_start_matches("scenarios/").trim_end_matches(".ron");
    let mut own = project.json(&format!("out/{name}/tier_hints.json"));
    assert_eq!(own["tiersim:fingerprint"], json["fingerprint"]);
    own["tiersim:fingerprint"] = modules["tiersim:fingerprint"].clone();
    assert_eq!(own, modules);
}

const POLICIES: &str = "[\n        (name: \"placed\", policy: AllHbm),\n        (name: \"hinted\", policy: AllHbm),\n    ]";

#[test]
fn hints_give_the_figures_of_the_policy_that_made_them() {
    let project = Project::new();
    let start = SCENARIO.find("policies: ").unwrap() + "policies: ".len();
    let end = SCENARIO.find("seed: ").unwrap();
    let text = format!("{}{POLICIES},\n    {}", &SCENARIO[..start], &SCENARIO[end..]);
    let expect = text.find("expect: ").unwrap();
    project.write("scenarios/hinted.ron", format!("{}expect: [],\n)\n", &text[..expect]));
    for cut in [
        "shares(hbm: 0.3, cpu: 0.4)",
        "shares(hbm: 0.0, cpu: 0.0)",
        "cumulative(hbm: 0.5, cpu: 1.0)",
    ] {
        for access in [
            "migrate(prefetch_ops: 0)",
            "migrate(prefetch_ops: 3)",
            "migrate(prefetch_ops: 100)",
            "in_place(charge: every_use)",
            "in_place(charge: module_output)",
            "in_place(charge: module_weights)",
        ] {
            check(&project, "scenarios/hinted.ron", cut, access);
        }
    }
}

#[test]
fn hints_of_the_shipped_model_give_the_figures_of_the_policy_that_made_them() {
    let project = Project::shipped();
    let scenario = format!(
        "Scenario(schema: 2, about: \"hints\", hardware: \"h100-sxm-pcie5\", workload: Trace(path: \
         \"traces/gpt2-train-cpu\", time: roofline(precision: \"tf32\")), policies: {POLICIES})"
    );
    project.write("scenarios/hinted.ron", scenario);
    let cut = "shares(hbm: 0.3, cpu: 0.5)";
    check(&project, "scenarios/hinted.ron", cut, "migrate(prefetch_ops: 32)");
    check(&project, "scenarios/hinted.ron", cut, "in_place(charge: module_output)");
}

#[test]
fn no_output_depends_on_where_the_project_lies() {
    let [one, two] = [Project::shipped(), Project::shipped()];
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    one.run(&["run", scenario]).ends_with(0);
    // Another folder, another working directory, and the scenario named by an absolute path.
    let elsewhere = Project::empty();
    let path = two.path(scenario);
    let args = ["run", path.to_str().unwrap(), "--out", "somewhere/else"];
    elsewhere.run(&args).ends_with(0);
    let (first, second) = (one.files("out/gpt2-adam-tiering"), elsewhere.files("somewhere/else"));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(*bytes == second[name], "{name} differs");
        for project in [&one, &two, &elsewhere] {
            let root = project.root.to_str().unwrap().as_bytes();
            let leaks = bytes.windows(root.len()).any(|window| window == root);
            assert!(!leaks, "{name} says where the project lies");
        }
    }
}
