//! Files of trained weights: what is read, and that large and deep ones are refused.

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
fn large_and_deep_files_are_refused() {
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
}
