//! Long runs by their beginning: the interval that is stated against longer runs, simulated to
//! their end; what is refused; and what a summary says.

use crate::common::*;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::traces::read_traces;
use tiersim_models::results::CaseRecord;
use tiersim_sim::run::{CaseRunner, Options};

/// A step of a model of one block whose optimizer state comes and goes, with times that are 20 %
/// off; `horizon` stands for a line of the workload.
fn scenario(repeat: u32, horizon: &str, seed: u64) -> String {
    format!(
        "Scenario(
    schema: 2,
    about: \"a small step that varies\",
    hardware: \"h100-sxm-pcie5\",
    workload: Model(
        card: (family: gpt2, layers: 1, hidden: 256, ffn: 1024, heads: 4, vocab: 512),
        precision: bf16,
        mode: train(batch: 1, sequence: 128),
        time: roofline(precision: \"bf16\"),
        repeat: {repeat},
        warmup: 2,
        jitter: 0.2,
        {horizon}
    ),
    policies: [(name: \"offloaded\", policy: ZeroOffload(optimizer: \"dram\", gradients: \"hbm\"))],
    seed: {seed},
)
"
    )
}

fn ran(project: &Project, text: &str) -> CaseRecord {
    project.write("scenarios/long.ron", text);
    let scenario = read_scenario(&project.path("scenarios/long.ron"), &[]).expect("it is good");
    let traces = read_traces([&scenario]).expect("the trace is made");
    // The rules are checked by other tests, at far fewer events.
    let options = Options { audit: false, bound_curve: false, ..Options::default() };
    let runner = CaseRunner::new(&scenario, traces.of(&scenario), options).expect("it starts");
    runner.run(&scenario.cases[0], options).expect("it runs")
}

#[test]
fn longer_runs_lie_within_the_stated_interval_as_often_as_is_said() {
    const SEEDS: u64 = 200;
    let project = Project::new();
    let (mut stated, mut within) = (0, 0);
    for seed in 1..=SEEDS {
        let sample = ran(&project, &scenario(82, "horizon: 602,", seed));
        let long = sample.long_run.as_ref().expect("it is the beginning of one");
        assert_eq!((long.steps, long.simulated), (600, 80));
        let Ok(of) = long.answer else { continue };
        stated += 1;
        let whole = ran(&project, &scenario(602, "", seed));
        let steps = &whole.outcome.figures().expect("it fits").steps;
        let truth = steps.total() as f64 / steps.len() as f64;
        within += u32::from((of.mean - truth).abs() <= of.half_width);
    }
    assert!(stated >= 190, "{stated} of {SEEDS} stated");
    let coverage = f64::from(within) / f64::from(stated);
    assert!(coverage >= 0.93, "{within} of {stated} within the interval");
}

#[test]
fn the_figures_of_the_sample_are_those_of_a_run_without_a_horizon() {
    let project = Project::new();
    let mut sample = ran(&project, &scenario(50, "horizon: 1000000,", 3));
    let plain = ran(&project, &scenario(50, "", 3));
    assert!(sample.long_run.take().is_some());
    assert_eq!(sample, plain);
}

#[test]
fn a_summary_a_table_and_expectations_say_what_is_stated() {
    let project = Project::shipped();
    let expect = "expect: [long_error(case: \"offloaded\", at_most: 0.05), \
                  long_step(case: \"offloaded\", at_least: us(1))],\n)";
    let text = scenario(102, "horizon: 1000000002,", 1);
    let text = text.trim_end().trim_end_matches(')').to_owned() + expect;
    project.write("scenarios/long.ron", &text);
    let ran = project.run(&["run", "scenarios/long.ron", "--out", "o"]).ends_with(0);
    ran.shows(&[
        "long run",
        "1000000000 steps, 100 of them simulated: mean step",
        "95 % confidence",
    ]);
    let long = &project.json("o/summary.json")["results"][0]["long_run"];
    assert_eq!((&long["steps"], &long["simulated_steps"]), (&1_000_000_000.into(), &100.into()));
    assert_eq!(long["extended_steps"], 999_999_900);
    let [mean, half, hours] =
        ["mean_step_ms", "half_width_ms", "hours"].map(|key| long[key].as_f64().expect("a number"));
    assert!(half > 0.0 && half < 0.05 * mean, "{mean} {half}");
    assert!((hours - mean * 1e9 / 3.6e6).abs() < 1e-9 * hours);
    assert!(long["seen"].as_array().is_some_and(|seen| !seen.is_empty()), "{long}");
    let page = page("docs/reference/summary.md");
    let keys = long
        .as_object()
        .expect("a map")
        .keys()
        .chain(long["seen"][0].as_object().expect("a map").keys());
    let missing: Vec<&String> = keys.filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/summary.md lacks {missing:?}");

    // Too few replays for an interval: an expectation of it does not hold.
    let few = text.replace("repeat: 102", "repeat: 30");
    project.write("scenarios/few.ron", few);
    project.run(&["run", "scenarios/few.ron", "--out", "f"]).ends_with(1);
    let few = &project.json("f/summary.json")["results"][0]["long_run"];
    assert_eq!((&few["extended_steps"], &few["mean_step_ms"]), (&0.into(), &Value::Null));
    let refused = few["refused"].as_str().expect("a reason");
    assert!(refused.starts_with("28 replays are measured, and it takes 40"), "{refused}");
    for (wrong, says) in [("horizon: 10", "`horizon` must lie between"), ("horizon: 0", "between")]
    {
        let wrong = text.replace("horizon: 1000000002", wrong);
        project.write("scenarios/wrong.ron", wrong);
        project.run(&["run", "scenarios/wrong.ron"]).ends_with(2).says(&["wrong.ron:", says]);
    }
}

#[test]
fn exchanges_of_a_ring_hide_behind_attention_until_the_link_is_slow() {
    let project = Project::shipped();
    project.write(
        "scenarios/ring.ron",
        "Scenario(schema: 2, about: \"a ring of 8\", hardware: \"dgx-h100\", workload: Model(
            model: \"llama-2-7b\", precision: bf16,
            mode: train(batch: 1, sequence: 65536, checkpointing: full, loss: fused,
                parallel: (context: 8), zero: (stage: 3)),
            time: roofline(precision: \"bf16\"), repeat: 2,
        ), policies: [(name: \"all in HBM\", policy: AllHbm)])",
    );
    let step = |rate: &str| {
        let sets =
            ["read", "write"].map(|way| format!("hardware.links.nvlink.{way}=times({rate})"));
        let args = ["run", "scenarios/ring.ron", "--format", "json", "--set"];
        let ran = project.run(&[&args[..], &[&sets[0], "--set", &sets[1]]].concat()).ends_with(0);
        let json = ran.json();
        let result = &json["results"][0];
        let of = |value: &Value| value.as_f64().expect("a number");
        let exposed = result["split_ms"]["collectives"].as_f64().unwrap_or(0.0);
        (of(&result["step_ms"]["mean"]), exposed)
    };
    let [fast, slow, slowest] = ["1", "0.1", "0.01"].map(step);
    assert!(fast.1 < 0.02 * fast.0, "hidden: {fast:?}");
    assert!(slow.1 > 0.5 * slow.0 && slow.0 > 2.0 * fast.0, "paid: {slow:?}");
    // Ten times the bytes' time, and what is computed beside them.
    assert!(slowest.1 > 9.5 * slow.1, "{slow:?} {slowest:?}");
}
