//! `to plan`: what a policy decides of every op. That whoever follows it has the same run is tested
//! in `tests/tests/noted.rs` and in `python/tests/test_policy.py`.

use crate::common::*;

const SCENARIO: &str = "scenarios/tiny-llama-lru.ron";
const CASE: &str = "LRU 50 %";
/// Steps of the trace.
const STEPS: u64 = 2;

/// What the plan fetches in its last replay is what the case's run moves towards HBM in one.
#[test]
fn a_plan_moves_what_its_run_moves() {
    let project = Project::shipped();
    let plan = project.run(&["to", "plan", SCENARIO, "--case", CASE]).ends_with(0).json();
    let run = ["run", SCENARIO, "--format", "json", "--no-png", "--no-bound-curve"];
    let summary = project.run(&run).ends_with(0).json();
    let results = summary["results"].as_array().expect("results");
    let case = results.iter().find(|case| case["label"] == CASE).expect("the case");
    let step = plan["step_ps"].as_f64().expect("a step");
    assert_eq!(step / 1e9, case["step_ms"]["mean"].as_f64().expect("a step"));
    assert_eq!((&plan["policy"], &plan["lookahead"]), (&"lru".into(), &"past".into()));
    assert_eq!(plan["repeats"], true, "the replays that are measured are alike");
    let replays = plan["replays"].as_array().expect("replays");
    let ops = replays.last().expect("a replay")["ops"].as_array().expect("ops");
    let actions = ops.iter().flat_map(|op| op["do"].as_array().expect("actions"));
    let fetched = actions.filter(|action| action[0] == "fetch").map(|action| {
        let named = &plan["objects"][action[1].to_string()];
        named["bytes"].as_u64().expect("what is moved is named")
    });
    let fetched: u64 = fetched.sum();
    let moved = case["moved_bytes"]["dram->hbm"].as_u64().expect("bytes of a step");
    assert!(fetched > 0);
    assert_eq!(fetched, STEPS * moved);
}

#[test]
fn what_has_no_plan_is_refused() {
    let project = Project::shipped();
    let [full, torch] =
        ["hbm=share_of_peak(0.01)", "allocators=[(tier: \"hbm\", model: caching())]"];
    for (set, says) in [(full, "runs out of memory: there is no plan"), (torch, "an allocator")] {
        let set = format!("policies.{CASE}.{set}");
        let words = ["to", "plan", SCENARIO, "--case", CASE, "--set", &set];
        let ran = project.run(&words).ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
    for (scenario, case, says) in [
        ("numa-wrong-node", "near", "a case without `numa` and `host_update`"),
        ("llama-2-7b-zero-offload-placement", "optimizer in DRAM", "ops on the CPU move objects"),
        ("pressure-dynamic-batch", "2 to 8, balanced", "write a plan"),
    ] {
        let file = format!("scenarios/{scenario}.ron");
        let ran = project.run(&["to", "plan", &file, "--case", case]).ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
}

/// Requests are served once: there is no replay to compare with.
#[test]
fn a_run_of_one_replay_says_that_it_is_one() {
    let project = Project::shipped();
    let words =
        ["to", "plan", "scenarios/kv-tiering-requests.ron", "--case", "LRU to CXL and NVMe"];
    let ran = project.run(&words).ends_with(0).says(&["the run is one replay"]);
    assert_eq!(ran.json()["repeats"], false);
}
