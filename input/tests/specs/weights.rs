//! Files of trained weights: what is read, and what is said of those that are wrong.

use crate::specs::project::{Project, assert_says, edited};
use tiersim_policies::recipe::Origin;
use tiersim_policies::zoo::scored::ScoredConfig;
use tiersim_policies::zoo::scored::features::Feature;

const FILE: &str = r#"// by hand
Weights(
    schema: 1,
    policy: "Scored",
    about: "what leaves first",
    weights: {
        "age": -0.5,
        "size": 2,
    },
)
"#;

fn scenario(policy: &str) -> String {
    edited("Lru(spill: [\"dram\", \"nvme\"])", policy)
}

/// What is said of [`FILE`] with `from` replaced by `to`.
#[track_caller]
fn says(from: &str, to: &str, expected: &[&str]) {
    assert!(FILE.contains(from), "the file has no {from:?}");
    let project = Project::new();
    project.write("scenarios/w.ron", FILE.replacen(from, to, 1));
    let problems = project.read(&scenario("Scored(weights: \"w.ron\")")).expect_err("it is wrong");
    assert_says(&problems, expected);
}

#[test]
fn a_file_is_read_and_numbers_of_the_scenario_go_first() {
    let project = Project::new();
    project.write("scenarios/w.ron", FILE);
    let read = project.read(&scenario("Scored(weights: \"w.ron\", size: -3, once: 0.25)"));
    let scenario = read.unwrap_or_else(|problems| panic!("{problems}"));
    let case = scenario.cases.iter().find(|case| case.label == "lru").expect("the case");
    let config: &ScoredConfig = case.policy.get().expect("the policy");
    let [age, size, once] =
        [Feature::Age, Feature::Size, Feature::Once].map(|f| config.weights.get(f));
    assert_eq!((age, size, once, config.origin), (-0.5, -3.0, 0.25, Origin::Learned));
    assert_eq!(config.spill.len(), 2, "left out: every tier but the first");
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_place() {
    says("schema: 1", "schema: 2", &["w.ron:3:13: unknown schema", "reads schema 1"]);
    says("\"Scored\"", "\"Lru\"", &["w.ron:4:13: no policy of this name has weights", "Scored"]);
    says("\"what leaves first\"", "\" \"", &["w.ron:5:12: `about` may not be empty"]);
    says(
        "\"age\"",
        "\"ages\"",
        &["w.ron:7:", "Scored has no feature `ages`", "did you mean `age`?"],
    );
    says("-0.5", "NaN", &["w.ron:7:16: a weight must lie between -1000000 and 1000000"]);
    says("-0.5", "-inf", &["w.ron:7:16: a weight must lie"]);
    says("-0.5", "1e7", &["w.ron:7:16: a weight must lie"]);
    says("-0.5", "\"much\"", &["w.ron:7:16"]);
    says("\"size\"", "\"age\"", &["w.ron:8:9: key `age` is given twice"]);
    says("schema: 1,", "schema: 1, colour: 2,", &["has no field `colour`"]);
    says("    weights: {", "    wieghts: {", &["wieghts"]);
    says("// by hand\n", "// \u{202e}\n)", &["w.ron:"]);
    let trained = |before: &str| {
        format!(
            "about: \"x\", trained: (scenario: \"s\", fingerprint: \"f\", workload: \"w\", cases: [], \
             seed: 1, generations: 1, population: 4, before: {before}, after: 1.0),"
        )
    };
    says("about: \"what leaves first\",", &trained("NaN"), &["a slowdown must lie between"]);
    says("about: \"what leaves first\",", &trained("1, best: 2"), &["has no field `best`"]);
}

#[test]
fn large_deep_and_missing_files_are_refused() {
    let check = |text: &str, expected: &str| {
        let project = Project::new();
        project.write("scenarios/w.ron", text);
        let problems = project.read(&scenario("Scored(weights: \"w.ron\")")).expect_err("wrong");
        assert_says(&problems, &[expected]);
    };
    check("", "w.ron");
    check("[]", "w.ron");
    check(&" ".repeat(2 << 20), "at most 1048576 bytes");
    check(&"(weights:".repeat(100_000), "w.ron");
    let many: String = (0..30_000).map(|at| format!("\"f{at}\": 1, ")).collect();
    check(&FILE.replace("\"age\"", &format!("{many}\"age\"")), "Scored has no feature `f0`");
    let at = |policy: &str, expected: &[&str]| {
        let problems = Project::new().read(&scenario(policy)).expect_err("it is wrong");
        assert_says(&problems, expected);
    };
    at("Scored(weights: \"w.ron\")", &["no such file or folder"]);
    at("Scored(weights: \"../../w.ron\")", &["leads out of the project"]);
    at("Scored(weights: \"/etc/passwd\")", &["must be relative"]);
    at("Scored(weights: 3)", &["a string in double quotes must stand here"]);
    at("Scored(age: NaN)", &["it must lie between -1000000 and 1000000"]);
    at("Scored(ages: 1.0)", &["did you mean `age`?"]);
}
