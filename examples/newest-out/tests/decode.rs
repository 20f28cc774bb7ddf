//! The policy in a run, and the page that explains how it is written.

use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::scenario::read::read_scenario_with;
use tiersim_input::traces::read_traces;
use tiersim_policies::zoo::Registry;
use tiersim_sim::expect::failures;
use tiersim_sim::run::{Options, run};

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(here().join("../../docs/howto/adding-a-policy.md")).expect("a page")
}

#[test]
fn scenarios_can_name_it_and_it_does_what_they_expect() {
    let registry = Registry::default().with(&[&newest_out::ENTRY]).expect("the name is free");
    let scenario = read_scenario_with(&here().join("scenario.ron"), &[], &registry);
    let scenario = scenario.expect("it is a scenario");
    let traces = read_traces([&scenario]).expect("it is generated");
    let print = "sha256:0".to_owned();
    let record = run(&scenario, traces.of(&scenario), print, Options::default(), || ());
    let record = record.expect("it runs");
    assert_eq!(failures(&scenario, &record), Vec::<String>::new());
    // What is not kept moves once a step, and the rest does not: with a fixed part of the weights
    // in HBM, about what exceeds the budget.
    let moved = |case: usize| {
        let figures = record.results[case].outcome.figures().expect("it fits");
        figures.moved.iter().map(|bytes| bytes.get()).sum::<u64>()
    };
    assert!(4 * moved(1) < moved(0), "{} of {}", moved(1), moved(0));
    let page = page();
    for case in &record.results {
        let figures = case.outcome.figures().expect("it fits");
        let names = record.of(case).channel_names();
        let into = names.iter().position(|name| name == "dram->hbm").expect("the host's link");
        let (step, moved) = (figures.mean_step(), figures.moved_per_step(into));
        let row = format!("| {} | {step} | {moved} |", case.policy);
        assert!(page.contains(&row), "the page lacks {row}");
    }
}

#[test]
fn the_page_shows_the_file_as_it_is() {
    let page = page();
    let code = fs::read_to_string(here().join("src/lib.rs")).expect("the policy");
    let (_, shown) = page.split_once("```rust\n").expect("code");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert_eq!(shown, code);
    assert!(page.contains(&command(Path::new("examples/newest-out/scenario.ron"))));
}

fn command(scenario: &Path) -> String {
    format!("cargo run --release -p newest-out --example tiersim -- run {}", scenario.display())
}
