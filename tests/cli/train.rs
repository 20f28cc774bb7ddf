//! `train-policy`: what it writes and prints, and what is said of scenarios that cannot be trained.

use crate::common::{CASE, Project};

const LRU: &str = "Lru(spill: [\"dram\"])";

/// The project's scenario with a case to train.
fn project() -> Project {
    let project = Project::new();
    project.edit_scenario(LRU, "Scored(spill: [\"dram\"])");
    project
}

const SHORT: [&str; 6] = ["train-policy", CASE, "--generations", "2", "--population", "6"];

#[test]
fn weights_are_written_read_again_and_marked_as_learned() {
    let project = project();
    let ran = project.run(&SHORT).ends_with(0);
    let ran = ran.shows(&["2 generations of 6, seed 1", "before", "after", "out/case/weights.ron"]);
    assert_eq!(ran.stderr, "", "no bar where there is no terminal");
    assert_eq!(project.names("out/case"), ["weights.ron"]);
    project.run(&["check", "out/case/weights.ron"]).ends_with(0);
    project.edit_scenario("Scored(spill", "Scored(weights: \"out/case/weights.ron\", spill");
    let json = project.run(&["run", CASE, "--format", "json"]).ends_with(0).json();
    let learned = |index: usize| json["results"][index]["learned"].as_bool().expect("a flag");
    assert_eq!([learned(0), learned(1), learned(2)], [false, false, true]);
    assert_eq!(json["results"][2]["policy"], "scored");
    project.run(&["run", CASE]).ends_with(0).shows(&["learned"]);
}

#[test]
fn threads_and_repetition_change_nothing_and_the_seed_does() {
    let project = project();
    let written = |more: &[&str]| {
        let args = [&SHORT, more, &["--quiet", "--out", "w.ron"]].concat();
        assert_eq!(project.run(&args).ends_with(0).stdout, "");
        std::fs::read(project.path("w.ron")).expect("it was written")
    };
    let first = written(&["--jobs", "1"]);
    assert_eq!(first, written(&["--jobs", "3"]));
    assert_eq!(first, written(&[]));
    assert_ne!(first, written(&["--seed", "2"]));
}

#[test]
fn what_cannot_be_trained_ends_with_2_and_writes_nothing() {
    let plain = Project::new();
    plain.run(&SHORT).ends_with(2).says(&["no case uses Scored", "add (name: \"scored\""]);
    assert!(plain.files("out").is_empty());
    let project = project();
    let small = ["--set", "policies.2.hbm=kib(1)"];
    let args = [&SHORT as &[&str], &small].concat();
    project.run(&args).ends_with(2).says(&["runs out of memory", "give it more memory"]);
    for wrong in [
        &["train-policy"] as &[&str],
        &["train-policy", "nowhere.ron"],
        &["train-policy", CASE, "--generations", "0"],
        &["train-policy", CASE, "--population", "3"],
        &["train-policy", CASE, "--seed", "-1"],
        &["train-policy", CASE, "--jobs", "0"],
    ] {
        project.run(wrong).ends_with(2);
    }
    assert!(project.files("out").is_empty());
    project.write(
        "w.ron",
        "Weights(schema: 1, policy: \"Scored\", about: \"x\", weights: {\"x\": 1})",
    );
    project.run(&["check", "w.ron"]).ends_with(2).says(&["w.ron:1:", "no feature `x`"]);
}
