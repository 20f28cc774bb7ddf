//! What a sweep runs: no case twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::traces::read_traces;
use tiersim_models::results::{CaseRecord, Figures};
use tiersim_sim::run::{CaseRunner, Options};
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

/// Shares of whole modules: many points are one placement. Each has what it would have alone.
#[test]
fn points_that_come_to_the_same_run_share_it_and_say_what_they_say_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder");
    let set = |path: &str, value: &str| (path.to_owned(), value.to_owned());
    let axes = [
        set("sweep.axes.0.values", "range(from: 0.7, to: 0.712, step: 0.001)"),
        set("sweep.axes.1.values", "list([0.2, 0.288])"),
    ];
    let sweep = read_sweep(&root.join("scenarios/gpt2-threshold-sweep.ron"), &axes)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let scenarios = sweep.points.iter().map(|point| &point.scenario);
    let traces = read_traces(scenarios.chain([&sweep.base])).expect("they are read");
    let options = Options { bound_curve: false, ..Options::default() };
    let run = run_sweep(&sweep, &traces, String::new(), options, || {}).expect("it runs");
    assert_eq!(run.results.len(), 13 * 2 * 2);
    let bench = CaseRunner::new(&sweep.base, traces.of(&sweep.base), options).expect("it runs");
    for (result, point) in run.results.iter().zip(&sweep.points) {
        let alone = bench.run(&point.scenario.cases[0], options).expect("it runs");
        let words = |case: &CaseRecord| {
            let CaseRecord { label, details, params, bound_by, placement, .. } = case;
            format!("{label} {details} {params:?} {bound_by} {placement:?} {:?}", case.economics)
        };
        assert_eq!(words(result), words(&alone));
        assert_eq!((result.bound_step, result.hbm_budget), (alone.bound_step, alone.hbm_budget));
        let of = |case: &CaseRecord| {
            let figures = case.outcome.figures().expect("it fits");
            (figures.steps.clone(), figures.peak.clone(), figures.events, figures.split.clone())
        };
        assert_eq!(of(result), of(&alone), "{}", result.label);
    }
    let each = run.results.iter().filter_map(|result| result.outcome.figures());
    let each: BTreeSet<*const Figures> = each.map(std::ptr::from_ref).collect();
    // 148 modules own weights: of thirteen shares some are the same number of them.
    assert!((2 * 2 * 2..13 * 2).contains(&each.len()), "{} runs", each.len());
}
