//! What a sweep runs: no case twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_models::results::{Figures, RunRecord};
use tiersim_sim::run::Options;
use tiersim_sim::sweep::{count, run_sweep};

/// Points of a sweep over one axis, and what it runs.
fn points(values: &str, path: &str) -> (usize, usize) {
    let text = format!(
        "Scenario(schema: 2, about: \"a small model\", hardware: \"h100-sxm-pcie5\", \
         workload: Model(card: (family: gpt2, layers: 3, hidden: 128, ffn: 512, heads: 4, vocab: 500, \
         positions: 128), precision: bf16, mode: train(batch: 8, sequence: 64), \
         time: roofline(precision: \"bf16\"), repeat: 1, warmup: 0), policies: [\
         (name: \"all\", policy: AllHbm), (name: \"lru\", policy: Lru(), hbm: gib(1)), \
         (name: \"swept\", policy: Lru(), hbm: gib(2))], \
         sweep: (axes: [(name: \"axis\", path: \"{path}\", values: {values})]))"
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jobs-{path}.ron"));
    fs::write(&file, text).expect("it can be written");
    let sweep = read_sweep(&file, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    (sweep.points.len(), count(&sweep))
}

#[test]
fn a_case_that_no_axis_touches_runs_once() {
    // Four budgets of one case, and each of the two others once.
    let budgets = "choices([(\"1\", \"gib(1)\"), (\"2\", \"gib(2)\"), (\"3\", \"gib(3)\"), (\"4\", \"gib(4)\")])";
    assert_eq!(points(budgets, "policies.2.hbm"), (4, 4 + 2));
    // A machine and a batch touch every case.
    let machines = "choices([(\"shared\", \"\\\"h100-pcie5-shared\\\"\"), (\"separate\", \"\\\"h100-sxm-pcie5\\\"\")])";
    assert_eq!(points(machines, "hardware"), (2, 2 * 3));
    assert_eq!(points("list([8, 16])", "workload.mode.batch"), (2, 2 * 3));
}

/// Every point along the thresholds of the shipped sweep, with these values in place of its own:
/// each case simulated, and what comes to the same run once.
fn each_and_shared(overrides: &[(&str, &str)]) -> [RunRecord; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let axes = [
        ("sweep.axes.0.values", "range(from: 0.7, to: 0.712, step: 0.001)"),
        ("sweep.axes.1.values", "list([0.2, 0.288])"),
    ];
    let set = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
    let overrides: Vec<_> = axes.iter().chain(overrides).map(set).collect();
    let sweep = read_sweep(&root.join("scenarios/gpt2-threshold-sweep.ron"), &overrides)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let scenarios = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(scenarios.chain([&sweep.base])).expect("they are read");
    [false, true].map(|share| {
        let options = Options { share, ..Options::default() };
        run_sweep(&sweep, &traces, String::new(), options, &()).expect("it runs")
    })
}

/// How many simulations a record rests on.
fn simulated(run: &RunRecord) -> usize {
    let each = run.results.iter().filter_map(|result| result.outcome.figures());
    let each: BTreeSet<*const Figures> = each.map(std::ptr::from_ref).collect();
    each.len()
}

/// Shares of whole modules: many points are one placement. Each has what it would have alone, to
/// the last letter of all that reports are made of.
#[test]
fn points_that_come_to_the_same_run_share_it_and_say_what_they_say_alone() {
    let [each, shared] = each_and_shared(&[]);
    assert_eq!(each.results.len(), 13 * 2 * 2);
    assert_eq!(simulated(&each), each.results.len());
    // 148 modules own weights: of thirteen shares some are the same number of them.
    let runs = simulated(&shared);
    assert!((2 * 2 * 2..13 * 2).contains(&runs), "{runs} runs");
    assert_eq!(format!("{each:#?}"), format!("{shared:#?}"));
}

/// By bytes, moved in pieces, and where it does not fit.
#[test]
fn what_is_shared_is_the_same_for_other_counts_pieces_and_budgets() {
    let ways: [&[(&str, &str)]; 3] = [
        &[("policies.0.policy.by", "bytes"), ("policies.0.hbm", "mib(3000)")],
        &[("policies.0.chunk", "mib(4)"), ("workload.jitter", "0.1")],
        &[("policies.0.hbm", "mib(2480)")],
    ];
    let mut full = Vec::new();
    for overrides in ways {
        let [each, shared] = each_and_shared(overrides);
        assert!(simulated(&shared) < simulated(&each), "{overrides:?}");
        assert_eq!(format!("{each:#?}"), format!("{shared:#?}"), "{overrides:?}");
        full.push(each.results.iter().filter(|case| case.outcome.figures().is_none()).count());
    }
    assert_eq!(full[..2], [0, 0], "these fit");
    assert!((1..13 * 2 * 2).contains(&full[2]), "some points do not fit and some do: {full:?}");
}
